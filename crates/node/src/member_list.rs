//! The owner's list of members: names and roles, which the authority gives to members where the
//! owner allows it (`ring directory members`).
//!
//! It goes over the enrolment channel, which a member opens with its own key, so no one else gets
//! it. It comes in pages, each signed by the ring's key.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::Signer;
use tokio::time::timeout;

use crate::certificate::{Certificate, Name, RingId, Role};
use crate::directory::Directory;
use crate::enrol;
use crate::identity::Identity;
use crate::limits::{LIST_KEPT, LIST_MEMBERS, LIST_PAGE, LIST_PAGE_BYTES, LIST_WAIT};
use crate::signed::{self, Signed};

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Body {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    /// Which page, from 0.
    #[n(2)]
    page: u32,
    /// Of how many.
    #[n(3)]
    pages: u32,
    /// Names, each with whether it is a router.
    #[n(4)]
    members: Vec<(String, bool)>,
}

impl signed::Body for Body {
    const CONTEXT: &'static [u8] = b"ringway member list";
    const MOST: usize = LIST_PAGE_BYTES;

    fn version(&self) -> u8 {
        self.version
    }
}

/// A member on the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: Name,
    pub(crate) role: Role,
}

/// A page of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Of how many.
    pub(crate) pages: u32,
    pub(crate) members: Vec<Listed>,
}

/// The bytes of page `page` of the list of `members`, signed; those past [`LIST_MEMBERS`] are left
/// out. A page past the last has none.
pub(crate) fn sign_page(owner: &dyn Signer, members: &[Listed], page: u32) -> Vec<u8> {
    let members = members.get(..LIST_MEMBERS).unwrap_or(members);
    let chunks = members.chunks(LIST_PAGE);
    let pages = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    let index = usize::try_from(page).unwrap_or(usize::MAX);
    let on_page = members.chunks(LIST_PAGE).nth(index).unwrap_or_default();
    let entry = |listed: &Listed| (listed.name.to_string(), listed.role == Role::Router);
    let body = Body {
        version: 1,
        ring: (*owner.member().as_bytes()).into(),
        page,
        pages,
        members: on_page.iter().map(entry).collect(),
    };
    Signed::sign(&body, owner)
}

/// Reads page `page`, if the ring's owner has signed it and it keeps to the bounds.
pub(crate) fn read_page(bytes: &[u8], ring: &RingId, page: u32) -> Option<Page> {
    let body = Signed::<Body>::decode(bytes)?.verify(ring).ok()?;
    let most = u32::try_from(LIST_MEMBERS / LIST_PAGE).unwrap_or(u32::MAX);
    let sound = *body.ring == *ring.as_bytes()
        && body.page == page
        && body.pages <= most
        && body.members.len() <= LIST_PAGE;
    let listed = |(name, is_router): (String, bool)| {
        let role = if is_router { Role::Router } else { Role::Leaf };
        let name = name.parse().ok()?;
        Some(Listed { name, role })
    };
    let members = body.members.into_iter().map(listed);
    Some(Page {
        pages: body.pages,
        members: members.collect::<Option<_>>()?,
    })
    .filter(|_| sound)
}

/// Where a member gets the list from, and what it got.
#[derive(Debug)]
pub(crate) struct MemberList {
    /// Knows where the authority is.
    pub(crate) directory: Arc<Directory>,
    pub(crate) ring: RingId,
    pub(crate) identity: Identity,
    pub(crate) got: Mutex<Got>,
}

/// What came, and when it was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Got {
    asked: Option<Instant>,
    members: Arc<Vec<Listed>>,
}

impl MemberList {
    /// The list, at most [`LIST_KEPT`] old where the authority answers within [`LIST_WAIT`]. Empty
    /// where the owner does not give it.
    pub(crate) async fn get(&self, own: &Certificate) -> Arc<Vec<Listed>> {
        let due = {
            let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
            let due = got.asked.is_none_or(|at| at.elapsed() >= LIST_KEPT);
            if due {
                got.asked = Some(Instant::now());
            }
            due
        };
        // Whatever fails: what was known before is as good as it gets.
        let asked = if due {
            timeout(LIST_WAIT, self.ask(own)).await.ok().flatten()
        } else {
            None
        };
        let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(members) = asked {
            got.members = Arc::new(members);
        }
        Arc::clone(&got.members)
    }

    async fn ask(&self, own: &Certificate) -> Option<Vec<Listed>> {
        let locator = self.directory.locator();
        // The first page says how many there are.
        let (mut all, mut page, mut pages) = (Vec::new(), 0, 1);
        while page < pages {
            let asking = enrol::list_page(&locator, &self.identity, &self.ring);
            let found = match asking.page(own, page).await {
                Ok(found) => found,
                Err(enrol::AskError::Refused(reason)) => {
                    tracing::debug!(reason, "the owner gives no list of members");
                    return Some(Vec::new());
                }
                Err(error) => {
                    tracing::debug!(%error, "the owner's list of members did not come");
                    return None;
                }
            };
            let found = read_page(&found, &self.ring, page)?;
            pages = found.pages;
            page += 1;
            all.extend(found.members);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(count: usize) -> Vec<Listed> {
        let one = |number: usize| Listed {
            name: format!("member-with-a-long-name-{number:08}")
                .parse()
                .unwrap(),
            role: if number.is_multiple_of(2) {
                Role::Router
            } else {
                Role::Leaf
            },
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn pages_have_all_members_within_bounds() {
        let owner = Identity::generate().unwrap();
        let members = listed(LIST_MEMBERS + 7);
        let mut found = Vec::new();
        for page in 0..8 {
            let bytes = sign_page(&owner, &members, page);
            assert!(bytes.len() <= LIST_PAGE_BYTES, "{}", bytes.len());
            let read = read_page(&bytes, &owner.member(), page).unwrap();
            assert_eq!(read.pages, 8);
            found.extend(read.members);
        }
        assert_eq!(found, members[..LIST_MEMBERS]);
        let past = sign_page(&owner, &members, 8);
        let past = read_page(&past, &owner.member(), 8).unwrap();
        assert!(past.members.is_empty());
    }

    #[test]
    fn forged_and_swapped_pages_are_refused() {
        let owner = Identity::generate().unwrap();
        let other = Identity::generate().unwrap();
        let bytes = sign_page(&owner, &listed(3), 0);
        assert!(read_page(&bytes, &owner.member(), 1).is_none());
        assert!(read_page(&bytes, &other.member(), 0).is_none());
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(
                read_page(&changed, &owner.member(), 0).is_none(),
                "byte {index}"
            );
        }
        let body = Body {
            version: 1,
            ring: (*owner.member().as_bytes()).into(),
            page: 0,
            pages: 9,
            members: vec![("oslo".to_owned(), true)],
        };
        let most = u32::try_from(LIST_MEMBERS / LIST_PAGE).unwrap();
        let with = |body: &Body| read_page(&Signed::sign(body, &owner), &owner.member(), 0);
        assert!(with(&body).is_none(), "too many pages");
        let body = Body {
            pages: most,
            ..body
        };
        assert!(with(&body).is_some());
        let body = Body {
            members: vec![("no name\x1b".to_owned(), true)],
            ..body
        };
        assert!(with(&body).is_none());
    }
}
