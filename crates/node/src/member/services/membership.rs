//! Who is a member: the owner's statements, and this member's own certificate.

use std::collections::BTreeMap;

use ringway_overlay::Event as RingEvent;
use ringway_overlay::limits::MAX_STATEMENT;
use ringway_transport::MemberId;

use crate::certificate::Certificate;
use crate::link::LinkMessage;
use crate::member::core::{Core, Signal};
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

/// Something has changed.
#[derive(Debug)]
pub(in crate::member) enum Command {
    /// DNS has a newer statement of the ring's owner.
    Stated(Vec<u8>),
    /// Memberships may have ended.
    Revoked,
    /// This member's certificate is another, for the same key.
    Renewed(Box<Certificate>),
}

impl MemberHandle {
    /// DNS has a newer statement of the ring's owner: others are told.
    pub(crate) async fn stated(&self, statement: Vec<u8>) {
        self.tell(Command::Stated(statement)).await;
    }

    /// Memberships may have ended: links with those who are no longer good are to end.
    pub(crate) async fn memberships_changed(&self) {
        self.tell(Command::Revoked).await;
    }

    /// This member shows another certificate from now on, for the same key.
    pub(crate) async fn renewed(&self, certificate: Certificate) {
        self.tell(Command::Renewed(Box::new(certificate))).await;
    }
}

counters! {
    /// What this service counts.
    Counters {
        statements_too_long_to_spread,
    }
}

/// Spreads statements, and ends links with those who are no longer members.
#[derive(Debug, Default)]
pub(in crate::member) struct Membership {
    counted: Counters,
}

impl Membership {
    /// DNS has a newer statement of the owner: the others may not have asked yet, or get no answer.
    fn spread(&mut self, core: &mut Core, statement: &[u8]) {
        core.end_revoked();
        if let Some(chord) = &mut core.chord {
            if !chord.spread(statement) {
                self.counted.statements_too_long_to_spread += 1;
            }
            notify_leaves(core, statement);
        }
    }
}

/// The overlay leads to routers only.
fn notify_leaves(core: &mut Core, statement: &[u8]) {
    for leaf in core.links.members() {
        if core.is_leaf(&leaf) && core.links.is_up(&leaf) {
            core.send(&leaf, LinkMessage::Statement(statement.to_vec().into()));
        }
    }
}

/// A peer may have been off while the authority went to another address. Where it asks DNS it gets
/// no answer then, and statements spread when they are new only.
fn tell_contact(core: &mut Core, member: &MemberId) {
    let statement = core.directory.statement();
    let bytes = statement.as_bytes();
    if statement.contact().is_some() && bytes.len() <= MAX_STATEMENT {
        core.send(member, LinkMessage::Statement(bytes.to_vec().into()));
    }
}

impl Service for Membership {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<Membership, StateError> {
        Ok(Membership::default())
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        match command {
            Command::Stated(statement) => self.spread(core, &statement),
            Command::Revoked => {
                core.end_revoked();
                core.signal(Signal::MembershipsChanged);
            }
            Command::Renewed(certificate) => {
                core.links.renew_certificate(core.now, &certificate);
                core.membership.certificate = *certificate;
            }
        }
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(member) = event {
            tell_contact(core, &member);
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        _member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::Statement(bytes) = message else {
            return Handled::No;
        };
        // It is the owner's, by whichever member it comes.
        if core.directory.take_statement(bytes) {
            core.end_revoked();
        }
        Handled::Yes
    }

    fn on_ring(&mut self, core: &mut Core, event: &RingEvent) {
        if let RingEvent::Statement(statement) = event {
            tracing::info!("the ring's owner has stated something new, another router says");
            core.end_revoked();
            notify_leaves(core, statement);
        }
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
