//! Where programs and maps outlive a run of the gateway: a folder of the bpf file system for each
//! network namespace and build.
//!
//! Maps of another build may have other keys and values, and nothing in them says so: another
//! build has another folder, and begins with empty maps.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{KernelError, OBJECT};

/// The folder of this network namespace and build.
pub(super) fn folder(bpffs: &Path) -> PathBuf {
    let hash = Sha256::digest(OBJECT);
    let build: String = hash.iter().take(4).map(|b| format!("{b:02x}")).collect();
    bpffs.join(format!("{}-{build}", namespace()))
}

/// The folders of this network namespace, of whichever build.
pub(super) fn folders(bpffs: &Path) -> Vec<PathBuf> {
    let (bare, whole) = (namespace(), format!("{}-", namespace()));
    let ours = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        // Builds before there was one for each had this name.
        name == bare.as_str() || name.to_string_lossy().starts_with(&whole)
    };
    let entries = std::fs::read_dir(bpffs).into_iter().flatten().flatten();
    entries.filter(ours).map(|entry| entry.path()).collect()
}

fn namespace() -> String {
    let number = std::fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino());
    format!("ringway-{number}")
}

/// Removes what is pinned for this network namespace. What is not there needs no removing, and what
/// cannot be removed is empty without its filters.
pub fn remove(bpffs: &Path) {
    for folder in folders(bpffs).iter().chain(&left_trials(bpffs)) {
        remove_all(folder);
    }
}

/// The folder in which a process with this number tries the programs.
pub(super) fn trial(bpffs: &Path, process: u32) -> PathBuf {
    bpffs.join(format!("{TRIAL}{process}"))
}

const TRIAL: &str = "ringway-doctor-";

/// Those of processes that were killed while they tried.
fn left_trials(bpffs: &Path) -> Vec<PathBuf> {
    let left = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(TRIAL));
        process.is_some_and(|process| {
            process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists()
        })
    };
    let entries = std::fs::read_dir(bpffs).into_iter().flatten().flatten();
    entries.filter(left).map(|entry| entry.path()).collect()
}

/// Removes what other builds have pinned for this network namespace.
pub(super) fn remove_others(bpffs: &Path) {
    let own = folder(bpffs);
    for folder in folders(bpffs).iter().filter(|folder| **folder != own) {
        remove_all(folder);
    }
}

pub(super) fn remove_all(folder: &Path) {
    for pinned in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        std::fs::remove_file(pinned.path()).ok();
    }
    std::fs::remove_dir(folder).ok();
}

/// Mounts the file system of programs and maps where it is not there yet. Needs CAP_SYS_ADMIN then.
///
/// # Errors
/// [`KernelError::NoFileSystem`].
pub fn mount(bpffs: &Path) -> Result<(), KernelError> {
    /// `BPF_FS_MAGIC` of `linux/magic.h`.
    const MAGIC: rustix::fs::FsWord = 0xcafe_4a11;
    let there = rustix::fs::statfs(bpffs).is_ok_and(|found| found.f_type == MAGIC);
    if there {
        return Ok(());
    }
    let flags = rustix::mount::MountFlags::NOSUID
        | rustix::mount::MountFlags::NODEV
        | rustix::mount::MountFlags::NOEXEC;
    rustix::mount::mount("bpf", bpffs, "bpf", flags, Some(c"mode=0700"))
        .map_err(|error| KernelError::NoFileSystem(bpffs.to_owned(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{folder, folders, namespace, remove, remove_others};

    #[test]
    fn each_build_and_namespace_has_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let (bpffs, namespace) = (place.path(), namespace());
        let own = folder(bpffs);
        let older =
            [namespace.clone(), format!("{namespace}-0badc0de")].map(|name| bpffs.join(name));
        // A process that runs, and one of a number that none can have (`pid_max` is at most 2^22).
        let killed = bpffs.join("ringway-doctor-99999999");
        std::fs::create_dir(&killed).unwrap();
        let theirs = [format!("{namespace}7"), "ringway-doctor-1".to_owned()];
        let theirs = theirs.map(|name| bpffs.join(name));
        for folder in older.iter().chain(&theirs).chain([&own]) {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("blocked"), "").unwrap();
        }
        assert_eq!(folders(bpffs).len(), 3);
        remove_others(bpffs);
        assert_eq!(folders(bpffs), [own]);
        remove(bpffs);
        assert!(folders(bpffs).is_empty() && !killed.exists());
        assert!(theirs.iter().all(|folder| folder.join("blocked").exists()));
    }
}
