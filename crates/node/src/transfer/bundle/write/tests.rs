//! Bundles from a folder into an inbox.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::manifest::Writer;
use super::super::walk::Walked;
use super::*;

fn content(walked: &Walked) -> Vec<u8> {
    let mut content = Vec::new();
    walked.stream().read_to_end(&mut content).unwrap();
    content
}

/// All of it, in pieces of 16 KiB.
fn write_all(into: &mut Unpacking, content: &[u8]) -> io::Result<()> {
    for (number, piece) in content.chunks(16_384).enumerate() {
        into.write(u64::try_from(number * 16_384).unwrap(), piece)?;
    }
    Ok(())
}

fn begin(inbox: &Path, size: usize, head: u64) -> Unpacking {
    let parts = inbox.join(".partial");
    fs::create_dir_all(&parts).unwrap();
    Unpacking::open(&parts, "id", u64::try_from(size).unwrap(), head).unwrap()
}

fn sample(folder: &Path) -> PathBuf {
    let root = folder.join("photos");
    fs::create_dir_all(root.join("deep/empty")).unwrap();
    fs::write(root.join("a"), vec![7; 20_000]).unwrap();
    fs::write(root.join("deep/b"), b"bb").unwrap();
    fs::write(root.join("deep/none"), b"").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xff\n")), b"odd").unwrap();
    symlink("../a", root.join("deep/link")).unwrap();
    for (path, mode) in [
        ("a", 0o640),
        ("deep/b", 0o755),
        ("deep", 0o750),
        ("deep/none", 0o444),
    ] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123);
    for path in ["a", "deep"] {
        File::open(root.join(path))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    root
}

/// Path, kind, mode, size or target, and seconds, of all in a folder.
fn facts(folder: &Path) -> Vec<String> {
    let (mut all, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            let shown = path.strip_prefix(folder).unwrap();
            let mode = facts.mode() & 0o777;
            let what = match facts.file_type() {
                kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                kind if kind.is_file() => format!("{mode:o} {:?}", fs::read(&path).unwrap()),
                _ => format!("{mode:o}"),
            };
            all.push(format!(
                "{shown:?} {what} {}.{}",
                facts.mtime(),
                facts.mtime_nsec()
            ));
            if facts.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

#[test]
fn folder_arrives_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample(folder.path());
    let walked = Walked::new(std::slice::from_ref(&root), None).unwrap();
    let inbox = folder.path().join("inbox");
    let content = content(&walked);
    let mut into = begin(&inbox, content.len(), walked.list.head());
    write_all(&mut into, &content).unwrap();
    let mut back = vec![0; content.len()];
    into.read_exact_at(0, &mut back).unwrap();
    assert!(back == content, "what was written is not read");
    let path = into.finish(&inbox).unwrap();
    assert_eq!(path, inbox.join("photos"));
    assert_eq!(facts(&path), facts(&root));
    drop(into);
    Unpacking::discard(&inbox.join(".partial"), "id");
    assert_eq!(fs::read_dir(inbox.join(".partial")).unwrap().count(), 0);
}

/// What is there is read before more is written, in the middle of a file.
#[test]
fn interrupted_files_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let walked = Walked::new(&[sample(folder.path())], None).unwrap();
    let inbox = folder.path().join("inbox");
    let content = content(&walked);
    let middle = 2 * 16_384;
    let head = walked.list.head();
    let mut into = begin(&inbox, content.len(), head);
    write_all(&mut into, &content[..middle]).unwrap();
    drop(into);
    let mut again = begin(&inbox, content.len(), head);
    again.read_list().unwrap();
    let mut there = vec![0; middle];
    again.read_exact_at(0, &mut there).unwrap();
    assert!(there == content[..middle]);
    again
        .write(middle.try_into().unwrap(), &content[middle..])
        .unwrap();
    let path = again.finish(&inbox).unwrap();
    assert_eq!(facts(&path), facts(&folder.path().join("photos")));
}

#[test]
fn interrupted_moves_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample(folder.path());
    fs::write(folder.path().join(".hidden"), b"x").unwrap();
    let paths = [root, folder.path().join(".hidden")];
    let walked = Walked::new(&paths, None).unwrap();
    let inbox = folder.path().join("inbox");
    let content = content(&walked);
    let mut into = begin(&inbox, content.len(), walked.list.head());
    fs::create_dir(inbox.join("photos")).unwrap();
    write_all(&mut into, &content).unwrap();
    into.finish(&inbox).unwrap();
    let there = |name: &str| fs::symlink_metadata(inbox.join(name)).is_ok();
    assert!(there("photos (2)") && there("hidden"));
    // As if the machine had stopped when one of them was moved.
    fs::rename(
        inbox.join("hidden"),
        inbox.join(".partial/id.folder/.hidden"),
    )
    .unwrap();
    let mut again = begin(&inbox, content.len(), walked.list.head());
    assert_eq!(again.finish(&inbox).unwrap(), inbox);
    assert!(there("hidden") && !there("photos (3)") && !there("hidden (2)"));
}

#[test]
fn links_on_the_receivers_disk_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample(folder.path());
    let walked = Walked::new(&[root], None).unwrap();
    let (inbox, outside) = (folder.path().join("inbox"), folder.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    let content = content(&walked);
    let mut into = begin(&inbox, content.len(), walked.list.head());
    let staged = inbox.join(".partial/id.folder");
    symlink(&outside, staged.join("photos")).unwrap();
    assert!(write_all(&mut into, &content).is_err());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn invalid_lists_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = folder.path().join("inbox");
    let mut writer = Writer::new();
    let entry = |depth, name, kind| Entry {
        depth,
        name,
        mode: 0o777,
        modified: (0, 0),
        kind,
    };
    writer.push(&entry(0, b"d", Kind::Folder)).unwrap();
    writer
        .push(&entry(1, b"a", Kind::Link { target: b"/etc" }))
        .unwrap();
    writer
        .push(&entry(1, b"b", Kind::File { size: 3 }))
        .unwrap();
    let mut content = writer.finish();
    let head = u64::try_from(content.len()).unwrap();
    content.extend(b"abc");
    let mut into = begin(&inbox, content.len(), head);
    let refused = write_all(&mut into, &content).unwrap_err();
    assert_eq!(invalid_list(&refused), Some(Invalid::Link));
    let staged = inbox.join(".partial/id.folder");
    assert_eq!(fs::read_dir(staged).unwrap().count(), 0);
    assert_eq!(
        invalid_list(&into.finish(&inbox).unwrap_err()),
        Some(Invalid::Link)
    );
}

#[test]
fn modes_let_no_other_user_write() {
    let entry = |mode, kind| Entry {
        depth: 0,
        name: b"x",
        mode,
        modified: (0, 0),
        kind,
    };
    let file = Kind::File { size: 0 };
    let mode = |mode, kind, shared| mode_of(&entry(mode, kind), shared).as_raw_mode();
    assert_eq!(mode(0o777, file, false), 0o755);
    assert_eq!(mode(0o600, file, true), 0o640);
    assert_eq!(mode(0o700, Kind::Folder, true), 0o2750);
}
