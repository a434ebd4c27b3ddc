//! `ringway members`, and the names that shells complete.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter as _};
use ringway_node::control::{KnownMember, Request};
use ringway_node::versions::LINK;

use crate::cli::Global;
use crate::context::Context;
use crate::limits::COMPLETION_WAIT;
use crate::reach::shown;
use crate::request;
use crate::status::unix_seconds;
use ringway_terminal::{Failure, Output, Table};

/// Lists the members that the daemon knows of.
pub(crate) async fn list(context: &Context) -> Result<(), Failure> {
    let members = request::members(context).await?;
    if context.output.json() {
        return members
            .iter()
            .try_for_each(|member| context.output.object("ringway.known-member/1", member));
    }
    context.output.line(&text(&members, unix_seconds()))
}

fn text(members: &[KnownMember], now: u64) -> String {
    let head = [
        "NAME",
        "ROLE",
        "REACHABLE",
        "LAST HEARD",
        "VERSION",
        "ADDRESS",
    ];
    let mut table = Table::new(&head);
    for member in members {
        let unknown = || "-".to_owned();
        let reachable = match (member.this, member.reachable) {
            (true, _) => "this member",
            (false, Some(true)) => "yes",
            (false, Some(false)) => "no",
            (false, None) => "-",
        };
        let heard = member.heard.map(|at| ago(now.saturating_sub(at)));
        let address = member.address.as_deref();
        let address = address.map(|address| shown(address, member.via.as_deref()));
        table.row(&[
            member.name.clone(),
            member.role.clone().unwrap_or_else(unknown),
            reachable.to_owned(),
            heard.unwrap_or_else(unknown),
            version(member).unwrap_or_else(unknown),
            address.unwrap_or_else(unknown),
        ]);
    }
    table.text()
}

/// The release, or what the version of its link says of that.
fn version(member: &KnownMember) -> Option<String> {
    let earlier = member.link_version.filter(|version| *version < LINK);
    let release = member.release.clone();
    release.or_else(|| earlier.map(|version| format!("earlier (link {version})")))
}

/// How long ago, in the largest unit that fits.
fn ago(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let fitting = units.into_iter().find(|(unit, _)| seconds >= *unit);
    fitting.map_or_else(
        || "now".to_owned(),
        |(unit, name)| format!("{} {name} ago", seconds / unit),
    )
}

/// Members whose names begin with `current`, for a shell. Nothing where no daemon answers at once.
pub(crate) fn complete_peer(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    let begins = |member: &KnownMember| !member.this && member.name.starts_with(current);
    let members = asked().unwrap_or_default();
    let fitting = members.into_iter().filter(begins);
    fitting
        .map(|member| CompletionCandidate::new(member.name).help(member.role.map(Into::into)))
        .collect()
}

/// Files, and members: what `send` takes.
pub(crate) fn complete_path_or_peer(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = PathCompleter::any().complete(current);
    candidates.extend(complete_peer(current));
    candidates
}

/// Asks the daemon of the home that the command line names.
fn asked() -> Option<Vec<KnownMember>> {
    let global = Global {
        home: home_of(std::env::args_os()),
        json: false,
        quiet: true,
        verbose: 0,
    };
    let context = Context {
        output: Output::new(false, true),
        global,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // A shell does not wait: nothing is offered where the daemon is slow.
    let asking = async {
        let members = async {
            let replies = request::ask(&context, &Request::Members).await?;
            request::as_members(replies.all().await?)
        };
        tokio::time::timeout(COMPLETION_WAIT, members).await
    };
    runtime.ok()?.block_on(asking).ok()?.ok()
}

fn home_of(arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut arguments = arguments.skip_while(|argument| argument != "--home");
    arguments.nth(1).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_what_is_known() {
        let linked = KnownMember {
            name: "oslo".to_owned(),
            role: Some("router".to_owned()),
            reachable: Some(true),
            heard: Some(940),
            release: Some("0.3.0".to_owned()),
            address: Some("udp://192.0.2.1:4".to_owned()),
            ..KnownMember::default()
        };
        let earlier = KnownMember {
            name: "lima".to_owned(),
            link_version: Some(LINK - 1),
            reachable: Some(false),
            ..KnownMember::default()
        };
        let text = text(&[linked, earlier], 1_000);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|c| !c.is_empty())
                    .collect()
            })
            .collect();
        let wanted = [
            "oslo",
            "router",
            "yes",
            "1 min ago",
            "0.3.0",
            "udp://192.0.2.1:4",
        ];
        assert_eq!(lines[1], wanted);
        assert_eq!(lines[2], ["lima", "-", "no", "-", "earlier (link 2)", "-"]);
    }

    #[test]
    fn home_is_read_from_the_line() {
        let line = |words: &[&str]| home_of(words.iter().map(OsString::from));
        let words = ["ringway", "--", "ringway", "--home", "/x", "send", "f", ""];
        assert_eq!(line(&words), Some(PathBuf::from("/x")));
        assert_eq!(line(&["ringway", "--", "ringway", "ping", ""]), None);
    }
}
