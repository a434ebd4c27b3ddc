//! A policy decides flows of the past from what was written down as it decides their packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ringway_gateway::accounting::{Compared, FlowAccount, Untold, compare};
use ringway_gateway::flow::TableBounds;
use ringway_gateway::policy::Policy;
use ringway_gateway::service::parse_policy;
use ringway_gateway::verdict::{DecidedFlow, EventKind, Gateway, Mode, Settings};
use ringway_gateway::{CaptureReader, SignatureSet, built_in_classifier, samples};

use crate::{given, own};

/// Has every flow classified, and does nothing.
const BEFORE: &str = "[[rule]]\nname = \"none\"\napp = \"gnutella\"\naction = \"audit\"\n";
/// By application, by port, by both, with a class; nothing on contents.
const AFTER: &str = "[classes.slow]\nrate = \"1 Mbit/s\"\n\
    [[rule]]\nname = \"torrents\"\napp = [\"bittorrent\", \"edonkey\"]\naction = \"block\"\n\
    [[rule]]\nname = \"names\"\napp = \"dns\"\nport = 53\naction = \"audit\"\n\
    [[rule]]\nname = \"web\"\napp = [\"tls\", \"quic\"]\naction = \"shape\"\nclass = \"slow\"\n\
    [[rule]]\nname = \"telnet\"\nport = 23\naction = \"block\"\n";

fn policy(text: &str) -> Arc<Policy> {
    let known = SignatureSet::built_in();
    Arc::new(parse_policy("compare.toml".as_ref(), text, &known).unwrap())
}

/// What comes of a capture.
#[derive(Default)]
struct Played {
    views: BTreeMap<u64, FlowAccount>,
    decided: Vec<DecidedFlow>,
    /// Ends of flows of which packets were dropped by themselves, before both sides had spoken.
    dropped: BTreeSet<(SocketAddr, SocketAddr)>,
}

fn play(bytes: &[u8], policy: &Arc<Policy>, mode: Mode) -> Played {
    let settings = Settings {
        mode,
        // What is refused for another's sake is no decision on the flow.
        blocked_for: Duration::ZERO,
        ..Settings::default()
    };
    let bounds = TableBounds::default();
    let mut gateway = Gateway::new(built_in_classifier(), bounds, Arc::clone(policy), settings);
    gateway.report_accounts();
    let mut played = Played::default();
    let mut poll = |gateway: &mut Gateway| {
        while let Some(view) = gateway.poll_account() {
            played.views.insert(view.flow_id, view);
        }
        while let Some(event) = gateway.poll_event() {
            if event.kind == EventKind::Drop {
                let client = SocketAddr::new(event.src_ip, event.src_port);
                let server = SocketAddr::new(event.dest_ip, event.dest_port);
                played.dropped.extend([(client, server), (server, client)]);
            }
        }
        let decided = std::iter::from_fn(|| gateway.poll_flow());
        played.decided.extend(decided);
    };
    let mut reader = CaptureReader::new("capture", bytes).unwrap();
    let mut now = Duration::ZERO;
    while let Ok(Some(captured)) = reader.next_packet() {
        now = captured.timestamp;
        gateway.handle_packet(now, captured.link, captured.bytes);
        poll(&mut gateway);
    }
    gateway.finish(now);
    poll(&mut gateway);
    played
}

/// What is done, and in which class.
type Fate = (&'static str, Option<String>);
/// What happens to flows between the same ends, in order.
type Fates = BTreeMap<String, Vec<Fate>>;

fn by_policy(bytes: &[u8], after: &Arc<Policy>) -> Fates {
    let mut fates = Fates::new();
    let played = play(bytes, after, Mode::Enforce);
    for flow in &played.decided {
        let record = &flow.record;
        let client = SocketAddr::new(record.client_ip, record.client_port);
        let server = SocketAddr::new(record.server_ip, record.server_port);
        let ends = format!("{} {client} {server}", record.l4.name());
        // What was dropped before it was answered never is: the capture goes on all the same.
        let action = if played.dropped.contains(&(client, server)) {
            "block"
        } else {
            flow.action.name()
        };
        let fate = (action, flow.class.clone());
        fates.entry(ends).or_default().push(fate);
    }
    fates
}

/// The same from the history; `None`: it cannot be told.
fn by_history(bytes: &[u8], after: &Policy) -> BTreeMap<String, Vec<Option<Fate>>> {
    let mut fates = BTreeMap::<_, Vec<_>>::new();
    for flow in play(bytes, &policy(BEFORE), Mode::Observe)
        .views
        .into_values()
    {
        let l4 = if flow.ends.protocol == 6 {
            "tcp"
        } else {
            "udp"
        };
        let ends = format!("{l4} {} {}", flow.ends.client, flow.ends.server);
        let was = flow.action.map_or("allow", |action| action.name());
        let fate = match compare(after, &jiff::tz::TimeZone::UTC, &flow) {
            Compared::Same => Some((was, flow.class.clone())),
            Compared::Otherwise(fate) => Some((fate.action, fate.class)),
            Compared::Untold(Untold::Contents | Untold::Protocol | Untold::Quota) => {
                panic!("{flow:?}")
            }
            Compared::Untold(_) => None,
        };
        fates.entry(ends).or_default().push(fate);
    }
    fates
}

/// What a host had used of a quota when a flow began is not written down.
#[test]
fn quotas_are_not_guessed_from_history() {
    let after = policy(
        "[[rule]]\nname = \"torrents\"\napp = \"bittorrent\"\naction = \"allow\"\n\
         quota = \"1 GiB/day\"\nover = \"block\"\n",
    );
    let mut untold = 0;
    for (_, bytes) in samples::captures() {
        let played = play(&bytes, &policy(BEFORE), Mode::Observe);
        for flow in played.views.into_values() {
            let compared = compare(&after, &jiff::tz::TimeZone::UTC, &flow);
            let is_theirs = flow.app == "bittorrent" && compared != Compared::Same;
            untold += usize::from(compared == Compared::Untold(Untold::Quota));
            assert!(
                !matches!(compared, Compared::Otherwise(_)) || !is_theirs,
                "{flow:?}"
            );
        }
    }
    assert!(untold > 0);
}

#[test]
fn history_decides_as_packets_do() {
    let mut captures: Vec<(String, Vec<u8>)> = own::captures();
    let made = samples::captures().into_iter();
    captures.extend(made.map(|(name, bytes)| (name.to_owned(), bytes)));
    if let Some(folder) = given::folder() {
        let files = std::fs::read_dir(folder.join("given")).unwrap();
        captures.extend(files.map(|file| {
            let path = file.unwrap().path();
            (path.display().to_string(), std::fs::read(path).unwrap())
        }));
    }
    let after = policy(AFTER);
    let (mut told, mut untold, mut faults) = (0, 0, Vec::new());
    for (name, bytes) in &captures {
        let packets = by_policy(bytes, &after);
        for (ends, fates) in by_history(bytes, &after) {
            let wanted = packets.get(&ends).map_or(&[][..], Vec::as_slice);
            // A connection that is cut and opened again is one flow in the one and two in the
            // other.
            if wanted.len() != fates.len() {
                continue;
            }
            for (fate, wanted) in fates.iter().zip(wanted) {
                match fate {
                    None => untold += 1,
                    Some(fate) if fate == wanted => told += 1,
                    Some(fate) => faults.push(format!("{name} {ends}: {fate:?}, {wanted:?}")),
                }
            }
        }
    }
    println!("{told} flows as their packets, {untold} of which the history does not tell");
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(told > 100 && untold * 10 < told, "{told} {untold}");
}
