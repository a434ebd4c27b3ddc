//! Whether members may have the list of members, and the list.

use ringway_transport::Signer as _;
use rusqlite::params;

use super::store::Store;
use super::{Authority, AuthorityError};
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::identity::Identity;
use crate::member_list::{Listed, sign_page};

/// Who may see who is in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// The ring's owner.
    #[default]
    Owner,
    /// Every member: names and roles.
    Members,
}

impl Listing {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Listing::Owner => "owner",
            Listing::Members => "members",
        }
    }
}

/// What members may learn of each other.
#[derive(Clone, Copy, Debug)]
pub struct MemberDirectory<'a> {
    store: &'a Store,
    root: &'a Identity,
}

impl MemberDirectory<'_> {
    /// Who may see who is in the ring.
    ///
    /// # Errors
    /// When the database fails.
    pub fn listing(&self) -> Result<Listing, AuthorityError> {
        let query = "SELECT listing FROM ring";
        let found: String = self
            .store
            .connection
            .query_row(query, [], |row| row.get(0))
            .map_err(self.store.fail())?;
        Ok(match found.as_str() {
            "members" => Listing::Members,
            _ => Listing::Owner,
        })
    }

    /// Changes that. It counts at once; what members have seen they know.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_listing(&self, listing: Listing) -> Result<(), AuthorityError> {
        let change = "UPDATE ring SET listing = ?1";
        let arguments = params![listing.as_str()];
        let changed = self.store.connection.execute(change, arguments);
        changed.map_err(self.store.fail())?;
        Ok(())
    }

    /// Page `page` of the list of members, for the holder of the certificate `shown`, who has
    /// proved to be that.
    pub(crate) fn page(&self, shown: &Certificate, page: u32) -> Result<Vec<u8>, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        if self.listing()? == Listing::Owner {
            return Err(refuse("the ring's owner gives no list of members"));
        }
        let ring = self.root.member();
        let valid = self.store.valid_certificates(&ring, unix_seconds())?;
        // A certificate that has been renewed is good as well: the key is the same.
        if !valid.iter().any(|valid| valid.member() == shown.member()) {
            return Err(refuse("who asks is no member any more"));
        }
        let listed = |certificate: &Certificate| Listed {
            name: certificate.name().clone(),
            role: certificate.role(),
        };
        let mut members: Vec<Listed> = valid.iter().map(listed).collect();
        members.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        Ok(sign_page(self.root, &members, page))
    }
}

impl Authority {
    /// What members may learn of each other.
    #[must_use]
    pub fn directory(&self) -> MemberDirectory<'_> {
        MemberDirectory {
            store: &self.store,
            root: &self.root,
        }
    }
}
