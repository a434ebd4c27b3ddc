//! The messages that are stored until they are signed for.

use std::path::Path;
use std::sync::Arc;

use super::Keeping;
use crate::config::Config;
use crate::member::{Inboxes, MemberHandle};
use crate::message::{Messages, Setup};
use crate::state::StateError;

impl Keeping {
    /// Takes up the messages that an earlier run has left.
    pub(super) fn stored(
        &self,
        config: &Config,
        home: &Path,
        member: &MemberHandle,
        inboxes: &Inboxes,
    ) -> Result<Messages, StateError> {
        Messages::start(Setup {
            home: home.to_owned(),
            ring: self.membership.ring,
            identity: self.identity.clone(),
            directory: Arc::clone(&self.directory),
            member: member.clone(),
            mailroom: inboxes.stored.clone(),
            rules: config.messages.clone(),
        })
    }
}
