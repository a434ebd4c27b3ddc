//! Quotas of each host: one that has used it up is slowed or blocked, also in flows that go on,
//! while another goes on; and so it stays over a restart.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ringway_testbed::{TestbedError, wait_until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::beside::Tested;
use super::border::{Border, CLIENT, DEADLINE, SERVER};
use super::both::GatePath;

/// Another host inside.
const OTHER: &str = "10.66.0.3";
const PORT: u16 = 7_000;
/// A month does not end while the test runs, or it would fail once in a month.
const QUOTA: &str = "quota = \"4 MiB/month\"\n";
const MIB: usize = 1 << 20;

fn policy(over: &str) -> String {
    format!(
        "[classes.slow]\nrate = \"2 Mbit/s\"\n\n\
         [[rule]]\nname = \"downloads\"\nport = {PORT}\naction = \"allow\"\n{QUOTA}over = \"{over}\"\n"
    )
}

/// A border with two hosts inside, and a server that gives as many bytes as it is asked for.
fn border(test: &str, path: GatePath) -> Tested<Option<Border>> {
    let Some(border) = Border::on(test, path) else {
        return Ok(None);
    };
    let address = format!("{OTHER}/24");
    let add = [
        "ip",
        "addr",
        "add",
        &address,
        "dev",
        &border.client_interface,
    ];
    border.client.check(&add)?;
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, PORT)))??;
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
    Ok(Some(border))
}

/// A connection from one of the hosts.
fn connect(border: &Border, host: &str) -> Tested<TcpStream> {
    let host: IpAddr = host.parse()?;
    let server = SocketAddr::new(SERVER.parse()?, PORT);
    let stream = border.client.enter(|| -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(host, 0).into())?;
        socket.connect_timeout(&server.into(), DEADLINE)?;
        Ok(socket.into())
    })??;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Asks for so many bytes and takes them; returns how long that took.
fn fetch(stream: &mut TcpStream, length: usize) -> Tested<Duration> {
    let begun = Instant::now();
    stream.write_all(&u32::try_from(length)?.to_be_bytes())?;
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(begun.elapsed())
}

fn quotas(border: &Border) -> Result<Vec<Value>, TestbedError> {
    let outcome = border.ask(&["quotas"]);
    if outcome.code != Some(0) {
        return Err(TestbedError(outcome.stderr));
    }
    outcome.objects()
}

/// Waits until the host has used its quota up; returns its row.
fn used_up(border: &Border, host: &str) -> Result<Value, TestbedError> {
    wait_until(DEADLINE, || {
        let rows = quotas(border)?;
        let row = rows
            .iter()
            .find(|row| row["of"] == host && row["over"] == true);
        row.cloned()
            .ok_or_else(|| TestbedError(format!("{rows:#?}")))
    })
}

/// A MiB takes longer than the class lets it come, but for what its buffers and burst let through.
/// No busy machine makes it come faster.
fn is_slow(took: Duration) -> bool {
    took > Duration::from_secs(2)
}

/// Fetches until the class shows.
fn becomes_slow(stream: &mut TcpStream) -> Tested {
    for _ in 0..20 {
        if is_slow(fetch(stream, MIB)?) {
            return Ok(());
        }
    }
    Err("it goes on as fast as before".into())
}

fn soft(path: GatePath) -> Tested {
    let test = format!("a soft quota on the path {}", path.word());
    let Some(mut border) = border(&test, path)? else {
        return Ok(());
    };
    border.up(&policy("slow"), &["--enforce"]);
    let mut long = connect(&border, CLIENT)?;
    let mut other = connect(&border, OTHER)?;
    fetch(&mut other, MIB)?;
    fetch(&mut long, 5 * MIB)?;
    let row = used_up(&border, CLIENT)?;
    assert_eq!(
        (&row["rule"], &row["now"]),
        (&"downloads".into(), &"slow".into())
    );
    becomes_slow(&mut long)?;
    assert!(!is_slow(fetch(&mut other, MIB)?));
    let mut new = connect(&border, CLIENT)?;
    becomes_slow(&mut new)?;
    let events = border.audit_when(|events| {
        let passed = |event: &Value| event["ringway"]["quota"]["of"] == CLIENT;
        events.iter().filter(|event| passed(event)).count() == 1
    });
    let passed = events
        .iter()
        .find(|event| event["ringway"]["quota"].is_object());
    assert_eq!(passed.unwrap()["ringway"]["quota"]["over"], "slow");
    // What was used is known from the first moment on, and both connections go on in the class.
    border.daemon().terminate()?;
    border.up(&policy("slow"), &["--enforce"]);
    let again = used_up(&border, CLIENT)?;
    assert!(
        again["used"].as_u64() >= row["used"].as_u64(),
        "{row} {again}"
    );
    becomes_slow(&mut long)?;
    becomes_slow(&mut connect(&border, CLIENT)?)?;
    assert!(!is_slow(fetch(&mut other, MIB)?));
    // A policy that gives more lets it go on as before: what was used is known for its rule.
    let more = policy("slow").replace("4 MiB", "4 GiB");
    let more = border.file("more.toml", &more);
    let outcome = border.ask(&["apply", more.to_str().unwrap_or_default()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for _ in 0..20 {
        if !is_slow(fetch(&mut long, MIB)?) {
            let rows = quotas(&border)?;
            let row = rows.iter().find(|row| row["of"] == CLIENT);
            assert!(row.is_some_and(|row| row["used"].as_u64() >= again["used"].as_u64()));
            return Ok(());
        }
    }
    Err("it stays slow".into())
}

/// A connection is reset: it carries nothing more, and its end is told.
fn is_reset(stream: &mut TcpStream) -> Tested {
    // Reads time out, and the connection stands, where packets are only dropped.
    for _ in 0..100 {
        match fetch(stream, 1_000) {
            Ok(_) => thread::sleep(Duration::from_millis(100)),
            Err(error) => {
                let kind = error
                    .downcast_ref::<std::io::Error>()
                    .map(std::io::Error::kind);
                let reset = [
                    std::io::ErrorKind::ConnectionReset,
                    std::io::ErrorKind::BrokenPipe,
                ];
                assert!(kind.is_some_and(|kind| reset.contains(&kind)), "{error}");
                return Ok(());
            }
        }
    }
    Err("it goes on".into())
}

fn hard(path: GatePath) -> Tested {
    let test = format!("a hard quota on the path {}", path.word());
    let Some(mut border) = border(&test, path)? else {
        return Ok(());
    };
    border.up(&policy("block"), &["--enforce"]);
    let mut long = connect(&border, CLIENT)?;
    let mut other = connect(&border, OTHER)?;
    fetch(&mut other, MIB)?;
    fetch(&mut long, 5 * MIB)?;
    let row = used_up(&border, CLIENT)?;
    assert_eq!(row["now"], "block");
    is_reset(&mut long)?;
    assert!(connect(&border, CLIENT).is_err());
    fetch(&mut other, MIB)?;
    let flows = border.ask(&["flows"]).objects()?;
    let blocked = flows.iter().find(|flow| flow["over_quota"] == true);
    let blocked = blocked.ok_or_else(|| format!("{flows:#?}"))?;
    assert_eq!(
        (&blocked["action"], &blocked["rule"]),
        (&"block".into(), &"downloads".into())
    );
    let number = blocked["flow_id"].to_string();
    let why = border.ask(&["why", &number]).objects()?;
    assert_eq!(why[0]["over_quota"], true, "{why:#?}");
    border.daemon().kill()?;
    border.up(&policy("block"), &["--enforce"]);
    used_up(&border, CLIENT)?;
    assert!(connect(&border, CLIENT).is_err());
    fetch(&mut other, MIB)?;
    Ok(())
}

/// Connections that end at the gateway have no marks.
#[test]
fn terminated_connections_are_moved() -> Tested {
    for over in ["slow", "block"] {
        let test = "quotas of terminated connections";
        let Some(mut border) = border(test, GatePath::User)? else {
            return Ok(());
        };
        let policy = format!("[gateway]\nterminate = [{PORT}]\n{}", policy(over));
        border.up(&policy, &["--enforce"]);
        let mut long = connect(&border, CLIENT)?;
        let mut other = connect(&border, OTHER)?;
        fetch(&mut long, 5 * MIB)?;
        used_up(&border, CLIENT)?;
        match over {
            "slow" => becomes_slow(&mut long)?,
            _ => is_reset(&mut long)?,
        }
        assert!(!is_slow(fetch(&mut other, MIB)?));
    }
    Ok(())
}

#[test]
fn user_path_slows_whom_a_quota_ends() -> Tested {
    soft(GatePath::User)
}

#[test]
fn kernel_path_slows_whom_a_quota_ends() -> Tested {
    soft(GatePath::Kernel)
}

#[test]
fn user_path_blocks_whom_a_quota_ends() -> Tested {
    hard(GatePath::User)
}

#[test]
fn kernel_path_blocks_whom_a_quota_ends() -> Tested {
    hard(GatePath::Kernel)
}
