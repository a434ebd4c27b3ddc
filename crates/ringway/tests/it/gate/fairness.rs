//! Hosts that fill a class together: each gets as much as the others, and what waits is little.
//!
//! What waits is counted in bytes, which a busy machine makes fewer rather than more.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringway_testbed::{Host, wait_until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::beside::{Tested, all, job, wrong};
use super::border::{Border, DEADLINE, SERVER};
use super::both::{GatePath, on_each};
use super::web::serve;

/// A class of 2 Mbit/s, and one beside it that nothing is in.
const SLOW: &str = "[classes.bulk]\nrate = \"2 Mbit/s\"\n\n[classes.other]\nrate = \"8 Mbit/s\"\n\n\
    [[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
/// Bytes that take 60 ms at 2 Mbit/s.
const MOST_WAITING: u64 = 15_000;
/// Bytes of all hosts that are compared: fifteen seconds of the class.
const COMPARED: u64 = 3_750_000;
/// Bytes of all hosts that come first: bursts, and windows that have to find their size.
const FIRST: u64 = 1_000_000;
/// The hosts, of the client's network.
const HOSTS: [&str; 4] = ["10.66.0.2", "10.66.0.3", "10.66.0.4", "10.66.0.5"];
/// How evenly they have to share, by Jain's index.
const EVEN: f64 = 0.95;

/// Bytes that came of each of the hosts.
type Counts = Arc<[AtomicU64; 4]>;

#[test]
fn hosts_share_downloads_of_a_class_evenly() -> Tested {
    on_each(|path| downloads(Border::on("downloads of four hosts", path)))
}

#[test]
fn translated_hosts_share_uploads_of_a_class_evenly() -> Tested {
    on_each(uploads)
}

#[test]
fn hosts_share_a_class_on_a_bridge_evenly() -> Tested {
    let border = || Border::bridged("downloads of four hosts through a bridge");
    all(vec![job("--bridged", || bridged(border()))])
}

fn bridged(border: Option<Border>) -> Tested {
    let Some(mut border) = border else {
        return Ok(());
    };
    give_addresses(&border)?;
    serve(&border, 64 << 20);
    border.up(SLOW, &["--enforce", "--bridged"]);
    compare_downloads(&border)
}

fn downloads(border: Option<Border>) -> Tested {
    let Some(mut border) = border else {
        return Ok(());
    };
    give_addresses(&border)?;
    serve(&border, 64 << 20);
    border.up(SLOW, &["--enforce"]);
    compare_downloads(&border)?;
    // One class less: the other's index and shares stay, and nothing is left of it.
    let fewer = SLOW.replace("[classes.other]\nrate = \"8 Mbit/s\"\n\n", "");
    let fewer = border.file("fewer.toml", &fewer);
    let outcome = border.ask(&["apply", fewer.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    border.daemon().terminate()?;
    match border.traces().as_str() {
        "" => Ok(()),
        left => wrong(format!("left: {left}")),
    }
}

/// Gives the client the addresses of the other hosts.
fn give_addresses(border: &Border) -> Tested {
    for host in HOSTS.into_iter().skip(1) {
        let address = format!("{host}/24");
        let interface = &border.client_interface;
        let words = ["ip", "addr", "add", &address, "dev", interface];
        border.client.check(&words)?;
    }
    Ok(())
}

/// A connection of one of the hosts to the server.
fn connect(client: &Host, host: &str) -> Tested<TcpStream> {
    let from = SocketAddr::new(host.parse::<IpAddr>()?, 0);
    let server = SocketAddr::new(SERVER.parse::<IpAddr>()?, 80);
    let stream = client.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&from.into())?;
        socket.connect(&server.into())?;
        Ok::<TcpStream, std::io::Error>(socket.into())
    })??;
    Ok(stream)
}

fn compare_downloads(border: &Border) -> Tested {
    let counts = Counts::default();
    for (index, host) in HOSTS.into_iter().enumerate() {
        let mut stream = connect(&border.client, host)?;
        write!(stream, "GET /{index} HTTP/1.1\r\nHost: {SERVER}\r\n\r\n")?;
        let counts = Arc::clone(&counts);
        std::thread::spawn(move || count(&mut stream, &counts, index));
    }
    compare(border, &border.inside, &counts)
}

/// Uploads whose senders are translated before they leave.
fn uploads(path: GatePath) -> Tested {
    let Some(mut border) = Border::on("uploads of four hosts", path) else {
        return Ok(());
    };
    give_addresses(&border)?;
    border.masquerade()?;
    let listener = border.server.enter(|| TcpListener::bind((SERVER, 80)))??;
    let counts = Counts::default();
    let counted = Arc::clone(&counts);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counts = Arc::clone(&counted);
            std::thread::spawn(move || {
                // `PUT /N`: which host sends it.
                let mut head = [0; 6];
                if stream.read_exact(&mut head).is_ok() {
                    count(&mut stream, &counts, usize::from(head[5] - b'0'));
                }
            });
        }
    });
    border.up(SLOW, &["--enforce"]);
    for (index, host) in HOSTS.into_iter().enumerate() {
        let mut stream = connect(&border.client, host)?;
        std::thread::spawn(move || {
            let head = format!(
                "PUT /{index} HTTP/1.1\r\nHost: {SERVER}\r\nContent-Length: 67108864\r\n\r\n"
            );
            // It ends when the test has seen enough.
            stream.write_all(head.as_bytes()).ok();
            stream.write_all(&vec![0x5a; 64 << 20]).ok();
        });
    }
    compare(&border, &border.outside, &counts)
}

fn count(stream: &mut TcpStream, counts: &Counts, index: usize) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        let read = u64::try_from(read).unwrap_or(0);
        counts[index].fetch_add(read, Ordering::Relaxed);
    }
}

/// Compares what comes of each host, and looks at what waits meanwhile where it leaves.
fn compare(border: &Border, interface: &str, counts: &Counts) -> Tested {
    let now = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let mut waiting = Vec::new();
    let mut until = |bytes: u64| {
        // As long as it takes: on a busy machine less comes.
        wait_until(5 * DEADLINE, || {
            waiting.push(backlog(&border.gateway, interface)?);
            std::thread::sleep(Duration::from_millis(50));
            let sum: u64 = now().iter().sum();
            match sum >= bytes {
                true => Ok(()),
                false => Err(ringway_testbed::TestbedError(format!("{sum} bytes came"))),
            }
        })
    };
    until(FIRST)?;
    let before = now();
    until(FIRST + COMPARED)?;
    let after = now();
    let came: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    waiting.sort_unstable();
    let (middle, most) = (waiting[waiting.len() / 2], waiting.last().copied());
    let jain = jain(&came);
    // Where nothing ever waited there was no class.
    if jain < EVEN || middle > MOST_WAITING || most == Some(0) {
        return wrong(format!(
            "{came:?} bytes (index {jain:.3}), half of the time {middle} bytes or more waited, at most {most:?}"
        ));
    }
    Ok(())
}

/// Jain's index: 1 where all have the same, 1 ÷ their number where one has all.
fn jain(shares: &[u64]) -> f64 {
    let shares = shares
        .iter()
        .map(|share| f64::from(u32::try_from(*share).unwrap()));
    let (sum, squares, number) = shares.fold((0.0, 0.0, 0.0), |(sum, squares, number), share| {
        (sum + share, squares + share * share, number + 1.0)
    });
    sum * sum / (number * squares)
}

/// Bytes that wait in the leaves of an interface's classes.
fn backlog(gateway: &Host, interface: &str) -> Result<u64, ringway_testbed::TestbedError> {
    let shown = gateway.check(&["tc", "-s", "-j", "qdisc", "show", "dev", interface])?;
    let shown: Value = serde_json::from_str(&shown)
        .map_err(|error| ringway_testbed::TestbedError(error.to_string()))?;
    let disciplines = shown.as_array().into_iter().flatten();
    let leaves = disciplines.filter(|discipline| {
        let parent = discipline["parent"].as_str();
        parent.is_some_and(|parent| parent.starts_with("7a11:"))
    });
    Ok(leaves.filter_map(|leaf| leaf["backlog"].as_u64()).sum())
}
