//! The controller with queues and a system that the tests play.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Apply, Controller, ControllerParts, System, held};
use crate::SignatureSet;
use crate::linux::live::{Order, Totals};
use crate::policy::Policy;
use crate::service::{NamedPolicy, ServiceError, Written, parse_policy};
use crate::verdict::Mode;

/// A class that the system refuses, when it has done some of the rest.
const REFUSED: &str = "refused";

/// The tools of the system.
#[derive(Debug, Default)]
struct Tools {
    /// The classes of each policy that was put to work.
    classes: Mutex<Vec<Vec<String>>>,
    /// Somebody has changed the rules.
    changed: AtomicBool,
    /// Rules can neither be put in nor looked at.
    refuses: AtomicBool,
}

impl System for Arc<Tools> {
    fn set_up(&self, policy: &Policy, _mode: Mode) -> Result<(), ServiceError> {
        let names = policy.classes().iter().map(|class| class.name.clone());
        let names: Vec<String> = names.collect();
        let refused =
            names.iter().any(|name| name == REFUSED) || self.refuses.load(Ordering::Relaxed);
        self.classes.lock().unwrap().push(names);
        if refused {
            return Err(ServiceError::failed("tc refused"));
        }
        Ok(())
    }

    fn put_back(&self, _policy: &Policy, _mode: Mode) -> Result<bool, ServiceError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(ServiceError::failed("the tool refuses"));
        }
        Ok(self.changed.swap(false, Ordering::Relaxed))
    }
}

/// A queue's loop that obeys after this time, and has lost three events; returns which mode it is
/// in.
fn queue(after: Duration) -> (Sender<Order>, Arc<Mutex<Mode>>) {
    let (orders, received) = channel();
    let mode = Arc::new(Mutex::new(Mode::Observe));
    let own = Arc::clone(&mode);
    std::thread::spawn(move || {
        for order in received {
            match order {
                Order::Policy(_) => std::thread::sleep(after),
                Order::Mode(mode) => *own.lock().unwrap() = mode,
                Order::Totals(answer) => {
                    let totals = Totals {
                        events_lost: 3,
                        ..Totals::default()
                    };
                    answer.send(totals).ok();
                }
                _ => {}
            }
        }
    });
    (orders, mode)
}

fn controller(queues: Vec<Sender<Order>>, tools: &Arc<Tools>) -> Controller {
    let signatures = SignatureSet::built_in();
    let policy = parse_policy("first.toml".as_ref(), "", &signatures).unwrap();
    Controller::new(ControllerParts {
        queues,
        written: Arc::new(Written::default()),
        accounts: None,
        system: Box::new(Arc::clone(tools)),
        signatures,
        mode: Mode::Observe,
        scans: false,
        policy: NamedPolicy {
            name: "first.toml".to_owned(),
            policy: Arc::new(policy),
        },
    })
}

/// Another policy, with decisions carried out.
fn next(text: &str, confirm: Option<u64>) -> Apply<'_> {
    Apply {
        file: "second.toml".as_ref(),
        text,
        mode: Some(Mode::Enforce),
        confirm,
    }
}

#[test]
fn apply_returns_once_every_queue_obeys() {
    let (quick, slow) = (queue(Duration::ZERO), queue(Duration::from_millis(500)));
    let controller = controller(vec![quick.0, slow.0], &Arc::default());
    let told = controller.apply(&next("", None)).unwrap();
    assert_eq!(*slow.1.lock().unwrap(), Mode::Enforce);
    assert_eq!(told, "second.toml is at work from now on");
}

#[test]
fn changed_rules_are_put_back_until_the_end() {
    let tools = Arc::new(Tools::default());
    let controller = controller(vec![queue(Duration::ZERO).0], &tools);
    let times = || controller.status().rules_put_back;
    controller.put_back();
    assert_eq!(times(), 0);
    for _look in 0..2 {
        tools.changed.store(true, Ordering::Relaxed);
        controller.put_back();
        assert_eq!(times(), 1);
        tools.changed.store(false, Ordering::Relaxed);
        controller.put_back();
        assert_eq!(times(), 1);
        controller.close();
    }
}

#[test]
fn unreadable_rules_are_reported_until_readable() {
    let tools = Arc::new(Tools::default());
    let controller = controller(vec![queue(Duration::ZERO).0], &tools);
    for (refuses, told) in [(true, Some("the tool refuses")), (false, None)] {
        tools.refuses.store(refuses, Ordering::Relaxed);
        controller.put_back();
        let status = controller.status();
        assert_eq!(status.rules_not_looked_after.as_deref(), told);
    }
}

#[test]
fn apply_misses_a_queue_that_has_ended() {
    let (ended, _) = channel();
    let controller = controller(vec![queue(Duration::ZERO).0, ended], &Arc::default());
    let told = controller.apply(&next("", None)).unwrap();
    assert!(told.contains("only 1 of 2 queues"), "{told}");
}

#[test]
fn a_trial_beyond_the_clock_is_refused() {
    let controller = controller(vec![queue(Duration::ZERO).0], &Arc::default());
    assert!(controller.apply(&next("", Some(u64::MAX))).is_err());
    assert_eq!(controller.status().policy, "first.toml");
}

/// Flows are marked with the slot of their class: it must be theirs for as long as they may live.
#[test]
fn classes_keep_their_places_from_policy_to_policy() {
    let tools: Arc<Tools> = Arc::default();
    let controller = controller(vec![queue(Duration::ZERO).0], &tools);
    let give = |names: &[&str], confirm| {
        let class = |name: &&str| format!("[classes.{name}]\nrate = \"1 Mbit/s\"\n");
        let text: String = names.iter().map(class).collect();
        controller.apply(&next(&text, confirm)).unwrap();
    };
    give(&["late", "bulk"], None);
    give(&["early", "bulk", "late"], None);
    give(&["other"], Some(0));
    controller.revert();
    let seen = tools.classes.lock().unwrap();
    let expected: [&[&str]; 4] = [
        &["late", "bulk"],
        &["late", "bulk", "early"],
        &["late", "bulk", "early", "other"],
        &["late", "bulk", "early", "other"],
    ];
    assert_eq!(*seen, expected);
}

#[test]
fn a_failed_revert_is_tried_again_later() {
    let tools: Arc<Tools> = Arc::default();
    let controller = controller(vec![queue(Duration::ZERO).0], &tools);
    controller.apply(&next("", Some(0))).unwrap();
    for (refuses, policy) in [(true, "second.toml"), (false, "first.toml")] {
        tools.refuses.store(refuses, Ordering::Relaxed);
        if let Some(trial) = &mut held(&controller.state).trial {
            trial.until = Instant::now();
        }
        controller.revert();
        let status = controller.status();
        assert_eq!(
            (status.policy.as_str(), status.reverts_in_s.is_some()),
            (policy, refuses)
        );
    }
}

/// What was laid of it would let pass what the policy at work does not.
#[test]
fn a_half_way_failure_is_reverted() {
    let tools: Arc<Tools> = Arc::default();
    let (sender, mode) = queue(Duration::ZERO);
    let controller = controller(vec![sender], &tools);
    let text = format!("[classes.{REFUSED}]\nrate = \"1 Mbit/s\"\n");
    assert!(controller.apply(&next(&text, None)).is_err());
    let seen = tools.classes.lock().unwrap();
    assert_eq!(*seen, [vec![REFUSED.to_owned()], Vec::new()]);
    let status = controller.status();
    assert_eq!(
        (status.policy.as_str(), status.mode),
        ("first.toml", Mode::Observe)
    );
    assert_eq!(*mode.lock().unwrap(), Mode::Observe);
}

#[test]
fn lost_events_are_shown_wherever_they_were_lost() {
    let queues = vec![queue(Duration::ZERO).0, queue(Duration::ZERO).0];
    let controller = controller(queues, &Arc::default());
    // Three at each queue, and four at the writer.
    controller.written.lost.fetch_add(4, Ordering::Relaxed);
    let status = controller.status();
    assert_eq!(status.events_lost, 10);
}

#[test]
fn only_right_lists_come_to_work() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("bad.txt");
    let write = |text: &str| {
        std::fs::write(&list, text).unwrap();
        // Written long enough ago to be whole.
        let file = std::fs::File::options().append(true).open(&list).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    write("192.0.2.0/24\n");
    let tools = Arc::new(Tools::default());
    let controller = controller(vec![queue(Duration::ZERO).0], &tools);
    let text = "[[rule]]\nname = \"a\"\nserver = \"file:bad.txt\"\naction = \"block\"\n";
    let file = folder.path().join("policy.toml");
    let policy = Apply {
        file: &file,
        ..next(text, None)
    };
    controller.apply(&policy).unwrap();
    let status = || controller.status().feeds.remove(0);
    controller.look_at_feeds();
    assert_eq!((status().entries, status().fault), (1, None));
    write("192.0.2.0/24\nx\n");
    controller.look_at_feeds();
    let wrong = status();
    assert_eq!(wrong.entries, 1);
    assert!(wrong.fault.unwrap().starts_with("2: `x` is no network"));
    write("192.0.2.0/24\n198.51.100.0/24\n");
    controller.look_at_feeds();
    assert_eq!((status().entries, status().fault), (2, None));
    // The kernel knows these networks, so it was set up again.
    assert_eq!(tools.classes.lock().unwrap().len(), 2);
}
