//! `ringway gate replay`: what a policy would have done with a capture.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringway_gateway::CaptureReader;
use ringway_gateway::flow::TableBounds;
use ringway_gateway::limits::SCAN_PAUSE;
use ringway_gateway::policy::{Action, Policy};
use ringway_gateway::scan::{Scanner as _, Yara, YaraRules};
use ringway_gateway::service::load_yara;
use ringway_gateway::verdict::{DecidedFlow, Gateway, Mode, ScanJob, Scanned, Settings};
use serde::Serialize;

use super::rules;
use super::up::failure;
use crate::cli::ReplayArgs;
use crate::context::Context;
use ringway_terminal::Output;
use ringway_terminal::{Failure, report_line};

/// Name and version of the form of what is printed.
const SCHEMA: &str = "ringway.gate.replay/1";

#[derive(Serialize)]
struct ReplayedFlow<'a> {
    schema: &'static str,
    file: &'a str,
    #[serde(flatten)]
    flow: Flat<'a>,
}

/// The flow's fields without its own schema and file.
#[derive(Serialize)]
struct Flat<'a> {
    l4: &'static str,
    client: SocketAddr,
    server: SocketAddr,
    app: &'a str,
    confidence: &'static str,
    packets: u64,
    bytes: u64,
    evidence: &'a str,
    action: Action,
    rule: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    /// Packets that had been seen when it was decided; absent where the flow was over before.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_after: Option<u64>,
}

/// Replays all captures, each by itself; a broken one does not keep the others from being read.
pub(crate) fn replay(context: &Context, args: &ReplayArgs) -> Result<(), Failure> {
    let set = rules::signatures(&args.look.signatures)?;
    let policy = Arc::new(rules::policy(&args.policy, &set, context.output.json())?);
    let classifier = rules::classifier(set, &args.look)?;
    let mut replay = Replay {
        output: context.output,
        heading: false,
        totals: BTreeMap::new(),
        eye: load_yara(&args.yara).map_err(failure)?.map(Eye::new),
    };
    let mut broken = 0_usize;
    for file in &args.files {
        let mut gateway = Gateway::new(
            classifier.classifier.clone(),
            TableBounds::default(),
            Arc::clone(&policy),
            Settings {
                mode: Mode::Enforce,
                zone: zone(args.zone.as_deref())?,
                ..Settings::default()
            },
        );
        for (endpoint, member) in &classifier.members {
            gateway.know_member(*endpoint, member);
        }
        match replay.capture(file, gateway) {
            Ok(()) => {}
            // Without a reader of stdout there is nothing to go on for.
            Err(failure @ Failure::OutputClosed) => return Err(failure),
            Err(failure) => {
                broken = broken.saturating_add(1);
                report_line(failure.message(), false, context.output.json());
            }
        }
    }
    replay.summary();
    replay.quotas(&policy);
    match broken {
        0 => Ok(()),
        _ => Err(Failure::Reported),
    }
}

/// The zone of the policy's times: the machine's where none is named.
pub(super) fn zone(name: Option<&str>) -> Result<jiff::tz::TimeZone, Failure> {
    match name {
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => jiff::tz::TimeZone::get(name).map_err(|_| {
            Failure::usage(format_args!(
                "there is no time zone `{name}`; zones are named like Europe/Berlin or UTC"
            ))
        }),
    }
}

struct Replay {
    output: Output,
    heading: bool,
    /// Flows by what would have happened, and by which rule.
    totals: BTreeMap<(&'static str, String), u64>,
    /// Who looks into files; without one all are clean.
    eye: Option<Eye>,
}

/// YARA rules, asked about files at once.
struct Eye {
    rules: YaraRules,
    scanner: Yara,
}

impl Eye {
    fn new(rules: YaraRules) -> Eye {
        let scanner = rules.scanner();
        Eye { rules, scanner }
    }

    fn look(&mut self, job: &ScanJob) -> Scanned {
        let looked = catch_unwind(AssertUnwindSafe(|| self.scanner.scan(job)));
        looked.unwrap_or_else(|_| {
            self.scanner = self.rules.scanner();
            Scanned::Failed("the scanner ended by a fault".to_owned())
        })
    }
}

impl Replay {
    fn capture(&mut self, file: &Path, mut gateway: Gateway) -> Result<(), Failure> {
        let name = file.display().to_string();
        let mut reader = CaptureReader::open(file).map_err(Failure::failed)?;
        let mut now = Duration::ZERO;
        let ended = loop {
            match reader.next_packet() {
                Ok(Some(packet)) => {
                    now = packet.timestamp;
                    // What was due before it came.
                    gateway.handle_timeout(now);
                    self.follow(now, &mut gateway);
                    gateway.handle_packet(now, packet.link, packet.bytes);
                    self.follow(now, &mut gateway);
                    self.drain(&name, &mut gateway)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(Failure::failed(error)),
            }
        };
        // Packets that may be the last of a file wait for a pause.
        now = now.saturating_add(SCAN_PAUSE);
        gateway.handle_timeout(now);
        self.follow(now, &mut gateway);
        gateway.finish(now);
        self.follow(now, &mut gateway);
        self.drain(&name, &mut gateway)?;
        ended
    }

    /// Looks into files, and takes all else that comes of packets, or it would pile up: no end is
    /// there to be reset, what waits has gone on long ago, and the flows' own lines show what
    /// events would.
    fn follow(&mut self, now: Duration, gateway: &mut Gateway) {
        while let Some(job) = gateway.poll_scan() {
            let scanned = match &mut self.eye {
                Some(eye) => eye.look(&job),
                None => Scanned::Clean,
            };
            gateway.handle_scanned(now, &job, &scanned);
        }
        while gateway.poll_released().is_some() {}
        while gateway.poll_injection().is_some() {}
        while gateway.poll_event().is_some() || gateway.poll_file_part().is_some() {}
    }

    fn drain(&mut self, file: &str, gateway: &mut Gateway) -> Result<(), Failure> {
        while let Some(flow) = gateway.poll_flow() {
            let key = (flow.action.name(), flow.rule.clone());
            let count = self.totals.entry(key).or_default();
            *count = count.saturating_add(1);
            self.flow(file, &flow)?;
        }
        Ok(())
    }

    fn flow(&mut self, file: &str, decided: &DecidedFlow) -> Result<(), Failure> {
        let record = &decided.record;
        let client = SocketAddr::new(record.client_ip, record.client_port);
        let server = SocketAddr::new(record.server_ip, record.server_port);
        if self.output.json() {
            return self.output.plain_object(&ReplayedFlow {
                schema: SCHEMA,
                file,
                flow: Flat {
                    l4: record.l4.name(),
                    client,
                    server,
                    app: &record.app,
                    confidence: record.confidence.name(),
                    packets: record.packets,
                    bytes: record.bytes,
                    evidence: &record.evidence,
                    action: decided.action,
                    rule: &decided.rule,
                    class: decided.class.as_deref(),
                    decided_after: decided.decided_after,
                },
            });
        }
        if !self.heading {
            self.heading = true;
            let heading = [
                "ACTION", "RULE", "AFTER", "APP", "CLIENT", "SERVER", "PACKETS",
            ];
            self.output.line(&columns(heading))?;
        }
        let after = decided
            .decided_after
            .map_or_else(|| "-".to_owned(), |packets| packets.to_string());
        self.output.line(&columns([
            decided.action.name(),
            &decided.rule,
            &after,
            &record.app,
            &client.to_string(),
            &server.to_string(),
            &record.packets.to_string(),
        ]))
    }

    /// Says what is not told: whether a quota is used up.
    fn quotas(&self, policy: &Policy) {
        let with = policy.rules().iter().filter(|rule| rule.quota.is_some());
        for rule in with {
            let flows: u64 = (self.totals.iter())
                .filter(|((_, name), _)| *name == rule.name)
                .map(|(_, count)| *count)
                .sum();
            if flows > 0 {
                self.output.note(&format!(
                    "{flows} flows by {}: as below its quota; what was used before a capture cannot be told",
                    rule.name
                ));
            }
        }
    }

    fn summary(&self) {
        for ((action, rule), count) in &self.totals {
            self.output
                .note(&format!("{count} flows: {action} by {rule}"));
        }
    }
}

/// Fixed widths, because lines are printed while the capture is still being read.
fn columns(cells: [&str; 7]) -> String {
    let [action, rule, after, app, client, server, packets] = cells;
    format!("{action:<6} {rule:<24} {after:>5}  {app:<12} {client:<28} {server:<28} {packets:>8}")
}
