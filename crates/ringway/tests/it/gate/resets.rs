//! Blocked connections end at once at both ends: over IPv4, IPv6, and through the gateway's own
//! address translation.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

use super::beside::Tested;
use super::border::{Border, CLIENT, DEADLINE, SERVER};
use super::both::{GatePath, on_each};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const PORT: u16 = 6_881;

/// How a connection ended for one side that waited for bytes.
fn ended(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.read(&mut [0; 100]).map_err(|error| error.kind())
}

/// A handshake through the gateway: how it ended for the client and for the server, and whom the
/// server saw.
fn handshake(
    border: &Border,
    server: IpAddr,
) -> (Result<usize, ErrorKind>, Result<usize, ErrorKind>, IpAddr) {
    let address = SocketAddr::new(server, PORT);
    let listener = border
        .server
        .enter(|| TcpListener::bind(address))
        .unwrap()
        .unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        sender.send((ended(&mut stream), peer.ip())).ok();
    });
    let mut stream = border
        .client
        .enter(|| TcpStream::connect(address))
        .unwrap()
        .unwrap();
    stream
        .write_all(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat())
        .unwrap();
    let at_client = ended(&mut stream);
    let (at_server, peer) = receiver.recv_timeout(DEADLINE).unwrap();
    (at_client, at_server, peer)
}

const RESET: Result<usize, ErrorKind> = Err(ErrorKind::ConnectionReset);

#[test]
fn a_blocked_connection_is_reset_at_both_ends() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("resets", path) else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce"]);
        let (client, server, peer) = handshake(&border, SERVER.parse().unwrap());
        assert_eq!((client, server), (RESET, RESET));
        assert_eq!(peer, CLIENT.parse::<IpAddr>().unwrap());
        Ok(())
    })
}

#[test]
fn translated_connection_is_reset_at_both_ends() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("resets through NAT", path) else {
            return Ok(());
        };
        border.masquerade()?;
        border.up(BLOCK, &["--enforce"]);
        let (client, server, peer) = handshake(&border, SERVER.parse().unwrap());
        assert_eq!((client, server), (RESET, RESET));
        assert_eq!(
            peer,
            "198.51.100.1".parse::<IpAddr>().unwrap(),
            "the address was not translated"
        );
        Ok(())
    })
}

#[test]
fn ipv6_connection_is_reset_at_both_ends() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("resets over IPv6", path) else {
            return Ok(());
        };
        border.with_ipv6();
        border.up(BLOCK, &["--enforce"]);
        let (client, server, _) = handshake(&border, super::border::SERVER_V6.parse().unwrap());
        assert_eq!((client, server), (RESET, RESET));
        let events = border.audit_when(|events| !events.is_empty());
        assert_eq!(events[0]["dest_ip"], super::border::SERVER_V6);
        Ok(())
    })
}

/// The bridge has no address.
#[test]
fn bridged_connection_is_reset_at_both_ends() -> Tested {
    on_each(|path| {
        let test = format!("resets across a bridge, path {}", path.word());
        let Some(mut border) = Border::bridged(&test).and_then(|border| border.by(&test, path))
        else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce", "--bridged", "--path", path.word()]);
        let (client, server, peer) = handshake(&border, SERVER.parse().unwrap());
        let status = border.status();
        assert_eq!((client, server), (RESET, RESET), "{test}: {status}");
        assert_eq!(peer, CLIENT.parse::<IpAddr>().unwrap());
        // Where the kernel passes what it can, the gateway has not seen the server's address on its
        // link before.
        let passed = status["in_kernel"]["passed"].as_u64();
        let passed = passed.is_some_and(|passed| passed > 0);
        // With `auto` it depends on the kernel.
        let expected = path == GatePath::Kernel;
        assert!(passed == expected || path == GatePath::Auto, "{status}");
        Ok(())
    })
}
