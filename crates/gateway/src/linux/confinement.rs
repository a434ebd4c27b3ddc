//! What this process may not do although it is root: write outside of its folders (Landlock), and
//! call what it never needs (seccomp).
//!
//! Root owns nearly all files, so that it could write them without any capability. And code that
//! somebody brings into a parser would have all of the kernel's calls to try.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// What the packet filter's tools and the system's own files take: locks, and `/dev/null`.
const ALWAYS: [&str; 3] = ["/run", "/dev", "/proc/self"];

/// Calls that neither the gateway nor the tools that it runs ever need (syscalls(2)).
const NEVER: [i64; 25] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// What of it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Nothing is written outside of the folders. Older kernels, and some that are built so, have
    /// no Landlock.
    pub folders: bool,
    /// The calls are refused.
    pub calls: bool,
}

/// Confines this thread, those that it will start, and programs that they run, for good: they write
/// below these folders and files only. What does not exist is made first, or it stays unwritable.
/// Call it before there is a second thread, and after privileges were
/// [given up](super::privileges::give_up), which it needs.
///
/// # Errors
/// The system refuses what it says it can do.
pub fn confine(writable: &[PathBuf]) -> io::Result<Confined> {
    Ok(Confined {
        folders: confine_to(writable)?,
        calls: refuse_calls()?,
    })
}

fn confine_to(writable: &[PathBuf]) -> io::Result<bool> {
    // The newest of its versions that this knows; an older kernel does what it can of it.
    let abi = ABI::V5;
    let paths = ALWAYS.iter().map(Path::new);
    let paths = paths.chain(writable.iter().map(PathBuf::as_path));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(abi))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(paths, AccessFs::from_write(abi))))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn refuse_calls() -> io::Result<bool> {
    let Ok(machine) = std::env::consts::ARCH.try_into() else {
        return Ok(false);
    };
    let refused = u32::try_from(libc::EPERM).unwrap_or(1);
    let rules: BTreeMap<i64, Vec<_>> = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let (others, these) = (SeccompAction::Allow, SeccompAction::Errno(refused));
    let filter = SeccompFilter::new(rules, others, these, machine).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)?;
    Ok(true)
}
