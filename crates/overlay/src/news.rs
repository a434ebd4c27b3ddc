//! What the ring's owner states to all. A member that receives it first sends it to its group and
//! to a member of each finger, and so does each that receives it for the first time. This crate
//! does not read it: [`Credentials::take_statement`](crate::Credentials::take_statement) returns
//! whether it is genuine and new.

use crate::context::Cx;
use crate::event::Event;
use crate::key::RingKey;
use crate::known::Known;
use crate::message::Message;
use crate::output::Output;

/// Takes in what `from` says that the ring's owner states.
pub(crate) fn handle_statement(
    cx: &mut Cx<'_>,
    known: Known<'_>,
    from: RingKey,
    statement: Vec<u8>,
) {
    let Some(credentials) = cx.trust.credentials_mut() else {
        return;
    };
    if credentials.take_statement(&statement) {
        let keys = known.near_and_far(cx.rng).into_iter();
        spread(cx.out, keys.filter(|key| *key != from), &statement);
        cx.emit(Event::Statement(statement));
    }
}

/// Sends a statement to each of `keys`.
pub(crate) fn spread(out: &mut Output, keys: impl Iterator<Item = RingKey>, statement: &[u8]) {
    for key in keys {
        let statement = statement.to_vec();
        out.send(key, Message::Statement { statement });
    }
}
