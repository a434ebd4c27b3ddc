//! What is found in folders.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn listed(walked: &Walked) -> Vec<String> {
    let numbers = 0..walked.list.entries();
    numbers
        .map(|number| walked.list.path(number).to_string_lossy().into_owned())
        .collect()
}

#[test]
fn all_in_a_folder_is_listed_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("photos");
    fs::create_dir_all(root.join("b/empty")).unwrap();
    fs::write(root.join("z"), b"last").unwrap();
    fs::write(root.join("a"), b"first").unwrap();
    fs::write(root.join("b/c"), b"inner").unwrap();
    symlink("../a", root.join("b/link")).unwrap();
    let walked = Walked::new(&[root], None).unwrap();
    let paths = listed(&walked);
    let wanted = [
        "photos",
        "photos/a",
        "photos/b",
        "photos/b/c",
        "photos/b/empty",
    ];
    assert_eq!(paths[..5], wanted);
    assert_eq!(paths[5..], ["photos/b/link", "photos/z"]);
    assert!(walked.left_out.notes().is_empty());
    let mut content = Vec::new();
    walked.stream().read_to_end(&mut content).unwrap();
    let head = walked.list.as_bytes().len();
    assert_eq!(&content[head..], b"firstinnerlast");
    assert_eq!(content.len() as u64, walked.size());
    // From the middle of one file into the next.
    let mut part = [0; 8];
    let at = u64::try_from(head).unwrap() + 3;
    assert_eq!(walked.read_at(at, &mut part).unwrap(), 8);
    assert_eq!(&part, b"stinnerl");
}

#[test]
fn what_leads_out_is_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("d");
    fs::create_dir_all(root.join("home")).unwrap();
    fs::write(root.join("home/identity.key"), b"secret").unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
    symlink("../../x", root.join("up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let walked = Walked::new(std::slice::from_ref(&root), Some(&root.join("home"))).unwrap();
    assert_eq!(listed(&walked), ["d"]);
    let notes = walked.left_out.notes();
    let has = |words: &str| notes.iter().any(|note| note.contains(words));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        has("2, the first is") && has("d/out") && has("leads out"),
        "{notes:?}"
    );
    assert!(has("d/socket") && has("its key"), "{notes:?}");
}

#[test]
fn links_that_are_named_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("target"), b"x").unwrap();
    let link = folder.path().join("link");
    symlink("target", &link).unwrap();
    let walked = Walked::new(&[link], None).unwrap();
    assert_eq!(listed(&walked), ["link"]);
    assert_eq!(walked.size(), walked.list.head() + 1);
}

#[test]
fn two_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for inner in ["a", "b"] {
        fs::create_dir(folder.path().join(inner)).unwrap();
        fs::write(folder.path().join(inner).join("x"), b"").unwrap();
    }
    let paths = ["a/x", "b/x"].map(|path| folder.path().join(path));
    let refused = Walked::new(&paths, None).unwrap_err().to_string();
    assert!(refused.contains("called `x`"), "{refused}");
}

#[test]
fn changed_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("d");
    fs::create_dir(&root).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), b"12345").unwrap();
    }
    let walked = Walked::new(std::slice::from_ref(&root), None).unwrap();
    fs::write(root.join("b"), b"1").unwrap();
    let read = walked.stream().read_to_end(&mut Vec::new());
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(walked.changed(), Some("d/b".into()));
    let head = walked.list.head();
    assert_eq!(walked.changed_near(head, 16_384), Some("d/b".into()));
    fs::remove_file(root.join("a")).unwrap();
    assert_eq!(walked.changed_near(head, 16_384), Some("d/a".into()));
    // What was a file must not become a way to another.
    symlink("/etc/passwd", root.join("a")).unwrap();
    let mut byte = [0];
    assert!(walked.read_at(head, &mut byte).is_err());
}
