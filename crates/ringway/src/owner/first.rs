//! `ringway ring init --member`: the authority's own machine as the first member of its ring.

use std::net::SocketAddr;
use std::path::Path;

use ringway_node::authority::Authority;
use ringway_node::certificate::Name;
use ringway_node::enrol::{self, Joined};
use ringway_node::home;

use crate::acting::Acting;
use crate::context::Context;
use ringway_terminal::Failure;

/// The first member, a router.
pub(super) struct First {
    pub(super) name: String,
    /// Where other members reach it.
    pub(super) listen: SocketAddr,
}

impl First {
    /// What would keep it from joining is told before there is a ring.
    pub(super) fn check(&self, context: &Context) -> Result<(), Failure> {
        self.name
            .parse::<Name>()
            .map_err(|error| Failure::usage(format_args!("--member: {error}")))?;
        let listen = self.listen;
        if listen.ip().is_unspecified() || listen.port() == 0 {
            return Err(Failure::usage(format_args!(
                "--listen {listen}: other members cannot reach that; name an address of this machine"
            )));
        }
        let home = context.home()?;
        if home::config_path(&home).exists() {
            return Err(Failure::usage(format_args!(
                "`{}` is a member's home already: leave --member out, or name another home with --home",
                home.display()
            )));
        }
        Ok(())
    }

    /// Both sides are this machine: no secret and no question is needed between them.
    pub(super) fn join(&self, context: &Context, authority: &Path) -> Result<Joined, Failure> {
        let home = context.home()?;
        let request = {
            let _acting = Acting::owner_of(&home)?;
            enrol::request(&home, &self.name, None, Some(self.listen))?
        };
        let admitted = {
            let _acting = Acting::owner_of(authority)?;
            Authority::open(authority)?.admit(&request)?
        };
        let _acting = Acting::owner_of(&home)?;
        let ring = admitted.reply.ring();
        Ok(enrol::complete(&home, &admitted.reply, &ring)?)
    }
}
