//! FastTrack's transfers, as Kazaa made them: <https://cvs.berlios.de/cgi-bin/viewcvs.cgi/gift-fasttrack/giFT-FastTrack/PROTOCOL>.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::borrowed::{body, head};
use super::{Pusher, Shared, Speaker, line, strange};

/// The file's name among peers; a real one follows from its bytes.
const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
/// Says which request a call answers.
const PUSH: &str = "1234567890";

/// Speaks it.
#[derive(Clone, Copy, Debug)]
pub struct FastTrack;

impl FastTrack {
    fn request() -> String {
        format!(
            "GET /.hash={HASH} HTTP/1.1\r\nHost: 198.51.100.9:1214\r\nUserAgent: KazaaClient Nov  3 2002 20:29:03\r\n\
             X-Kazaa-Username: alice\r\nX-Kazaa-Network: KaZaA\r\nX-Kazaa-IP: 10.66.0.2:1214\r\n\
             X-Kazaa-SupernodeIP: 192.0.2.9:1214\r\nConnection: close\r\n\r\n"
        )
    }

    fn give(stream: &mut TcpStream, file: &Shared) -> io::Result<()> {
        let size = file.bytes.len();
        let answer = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-{}/{size}\r\nContent-Length: {size}\r\n\
             Accept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\nX-Kazaa-Username: bob\r\n\
             X-Kazaa-Network: KaZaA\r\nX-KazaaTag: 2={}\r\nX-KazaaTag: 3=={HASH}\r\n\r\n",
            size.saturating_sub(1),
            file.name,
        );
        stream.write_all(answer.as_bytes())?;
        stream.write_all(&file.bytes)
    }
}

impl Speaker for FastTrack {
    /// The name goes unsaid: the file is asked for by its hash, and named in the answer.
    fn fetch(self, mut stream: TcpStream, _: &str) -> io::Result<Vec<u8>> {
        body(&mut stream, &FastTrack::request())
    }

    fn answer(self, mut stream: TcpStream, file: &Shared) -> io::Result<()> {
        let request = head(&mut stream)?;
        if request[0].starts_with("GET /.hash=") {
            FastTrack::give(&mut stream, file)
        } else {
            stream.write_all(b"HTTP/1.0 404 Not Found\r\nX-Kazaa-Username: bob\r\n\r\n")
        }
    }
}

impl Pusher for FastTrack {
    fn push(self, mut stream: TcpStream, file: &Shared) -> io::Result<()> {
        stream.write_all(format!("GIVE {PUSH}\r\n\r\n").as_bytes())?;
        head(&mut stream)?;
        FastTrack::give(&mut stream, file)
    }

    fn take(self, mut stream: TcpStream, _: &str) -> io::Result<Vec<u8>> {
        if line(&mut stream)? != format!("GIVE {PUSH}") || !line(&mut stream)?.is_empty() {
            return Err(strange("no GIVE"));
        }
        body(&mut stream, &FastTrack::request())
    }
}
