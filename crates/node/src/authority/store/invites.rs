//! Invites: who may still join, and what has become of them.

use ringway_transport::MemberId;
use rusqlite::{Connection, OptionalExtension as _, params};
use zeroize::Zeroizing;

use super::{Result, Store, Tables, immediate, is_taken, parsed, record, role_named};
use crate::authority::AuthorityError;
use crate::certificate::{Certificate, Name, Role};
use crate::clock::unix_seconds;
use crate::enrol::Refusal;
use crate::identity::noise_public;
use crate::invite::WORDS;
use crate::limits::SPOKEN_TRIES;

/// An unused invite.
#[derive(Clone, Debug, serde::Serialize)]
pub struct OpenInvite {
    /// The name that its user will have.
    pub name: String,
    /// Router or leaf.
    pub role: Role,
    /// First second at which it can no longer be used, Unix time.
    pub expires: u64,
    /// True if that has come.
    pub expired: bool,
    /// The number of its spoken form, if it has one.
    pub number: Option<u32>,
    /// Wrong tries at its spoken form.
    pub wrong_tries: u8,
    /// True if they were too many: the spoken form is good no more.
    pub burnt: bool,
}

/// An invite as stored.
#[derive(Debug)]
pub(crate) struct InviteEntry {
    pub(crate) id: [u8; 8],
    pub(crate) name: Name,
    pub(crate) role: Role,
    pub(crate) pre_shared_key: Zeroizing<[u8; 32]>,
    pub(crate) expires: u64,
    pub(crate) used_by: Option<MemberId>,
}

/// What has become of a new invite.
#[derive(Debug)]
pub(in crate::authority) struct Added {
    /// True if it replaces an unused one: so a lost one can be withdrawn.
    pub(in crate::authority) withdraws: bool,
    /// The number of the spoken form, if there is one.
    pub(in crate::authority) number: Option<u32>,
}

/// The invites: those that may be used, and what has become of the others.
#[derive(Clone, Copy, Debug)]
pub struct Invites<'a>(Tables<'a>);

impl<'a> Invites<'a> {
    pub(in crate::authority) fn of(tables: Tables<'a>) -> Invites<'a> {
        Invites(tables)
    }

    pub(in crate::authority) fn tables(&self) -> Tables<'a> {
        self.0
    }

    pub(in crate::authority) fn get(&self, id: &[u8; 8]) -> Result<Option<InviteEntry>> {
        let query = "SELECT name, role, psk, expires, used_by FROM invites WHERE id = ?1";
        self.0
            .connection
            .query_row(query, params![&id[..]], |row| {
                let role: String = row.get(1)?;
                let used_by: Option<[u8; 32]> = row.get(4)?;
                Ok(InviteEntry {
                    id: *id,
                    name: parsed(row, 0)?,
                    role: role_named(&role),
                    pre_shared_key: Zeroizing::new(row.get(2)?),
                    expires: row.get(3)?,
                    used_by: used_by.map(MemberId::new),
                })
            })
            .optional()
            .map_err(self.0.fail())
    }

    /// The invite with this id, if the holder of the X25519 key `remote` may still use it. A used
    /// one too: its user may repeat a join that was cut off.
    pub(crate) fn usable(
        &self,
        id: &[u8; 8],
        remote: &[u8; 32],
    ) -> std::result::Result<std::result::Result<InviteEntry, Refusal>, AuthorityError> {
        let Some(invite) = self.get(id)? else {
            return Ok(Err(Refusal::Unknown));
        };
        Ok(match invite.used_by {
            Some(user) if noise_public(&user) != Some(*remote) => Err(Refusal::Used),
            None if invite.expires <= unix_seconds() => Err(Refusal::Expired),
            _ => Ok(invite),
        })
    }

    /// Unused ones, oldest first, also those that have run out.
    ///
    /// # Errors
    /// When the database fails.
    pub fn open(&self) -> std::result::Result<Vec<OpenInvite>, AuthorityError> {
        let now = unix_seconds();
        let fail = self.0.fail();
        let query = "SELECT name, role, expires, number, wrong FROM invites WHERE used_by IS NULL ORDER BY expires, name";
        let mut statement = self.0.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let expires = row.get(2)?;
                let role: String = row.get(1)?;
                let wrong_tries = row.get(4)?;
                Ok(OpenInvite {
                    name: row.get(0)?,
                    role: role_named(&role),
                    expires,
                    expired: expires <= now,
                    number: row.get(3)?,
                    wrong_tries,
                    burnt: wrong_tries >= SPOKEN_TRIES,
                })
            })
            .map_err(&fail)?;
        Ok(rows.collect::<std::result::Result<_, _>>().map_err(fail)?)
    }

    /// Makes an unused one worthless; false if there is none for the name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn withdraw(&self, name: &str) -> std::result::Result<bool, AuthorityError> {
        Ok(withdraw(self.0.connection, name).map_err(self.0.fail())? > 0)
    }
}

impl Store {
    /// Stores a new invite; with a spoken form, if there are `words` for it.
    pub(in crate::authority) fn add_invite(
        &mut self,
        entry: &InviteEntry,
        words: Option<&[u8; WORDS]>,
    ) -> std::result::Result<Added, AuthorityError> {
        let fail = self.fail();
        // One transaction for the check and the entry: two commands at once cannot both get the
        // name.
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let now = unix_seconds();
        let name = entry.name.as_str();
        if is_taken(&transaction, name, now).map_err(&fail)? {
            return Err(AuthorityError::NameTaken(entry.name.clone()));
        }
        let withdrawn = withdraw(&transaction, name).map_err(&fail)?;
        let number: Option<u32> = match words {
            Some(_) => {
                let query = "UPDATE ring SET invites = invites + 1 RETURNING invites";
                let number = transaction.query_row(query, [], |row| row.get(0));
                Some(number.map_err(&fail)?)
            }
            None => None,
        };
        let psk: &[u8] = entry.pre_shared_key.as_ref();
        let words = words.map(|words| &words[..]);
        let role = entry.role.as_str();
        transaction
            .execute(
                "INSERT INTO invites (id, name, role, psk, expires, number, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![&entry.id[..], name, role, psk, entry.expires, number, words],
            )
            .map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        Ok(Added {
            withdraws: withdrawn > 0,
            number,
        })
    }

    /// Records a new member and spends its invite, both or neither.
    pub(in crate::authority) fn use_invite(
        &mut self,
        id: &[u8; 8],
        certificate: &Certificate,
        now: u64,
    ) -> Result<()> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        spend(&transaction, id, certificate).map_err(&fail)?;
        record(&transaction, certificate, now).map_err(&fail)?;
        transaction.commit().map_err(&fail)
    }
}

/// No other member can use the invite from now on.
pub(in crate::authority) fn spend(
    connection: &Connection,
    id: &[u8; 8],
    certificate: &Certificate,
) -> rusqlite::Result<()> {
    let query = "UPDATE invites SET used_by = ?2, psk = psk WHERE id = ?1 AND used_by IS NULL";
    let member = certificate.member();
    connection.execute(query, params![&id[..], &member.as_bytes()[..]])?;
    Ok(())
}

/// Deletes the unused invites for the name.
pub(in crate::authority) fn withdraw(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<usize> {
    let query = "DELETE FROM invites WHERE name = ?1 AND used_by IS NULL";
    connection.execute(query, params![name])
}
