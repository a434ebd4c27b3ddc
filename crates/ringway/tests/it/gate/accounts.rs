//! What crosses the border is accounted for, to the packet: beside the kernel's own counters.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use ringway_testbed::{Host, TestbedError, wait_until};
use serde_json::Value;

use super::beside::Tested;
use super::border::{Border, CLIENT, CLIENT_V6, DEADLINE, SERVER, SERVER_V6};
use super::both::{GatePath, on_each};
use super::web;

/// A rule on an application, so that flows are classified, and one on a port, so that some are
/// dropped at their first packet.
const POLICY: &str = "[[rule]]\nname = \"no-telnet\"\nport = 23\naction = \"block\"\n\
    [[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n";
const NO_TELNET: &str = "[[rule]]\nname = \"no-telnet\"\nport = 23\naction = \"block\"\n";
/// Flows of each protocol and each version of IP.
const EACH: usize = 250;
const PORT: u16 = 7_000;

/// Packets and bytes.
type Carried = (u64, u64);

/// Has the kernel count what enters the gateway for others, beside its connection tracking.
fn count_apart(border: &Border) -> Tested {
    for (tool, server) in [("iptables", SERVER), ("ip6tables", SERVER_V6)] {
        for way in ["-d", "-s"] {
            for protocol in ["tcp", "udp"] {
                let rule = [way, server, "-p", protocol];
                let words = [tool, "-w", "-t", "raw", "-A", "PREROUTING"];
                border.gateway.check(&[words.as_slice(), &rule].concat())?;
            }
        }
    }
    Ok(())
}

/// What it has counted, both ways together.
fn counted_apart(border: &Border) -> Tested<Carried> {
    let mut sum = (0, 0);
    for tool in ["iptables", "ip6tables"] {
        let list = (border.gateway).check(&[tool, "-w", "-t", "raw", "-nvxL", "PREROUTING"])?;
        for line in list.lines().skip(2) {
            let mut words = line.split_whitespace();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            if let (Some(packets), Some(bytes)) = (number(), number()) {
                sum = (sum.0 + packets, sum.1 + bytes);
            }
        }
    }
    Ok(sum)
}

fn top(border: &Border, by: &str) -> Result<Vec<Value>, TestbedError> {
    let outcome = border.ask(&["top", "--by", by]);
    if outcome.code != Some(0) {
        return Err(TestbedError(outcome.stderr));
    }
    outcome.objects()
}

/// What the rows carried together, and how many of their flows live.
fn sum(rows: &[Value]) -> (Carried, u64) {
    let number = |row: &Value, way: &str, what: &str| row[way][what].as_u64().unwrap();
    let total = |what| {
        let rows = rows.iter();
        rows.map(|row| number(row, "to_server", what) + number(row, "to_client", what))
            .sum()
    };
    let live = rows.iter().map(|row| row["live"].as_u64().unwrap()).sum();
    ((total("packets"), total("bytes")), live)
}

/// Answers TCP and UDP at the server's addresses with as many bytes as were asked for.
fn serve(server: &Host, addresses: &[&str]) -> Tested {
    for address in addresses {
        let address: std::net::IpAddr = address.parse()?;
        let listener = server.enter(|| TcpListener::bind((address, PORT)))??;
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                thread::spawn(move || {
                    let mut asked = [0; 4];
                    while stream.read_exact(&mut asked).is_ok() {
                        let length = usize::try_from(u32::from_be_bytes(asked)).unwrap_or(0);
                        if stream.write_all(&vec![7; length]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let socket = server.enter(|| UdpSocket::bind((address, PORT)))??;
        thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while let Ok((read, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..read], from).ok();
            }
        });
    }
    Ok(())
}

/// Asks for so many bytes over TCP, and takes them.
fn fetch(stream: &mut TcpStream, length: usize) -> Tested {
    stream.write_all(&u32::try_from(length)?.to_be_bytes())?;
    let mut bytes = vec![0; length];
    Ok(stream.read_exact(&mut bytes)?)
}

fn connect(client: &Host, server: &str, port: u16) -> Tested<TcpStream> {
    let server: SocketAddr = SocketAddr::new(server.parse()?, port);
    let stream = client.enter(|| TcpStream::connect_timeout(&server, DEADLINE))??;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// A thousand flows: TCP and UDP, over both versions of IP, of different lengths.
fn talk(border: &Border) -> Tested {
    for round in 0..EACH {
        for (own, server) in [(CLIENT, SERVER), (CLIENT_V6, SERVER_V6)] {
            let mut stream = connect(&border.client, server, PORT)?;
            fetch(&mut stream, 1 + round * 97)?;
            if round % 5 == 0 {
                // Reset in place of closed.
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            }
            drop(stream);
            let own: std::net::IpAddr = own.parse()?;
            let socket = border.client.enter(|| UdpSocket::bind((own, 0)))??;
            socket.set_read_timeout(Some(DEADLINE))?;
            socket.connect(SocketAddr::new(server.parse()?, PORT))?;
            for _ in 0..1 + round % 4 {
                socket.send(&vec![3; 1 + round])?;
                socket.recv(&mut [0; 2_048])?;
            }
        }
    }
    Ok(())
}

/// All that the gateway has accounted for is over, and equal to the kernel's own counters.
fn is_exact(border: &Border) -> Tested {
    let exact = || -> Result<(), TestbedError> {
        let rows = top(border, "app")?;
        let (carried, live) = sum(&rows);
        let apart = counted_apart(border).map_err(|error| TestbedError(error.to_string()))?;
        if live == 0 && carried == apart {
            return Ok(());
        }
        Err(TestbedError(format!(
            "accounts {carried:?} ({live} live), the kernel {apart:?}: {rows:#?}"
        )))
    };
    Ok(wait_until(DEADLINE, exact)?)
}

/// UDP's flows end soon after their last packet.
fn hasten(border: &Border) -> Tested {
    for timeout in ["udp_timeout", "udp_timeout_stream"] {
        let setting = format!("net.netfilter.nf_conntrack_{timeout}=2");
        border.gateway.check(&["sysctl", "-qw", &setting])?;
    }
    Ok(())
}

fn mixed_flows_are_exact(path: GatePath, masquerades: bool) -> Tested {
    let name = format!("accounts on the path {}", path.word());
    let Some(mut border) = Border::on(&name, path) else {
        return Ok(());
    };
    border.with_ipv6();
    if masquerades {
        border.masquerade()?;
    }
    serve(&border.server, &[SERVER, SERVER_V6])?;
    // Neighbours are known before: a SYN that is repeated because they were not is in no counter of
    // connection tracking, which ignores it.
    for server in [SERVER, SERVER_V6] {
        fetch(&mut connect(&border.client, server, PORT)?, 1)?;
    }
    border.up(POLICY, &["--enforce"]);
    hasten(&border)?;
    count_apart(&border)?;
    talk(&border)?;
    // Dropped at the first packet: the kernel never takes it for a connection.
    let refused = SocketAddr::new(SERVER.parse()?, 23);
    let refused =
        (border.client).enter(|| TcpStream::connect_timeout(&refused, Duration::from_secs(3)))?;
    assert!(refused.is_err());
    is_exact(&border)?;
    let rules = top(&border, "rule")?;
    let names: Vec<&str> = rules
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert!(names.contains(&"no-telnet"), "{names:?}");
    let hosts = top(&border, "host")?;
    let hosts: Vec<&str> = hosts
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert!(
        hosts.iter().all(|host| [CLIENT, CLIENT_V6].contains(host)),
        "{hosts:?}"
    );
    Ok(())
}

#[test]
fn user_path_counts_every_packet() -> Tested {
    mixed_flows_are_exact(GatePath::User, false)
}

#[test]
fn user_path_counts_behind_nat() -> Tested {
    mixed_flows_are_exact(GatePath::User, true)
}

#[test]
fn kernel_path_counts_every_packet() -> Tested {
    mixed_flows_are_exact(GatePath::Kernel, false)
}

#[test]
fn bridge_counts_every_packet() -> Tested {
    let Some(mut border) = Border::bridged("accounts of a bridge") else {
        return Ok(());
    };
    serve(&border.server, &[SERVER])?;
    fetch(&mut connect(&border.client, SERVER, PORT)?, 1)?;
    border.up(POLICY, &["--enforce", "--bridged"]);
    count_apart(&border)?;
    for round in 0..50 {
        fetch(&mut connect(&border.client, SERVER, PORT)?, 1 + round * 977)?;
    }
    is_exact(&border)?;
    let hosts = top(&border, "host")?;
    assert_eq!(hosts[0]["name"], CLIENT);
    Ok(())
}

/// Of its two halves the one outside is the flow.
#[test]
fn terminated_connection_is_one_flow() -> Tested {
    let Some(mut border) = Border::new("accounts of terminated connections") else {
        return Ok(());
    };
    serve(&border.server, &[SERVER])?;
    let policy = format!("[gateway]\nterminate = [{PORT}]\n{POLICY}");
    border.up(&policy, &["--enforce"]);
    let mut stream = connect(&border.client, SERVER, PORT)?;
    fetch(&mut stream, 1_000_000)?;
    // Looked at while it lives, time and again: a flow of two halves would be two by turns.
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(600));
        top(&border, "app")?;
    }
    drop(stream);
    let ended = || -> Result<(), TestbedError> {
        let rows = top(&border, "app")?;
        let ((_, bytes), live) = sum(&rows);
        let flows: u64 = rows.iter().filter_map(|row| row["flows"].as_u64()).sum();
        let once = (1_000_000..1_200_000).contains(&bytes);
        if live == 0 && flows == 1 && once {
            return Ok(());
        }
        Err(TestbedError(format!("{rows:#?}")))
    };
    Ok(wait_until(DEADLINE, ended)?)
}

#[test]
fn flows_outlive_a_killed_gateway() -> Tested {
    let Some(mut border) = Border::new("accounts of a killed gateway") else {
        return Ok(());
    };
    border.up(POLICY, &["--enforce"]);
    count_apart(&border)?;
    serve(&border.server, &[SERVER])?;
    let mut stream = connect(&border.client, SERVER, PORT)?;
    fetch(&mut stream, 100_000)?;
    border.daemon().kill()?;
    fetch(&mut stream, 200_000)?;
    border.up(POLICY, &["--enforce"]);
    fetch(&mut stream, 300_000)?;
    drop(stream);
    is_exact(&border)
}

#[test]
fn counting_is_put_back() -> Tested {
    let Some(mut border) = Border::new("the kernel's counting") else {
        return Ok(());
    };
    let setting = "net.netfilter.nf_conntrack_acct";
    let counts = |border: &Border| border.gateway.check(&["sysctl", "-n", setting]);
    border
        .gateway
        .check(&["sysctl", "-qw", &format!("{setting}=0")])?;
    border.up(POLICY, &[]);
    assert_eq!(counts(&border)?.trim(), "1");
    // Killed, it cannot put anything back: `gate down` does.
    border.daemon().kill()?;
    assert_eq!(counts(&border)?.trim(), "1");
    let (inside, outside, state) = (&border.inside, &border.outside, border.path("state"));
    let down = border
        .program()
        .run(["gate", "down", inside, outside, "--state", &state])?;
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    assert_eq!(counts(&border)?.trim(), "0");
    border.up(POLICY, &[]);
    border.daemon().terminate()?;
    assert_eq!(counts(&border)?.trim(), "0");
    Ok(())
}

#[test]
fn history_is_searched_and_decided_again() -> Tested {
    let Some(mut border) = Border::new("the history of flows") else {
        return Ok(());
    };
    serve(&border.server, &[SERVER])?;
    border.up(POLICY, &["--enforce"]);
    fetch(&mut connect(&border.client, SERVER, PORT)?, 500_000)?;
    border.daemon().terminate()?;
    let state = border.path("state");
    let words = [
        "--json", "gate", "audit", "--flows", "--by", "host", "--since", "1h",
    ];
    let words = [words.as_slice(), &["--state", &state]].concat();
    let hosts = border.program().run(words)?.objects()?;
    assert_eq!(hosts[0]["name"], CLIENT);
    assert!(
        hosts[0]["to_client"]["bytes"].as_u64() > Some(500_000),
        "{hosts:#?}"
    );
    // A port that was open is to be closed: the history tells of whom, and how much.
    let closed = format!("[[rule]]\nname = \"closed\"\nport = {PORT}\naction = \"block\"\n");
    let closed = border.file("closed.toml", &closed);
    let closed = closed.to_str().unwrap_or_default();
    let diff = ["--json", "gate", "diff", closed, "--state", &state];
    let changes = border.program().run(diff)?.objects()?;
    let [change, summary] = changes.as_slice() else {
        return Err(format!("{changes:#?}").into());
    };
    assert_eq!(
        (&change["from"]["action"], &change["to"]["rule"]),
        (&"allow".into(), &"closed".into())
    );
    assert_eq!(change["hosts"][0], CLIENT);
    assert_eq!(summary["otherwise"], 1);
    Ok(())
}

/// Without a rule on applications flows are named if all are to be.
#[test]
fn all_flows_are_named_where_asked() -> Tested {
    on_each(|path| {
        let unnamed = match path {
            GatePath::User => "unknown",
            GatePath::Kernel | GatePath::Auto => "not asked",
        };
        for (names, named) in [("needed", unnamed), ("all", "http")] {
            let name = format!("names = {names}, on the path {}", path.word());
            let Some(mut border) = Border::on(&name, path) else {
                return Ok(());
            };
            web::serve(&border, 100_000);
            let policy = format!("[gateway]\nnames = \"{names}\"\n{NO_TELNET}");
            border.up(&policy, &["--enforce"]);
            web::take(&mut web::get(&border), 200_000);
            let by_application = || {
                let rows = top(&border, "app")?;
                let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
                match names.as_slice() {
                    [name] if *name == named => Ok(()),
                    _ => Err(TestbedError(format!("{path:?}, {names:?}"))),
                }
            };
            wait_until(DEADLINE, by_application)?;
        }
        Ok(())
    })
}
