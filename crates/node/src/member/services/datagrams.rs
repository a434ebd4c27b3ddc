//! Datagrams of QUIC that links carry: streams where no UDP passes.

use std::collections::BTreeMap;
use std::convert::Infallible;

use ringway_transport::MemberId;
use ringway_transport::quic::MemberDatagram;

use crate::link::LinkMessage;
use crate::member::core::Core;
use crate::member::counters::counters;
use crate::member::service::{Handled, Service};
use crate::state::StateError;

counters! {
    /// What this service counts.
    Counters {
        quic_datagrams_dropped,
    }
}

/// Gives the endpoint what has come for it. What it has to send the run loop takes to the links.
#[derive(Debug, Default)]
pub(in crate::member) struct Datagrams {
    counted: Counters,
}

impl Service for Datagrams {
    type Command = Infallible;

    fn start(_core: &mut Core) -> Result<Datagrams, StateError> {
        Ok(Datagrams::default())
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::Quic(bytes) = message else {
            return Handled::No;
        };
        let bytes = std::mem::take(&mut **bytes).into();
        if !core.network.take_datagram(MemberDatagram { member, bytes }) {
            self.counted.quic_datagrams_dropped += 1;
        }
        Handled::Yes
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
