//! The daemon with queues and a system that the tests play.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringway_gateway::SignatureSet;
use ringway_gateway::linux::live::{Order, Totals};
use ringway_gateway::policy::Policy;
use ringway_gateway::verdict::Mode;
use ringway_node::control::ControlSocket;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::super::message::{Reply, Request, Status};
use super::super::writer::Written;
use super::super::{ask, metrics, rules};
use super::{Daemon, System, held};
use crate::limits::{GATE_REQUESTS, RULES_LOOK};
use ringway_terminal::Failure;

/// Longer than anything here takes on a busy machine, and shorter than a request may take.
const SOON: Duration = Duration::from_secs(10);

/// A class that the system refuses, when it has done some of the rest.
const REFUSED: &str = "refused";

/// Takes as long as the test wants, once it is told to be slow.
#[derive(Default)]
struct Tools {
    slow: AtomicBool,
    words: Mutex<Option<Receiver<()>>>,
    /// The classes of each policy that was put to work.
    classes: Mutex<Vec<Vec<String>>>,
    /// Somebody has changed the rules.
    changed: AtomicBool,
    /// Rules can neither be put in nor looked at.
    refuses: AtomicBool,
}

impl System for Arc<Tools> {
    fn set_up(&self, policy: &Policy, _mode: Mode) -> Result<(), Failure> {
        let names = policy.classes().iter().map(|class| class.name.clone());
        let names: Vec<String> = names.collect();
        let refused =
            names.iter().any(|name| name == REFUSED) || self.refuses.load(Ordering::Relaxed);
        self.classes.lock().unwrap().push(names);
        if refused {
            return Err(Failure::failed("tc refused"));
        }
        if self.slow.load(Ordering::Relaxed) {
            let words = self.words.lock().unwrap();
            words.as_ref().unwrap().recv().ok();
        }
        Ok(())
    }

    fn put_back(&self, _policy: &Policy, _mode: Mode) -> Result<bool, Failure> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Failure::failed("the tool refuses"));
        }
        Ok(self.changed.swap(false, Ordering::Relaxed))
    }
}

/// A queue's loop that obeys after this time, and has lost three events; answers which mode it is
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

fn daemon(queues: Vec<Sender<Order>>, tools: &Arc<Tools>) -> Arc<Daemon> {
    let set = SignatureSet::built_in();
    let policy = rules::parsed("first.toml".as_ref(), "", &set).unwrap();
    Arc::new(Daemon::new(
        queues,
        Arc::new(Written::default()),
        Box::new(Arc::clone(tools)),
        set,
        (Mode::Observe, false),
        ("first.toml".to_owned(), Arc::new(policy)),
    ))
}

fn apply(confirm: Option<u64>) -> Request {
    Request::Apply {
        file: "second.toml".into(),
        text: String::new(),
        mode: Some(Mode::Enforce),
        confirm,
    }
}

fn done(reply: Reply) -> String {
    match reply {
        Reply::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_is_said_to_be_at_work_once_every_queue_obeys() {
    let (quick, slow) = (queue(Duration::ZERO), queue(Duration::from_millis(500)));
    let daemon = daemon(vec![quick.0, slow.0], &Arc::default());
    let told = done(daemon.reply(apply(None)));
    assert_eq!(*slow.1.lock().unwrap(), Mode::Enforce);
    assert_eq!(told, "second.toml is at work from now on");
}

#[test]
fn rules_that_others_change_are_put_back_until_the_gateway_ends() {
    let tools = Arc::new(Tools::default());
    let daemon = daemon(vec![queue(Duration::ZERO).0], &tools);
    let times = || daemon.status().rules_put_back;
    daemon.put_back();
    assert_eq!(times(), 0);
    for _look in 0..2 {
        tools.changed.store(true, Ordering::Relaxed);
        daemon.put_back();
        assert_eq!(times(), 1);
        tools.changed.store(false, Ordering::Relaxed);
        daemon.put_back();
        assert_eq!(times(), 1);
        daemon.close();
    }
}

#[test]
fn rules_that_cannot_be_looked_at_are_told_of_until_they_can() {
    let tools = Arc::new(Tools::default());
    let daemon = daemon(vec![queue(Duration::ZERO).0], &tools);
    for (refuses, told) in [(true, Some("the tool refuses")), (false, None)] {
        tools.refuses.store(refuses, Ordering::Relaxed);
        daemon.put_back();
        let status = daemon.status();
        assert_eq!(status.rules_not_looked_after.as_deref(), told);
        assert_eq!(ask::text(&status).contains("the tool refuses"), refuses);
    }
}

#[test]
fn a_queue_that_has_ended_is_missed_when_a_policy_is_applied() {
    let (ended, _) = channel();
    let daemon = daemon(vec![queue(Duration::ZERO).0, ended], &Arc::default());
    let told = done(daemon.reply(apply(None)));
    assert!(told.contains("only 1 of 2 queues"), "{told}");
}

#[test]
fn a_trial_that_no_clock_can_measure_is_refused_and_changes_nothing() {
    let daemon = daemon(vec![queue(Duration::ZERO).0], &Arc::default());
    let told = daemon.reply(apply(Some(u64::MAX)));
    assert!(matches!(told, Reply::Refused(_)), "{told:?}");
    assert_eq!(daemon.status().policy, "first.toml");
}

/// Flows are marked with the place of their class: it must be theirs for as long as they may live.
#[test]
fn classes_keep_their_places_from_policy_to_policy() {
    let tools: Arc<Tools> = Arc::default();
    let daemon = daemon(vec![queue(Duration::ZERO).0], &tools);
    let give = |names: &[&str], confirm| {
        let class = |name: &&str| format!("[classes.{name}]\nrate = \"1 Mbit/s\"\n");
        let text: String = names.iter().map(class).collect();
        done(daemon.reply(Request::Apply {
            file: "next.toml".into(),
            text,
            mode: Some(Mode::Enforce),
            confirm,
        }));
    };
    give(&["late", "bulk"], None);
    give(&["early", "bulk", "late"], None);
    give(&["other"], Some(0));
    daemon.revert();
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
fn a_policy_that_cannot_be_taken_back_stays_on_trial_and_is_taken_back_later() {
    let tools: Arc<Tools> = Arc::default();
    let daemon = daemon(vec![queue(Duration::ZERO).0], &tools);
    done(daemon.reply(apply(Some(0))));
    for (refuses, policy) in [(true, "second.toml"), (false, "first.toml")] {
        tools.refuses.store(refuses, Ordering::Relaxed);
        if let Some((at, ..)) = &mut held(&daemon.state).earlier {
            *at = Instant::now();
        }
        daemon.revert();
        let status = daemon.status();
        assert_eq!(
            (status.policy.as_str(), status.reverts_in_s.is_some()),
            (policy, refuses)
        );
    }
}

/// What was laid of it would let pass what the policy at work does not.
#[test]
fn what_the_system_refuses_half_way_is_taken_back() {
    let tools: Arc<Tools> = Arc::default();
    let (sender, mode) = queue(Duration::ZERO);
    let daemon = daemon(vec![sender], &tools);
    let reply = daemon.reply(Request::Apply {
        file: "next.toml".into(),
        text: format!("[classes.{REFUSED}]\nrate = \"1 Mbit/s\"\n"),
        mode: Some(Mode::Enforce),
        confirm: None,
    });
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    let seen = tools.classes.lock().unwrap();
    assert_eq!(*seen, [vec![REFUSED.to_owned()], Vec::new()]);
    let status = daemon.status();
    assert_eq!(
        (status.policy.as_str(), status.mode),
        ("first.toml", Mode::Observe)
    );
    assert_eq!(*mode.lock().unwrap(), Mode::Observe);
}

#[test]
fn lost_events_are_shown_wherever_they_were_lost() {
    let queues = vec![queue(Duration::ZERO).0, queue(Duration::ZERO).0];
    let daemon = daemon(queues, &Arc::default());
    // Three at each queue, and four at the writer.
    daemon.written.lost.fetch_add(4, Ordering::Relaxed);
    let status = daemon.status();
    assert_eq!(status.events_lost, 10);
    assert!(
        ask::text(&status).contains("0 (10 lost)"),
        "{}",
        ask::text(&status)
    );
    let figures = metrics::text(&status, &[]).unwrap();
    assert!(
        figures.contains("ringway_gate_events_lost_total 10\n"),
        "{figures}"
    );
}

/// A daemon that serves in a folder of its own.
struct Served {
    folder: TempDir,
    daemon: Arc<Daemon>,
    tools: Arc<Tools>,
    word: Sender<()>,
}

impl Served {
    async fn start() -> Served {
        let (word, words) = channel();
        let tools = Arc::new(Tools::default());
        *tools.words.lock().unwrap() = Some(words);
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(vec![queue(Duration::ZERO).0], &tools);
        let socket = ControlSocket::bind(&folder.path().join("gate.sock"))
            .await
            .unwrap();
        let serving = Arc::clone(&daemon);
        tokio::spawn(async move { serving.serve(&socket, RULES_LOOK).await });
        Served {
            folder,
            daemon,
            tools,
            word,
        }
    }

    async fn connect(&self) -> UnixStream {
        let path = self.folder.path().join("gate.sock");
        UnixStream::connect(path).await.unwrap()
    }

    async fn send(&self, request: &Request) -> UnixStream {
        let mut stream = self.connect().await;
        let line = serde_json::to_string(request).unwrap() + "\n";
        stream.write_all(line.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, request: &Request) -> Reply {
        answer(self.send(request).await).await
    }

    async fn status(&self) -> Status {
        match self.ask(&Request::Status).await {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }
}

async fn answer(stream: UnixStream) -> Reply {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    let read = timeout(SOON, reader.read_line(&mut line)).await;
    read.expect("no answer").unwrap();
    serde_json::from_str(&line).unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

#[test]
fn others_are_answered_while_one_request_takes_long() {
    run(async {
        let served = Served::start().await;
        // One says nothing, and another one's policy waits for its tools.
        let _silent = served.connect().await;
        served.tools.slow.store(true, Ordering::Relaxed);
        let applying = served.send(&apply(None)).await;
        for _ in 0..3 {
            assert_eq!(served.status().await.policy, "first.toml");
        }
        served.word.send(()).unwrap();
        assert_eq!(
            done(answer(applying).await),
            "second.toml is at work from now on"
        );
        assert_eq!(served.status().await.policy, "second.toml");
    });
}

#[test]
fn a_policy_on_trial_is_taken_back_at_its_time_whoever_holds_the_socket() {
    run(async {
        let served = Served::start().await;
        let told = done(served.ask(&apply(Some(2))).await);
        assert!(told.contains("for 2 s"), "{told}");
        assert_eq!(served.status().await.policy, "second.toml");
        let mut silent = Vec::new();
        for _ in 0..GATE_REQUESTS * 2 {
            silent.push(served.connect().await);
        }
        let began = Instant::now();
        loop {
            let status = tokio::task::block_in_place(|| served.daemon.status());
            if status.policy == "first.toml" {
                assert_eq!((status.mode, status.reverts_in_s), (Mode::Observe, None));
                break;
            }
            assert!(began.elapsed() < SOON, "{status:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Places are had again.
        drop(silent);
        assert_eq!(served.status().await.policy, "first.toml");
    });
}

#[test]
fn what_is_confirmed_stays_and_nothing_is_applied_once_the_gateway_ends() {
    run(async {
        let served = Served::start().await;
        done(served.ask(&apply(Some(1))).await);
        assert_eq!(
            done(served.ask(&Request::Confirm).await),
            "second.toml stays"
        );
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(served.status().await.policy, "second.toml");
        served.daemon.close();
        let refused = served.ask(&apply(None)).await;
        assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    });
}
