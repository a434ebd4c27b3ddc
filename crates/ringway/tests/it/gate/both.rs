//! Each scenario of the live matrix on both paths beside each other, and what a user and an
//! operator see of it compared.
//!
//! A scenario is a function of the path: it lays out a border with a gateway on that path, does
//! what it does, fails where what arrives is wrong, and gives what was [`Seen`]. [`on_both`] runs
//! it twice and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::Value;

use super::beside::{Job, Tested, all, job, wrong};
use super::border::{Border, file_of};

/// Where a gateway carries its decisions out: `--path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatePath {
    /// In its own process alone.
    User,
    /// Also within the kernel.
    Kernel,
    /// Within the kernel as far as that has what it takes.
    Auto,
}

impl GatePath {
    /// As `gate up` takes it.
    pub(super) fn word(self) -> &'static str {
        match self {
            GatePath::User => "user",
            GatePath::Kernel => "kernel",
            GatePath::Auto => "auto",
        }
    }

    /// The path of tests that are not done on both, by `RINGWAY_GATE_PATH`.
    ///
    /// # Panics
    /// If that names none: they would be done on another one unseen.
    pub(super) fn of_the_rest() -> GatePath {
        match std::env::var("RINGWAY_GATE_PATH").as_deref() {
            Ok("kernel") => GatePath::Kernel,
            Ok("auto") => GatePath::Auto,
            Ok("user") | Err(_) => GatePath::User,
            Ok(other) => panic!("RINGWAY_GATE_PATH={other} is no path"),
        }
    }
}

/// What a scenario gives: `None` where something is missing, which it has told then.
pub(super) type Compared = Tested<Option<Seen>>;

/// Ports from here on are anybody's, and others in each run (`net.ipv4.ip_local_port_range`).
const FIRST_OF_ANYBODY: u64 = 32_768;

/// What a user and an operator see of a border, without what differs from run to run: times, flows'
/// numbers, ports that the kernel chose, counts of packets and of attempts, how bytes were cut into
/// packets.
///
/// Flows that no rule does anything to are left out: the in-kernel path passes them unasked and
/// does not list them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What was written down, and how often.
    events: BTreeMap<String, usize>,
    /// What became of each flow of which something was written down.
    told: BTreeSet<String>,
    /// What becomes of each flow that is managed and not over.
    flows: BTreeSet<String>,
    /// Who was refused what, by a rule.
    blocked: BTreeSet<String>,
    /// Calls that were refused because one like them had been.
    refused: BTreeSet<String>,
    /// The same was done again and again until a time was over: how often is chance.
    again: bool,
}

/// A word of an event, without quotes.
fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// Who has called whom.
fn ends(proto: &str, client: &Value, [ip, port]: [&Value; 2]) -> String {
    let port = match port.as_u64() {
        Some(port) if port < FIRST_OF_ANYBODY => port.to_string(),
        _ => "*".to_owned(),
    };
    format!("{proto} {} -> {}:{port}", word(client), word(ip))
}

/// What became of a flow.
fn fate(ends: &str, decision: [&Value; 4]) -> String {
    let [app, confidence, action, rule] = decision.map(word);
    format!("{ends}: {app} {confidence}, {action} by {rule}")
}

/// The signature that decided. What it saw depends on how the bytes were cut into packets.
fn signature(evidence: &Value) -> &str {
    let evidence = word(evidence);
    evidence.split_once(':').map_or(evidence, |(name, _)| name)
}

impl Seen {
    /// What is seen, by this audit and this list of flows.
    fn new(audit: &[Value], flows: &[Value]) -> Seen {
        let mut seen = Seen::default();
        for event in audit {
            seen.note(event);
        }
        let managed = flows.iter().filter(|flow| {
            let action = flow["action"].as_str();
            action.is_some_and(|action| action != "allow")
        });
        let fate = |flow: &Value| {
            let proto = word(&flow["l4"]).to_uppercase();
            let server = [&flow["server_ip"], &flow["server_port"]];
            let names = ["app", "confidence", "action", "rule"].map(|name| &flow[name]);
            fate(&ends(&proto, &flow["client_ip"], server), names)
        };
        seen.flows = managed.map(fate).collect();
        seen
    }

    fn note(&mut self, event: &Value) {
        let decision = &event["ringway"];
        let mut sides = [("src_ip", "src_port"), ("dest_ip", "dest_port")];
        // The source of a file is who sends it.
        if event["event_type"] == "fileinfo" && decision["sender"] == "server" {
            sides.reverse();
        }
        let [(client, _), (address, port)] = sides;
        let called = [&event[address], &event[port]];
        let ends = ends(word(&event["proto"]), &event[client], called);
        if event["event_type"] == "drop" {
            self.refused.insert(ends.clone());
        } else if decision["action"] == "blocked" {
            self.blocked.insert(ends.clone());
        }
        let fate = fate(
            &ends,
            ["app", "confidence", "policy", "rule"].map(|name| &decision[name]),
        );
        let mut line = format!(
            "{} {}, {fate}; {}",
            word(&event["event_type"]),
            word(&decision["action"]),
            signature(&decision["evidence"]),
        );
        for key in ["found", "content", "mimetype"] {
            if let Some(word) = decision[key].as_str() {
                // How much of a file had gone by when it was stopped is a matter of time.
                line.push_str(&format!(" {}", word.replace("partly", "stopped")));
            }
        }
        for part in [file_of(event), &decision["message"]] {
            let mut part = part.clone();
            if !part.is_object() {
                continue;
            }
            if part["sha256"].is_null() && part["text"].is_null() {
                // How much of a file had gone by when it was stopped is a matter of time.
                part["size"].take();
            }
            line.push_str(&format!(" {part}"));
        }
        self.told.insert(fate);
        *self.events.entry(line).or_default() += 1;
    }

    /// The same was done again and again until a time was over: how often something was written
    /// down is not compared.
    fn again(self) -> Seen {
        Seen {
            again: true,
            ..self
        }
    }

    /// Without what this address opened, which it does or does not by chance.
    pub(super) fn without_connections_from(mut self, address: &str) -> Seen {
        let opened = format!("{address} -> ");
        let other = |line: &String| !line.contains(&opened);
        self.events.retain(|line, _| other(line));
        for lines in [
            &mut self.flows,
            &mut self.told,
            &mut self.refused,
            &mut self.blocked,
        ] {
            lines.retain(other);
        }
        self
    }

    /// What one of both has and the other has not, a line each.
    fn difference(&self, kernel: &Seen) -> Vec<String> {
        let mut lines = Vec::new();
        for (has, one, other) in [("user", self, kernel), ("kernel", kernel, self)] {
            // A program that calls twice where it might have called once is no difference; files
            // and messages are counted.
            let count = |seen: &Seen, event: &str| match seen.events.get(event) {
                Some(_) if self.again || !event.starts_with(['f', 'm']) => 1,
                count => count.copied().unwrap_or(0),
            };
            for event in one
                .events
                .keys()
                .filter(|event| !event.starts_with("drop "))
            {
                let (here, there) = (count(one, event), count(other, event));
                if here > there {
                    lines.push(format!("{has}: {here} times, not {there}: {event}"));
                }
            }
            for flow in &one.flows {
                let call = flow
                    .split_once(": ")
                    .map_or(flow.as_str(), |(call, _)| call);
                let cached = flow.ends_with(" by connection-cache");
                if cached && self.again && other.blocked.contains(call) {
                    continue;
                }
                if !other.flows.contains(flow) && !other.told.contains(flow) {
                    lines.push(format!("{has}: not in the other's list: {flow}"));
                }
            }
        }
        for call in self.refused.difference(&kernel.refused) {
            // A program that tries again after more than the time in which it is refused is blocked
            // once more instead.
            if !(self.again && kernel.blocked.contains(call)) {
                lines.push(format!("user: told as refused, not by the kernel: {call}"));
            }
        }
        // Meant to differ: the kernel counts each packet that would open a connection. If the reset
        // of a blocked one comes late, its SYN comes again, is like the one that was
        // blocked, and is told as refused; user space knows the flow.
        for call in kernel.refused.difference(&self.refused) {
            if !self.blocked.contains(call) {
                lines.push(format!(
                    "kernel: told as refused, not by user space: {call}"
                ));
            }
        }
        lines
    }
}

impl Border {
    /// What was seen here. It ends the gateway, so that nothing is left to be written down.
    pub(super) fn seen(&mut self) -> Compared {
        let flows = self.ask(&["flows", "--most", "100000"]).objects()?;
        let ended = self.daemon().terminate()?;
        if ended != Some(0) {
            let log = self.daemon().log_text();
            return wrong(format!("the gateway ended with {ended:?}: {log}"));
        }
        Ok(Some(Seen::new(&self.audit(), &flows)))
    }

    /// The same where something was done again and again until a time was over.
    pub(super) fn seen_again(&mut self) -> Compared {
        Ok(self.seen()?.map(Seen::again))
    }
}

/// A scenario on both paths beside each other.
pub(super) fn on_both<'a>(
    name: impl Into<String>,
    scenario: impl Fn(GatePath) -> Compared + Send + Sync + 'a,
) -> Job<'a> {
    let name = name.into();
    job(name.clone(), move || {
        let (user, kernel) = (Mutex::new(None), Mutex::new(None));
        let run = |path: GatePath, place: &Mutex<Option<Seen>>| -> Tested {
            let seen = scenario(path)?;
            *place.lock().map_err(|_| "a panic")? = seen;
            Ok(())
        };
        all(vec![
            job("--path user", || run(GatePath::User, &user)),
            job("--path kernel", || run(GatePath::Kernel, &kernel)),
        ])?;
        let (Some(user), Some(kernel)) = (user.into_inner()?, kernel.into_inner()?) else {
            return Ok(());
        };
        match user.difference(&kernel) {
            same if same.is_empty() => Ok(()),
            lines => wrong(format!("the paths differ\n{}", lines.join("\n"))),
        }
    })
}

/// What has to hold on either path, on both beside each other, or on the one that
/// `RINGWAY_GATE_PATH` names. What is seen is not compared.
pub(super) fn on_each(holds: impl Fn(GatePath) -> Tested + Send + Sync) -> Tested {
    if std::env::var_os("RINGWAY_GATE_PATH").is_some() {
        return holds(GatePath::of_the_rest());
    }
    all(vec![
        job("--path user", || holds(GatePath::User)),
        job("--path kernel", || holds(GatePath::Kernel)),
    ])
}

/// What is told of a flow that a rule blocked, with this in place of that.
fn told(that: &str, this: &str) -> Tested<Seen> {
    let text = r#"{"event_type": "fileinfo", "proto": "TCP", "src_ip": "10.0.0.2", "src_port": 40001, "dest_ip": "10.9.9.9",
        "dest_port": 80, "flow_id": 7, "timestamp": "1", "ringway": {"app": "http", "action": "blocked", "rule": "names",
        "policy": "block", "confidence": "certain", "evidence": "http.request: 3 lines", "packet": 4},
        "fileinfo": {"filename": "a.exe", "sha256": "00", "size": 5}}"#;
    let event = serde_json::from_str(&text.replace(that, this))?;
    Ok(Seen::new(&[event], &[]))
}

#[test]
fn anything_seen_on_one_path_is_a_difference() -> Tested {
    let one = told("", "")?;
    for (that, this) in [
        ("certain", "guess"),
        ("http\"", "gnutella\""),
        ("blocked", "allowed"),
        ("\"block\"", "\"audit\""),
        ("names", "rest"),
        ("a.exe", "b.exe"),
        ("\"00\"", "\"01\""),
        ("10.9.9.9", "10.9.9.8"),
        ("\": 80", "\": 81"),
        ("fileinfo\"", "message\""),
        ("http.request", "http.answer"),
    ] {
        let other = told(that, this)?;
        if one.difference(&other).len() < 2 || other.difference(&one).len() < 2 {
            return wrong(format!("{this} for {that} is taken for the same"));
        }
    }
    for (that, this) in [
        ("40001", "40002"),
        (": 7", ": 8"),
        ("3 lines", "12 lines"),
        (": 4", ": 5"),
    ] {
        let same = one.difference(&told(that, this)?);
        if !same.is_empty() {
            return wrong(format!("{this} for {that}: {same:?}"));
        }
    }
    // Nothing at all on one of them.
    if Seen::default().difference(&one).is_empty() || one.difference(&Seen::default()).is_empty() {
        return wrong("an event of one path only is no difference");
    }
    Ok(())
}
