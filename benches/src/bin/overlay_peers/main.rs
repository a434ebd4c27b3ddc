//! rust-libp2p's Kademlia beside Ringway's ring: as many nodes in one process, over real sockets on
//! loopback, the same lookups.
//!
//! ```text
//! overlay-peers list [attacked]
//! overlay-peers NAME NODES LOOKUPS PACE_MS SEED [silent|lying PERCENT]
//! ```
//!
//! `list` prints a name a line, `list attacked` those that are worth a look among malicious nodes;
//! the other form forms a network, measures, and prints one JSON object ([`network::Measured`]).
//!
//! ## How libp2p is used
//! What its documentation recommends, unless a variant says otherwise. `kad` 0.49 has its defaults
//! (k = 20, α = 3), in server mode. `identify` stands beside it and its addresses go into the
//! routing table: without it a dialed node never learns of the dialer. There are three boot nodes,
//! and one `bootstrap` by each node when all are there. Every eighth does so once more, as all do
//! every five minutes: what that costs is added to the traffic at rest.
//!
//! **QUIC**, not TCP with Noise and Yamux, for its nature, not by a trial: fewer round trips for
//! each new connection, one socket for each node instead of one for each connection, and its
//! keep-alives notice peers that fall silent within ten seconds.
//!
//! | name | is |
//! |---|---|
//! | `libp2p kad` | by default: an unused connection is closed after ten seconds |
//! | `libp2p kad kept` | connections stay open for an hour, so that nearly every lookup finds them open |
//! | `libp2p kad kept nearest` | and a lookup ends with the nearest peer, instead of the twenty nearest: the cheapest there is |
//! | `libp2p kad kept disjoint` | and lookups take eight disjoint paths (S/Kademlia), against malicious nodes |
//!
//! ## What malicious nodes do
//! **Silent**: they live in a runtime of their own whose only thread stops. Their sockets stay
//! open, and nothing is answered any more, QUIC's packets included. **Lying**: an ordinary node
//! whose routing table holds malicious nodes only, and takes no other node in
//! (`BucketInserts::Manual`). It answers every question at once, by the twenty malicious nodes
//! nearest to what is asked for. This needs no fork of libp2p. Until the attack begins all of them
//! are honest, so that honest nodes have them in their tables.
//!
//! ## What counts
//! A lookup has found what it was to find if the answer contains the live peer that is in truth
//! nearest (XOR of SHA-256, as libp2p has it; the asker itself does not count); liars are alive,
//! the silent are not. Bytes are those of the network namespace's IPv4 (`IpExt` in
//! `/proc/net/netstat`), headers, handshakes and acknowledgements included: nothing else may use it
//! meanwhile. Time is from the command until the answer is there, for lookups that begin at a fixed
//! pace.

// Both programs have to draw the same, and neither is a library.
#[path = "../../../../crates/bench/src/real/chance.rs"]
mod chance;
mod measure;
mod network;
mod node;

use std::process::ExitCode;

use network::{Attack, Job, Kind};
use node::Variant;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: overlay-peers list [attacked] | overlay-peers NAME NODES LOOKUPS PACE_MS SEED [silent|lying PERCENT]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(lines) => {
            #[allow(clippy::print_stdout, reason = "the answer of this program")]
            for line in lines {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            #[allow(
                clippy::print_stderr,
                reason = "`ringway-bench overlay` shows the last line"
            )]
            {
                eprintln!("overlay-peers: {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let (name, numbers, attack) = match arguments {
        [list, which @ ..] if list == "list" => {
            let attacked = which == ["attacked"];
            let all = Variant::ALL.iter().filter(|v| v.attacked || !attacked);
            return Ok(all.map(|variant| variant.name.to_owned()).collect());
        }
        [name, numbers @ ..] if numbers.len() == 4 => (name, numbers, None),
        [name, numbers @ .., kind, percent] if numbers.len() == 4 => {
            (name, numbers, Some(attack(kind, percent)?))
        }
        _ => return Err(USAGE.into()),
    };
    let variant = Variant::ALL.into_iter().find(|v| v.name == name);
    let variant = variant.ok_or_else(|| format!("nothing is called `{name}`: see `list`"))?;
    let mut values = Vec::new();
    for text in numbers {
        let value: u64 = text.parse().map_err(|_| format!("`{text}`: {USAGE}"))?;
        values.push(value);
    }
    let [nodes, lookups, pace, seed] = values[..] else {
        return Err(USAGE.into());
    };
    if !(5..=1_000).contains(&nodes) {
        return Err(format!("{nodes} nodes: 5 to 1000 are measured").into());
    }
    let measured = network::measure(&Job {
        variant,
        nodes: usize::try_from(nodes)?,
        lookups: usize::try_from(lookups)?,
        pace: std::time::Duration::from_millis(pace),
        seed,
        attack,
    })?;
    Ok(vec![serde_json::to_string(&measured)?])
}

fn attack(kind: &str, percent: &str) -> Result<Attack, Failure> {
    let kind = match kind {
        "silent" => Kind::Silent,
        "lying" => Kind::Lying,
        other => return Err(format!("`{other}`: traitors are silent or lying").into()),
    };
    match percent.parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(Attack {
            kind,
            share: percent / 100.0,
        }),
        _ => Err(format!("`{percent}`: 0 to 50 per cent are traitors").into()),
    }
}
