//! `ringway ring members`: who is in the ring, since when, until when, and when it was last heard.

use std::path::PathBuf;

use jiff::Timestamp;
use ringway_node::authority::{MemberEntry, OpenInvite};
use ringway_terminal::{Failure, Table};

use super::open;
use crate::context::Context;
use crate::status::{time_left, unix_seconds};

/// Lists them, and the invites that are open.
pub(super) fn run(context: &Context, dir: Option<PathBuf>) -> Result<(), Failure> {
    let authority = open(context, dir)?;
    // A folder that is an old copy can still be read. Only changes are refused.
    if let Err(error) = authority.check_current() {
        context.output.note(&error.to_string());
    }
    let (members, invites) = (authority.members()?, authority.invites().open()?);
    if context.output.json() {
        for member in &members {
            context.output.object("ringway.member/1", member)?;
        }
        return invites
            .iter()
            .try_for_each(|invite| context.output.object("ringway.open-invite/1", invite));
    }
    if members.is_empty() && invites.is_empty() {
        context
            .output
            .note("No members yet: `ringway ring invite NAME` makes an invitation.");
        return Ok(());
    }
    if members.iter().any(|member| member.expires_soon) {
        context.output.note(
            "Members renew their certificates by themselves while `ringway node` runs and reaches `ringway ring serve`; one that ends joins again by a new invite.",
        );
    }
    context.output.line(&table(&members, &invites).text())
}

fn table(members: &[MemberEntry], invites: &[OpenInvite]) -> Table {
    let mut table = Table::new(&[
        "NAME", "ROLE", "STATE", "SINCE", "EXPIRES", "HEARD", "VERSION", "ADDRESS", "MEMBER",
    ]);
    let none = || "-".to_owned();
    for member in members {
        let address = member.address.map(|address| address.to_string());
        table.row(&[
            &member.name,
            member.role.as_str(),
            &state(member),
            &date(member.since),
            &date(member.expires),
            &member.heard.map_or_else(none, ago),
            &member.version.clone().unwrap_or_else(none),
            &address.unwrap_or_else(none),
            &member.member,
        ]);
    }
    // Not members yet, and the names are taken.
    for invite in invites {
        let state = match invite {
            OpenInvite { expired: true, .. } => "invite expired",
            OpenInvite { burnt: true, .. } => "invited, words burnt",
            _ => "invited",
        };
        let (name, role) = (&invite.name[..], invite.role.as_str());
        let until = date(invite.expires);
        table.row(&[name, role, state, "-", &until, "-", "-", "-", "-"]);
    }
    table
}

/// The state's name, the same as in JSON, and what is to become of it.
fn state(member: &MemberEntry) -> String {
    let value = serde_json::to_value(member.state).unwrap_or_default();
    let state = value.as_str().unwrap_or("unknown");
    // Who a person is that has joined without an invite is what the owner looks for.
    let state = match &member.sso {
        Some(sso) => format!("{state}, by sso: {}", sso.person),
        None => state.to_owned(),
    };
    if let Some(address) = member.moves_to {
        return format!("{state}, moves to {address}");
    }
    let left = || time_left(member.expires.saturating_sub(unix_seconds()));
    match (member.rotate_until, member.expires_soon) {
        (Some(_), _) => format!("{state}, asked for a new key"),
        (None, true) => format!("{state}, ends in {}", left()),
        (None, false) => state,
    }
}

/// The day, in UTC.
fn date(seconds: u64) -> String {
    let time = Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX));
    time.map_or_else(
        |_| "-".to_owned(),
        |time| time.strftime("%Y-%m-%d").to_string(),
    )
}

fn ago(seconds: u64) -> String {
    match unix_seconds().saturating_sub(seconds) {
        0..60 => "now".to_owned(),
        passed => format!("{} ago", time_left(passed)),
    }
}
