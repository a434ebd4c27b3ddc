//! What a program sees: keys and trust, streams, priorities, statistics, errors.

use std::time::Duration;

use ringway_transport::dtl::{Endpoint, Error, Key, Options, PeerKey, Priority, Trust};
use ringway_transport::limits::{DTL_STREAMS, QUIC_HANDSHAKE_TIME};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{bound, directly, key, priority, stream};
use crate::support::{loopback, soon, until};

#[tokio::test]
async fn both_sides_know_the_keys_and_exchange_bytes() {
    let pair = directly().await;
    assert_eq!(pair.out.peer_key(), key(2).peer_key());
    assert_eq!(pair.into.peer_key(), key(1).peer_key());
    let [one, two] = pair.ends.each_ref().map(|end| end.local_address().unwrap());
    assert_eq!(pair.out.remote_address(), Some(two));
    assert_eq!(pair.into.remote_address(), Some(one));
    let (ours, theirs) = stream(&pair, 1.0).await;
    // More than the windows, both ways at once.
    let bytes: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (there, back) = (bytes.clone(), bytes.clone());
    let answering = tokio::spawn(async move {
        let (mut reader, mut writer) = theirs.into_split();
        let sending = async {
            writer.write_all(&back).await.unwrap();
            writer.finish().await.unwrap();
        };
        let mut got = Vec::new();
        tokio::join!(sending, async {
            reader.read_to_end(&mut got).await.unwrap()
        });
        got
    });
    let (mut reader, mut writer) = ours.into_split();
    let sending = async {
        writer.write_all(&there).await.unwrap();
        writer.finish().await.unwrap();
    };
    let mut got = Vec::new();
    soon(async {
        tokio::join!(sending, async {
            reader.read_to_end(&mut got).await.unwrap()
        })
    })
    .await;
    assert!(got == bytes && soon(answering).await.unwrap() == bytes);
}

#[tokio::test]
async fn keys_are_text_and_secrets_are_not_shown() {
    let key = Key::generate().unwrap();
    assert_ne!(key.to_bytes(), Key::generate().unwrap().to_bytes());
    let same = Key::from_bytes(&key.to_bytes());
    assert_eq!(same.peer_key(), key.peer_key());
    let text = key.peer_key().to_string();
    assert_eq!(text.parse::<PeerKey>().unwrap(), key.peer_key());
    let shown = format!("{key:?}");
    assert!(shown.len() < 40 && shown.contains(&text[..8]), "{shown}");
    let error = "x\u{1b}[2J".parse::<PeerKey>().unwrap_err().to_string();
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[tokio::test]
async fn another_key_than_expected_is_named() {
    let ((one, ..), (_two, address, found)) = (bound(1), bound(2));
    let expected = key(3).peer_key();
    let error = soon(one.connect(address, expected, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::WrongPeer { expected: e, found: f } if e == expected && f == found),
        "{error}"
    );
    let several = Trust::from([key(3).peer_key(), key(4).peer_key()]);
    let error = soon(one.connect(address, several, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::NotTrusted { found: f } if f == found),
        "{error}"
    );
    let two_of_them = Trust::from([key(3).peer_key(), found]);
    soon(one.connect(address, two_of_them, Priority::NORMAL))
        .await
        .unwrap();
}

#[tokio::test]
async fn untrusted_key_is_refused_in_the_handshake() {
    let trusted = key(1).peer_key();
    let accepts = Trust::ask(move |key| *key == trusted);
    let server = Endpoint::bind(loopback(), &key(2), accepts).unwrap();
    let address = server.local_address().unwrap();
    let ((one, ..), (other, ..)) = (bound(1), bound(9));
    let error = soon(other.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let said = error.to_string();
    assert!(
        !said.contains("member") && said.contains("trusts this key"),
        "{said}"
    );
    soon(one.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap();
}

/// What is accepted at first is expected from then on.
#[tokio::test]
async fn first_use_is_remembered_by_its_key() {
    let ((one, ..), (two, address, _)) = (bound(1), bound(2));
    let first = soon(one.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap();
    let known = first.peer_key();
    assert_eq!(known, key(2).peer_key());
    soon(one.connect(address, known, Priority::NORMAL))
        .await
        .unwrap();
    two.close(0, "");
    two.wait_idle().await;
    drop((first, two));
    // Somebody else at the same address.
    let bind = || Endpoint::bind(address, &key(7), Trust::Anyone);
    let mut impostor = None;
    until(|| {
        impostor = bind().ok();
        impostor.is_some()
    })
    .await;
    let error = soon(one.connect(address, known, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::WrongPeer { .. }), "{error}");
}

/// Members of rings and programs without one use the same QUIC, and refuse each other.
#[tokio::test]
async fn programs_and_members_refuse_each_other() {
    use ringway_transport::MemberId;
    use ringway_transport::quic::{QuicEndpoint, QuicOptions};
    let signing = crate::support::key(5);
    let allow = std::sync::Arc::new(|_: &MemberId| true);
    let member = QuicEndpoint::bind(loopback(), &signing, allow, QuicOptions::default()).unwrap();
    let (one, address, program) = bound(1);
    let there = member.local_address().unwrap();
    let error = soon(one.connect(there, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let program = MemberId::new(*program.as_bytes());
    soon(member.connect(address, program, Priority::NORMAL))
        .await
        .unwrap_err();
}

#[tokio::test]
async fn an_endpoint_without_trust_accepts_no_connection() {
    let silent = Endpoint::bind(loopback(), &key(2), Trust::none()).unwrap();
    let address = silent.local_address().unwrap();
    let (one, ..) = bound(1);
    let begin = std::time::Instant::now();
    soon(one.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap_err();
    assert!(begin.elapsed() < 3 * QUIC_HANDSHAKE_TIME);
}

#[tokio::test]
async fn bind_says_what_is_wrong_with_the_address() {
    let (_one, address, _) = bound(1);
    let error = Endpoint::bind(address, &key(2), Trust::Anyone).unwrap_err();
    assert!(matches!(error, Error::Bind { address: a, .. } if a == address));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn dropping_a_stream_finishes_it() {
    let pair = directly().await;
    let (mut ours, mut theirs) = stream(&pair, 1.0).await;
    ours.write_all(&vec![7; 100_000]).await.unwrap();
    drop(ours);
    let mut got = Vec::new();
    soon(theirs.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got.len(), 100_000);
}

#[tokio::test]
async fn the_peer_sees_reset_stop_and_close() {
    let pair = directly().await;
    let (mut ours, mut theirs) = stream(&pair, 1.0).await;
    assert!(ours.reset(3) && !ours.reset(3));
    soon(theirs.read_u8()).await.unwrap_err();
    let (mut ours, mut theirs) = stream(&pair, 1.0).await;
    assert!(theirs.stop(4));
    let error = soon(async {
        loop {
            if let Err(error) = ours.write_all(&[1; 1000]).await {
                return error;
            }
        }
    })
    .await;
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(
        error
            .to_string()
            .contains("stopped reading the stream with code 4"),
        "{error}"
    );
    let (mut ours, _theirs) = stream(&pair, 1.0).await;
    pair.into.close(9, "no more\n\u{1b}[1m");
    let error = soon(pair.out.closed()).await;
    assert!(
        matches!(error, Error::ClosedByPeer { code: 9, .. }),
        "{error}"
    );
    assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
    let error = soon(async {
        loop {
            if let Err(error) = ours.write_all(b"x").await {
                return error;
            }
        }
    })
    .await;
    assert!(error.to_string().contains("code 9"), "{error}");
    soon(ours.finish()).await.unwrap_err();
    soon(pair.out.open(Priority::NORMAL)).await.unwrap_err();
}

/// What was finished has arrived, also if everything is dropped after it.
#[tokio::test]
async fn finish_waits_until_the_peer_has_everything() {
    let pair = directly().await;
    let (mut ours, mut theirs) = stream(&pair, 1.0).await;
    let reading = tokio::spawn(async move {
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.map(|_| got.len())
    });
    ours.write_all(&vec![7; 3_000_000]).await.unwrap();
    soon(ours.finish()).await.unwrap();
    drop((ours, pair.out, pair.ends));
    assert_eq!(soon(reading).await.unwrap().unwrap(), 3_000_000);
}

#[tokio::test]
async fn streams_past_the_bound_wait_for_others() {
    let pair = directly().await;
    let mut held = Vec::new();
    for _ in 0..DTL_STREAMS {
        held.push(stream(&pair, 1.0).await);
    }
    let opening = pair.out.open(Priority::NORMAL);
    let waits = tokio::time::timeout(Duration::from_millis(200), opening).await;
    assert!(waits.is_err(), "no more than {DTL_STREAMS}");
    // QUIC gives room for several at once.
    for (mut ours, mut theirs) in held {
        theirs.shutdown().await.unwrap();
        let reading = tokio::spawn(async move { theirs.read_to_end(&mut Vec::new()).await });
        soon(ours.finish()).await.unwrap();
        soon(ours.read_to_end(&mut Vec::new())).await.unwrap();
        soon(reading).await.unwrap().unwrap();
    }
    soon(pair.out.open(Priority::NORMAL)).await.unwrap();
}

#[tokio::test]
async fn statistics_tell_of_what_was_sent() {
    let pair = directly().await;
    pair.out.set_priority(priority(2.5));
    let (mut ours, mut theirs) = stream(&pair, 1.0).await;
    let reading = tokio::spawn(async move { theirs.read_to_end(&mut Vec::new()).await });
    ours.write_all(&vec![7; 2_000_000]).await.unwrap();
    soon(ours.finish()).await.unwrap();
    soon(reading).await.unwrap().unwrap();
    let sent = pair.out.statistics();
    assert_eq!(sent.priority, priority(2.5));
    assert!(
        sent.sent_bytes > 2_000_000 && sent.sent_packets > 300,
        "{sent:?}"
    );
    assert!(sent.rtt > Duration::ZERO && sent.rate.is_some(), "{sent:?}");
    assert!(sent.limited_by.is_some() && sent.mode.is_some(), "{sent:?}");
    assert!((0.0..0.5).contains(&sent.loss()), "{sent:?}");
    assert!(
        sent.received_packets > 0 && sent.received_bytes > 0,
        "{sent:?}"
    );
    let got = pair.into.statistics();
    assert!(
        got.received_bytes > 2_000_000 && got.priority == Priority::NORMAL,
        "{got:?}"
    );
}

#[tokio::test]
async fn options_say_what_accepted_connections_are_worth() {
    let options = Options {
        priority: Priority::SCAVENGER,
        connections: 1,
        ..Options::default()
    };
    let server = Endpoint::bind_with(loopback(), &key(2), Trust::Anyone, options).unwrap();
    let address = server.local_address().unwrap();
    let (one, ..) = bound(1);
    let _held = soon(one.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap();
    let accepted = soon(server.accept()).await.unwrap();
    assert_eq!(accepted.priority(), Priority::SCAVENGER);
    soon(one.connect(address, Trust::Anyone, Priority::NORMAL))
        .await
        .unwrap_err();
    server.close(0, "");
    assert!(soon(server.accept()).await.is_none());
}
