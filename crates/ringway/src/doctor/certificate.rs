//! Until when the member's certificate is valid, and whether it is renewed in time.

use ringway_node::renewal::warned_from;
use ringway_node::state::Membership;

use super::finding::Findings;
use super::subject::{Read, Subject};
use super::{Check, Look};
use crate::status::{time_left, unix_seconds};

pub(super) const CHECK: Check = Check {
    name: "certificate",
    look: Look::AtOnce(check),
};

/// The mend of a membership that has ended.
const JOIN_AGAIN: &str = "ask the ring's owner for a new invite (`ringway ring invite NAME`), and join by it with the same \
     --home";

fn check(subject: &Subject, findings: &mut Findings) {
    // A daemon knows more than the folder: whether it tried to renew, and why that failed.
    match (subject.status(), &subject.member) {
        (Some(status), _) if status.expires > 0 => {
            let at = format!("of {} ({})", status.name, status.role);
            let left = status.expires.saturating_sub(unix_seconds());
            let ends = format!("ends in {}", time_left(left));
            match &status.not_renewed {
                Some(reason) => findings.wrong(
                    &at,
                    &format!("{ends}, and could not be renewed yet: {reason}"),
                    "`ringway ring serve` has to run at the owner, and be reached from here",
                ),
                None if status.expires_soon => findings.wrong(
                    &at,
                    &format!("{ends}, and is not renewed yet"),
                    "see whether the ring's DNS and enrolment port are reached from here",
                ),
                None => findings.ok(&at, &format!("{ends}, and is renewed before")),
            }
        }
        (_, Read::Is(membership)) => on_disk(membership, unix_seconds(), findings),
        (_, Read::Wrong(reason)) => findings.wrong(
            &subject.home.join("state.db").display().to_string(),
            reason,
            "restore the folder from a backup, or join again with another --home",
        ),
        (None, Read::Forbidden) => findings.note(
            &subject.home.display().to_string(),
            "this user may not look into the folder",
            "sudo ringway doctor",
        ),
        _ => {}
    }
}

/// Without a daemon.
fn on_disk(membership: &Membership, now: u64, findings: &mut Findings) {
    let own = &membership.certificate;
    let at = format!("of {} ({})", own.name(), own.role().as_str());
    let (from, until) = (own.not_before(), own.not_after());
    // The first that holds is what is to be mended.
    if membership.statement.revokes(own.serial()) {
        return findings.wrong(&at, "the ring's owner has revoked it", JOIN_AGAIN);
    }
    if now >= until {
        let ago = time_left(now - until);
        return findings.wrong(&at, &format!("ran out {ago} ago"), JOIN_AGAIN);
    }
    if now < from {
        let seen = format!("begins in {}: the clock is behind", time_left(from - now));
        return findings.wrong(&at, &seen, "set the clock: `sudo timedatectl set-ntp true`");
    }
    let ends = format!("ends in {}", time_left(until - now));
    if now >= warned_from(own) {
        let mend = "start the daemon: it renews the certificate at the authority";
        return findings.wrong(&at, &format!("{ends}, and is not renewed yet"), mend);
    }
    findings.ok(&at, &format!("{ends}; the daemon renews it before"));
}

#[cfg(test)]
mod tests {
    use ringway_node::certificate::{Certificate, CertificateFields};
    use ringway_node::identity::Identity;
    use ringway_node::statement::Statement;
    use ringway_transport::Signer as _;

    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn dates_of_stopped_members_are_judged() {
        let owner = Identity::generate().unwrap();
        let membership = |revoked: &[u64]| Membership {
            ring: owner.member(),
            domain: "ring.test".to_owned(),
            certificate: Certificate::issue(
                &owner,
                &CertificateFields {
                    member: Identity::generate().unwrap().member(),
                    name: "oslo".parse().unwrap(),
                    address: None,
                    nonce: [0; 16],
                    not_before: 1_000,
                    not_after: 13_000,
                    serial: 7,
                },
            ),
            statement: Statement::issue(&owner, 1, 3, revoked.iter().copied().collect()),
        };
        let judged = |revoked: &[u64], now| {
            let mut findings = Findings::new("certificate");
            on_disk(&membership(revoked), now, &mut findings);
            only(findings)
        };
        for (now, level, word) in [
            (2_000, Level::Ok, "ends in"),
            (12_900, Level::Wrong, "not renewed"),
            (13_000, Level::Wrong, "ran out"),
            (10, Level::Wrong, "behind"),
        ] {
            let (found, seen, _) = judged(&[], now);
            assert!(found == level && seen.contains(word), "{now}: {seen}");
        }
        let (level, seen, mend) = judged(&[7], 2_000);
        assert!(level == Level::Wrong && seen.contains("revoked"));
        assert!(mend.contains("invite"), "{mend}");
    }
}
