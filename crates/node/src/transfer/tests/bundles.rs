//! Bundles of a member that puts into their lists what it likes.

use super::super::wire::OfferedBundle;
use super::*;
use crate::limits::{BUNDLE_ENTRIES, BUNDLE_LIST};

const FOLDER: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;

/// An entry as it stands in a list, whatever it says.
fn entry(depth: u8, kind: u8, name: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![depth, kind, 0o1, 0o355];
    bytes.extend(1_700_000_000_i64.to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.push(name.len().try_into().unwrap());
    bytes.extend(name);
    bytes.extend(rest);
    bytes
}

fn folder(depth: u8, name: &[u8]) -> Vec<u8> {
    entry(depth, FOLDER, name, &[])
}

fn file(depth: u8, name: &[u8]) -> Vec<u8> {
    entry(depth, FILE, name, &3_u64.to_be_bytes())
}

fn link(depth: u8, name: &[u8], target: &[u8]) -> Vec<u8> {
    let mut rest = u16::try_from(target.len()).unwrap().to_be_bytes().to_vec();
    rest.extend(target);
    entry(depth, LINK, name, &rest)
}

fn list(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"rwb1".to_vec();
    bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
    entries.iter().for_each(|entry| bytes.extend(entry));
    bytes.resize(bytes.len().next_multiple_of(16 * 1024), 0);
    bytes
}

/// Offers a bundle with this list and `content` behind it, and sends it if it is taken. Gives the
/// last answer.
async fn send(bench: &Bench, id: u128, list: &[u8], content: &[u8]) -> Frame {
    let path = bench.home.path().join("bundle");
    std::fs::write(&path, [list, content].concat()).unwrap();
    let source = Source::open(&path, &bench.home.path().join("bundle.tree")).unwrap();
    let connection = bench.connect().await;
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::OfferBundle(Offer {
        id: id.to_be_bytes().into(),
        file: "d\x1b[2J\nx".to_owned(),
        size: source.size,
        hash: (*source.hash.as_bytes()).into(),
        bundle: Some(OfferedBundle {
            head: list.len().try_into().unwrap(),
            entries: 2,
            folder: true,
        }),
        distributed: None,
    });
    offer.write(&mut sink).await.unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    let Frame::Accept { missing, .. } = answer.unwrap().unwrap() else {
        panic!("not accepted");
    };
    let mut encoded = Vec::new();
    let ranges = from_wire(&missing).unwrap();
    source.encode(&ranges, &mut encoded).unwrap();
    // A receiver that refuses it may have ended the stream.
    sink.write_all(&encoded).await.ok();
    sink.finish().ok();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    answer.unwrap().unwrap()
}

/// The names in the inbox, without the folder for parts.
fn arrived(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.home.path().join("inbox")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".partial").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malicious_lists_are_refused_in_one_line() {
    let bench = bench(false);
    let d = folder(0, b"d");
    let outside = bench.home.path().join("outside");
    let to_outside = outside.as_os_str().as_bytes();
    let cases = [
        (
            vec![d.clone(), file(1, b"../../../outside")],
            "no file's name",
        ),
        (vec![d.clone(), file(1, to_outside)], "no file's name"),
        (vec![d.clone(), file(1, b"..")], "no file's name"),
        (vec![d.clone(), file(1, b"a\0b")], "no file's name"),
        (vec![d.clone(), file(1, b"x"), file(1, b"x")], "twice"),
        // A file and a folder of one name, and something in a file.
        (vec![d.clone(), file(1, b"x"), folder(1, b"x")], "twice"),
        (vec![d.clone(), file(1, b"x"), file(2, b"y")], "malformed"),
        (vec![d.clone(), link(1, b"x", to_outside)], "leads out"),
        (vec![d.clone(), link(1, b"x", b"../..")], "leads out"),
        // Behind a link.
        (
            vec![d.clone(), link(1, b"x", b"y"), file(2, b"y")],
            "malformed",
        ),
        (vec![d.clone(), link(1, b"x", b"y"), file(1, b"x")], "twice"),
        (vec![d.clone(), file(1, b"a")], "do not add up"),
    ];
    for ((entries, words), id) in cases.into_iter().zip(1_u128..) {
        let files = entries.iter().filter(|entry| entry.get(1) == Some(&FILE));
        let mut content = b"abc".repeat(files.count());
        if words == "do not add up" {
            content.extend(b"more");
        }
        let answer = send(&bench, id, &list(&entries), &content).await;
        let Frame::Refuse { reason, try_later } = answer else {
            panic!("{words}: {answer:?}");
        };
        assert!(reason.contains(words) && !try_later, "{words}: {reason}");
        assert!(!reason.chars().any(char::is_control), "{reason:?}");
        let id = TransferId(id.to_be_bytes()).to_string();
        let status = || bench.transfers.status(&id).unwrap().0;
        eventually("it has failed", || status().state == "failed").await;
        assert!(status().reason.unwrap().contains(words), "{:?}", status());
        eventually("nothing is left", || bench.parts().is_empty()).await;
    }
    assert_eq!(arrived(&bench), Vec::<String>::new());
    assert!(!outside.exists());
}

/// Names within a folder stay as they are; that at the top and what is shown is harmless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controls_in_names_reach_no_terminal() {
    let bench = bench(false);
    let entries = [folder(0, b"d\x1b[2J\nx"), file(1, b"a\x1b[2Jb")];
    assert_eq!(
        send(&bench, 1, &list(&entries), b"abc").await,
        Frame::Finished
    );
    let [name] = arrived(&bench).try_into().unwrap();
    assert!(!name.chars().any(char::is_control), "{name:?}");
    let inner = bench
        .home
        .path()
        .join("inbox")
        .join(&name)
        .join("a\x1b[2Jb");
    assert_eq!(std::fs::read(inner).unwrap(), b"abc");
    let status = bench.transfers.list().remove(0);
    assert!(!status.file.chars().any(char::is_control), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundles_past_the_bounds_are_refused() {
    let bench = bench(false);
    let size = 1 << 30;
    for (head, entries) in [
        (2 * BUNDLE_LIST, 1),
        (1 << 14, u64::from(BUNDLE_ENTRIES) + 1),
    ] {
        let connection = bench.connect().await;
        let (mut sink, mut answers) = connection.open_bi().await.unwrap();
        let bundle = OfferedBundle {
            head,
            entries,
            folder: true,
        };
        let offer = Frame::OfferBundle(Offer {
            id: [9; 16].into(),
            file: "d".to_owned(),
            size,
            hash: [9; 32].into(),
            bundle: Some(bundle),
            distributed: None,
        });
        offer.write(&mut sink).await.unwrap();
        let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
        let Ok(Frame::Refuse { reason, try_later }) = answer.unwrap() else {
            panic!("{head} {entries}");
        };
        assert!(reason.contains("1000000 files") && !try_later, "{reason}");
        assert!(bench.transfers.list().is_empty());
    }
}

/// The sender's end of a refusal in the middle: its stream is stopped, and the reason is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_in_the_middle_reach_the_sender() {
    let bench = bench(true);
    let (id, _connection, mut sink, stream) = accepted(&bench, 40 << 20).await;
    let refusal = Frame::Refuse {
        reason: "the list\x1b[2J is not valid".to_owned(),
        try_later: false,
    };
    refusal.write(&mut sink).await.unwrap();
    sink.finish().unwrap();
    drop(stream);
    let status = || bench.transfers.status(&id).unwrap().0;
    eventually("it has failed", || status().state == "failed").await;
    let reason = status().reason.unwrap();
    assert_eq!(reason, "refused: the list[2J is not valid");
}
