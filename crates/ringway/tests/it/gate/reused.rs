//! The same two ends and ports, again: what was decided of one connection is not decided of the
//! next.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

use super::beside::{Tested, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER};
use super::both::on_each;

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const PORT: u16 = 6_881;
const OWN_PORT: u16 = 45_000;
/// More than it takes until nothing more is asked about a page.
const PAGE: usize = 1_000_000;

/// Answers a request with a page and closes first, so that the client may call again at once;
/// answers anything else by the same bytes.
fn serve(listener: &TcpListener) -> io::Result<()> {
    let (mut page, _) = listener.accept()?;
    if page.read(&mut [0; 200])? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    write!(page, "HTTP/1.1 200 OK\r\nContent-Length: {PAGE}\r\n\r\n")?;
    page.write_all(&vec![b'x'; PAGE])?;
    drop(page);
    let (mut torrent, _) = listener.accept()?;
    let mut said = [0; 68];
    torrent.read_exact(&mut said)?;
    torrent.write_all(&said)
}

/// Calls the server from a port of the test's choice.
fn call(border: &Border, server: SocketAddr) -> Tested<TcpStream> {
    let own: SocketAddr = format!("{CLIENT}:{OWN_PORT}").parse()?;
    let called = border.client.enter(|| -> io::Result<TcpStream> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &own)?;
        connect(&socket, &server)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(stream)
    });
    Ok(called??)
}

#[test]
fn torrent_from_the_port_of_page_is_blocked() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a port that is used again", path) else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce"]);
        let server: SocketAddr = format!("{SERVER}:{PORT}").parse()?;
        let listener = border.server.enter(|| TcpListener::bind(server))??;
        thread::spawn(move || serve(&listener));
        let mut page = call(&border, server)?;
        page.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")?;
        let mut got = Vec::new();
        page.read_to_end(&mut got)?;
        if got.len() <= PAGE {
            return wrong(format!("only {} bytes of the page", got.len()));
        }
        drop(page);
        // The number of a new call from the same port is a higher one after a moment.
        thread::sleep(Duration::from_millis(1_500));
        let mut torrent = call(&border, server)?;
        torrent.write_all(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat())?;
        let answer = torrent.read(&mut [0; 68]);
        if answer.is_ok_and(|bytes| bytes > 0) {
            return wrong(format!("the torrent was answered: {}", border.status()));
        }
        let blocked = |event: &Value| {
            event["ringway"]["rule"] == "no-torrents" && event["src_port"] == OWN_PORT
        };
        border.audit_when(|events| events.iter().any(blocked));
        Ok(())
    })
}
