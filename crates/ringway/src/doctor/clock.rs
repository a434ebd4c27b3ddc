//! Whether the clock is synchronised, and not behind what the ring's owner has signed.

use std::path::Path;

use ringway_node::limits::CLOCK_SKEW;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look, Looking, program};
use crate::status::{time_left, unix_seconds};

pub(super) const CHECK: Check = Check {
    name: "clock",
    look: Look::InTime(look),
};

/// Microseconds in a second: the owner's statements are numbered by them since 1970.
const MICROS: u64 = 1_000_000;

/// Numbers below name no time: those of early builds, counted from 0. January 2001, in seconds.
const FIRST_TIME: u64 = 978_307_200;

/// systemd-timesyncd makes it once it has set the clock (systemd-timesyncd.service(8)).
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";

/// What sets a clock by the network.
const MEND: &str = "sudo timedatectl set-ntp true, or install chrony; members' clocks have to agree within 5 minutes";

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        match synchronised().await {
            Some((true, by)) => findings.ok("synchronised", &format!("yes ({by})")),
            Some((false, by)) => findings.note("synchronised", &format!("no ({by})"), MEND),
            None => findings.note(
                "synchronised",
                "neither timedatectl nor chronyc says it",
                "compare it by hand: `date -u`; members' clocks have to agree within 5 minutes",
            ),
        }
        if let Some(stated) = newest_time(subject) {
            compare(stated, unix_seconds(), findings);
        }
    })
}

/// Whether the clock follows others, and which program says so.
async fn synchronised() -> Option<(bool, &'static str)> {
    let words = ["show", "--property=NTPSynchronized", "--value"];
    let said = program::run("timedatectl", &words).await;
    match said
        .filter(|said| said.success)
        .as_ref()
        .map(|said| said.text.trim())
    {
        Some("yes") => return Some((true, "timedatectl")),
        Some("no") => return Some((false, "timedatectl")),
        _ => {}
    }
    // Without its bus, as in a container, timedatectl says nothing.
    if Path::new(TIMESYNCD).exists() {
        return Some((true, "systemd-timesyncd"));
    }
    let said = program::run("chronyc", &["-n", "tracking"]).await?;
    let leap = said
        .text
        .lines()
        .find(|line| line.starts_with("Leap status"))?;
    Some((leap.ends_with("Normal"), "chronyc"))
}

/// The latest time that something signed by the ring's owner shows, in seconds since 1970.
fn newest_time(subject: &Subject) -> Option<u64> {
    let said = subject.status().map(|status| status.statement / MICROS);
    let stored = subject.member.known().map(|own| {
        // A certificate is dated back by what clocks may differ.
        let issued = own.certificate.not_before() + CLOCK_SKEW.as_secs();
        issued.max(own.statement.number() / MICROS)
    });
    said.max(stored).filter(|time| *time >= FIRST_TIME)
}

fn compare(stated: u64, now: u64, findings: &mut Findings) {
    let at = "beside the ring's owner";
    let behind = stated.saturating_sub(now);
    if behind > CLOCK_SKEW.as_secs() {
        let seen = format!(
            "at least {} behind what the owner has signed",
            time_left(behind)
        );
        return findings.wrong(at, &seen, MEND);
    }
    if behind > 0 {
        let seen = format!("{} behind what the owner has signed", time_left(behind));
        return findings.note(at, &seen, MEND);
    }
    findings.ok(at, "not behind what the owner has signed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn clocks_behind_the_owner_are_wrong() {
        for (stated, level) in [
            (1_000_000, Level::Ok),
            (1_000_100, Level::Note),
            (1_000_301, Level::Wrong),
        ] {
            let mut findings = Findings::new("clock");
            compare(stated, 1_000_000, &mut findings);
            assert_eq!(only(findings).0, level, "{stated}");
        }
    }
}
