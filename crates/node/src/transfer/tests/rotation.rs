//! Transfers with a member that gets another key meanwhile.

use super::*;
use crate::statement::{Parameters, Serials};

/// The owner says that the peer's certificate, number 2, was replaced by this one.
fn replaced_by(bench: &Bench, serial: u64) -> Statement {
    let replaced = [(2, serial)].into();
    let serials = Serials {
        replaced,
        ..Serials::default()
    };
    Statement::issue_with(&bench.owner, 2, Parameters::default(), serials)
}

/// A certificate in the peer's name, and an endpoint for its key.
fn another_key(bench: &Bench, serial: u64) -> (Certificate, QuicEndpoint) {
    let identity = Identity::generate().unwrap();
    let fields = CertificateFields {
        member: identity.member(),
        name: "peer".parse().unwrap(),
        address: Some("127.0.0.1:1".parse().unwrap()),
        nonce: [1; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial,
    };
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let endpoint = QuicEndpoint::bind(
        any,
        identity.signing_key(),
        Arc::new(|_| true),
        QuicOptions::default(),
    );
    (Certificate::issue(&bench.owner, &fields), endpoint.unwrap())
}

async fn connect(bench: &Bench, endpoint: &QuicEndpoint) -> QuicConnection {
    let connected = endpoint.connect(bench.at, bench.me.member(), Priority::NORMAL);
    connected.await.unwrap()
}

/// A file that has begun to come from the peer with its old key, and waits.
async fn begun(bench: &Bench) {
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
    connection.close(0, "");
    let state = || bench.transfers.list().remove(0).state;
    eventually("waits", || state() == "waiting").await;
    assert!(!bench.parts().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_rotated_sender_go_on() {
    let bench = bench(false);
    begun(&bench).await;
    bench.directory.set_statement(replaced_by(&bench, 3));
    bench.transfers.end_unadmitted();
    assert_eq!(bench.transfers.list().remove(0).state, "waiting");
    assert!(!bench.parts().is_empty(), "what had come was thrown away");

    let (certificate, endpoint) = another_key(&bench, 3);
    bench.directory.admit(certificate.as_bytes()).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
    assert_eq!(bench.transfers.list().len(), 1);
    connection.close(0, "");
    // The new key is revoked: that is the end of it.
    eventually("waits", || bench.transfers.list()[0].state == "waiting").await;
    let revoked = Statement::issue(&bench.owner, 3, 3, BTreeSet::from([2, 3]));
    bench.directory.set_statement(revoked);
    bench.transfers.end_unadmitted();
    assert_eq!(bench.transfers.list().remove(0).state, "failed");
    eventually("nothing is left", || bench.parts().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_new_key_ends_nothing() {
    let bench = bench(false);
    begun(&bench).await;
    let (certificate, endpoint) = another_key(&bench, 3);
    bench.directory.admit(certificate.as_bytes()).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    let later = matches!(
        answer,
        Frame::Refuse {
            try_later: true,
            ..
        }
    );
    assert!(later, "{answer:?}");
    assert_eq!(bench.transfers.list().remove(0).state, "waiting");
    bench.directory.set_statement(replaced_by(&bench, 3));
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namesake_gets_no_file_of_its_predecessor() {
    let bench = bench(false);
    begun(&bench).await;
    bench.directory.set_statement(replaced_by(&bench, 3));
    // An older certificate in the same name, and one that another has.
    let (older, endpoint) = another_key(&bench, 1);
    bench.directory.admit(older.as_bytes()).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    let never = matches!(
        answer,
        Frame::Refuse {
            try_later: false,
            ..
        }
    );
    assert!(never, "{answer:?}");
    let (newer, endpoint) = another_key(&bench, 4);
    bench.directory.admit(newer.as_bytes()).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Refuse { .. }), "{answer:?}");
    assert_eq!(bench.transfers.list().remove(0).state, "waiting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_readmitted_member_begin_again() {
    let bench = bench(false);
    begun(&bench).await;
    let revoked = Statement::issue(&bench.owner, 2, 3, BTreeSet::from([2]));
    bench.directory.set_statement(revoked);
    bench.transfers.end_unadmitted();
    assert_eq!(bench.transfers.list().remove(0).state, "failed");
    eventually("nothing is left", || bench.parts().is_empty()).await;

    let (certificate, endpoint) = another_key(&bench, 3);
    bench.directory.admit(certificate.as_bytes()).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
    assert_eq!(bench.transfers.list().len(), 1);
    connection.close(0, "");
    eventually("waits", || bench.transfers.list()[0].state == "waiting").await;
    // What was given up by somebody here stays so.
    let id = bench.transfers.list().remove(0).id;
    bench.transfers.cancel(&id).unwrap();
    let connection = connect(&bench, &endpoint).await;
    let (_sink, answer) = offer(&connection, 7).await;
    let never = matches!(
        answer,
        Frame::Refuse {
            try_later: false,
            ..
        }
    );
    assert!(never, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_follow_a_rotated_receiver() {
    let bench = bench(true);
    let sent = bench.send().unwrap();
    let first = timeout(PATIENCE, bench.peer.accept()).await;
    let first = first.unwrap().unwrap();
    let (certificate, _endpoint) = another_key(&bench, 3);
    bench.directory.set_statement(replaced_by(&bench, 3));
    bench.directory.admit(certificate.as_bytes()).unwrap();
    first.close(0, "");
    // The peer is where it was, but has not the new key: no other gets the file, and it does not
    // fail.
    let state = || bench.transfers.status(&sent.id).unwrap().0;
    eventually("waits", || state().state == "waiting").await;
    let stored = State::open(bench.home.path()).unwrap();
    let followed = || {
        let transfers = stored.transfers().unwrap();
        transfers[0].peer == certificate.member() && transfers[0].peer_serial == 3
    };
    eventually("it is for the new key", followed).await;
    assert_ne!(state().state, "failed");
}
