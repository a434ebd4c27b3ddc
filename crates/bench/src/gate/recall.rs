//! Which peer-to-peer flows are found, beside nDPI: recall and precision on captures whose flows
//! are known, and packets a second.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringway_gateway::classify::PEER_TO_PEER;
use ringway_gateway::{LinkType, Packets, classify_file, samples};

use super::recorded;
use crate::figure::Figure;
use crate::program::ringway;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// What nDPI calls applications that are peer-to-peer here.
const THEIRS: [&str; 8] = [
    "bittorrent",
    "edonkey",
    "gnutella",
    "kazaa",
    "fasttrack",
    "directconnect",
    "soulseek",
    "utp",
];
/// Connections of the capture by which speed is compared.
const FLOWS: u32 = 20_000;
/// How often each reads it in a round: the system counts processor time in hundredths of a second.
const REPEATED: u32 = 5;
pub(super) const NDPI: &str = "ndpiReader";

/// A flow in either direction: its capture, `tcp` or `udp`, and its ends in order.
type Key = (String, String, SocketAddr, SocketAddr);
/// Whether flows are peer-to-peer.
type Flows = BTreeMap<Key, bool>;

/// Compares them on all captures that are at hand.
pub(super) fn measure(
    output: Output,
    captures: Option<&Path>,
    rounds: usize,
) -> Result<Vec<Figure>, Failure> {
    let mut asked = Command::new(NDPI);
    asked.arg("-h").stdout(Stdio::null()).stderr(Stdio::null());
    if asked.status().is_err() {
        output.note("nDPI: LEFT OUT, it needs ndpiReader (libndpi-bin)");
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir().map_err(Failure::failed)?;
    let mut figures = Vec::new();
    match captures {
        None => output.note(
            "recorded captures: NOT COMPARED, --captures names a folder with labels.tsv and given/",
        ),
        Some(captures) => {
            let known = labels(captures)?;
            let files = files(&captures.join("given"))?;
            let found = (ours(&files)?, theirs(&files, folder.path())?);
            figures.extend(quality(
                output,
                "labelled flows of recorded captures",
                &known,
                &found,
            ));
        }
    }
    if let Some(captures) = captures {
        figures.extend(recorded::measure(output, captures, folder.path(), rounds)?);
    }
    let files = samples::write(folder.path()).map_err(Failure::failed)?;
    let known = expected();
    let found = (ours(&files)?, theirs(&files, folder.path())?);
    figures.extend(quality(
        output,
        "flows of Ringway's own samples",
        &known,
        &found,
    ));
    figures.extend(speed(output, folder.path(), rounds)?);
    Ok(figures)
}

/// Recall and precision of both on the flows that are known.
fn quality(
    output: Output,
    what: &str,
    known: &Flows,
    (ours, theirs): &(Flows, Flows),
) -> Vec<Figure> {
    let peers = known.values().filter(|peer| **peer).count();
    let [own, other] = [ours, theirs].map(|found| {
        let named = |key: &Key| found.get(key).copied().unwrap_or(false);
        let right = known
            .iter()
            .filter(|(key, peer)| **peer && named(key))
            .count();
        let wrong = known
            .iter()
            .filter(|(key, peer)| !**peer && named(key))
            .count();
        (right, wrong, found.values().filter(|peer| **peer).count())
    });
    for (name, (right, wrong, all)) in [("ringway", own), ("nDPI", other)] {
        output.note(&format!(
            "{what}: {} known, {peers} of them peer-to-peer; {name} names {right} of these so and {wrong} others; {all} in the captures altogether",
            known.len()
        ));
    }
    for (key, peer) in known {
        let named = |found: &Flows| found.get(key).copied().unwrap_or(false);
        if named(ours) != named(theirs) {
            let (file, l4, client, server) = key;
            output.note(&format!(
                "  differs: {file} {l4} {client} {server}: known as peer-to-peer {peer}, ringway {}, nDPI {}",
                named(ours),
                named(theirs)
            ));
        }
    }
    let share = |part: usize, whole: usize| match whole {
        0 => 0.0,
        _ => count(part) / count(whole),
    };
    [
        ("recall", share(own.0, peers), share(other.0, peers)),
        (
            "precision",
            share(own.0, own.0 + own.1),
            share(other.0, other.0 + other.1),
        ),
    ]
    .map(|(metric, own, other)| {
        Figure::new("gate", what, metric, "share", &[own]).against("nDPI", &[other])
    })
    .into()
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn key(file: &str, l4: &str, ends: [SocketAddr; 2]) -> Key {
    let [one, other] = ends;
    let (low, high) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    (file.to_owned(), l4.to_owned(), low, high)
}

/// Several flows of one key count as one, peer-to-peer if any of them is.
fn add(flows: &mut Flows, key: Key, peer: bool) {
    *flows.entry(key).or_default() |= peer;
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(Failure::failed)?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(Failure::failed)?.path());
    }
    files.sort();
    Ok(files)
}

/// `file l4 ip_a port_a ip_b port_b label`, with a heading.
fn labels(captures: &Path) -> Result<Flows, Failure> {
    let file = captures.join("labels.tsv");
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format_args!("`{}` (--captures): {error}", file.display()))
    })?;
    let mut flows = Flows::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(file), Some(l4)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (Some(one), Some(other)) = (end(&mut fields), end(&mut fields)) else {
            continue;
        };
        let peer = is_theirs(fields.next().unwrap_or_default());
        add(&mut flows, key(file, l4, [one, other]), peer);
    }
    Ok(flows)
}

fn end<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<SocketAddr> {
    let (ip, port) = (fields.next()?, fields.next()?);
    Some(SocketAddr::new(
        ip.parse::<IpAddr>().ok()?,
        port.parse().ok()?,
    ))
}

fn expected() -> Flows {
    let mut flows = Flows::new();
    for flow in samples::expected() {
        let key = key(flow.file, flow.l4.name(), [flow.client, flow.server]);
        add(&mut flows, key, PEER_TO_PEER.contains(&flow.app));
    }
    flows
}

fn ours(files: &[PathBuf]) -> Result<Flows, Failure> {
    let mut flows = Flows::new();
    for path in files {
        let name = name_of(path);
        let classified = classify_file(path, &mut |flow| {
            let client = SocketAddr::new(flow.client_ip, flow.client_port);
            let server = SocketAddr::new(flow.server_ip, flow.server_port);
            let key = key(&name, flow.l4.name(), [client, server]);
            add(&mut flows, key, PEER_TO_PEER.contains(&flow.app.as_str()));
        });
        classified.map_err(Failure::failed)?;
    }
    Ok(flows)
}

/// nDPI's `Master.Application`, or a label of the same form.
fn is_theirs(name: &str) -> bool {
    let name = name.to_lowercase().replace('_', "");
    name.split('.').any(|part| THEIRS.contains(&part))
}

fn theirs(files: &[PathBuf], folder: &Path) -> Result<Flows, Failure> {
    let (mut flows, table) = (Flows::new(), folder.join("ndpi.csv"));
    for path in files {
        let mut command = Command::new(NDPI);
        command
            .args(["-q", "-n", "1", "-i"])
            .arg(path)
            .arg("-C")
            .arg(&table);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map_err(Failure::failed)?;
        let text = std::fs::read(&table).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            // flow_id,protocol,first_seen,last_seen,duration,src_ip,src_port,dst_ip,dst_port,
            // ndpi_proto_num,ndpi_proto,…
            let mut fields = line.split(',').skip(1);
            let l4 = match fields.next() {
                Some("6") => "tcp",
                Some("17") => "udp",
                _ => continue,
            };
            let mut fields = fields.skip(3);
            let (Some(one), Some(other)) = (end(&mut fields), end(&mut fields)) else {
                continue;
            };
            let peer = is_theirs(fields.nth(1).unwrap_or_default());
            add(&mut flows, key(&name_of(path), l4, [one, other]), peer);
        }
        // A capture in which it finds nothing leaves the last one's table.
        std::fs::remove_file(&table).ok();
    }
    Ok(flows)
}

/// Packets for each second of processor time, whole programs, each less what it needs for a capture
/// of one packet.
fn speed(output: Output, folder: &Path, rounds: usize) -> Result<Vec<Figure>, Failure> {
    let (large, small) = (folder.join("large.pcap"), folder.join("small.pcap"));
    let (packets, one) = (mixed(FLOWS), mixed(1));
    let count = count(packets.iter().count());
    for (path, packets) in [(&large, packets), (&small, one)] {
        std::fs::write(path, packets.to_pcap(LinkType::Ethernet)).map_err(Failure::failed)?;
    }
    let program = ringway()?;
    let repeated = usize::try_from(REPEATED).map_err(Failure::failed)?;
    let run = |path: &Path, own: bool| {
        if own {
            let words = [Path::new("gate"), Path::new("classify"), path];
            return spent(&program, &words, repeated);
        }
        let words = [
            Path::new("-q"),
            Path::new("-n"),
            Path::new("1"),
            Path::new("-i"),
            path,
        ];
        spent(Path::new(NDPI), &words, repeated)
    };
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (own, rates) in [true, false].into_iter().zip(&mut rates) {
            let spent = run(&large, own)? - run(&small, own)?;
            let rate = count * f64::from(REPEATED) / spent;
            rates.push(rate);
            let name = if own { "ringway" } else { "nDPI" };
            output.note(&format!(
                "round {} of {rounds}, {name}: {rate:.0} packets/s",
                round + 1
            ));
        }
    }
    let [own, other] = rates;
    let case = format!("classification, {FLOWS} flows");
    Ok(vec![
        Figure::new("gate", case, "speed", "packets/s", &own).against("nDPI", &other),
    ])
}

/// Seconds of processor time that a program takes, run so often.
pub(super) fn spent(
    program: &Path,
    words: &[impl AsRef<OsStr>],
    times: usize,
) -> Result<f64, Failure> {
    let before = children()?;
    for _ in 0..times {
        let mut command = Command::new(program);
        command
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().map_err(Failure::failed)?;
    }
    Ok(children()?.saturating_sub(before).as_secs_f64())
}

/// Processor time of children that have ended.
fn children() -> Result<Duration, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat").map_err(Failure::failed)?;
    // Behind the name, which may contain anything: cutime and cstime are the 14th and 15th field,
    // in hundredths of a second.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let fields = behind.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks.saturating_mul(10)))
}

/// Connections of the web and of BitTorrent in turns, with 10 kB each.
fn mixed(flows: u32) -> Packets {
    let mut packets = Packets::new();
    let peer = [b"\x13BitTorrent protocol".as_slice(), &[0; 8], &[7; 40]].concat();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10000\r\n\r\n";
    for number in 0..flows {
        // Scattered: addresses in a row make long branches of the other's tree of flows.
        let [a, b, c, d] = number.wrapping_mul(2_654_435_761).to_be_bytes();
        let port = u16::from_be_bytes([d, a]) | 0x8000;
        let client = ([10, a, b, c], port).into();
        let web = number % 2 == 0;
        let to = if web { 80 } else { 6_881 };
        let mut stream = packets.tcp(client, ([192, 0, 2, 9], to).into());
        stream.open();
        let (asks, answers): (&[u8], &[u8]) = match web {
            true => (b"GET / HTTP/1.1\r\nHost: server.example\r\n\r\n", head),
            false => (&peer, &peer),
        };
        stream.client(asks);
        stream.server(&[answers, &[0x5a; 10_000]].concat());
        stream.close();
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ndpi_names_are_recognised_in_all_forms() {
        assert!(is_theirs("BitTorrent"));
        assert!(is_theirs("DNS.BitTorrent"));
        assert!(is_theirs("eDonkey"));
        assert!(!is_theirs("TLS.Facebook"));
        assert!(!is_theirs("WhatsApp"));
    }

    #[test]
    fn shares_are_counted_by_flows_that_are_known() {
        let at = |port| SocketAddr::new([10, 0, 0, 1].into(), port);
        let flow = |port| key("a.pcap", "tcp", [at(port), at(1)]);
        let known: Flows = [(flow(2), true), (flow(3), true), (flow(4), false)].into();
        let ours: Flows = [(flow(2), true), (flow(3), true), (flow(4), true)].into();
        // A flow without a known label counts for nothing.
        let theirs: Flows = [(flow(2), true), (flow(9), true)].into();
        let figures = quality(Output::silent(), "x", &known, &(ours, theirs));
        let values: Vec<_> = figures
            .iter()
            .map(|f| (f.metric, f.value, f.baseline_value))
            .collect();
        assert_eq!(
            values,
            [
                ("recall", 1.0, Some(0.5)),
                ("precision", 2.0 / 3.0, Some(1.0))
            ]
        );
    }
}
