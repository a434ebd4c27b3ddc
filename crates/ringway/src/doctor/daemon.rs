//! Whether the member's daemon runs and answers, has its place in the ring, and moves what it has
//! to move.

use ringway_node::control::{Client, Reply, Request, Status, TransferStatus};
use tokio::time::timeout;

use super::finding::Findings;
use super::subject::{Daemon, Read, Subject};
use super::{Check, Look, Looking};
use crate::limits::DOCTOR_ANSWER;

pub(super) const CHECK: Check = Check {
    name: "daemon",
    look: Look::InTime(look),
};

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        if !subject.has_member() {
            return;
        }
        let at = subject.socket.display().to_string();
        // What it would say of itself is looked at only if it says anything.
        match &subject.daemon {
            Daemon::Answers(status) => {
                let seen = format!("runs, pid {}, up {:.0} s", status.pid, status.uptime_s);
                findings.ok(&at, &seen);
                place(status, findings);
                links(status, findings);
                transfers(subject, findings).await;
            }
            Daemon::Stopped if matches!(subject.member, Read::Absent) => findings.wrong(
                &subject.home.display().to_string(),
                "it is not a member's folder yet",
                "ringway join, with an invite of the ring's owner",
            ),
            Daemon::Stopped => findings.wrong(&at, "no daemon runs", &subject.start_command()),
            Daemon::Forbidden => findings.wrong(
                &at,
                "this user may not use the socket",
                "sudo adduser $USER ringway, and log in again; or run this as the member's user",
            ),
            Daemon::Silent(reason) => findings.wrong(&at, reason, &subject.start_command()),
        }
    })
}

/// Its place in the ring.
fn place(status: &Status, findings: &mut Findings) {
    let at = format!("{} in {}", status.name, status.ring);
    // The words are those of `ringway status`.
    match (status.state.as_str(), status.role.as_str()) {
        ("member", "leaf") => {
            findings.ok(&at, &format!("a leaf with {} parents", status.parents.len()));
        }
        ("member", _) => {
            let count = status.successors.len();
            findings.ok(&at, &format!("a router with {count} successors"));
        }
        ("convicted", _) => findings.wrong(
            &at,
            "other routers hold proof that this one lies, and do not use it",
            "look for a second copy of its home and end it; then `ringway ring rotate NAME` at the owner",
        ),
        (state, "leaf") => findings.wrong(
            &at,
            &format!("{state}: no router answers that would be its parent"),
            "`ringway path ROUTER` says why; UDP or TCP has to get out to the routers' ports",
        ),
        (state, _) => findings.wrong(
            &at,
            &format!("{state}: it is no part of the ring yet"),
            "open its ports to the other routers, by UDP and TCP; `ringway path ROUTER` says more",
        ),
    }
}

fn links(status: &Status, findings: &mut Findings) {
    let others = !status.successors.is_empty() || !status.parents.is_empty();
    match status.links.len() {
        0 if others => findings.wrong(
            "links",
            "none, although other members are known",
            "`ringway path NAME` says why each way is not used",
        ),
        0 => findings.note(
            "links",
            "none: this member is alone, or knows no other yet",
            "`ringway ring members` at the owner lists who is in the ring",
        ),
        count => findings.ok("links", &format!("{count}")),
    }
    // Those of other versions get no link, and only the counter shows it.
    let counted = status.counters.get("link_handshakes_other_version");
    if let Some(count) = counted.filter(|count| **count > 0) {
        findings.note(
            "links",
            &format!("{count} handshakes came from members of another version"),
            "upgrade those members: all of a ring are updated together",
        );
    }
}

/// Those that wait, with the reason of the first.
async fn transfers(subject: &Subject, findings: &mut Findings) {
    let asked = async {
        let client = Client::request(&subject.socket, &Request::Transfers)
            .await
            .ok()?;
        client.all().await.ok()
    };
    let Some(replies) = timeout(DOCTOR_ANSWER, asked).await.ok().flatten() else {
        return;
    };
    // One of them tells what most wait for.
    let waiting: Vec<TransferStatus> = replies
        .into_iter()
        .filter_map(|reply| match reply {
            Reply::Transfer(transfer) if transfer.state == "waiting" => Some(*transfer),
            _ => None,
        })
        .collect();
    match waiting.first() {
        None => findings.ok("transfers", "none waits"),
        Some(first) => {
            let reason = first.reason.as_deref().unwrap_or("its turn has not come");
            findings.note(
                "transfers",
                &format!(
                    "{} wait, the first for {}: {reason}",
                    waiting.len(),
                    first.peer
                ),
                &format!("ringway path {}", first.peer),
            );
        }
    }
}
