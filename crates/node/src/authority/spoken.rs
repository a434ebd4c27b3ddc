//! Spoken invites at the authority: which one is meant, and how many wrong tries it has left.

use rusqlite::{OptionalExtension, params};
use zeroize::Zeroizing;

use super::AuthorityError;
use super::store::Invites;
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::enrol::Refusal;
use crate::invite::WORDS;
use crate::limits::SPOKEN_TRIES;

/// A spoken invite that may be tried.
#[derive(Debug)]
pub(crate) struct OpenSpoken {
    /// The invite in its long form.
    pub(crate) id: [u8; 8],
    /// What the words stand for.
    pub(crate) secret: Zeroizing<[u8; WORDS]>,
}

impl Invites<'_> {
    /// The invite with this number, if it may be tried.
    pub(crate) fn spoken(
        &self,
        number: u32,
    ) -> Result<Result<OpenSpoken, Refusal>, AuthorityError> {
        let Some(entry) = self.entry(number)? else {
            return Ok(Err(Refusal::Unknown));
        };
        let burnt = entry.wrong >= SPOKEN_TRIES;
        let expired = entry.expires <= unix_seconds();
        Ok(match entry.used {
            true if burnt || expired => Err(Refusal::Used),
            false if burnt => Err(Refusal::Burnt),
            false if expired => Err(Refusal::Expired),
            // A used one too, while its time lasts: its user may repeat a join that was cut off. No
            // other is let in.
            _ => Ok(entry.open),
        })
    }

    /// Counts a try, before anybody looks whether it is right: how many are left then, or none if
    /// there was none.
    pub(crate) fn charge_try(&self, number: u32) -> Result<Option<u8>, AuthorityError> {
        // One statement, so that tries at the same moment are counted one by one.
        let query =
            "UPDATE invites SET wrong = wrong + 1 WHERE number = ?1 AND wrong < ?2 RETURNING wrong";
        let tables = self.tables();
        let wrong: Option<u8> = tables
            .connection
            .query_row(query, params![number, SPOKEN_TRIES], |row| row.get(0))
            .optional()
            .map_err(tables.fail())?;
        Ok(wrong.map(|wrong| SPOKEN_TRIES.saturating_sub(wrong)))
    }

    /// The try that was counted last was right.
    pub(crate) fn refund_try(&self, number: u32) -> Result<(), AuthorityError> {
        let query = "UPDATE invites SET wrong = wrong - 1 WHERE number = ?1 AND wrong > 0";
        let tables = self.tables();
        let done = tables.connection.execute(query, params![number]);
        done.map_err(tables.fail())?;
        Ok(())
    }

    fn entry(&self, number: u32) -> Result<Option<Entry>, DatabaseError> {
        let query =
            "SELECT id, words, expires, used_by IS NOT NULL, wrong FROM invites WHERE number = ?1";
        let tables = self.tables();
        tables
            .connection
            .query_row(query, params![number], |row| {
                Ok(Entry {
                    open: OpenSpoken {
                        id: row.get(0)?,
                        secret: Zeroizing::new(row.get(1)?),
                    },
                    expires: row.get(2)?,
                    used: row.get(3)?,
                    wrong: row.get(4)?,
                })
            })
            .optional()
            .map_err(tables.fail())
    }
}

struct Entry {
    open: OpenSpoken,
    expires: u64,
    used: bool,
    wrong: u8,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::authority::store::Store;
    use crate::authority::{Authority, InitOptions, InviteOptions};
    use crate::certificate::Role;
    use crate::identity::Identity;

    /// What an authority has on disk that was made before there were spoken invites.
    const BEFORE: &str = "
        INSERT INTO ring VALUES (1, 'ring.test', '127.0.0.1:53', '127.0.0.1:7410', 4, 0, 1);
        INSERT INTO invites VALUES (x'0102030405060708', 'oslo', 'router', zeroblob(32), 9999999999, NULL);
    ";

    #[test]
    fn an_older_ring_gets_spoken_invites() {
        let folder = tempfile::tempdir().unwrap();
        let old = Store::before_spoken(&folder.path().join("authority.db"));
        old.execute_batch(BEFORE).unwrap();
        drop(old);
        Identity::load_or_create(&folder.path().join("root.key")).unwrap();
        let mut authority = Authority::open(folder.path()).unwrap();
        assert_eq!(authority.ring().group, usize::from(crate::limits::GROUP));
        assert!(
            authority
                .invites()
                .usable(&[1, 2, 3, 4, 5, 6, 7, 8], &[0; 32])
                .unwrap()
                .is_ok()
        );
        let options = InviteOptions {
            name: "alice".to_owned(),
            role: Role::Leaf,
            valid_for: Duration::from_secs(60),
            spoken: true,
        };
        let spoken = authority.invite(&options).unwrap().spoken().unwrap();
        assert!(spoken.starts_with("1-"), "{}", *spoken);
        let open = authority.invites().open().unwrap();
        let numbers: Vec<Option<u32>> = open.iter().map(|invite| invite.number).collect();
        assert_eq!(numbers, [Some(1), None]);
    }

    #[test]
    fn invite_numbers_never_repeat() {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions {
            domain: "ring.test".to_owned(),
            dns: "127.0.0.1:7453".parse().unwrap(),
            enrol: "127.0.0.1:7410".parse().unwrap(),
            successors: 4,
            group: 9,
            lifetime: crate::limits::CERTIFICATE_LIFETIME,
        };
        let mut authority = Authority::init(folder.path(), &options).unwrap();
        let mut options = InviteOptions {
            name: "alice".to_owned(),
            role: Role::Leaf,
            valid_for: Duration::from_secs(60),
            spoken: true,
        };
        authority.invite(&options).unwrap();
        let second = authority.invite(&options).unwrap().spoken().unwrap();
        assert!(second.starts_with("2-"), "{}", *second);
        assert_eq!(
            authority.invites().spoken(1).unwrap().unwrap_err(),
            Refusal::Unknown
        );
        options.name = "bob".to_owned();
        options.spoken = false;
        assert!(authority.invite(&options).unwrap().spoken().is_none());
        for number in [0, 1, 3] {
            assert_eq!(
                authority.invites().spoken(number).unwrap().unwrap_err(),
                Refusal::Unknown
            );
            assert_eq!(authority.invites().charge_try(number).unwrap(), None);
        }
        let left: Vec<Option<u8>> = (0..5)
            .map(|_| authority.invites().charge_try(2).unwrap())
            .collect();
        assert_eq!(left, [Some(2), Some(1), Some(0), None, None]);
        authority.invites().refund_try(2).unwrap();
        assert!(authority.invites().spoken(2).unwrap().is_ok());
        let used = "UPDATE invites SET used_by = zeroblob(32) WHERE number = 2";
        authority.store.connection.execute(used, []).unwrap();
        assert!(authority.invites().spoken(2).unwrap().is_ok());
        let over = "UPDATE invites SET expires = 1 WHERE number = 2";
        authority.store.connection.execute(over, []).unwrap();
        let refused = authority.invites().spoken(2).unwrap().unwrap_err();
        assert_eq!(refused, Refusal::Used);
    }
}
