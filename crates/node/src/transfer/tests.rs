//! Transfers with a member that does as it likes.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::quic::{
    QuicConnection, QuicEndpoint, QuicError, QuicOptions, RecvStream, SendStream,
};
use ringway_transport::{MemberId, Signer as _};
use tokio::time::timeout;

use super::content::{Source, from_wire};
use super::patience::Patience;
use super::record::{Direction, Phase, Record, TransferId};
use super::service::{Setup, TransferError, Transfers};
use super::to_send::ToSend;
use super::wire::{Frame, Offer};
use crate::certificate::{Certificate, CertificateFields};
use crate::config::ReceiveConfig;
use crate::connection::Connections;
use crate::control::{LimitedBy, TransferStatus};
use crate::directory::Directory;
use crate::identity::Identity;
use crate::limits::{CONNECTING_PER_MEMBER, RECEIVES_PER_MEMBER, SENDS};
use crate::member::{MemberHandle, Unreachable};
use crate::state::State;
use crate::statement::Statement;

mod asking;
mod bundles;
mod deadlines;
mod distribution;
mod ends;
mod rotation;
mod standstill;

struct Bench {
    home: tempfile::TempDir,
    transfers: Transfers,
    state: Arc<State>,
    endpoints: [Arc<QuicEndpoint>; 2],
    member: MemberHandle,
    at: std::net::SocketAddr,
    me: Identity,
    own: Certificate,
    owner: Identity,
    directory: Arc<Directory>,
    peer: QuicEndpoint,
    peers_certificate: Certificate,
}

/// One member's transfers, and another member whose QUIC endpoint the test holds in its hands.
fn bench(peer_is_there: bool) -> Bench {
    bench_with(peer_is_there, Patience::USUAL, None)
}

fn issue(owner: &Identity, member: &Identity, name: &str, serial: u64) -> Certificate {
    let fields = CertificateFields {
        member: member.member(),
        name: name.parse().unwrap(),
        address: Some("127.0.0.1:1".parse().unwrap()),
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial,
    };
    Certificate::issue(owner, &fields)
}

/// The same with other times, and with a cap in bytes a second.
fn bench_with(peer_is_there: bool, patience: Patience, cap: Option<u64>) -> Bench {
    let owner = Identity::generate().unwrap();
    let (me, peer) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (own, peers_certificate) = (issue(&owner, &me, "me", 1), issue(&owner, &peer, "peer", 2));
    let statement = Statement::issue(&owner, 1, 3, BTreeSet::new());
    let dns = "127.0.0.1:9".parse().unwrap();
    let directory =
        Arc::new(Directory::new(owner.member(), "ring.example", statement, Some(dns)).unwrap());
    directory.admit(peers_certificate.as_bytes()).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let bind = |who: &Identity| {
        QuicEndpoint::bind(
            any,
            who.signing_key(),
            Arc::new(|_| true),
            QuicOptions::default(),
        )
        .unwrap()
    };
    let over_links = Arc::new(over_links(&me));
    let endpoint = Arc::new(bind(&me));
    let at = endpoint.local_address().unwrap();
    let peers_key = peer.signing_key().clone();
    let peer =
        QuicEndpoint::bind(any, &peers_key, Arc::new(|_| true), QuicOptions::default()).unwrap();
    let peer_at = peer.local_address().unwrap();
    let reached = if peer_is_there {
        Ok(vec![peer_at])
    } else {
        Err(Unreachable::Silent("peer".to_owned()))
    };
    let member = MemberHandle::reaching(peers_certificate.member(), reached);
    let home = tempfile::tempdir().unwrap();
    crate::home::create_private_folder(&crate::home::trees_path(home.path())).unwrap();
    crate::home::create_private_folder(&home.path().join("inbox")).unwrap();
    let state = Arc::new(State::open(home.path()).unwrap());
    let endpoints = [endpoint, over_links];
    let connections = Connections::new(endpoints.clone(), member.clone());
    let setup = Setup {
        state: Arc::clone(&state),
        directory: Arc::clone(&directory),
        connections: connections.clone(),
        member: member.clone(),
        receive: ReceiveConfig::default(),
        caps: (cap, Vec::new()),
        own_name: "me".to_owned(),
        home: home.path().to_owned(),
    };
    let transfers = Transfers::start_with(setup, patience).unwrap();
    connections.start();
    Bench {
        home,
        transfers,
        state,
        endpoints,
        member,
        at,
        me,
        own,
        owner,
        directory,
        peer,
        peers_certificate,
    }
}

/// No link carries what it sends.
fn over_links(me: &Identity) -> QuicEndpoint {
    let options = QuicOptions::default();
    let bound = QuicEndpoint::over_messages(me.signing_key(), Arc::new(|_| true), options);
    bound.unwrap().0
}

/// A transfer to this member that has not begun.
pub(super) fn some_record(peer: MemberId) -> Record {
    Record {
        id: TransferId([7; 16]),
        direction: Direction::Send,
        peer,
        peer_serial: 1,
        peer_name: "oslo".to_owned(),
        path: "/f".into(),
        file: "f".to_owned(),
        size: 1,
        priority: Priority::NORMAL,
        phase: Phase::Waiting,
        reason: None,
        hash: None,
        created: 0,
        active: Duration::ZERO,
        moved: 0,
        offered: false,
        handed: false,
        ended: None,
        arrival: None,
        bundle: None,
    }
}

impl Bench {
    /// The names of what is left of files on their way in.
    fn parts(&self) -> Vec<std::ffi::OsString> {
        let folder = self.home.path().join("inbox/.partial");
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    fn file(&self) -> std::path::PathBuf {
        let path = self.home.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        path
    }

    fn send(&self) -> Result<TransferStatus, TransferError> {
        self.send_to(&self.peers_certificate)
    }

    fn send_to(&self, peer: &Certificate) -> Result<TransferStatus, TransferError> {
        self.transfers
            .send(ToSend::at(&self.file()), peer, &self.own, Priority::NORMAL)
    }

    /// A further member of the ring, which no search finds.
    fn another(&self, name: &str, serial: u64) -> Certificate {
        let identity = Identity::generate().unwrap();
        let certificate = issue(&self.owner, &identity, name, serial);
        self.directory.admit(certificate.as_bytes()).unwrap();
        certificate
    }

    async fn connect(&self) -> QuicConnection {
        self.peer
            .connect(self.at, self.me.member(), Priority::NORMAL)
            .await
            .unwrap()
    }
}

/// A stream on which a file was offered, and the answer. Dropping the stream resets it.
async fn offer(connection: &QuicConnection, id: u128) -> (SendStream, Frame) {
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::Offer(Offer {
        id: id.to_be_bytes().into(),
        file: "f.bin".to_owned(),
        size: 1 << 20,
        hash: (*blake3::hash(&id.to_be_bytes()).as_bytes()).into(),
        bundle: None,
        distributed: None,
    });
    offer.write(&mut sink).await.unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    (sink, answer.unwrap().unwrap())
}

/// The same with what is in a file, which is accepted: what comes and goes, and the chunks that are
/// wanted.
async fn offer_source(
    connection: &QuicConnection,
    source: &Source,
) -> (SendStream, RecvStream, Vec<u64>) {
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::Offer(Offer {
        id: [3; 16].into(),
        file: "f.bin".to_owned(),
        size: source.size,
        hash: (*source.hash.as_bytes()).into(),
        bundle: None,
        distributed: None,
    });
    offer.write(&mut sink).await.unwrap();
    let Frame::Accept { missing, .. } = Frame::read(&mut answers).await.unwrap() else {
        panic!("not accepted");
    };
    (sink, answers, missing)
}

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_members_offers_are_bounded() {
    let bench = bench(false);
    let mut accepted = 0;
    for id in 0..2 * RECEIVES_PER_MEMBER {
        let connection = bench.connect().await;
        match offer(&connection, id.try_into().unwrap()).await.1 {
            Frame::Accept { .. } => accepted += 1,
            Frame::Refuse { try_later, .. } => assert!(try_later),
            other => panic!("{other:?}"),
        }
        connection.close(0, "");
    }
    assert!((1..=RECEIVES_PER_MEMBER).contains(&accepted), "{accepted}");
    assert!(bench.parts().len() <= 2 * RECEIVES_PER_MEMBER);
    bench.send().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_waiting_receive_leaves_nothing() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
    connection.close(0, "");
    let state = || bench.transfers.list().remove(0).state;
    eventually("waits", || state() == "waiting").await;
    assert!(!bench.parts().is_empty());
    let id = bench.transfers.list().remove(0).id;
    bench.transfers.cancel(&id).unwrap();
    eventually("nothing is left", || bench.parts().is_empty()).await;
    assert_eq!(state(), "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_gives_up_leaves_nothing() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (_sink, _) = offer(&connection, 7).await;
    connection.close(crate::connection::code::GIVEN_UP, "cancelled");
    let state = || bench.transfers.list().remove(0).state;
    eventually("has failed", || state() == "failed").await;
    eventually("nothing is left", || bench.parts().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_peers_block_no_other_transfer() {
    let bench = bench(false);
    for _ in 0..2 * SENDS {
        bench.send().unwrap();
    }
    let last = bench.send().unwrap();
    let reason = || bench.transfers.status(&last.id).unwrap().0.reason;
    eventually("the last one was tried", || reason().is_some()).await;
    assert!(reason().unwrap().contains("peer"), "{:?}", reason());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_no_text_survive() {
    let bench = bench(true);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let path = bench.home.path().join(name);
    std::fs::write(&path, b"x").unwrap();
    let (peer, own) = (&bench.peers_certificate, &bench.own);
    let sent = bench
        .transfers
        .send(ToSend::at(&path), peer, own, Priority::NORMAL);
    let sent = sent.unwrap();
    assert_eq!(sent.file, "caf\u{fffd}");
    let json = serde_json::to_string(&sent).unwrap();
    let read: TransferStatus = serde_json::from_str(&json).unwrap();
    assert_eq!(read.path, path);
    assert_eq!(bench.state.transfers().unwrap().remove(0).path, path);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_for_absent_peers_delay_none() {
    let bench = bench(true);
    let away = bench.another("away", 3);
    for _ in 0..2 * SENDS {
        let sent = bench.send_to(&away);
        sent.unwrap();
    }
    let states = |state: &str| {
        let all = bench.transfers.list();
        all.iter().filter(|each| each.state == state).count()
    };
    let looking = || states("connecting") >= CONNECTING_PER_MEMBER;
    eventually("the absent one is looked for", looking).await;
    bench.send().unwrap();
    let connection = timeout(PATIENCE / 4, bench.peer.accept()).await;
    assert!(connection.is_ok(), "the one that is there gets nothing");
    // It has a connection, and no answer yet.
    assert!(states("connecting") <= CONNECTING_PER_MEMBER + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_cannot_take_our_transfers_ids() {
    let bench = bench(false);
    let sent = bench.send().unwrap();
    let id = u128::from_str_radix(&sent.id, 16).unwrap();
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, id).await;
    assert!(
        matches!(
            answer,
            Frame::Refuse {
                try_later: false,
                ..
            }
        ),
        "{answer:?}"
    );
    bench.transfers.cancel(&sent.id).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peers_words_are_harmless_on_a_terminal() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (_sink, _) = offer(&connection, 7).await;
    connection.close(1, "\x1b]0;title\x07\x1b[2Jwords");
    let reason = || bench.transfers.list().remove(0).reason;
    eventually("it is known why", || reason().is_some()).await;
    let reason = reason().unwrap();
    assert!(reason.contains("words"), "{reason:?}");
    assert!(!reason.chars().any(char::is_control), "{reason:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_bytes_of_one_member_are_bounded() {
    let bench = bench(false);
    let mut held = Vec::new();
    for _ in 0..8 {
        let connection = bench.connect().await;
        let mut streams = Vec::new();
        while let Ok(Ok((mut sink, answers))) =
            timeout(Duration::from_millis(300), connection.open_bi()).await
        {
            // A frame is announced that never ends, so that what follows it is not read.
            sink.write_all(&60_000_u32.to_be_bytes()).await.unwrap();
            let block = vec![0; 64 * 1024];
            while let Ok(Ok(_)) = timeout(Duration::from_millis(300), sink.write(&block)).await {}
            streams.push((sink, answers));
            assert!(streams.len() < 64, "any number of streams may be open");
        }
        held.push((connection, streams));
    }
    let sent: u64 = held
        .iter()
        .map(|(connection, _)| connection.report().sent_bytes)
        .sum();
    assert!(
        sent < 8 * (4 << 20),
        "{} KiB are kept for 8 connections",
        sent >> 10
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_member_brings_no_file_in() {
    let bench = bench(false);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s"), vec![1; 3_000_000]).unwrap();
    let source = Source::open(&folder.path().join("s"), &folder.path().join("s.tree")).unwrap();
    let connection = bench.connect().await;
    let (mut sink, mut answers, missing) = offer_source(&connection, &source).await;
    let revocation = Statement::issue(&bench.owner, 2, 3, BTreeSet::from([2]));
    bench.directory.set_statement(revocation);
    let mut bytes = Vec::new();
    source
        .encode(&from_wire(&missing).unwrap(), &mut bytes)
        .unwrap();
    sink.write_all(&bytes).await.unwrap_or_default();
    sink.finish().unwrap_or_default();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await.unwrap();
    assert!(!matches!(answer, Ok(Frame::Finished)), "the file was taken");
    assert!(!bench.home.path().join("inbox/f.bin").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handed_file_is_not_opened_by_its_path() {
    let bench = bench(true);
    let path = Path::new("/absent/report.pdf");
    let send = |file: File| {
        let handed = ToSend {
            path,
            handed: Some(file),
        };
        let (peer, own) = (&bench.peers_certificate, &bench.own);
        bench.transfers.send(handed, peer, own, Priority::NORMAL)
    };
    let real = bench.home.path().join("real");
    std::fs::write(&real, b"report").unwrap();
    let for_writing = File::options().write(true).open(&real).unwrap();
    let refused = send(for_writing);
    assert!(
        matches!(refused, Err(TransferError::File { .. })),
        "{refused:?}"
    );
    let folder = send(File::open(bench.home.path()).unwrap());
    assert!(
        matches!(folder, Err(TransferError::NotAFile(_))),
        "{folder:?}"
    );
    let sent = send(File::open(&real).unwrap()).unwrap();
    assert_eq!((sent.file.as_str(), sent.size), ("report.pdf", 6));
    bench.directory.admit(bench.own.as_bytes()).unwrap();
    let connection = timeout(PATIENCE, bench.peer.accept())
        .await
        .unwrap()
        .unwrap();
    let (_sink, mut stream) = connection.accept_bi().await.unwrap();
    let Frame::Offer(offer) = Frame::read(&mut stream).await.unwrap() else {
        panic!("no offer");
    };
    assert_eq!(offer.hash, (*blake3::hash(b"report").as_bytes()).into());
    // A daemon that starts again does not believe the path.
    let kept = bench.state.transfers().unwrap();
    assert!(kept.iter().all(|record| record.handed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_ends_its_transfer() {
    let bench = bench(true);
    let path = bench.home.path().join("file");
    std::fs::write(&path, vec![1; 3_000_000]).unwrap();
    let sent = bench
        .transfers
        .send(
            ToSend::at(&path),
            &bench.peers_certificate,
            &bench.own,
            Priority::NORMAL,
        )
        .unwrap();
    bench.directory.admit(bench.own.as_bytes()).unwrap();
    let connection = timeout(PATIENCE, bench.peer.accept())
        .await
        .unwrap()
        .unwrap();
    let (mut sink, mut stream) = connection.accept_bi().await.unwrap();
    let offer = Frame::read(&mut stream).await.unwrap();
    assert!(matches!(offer, Frame::Offer(_)), "{offer:?}");
    std::fs::write(&path, vec![2; 3_000_000]).unwrap();
    let accept = Frame::Accept {
        missing: vec![0],
        present: 0,
        takes_part: None,
    };
    accept.write(&mut sink).await.unwrap();
    let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
    let code = u64::from(crate::connection::code::GIVEN_UP);
    let limits = matches!(&closed, QuicError::ClosedByPeer { code: found, .. } if *found == code);
    assert!(limits, "{closed}");
    let state = || bench.transfers.status(&sent.id).unwrap().0.state;
    eventually("the sender has failed", || state() == "failed").await;
}

/// The bench sends its peer a file of so many bytes, which the peer accepts: the transfer's id, and
/// what comes and goes there.
async fn accepted(bench: &Bench, size: usize) -> (String, QuicConnection, SendStream, RecvStream) {
    let path = bench.home.path().join("file");
    std::fs::write(&path, vec![1; size]).unwrap();
    let (peer, own) = (&bench.peers_certificate, &bench.own);
    let sent = bench
        .transfers
        .send(ToSend::at(&path), peer, own, Priority::NORMAL);
    bench.directory.admit(bench.own.as_bytes()).unwrap();
    let connection = timeout(PATIENCE, bench.peer.accept()).await;
    let connection = connection.unwrap().unwrap();
    let (mut sink, mut stream) = connection.accept_bi().await.unwrap();
    let offer = Frame::read(&mut stream).await.unwrap();
    assert!(matches!(offer, Frame::Offer(_)), "{offer:?}");
    let accept = Frame::Accept {
        missing: vec![0],
        present: 0,
        takes_part: None,
    };
    accept.write(&mut sink).await.unwrap();
    (sent.unwrap().id, connection, sink, stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_receiver_is_reported() {
    let bench = bench(true);
    let (id, _connection, _sink, mut stream) = accepted(&bench, 200 << 20).await;
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 20_000];
        // Two megabytes a second.
        while let Ok(Some(_)) = stream.read(&mut buffer).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let status = || bench.transfers.status(&id).unwrap().0;
    let limit = || status().limited_by;
    eventually("it is the receiver", || {
        limit() == Some(LimitedBy::Receiver)
    })
    .await;
    let mut limits = Vec::new();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        limits.push(limit());
    }
    let by_receiver = limits
        .iter()
        .filter(|limits| **limits == Some(LimitedBy::Receiver));
    assert!(by_receiver.count() >= 15, "{limits:?}");
    assert!(status().rate > Some(0.0));
    reading.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_receiver_is_reported_and_resumed() {
    const SIZE: usize = 40 << 20;
    let bench = bench(true);
    let (id, _connection, mut sink, mut stream) = accepted(&bench, SIZE).await;
    let status = || bench.transfers.status(&id).unwrap().0;
    let limit = || status().limited_by;
    eventually("it is the receiver", || {
        limit() == Some(LimitedBy::Receiver)
    })
    .await;
    let stopped = status();
    assert_eq!(stopped.state, "active");
    // What the receiver allows, and the block that waits.
    let most = u64::from(ringway_transport::limits::QUIC_STREAM_WINDOW) + (128 << 10);
    assert!(
        stopped.bytes <= most,
        "{} bytes are under way",
        stopped.bytes
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(status().bytes, stopped.bytes);
    let mut taken = 0;
    let mut buffer = vec![0; 1 << 16];
    while taken < SIZE {
        let read = timeout(PATIENCE, stream.read(&mut buffer)).await;
        taken += read
            .unwrap()
            .unwrap()
            .unwrap_or_else(|| panic!("ended after {taken}"));
    }
    Frame::Finished.write(&mut sink).await.unwrap();
    eventually("the sender is done", || status().state == "done").await;
}
