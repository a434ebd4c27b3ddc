//! How long a million flows of the history take: to be searched, and to be decided again by another
//! policy.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringway_gateway::Confidence;
use ringway_gateway::accounting::{Asked, EndReason, Ends, FlowAccount, Named};
use ringway_gateway::audit::FlowStore;
use ringway_gateway::classify::Details;
use ringway_gateway::policy::Action;
use ringway_terminal::{Failure, Output};

use crate::figure::Figure;
use crate::program::ringway;

/// Flows of the history, and of one transaction.
const FLOWS: u64 = 1_000_000;
const AT_ONCE: u64 = 10_000;
/// What most flows are, and the ports of their servers.
const APPLICATIONS: [(&str, u16); 5] = [
    ("tls", 443),
    ("quic", 443),
    ("dns", 53),
    ("http", 80),
    ("bittorrent", 6_881),
];
/// The policy that decides again: by application, by port, by a network.
const POLICY: &str = "[classes.slow]\nrate = \"1 Mbit/s\"\n\
    [[rule]]\nname = \"sharing\"\ngroup = \"p2p\"\naction = \"block\"\n\
    [[rule]]\nname = \"web\"\nport = 80\naction = \"shape\"\nclass = \"slow\"\n\
    [[rule]]\nname = \"guests\"\nclient = \"10.0.7.0/24\"\naction = \"block\"\n";

/// Writes the history once, and measures the program on it.
pub(super) fn measure(output: Output, rounds: usize) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::failed)?;
    let (state, policy) = (folder.path().join("state"), folder.path().join("new.toml"));
    std::fs::create_dir(&state).map_err(Failure::failed)?;
    std::fs::write(&policy, POLICY).map_err(Failure::failed)?;
    let mut store = FlowStore::open(&state.join("flows.db")).map_err(Failure::failed)?;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let began = Instant::now();
    for first in (0..FLOWS).step_by(usize::try_from(AT_ONCE).unwrap_or(1)) {
        let flows: Vec<FlowAccount> = (first..first + AT_ONCE).map(|n| flow(n, now)).collect();
        store.append(now, &flows).map_err(Failure::failed)?;
    }
    drop(store);
    output.note(&format!("{FLOWS} flows written in {:.1?}", began.elapsed()));
    let program = ringway()?;
    let new = policy.to_string_lossy().into_owned();
    let diff = ["gate", "diff", &new, "--since", "7d"];
    let hosts = ["gate", "audit", "--flows", "--since", "7d", "--by", "host"];
    let cases: [(&str, &[&str]); 2] = [
        ("1000000 flows decided again", &diff),
        ("1000000 flows by host", &hosts),
    ];
    let mut figures = Vec::new();
    for (case, words) in cases {
        let mut times = Vec::new();
        for round in 0..rounds {
            let mut command = Command::new(&program);
            command.args(words).arg("--state").arg(&state);
            command.stdout(Stdio::null()).stdin(Stdio::null());
            let began = Instant::now();
            let status = command.status().map_err(Failure::failed)?;
            let time = began.elapsed().as_secs_f64();
            if !status.success() {
                return Err(Failure::failed(format_args!("{case}: {status}")));
            }
            output.note(&format!(
                "round {} of {rounds}, {case}: {time:.2} s",
                round + 1
            ));
            times.push(time);
        }
        figures.push(Figure::new("gate", case, "time", "s", &times));
    }
    Ok(figures)
}

/// One of six days, of two thousand hosts.
fn flow(number: u64, now: Duration) -> FlowAccount {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [a, b, c, d, e, f, g, _] = scattered.to_be_bytes();
    let (app, port) = APPLICATIONS
        .get(usize::from(a) % APPLICATIONS.len())
        .copied()
        .unwrap_or(("tls", 443));
    let host = IpAddr::from([10, 0, b % 8, c]);
    let before = Duration::from_micros(scattered % 518_400_000_000);
    let began = now.saturating_sub(before + Duration::from_secs(60));
    let carried = |factor: u64| ringway_gateway::flow::Count {
        packets: factor * 7,
        bytes: factor * u64::from(u16::from_be_bytes([f, g])),
    };
    FlowAccount {
        flow_id: number + 1,
        ends: Ends {
            protocol: if app == "quic" || app == "dns" { 17 } else { 6 },
            client: SocketAddr::new(host, u16::from_be_bytes([d, e]) | 0x8000),
            server: SocketAddr::from(([198, 51, f, g], port)),
        },
        asked: Asked::Yes,
        app: app.to_owned(),
        confidence: Some(Confidence::Certain),
        named: Named::Itself,
        answered: true,
        details: Details {
            sni: (app == "tls").then(|| format!("host-{d}.example.org")),
            ..Details::default()
        },
        torrents: Vec::new(),
        torrent_names: Vec::new(),
        action: Some(Action::Allow),
        rule: Some("default".to_owned()),
        class: None,
        over_quota: false,
        host,
        outside: None,
        to_server: carried(1),
        to_client: carried(9),
        before: Default::default(),
        exact: true,
        began,
        ended: Some(began + Duration::from_secs(30)),
        reason: Some(EndReason::Closed),
        kernel: None,
    }
}
