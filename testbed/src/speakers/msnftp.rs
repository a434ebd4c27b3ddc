//! MSNFTP: lines, then blocks of at most 2 045 bytes behind heads of three.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::{Shared, Speaker, line, strange, up_to};

/// Bytes of a file in one block, as Microsoft's own program cut it.
const BLOCK: usize = 2_045;
/// Receiver's account, and the cookie that came with the invitation.
const USER: &str = "alice@example.com 34567";

/// Speaks it.
#[derive(Clone, Copy, Debug)]
pub struct Msnftp;

impl Speaker for Msnftp {
    /// The name goes unsaid: it stood in the invitation.
    fn fetch(self, mut stream: TcpStream, _: &str) -> io::Result<Vec<u8>> {
        stream.write_all(b"VER MSNFTP\r\n")?;
        if line(&mut stream)? != "VER MSNFTP" {
            return Err(strange("no MSNFTP"));
        }
        stream.write_all(format!("USR {USER}\r\n").as_bytes())?;
        let size = line(&mut stream)?;
        let size = size
            .strip_prefix("FIL ")
            .and_then(|size| size.parse::<usize>().ok());
        let size = size.ok_or_else(|| strange("no size"))?;
        stream.write_all(b"TFR\r\n")?;
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let mut head = [0; 3];
            if stream.read_exact(&mut head).is_err() || head[0] != 0 {
                break;
            }
            let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
            let block = up_to(&mut stream, length);
            let whole = block.len() == length;
            bytes.extend(block);
            if !whole {
                break;
            }
        }
        // The side that has sent all may be gone.
        stream.write_all(b"BYE 16777989\r\n").ok();
        Ok(bytes)
    }

    fn answer(self, mut stream: TcpStream, file: &Shared) -> io::Result<()> {
        if line(&mut stream)? != "VER MSNFTP" {
            return Err(strange("no MSNFTP"));
        }
        stream.write_all(b"VER MSNFTP\r\n")?;
        if !line(&mut stream)?.starts_with("USR ") {
            return Err(strange("no account"));
        }
        stream.write_all(format!("FIL {}\r\n", file.bytes.len()).as_bytes())?;
        if line(&mut stream)? != "TFR" {
            return Err(strange("not wanted"));
        }
        for block in file.bytes.chunks(BLOCK) {
            let [low, high] = u16::try_from(block.len()).unwrap_or(0).to_le_bytes();
            stream.write_all(&[0, low, high])?;
            stream.write_all(block)?;
        }
        line(&mut stream).map(drop)
    }
}
