//! Messages between two members in one process, by real sockets: through restarts of both, and how
//! many there are in a second.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringway_node::certificate::Role;
use ringway_node::control::{Client, ControlPlace, MessageStatus, Reply, Request};
use ringway_node::daemon::{Daemon, Options};
use ringway_node::enrol::join;
use ringway_node::home::socket_path;
use ringway_testbed::free_address;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::place::Place;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(240);

struct Running {
    home: PathBuf,
    daemon: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Running {
    async fn join(place: &Place, name: &str) -> Running {
        let home = place.home(name);
        let address = free_address().unwrap();
        let invite = place.invite(name, Role::Router);
        join(&home, &invite, Some(address)).await.unwrap();
        let mut running = Running { home, daemon: None };
        running.start().await;
        running
    }

    async fn start(&mut self) {
        let options = Options {
            home: self.home.clone(),
            upload_limit: None,
            control: ControlPlace::default(),
        };
        let daemon = Daemon::start(options).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            daemon.run(stop).await.unwrap();
        });
        self.daemon = Some((stop, task));
    }

    async fn stop(&mut self) {
        if let Some((stop, task)) = self.daemon.take() {
            stop.send(()).unwrap();
            task.await.unwrap();
        }
    }
}

async fn ask(home: &Path, request: &Request) -> Vec<Reply> {
    let client = Client::request(&socket_path(home), request).await.unwrap();
    client.all().await.unwrap()
}

async fn send(home: &Path, to: &str, body: Vec<u8>) -> MessageStatus {
    let request = Request::Message {
        peers: vec![to.to_owned()],
        body,
        priority: 1.0.into(),
        attach: Vec::new(),
    };
    match ask(home, &request).await.pop() {
        Some(Reply::Message(status)) => *status,
        other => panic!("{other:?}"),
    }
}

/// The next `count` messages that were not read, which are marked as read.
async fn read(home: &Path, count: usize) -> Vec<MessageStatus> {
    let request = Request::Messages {
        peer: None,
        follow: true,
        after: None,
    };
    let mut client = Client::request(&socket_path(home), &request).await.unwrap();
    let mut all: Vec<MessageStatus> = Vec::new();
    while all.len() < count {
        let next = tokio::time::timeout(DEADLINE, client.next()).await;
        match next.unwrap().unwrap() {
            Some(Reply::Message(status)) => all.push(*status),
            other => panic!("{other:?}"),
        }
    }
    let last = all.last().unwrap();
    let mark = Request::MarkRead {
        peer: last.peer.clone(),
        upto: last.id.clone(),
    };
    assert!(ask(home, &mark).await.is_empty());
    all
}

/// Waits until all that a member has sent was read.
async fn wait_until_read(home: &Path) {
    let begun = Instant::now();
    let request = Request::Messages {
        peer: None,
        follow: false,
        after: None,
    };
    loop {
        let replies = ask(home, &request).await;
        let is_read = |reply: &Reply| match reply {
            Reply::Message(status) => status.direction != "send" || status.state == "read",
            _ => false,
        };
        if replies.iter().all(is_read) {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "{replies:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_outlive_restarts_and_are_exact_in_number() {
    let place = Place::new();
    let _serving = place.serve().await;
    let mut oslo = Running::join(&place, "oslo").await;
    let mut lima = Running::join(&place, "lima").await;
    let sent = send(&oslo.home, "lima", b"first".to_vec()).await;
    assert_eq!((sent.state.as_str(), sent.number), ("pending", 1));
    let came = read(&lima.home, 1).await;
    assert_eq!(
        (came[0].id.as_str(), came[0].body.as_slice()),
        (sent.id.as_str(), &b"first"[..])
    );
    wait_until_read(&oslo.home).await;
    // One is stored while the other is off, and outlives a restart of its sender.
    lima.stop().await;
    let long = vec![0xff; 65_536];
    send(&oslo.home, "lima", long.clone()).await;
    oslo.stop().await;
    oslo.start().await;
    lima.start().await;
    let came = read(&lima.home, 1).await;
    assert_eq!(came[0].body, long);
    wait_until_read(&oslo.home).await;
    // Many at once: none is lost, none comes twice, the order of each program's is kept.
    let (programs, each) = (16u64, 125u64);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for program in 0..programs {
        let home = oslo.home.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..each {
                let body = [program.to_be_bytes(), number.to_be_bytes()].concat();
                send(&home, "lima", body).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let stored = begun.elapsed();
    let count = usize::try_from(programs * each).unwrap();
    let came = read(&lima.home, count).await;
    println!(
        "{count} messages by as many requests: stored in {stored:?}, read after {:?}",
        begun.elapsed()
    );
    let mut next = vec![0u64; 16];
    for (status, number) in came.iter().zip(3u64..) {
        assert_eq!(status.number, number);
        let (program, number) = status.body.split_at(8);
        let program = u64::from_be_bytes(program.try_into().unwrap());
        let slot = &mut next[usize::try_from(program).unwrap()];
        assert_eq!(u64::from_be_bytes(number.try_into().unwrap()), *slot);
        *slot += 1;
    }
    assert_eq!(next, vec![each; 16]);
    wait_until_read(&oslo.home).await;
    oslo.stop().await;
    lima.stop().await;
}
