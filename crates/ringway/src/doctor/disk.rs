//! Whether there is room for what daemons write: state, received files, the audit.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use rustix::fs::statvfs;

use super::finding::Findings;
use super::subject::{Read, Subject};
use super::{Check, Look};
use crate::cli::STATE;

pub(super) const CHECK: Check = Check {
    name: "disk",
    look: Look::AtOnce(check),
};

/// Bytes below which a folder is as good as full: the state's own files grow to some tens of MB.
const FULL: u64 = 100 << 20;

/// Bytes below which it is worth saying.
const LITTLE: u64 = 1 << 30;

/// One in so many files may be made still.
const FEW_FILES: u64 = 100;

/// What a file system has.
struct Room {
    free: u64,
    files: u64,
    files_free: u64,
}

fn check(subject: &Subject, findings: &mut Findings) {
    let member = !matches!(subject.member, Read::Absent);
    let inbox = subject.inbox();
    let authority = subject.authority.as_ref().map(|found| found.folder.clone());
    let gateway = subject.has_gateway.then(|| PathBuf::from(STATE));
    let home = member.then(|| subject.home.clone());
    let folders = [
        ("the member's folder", home),
        ("received files", inbox),
        ("the authority's folder", authority),
        ("the gateway's folder", gateway),
    ];
    // Those on one file system say the same, under the names that people know.
    for (what, folder) in folders {
        let Some(folder) = folder.filter(|folder| folder.exists()) else {
            continue;
        };
        let at = format!("{what}, {}", folder.display());
        if let Some(room) = room(&folder) {
            judge(&at, &room, findings);
        }
    }
}

fn room(folder: &Path) -> Option<Room> {
    let found = statvfs(folder).ok()?;
    Some(Room {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        files: found.f_files,
        files_free: found.f_favail,
    })
}

fn judge(at: &str, room: &Room, findings: &mut Findings) {
    let free = format!("{} free", HumanBytes(room.free));
    let mend = format!(
        "make room; `df -h` and `du -xh --max-depth=2 {}` show where it went",
        folder_of(at)
    );
    // File systems that make inodes as they need them say 0.
    if room.files > 0 && room.files_free < room.files / FEW_FILES {
        let seen = format!("{free}, but only {} files can be made", room.files_free);
        return findings.wrong(at, &seen, "remove files: `df -i` shows what is left");
    }
    match room.free {
        0..FULL => findings.wrong(at, &free, &mend),
        FULL..LITTLE => findings.note(at, &free, &mend),
        _ => findings.ok(at, &free),
    }
}

fn folder_of(at: &str) -> &str {
    at.split_once(", ").map_or(at, |(_, folder)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn little_room_and_few_files_show() {
        for (free, files, files_free, level) in [
            (9 << 30, 0, 0, Level::Ok),
            (9 << 30, 1_000, 900, Level::Ok),
            (9 << 30, 1_000, 9, Level::Wrong),
            (500 << 20, 0, 0, Level::Note),
            (5 << 20, 0, 0, Level::Wrong),
        ] {
            let mut findings = Findings::new("disk");
            let room = Room {
                free,
                files,
                files_free,
            };
            judge("received files, /srv/in", &room, &mut findings);
            assert_eq!(only(findings).0, level, "{free} {files_free}");
        }
        assert!(room(Path::new("/")).is_some());
    }
}
