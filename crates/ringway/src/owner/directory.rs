//! `ringway ring directory`: who may see who is in the ring.

use ringway_node::authority::{Authority, Listing, RingInfo};

use super::open;
use crate::cli::{DirectoryArg, DirectoryArgs};
use crate::context::Context;
use ringway_terminal::Failure;

/// Says so for a ring that was just founded.
pub(super) fn found(authority: Authority, who: DirectoryArg) -> Result<RingInfo, Failure> {
    authority.directory().set_listing(listing(who))?;
    Ok(authority.ring())
}

fn listing(who: DirectoryArg) -> Listing {
    match who {
        DirectoryArg::Owner => Listing::Owner,
        DirectoryArg::Members => Listing::Members,
    }
}

/// Shows or changes who may see who is in the ring.
pub(super) fn run(context: &Context, args: DirectoryArgs) -> Result<(), Failure> {
    let authority = open(context, args.folder.dir)?;
    if let Some(who) = args.who {
        authority.directory().set_listing(listing(who))?;
    }
    let now = authority.directory().listing()?;
    let object = serde_json::json!({ "directory": now });
    context
        .output
        .either("ringway.directory/1", &object, || match now {
            Listing::Owner => "owner: members know those that they have to do with".to_owned(),
            Listing::Members => "members: every member can list all names and roles".to_owned(),
        })
}
