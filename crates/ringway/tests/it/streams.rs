//! Services of members, as their users reach them.

mod programs;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use ringway_testbed::{Member, Ring, RingBuilder, TestbedError, free_port, wait_until};
use serde_json::Value;

use super::{program, random_bytes};

/// Long enough for a busy machine; what is waited for takes seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// A server that gives back what it gets, and ends when its client does.
fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                // A client that breaks off is no failure of the test.
                std::io::copy(&mut &stream, &mut back).ok();
                back.shutdown(Shutdown::Write).ok();
            });
        }
    });
    address
}

fn udp_echo_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut datagram = [0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            socket.send_to(&datagram[..length], from).unwrap();
        }
    });
    address
}

/// A ring of which oslo offers `services`, and lima and quito are the others.
fn ring_with(services: &str) -> Ring {
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_router("lima")
        .absent_leaf("quito");
    let mut ring = builder.start().unwrap();
    let all = "[\"udp\", \"tcp\", \"quic\"]";
    ring.member("oslo")
        .unwrap()
        .configure(all, services)
        .unwrap();
    for name in ["oslo", "lima", "quito"] {
        ring.member_mut(name).unwrap().start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    ring
}

fn service(name: &str, to: &str, from: &str) -> String {
    format!("[[service]]\nname = \"{name}\"\nto = \"{to}\"\nfrom = [\"{from}\"]\n")
}

/// A command of a member that goes on, such as `forward`.
fn start(member: &Member, arguments: &[&str]) -> Child {
    let mut command = program().command(["--home"]);
    command.arg(&member.home).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Ends it when the test does.
struct Kept(Child);

impl Kept {
    fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        (self.0.stdin.take().unwrap(), self.0.stdout.take().unwrap())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// `ringway forward` from a free port.
fn forward(member: &Member, more: &[&str]) -> (Kept, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let port = address.port().to_string();
    let arguments: Vec<&str> = more
        .iter()
        .map(|word| {
            if *word == "PORT" {
                port.as_str()
            } else {
                *word
            }
        })
        .collect();
    let arguments = [&["forward"], arguments.as_slice()].concat();
    let kept = Kept(start(member, &arguments));
    if !more.contains(&"--udp") {
        let up = wait_until(DEADLINE, || {
            TcpStream::connect(address).map_err(|error| TestbedError(error.to_string()))
        });
        up.unwrap();
    }
    (kept, address)
}

/// Sends and receives at once, with a half-close behind.
fn echoed(mut stream: TcpStream, content: &[u8]) -> Vec<u8> {
    let mut sending = stream.try_clone().unwrap();
    let content = content.to_vec();
    let sender = thread::spawn(move || {
        sending.write_all(&content).unwrap();
        sending.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    back
}

fn streams_of(ring: &Ring, name: &str) -> Vec<Value> {
    ring.member(name).unwrap().call(&["streams"]).unwrap()
}

#[test]
fn only_those_named_reach_a_service() {
    let echo = echo_server();
    let ring = ring_with(&service("echo", &echo.to_string(), "li*"));
    let own = ring.member("oslo").unwrap().call(&["services"]).unwrap();
    assert_eq!(own[0]["name"], "echo");
    assert_eq!(own[0]["from"][0], "li*");
    let lima = ring.member("lima").unwrap();
    let offered = lima.call(&["services", "oslo"]).unwrap();
    assert_eq!(offered[0]["port"], echo.port());
    assert_eq!(
        offered[0]["to"],
        Value::Null,
        "where it is concerns no peer"
    );
    let quito = ring.member("quito").unwrap();
    assert_eq!(
        quito.call(&["services", "oslo"]).unwrap(),
        Vec::<Value>::new()
    );
    let refused = |member: &Member, to: &str| {
        let outcome = member.run(&["connect", to]).unwrap();
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        outcome.stderr
    };
    // Whether there is one makes no difference to who may not use it.
    let (there, absent) = (refused(quito, "oslo/echo"), refused(quito, "oslo/nothing"));
    assert_eq!(there, absent);
    assert!(there.contains("`oslo` offers no such service"), "{there}");
    assert!(refused(lima, "oslo/nothing").contains("offers no such"));
    let log = ring.member("oslo").unwrap().log_text();
    assert!(
        log.contains("a stream was refused") && log.contains("quito"),
        "{log}"
    );
    let wrong = lima.run(&["connect", "oslo"]).unwrap();
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn connect_gives_back_all_of_an_echo() {
    let ring = ring_with(&service("echo", &echo_server().to_string(), "*"));
    let content = random_bytes("streams", 5_000_000);
    let mut connect = Kept(start(
        ring.member("lima").unwrap(),
        &["connect", "oslo/echo"],
    ));
    let (mut stdin, mut stdout) = connect.pipes();
    let sent = content.clone();
    let sender = thread::spawn(move || stdin.write_all(&sent).unwrap());
    let mut back = Vec::new();
    stdout.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    assert!(back == content, "{} of {} bytes", back.len(), content.len());
}

#[test]
fn bytes_pass_by_every_kind_of_socket() {
    let (echo, datagrams) = (echo_server(), udp_echo_server());
    let services = [
        service("echo", &echo.to_string(), "*"),
        service("dns", &format!("udp://{datagrams}"), "*"),
    ];
    let ring = ring_with(&services.concat());
    let lima = ring.member("lima").unwrap();
    let content = random_bytes("streams", 5_000_000);

    let (_forward, address) = forward(lima, &["PORT", "oslo/echo"]);
    for _ in 0..3 {
        let back = echoed(TcpStream::connect(address).unwrap(), &content);
        assert!(back == content, "{} of {} bytes", back.len(), content.len());
    }

    let path = ring.folder().join("echo.sock");
    let listen = format!("unix:{}", path.display());
    let _forward = Kept(start(lima, &["forward", &listen, "oslo/echo"]));
    let stream = wait_until(DEADLINE, || {
        let connected = std::os::unix::net::UnixStream::connect(&path);
        connected.map_err(|error| TestbedError(error.to_string()))
    });
    let mut stream = stream.unwrap();
    stream.write_all(b"by a file").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"by a file");

    let (_forward, address) = forward(lima, &["--udp", "PORT", "oslo/dns"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let answered = wait_until(DEADLINE, || {
        let sent = socket.send_to(&[7; 1200], address);
        let mut datagram = [0; 2000];
        let received = sent.and_then(|_| socket.recv_from(&mut datagram));
        received.map_err(|error| TestbedError(error.to_string()))
    });
    assert_eq!(answered.unwrap(), (1200, address));
    let refused = lima.run(&["forward", "1", "oslo/dns"]).unwrap();
    assert_eq!(refused.code, Some(2), "{refused:?}");

    let log = wait_until(DEADLINE, || {
        let log = ring.member("oslo").unwrap().log_text();
        let ended = log.contains("a stream ended") && log.contains("finished");
        ended.then_some(()).ok_or(TestbedError(log))
    });
    log.unwrap();
}

/// Also one whose sockets the daemon has taken over.
#[test]
fn killed_forward_ends_its_streams() {
    let echo = echo_server();
    let ring = ring_with(&service("echo", &echo.to_string(), "*"));
    let lima = ring.member("lima").unwrap();
    let (forward, address) = forward(lima, &["PORT", "oslo/echo"]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"before").unwrap();
    let mut back = [0; 6];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"before");
    drop(forward);
    // Broken, not ended: the program must not take what came for the whole.
    let end = stream.read(&mut back).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    for name in ["lima", "oslo"] {
        let ended = wait_until(DEADLINE, || {
            let open = streams_of(&ring, name);
            let none = open.is_empty().then_some(());
            none.ok_or_else(|| TestbedError(format!("{name}: {open:?}")))
        });
        ended.unwrap();
    }
}

#[test]
fn class_names_the_priority_of_a_stream() {
    let echo = echo_server();
    let ring = ring_with(&service("echo", &echo.to_string(), "*"));
    let lima = ring.member("lima").unwrap();
    let mut connect = Kept(start(
        lima,
        &["connect", "oslo/echo", "--priority", "backup"],
    ));
    let (mut stdin, mut stdout) = connect.pipes();
    stdin.write_all(b"low").unwrap();
    let mut back = [0; 3];
    stdout.read_exact(&mut back).unwrap();
    for name in ["lima", "oslo"] {
        let stream = streams_of(&ring, name).remove(0);
        assert_eq!(stream["priority"], 0.0, "{name}: {stream}");
    }
    let refused = lima.run(&["connect", "oslo/echo", "--priority", "bulk"]);
    let refused = refused.unwrap();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("there is no class `bulk`"),
        "{refused:?}"
    );
}

#[test]
fn priority_of_a_stream_changes_while_it_runs() {
    let echo = echo_server();
    let ring = ring_with(&service("echo", &echo.to_string(), "*"));
    let lima = ring.member("lima").unwrap();
    let mut connect = Kept(start(lima, &["connect", "oslo/echo"]));
    let (mut stdin, mut stdout) = connect.pipes();
    let mut turn = |text: &[u8]| {
        stdin.write_all(text).unwrap();
        let mut back = vec![0; text.len()];
        stdout.read_exact(&mut back).unwrap();
        assert_eq!(back, text);
    };
    turn(b"first");
    let id = streams_of(&ring, "lima")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let changed = lima.call(&["priority", &id, "4"]).unwrap();
    assert_eq!(changed[0]["priority"], 4.0);
    turn(b"second");
    let moved = wait_until(DEADLINE, || {
        let stream = streams_of(&ring, "lima").remove(0);
        let moved = stream["resumed"].as_u64() > Some(0) && stream["sent"] == 11;
        moved.then_some(()).ok_or(TestbedError(stream.to_string()))
    });
    moved.unwrap();
    turn(b"third");
    let far = streams_of(&ring, "oslo").remove(0);
    assert_eq!(
        (far["id"].as_str(), &far["peer"]),
        (Some(id.as_str()), &"lima".into())
    );
}

#[test]
fn withdrawn_service_ends_its_streams() {
    let echo = echo_server();
    let mut ring = ring_with(&service("echo", &echo.to_string(), "*"));
    let lima = ring.member("lima").unwrap();
    let mut connect = Kept(start(lima, &["connect", "oslo/echo"]));
    let (mut stdin, mut stdout) = connect.pipes();
    stdin.write_all(b"x").unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let oslo = ring.member_mut("oslo").unwrap();
    let path = oslo.home.join("ringway.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("from = [\"*\"]", "from = [\"quito\"]")).unwrap();
    oslo.reload().unwrap();
    assert_eq!(stdout.read(&mut [0]).unwrap(), 0, "it goes on");
    let quito = ring.member("quito").unwrap();
    let offered = wait_until(DEADLINE, || {
        let offered = quito.call(&["services", "oslo"])?;
        offered
            .into_iter()
            .next()
            .ok_or(TestbedError("none".to_owned()))
    });
    assert_eq!(offered.unwrap()["name"], "echo");
}
