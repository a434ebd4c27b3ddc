//! The kernel's triage against the classifier: whatever the classifier names, the kernel has asked
//! about by then.
//!
//! Each flow is run through the classifier once, packet by packet, and through the model of the
//! kernel's program under each policy that concerns it. `evasion` does this with all that it
//! changes.

mod judged;
mod listed;
mod useful;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use ringway_gateway::classify::{Inspection, Surroundings};
use ringway_gateway::flow::{Flow, FlowTable, TableBounds};
use ringway_gateway::packet::{
    Checksum, DefragmentBounds, Defragmenter, Layer, Packet, decode_layer,
};
use ringway_gateway::policy::{Policy, groups};
use ringway_gateway::samples;
use ringway_gateway::triage::{FlowModel, Seen, Segment, Triage, TriageVerdict};
use ringway_gateway::{
    CaptureReader, Classifier, L4, LinkType, Packets, SignatureSet, built_in_classifier,
};

use crate::{given, own};

/// Room for streams' beginnings: no test needs more.
const ROOM: usize = 1 << 27;

/// A policy and what becomes of it.
pub(crate) struct Governed {
    name: String,
    policy: Policy,
    triage: Triage,
    /// Without the rule that what is not known is asked about, which would hide a fault in what
    /// signatures make necessary.
    strict: Triage,
}

/// Applications of the built-in signatures.
fn applications() -> BTreeSet<String> {
    SignatureSet::built_in().applications()
}

/// A policy that blocks these.
fn blocking(applications: &BTreeSet<String>) -> Policy {
    let listed: Vec<String> = applications
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    let text = format!(
        "[[rule]]\nname = \"no\"\naction = \"block\"\nconfidence = \"guess\"\napp = [{}]\n",
        listed.join(", ")
    );
    let known = self::applications();
    Policy::parse(&text, &known).unwrap()
}

/// The policy that blocks one application, a group, or `everything` that has a name; compiled once.
fn block(name: &str) -> Arc<Governed> {
    static KNOWN: LazyLock<Mutex<BTreeMap<String, Arc<Governed>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let compiled = known.entry(name.to_owned()).or_insert_with(|| {
        let policy = match name {
            "everything" => blocking(&applications()),
            one => blocking(&[one.to_owned()].into()),
        };
        let triage = Triage::new(&SignatureSet::built_in(), &policy).unwrap();
        Arc::new(Governed {
            name: format!("block {name}"),
            policy,
            strict: triage.clone().for_named_flows(),
            triage,
        })
    });
    Arc::clone(compiled)
}

/// A packet of a flow, and what the classifier knew after it.
#[derive(Clone, Debug)]
struct Step {
    at: Duration,
    source: SocketAddr,
    destination: SocketAddr,
    tcp: Option<Segment>,
    payload: Vec<u8>,
    intact: bool,
    named: Option<(String, String)>,
}

impl Step {
    fn of(at: Duration, packet: &Packet<'_>, intact: bool) -> Self {
        Self {
            at,
            source: packet.source,
            destination: packet.destination,
            tcp: packet.tcp.map(|tcp| Segment {
                sequence: tcp.sequence,
                syn: tcp.syn,
                acknowledged: tcp.ack.then_some(tcp.acknowledged),
                rst: tcp.rst,
            }),
            payload: packet.payload.to_vec(),
            // How a packet that was cut goes on is unknown; the kernel has all of it.
            intact: intact && !packet.truncated,
            named: None,
        }
    }
}

/// What a flow's own packets were.
#[derive(Debug, Default)]
struct Log {
    inspection: Inspection,
    steps: Vec<Step>,
}

impl AsRef<Inspection> for Log {
    fn as_ref(&self) -> &Inspection {
        &self.inspection
    }
}

impl AsMut<Inspection> for Log {
    fn as_mut(&mut self) -> &mut Inspection {
        &mut self.inspection
    }
}

/// A finished flow: its packets, and its name at the end with the evidence.
#[derive(Debug)]
struct Watched {
    steps: Vec<Step>,
    concluded: (String, String),
}

type Ends = (L4, SocketAddr, SocketAddr);

fn ends(packet: &Packet<'_>) -> Ends {
    let (one, other) = (packet.source, packet.destination);
    (packet.l4, one.min(other), one.max(other))
}

/// The classifier with all that is around it, as the pipeline has it, and a log of what it knew
/// when.
struct Watch {
    classifier: Classifier,
    table: FlowTable<Log>,
    surroundings: Surroundings,
    /// Packets with a wrong checksum, of flows whose next packet was not seen yet.
    spoilt: HashMap<Ends, Vec<Step>>,
    verify: bool,
    finished: Vec<Watched>,
}

impl Watch {
    fn new(verify: bool) -> Self {
        Self {
            classifier: built_in_classifier(),
            table: FlowTable::new(TableBounds::default()),
            surroundings: Surroundings::default(),
            spoilt: HashMap::new(),
            verify,
            finished: Vec::new(),
        }
    }

    fn handle_packet(&mut self, now: Duration, packet: &Packet<'_>) {
        if self.verify && packet.checksum() == Checksum::Bad {
            let spoilt = self.spoilt.entry(ends(packet)).or_default();
            spoilt.push(Step::of(now, packet, false));
            return;
        }
        let (place, direction) = self.table.handle_packet(now, packet);
        let before = self.spoilt.remove(&ends(packet));
        let flow = self.table.flow_mut(place).unwrap();
        flow.attachment.steps.extend(before.into_iter().flatten());
        let mut step = Step::of(now, packet, true);
        self.classifier.handle_packet(flow, direction, packet, ROOM);
        self.surroundings.note(flow, true);
        let verdict = flow.attachment.inspection.verdict();
        step.named = verdict.map(|verdict| (verdict.application.clone(), verdict.evidence.clone()));
        flow.attachment.steps.push(step);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(flow) = self.table.poll_finished() {
            let verdict = self.surroundings.conclude(&flow);
            let Flow { attachment, .. } = flow;
            self.finished.push(Watched {
                steps: attachment.steps,
                concluded: (verdict.application, verdict.evidence),
            });
        }
    }
}

/// All flows of a recording: fragments joined, as the kernel has them before it asks.
fn watch<'a>(
    packets: impl IntoIterator<Item = (Duration, LinkType, &'a [u8])>,
    verify: bool,
) -> Vec<Watched> {
    let mut watch = Watch::new(verify);
    let mut defragmenter = Defragmenter::new(DefragmentBounds::default());
    for (now, link, bytes) in packets {
        match decode_layer(link, bytes) {
            Ok(Layer::Packet(packet)) => watch.handle_packet(now, &packet),
            Ok(Layer::Fragment(fragment)) => {
                // A refused one is not delivered either.
                let _step = defragmenter.handle_fragment(now, &fragment);
            }
            Err(_) => {}
        }
        defragmenter.handle_timeout(now);
        while let Some(datagram) = defragmenter.poll_datagram() {
            if !datagram.complete {
                continue;
            }
            if let Ok(Layer::Packet(packet)) = decode_layer(LinkType::RawIp, &datagram.bytes) {
                watch.handle_packet(now, &packet);
            }
        }
    }
    watch.table.finish();
    watch.collect();
    watch.finished
}

/// Runs the kernel's model over a flow: the packet with which it first asks, if it does, and what
/// it did with each.
fn asked_at(triage: &Triage, flow: &Watched) -> Option<usize> {
    let first = flow.steps.first()?.source;
    let mut model = FlowModel::default();
    flow.steps.iter().position(|step| {
        let seen = Seen {
            at: step.at,
            from: usize::from(step.source != first),
            ends: [step.source, step.destination],
            tcp: step.tcp,
            payload: &step.payload,
            length: u32::try_from(step.payload.len()).unwrap(),
            intact: step.intact,
        };
        model.handle_packet(triage, &seen) == TriageVerdict::Ask
    })
}

/// Where the classifier names what the policy is about and the model has not asked by then.
fn missed(governed: &Governed, flow: &Watched) -> Option<String> {
    let asked = asked_at(&governed.strict, flow);
    let named = flow.steps.iter().enumerate().find_map(|(place, step)| {
        let (application, evidence) = step.named.as_ref()?;
        let late = asked.is_none_or(|asked| asked > place);
        (late && governed.policy.touches(application)).then_some((place, application, evidence))
    });
    let (application, evidence) = &flow.concluded;
    let data = flow.steps.iter().any(|step| !step.payload.is_empty());
    let last = (data
        && asked_at(&governed.triage, flow).is_none()
        && governed.policy.touches(application))
    .then_some((flow.steps.len(), application, evidence));
    let (place, application, evidence) = named.or(last)?;
    let shown: Vec<String> = flow
        .steps
        .iter()
        .take(place + 1)
        .map(|step| {
            let head = step.payload.iter().take(48).copied().collect::<Vec<u8>>();
            format!(
                "  {} -> {} {:?} {} bytes: {:02x?} {:?}",
                step.source,
                step.destination,
                step.tcp,
                step.payload.len(),
                head,
                String::from_utf8_lossy(&head)
            )
        })
        .collect();
    Some(format!(
        "{}: packet {place} makes the flow {application} ({evidence}), and the kernel {}\n{}",
        governed.name,
        asked.map_or("never asks".to_owned(), |at| format!("asks at packet {at}")),
        shown.join("\n")
    ))
}

/// Policies that may have to do with a flow: those on each name that it ever had, on a group and on
/// all names.
fn concerned(flow: &Watched) -> Vec<Arc<Governed>> {
    let ever = flow.steps.iter().filter_map(|step| step.named.as_ref());
    let names: BTreeSet<&str> = ever
        .chain([&flow.concluded])
        .map(|(name, _)| name.as_str())
        .chain(["p2p", "everything"])
        .collect();
    names.into_iter().map(block).collect()
}

/// Panics with the first packet that went by unasked, though the classifier named by it what the
/// policy is about.
#[track_caller]
pub(crate) fn assert_sound<'a>(
    name: &str,
    packets: impl IntoIterator<Item = (Duration, LinkType, &'a [u8])>,
    verify: bool,
) {
    for flow in watch(packets, verify) {
        for governed in concerned(&flow) {
            if let Some(missed) = missed(&governed, &flow) {
                panic!("{name}: {missed}");
            }
        }
    }
}

fn packets(file: &[u8]) -> Vec<(Duration, LinkType, Vec<u8>)> {
    let mut reader = CaptureReader::new("sample", file).unwrap();
    let mut packets = Vec::new();
    while let Ok(Some(packet)) = reader.next_packet() {
        packets.push((packet.timestamp, packet.link, packet.bytes.to_vec()));
    }
    packets
}

fn borrowed(
    packets: &[(Duration, LinkType, Vec<u8>)],
) -> impl Iterator<Item = (Duration, LinkType, &[u8])> {
    packets
        .iter()
        .map(|(now, link, bytes)| (*now, *link, bytes.as_slice()))
}

/// Samples, captures of real programs, and recorded captures where they are at hand.
fn recordings() -> Vec<(String, Vec<u8>)> {
    let made = samples::captures().into_iter();
    let mut all: Vec<(String, Vec<u8>)> = made
        .map(|(name, file)| (name.to_owned(), file))
        .chain(own::captures())
        .collect();
    let given = given::folder().map(|folder| folder.join("given"));
    for entry in given
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        all.push((name, std::fs::read(path).unwrap()));
    }
    all.sort();
    all
}

#[test]
fn whatever_is_named_was_asked_about_by_then() {
    let (mut flows, mut differing) = (0, Vec::new());
    let mut names: Vec<String> = applications().into_iter().collect();
    names.extend(groups().iter().map(|group| group.name.clone()));
    names.extend(["everything", "unknown"].map(str::to_owned));
    for (name, file) in recordings() {
        for flow in watch(borrowed(&packets(&file)), false) {
            flows += 1;
            for governed in names.iter().map(|name| block(name)) {
                differing.extend(missed(&governed, &flow).map(|text| format!("{name}: {text}")));
            }
        }
    }
    println!("{flows} flows");
    assert!(
        differing.is_empty(),
        "{} in all; the first:\n{}",
        differing.len(),
        differing[0]
    );
}

#[test]
fn reordered_messages_are_asked_about() {
    let (client, server) = crate::pair();
    let plain = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let tracker =
        b"GET /announce?info_hash=aaaaaaaaaaaaaaaaaaaa&port=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    for (first, second) in [(&plain[..], &tracker[..]), (tracker, plain)] {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.renumber(1_001 + u32::try_from(first.len()).unwrap(), 500_001);
        stream.client(second);
        stream.renumber(1_001, 500_001);
        stream.client(first);
        let packets = packets
            .iter()
            .map(|(now, bytes)| (now, LinkType::RawIp, bytes));
        assert_sound("the second message first", packets, false);
    }
}
