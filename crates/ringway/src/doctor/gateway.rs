//! What the gateway needs of this machine, and what it says of itself. The list of the in-kernel
//! path is that of `ringway gate doctor`.

use std::path::Path;

use ringway_gateway::linux::kernel::BPFFS;
use ringway_gateway::service::GatewayStatus;
use ringway_gateway::verdict::Mode;
use rustix::fs::statfs;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look, Looking, program};
use crate::gate;

pub(super) const CHECK: Check = Check {
    name: "gateway",
    look: Look::InTime(look),
};

/// What statfs(2) says of a bpf file system (`BPF_FS_MAGIC`).
const BPFFS_MAGIC: rustix::fs::FsWord = 0xcafe_4a11;

/// Where the kernel says that packets can be queued for user space.
const QUEUES: &str = "/proc/net/netfilter/nfnetlink_queue";

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        if !subject.has_gateway {
            return;
        }
        let at = subject.gate_socket.display().to_string();
        match &subject.gateway {
            Some(status) => says(&at, status, findings),
            None => findings.note(
                &at,
                "no gateway answers there, at least not to this user",
                "sudo systemctl status ringway-gate, or `ringway gate up`",
            ),
        }
        // What it needs is looked at also while it runs: the next start needs it again.
        tools(findings).await;
        if !rustix::process::geteuid().is_root() {
            return findings.note(
                "the in-kernel path",
                "only root can look",
                "sudo ringway doctor",
            );
        }
        in_kernel(findings);
    })
}

/// What the running gateway says of itself.
fn says(at: &str, status: &GatewayStatus, findings: &mut Findings) {
    let mode = match status.mode {
        Mode::Observe => "observes",
        Mode::Enforce => "enforces",
    };
    let seen = format!("runs, pid {}, {mode} {}", status.pid, status.policy);
    findings.ok(at, &seen);
    // What `ringway gate status` shows only if there is any.
    if status.queues < status.queues_begun {
        let seen = format!("{} of {} answer", status.queues, status.queues_begun);
        findings.wrong("queues", &seen, "sudo systemctl restart ringway-gate");
    }
    if let Some(reload) = status.reload.as_ref().filter(|reload| !reload.loaded) {
        let seen = format!(
            "the policy was not loaded again: {}",
            reload.notes.join("; ")
        );
        findings.wrong(
            &status.policy,
            &seen,
            "ringway gate check FILE, then systemctl reload ringway-gate",
        );
    }
    if let Some(reason) = &status.rules_not_looked_after {
        findings.wrong("rules", reason, "sudo systemctl restart ringway-gate");
    }
    if status.rules_put_back > 0 {
        let seen = format!(
            "put back {} times after another program changed them",
            status.rules_put_back
        );
        findings.note(
            "rules",
            &seen,
            "see which program reloads the packet filter: journalctl -u ringway-gate",
        );
    }
    if status.events_lost > 0 {
        let seen = format!("{} lost: the disk is too slow", status.events_lost);
        findings.note(
            "events",
            &seen,
            "a faster disk for --state, or fewer rules that write",
        );
    }
}

/// Programs and modules that either path needs.
async fn tools(findings: &mut Findings) {
    match program::run("iptables", &["--version"]).await {
        Some(said) => findings.ok("iptables", said.text.trim()),
        None => findings.wrong("iptables", "it is missing", "sudo apt install iptables"),
    }
    let loaded = Path::new(QUEUES).exists();
    let known = loaded
        || program::run("modinfo", &["nfnetlink_queue"])
            .await
            .is_some_and(|said| said.success);
    match (loaded, known) {
        (true, _) => findings.ok("nfnetlink_queue", "loaded"),
        (false, true) => findings.ok("nfnetlink_queue", "there, and loaded when it is needed"),
        (false, false) => findings.note(
            "nfnetlink_queue",
            "neither loaded nor found as a module; it may be built in",
            "sudo modprobe nfnetlink_queue; small systems have it in linux-modules-extra",
        ),
    }
}

/// The user path does without all of it.
fn in_kernel(findings: &mut Findings) {
    // To look for it the programs are loaded for a moment, which takes that file system: this
    // command mounts nothing.
    let mounted = statfs(BPFFS).is_ok_and(|found| found.f_type == BPFFS_MAGIC);
    if !mounted {
        let mend = "ringway gate doctor";
        return findings.note(
            "the in-kernel path",
            &format!("no bpf file system at {BPFFS}"),
            mend,
        );
    }
    let needs = gate::needs();
    let (there, missing): (Vec<_>, Vec<_>) = needs.iter().partition(|need| need.missing.is_none());
    for need in &missing {
        let at = format!("{} ({})", need.name, need.needed_for);
        let why = need.missing.as_deref().unwrap_or_default();
        findings.note(&at, why, "`gate up --path user` or `auto` does without");
    }
    let seen = format!(
        "{} of {} things that it needs are there",
        there.len(),
        needs.len()
    );
    findings.ok("the in-kernel path", &seen);
}
