//! The rules of ring maintenance, one at a time.

use std::time::Duration;

use ringway_overlay::{Event, LeaveRefused, Membership, Message};

use crate::{answer, chord, events, key, let_pass, member, sent, start};

#[test]
fn a_founder_is_a_ring_of_one() {
    let now = start();
    let mut chord = chord(1);
    assert_eq!(chord.state(), Membership::Outside);
    assert_eq!(chord.poll_timeout(), None);
    chord.start_ring(now);
    assert_eq!(chord.state(), Membership::Member);
    assert_eq!((chord.predecessor(), chord.successors()), (None, &[][..]));
    assert!(events(&mut chord).contains(&Event::Joined));
}

/// A ping gets its answer meanwhile.
#[test]
fn state_queries_get_pending_during_an_operation() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_message(now, key(7), Message::GetState { id: 1 });
    assert!(matches!(
        sent(&mut chord)[0].message,
        Message::State { id: 1, .. }
    ));
    chord.handle_timeout(now);
    assert!(matches!(
        sent(&mut chord)[0].message,
        Message::GetState { .. }
    ));
    chord.handle_message(now, key(7), Message::GetState { id: 2 });
    chord.handle_message(now, key(7), Message::Ping { id: 3 });
    let answers: Vec<Message> = sent(&mut chord).into_iter().map(|t| t.message).collect();
    assert_eq!(
        answers,
        [
            Message::Pending { id: 2 },
            Message::Pong {
                id: 3,
                member: true
            }
        ]
    );
}

/// The present successor names it as its predecessor.
#[test]
fn a_closer_successor_is_adopted_after_it_answered() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_timeout(now);
    answer(&mut chord, now, 150, |id| Message::State {
        id,
        predecessor: Some(key(120)),
        successors: vec![key(200), key(250), key(20)],
    });
    assert_eq!(chord.successors(), [key(150), key(200), key(250)]);
    answer(&mut chord, now, 120, |id| Message::State {
        id,
        predecessor: None,
        successors: vec![key(150), key(200)],
    });
    assert_eq!(chord.successors(), [key(120), key(150), key(200)]);
    let notified = sent(&mut chord)
        .into_iter()
        .find(|t| t.message == Message::Notify);
    assert_eq!(notified.map(|transmit| transmit.to), Some(key(120)));
}

/// The next one is notified.
#[test]
fn a_silent_head_is_dropped_after_three_tries() {
    let mut now = start();
    let mut chord = member(now, &[150, 200, 250]);
    let sent = let_pass(&mut chord, &mut now, Duration::from_millis(1_600));
    let tries = |t: &&ringway_overlay::Transmit| {
        t.to == key(150) && matches!(t.message, Message::GetState { .. })
    };
    assert_eq!(sent.iter().filter(tries).count(), 3);
    assert_eq!(chord.successors(), [key(200), key(250)]);
    assert!(events(&mut chord).contains(&Event::MemberDead(key(150))));
    assert!(
        sent.iter()
            .any(|t| t.to == key(200) && t.message == Message::Notify)
    );
}

#[test]
fn a_head_that_is_no_member_is_dropped() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_timeout(now);
    answer(&mut chord, now, 150, |id| Message::NotMember { id });
    assert_eq!(chord.successors(), [key(200), key(250)]);
}

#[test]
fn an_unreachable_head_is_dropped_without_waiting() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_timeout(now);
    chord.handle_unreachable(now, key(150));
    assert_eq!(chord.successors(), [key(200), key(250)]);
}

/// A closer one becomes predecessor at once.
#[test]
fn a_farther_notifier_replaces_only_dead_predecessors() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    assert_eq!(chord.predecessor(), Some(key(50)));
    chord.handle_message(now, key(70), Message::Notify);
    assert_eq!(chord.predecessor(), Some(key(70)));
    let hint = sent(&mut chord)
        .into_iter()
        .find(|t| t.message == Message::StabiliseSoon);
    assert_eq!(hint.map(|transmit| transmit.to), Some(key(50)));

    chord.handle_message(now, key(60), Message::Notify);
    assert_eq!(chord.predecessor(), Some(key(70)));
    answer(&mut chord, now, 70, |id| Message::Pong { id, member: true });
    assert_eq!(chord.predecessor(), Some(key(70)));

    let later = now + Duration::from_millis(500);
    chord.handle_message(later, key(60), Message::Notify);
    answer(&mut chord, later, 70, |id| Message::Pong {
        id,
        member: false,
    });
    assert_eq!(chord.predecessor(), Some(key(60)));
}

#[test]
fn a_predecessor_that_leaves_is_not_waited_for() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_message(now, key(50), Message::Leaving);
    assert_eq!(chord.predecessor(), None);
    chord.handle_message(now, key(20), Message::Notify);
    assert_eq!(chord.predecessor(), Some(key(20)));
    // No other can say so of it.
    chord.handle_message(now, key(7), Message::Leaving);
    assert_eq!(chord.predecessor(), Some(key(20)));
}

#[test]
fn endless_notifications_leave_no_member_pending() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_message(now, key(20), Message::Notify);
    answer(&mut chord, now, 50, |id| Message::Pong { id, member: true });
    for id in 0..10 {
        chord.handle_message(now, key(20), Message::Notify);
        chord.handle_message(now, key(7), Message::GetState { id });
        let answers = sent(&mut chord);
        assert_eq!(answers.len(), 1);
        assert!(matches!(answers[0].message, Message::State { .. }));
    }
}

/// After the member that still points to it.
#[test]
fn a_restarted_member_takes_its_old_place() {
    let now = start();
    let mut chord = chord(100);
    chord.resume(now, &[key(50)]);
    chord.handle_timeout(now);
    answer(&mut chord, now, 50, |id| Message::Owner {
        id,
        owners: vec![key(100), key(150)],
    });
    answer(&mut chord, now, 50, |id| Message::State {
        id,
        predecessor: None,
        successors: vec![key(100), key(150), key(200)],
    });
    assert_eq!(chord.state(), Membership::Member);
    assert_eq!(chord.successors(), [key(150), key(200)]);
    assert_eq!(chord.predecessor(), Some(key(50)));
}

#[test]
fn joining_goes_on_when_the_place_moved() {
    let mut now = start();
    let mut chord = chord(100);
    chord.join(now, &[key(50)]);
    chord.handle_timeout(now);
    answer(&mut chord, now, 50, |id| Message::Owner {
        id,
        owners: vec![key(150)],
    });
    // Meanwhile key 80 joined.
    answer(&mut chord, now, 50, |id| Message::State {
        id,
        predecessor: None,
        successors: vec![key(80), key(150)],
    });
    assert_eq!(chord.state(), Membership::Joining);
    let sent = let_pass(&mut chord, &mut now, Duration::from_secs(1));
    assert!(
        sent.iter()
            .any(|t| matches!(t.message, Message::FindOwner { .. }))
    );
}

#[test]
fn a_list_out_of_order_is_cut() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    chord.handle_timeout(now);
    answer(&mut chord, now, 150, |id| Message::State {
        id,
        predecessor: Some(key(100)),
        successors: vec![key(200), key(180), key(250)],
    });
    assert_eq!(chord.successors(), [key(150), key(200)]);
}

#[test]
fn leaving_is_refused_below_r_plus_one_others() {
    let now = start();
    assert_eq!(chord(1).leave(now), Err(LeaveRefused::NotMember));
    let mut three = member(now, &[150, 200]);
    assert_eq!(
        three.leave(now),
        Err(LeaveRefused::TooFewMembers { left: 3, needed: 4 })
    );
    assert_eq!(three.state(), Membership::Member);
    let mut four = member(now, &[150, 200, 250]);
    assert_eq!(four.leave(now), Ok(()));
    assert_eq!(four.state(), Membership::Outside);
    assert_eq!(
        sent(&mut four)
            .iter()
            .filter(|t| t.message == Message::Leaving)
            .count(),
        4
    );
    assert_eq!(four.poll_timeout(), None);
}
