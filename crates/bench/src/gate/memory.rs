//! Memory of a flow: what a process grows by for many of them, as they are undecided, decided, or
//! followed.

use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ringway_gateway::flow::TableBounds;
use ringway_gateway::verdict::{Gateway, Mode, Settings};
use ringway_gateway::{LinkType, Packets, built_in_classifier};

use super::policies::{self, AUDIT, CLASSIFY};
use crate::figure::Figure;
use crate::real::resident;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Flows of each measurement, and whether it is one of a quick run.
const COUNTS: [(u32, bool); 3] = [(10_000, true), (100_000, false), (1_000_000, false)];

/// Full segments of a file that a flow has carried.
const SEGMENTS: usize = 20;

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A SYN alone, as a flood of them brings.
    Opened,
    /// A handshake, and a request that is not whole yet.
    Undecided,
    /// Its application is known, and nothing in it matters.
    Decided,
    /// A file of it is under way that is written down.
    Followed,
}

const STATES: [State; 4] = [
    State::Opened,
    State::Undecided,
    State::Decided,
    State::Followed,
];

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Undecided => "undecided",
            Self::Decided => "decided",
            Self::Followed => "followed",
        }
    }
}

/// What one process has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    state: State,
    flows: u32,
    /// The table has its ordinary bound, and not room for all of them.
    bounded: bool,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bounded = if self.bounded { ":bounded" } else { "" };
        write!(f, "{}:{}{bounded}", self.state.word(), self.flows)
    }
}

impl FromStr for Held {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (text, bounded) = match text.strip_suffix(":bounded") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (word, flows) = text.split_once(':').ok_or("STATE:FLOWS is wanted")?;
        let known = STATES.into_iter().find(|state| state.word() == word);
        Ok(Self {
            state: known.ok_or("there is no such state")?,
            flows: flows.parse().map_err(|_| "no number of flows")?,
            bounded,
        })
    }
}

/// Measures each in a process of its own: memory that was given back would be used again, and not
/// be seen.
pub(super) fn measure(output: Output, quick: bool) -> Result<Vec<Figure>, Failure> {
    let mut cells: Vec<Held> = Vec::new();
    for state in STATES {
        for (flows, in_quick) in COUNTS {
            if in_quick || !quick {
                let bounded = false;
                cells.push(Held {
                    state,
                    flows,
                    bounded,
                });
            }
        }
    }
    if !quick {
        cells.extend([State::Opened, State::Followed].map(|state| Held {
            state,
            flows: 1_000_000,
            bounded: true,
        }));
    }
    let mut figures = Vec::new();
    for cell in cells {
        output.note(&format!("memory, {cell}"));
        let grown = child(cell)?;
        let bound = if cell.bounded {
            " offered to the ordinary table"
        } else {
            ""
        };
        let case = format!("{} flows {}{bound}", cell.flows, cell.state.word());
        let each = grown / f64::from(cell.flows);
        figures.push(Figure::new(
            "gate",
            case.clone(),
            "memory",
            "MB",
            &[grown / 1e6],
        ));
        if !cell.bounded {
            figures.push(Figure::new(
                "gate",
                case,
                "memory_each",
                "bytes/flow",
                &[each],
            ));
        }
    }
    Ok(figures)
}

/// What a process that does only this grows by.
fn child(cell: Held) -> Result<f64, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut command = Command::new(program);
    command.args(["gate", "--memory-of", &cell.to_string()]);
    let output = command.output().map_err(Failure::failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let why = String::from_utf8_lossy(&output.stderr);
        Failure::failed(format_args!("{cell}: {}", why.trim()))
    })
}

/// Makes the flows and says what this process grew by, in bytes.
pub(super) fn hold(output: Output, cell: Held) -> Result<(), Failure> {
    let policy = match cell.state {
        State::Followed => AUDIT,
        _ => CLASSIFY,
    };
    let policy = policies::policy(policy)?;
    let settings = Settings {
        mode: Mode::Enforce,
        ..Settings::default()
    };
    let mut bounds = TableBounds::default();
    if !cell.bounded {
        bounds.flows = usize::try_from(cell.flows).unwrap_or(usize::MAX);
    }
    let mut gateway = Gateway::new(built_in_classifier(), bounds, Arc::new(policy), settings);
    let before = resident();
    for number in 0..cell.flows {
        for (now, bytes) in packets(cell.state, number).iter() {
            gateway.handle_packet(now, LinkType::RawIp, bytes);
        }
        // What is reported meanwhile goes elsewhere.
        while gateway.poll_event().is_some() || gateway.poll_flow().is_some() {}
        while gateway.poll_released().is_some() || gateway.poll_injection().is_some() {}
        while gateway.poll_file_part().is_some() {}
    }
    let (Some(before), Some(after)) = (before, resident()) else {
        return Err(Failure::failed(
            "this system does not say how much memory is used",
        ));
    };
    let wanted = usize::try_from(cell.flows).unwrap_or(usize::MAX);
    let decided = gateway.flows(1).iter().any(|flow| flow.action.is_some());
    let as_meant = match cell.state {
        State::Opened | State::Undecided => !decided,
        State::Decided => decided,
        State::Followed => decided && gateway.content_held() > 0,
    };
    if !cell.bounded && (gateway.live_flows() != wanted || !as_meant) {
        return Err(Failure::failed(format_args!(
            "{} flows are there, decided: {decided}",
            gateway.live_flows()
        )));
    }
    output.line(&format!("{:.0}", after - before))
}

/// What a flow of this number brings. All flows are of the same moment.
fn packets(state: State, number: u32) -> Packets {
    let mut packets = Packets::starting_at(Duration::from_secs(1_000));
    let [_, host, network, port] = number.to_be_bytes();
    let port = u16::from(port).saturating_add(20_000);
    let client = ([10, 0, host, network], port).into();
    if state == State::Opened {
        let mut whole = Packets::starting_at(Duration::from_secs(1_000));
        whole.tcp(client, ([192, 0, 2, 9], 80).into()).open();
        if let Some((_, syn)) = whole.iter().next() {
            packets.push(syn.to_vec());
        }
        return packets;
    }
    let mut stream = packets.tcp(client, ([192, 0, 2, 9], 80).into());
    stream.open();
    if state == State::Undecided {
        stream.client(b"GET /a/file/with/a/name/that/goes/on/in/the/next/segm");
        return packets;
    }
    stream.client(b"GET /file.bin HTTP/1.1\r\nHost: server\r\nUser-Agent: ringway\r\n\r\n");
    stream.server(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 2000000\r\n\r\n");
    // More packets than the classifier looks at.
    for _ in 0..SEGMENTS {
        stream.server(&[0x5a; 1_460]);
    }
    // The next request begins, and acknowledges what has come.
    stream.client(b"G");
    packets
}
