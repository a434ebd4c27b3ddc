//! The datagrams of a UDP service: one that is lost delays no other, and all go on where UDP is
//! cut.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::thread::spawn;
use std::time::Instant;

use super::*;

/// A quarter of the round trip.
const DELAY_MS: u64 = 75;

/// What each of the four cables of a round trip loses.
const LOSS: f64 = 0.05;

/// Datagrams that are sent, and the pause between two.
const COUNT: u32 = 150;
const PAUSE: Duration = Duration::from_millis(20);

/// Port of the service, and of the forward that leads to it.
const PORT: u16 = 7007;

/// Ends it when the test does.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start_echo(host: &Host) {
    let bound = host.enter(|| UdpSocket::bind(("127.0.0.1", PORT)));
    let socket = bound.unwrap().unwrap();
    spawn(move || {
        let mut datagram = [0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            socket.send_to(&datagram[..length], from).unwrap();
        }
    });
}

/// Sends it until it comes back.
fn echoed(socket: &UdpSocket, datagram: &[u8]) {
    let mut back = vec![0; 65_535];
    let wait = Duration::from_secs(1);
    socket.set_read_timeout(Some(wait)).unwrap();
    let answered = wait_until(DEADLINE, || {
        let sent = socket.send(datagram);
        let length = sent.and_then(|_| socket.recv(&mut back));
        let length = length.map_err(|error| TestbedError(error.to_string()))?;
        let same = back[..length] == *datagram;
        same.then_some(())
            .ok_or_else(|| TestbedError("another one comes back".to_owned()))
    });
    answered.unwrap();
}

/// How long each of those that come back took, the shortest first.
fn round_trips(socket: &UdpSocket) -> Vec<Duration> {
    let sending = socket.try_clone().unwrap();
    let sender = spawn(move || {
        let send = |number: u32| {
            let at = Instant::now();
            sending.send(&number.to_be_bytes()).unwrap();
            sleep(PAUSE);
            at
        };
        (0..COUNT).map(send).collect::<Vec<Instant>>()
    });
    let mut back = Vec::new();
    let mut number = [0; 4];
    let wait = Duration::from_secs(5);
    socket.set_read_timeout(Some(wait)).unwrap();
    while let Ok(length) = socket.recv(&mut number) {
        // What is still under way of those before has another length.
        if length == number.len() {
            back.push((u32::from_be_bytes(number), Instant::now()));
        }
    }
    let sent = sender.join().unwrap();
    let took = |(number, at): &(u32, Instant)| *at - sent[usize::try_from(*number).unwrap()];
    let mut times: Vec<Duration> = back.iter().map(took).collect();
    times.sort();
    times
}

#[test]
fn a_lost_datagram_delays_no_other() {
    let Some(network) = Network::or_skip("datagrams of services").unwrap() else {
        return;
    };
    let short = Line::plain().delay_ms(1);
    let lan = Lan::new(network, &["oslo", "lima"], &short);
    let builder = RingBuilder::new(program()).authority_on(lan.host("owner"));
    let builder = builder.absent_router("oslo").on(lan.host("oslo"));
    let builder = builder.absent_router("lima").on(lan.host("lima"));
    let mut ring = builder.start().unwrap();
    let service =
        format!("[[service]]\nname = \"voice\"\nto = \"udp://127.0.0.1:{PORT}\"\nfrom = [\"*\"]\n");
    for (name, more) in [("oslo", service.as_str()), ("lima", "")] {
        let member = ring.member_mut(name).unwrap();
        member
            .configure("[\"udp\", \"tcp\", \"quic\"]", more)
            .unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    start_echo(lan.host("oslo"));
    let mut command = lan.host("lima").command(env!("CARGO_BIN_EXE_ringway"));
    command
        .arg("--home")
        .arg(&ring.member("lima").unwrap().home);
    command.args(["forward", "--udp", &PORT.to_string(), "oslo/voice"]);
    let _forward = Kept(command.stdin(Stdio::null()).spawn().unwrap());
    let forward = SocketAddr::from(([127, 0, 0, 1], PORT));
    let client = lan.host("lima").enter(|| UdpSocket::bind("127.0.0.1:0"));
    let client = client.unwrap().unwrap();
    client.connect(forward).unwrap();
    echoed(&client, b"first");

    // Longer than a packet: it travels on the stream.
    echoed(&client, &random_bytes("long", 9_000));

    for name in ["oslo", "lima"] {
        let line = Line::plain().delay_ms(DELAY_MS).loss(LOSS);
        lan.link(name).change(&line).unwrap();
    }
    let times = round_trips(&client);
    println!("{} of {COUNT} came back: {times:?}", times.len());
    assert!(times.len() > 50, "{}", times.len());
    // On a stream nearly each would wait for one before it that is sent again, a round trip more.
    let median = times[times.len() / 2];
    assert!(
        median < times[0] + Duration::from_millis(2 * DELAY_MS),
        "{times:?}"
    );

    for name in ["oslo", "lima"] {
        lan.link(name).change(&short).unwrap();
    }
    let owner = lan.host("owner").address().unwrap();
    let dns = [Traffic::any().from(owner), Traffic::any().to(owner)].map(Rule::Pass);
    lan.switch
        .rules(&[&dns[..], &[Rule::Drop(Traffic::udp())]].concat())
        .unwrap();
    echoed(&client, b"by TCP");
    let streams = ring.member("lima").unwrap().call(&["streams"]).unwrap();
    assert_eq!(streams.len(), 1, "it is the same stream: {streams:?}");
    assert!(streams[0]["resumed"].as_u64() >= Some(1), "{streams:?}");
    let carried = u64::from(COUNT) * 4;
    assert!(streams[0]["sent"].as_u64() > Some(carried), "{streams:?}");
}
