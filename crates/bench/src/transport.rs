//! `ringway-bench transport`: the paper's figures 5 to 8 on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ringway_node::certificate::Role;

use super::beside::Beside;
use super::figure::{Figure, show};
use super::messages::{Burst, answering, burst, sequential};
use super::pair::{Pair, Places, Setup};
use super::plot::Bars;
use super::{idle, limit};
use crate::cli::TransportArgs;
use ringway_terminal::Failure;
use ringway_terminal::Output;
use ringway_testbed::{Delivery, MAIL_DOMAIN, Postfix, free_port};

/// Payloads of the paper's Figure 5, in bytes.
const SIZES: [usize; 3] = [11, 407, 1221];
/// Payload of its Figures 6 to 8.
const BURST_SIZE: usize = 1200;

const HERE: &str = "here";
const THERE: &str = "there";

/// The transports between two members on one machine. Mail goes through a Postfix of our own.
const TRANSPORTS: [&str; 5] = ["udp", "tcp", "quic", "ws", "smtp"];

const UDP_SOCKET: &str = "udp socket";
const TCP_SOCKET: &str = "tcp socket";

/// Mails cost a thousand times as much as packets: of messages by mail this is the most.
const MAILED: u32 = 10_000;
/// Of messages by mail, each sent after the one before has arrived.
const MAILED_SEQUENTIAL: u32 = 200;

/// How much is measured.
struct Plan {
    runs: usize,
    messages: u32,
    bursts: Vec<u32>,
    idle: Option<Duration>,
}

impl Plan {
    fn new(quick: bool) -> Plan {
        if quick {
            return Plan {
                runs: 1,
                messages: 300,
                bursts: vec![1_000, 20_000],
                idle: None,
            };
        }
        Plan {
            runs: 5,
            messages: 1_000,
            bursts: vec![1_000, 100_000],
            idle: Some(Duration::from_secs(120)),
        }
    }
}

/// Values of all runs by what was measured and over what.
#[derive(Default)]
struct Values(BTreeMap<(String, String), Vec<f64>>);

impl Values {
    fn add(&mut self, what: &str, over: &str, value: f64) {
        let key = (what.to_owned(), over.to_owned());
        self.0.entry(key).or_default().push(value);
    }

    fn get(&self, what: &str, over: &str) -> &[f64] {
        let key = (what.to_owned(), over.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Everything that `what` was measured over.
    fn over(&self, what: &str) -> Vec<String> {
        let keys = self.0.keys().filter(|(measured, _)| measured == what);
        keys.map(|(_, over)| over.clone()).collect()
    }
}

/// The transports that the user asks for; all if none is named.
fn chosen(only: &[String]) -> Result<Vec<&'static str>, Failure> {
    let only: Vec<String> = only.iter().map(|name| name.trim().to_lowercase()).collect();
    if let Some(name) = only
        .iter()
        .find(|name| !TRANSPORTS.contains(&name.as_str()))
    {
        return Err(Failure::usage(format_args!(
            "`{name}` is not measured: choose from {}",
            TRANSPORTS.join(", ")
        )));
    }
    let asked = |name: &&str| only.is_empty() || only.iter().any(|only| only == *name);
    Ok(TRANSPORTS.into_iter().filter(asked).collect())
}

/// Measures, shows, and draws.
pub(super) fn run(output: Output, args: &TransportArgs) -> Result<(), Failure> {
    let transports = chosen(&args.only)?;
    if let Some(folder) = &args.plots {
        super::plot::writable(folder)?;
    }
    let beside = args.beside.as_deref().map(Beside::new).transpose()?;
    let plan = Plan::new(args.quick);
    let mut values = Values::default();
    for run in 1..=plan.runs {
        for transport in &transports {
            output.note(&format!("run {run} of {}: {transport}", plan.runs));
            if *transport == "smtp" {
                if let Err(why) = mail(&plan, &mut values)? {
                    if transports.len() == 1 {
                        return Err(Failure::failed(format_args!("smtp is not measured: {why}")));
                    }
                    output.note(&format!("smtp is not measured: {why}"));
                }
            } else {
                ours(&plan, transport, &mut values)?;
            }
        }
        limits(&plan, &transports, &mut values)?;
        if let Some(beside) = &beside {
            output.note(&format!(
                "run {run} of {}: {}",
                plan.runs,
                beside.names.join(", ")
            ));
            theirs(&plan, beside, &mut values)?;
        }
    }
    let mut figures = figures(&plan, &values);
    if let Some(time) = plan.idle.filter(|_| transports.contains(&"udp")) {
        output.note(&format!("an idle pair, for {} s", time.as_secs()));
        let pair = pair("udp", Role::Leaf)?;
        let bytes = idle::bytes_a_day(&pair, HERE, THERE, time)?;
        let figure = Figure::new(
            "transport",
            "idle pair udp",
            "traffic",
            "MB/day",
            &[bytes / 1e6],
        );
        figures.push(figure.against("aim", &[1.0]));
    }
    show(output, &figures)?;
    match &args.plots {
        Some(folder) => draw(&plan, &values, folder),
        None => Ok(()),
    }
}

/// Two routers, or a leaf and its router, that only use this transport.
fn pair(transport: &str, role: Role) -> Result<Pair, Failure> {
    Pair::new(|places| {
        let member = |name, index: usize, role| Setup {
            name,
            role,
            transports: format!("[\"{transport}\"]"),
            more: more(transport, places, index),
        };
        [member(HERE, 0, role), member(THERE, 1, Role::Router)]
    })
}

/// What else a member's configuration needs to use this transport.
fn more(transport: &str, places: Places, index: usize) -> String {
    let other = 1 - index;
    let name = if other == 0 { HERE } else { THERE };
    let (Some(own), Some(others)) = (places.spare.get(index), places.spare.get(other)) else {
        return String::new();
    };
    let peer =
        |address: String| format!("[[peer]]\nname = \"{name}\"\naddresses = [\"{address}\"]\n");
    match transport {
        "ws" => format!(
            "[ws]\nlisten = \"{own}\"\n{}",
            peer(format!("ws://{others}/ringway"))
        ),
        "quic" => places.routers.get(other).map_or(String::new(), |router| {
            let port = router.port() + 1;
            peer(format!("quic://{}:{port}", router.ip()))
        }),
        _ => String::new(),
    }
}

fn ours(plan: &Plan, transport: &str, values: &mut Values) -> Result<(), Failure> {
    let pair = pair(transport, Role::Router)?;
    let seconds = pair.run(sequential(THERE, plan.messages, &SIZES), answering(HERE))??;
    for (size, seconds) in SIZES.iter().zip(seconds) {
        let thousand = seconds * 1000.0 / f64::from(plan.messages);
        values.add(&sequence_of(*size), transport, thousand);
    }
    let bursts = burst(THERE, plan.bursts.clone(), BURST_SIZE);
    let done = pair.run(bursts, answering(HERE))??;
    for (count, burst) in plan.bursts.iter().zip(done) {
        add_burst(values, *count, transport, burst);
    }
    Ok(())
}

/// The same by mail; the error says why there is no mail server to be had.
fn mail(plan: &Plan, values: &mut Values) -> Result<Result<(), String>, Failure> {
    let next = || free_port().map_err(Failure::failed);
    let inboxes = [next()?, next()?];
    let [here, there] = inboxes.map(Delivery::Lmtp);
    let postfix = match Postfix::start_delivering(&[(HERE, here), (THERE, there)]) {
        Ok(Some(postfix)) => postfix,
        Ok(None) => {
            let why = "mail is measured by a Postfix of our own: install the package `postfix`, and run this as root";
            return Ok(Err(why.to_owned()));
        }
        Err(error) => return Ok(Err(error.to_string())),
    };
    let port = postfix.ports.first().copied().unwrap_or_default();
    let member = |name, other, inbox: u16| Setup {
        name,
        role: Role::Router,
        transports: "[]".to_owned(),
        more: format!(
            "[smtp]\nmailbox = \"{name}@{MAIL_DOMAIN}\"\nheader = [\"X-Ringway\", \"{name}\"]\nlmtp_tcp = \"127.0.0.1:{inbox}\"\n\
             relay = {{ host = \"127.0.0.1\", port = {}, tls = \"plain\" }}\nbatch_ms = 0\n\
             hourly = 7200\ndaily = 172800\nmailbox_hourly = 7200\nmailbox_daily = 172800\n\
             [[peer]]\nname = \"{other}\"\naddresses = [\"smtp://{other}@{MAIL_DOMAIN}?X-Ringway={other}\"]\n",
            port
        ),
    };
    let pair = Pair::new(|_| {
        [
            member(HERE, THERE, inboxes[0]),
            member(THERE, HERE, inboxes[1]),
        ]
    })?;
    let count = plan.messages.min(MAILED_SEQUENTIAL);
    let seconds = pair.run(sequential(THERE, count, &SIZES), answering(HERE))??;
    for (size, seconds) in SIZES.iter().zip(seconds) {
        let thousand = seconds * 1000.0 / f64::from(count);
        values.add(&sequence_of(*size), "smtp", thousand);
    }
    let counts: Vec<u32> = plan.bursts.iter().map(|count| MAILED.min(*count)).collect();
    let done = pair.run(burst(THERE, counts, BURST_SIZE), answering(HERE))??;
    for (count, burst) in plan.bursts.iter().zip(done) {
        let over = match *count > MAILED {
            true => format!("smtp ({MAILED} of them)"),
            false => "smtp".to_owned(),
        };
        add_burst(values, *count, &over, burst);
    }
    Ok(Ok(()))
}

fn sequence_of(size: usize) -> String {
    format!("1000 messages of {size} B, one after the other")
}

fn burst_of(count: u32) -> String {
    format!("{count} messages of {BURST_SIZE} B at once")
}

fn add_burst(values: &mut Values, count: u32, over: &str, burst: Burst) {
    let what = burst_of(count);
    values.add(&format!("{what}: throughput"), over, burst.gigabits);
    values.add(&format!("{what}: loss"), over, burst.loss * 100.0);
    values.add(&format!("{what}: cpu"), over, burst.cpu);
}

/// The bare sockets that stand beside these transports.
fn limits(plan: &Plan, transports: &[&str], values: &mut Values) -> Result<(), Failure> {
    let scale = 1000.0 / f64::from(plan.messages);
    let wanted = |limit| transports.iter().any(|over| limit_of(over) == Some(limit));
    if wanted(UDP_SOCKET) {
        for size in SIZES {
            let seconds = limit::udp_sequential(plan.messages, size)?;
            values.add(&sequence_of(size), UDP_SOCKET, seconds * scale);
        }
        for count in &plan.bursts {
            let burst = limit::udp_burst(*count, BURST_SIZE)?;
            add_burst(values, *count, UDP_SOCKET, burst);
        }
    }
    if wanted(TCP_SOCKET) {
        for size in SIZES {
            let seconds = limit::tcp_sequential(plan.messages, size)?;
            values.add(&sequence_of(size), TCP_SOCKET, seconds * scale);
        }
        for count in &plan.bursts {
            let burst = limit::tcp_burst(*count, BURST_SIZE)?;
            add_burst(values, *count, TCP_SOCKET, burst);
        }
    }
    Ok(())
}

fn theirs(plan: &Plan, beside: &Beside, values: &mut Values) -> Result<(), Failure> {
    let scale = 1000.0 / f64::from(plan.messages);
    for name in &beside.names {
        for size in SIZES {
            let measured = beside.measure(name, "sequential", plan.messages, size)?;
            values.add(&sequence_of(size), name, measured.seconds * scale);
        }
        for count in &plan.bursts {
            let measured = beside.measure(name, "burst", *count, BURST_SIZE)?;
            let what = burst_of(*count);
            let received = f64::from(measured.received);
            let bits = received * 1200.0 * 8.0;
            values.add(
                &format!("{what}: throughput"),
                name,
                bits / measured.seconds / 1e9,
            );
            let loss = 1.0 - received / f64::from(*count);
            values.add(&format!("{what}: loss"), name, loss * 100.0);
            values.add(&format!("{what}: cpu"), name, measured.cpu_us);
        }
    }
    Ok(())
}

/// The limit that stands beside a transport.
fn limit_of(over: &str) -> Option<&'static str> {
    match over {
        "udp" | "quic" => Some(UDP_SOCKET),
        "tcp" | "ws" => Some(TCP_SOCKET),
        _ => None,
    }
}

fn figures(plan: &Plan, values: &Values) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |what: &str, metric: &'static str, unit: &'static str| {
        for over in values.over(what) {
            let figure = Figure::new(
                "transport",
                format!("{over}: {what}"),
                metric,
                unit,
                values.get(what, &over),
            );
            figures.push(match limit_of(&over) {
                Some(limit) => figure.against(limit, values.get(what, limit)),
                None => figure,
            });
        }
    };
    for size in SIZES {
        add(&sequence_of(size), "time", "s");
    }
    for count in &plan.bursts {
        let what = burst_of(*count);
        add(&format!("{what}: throughput"), "payload", "Gbit/s");
        add(&format!("{what}: loss"), "lost", "%");
        add(&format!("{what}: cpu"), "cpu, both sides", "us/message");
    }
    figures
}

fn draw(plan: &Plan, values: &Values, folder: &Path) -> Result<(), Failure> {
    let bars = |what: &str| {
        let over = values.over(what).into_iter();
        let bar = |over: String| {
            let value = super::figure::median(values.get(what, &over));
            (over, value)
        };
        over.map(bar).collect::<Vec<_>>()
    };
    let mut sequences = Vec::new();
    for size in SIZES {
        let of_size = bars(&sequence_of(size)).into_iter();
        sequences.extend(of_size.map(|(over, value)| (format!("{over}, {size} B"), value)));
    }
    sequences.sort_by(|(a, _), (b, _)| a.cmp(b));
    let figure5 = Bars {
        name: "figure-5".to_owned(),
        title: "1000 messages, each sent after the one before has arrived".to_owned(),
        unit: "seconds",
        bars: sequences,
    };
    figure5.draw(folder)?;
    let names = ["figure-6", "figure-7"];
    for (name, count) in names.into_iter().zip(&plan.bursts) {
        let what = burst_of(*count);
        let title = format!("{count} messages of {BURST_SIZE} bytes at once: payload received");
        let bars = Bars {
            name: name.to_owned(),
            title,
            unit: "Gbit/s",
            bars: bars(&format!("{what}: throughput")),
        };
        bars.draw(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ignore_case_and_spaces() {
        let chosen_of = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            chosen(&list)
        };
        assert_eq!(chosen_of(&[" WS", "udp "]).unwrap(), ["udp", "ws"]);
        assert_eq!(chosen_of(&[]).unwrap(), TRANSPORTS);
        assert!(matches!(
            chosen_of(&["udp", "pigeon"]),
            Err(Failure::Usage(_))
        ));
    }

    #[test]
    fn only_sockets_of_measured_transports_are_compared() {
        let plan = Plan {
            runs: 1,
            messages: 2,
            bursts: vec![2],
            idle: None,
        };
        for (transports, limit) in [(["tcp", "ws"], TCP_SOCKET), (["quic", "smtp"], UDP_SOCKET)] {
            let mut values = Values::default();
            limits(&plan, &transports, &mut values).unwrap();
            assert_eq!(values.over(&sequence_of(SIZES[0])), [limit]);
        }
    }
}
