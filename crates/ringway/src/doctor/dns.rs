//! Whether the ring's records are found: by the server of the configuration, by the system's
//! resolver, and at the authority itself.

use std::net::Ipv4Addr;

use ringway_node::authority::RingInfo;
use ringway_node::certificate::RingId;
use ringway_node::directory::published;
use ringway_node::endpoint::Endpoint;
use ringway_node::statement::Statement;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look, Looking};

pub(super) const CHECK: Check = Check {
    name: "dns",
    look: Look::InTime(look),
};

/// Domains that are never delegated (RFC 6761).
const RESERVED: [&str; 4] = ["test", "example", "invalid", "localhost"];

/// What is asked: the ring, by its name and by its owner's key.
struct Zone<'a> {
    ring: RingId,
    domain: &'a str,
    /// What this machine knows of it already; 0 is nothing.
    known: u64,
}

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        let member = subject.member.known();
        let ring = subject
            .authority
            .as_ref()
            .and_then(|found| found.ring.known());
        if subject.offline {
            if member.is_some() || ring.is_some() || subject.status().is_some() {
                findings.note("the ring's zone", "not asked: --offline", "ringway doctor");
            }
            return;
        }
        // The daemon has seen it for a while; what is asked below is of this moment.
        if let Some(status) = subject.status()
            && let Some(older) = status.statement_in_dns
        {
            let seen = format!("has statement {older}, members know {}", status.statement);
            let mend = "where it lasts, the authority's folder is an old copy: `ringway ring recover` there";
            findings.wrong(&format!("{} by the daemon", status.ring), &seen, mend);
        }
        if let Some(own) = member {
            let zone = Zone {
                ring: own.ring,
                domain: &own.domain,
                known: own.statement.number(),
            };
            let moved = moved(&own.statement, subject.resolver(), findings);
            as_member(&zone, moved.or(subject.resolver()), findings).await;
        }
        if let Some(info) = ring
            && let Ok(ring) = info.ring.parse::<RingId>()
        {
            let zone = Zone {
                ring,
                domain: &info.domain,
                known: 0,
            };
            as_authority(&zone, info, findings).await;
        }
    })
}

/// The number of the owner's statement that a server gives, or why it gives none.
async fn number(zone: &Zone<'_>, server: Option<&Endpoint>) -> Result<u64, String> {
    let found = published(&zone.ring, zone.domain, server).await;
    found
        .map(|found| found.number())
        .map_err(|error| error.to_string())
}

/// The same by the system's resolver; none for a domain that no server of the world has.
async fn world(zone: &Zone<'_>) -> Option<Result<u64, String>> {
    let last = zone.domain.trim_end_matches('.').rsplit('.').next();
    let is_reserved = RESERVED.contains(&last.unwrap_or_default());
    if is_reserved {
        return None;
    }
    Some(number(zone, None).await)
}

/// Where the ring's DNS is by now, if the owner has moved what the configuration names.
fn moved<'a>(
    statement: &'a Statement,
    resolver: Option<&Endpoint>,
    findings: &mut Findings,
) -> Option<&'a Endpoint> {
    let (contact, configured) = statement.contact().zip(resolver)?;
    let has_moved = contact.former.contains(configured) && contact.dns != *configured;
    has_moved.then(|| {
        let at = format!("{configured} (`resolver`)");
        let seen = format!("the owner has moved the ring's DNS to {}", contact.dns);
        let mend = format!(
            "`resolver = \"{}\"` under [node] in ringway.toml",
            contact.dns
        );
        findings.note(&at, &seen, &mend);
        &contact.dns
    })
}

/// By the ways that a member takes.
async fn as_member(zone: &Zone<'_>, resolver: Option<&Endpoint>, findings: &mut Findings) {
    let at = |by: &str| format!("{} by {by}", zone.domain);
    let Some(server) = resolver else {
        match number(zone, None).await {
            Ok(number) => answered(&at("the system's resolver"), zone, number, findings),
            Err(reason) => findings.wrong(
                &at("the system's resolver"),
                &reason,
                "delegate the ring's zone to the authority, or name a server that has it: `resolver` under [node] \
                 in ringway.toml",
            ),
        }
        return;
    };
    match number(zone, Some(server)).await {
        Ok(number) => answered(&at(&format!("{server} (`resolver`)")), zone, number, findings),
        Err(reason) => findings.wrong(
            &at(&format!("{server} (`resolver`)")),
            &reason,
            "see whether `ringway ring serve` runs there, and port 53 by UDP and TCP is open; or change \
             `resolver` under [node]",
        ),
    }
    // The member does without.
    if let Some(Ok(number)) = world(zone).await {
        answered(&at("the system's resolver"), zone, number, findings);
    }
}

fn answered(at: &str, zone: &Zone<'_>, number: u64, findings: &mut Findings) {
    if number < zone.known {
        let seen = format!("statement {number}, which is older than {}", zone.known);
        let mend = "a secondary server lags, or the authority's folder is an old copy: `ringway ring recover` there";
        return findings.wrong(at, &seen, mend);
    }
    findings.ok(at, &format!("statement {number}"));
}

/// At the authority's own server, and by the world.
async fn as_authority(zone: &Zone<'_>, ring: &RingInfo, findings: &mut Findings) {
    let mut own = ring.dns_listen;
    // One that listens at all addresses is asked at one of them.
    if own.ip().is_unspecified() {
        own.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let server = Endpoint::from(own);
    let at = format!("{} at the authority, {server}", zone.domain);
    match number(zone, Some(&server)).await {
        Ok(number) => findings.ok(&at, &format!("statement {number}")),
        Err(reason) => {
            findings.wrong(
                &at,
                &reason,
                "start it: `sudo systemctl restart ringway-authority`, or `ringway ring serve`",
            );
            return;
        }
    }
    // Members are told where it is advertised; from here that may lead round by a NAT.
    if ring.dns.address() != Some(ring.dns_listen) {
        let at = format!("{} at {}, as advertised", zone.domain, ring.dns);
        match number(zone, Some(&ring.dns)).await {
            Ok(number) => findings.ok(&at, &format!("statement {number}")),
            Err(reason) => findings.note(
                &at,
                &reason,
                "ask from elsewhere; the port has to be forwarded here (`ringway ring address` changes it)",
            ),
        }
    }
    // Members may be told another server: that the world finds it not is no fault.
    let at = format!("{} by the system's resolver", zone.domain);
    match world(zone).await {
        None => {}
        Some(Ok(number)) => findings.ok(&at, &format!("statement {number}")),
        Some(Err(reason)) => findings.note(
            &at,
            &reason,
            "delegate the zone to this server (NS and A at the parent), or give members `resolver` under [node]",
        ),
    }
}
