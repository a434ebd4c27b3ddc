//! Views in the form of release 0.2.

use std::time::Duration;

use ringway_overlay::{Message, NO_START, View};

use crate::groups::{give_views, secure, view};
use crate::{Notary, key, let_pass, sent, start};

/// Release 0.2 signs and reads views without a start. They convict no member: copies of one home
/// sign two with one number.
#[test]
fn views_of_release_before_prove_nothing() {
    let notary = Notary::new(key(1));
    let sign = |group: &[u8]| {
        let group = group.iter().map(|n| key(*n)).collect();
        View::sign(&notary, key(1), (NO_START, 1), None, 2_000, group)
    };
    let (one, other) = (sign(&[1, 2]), sign(&[1, 4]));
    assert!(one.is_valid(&notary) && one.signed.header.is_earlier());
    assert!(!one.signed.contradicts(&other.signed));
    let statement = one.signed.header.statement();
    assert!(statement.starts_with(b"ringway view 1"));
    // Context, author, number, hash, time, hash: as release 0.2 has it.
    assert_eq!(statement.len(), 14 + 32 + 8 + 32 + 8 + 32);
    let message = Message::ViewIs { id: 7, view: one };
    let decoded = Message::decode(&message.encode());
    assert!(decoded.is_ok_and(|decoded| decoded == message));
}

#[test]
fn views_follow_the_releases_that_are_near() {
    let (mut chord, mut now) = (secure(start(), Notary::new(key(100))), start());
    let views = [90, 110].map(|n| view(n, 1, &[90, 100, 110]));
    give_views(&mut chord, now, &views);
    let given = [false, true, false].map(|earlier| {
        chord.sign_earlier_views(now, earlier);
        let_pass(&mut chord, &mut now, Duration::from_secs(2));
        chord.handle_message(now, key(90), Message::GetView { id: 7, have: 0 });
        let mut sent = sent(&mut chord).into_iter();
        let view = sent.find_map(|transmit| match transmit.message {
            Message::ViewIs { view, .. } => Some(view.signed.header),
            _ => None,
        });
        view.expect("its view")
    });
    let [before, earlier, after] = given;
    assert!(!before.is_earlier() && earlier.is_earlier() && after.start == before.start);
    assert!(before.number < earlier.number && earlier.number < after.number);
}
