//! A web server with three files, and a client (HTTP/1.1, RFC 9112).

use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limits::DEMO_SOCKET;

/// The web server's port.
pub(super) const PORT: u16 = 80;
/// Bytes of a file that no download of the demo reaches the end of.
const ENDLESS: u64 = 1 << 40;
/// Bytes of a request or of an answer's head.
const HEAD: u64 = 4_096;
/// EICAR's test file, backwards, so that no scanner takes this program for it.
const BACKWARDS: &[u8] = br"*H+H$!ELIF-TSET-SURIVITNA-DRADNATS-RACIE$}7)CC7)^P(45XZP\4[PA@%P!O5X";

/// A file of the server.
pub(super) const CLEAN: Page = Page {
    host: "files.example",
    path: "/holiday.jpg",
};
/// The one with EICAR's signature.
pub(super) const INFECTED: Page = Page {
    host: "files.example",
    path: "/invoice.com",
};
/// One that does not end.
pub(super) const UPDATE: Page = Page {
    host: "eu.mirror.example",
    path: "/update.iso",
};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    host: &'static str,
    path: &'static str,
}

/// EICAR's test file.
pub(super) fn infected() -> Vec<u8> {
    // Or a compiler might turn it round.
    black_box(BACKWARDS).iter().rev().copied().collect()
}

/// Gives its files to each that comes, until the listener fails.
pub(super) fn serve(listener: &TcpListener, clean: &Arc<[u8]>) {
    for stream in listener.incoming() {
        let (Ok(stream), clean) = (stream, Arc::clone(clean)) else {
            return;
        };
        // A connection that is cut off ends its thread.
        std::thread::spawn(move || answer(stream, &clean).ok());
    }
}

fn answer(mut stream: TcpStream, clean: &[u8]) -> io::Result<()> {
    stream.set_read_timeout(Some(DEMO_SOCKET))?;
    let mut request = BufReader::new(stream.try_clone()?).take(HEAD);
    let mut first = String::new();
    request.read_line(&mut first)?;
    skip_head(&mut request)?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    let head = |length: u64| {
        let kind = "Content-Type: application/octet-stream";
        format!(
            "HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    };
    let whole = match path {
        path if path == CLEAN.path => clean.to_vec(),
        path if path == INFECTED.path => infected(),
        _ => {
            stream.write_all(head(ENDLESS).as_bytes())?;
            // Its client ends it.
            return io::copy(&mut io::repeat(0x55).take(ENDLESS), &mut stream).map(drop);
        }
    };
    let length = u64::try_from(whole.len()).map_err(io::Error::other)?;
    stream.write_all(head(length).as_bytes())?;
    stream.write_all(&whole)
}

/// Fetches a page; gives what arrived of it.
pub(super) fn fetch(server: SocketAddr, page: Page) -> Vec<u8> {
    let mut body = Vec::new();
    // What the connection ended by shows in what is missing.
    ask(server, page)
        .and_then(|mut answer| answer.read_to_end(&mut body))
        .ok();
    body
}

/// Fetches a page until `enough`, and counts the bytes that have arrived so far.
pub(super) fn count(server: SocketAddr, page: Page, arrived: &AtomicU64, enough: &AtomicBool) {
    let Ok(mut answer) = ask(server, page) else {
        return;
    };
    let mut buffer = vec![0; 65_536];
    while !enough.load(Ordering::Relaxed) {
        match answer.read(&mut buffer) {
            Ok(read @ 1..) => {
                let read = u64::try_from(read).unwrap_or_default();
                arrived.fetch_add(read, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}

/// Asks for a page; the answer's body is still to be read.
fn ask(server: SocketAddr, page: Page) -> io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect_timeout(&server, DEMO_SOCKET)?;
    stream.set_read_timeout(Some(DEMO_SOCKET))?;
    let Page { host, path } = page;
    let agent = "User-Agent: ringway-demo";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{agent}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = BufReader::new(stream);
    skip_head(&mut (&mut answer).take(HEAD))?;
    Ok(answer)
}

/// Reads to the empty line.
fn skip_head(reader: &mut impl io::BufRead) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        match reader.read_line(&mut line)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if line == "\r\n" => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_whole_and_endless_ones_end() {
        let clean: Arc<[u8]> = vec![7; 300_000].into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let given = Arc::clone(&clean);
        std::thread::spawn(move || serve(&listener, &given));
        assert!(fetch(server, CLEAN) == *clean);
        let infected = fetch(server, INFECTED);
        assert!(
            infected.len() == 68
                && infected.starts_with(b"X5O!P%@AP")
                && infected.ends_with(b"!$H+H*")
        );
        let (arrived, enough) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| count(server, UPDATE, &arrived, &enough));
            while arrived.load(Ordering::Relaxed) < 1_000_000 {
                std::thread::yield_now();
            }
            enough.store(true, Ordering::Relaxed);
        });
    }
}
