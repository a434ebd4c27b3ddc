//! The control socket of a controller whose queues and system the tests play.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringway_gateway::SignatureSet;
use ringway_gateway::limits::RULES_LOOK;
use ringway_gateway::linux::live::{Order, Totals};
use ringway_gateway::policy::Policy;
use ringway_gateway::service::{
    Controller, ControllerParts, GatewayStatus, NamedPolicy, ServiceError, System, Written,
    parse_policy,
};
use ringway_gateway::verdict::Mode;
use ringway_node::control::ControlSocket;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::super::message::{Reply, Request};
use super::super::{ask, metrics};
use super::serve;
use crate::limits::GATE_REQUESTS;

/// Longer than anything here takes on a busy machine, and shorter than a request may take.
const SOON: Duration = Duration::from_secs(10);

/// Takes as long as the test wants, once it is set to be slow.
#[derive(Clone, Debug, Default)]
struct Tools {
    slow: Arc<AtomicBool>,
    words: Arc<Mutex<Option<Receiver<()>>>>,
}

impl System for Tools {
    fn set_up(&self, _policy: &Policy, _mode: Mode) -> Result<(), ServiceError> {
        if self.slow.load(Ordering::Relaxed) {
            let words = self.words.lock().unwrap();
            words.as_ref().unwrap().recv().ok();
        }
        Ok(())
    }

    fn put_back(&self, _policy: &Policy, _mode: Mode) -> Result<bool, ServiceError> {
        Ok(false)
    }
}

/// A queue's loop that obeys.
fn queue() -> Sender<Order> {
    let (orders, received) = channel();
    std::thread::spawn(move || {
        for order in received {
            if let Order::Totals(answer) = order {
                answer.send(Totals::default()).ok();
            }
        }
    });
    orders
}

fn controller(tools: &Tools) -> Arc<Controller> {
    let signatures = SignatureSet::built_in();
    let policy = parse_policy("first.toml".as_ref(), "", &signatures).unwrap();
    Arc::new(Controller::new(ControllerParts {
        queues: vec![queue()],
        written: Arc::new(Written::default()),
        accounts: None,
        system: Box::new(tools.clone()),
        signatures,
        mode: Mode::Observe,
        scans: false,
        policy: NamedPolicy {
            name: "first.toml".to_owned(),
            policy: Arc::new(policy),
        },
    }))
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
fn faults_are_shown_wherever_a_user_looks() {
    let status = GatewayStatus {
        events_lost: 10,
        rules_not_looked_after: Some("the tool refuses".to_owned()),
        ..GatewayStatus::default()
    };
    let shown = ask::text(&status);
    assert!(shown.contains("0 (10 lost)"), "{shown}");
    assert!(shown.contains("the tool refuses"), "{shown}");
    let figures = metrics::text(&status, &[]).unwrap();
    let lost = "ringway_gate_events_lost_total 10\n";
    assert!(figures.contains(lost), "{figures}");
}

/// A controller that serves in a folder of its own.
struct Served {
    folder: TempDir,
    controller: Arc<Controller>,
    tools: Tools,
    word: Sender<()>,
}

impl Served {
    async fn start() -> Served {
        let (word, words) = channel();
        let tools = Tools::default();
        *tools.words.lock().unwrap() = Some(words);
        let folder = tempfile::tempdir().unwrap();
        let controller = controller(&tools);
        let socket = ControlSocket::bind(&folder.path().join("gate.sock"))
            .await
            .unwrap();
        let house = Arc::clone(&controller);
        std::thread::spawn(move || house.keep_house(RULES_LOOK));
        let serving = Arc::clone(&controller);
        tokio::spawn(async move { serve(&socket, &serving).await });
        Served {
            folder,
            controller,
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

    async fn status(&self) -> GatewayStatus {
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
fn a_trial_ends_on_time() {
    run(async {
        let served = Served::start().await;
        let reply = done(served.ask(&apply(Some(2))).await);
        assert!(reply.contains("for 2 s"), "{reply}");
        assert_eq!(served.status().await.policy, "second.toml");
        let mut silent = Vec::new();
        for _ in 0..GATE_REQUESTS * 2 {
            silent.push(served.connect().await);
        }
        let began = Instant::now();
        loop {
            let status = tokio::task::block_in_place(|| served.controller.status());
            if status.policy == "first.toml" {
                assert_eq!((status.mode, status.reverts_in_s), (Mode::Observe, None));
                break;
            }
            assert!(began.elapsed() < SOON, "{status:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Slots are free again.
        drop(silent);
        assert_eq!(served.status().await.policy, "first.toml");
    });
}

#[test]
fn confirmed_policies_stay_and_an_end_refuses_others() {
    run(async {
        let served = Served::start().await;
        done(served.ask(&apply(Some(1))).await);
        assert_eq!(
            done(served.ask(&Request::Confirm).await),
            "second.toml stays"
        );
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(served.status().await.policy, "second.toml");
        served.controller.close();
        let refused = served.ask(&apply(None)).await;
        assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    });
}
