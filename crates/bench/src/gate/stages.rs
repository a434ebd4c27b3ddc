//! Where the time of one packet goes: the stages of the papers' tables, each alone over the same
//! packets, beside all of them.
//!
//! The stages between queue and verdict are called by themselves, from memory, so that the gateway
//! carries no clocks. What the kernel's queue costs is measured on the queue itself, with a loop
//! that accepts all packets.

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringway_gateway::audit::{AuditStore, Digester};
use ringway_gateway::classify::{Classifier, Inspection};
use ringway_gateway::flow::{Direction, FlowTable, TableBounds};
use ringway_gateway::inspect::{Decoder, decoder};
use ringway_gateway::limits::{MAX_BATCH, MAX_BUFFERED, MAX_CONTENT};
use ringway_gateway::linux::queue::Queue;
use ringway_gateway::packet::{Packet, decode};
use ringway_gateway::scan::{Clamd, Scanner, YaraRules};
use ringway_gateway::stream::{Decision, Output as Taken, Segment, Stream};
use ringway_gateway::verdict::{Event, Gateway, Mode, ScanJob, Scanned, Settings};
use ringway_gateway::{LinkType, Packets, built_in_classifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::border::{Border, SERVER, Side};
use super::load::pattern;
use super::policies::{CLASSIFY, policy, yara_rules};
use super::spent;
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Every file is looked at, and nothing is written down.
const LOOK: &str = "[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\n";
/// Every file is looked at and written down, with its hash.
const LOOK_AND_AUDIT: &str =
    "[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";
/// The number of the queue whose packets are all accepted.
const QUEUE: u16 = 7_310;
/// Bytes of a datagram for it: a full packet of Ethernet.
const DATAGRAM: usize = 1_432;
/// How often each stage goes over all packets in a round.
const PASSES: usize = 5;
/// How many events the audit writes at once.
const EVENTS: usize = 100;

/// Connections that are replayed.
#[derive(Debug)]
struct Load {
    name: &'static str,
    packets: Packets,
    flows: usize,
}

impl Load {
    /// Downloads by HTTP, each on a connection of its own, in full segments.
    fn of(name: &'static str, flows: usize, bytes: usize) -> Load {
        let mut packets = Packets::new();
        let body: Vec<u8> = pattern().into_iter().cycle().take(bytes).collect();
        for flow in 0..flows {
            let port = u16::try_from(flow % 60_000)
                .unwrap_or(0)
                .saturating_add(1_024);
            let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), ([192, 0, 2, 9], 80).into());
            stream.open();
            stream.client(b"GET /file.bin HTTP/1.1\r\nHost: server\r\n\r\n");
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\r\n"
            );
            stream.server(&[head.as_bytes(), &body].concat());
            stream.close();
        }
        Load {
            name,
            packets,
            flows,
        }
    }
}

/// What a flow carries for the classifier alone.
#[derive(Debug, Default)]
struct Kept(Inspection);

impl AsMut<Inspection> for Kept {
    fn as_mut(&mut self) -> &mut Inspection {
        &mut self.0
    }
}

/// A decoded packet, its time, and whose it is.
struct Placed<'a> {
    now: Duration,
    packet: Packet<'a>,
    flow: usize,
    direction: Direction,
}

/// Measures all stages; those of the queue where namespaces can be had.
pub(super) fn measure(
    output: Output,
    clamd: Option<&Path>,
    border: Option<&Border>,
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    let loads = [
        Load::of("files of 2 MB", 8, 2_000_000),
        Load::of("pages of 10 kB", 1_000, 10_000),
    ];
    let mut figures = Vec::new();
    for load in &loads {
        output.note(&format!("stages, {}", load.name));
        figures.extend(of_load(load, clamd, rounds)?);
    }
    let Some(border) = border else {
        output.note("getting packets, setting verdicts: LEFT OUT, the queue needs root");
        return Ok(figures);
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (times, run) in times.iter_mut().zip(queue(border, time)?) {
            times.push(run);
        }
    }
    let case = "queue, full packets of Ethernet";
    for (metric, times) in ["getting", "setting_verdicts"].into_iter().zip(&times) {
        figures.push(Figure::new("gate", case, metric, "ns/packet", times));
    }
    Ok(figures)
}

/// The stages in the order of the papers, and all of them.
fn of_load(load: &Load, clamd: Option<&Path>, rounds: usize) -> Result<Vec<Figure>, Failure> {
    let classifier = built_in_classifier();
    let yara = a_thousand_rules()?;
    let placed = placed(load);
    let count = placed.len();
    let mut stages: Vec<(&'static str, Vec<f64>)> = Vec::new();
    let mut note = |stage: &'static str, time: f64| match stages.iter_mut().find(|s| s.0 == stage) {
        Some((_, times)) => times.push(time),
        None => stages.push((stage, vec![time])),
    };
    for _ in 0..rounds {
        note("headers", each(count, || headers(load)));
        note("checksum", each(count, || checksums(&placed)));
        let found = each(count, || flows(&placed));
        note("flow_look_up", found);
        note(
            "classification",
            each(count, || classified(&placed, &classifier)) - found,
        );
        note("tcp_order", each(count, || ordered(&placed, load.flows)));
        note("application", each(count, || decoded(&placed, load.flows)));
        let look = whole(load, count, &classifier, LOOK)?;
        let audit = whole(load, count, &classifier, LOOK_AND_AUDIT)?;
        note("audit_hash", audit.time - look.time);
        note("audit_write", audited(count, &audit.events)?);
        if let Some(clamd) = clamd {
            let mut clamd = Clamd::new(&clamd.display().to_string(), None);
            let began = Instant::now();
            scanned(&mut clamd, &look.jobs)?;
            note("scan_clamd", per(count, began.elapsed()));
        }
        let mut yara = yara.scanner();
        let began = spent::thread();
        scanned(&mut yara, &look.jobs)?;
        let spent = spent::thread().saturating_sub(began);
        note("scan_yara", per(count, spent));
        let classify = whole(load, count, &classifier, CLASSIFY)?;
        note("all_classify_only", classify.time);
        note("all_but_scan_and_write", audit.time);
    }
    let all = stages.iter().find(|s| s.0 == "all_but_scan_and_write");
    let all = all.map(|s| s.1.clone()).unwrap_or_default();
    let figures = stages.into_iter().map(|(stage, times)| {
        let figure = Figure::new(
            "gate",
            format!("stages, {}", load.name),
            stage,
            "ns/packet",
            &times,
        );
        figure.against("all_but_scan_and_write", &all)
    });
    Ok(figures.collect())
}

/// ns of processor time for each of so many packets: of some passes the fastest, which others on
/// this machine disturbed least.
fn each(count: usize, mut work: impl FnMut()) -> f64 {
    let passes = (0..PASSES).map(|_| {
        let began = spent::thread();
        work();
        per(count, spent::thread().saturating_sub(began))
    });
    passes.fold(f64::INFINITY, f64::min)
}

fn per(count: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn placed(load: &Load) -> Vec<Placed<'_>> {
    let mut table: FlowTable<()> = FlowTable::new(TableBounds::default());
    let mut placed = Vec::new();
    for (now, bytes) in load.packets.iter() {
        let Ok(packet) = decode(LinkType::RawIp, bytes) else {
            continue;
        };
        let (place, direction) = table.handle_packet(now, &packet);
        let serial = table.flow(place).map_or(0, |flow| flow.serial);
        placed.push(Placed {
            now,
            packet,
            flow: usize::try_from(serial).unwrap_or(0) % load.flows,
            direction,
        });
    }
    placed
}

fn headers(load: &Load) {
    for (_, bytes) in load.packets.iter() {
        black_box(decode(LinkType::RawIp, black_box(bytes)).is_ok());
    }
}

fn checksums(placed: &[Placed<'_>]) {
    for Placed { packet, .. } in placed {
        black_box(black_box(packet).checksum());
    }
}

fn flows(placed: &[Placed<'_>]) {
    let mut table: FlowTable<()> = FlowTable::new(TableBounds::default());
    for Placed { now, packet, .. } in placed {
        black_box(table.handle_packet(*now, packet));
        while let Some(flow) = table.poll_finished() {
            black_box(flow);
        }
    }
}

fn classified(placed: &[Placed<'_>], classifier: &Classifier) {
    let mut table: FlowTable<Kept> = FlowTable::new(TableBounds::default());
    for Placed { now, packet, .. } in placed {
        let (place, direction) = table.handle_packet(*now, packet);
        if let Some(flow) = table.flow_mut(place) {
            classifier.handle_packet(flow, direction, packet, MAX_BUFFERED);
        }
        while let Some(flow) = table.poll_finished() {
            black_box(flow);
        }
    }
}

fn ordered(placed: &[Placed<'_>], flows: usize) {
    let mut streams: Vec<[Stream<u64>; 2]> = (0..flows).map(|_| Default::default()).collect();
    let mut taken = Taken::default();
    for Placed {
        now,
        packet,
        flow,
        direction,
    } in placed
    {
        let Some([client, server]) = streams.get_mut(*flow) else {
            continue;
        };
        let (own, other) = match direction {
            Direction::FromClient => (client, server),
            Direction::FromServer => (server, client),
        };
        let Some(segment) = Segment::of(packet, 0) else {
            continue;
        };
        if let Some(tcp) = packet.tcp.filter(|tcp| tcp.ack) {
            other.handle_acknowledgement(tcp.acknowledged);
        }
        taken.clear();
        let decision = own.handle_segment(*now, &segment, MAX_CONTENT, &mut taken);
        black_box(decision == Decision::Deliver);
    }
}

fn decoded(placed: &[Placed<'_>], flows: usize) {
    let mut decoders: Vec<Option<Box<dyn Decoder>>> = (0..flows).map(|_| decoder("http")).collect();
    for Placed {
        packet,
        flow,
        direction,
        ..
    } in placed
    {
        if let Some(Some(decoder)) = decoders.get_mut(*flow)
            && !packet.payload.is_empty()
        {
            decoder.handle_data(*direction, packet.payload, &mut |seen| {
                black_box(&seen);
            });
        }
    }
}

/// What came of a pass through the whole gateway.
#[derive(Debug, Default)]
struct Passed {
    /// ns of each packet.
    time: f64,
    events: Vec<Event>,
    jobs: Vec<ScanJob>,
}

/// The whole gateway but for its queue, with a scanner that finds everything clean at once. Of some
/// passes the fastest.
fn whole(
    load: &Load,
    count: usize,
    classifier: &Classifier,
    text: &str,
) -> Result<Passed, Failure> {
    let policy = Arc::new(policy(text)?);
    let mut best: Option<Passed> = None;
    for _ in 0..PASSES {
        let settings = Settings {
            mode: Mode::Enforce,
            ..Settings::default()
        };
        let (bounds, policy) = (TableBounds::default(), Arc::clone(&policy));
        let mut gateway = Gateway::new(classifier.clone(), bounds, policy, settings);
        let mut passed = Passed::default();
        let began = spent::thread();
        pass(load, &mut gateway, &mut passed);
        passed.time = per(count, spent::thread().saturating_sub(began));
        if best.as_ref().is_none_or(|best| passed.time < best.time) {
            best = Some(passed);
        }
    }
    best.ok_or_else(|| Failure::failed("no pass was made"))
}

fn pass(load: &Load, gateway: &mut Gateway, passed: &mut Passed) {
    let mut digester = Digester::new(None);
    for (token, (now, bytes)) in (0..).zip(load.packets.iter()) {
        black_box(gateway.handle_queued(now, token, LinkType::RawIp, bytes));
        while let Some(job) = gateway.poll_scan() {
            gateway.handle_scanned(now, &job, &Scanned::Clean);
            passed.jobs.push(job);
        }
        while let Some(released) = gateway.poll_released() {
            black_box(released);
        }
        while let Some(event) = gateway.poll_event() {
            passed.events.push(event);
        }
        while let Some(part) = gateway.poll_file_part() {
            passed.events.extend(digester.take(part).0);
        }
        while let Some(flow) = gateway.poll_flow() {
            black_box(flow);
        }
    }
}

/// To write events down, a hundred at once.
fn audited(count: usize, events: &[Event]) -> Result<f64, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::failed)?;
    let mut store =
        AuditStore::open(&folder.path().join("audit.sqlite")).map_err(Failure::failed)?;
    let began = Instant::now();
    for events in events.chunks(EVENTS) {
        store.append(events).map_err(Failure::failed)?;
    }
    Ok(per(count, began.elapsed()))
}

/// To have each window looked at.
fn scanned(scanner: &mut dyn Scanner, jobs: &[ScanJob]) -> Result<(), Failure> {
    for job in jobs {
        match scanner.scan(job) {
            Scanned::Clean => {}
            other => return Err(Failure::failed(format_args!("a scanner says {other:?}"))),
        }
    }
    Ok(())
}

fn a_thousand_rules() -> Result<YaraRules, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::failed)?;
    let file = folder.path().join("rules.yar");
    std::fs::write(&file, yara_rules()).map_err(Failure::failed)?;
    YaraRules::load(&[file]).map_err(Failure::failed)
}

/// ns for each packet to get it from the kernel's queue, and to set its verdict.
fn queue(border: &Border, time: Duration) -> Result<[f64; 2], Failure> {
    let running = border.translate()?;
    let over = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&over);
    let accepting = border
        .at(Side::Gateway, move || accept(&signal))
        .map_err(Failure::failed)?;
    let number = QUEUE.to_string();
    let rule = ["-I", "FORWARD", "-p", "udp", "-j", "NFQUEUE", "--queue-num"];
    let rule = [["iptables"].as_slice(), &rule, &[&number, "--queue-bypass"]].concat();
    border.inside(Side::Gateway, &rule)?;
    let sending = border.at(Side::Client, move || -> io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let (bytes, began) = (vec![7; DATAGRAM], Instant::now());
        while began.elapsed() < time {
            // A full queue is no reason to stop.
            socket.send_to(&bytes, (SERVER, 9)).ok();
        }
        Ok(())
    });
    let ended = "a thread ended by a fault";
    let sent = sending.map_err(Failure::failed)?.join();
    sent.map_err(|_| Failure::failed(ended))?
        .and_then(|sent| sent)
        .map_err(Failure::failed)?;
    over.store(true, Ordering::Relaxed);
    let accepted = accepting.join().map_err(|_| Failure::failed(ended))?;
    border.inside(Side::Gateway, &["iptables", "-F", "FORWARD"])?;
    running.end()?;
    accepted.and_then(|times| times).map_err(Failure::failed)
}

/// Accepts all that comes until it is over.
fn accept(over: &AtomicBool) -> io::Result<[f64; 2]> {
    let mut queue = Queue::open(QUEUE, true)?;
    let nap = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let (mut getting, mut setting, mut count) = (Duration::ZERO, Duration::ZERO, 0_usize);
    let mut ids = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let mut watched = [PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)];
        poll(&mut watched, Some(&nap))?;
        for _ in 0..MAX_BATCH {
            let began = Instant::now();
            let there = queue.receive()?;
            ids.extend(queue.packets().map(|packet| packet.id));
            let got = Instant::now();
            getting = getting.saturating_add(got.duration_since(began));
            if !there {
                ids.clear();
                break;
            }
            count = count.saturating_add(ids.len());
            for id in ids.drain(..) {
                queue.verdict(id, true, None, None)?;
            }
            setting = setting.saturating_add(got.elapsed());
        }
        let began = Instant::now();
        queue.flush()?;
        setting = setting.saturating_add(began.elapsed());
    }
    Ok([per(count, getting), per(count, setting)])
}
