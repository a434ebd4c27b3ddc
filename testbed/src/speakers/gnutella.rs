//! Gnutella 0.6: <https://rfc-gnutella.sourceforge.net/src/rfc-0_6-draft.html>.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::borrowed::{body, head};
use super::{Pusher, Shared, Speaker, line, strange, up_to};

/// What the file is called in searches; a real one is the SHA-1 of its bytes.
const URN: &str = "urn:sha1:PLSTHIPQGSSZTS5FJUPAKUZWUGYQYPFB";
/// Of the peer that shares the file, as it stands in `GIV`.
const SERVENT: &str = "0123456789abcdef0123456789abcdef";
/// Bytes of a descriptor's head.
const DESCRIPTOR: usize = 23;

/// Speaks it.
#[derive(Clone, Copy, Debug)]
pub struct Gnutella;

impl Gnutella {
    /// Opens a connection between nodes as its caller and asks who is there; whether somebody
    /// answered.
    ///
    /// # Errors
    /// When the other side goes, is reset, or speaks something else.
    pub fn join(self, mut stream: TcpStream) -> io::Result<bool> {
        stream.write_all(
            b"GNUTELLA CONNECT/0.6\r\nUser-Agent: gtk-gnutella/1.1.15\r\nX-Ultrapeer: False\r\n\
              X-Query-Routing: 0.1\r\nAccept-Encoding: deflate\r\n\r\n",
        )?;
        let answer = head(&mut stream)?;
        if !answer[0].starts_with("GNUTELLA/0.6 200") {
            return Err(strange(&answer[0]));
        }
        stream.write_all(b"GNUTELLA/0.6 200 OK\r\n\r\n")?;
        stream.write_all(&descriptor(0x00, &[]))?;
        let pong = up_to(&mut stream, DESCRIPTOR + 14);
        Ok(pong.get(16) == Some(&0x01))
    }

    /// Answers such a caller.
    fn answer_node(mut stream: TcpStream) -> io::Result<()> {
        head(&mut stream)?;
        stream.write_all(
            b"GNUTELLA/0.6 200 OK\r\nUser-Agent: LimeWire/4.18.8\r\nX-Ultrapeer: True\r\n\r\n",
        )?;
        head(&mut stream)?;
        up_to(&mut stream, DESCRIPTOR);
        // Port 6346, an address, one file of one kilobyte.
        let pong = [0xca, 0x18, 198, 51, 100, 9, 1, 0, 0, 0, 1, 0, 0, 0];
        stream.write_all(&descriptor(0x01, &pong))
    }

    fn request(name: &str) -> String {
        format!(
            "GET /get/7/{} HTTP/1.1\r\nUser-Agent: gtk-gnutella/1.1.15\r\nHost: 198.51.100.9:6346\r\n\
             X-Gnutella-Content-URN: {URN}\r\n\r\n",
            name.replace(' ', "%20")
        )
    }

    fn give(stream: &mut TcpStream, request: &[String], file: &Shared) -> io::Result<()> {
        if !request[0].starts_with("GET /get/") && !request[0].starts_with("GET /uri-res/N2R?") {
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nServer: LimeWire/4.18.8\r\nContent-Type: application/binary\r\nContent-Length: {}\r\n\
             X-Gnutella-Content-URN: {URN}\r\n\r\n",
            file.bytes.len()
        );
        stream.write_all(answer.as_bytes())?;
        stream.write_all(&file.bytes)
    }
}

/// A message between nodes: its kind and what it carries.
fn descriptor(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x4aringway\xff-test-\x00".to_vec();
    bytes.extend([kind, 1, 0]);
    bytes.extend(u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
    bytes.extend(payload);
    bytes
}

impl Speaker for Gnutella {
    fn fetch(self, mut stream: TcpStream, name: &str) -> io::Result<Vec<u8>> {
        body(&mut stream, &Gnutella::request(name))
    }

    fn answer(self, mut stream: TcpStream, file: &Shared) -> io::Result<()> {
        let mut begin = [0; 8];
        stream.peek(&mut begin)?;
        if begin == *b"GNUTELLA" {
            return Gnutella::answer_node(stream);
        }
        let request = head(&mut stream)?;
        Gnutella::give(&mut stream, &request, file)
    }
}

impl Pusher for Gnutella {
    fn push(self, mut stream: TcpStream, file: &Shared) -> io::Result<()> {
        let announced = format!("GIV 7:{SERVENT}/{}\n\n", file.name);
        stream.write_all(announced.as_bytes())?;
        let request = head(&mut stream)?;
        Gnutella::give(&mut stream, &request, file)
    }

    fn take(self, mut stream: TcpStream, name: &str) -> io::Result<Vec<u8>> {
        if !line(&mut stream)?.starts_with("GIV ") || !line(&mut stream)?.is_empty() {
            return Err(strange("no GIV"));
        }
        body(&mut stream, &Gnutella::request(name))
    }
}
