//! One packet in another host's name: on both paths, over TCP and UDP, from inside and from
//! outside, it is dropped by itself, and the host goes on being served.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use ringway_gateway::Packets;

use super::beside::{Tested, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER};
use super::both::on_each;
use super::evasions::Sender;

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const DHT: &[u8] = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
/// Below 1024, as services have it, and above.
const PORTS: [u16; 2] = [443, 6_881];
/// Of what is forged from inside, and from outside: no host can send both.
const OWN_PORTS: [u16; 2] = [20_000, 20_001];

fn handshake() -> Vec<u8> {
    [b"\x13BitTorrent protocol".as_slice(), &[7; 48]].concat()
}

/// Answers whatever comes by the same bytes, over TCP and UDP.
fn serve(border: &Border, at: SocketAddr) -> Tested {
    let listener = border.server.enter(|| TcpListener::bind(at))??;
    thread::spawn(move || -> io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept()?;
            let mut said = [0; 32];
            let length = stream.read(&mut said)?;
            stream.write_all(&said[..length])?;
        }
    });
    let socket = border.server.enter(|| UdpSocket::bind(at))??;
    thread::spawn(move || -> io::Result<()> {
        loop {
            let mut said = [0; 2_000];
            let (length, from) = socket.recv_from(&mut said)?;
            socket.send_to(&said[..length], from)?;
        }
    });
    Ok(())
}

/// A datagram and a segment without a handshake.
fn forged(from: SocketAddr, to: SocketAddr) -> Packets {
    let mut packets = Packets::new();
    packets.udp(from, to, DHT);
    packets.tcp(from, to).client(&handshake());
    packets
}

/// The client is served at this port, over TCP and UDP.
fn is_served(border: &Border, server: SocketAddr) -> Tested {
    let mut stream = border.client.enter(|| TcpStream::connect(server))??;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"a word")?;
    let mut said = [0; 6];
    stream.read_exact(&mut said)?;
    let socket = border.client.enter(|| UdpSocket::bind((CLIENT, 0)))??;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.send_to(b"a word", server)?;
    socket.recv_from(&mut [0; 32])?;
    Ok(())
}

#[test]
fn packet_in_anothers_name_blocks_only_itself() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("forged packets", path) else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce"]);
        let [own, other] = OWN_PORTS.map(|port| format!("{CLIENT}:{port}").parse());
        let (own, other): (SocketAddr, SocketAddr) = (own?, other?);
        let inside = Sender::of(&border.client)?;
        let outside = Sender::of(&border.server)?;
        for port in PORTS {
            let server: SocketAddr = format!("{SERVER}:{port}").parse()?;
            serve(&border, server)?;
            is_served(&border, server)?;
            for (_, packet) in forged(own, server).iter() {
                inside.send(packet)?;
            }
            for (_, packet) in forged(server, other).iter() {
                outside.send(packet)?;
            }
        }
        border.audit_when(|events| events.len() >= 4 * PORTS.len());
        for port in PORTS {
            is_served(&border, format!("{SERVER}:{port}").parse()?)?;
        }
        // Time enough for a refusal to be written down.
        thread::sleep(Duration::from_millis(500));
        for event in border.audit() {
            let alert = &event["ringway"];
            if alert["answered"] != false || alert["confidence"] != "guess" {
                return wrong(format!("somebody is blamed: {event}"));
            }
        }
        let state = border.path("state");
        let table = border.program().run(["gate", "audit", "--state", &state])?;
        match table.stdout.matches("the client may be forged").count() {
            0 => wrong(table.stdout),
            _ => Ok(()),
        }
    })
}
