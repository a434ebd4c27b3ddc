//! Lists of honest and of malicious senders.

use proptest::prelude::*;

use super::*;

fn folder(depth: u8, name: &[u8]) -> Entry<'_> {
    Entry {
        depth,
        name,
        mode: 0o755,
        modified: (1_700_000_000, 5),
        kind: Kind::Folder,
    }
}

fn file(depth: u8, name: &[u8], size: u64) -> Entry<'_> {
    Entry {
        kind: Kind::File { size },
        ..folder(depth, name)
    }
}

fn link<'a>(depth: u8, name: &'a [u8], target: &'a [u8]) -> Entry<'a> {
    Entry {
        kind: Kind::Link { target },
        ..folder(depth, name)
    }
}

fn written(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut writer = Writer::new();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish()
}

/// What a receiver says to a list of these entries.
fn read(entries: &[Entry<'_>]) -> Result<Manifest, Invalid> {
    let bytes = written(entries);
    let sizes = entries.iter().map(|entry| match entry.kind {
        Kind::File { size } => size,
        _ => 0,
    });
    let size = sizes.fold(as_u64(bytes.len()), u64::wrapping_add);
    Manifest::read(bytes, size)
}

#[test]
fn positions_lead_to_files() {
    let list = read(&[
        folder(0, b"a"),
        file(1, b"empty", 0),
        file(1, b"one", 10),
        folder(1, b"sub"),
        file(2, b"nothing", 0),
        file(2, b"two", 5),
        file(0, b"b", 0),
    ])
    .unwrap();
    let head = list.head();
    let at = |position| {
        list.file_at(head + position)
            .map(|number| list.path(number))
    };
    assert_eq!(list.file_at(head - 1), None);
    assert_eq!(at(0), Some("a/one".into()));
    assert_eq!(at(9), Some("a/one".into()));
    assert_eq!(at(10), Some("a/sub/two".into()));
    assert_eq!(at(14), Some("a/sub/two".into()));
    assert_eq!(at(15), None);
    assert_eq!(list.tops().collect::<Vec<_>>(), [0, 6]);
    assert_eq!((list.entries(), list.files()), (7, 5));
    assert_eq!(list.files_within(list.size()), 5);
    assert_eq!(list.files_within(0), 0);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        b"".as_slice(),
        b".",
        b"..",
        b"../x",
        b"/etc",
        b"a/b",
        b"a\0b",
    ] {
        assert_eq!(read(&[file(0, name, 0)]), Err(Invalid::Name), "{name:?}");
    }
    // What is no UTF-8 is a name like any other, and so are dots and controls.
    for name in [b"\xff\xfe".as_slice(), b"...", b".git", b"a\nb", b"-rf"] {
        assert!(read(&[file(0, name, 0)]).is_ok(), "{name:?}");
    }
}

#[test]
fn nothing_stands_behind_a_link() {
    let inner = file(2, b"passwd", 1);
    let entries = [folder(0, b"d"), link(1, b"a", b"sub"), inner];
    assert_eq!(read(&entries), Err(Invalid::Malformed));
    let entries = [folder(0, b"d"), file(1, b"a", 1), inner];
    assert_eq!(read(&entries), Err(Invalid::Malformed));
    // A folder of the name of a link.
    let entries = [folder(0, b"d"), link(1, b"a", b"sub"), folder(1, b"a")];
    assert_eq!(read(&entries), Err(Invalid::Order));
}

#[test]
fn links_stay_in_their_top_folder() {
    for (target, depth, inside) in [
        (b"x".as_slice(), 1, true),
        (b"./x/y/", 1, true),
        (b"..", 1, false),
        (b"..", 2, true),
        (b"../../x", 3, true),
        (b"../../x", 2, false),
        (b"/etc/passwd", 3, false),
        (b"x/..", 3, false),
        (b"x/../../..", 3, false),
        (b".", 1, true),
        (b"", 1, false),
        (b"a\0b", 1, false),
        (b"x", 0, false),
    ] {
        assert_eq!(stays_inside(target, depth), inside, "{target:?} at {depth}");
    }
    let out = [folder(0, b"d"), link(1, b"a", b"/etc")];
    assert_eq!(read(&out), Err(Invalid::Link));
    assert_eq!(read(&[link(0, b"a", b"b")]), Err(Invalid::Link));
}

#[test]
fn names_come_once_in_a_folder() {
    let twice = [folder(0, b"d"), folder(0, b"d")];
    assert_eq!(read(&twice), Err(Invalid::Order));
    let twice = [folder(0, b"d"), file(1, b"x", 1), file(1, b"x", 1)];
    assert_eq!(read(&twice), Err(Invalid::Order));
    let again = [
        folder(0, b"d"),
        file(1, b"x", 1),
        folder(0, b"e"),
        file(1, b"x", 1),
    ];
    assert!(read(&again).is_ok());
}

#[test]
fn counts_and_sizes_are_bounded() {
    let mut bytes = written(&[file(0, b"x", 1)]);
    let size = as_u64(bytes.len()) + 1;
    assert!(Manifest::read(bytes.clone(), size).is_ok());
    assert_eq!(Manifest::read(bytes.clone(), size + 1), Err(Invalid::Size));
    bytes[4..8].copy_from_slice(&1_000_000_000_u32.to_be_bytes());
    assert_eq!(Manifest::read(bytes.clone(), size), Err(Invalid::TooLarge));
    // More than there are: zeros are an entry without a name.
    bytes[4..8].copy_from_slice(&2_u32.to_be_bytes());
    assert_eq!(Manifest::read(bytes, size), Err(Invalid::Name));
    let huge = [file(0, b"a", u64::MAX), file(0, b"b", 2)];
    assert_eq!(read(&huge), Err(Invalid::Size));
    let names: Vec<Entry<'_>> = (0..=BUNDLE_DEPTH).map(|d| folder(d, b"d")).collect();
    assert!(read(&names).is_ok());
    let deeper = folder(BUNDLE_DEPTH + 1, b"d");
    let names: Vec<Entry<'_>> = names.into_iter().chain([deeper]).collect();
    assert_eq!(read(&names), Err(Invalid::TooLarge));
    let long = [b'x'; 255];
    let paths: Vec<Entry<'_>> = (0..15).map(|d| folder(d, &long)).collect();
    assert_eq!(read(&paths), Err(Invalid::TooLarge));
    assert_eq!(Manifest::read(Vec::new(), 0), Err(Invalid::Malformed));
    assert_eq!(Manifest::read(vec![0; ALIGN], 0), Err(Invalid::Malformed));
}

/// Any tree, as a list of depth and name of each entry.
fn tree() -> impl Strategy<Value = Vec<(u8, Vec<u8>, u64)>> {
    proptest::collection::vec(
        (
            0_u8..4,
            proptest::collection::vec(1_u8..=255, 1..6),
            0..50_u64,
        ),
        1..40,
    )
}

proptest! {
    #[test]
    fn lists_survive_a_round_trip(tree in tree()) {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for (depth, name, size) in &tree {
            let size = *size;
            let entry = if size % 3 == 0 { folder(*depth, name) } else { file(*depth, name, size) };
            entries.push(entry);
            // Most trees are none: those that are grow entry by entry.
            if read(&entries).is_err() {
                entries.pop();
            }
        }
        if let Ok(list) = read(&entries) {
            let again: Vec<Entry<'_>> = (0..list.entries()).filter_map(|n| list.entry(n)).collect();
            prop_assert_eq!(&again, &entries);
            prop_assert_eq!(written(&again), list.as_bytes());
        }
    }

    #[test]
    fn random_lists_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut list = MAGIC.to_vec();
        list.extend(bytes);
        list.resize(list.len().next_multiple_of(ALIGN), 0);
        let _ignored = Manifest::read(list.clone(), as_u64(list.len()));
    }
}
