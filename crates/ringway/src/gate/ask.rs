//! The commands that ask the running gateway, and the one that reads its audit.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{HumanBytes, HumanCount};
use ringway_gateway::audit::{AuditStore, Search};
use ringway_gateway::feed::FeedStatus;
use ringway_gateway::verdict::Mode;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::message::{Reply, Request};
use crate::cli::{ApplyArgs, AuditArgs, ConfirmArgs, GateStatusArgs};
use crate::context::Context;
use crate::status::{time_left, unix_seconds};
use ringway_gateway::limits::AUDIT_FILE;
use ringway_gateway::quota::QuotaTotals;
use ringway_gateway::service::{GatewayStatus, Reload};
use ringway_terminal::Table;
use ringway_terminal::{Failure, report_line};

/// Shows what the gateway does and has done.
pub(crate) async fn status(context: &Context, args: &GateStatusArgs) -> Result<(), Failure> {
    match ask(context, &args.control.socket, &Request::Status).await? {
        Reply::Status(status) => context
            .output
            .either("ringway.gate.status/1", &*status, || text(&status)),
        other => Err(unexpected(&other)),
    }
}

/// What the gateway says that is asked at `socket`.
pub(crate) async fn ask_status(
    context: &Context,
    socket: &Path,
) -> Result<Box<GatewayStatus>, Failure> {
    match ask(context, socket, &Request::Status).await? {
        Reply::Status(status) => Ok(status),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn text(status: &GatewayStatus) -> String {
    let mut table = Table::default();
    let mut field = |name: &str, value: String| table.row(&[name, &value]);
    let mode = match status.mode {
        Mode::Observe => "observing",
        Mode::Enforce => "enforcing",
    };
    field(
        "gateway",
        format!("{mode}, pid {}, up {} s", status.pid, status.uptime_s),
    );
    let mut policy = format!("{}, {} rules", status.policy, status.rules);
    if let Some(seconds) = status.reverts_in_s {
        policy.push_str(&format!(", taken back in {seconds} s unless confirmed"));
    }
    field("policy", policy);
    if let Some(reload) = &status.reload {
        field("reload", reloaded(reload));
    }
    for feed in &status.feeds {
        let FeedStatus { file, kind, .. } = feed;
        let (entries, memory) = (feed.entries, feed.memory);
        let memory = HumanBytes(u64::try_from(memory).unwrap_or(u64::MAX));
        let mut text = format!("{file}, {entries} {}, {memory}", kind.name());
        if let Some(fault) = &feed.fault {
            text.push_str(&format!("; as it was read before: now {fault}"));
        }
        field("list", text);
    }
    for (name, wrong) in wrong(status) {
        field(name, wrong);
    }
    field("flows", HumanCount(status.flows).to_string());
    field("packets seen", HumanCount(status.packets).to_string());
    field(
        "scans",
        format!("{} windows, {} packets wait", status.scanned, status.held),
    );
    field("dropped", HumanCount(status.dropped).to_string());
    if let Some(kernel) = status.in_kernel {
        let mut text = format!(
            "{} packets passed unasked, {} new connections refused that match a blocked one",
            HumanCount(kernel.passed),
            HumanCount(kernel.refused)
        );
        if kernel.lost > 0 {
            text.push_str(&format!(", {} beginnings of flows lost", kernel.lost));
        }
        field("in the kernel", text);
    }
    ended_here(status, &mut field);
    if !status.quotas.is_empty() {
        let sum = |part: &dyn Fn(&QuotaTotals) -> u64| status.quotas.iter().map(part).sum();
        let (over, counted): (u64, u64) = (sum(&|one| one.over), sum(&|one| one.counted));
        field("quotas", format!("{over} of {counted} used up"));
    }
    field(
        "resets",
        format!("{} ({} not sent)", status.resets, status.resets_failed),
    );
    field(
        "events",
        format!("{} ({} lost)", status.events, status.events_lost),
    );
    what_is_missing(status, &mut field);
    table.text()
}

/// What came of the latest order to load the policy again.
fn reloaded(reload: &Reload) -> String {
    let ago = time_left(unix_seconds().saturating_sub(reload.at));
    let notes = reload.notes.join("; ");
    match (reload.loaded, notes.is_empty()) {
        (true, true) => format!("loaded {ago} ago"),
        (true, false) => format!("loaded {ago} ago: {notes}"),
        (false, _) => format!("REFUSED {ago} ago, the policy before stays: {notes}"),
    }
}

/// Events that are missing somewhere, and faults of this program.
fn what_is_missing(status: &GatewayStatus, field: &mut impl FnMut(&str, String)) {
    // Rows of faults stand there only if there are any, so that they are seen.
    if status.eve_lost > 0 {
        field(
            "EVE",
            format!(
                "{} events lost: a disk or a reader is slow or absent",
                status.eve_lost
            ),
        );
    }
    if status.events_left_out > 0 {
        field(
            "left out",
            format!("{} events: there were too many", status.events_left_out),
        );
    }
    if status.events_forgotten > 0 {
        field(
            "forgotten",
            format!("{} events: the audit is full", status.events_forgotten),
        );
    }
    if status.flows_missing > 0 {
        field(
            "faults",
            format!(
                "{} packets without their flow: please report it",
                status.flows_missing
            ),
        );
    }
}

/// Connections that end at the gateway.
fn ended_here(status: &GatewayStatus, field: &mut impl FnMut(&str, String)) {
    if let Some(ended) = status.terminated.filter(|ended| ended.taken > 0) {
        field(
            "ended here",
            format!(
                "{} connections, {} of them open, {} reset",
                HumanCount(ended.taken),
                HumanCount(ended.open),
                HumanCount(ended.reset)
            ),
        );
        if ended.full > 0 {
            field(
                "no place",
                format!("{} times: others went on as packets", ended.full),
            );
        }
    }
}

/// What somebody has to look after.
fn wrong(status: &GatewayStatus) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if status.queues < status.queues_begun {
        let text = format!(
            "only {} of {} answer: restart the gateway, its log says why",
            status.queues, status.queues_begun
        );
        wrong.push(("queues", text));
    }
    if status.rules_put_back > 0 {
        let text = format!(
            "put back {} times: another program changes the packet filter",
            status.rules_put_back
        );
        wrong.push(("rules", text));
    }
    if let Some(why) = &status.rules_not_looked_after {
        wrong.push(("rules", format!("may not be in force: {why}")));
    }
    wrong
}

/// Puts another policy to work.
pub(crate) async fn apply(context: &Context, args: &ApplyArgs) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.policy).map_err(|error| {
        Failure::usage(format_args!(
            "`{}` cannot be read: {error}",
            args.policy.display()
        ))
    })?;
    let mode = match (args.enforce, args.observe) {
        (true, _) => Some(Mode::Enforce),
        (_, true) => Some(Mode::Observe),
        _ => None,
    };
    // The gateway has another working directory, and lists stand beside the policy.
    let file = std::path::absolute(&args.policy).unwrap_or_else(|_| args.policy.clone());
    let request = Request::Apply {
        file,
        text,
        mode,
        confirm: args.confirm.map(|time| time.as_secs()),
    };
    done(context, ask(context, &args.control.socket, &request).await?)
}

/// Says that the latest policy stays.
pub(crate) async fn confirm(context: &Context, args: &ConfirmArgs) -> Result<(), Failure> {
    done(
        context,
        ask(context, &args.control.socket, &Request::Confirm).await?,
    )
}

fn done(context: &Context, reply: Reply) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Done {
        done: String,
    }
    match reply {
        Reply::Done(done) => {
            let text = done.clone();
            context
                .output
                .either("ringway.gate.done/1", &Done { done }, || text)
        }
        other => Err(unexpected(&other)),
    }
}

/// Searches the audit.
pub(crate) fn audit(context: &Context, args: &AuditArgs) -> Result<(), Failure> {
    let file = args.state.join(AUDIT_FILE);
    let store = AuditStore::read(&file).map_err(|error| match file.try_exists() {
        Ok(false) => Failure::failed(format_args!(
            "there is no audit in {}: no gateway has written one there (--state names its folder)",
            args.state.display()
        )),
        _ => Failure::failed(error),
    })?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let found = store
        .search(&Search {
            app: args.app.clone(),
            rule: args.rule.clone(),
            address: args.address.map(|address| address.to_string()),
            since: args.since.map(|since| now.saturating_sub(since)),
            flow: args.flow,
            most: args.most,
        })
        .map_err(Failure::failed)?;
    let output = context.output;
    let mut table = Table::new(&[
        "TIME", "ACTION", "POLICY", "RULE", "APP", "CLIENT", "SERVER", "EVIDENCE",
    ]);
    for body in &found {
        if output.json() {
            output.line(body)?;
            continue;
        }
        let Ok(event) = serde_json::from_str::<serde_json::Value>(body) else {
            continue;
        };
        table.row(&audited(&event));
    }
    if !output.json() {
        for line in table.lines() {
            output.line(&line)?;
        }
    }
    Ok(())
}

/// The row of an event, of this version's form or of the one before (`ringway.event/1`).
fn audited(event: &serde_json::Value) -> [String; 8] {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let end = |address: &str, port: &str| format!("{}:{}", text(&event[address]), event[port]);
    let ours = &event["ringway"];
    // Before, what was ours stood beside what was Suricata's.
    let (decision, rule, app, attempts) = if ours.is_object() {
        (ours, &ours["rule"], &ours["app"], &ours["attempts"])
    } else {
        let alert = &event["alert"];
        (
            alert,
            &alert["signature"],
            &event["app_proto"],
            &event["attempts"],
        )
    };
    let mut evidence = text(&decision["evidence"]);
    if let Some(attempts) = attempts.as_u64().filter(|attempts| *attempts > 1) {
        evidence = format!("{evidence} ({attempts} attempts)");
    }
    if decision["answered"] == false {
        // One packet proves nothing of the host in whose name it came.
        evidence = format!("unanswered, the client may be forged: {evidence}");
    }
    let mut ends = [end("src_ip", "src_port"), end("dest_ip", "dest_port")];
    // The source of a file is who sends it.
    if event["event_type"] == "fileinfo" && decision["sender"] == "server" {
        ends.reverse();
    }
    let [client, server] = ends;
    [
        text(&event["timestamp"]),
        text(&decision["action"]),
        text(&decision["policy"]),
        text(rule),
        text(app),
        client,
        server,
        evidence,
    ]
}

pub(super) async fn ask(
    context: &Context,
    control: &Path,
    request: &Request,
) -> Result<Reply, Failure> {
    let failed = |error: std::io::Error| {
        let mend = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "ask as the user who runs it",
            _ => "`ringway gate up` starts one",
        };
        Failure::failed(format_args!(
            "no gateway answers at {}: {error}; {mend}",
            control.display()
        ))
    };
    let mut stream = UnixStream::connect(control).await.map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(Failure::failed)?;
    line.push(b'\n');
    stream.write_all(&line).await.map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .await
        .map_err(failed)?;
    if answer.is_empty() {
        return Err(Failure::failed(
            "the gateway has ended the connection: the request took too long, or the gateway ends; `ringway gate status` says what is at work",
        ));
    }
    match serde_json::from_str(&answer) {
        Ok(Reply::Refused(reasons)) => {
            let json = context.output.json();
            // The failure prints the last reason by itself.
            let mut reasons = reasons.into_iter();
            let last = reasons.next_back().unwrap_or_default();
            for reason in reasons {
                report_line(&reason, true, json);
            }
            Err(Failure::usage(last))
        }
        Ok(reply) => Ok(reply),
        Err(error) => Err(Failure::failed(format_args!(
            "the gateway's answer cannot be read: {error}"
        ))),
    }
}

pub(super) fn unexpected(reply: &Reply) -> Failure {
    Failure::failed(format_args!("the gateway gave another answer: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::audited;

    #[test]
    fn events_of_both_forms_have_the_same_row() {
        let ends = |mut event: serde_json::Value| {
            for (key, value) in [
                ("timestamp", json!("2026")),
                ("src_ip", json!("10.0.0.2")),
                ("src_port", json!(40_001)),
                ("dest_ip", json!("10.9.9.9")),
                ("dest_port", json!(80)),
            ] {
                event[key] = value;
            }
            audited(&event)
        };
        let before = ends(json!({
            "schema": "ringway.event/1", "app_proto": "bittorrent", "attempts": 3,
            "alert": {"action": "allowed", "signature": "p2p", "policy": "shape", "evidence": "x", "answered": false},
        }));
        let now = ends(json!({
            "app_proto": "bittorrent", "alert": {"action": "allowed", "signature": "p2p"},
            "ringway": {
                "schema": "ringway.event/2", "app": "bittorrent", "attempts": 3, "action": "allowed",
                "rule": "p2p", "policy": "shape", "evidence": "x", "answered": false,
            },
        }));
        assert_eq!(before, now);
        assert_eq!(now[1..5], ["allowed", "shape", "p2p", "bittorrent"]);
        assert_eq!(
            now[7],
            "unanswered, the client may be forged: x (3 attempts)"
        );
    }
}
