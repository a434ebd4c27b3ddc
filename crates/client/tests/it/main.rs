//! The client against a daemon of a few lines, which answers what a test wants.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

use std::sync::Arc;

use ringway_client::{Client, ClientError, Event, Place, SendOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// What comes behind the answers.
enum Then {
    Ends,
    Waits,
    Echoes,
}

type Answers = dyn Fn(&Value) -> (Vec<Value>, Then) + Send + Sync;

struct Daemon {
    folder: TempDir,
}

impl Daemon {
    fn start(answers: impl Fn(&Value) -> (Vec<Value>, Then) + Send + Sync + 'static) -> Daemon {
        Daemon::of_version(json!(2), answers)
    }

    /// One that speaks this version of the control protocol.
    fn of_version(
        control: Value,
        answers: impl Fn(&Value) -> (Vec<Value>, Then) + Send + Sync + 'static,
    ) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("control.sock")).unwrap();
        let answers: Arc<Answers> = Arc::new(answers);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, control.clone(), Arc::clone(&answers)));
            }
        });
        Daemon { folder }
    }

    async fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&Place::Home(self.folder.path().to_owned())).await
    }
}

async fn answer(stream: UnixStream, control: Value, answers: Arc<Answers>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let request: Value = serde_json::from_str(&line).unwrap();
    let (replies, then) = match request["command"].as_str().unwrap() {
        "status" => (vec![status(), json!({"reply": "done"})], Then::Ends),
        _ => answers(&request),
    };
    for mut reply in replies {
        reply["control"] = control.clone();
        let line = format!("{reply}\n");
        // A client may have what it wants.
        stream.write_all(line.as_bytes()).await.ok();
    }
    let mut bytes = Vec::new();
    match then {
        Then::Ends => {}
        Then::Waits => drop(stream.read_to_end(&mut bytes).await),
        Then::Echoes => {
            let (mut reading, mut writing) = tokio::io::split(stream);
            tokio::io::copy(&mut reading, &mut writing).await.ok();
            writing.shutdown().await.ok();
        }
    }
}

fn status() -> Value {
    json!({
        "reply": "status", "member": "abc", "name": "oslo", "role": "leaf", "ring": "ring.test",
        "pid": 1, "uptime_s": 1.0, "state": "member", "ring_key": null, "predecessor": null,
        "successors": [], "parents": [], "successor_list_length": 3, "addresses": [], "links": [],
        "transports": [], "counters": {}, "caps": [],
    })
}

fn transfer(id: &str, bytes: u64) -> Value {
    json!({
        "reply": "transfer", "id": id, "direction": "send", "state": "active", "reason": null,
        "peer": "lima", "file": "report", "path": "/report", "size": 9, "bytes": bytes,
        "rate": null, "eta_s": null, "active_s": 0.0, "priority": 1.0, "blake3": null,
        "resumed_from": 0, "path_report": null, "limited_by": "by-the-moon", "capped_by": null,
        "kind": "file", "created": 0,
    })
}

fn stream(kind: &str, priority: &Value) -> Value {
    json!({
        "reply": kind, "id": "ab", "peer": "lima", "service": "echo", "direction": "out",
        "state": "open", "since": 1, "sent": 0, "received": 0, "priority": priority,
    })
}

fn done() -> Value {
    json!({"reply": "done"})
}

#[tokio::test]
async fn versions_and_places_are_checked_first() {
    let nowhere = Client::connect(&Place::Home("/nonexistent".into())).await;
    assert!(matches!(nowhere, Err(ClientError::NotRunning { .. })));
    let old = Daemon::of_version(Value::Null, |_| (Vec::new(), Then::Ends));
    let old = old.client().await.unwrap_err();
    assert!(matches!(old, ClientError::Incompatible { .. }), "{old}");
    assert!(old.to_string().contains("restart it"), "{old}");
    let newer = Daemon::of_version(json!(9), |_| (vec![done()], Then::Ends));
    let newer = newer.client().await.unwrap();
    assert_eq!((newer.name(), newer.ring()), ("oslo", "ring.test"));
    assert!(newer.daemon().is_newer());
    assert!(newer.members().await.unwrap().is_empty());
}

#[tokio::test]
async fn refusals_and_odd_answers_are_typed() {
    let refused = json!({"reply": "error", "usage": true, "message": "no member `paris`"});
    let daemon = Daemon::start(move |request| match request["command"].as_str() {
        Some("get") => (vec![refused.clone()], Then::Ends),
        Some("transfers") => (vec![stream("stream", &json!(1.0)), done()], Then::Ends),
        _ => (Vec::new(), Then::Ends),
    });
    let client = daemon.client().await.unwrap();
    let refused = client.get("paris", "x").await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(error) if error.usage));
    assert_eq!(refused.to_string(), "no member `paris`");
    let odd = client.transfers().await.unwrap_err();
    assert!(matches!(odd, ClientError::Unexpected), "{odd}");
    let closed = client.members().await.unwrap_err();
    assert!(matches!(closed, ClientError::Closed), "{closed}");
}

#[tokio::test]
async fn streams_carry_bytes_and_half_close() {
    let daemon = Daemon::start(|request| match request["command"].as_str() {
        Some("open") => (vec![stream("opened", &json!(1.0))], Then::Echoes),
        _ => (
            vec![stream("stream", &request["priority"]), done()],
            Then::Ends,
        ),
    });
    let client = daemon.client().await.unwrap();
    let mut stream = client.open("lima", "echo").await.unwrap();
    let changed = stream.set_priority(8.0).await.unwrap().priority;
    assert!((changed - 8.0).abs() < f64::EPSILON);
    stream.write_all(&[7; 3000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, [7; 3000]);
}

/// Of two that come the first has gone when it is taken.
#[tokio::test]
async fn listener_passes_over_those_that_have_gone() {
    let daemon = Daemon::start(|request| {
        let incoming =
            |id| json!({"reply": "incoming", "id": id, "peer": "lima", "service": "echo"});
        let serving =
            json!({"reply": "serving", "name": "echo", "protocol": "program", "priority": 1.0});
        match (request["command"].as_str(), request["id"].as_str()) {
            (Some("serve"), _) => (vec![serving, incoming("gone"), incoming("ab")], Then::Waits),
            (_, Some("ab")) => (vec![stream("opened", &json!(1.0))], Then::Echoes),
            _ => {
                let gone = json!({"reply": "error", "usage": false, "message": "it has gone"});
                (vec![gone], Then::Ends)
            }
        }
    });
    let client = daemon.client().await.unwrap();
    let mut listener = client.serve("echo", &["*"]).await.unwrap();
    assert_eq!(listener.status().name, "echo");
    let (stream, peer) = listener.accept().await.unwrap();
    assert_eq!((stream.id(), peer.as_str()), ("ab", "lima"));
}

#[tokio::test]
async fn events_are_changes_and_messages() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let asked = AtomicU64::new(0);
    let daemon = Daemon::start(move |request| match request["command"].as_str() {
        Some("messages") => {
            let message = json!({
                "reply": "message", "id": "1", "direction": "receive", "peer": "lima", "number": 1,
                "state": "received", "created": 1, "body": "aGVsbG8=",
            });
            (vec![message], Then::Waits)
        }
        _ => {
            let moved = transfer("moved", asked.fetch_add(1, Ordering::Relaxed));
            (vec![moved, transfer("still", 0), done()], Then::Ends)
        }
    });
    let client = daemon.client().await.unwrap();
    let mut events = client.events().await.unwrap();
    let (mut moved, mut messages) = (0, 0);
    while moved < 3 || messages < 1 {
        match events.next().await.unwrap().unwrap() {
            Event::Transfer(transfer) => {
                assert_eq!(transfer.id, "moved");
                moved += 1;
            }
            Event::Message(message) => {
                assert_eq!(message.body, b"hello");
                messages += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(messages, 1);
}

#[tokio::test]
async fn folders_and_several_members_are_one_request() {
    let (asked, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let daemon = Daemon::start(move |request| {
        asked.send(request.clone()).unwrap();
        let sent = [transfer("a", 0), transfer("b", 0), done()];
        (sent.to_vec(), Then::Ends)
    });
    let client = daemon.client().await.unwrap();
    let folder = daemon.folder.path();
    let file = folder.join("file");
    std::fs::write(&file, "report").unwrap();
    let (peers, options) = (["lima", "bern"], SendOptions::default());
    let sent = client.send(&[folder, &file], &peers, &options).await;
    assert_eq!(sent.unwrap().len(), 2);
    let request = requests.recv().await.unwrap();
    assert_eq!(request["command"], "send_all");
    assert_eq!(request["peers"], json!(peers));
    assert_eq!(request["paths"], json!([folder, file]));
    assert_eq!(request["handed"], "nothing");
    client.send(&[&file], &peers, &options).await.unwrap();
    let request = requests.recv().await.unwrap();
    assert_eq!(
        (&request["command"], &request["handed"]),
        (&json!("send_all"), &json!("file"))
    );
    client.send(&[&file], &["lima"], &options).await.unwrap();
    assert_eq!(requests.recv().await.unwrap()["command"], "send");
    let absent = client.send(&["/absent"], &["lima"], &options).await;
    assert!(
        matches!(absent, Err(ClientError::File { .. })),
        "{absent:?}"
    );
}
