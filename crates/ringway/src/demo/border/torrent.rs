//! A BitTorrent peer that has a torrent, and one that wants it: the peer wire protocol of BEP 3,
//! over real sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::DEMO_SOCKET;

/// The port that clients take first.
pub(super) const PORT: u16 = 6_881;
/// Bytes that are asked for at once, as all clients do.
const BLOCK: usize = 16_384;
/// Bytes of a piece.
const PIECE: usize = 262_144;
/// Bytes of the longest message that is read: a block and what stands before it.
const LONGEST: usize = BLOCK + 16;
/// The torrent's infohash; there is no such torrent.
const INFOHASH: [u8; 20] = *b"a torrent of a demo.";

/// Numbers of messages.
const UNCHOKE: u8 = 1;
const INTERESTED: u8 = 2;
const BITFIELD: u8 = 5;
const REQUEST: u8 = 6;
const BLOCK_OF_PIECE: u8 = 7;

/// Gives the torrent to each that comes, until the listener fails.
pub(super) fn serve(listener: &TcpListener, content: &Arc<[u8]>) {
    for stream in listener.incoming() {
        let (Ok(stream), content) = (stream, Arc::clone(content)) else {
            return;
        };
        // A connection that is cut off ends its thread.
        std::thread::spawn(move || give(stream, &content).ok());
    }
}

fn give(mut stream: TcpStream, content: &[u8]) -> io::Result<()> {
    stream.set_read_timeout(Some(DEMO_SOCKET))?;
    take_handshake(&mut stream)?;
    stream.write_all(&handshake(b"-RW0001-the-one-who-"))?;
    let pieces = content.len().div_ceil(PIECE);
    // A bit for each piece, the first one in front, all of them set.
    let mut bits = vec![0; pieces.div_ceil(8)];
    for piece in 0..pieces {
        if let Some(byte) = bits.get_mut(piece / 8) {
            *byte |= 0x80 >> (piece % 8);
        }
    }
    send(&mut stream, BITFIELD, &bits)?;
    loop {
        let (number, body) = receive(&mut stream)?;
        match number {
            INTERESTED => send(&mut stream, UNCHOKE, &[])?,
            REQUEST => {
                let (piece, begin) = (word(&body, 0)?, word(&body, 4)?);
                let at = piece.saturating_mul(PIECE).saturating_add(begin);
                let end = at.saturating_add(word(&body, 8)?.min(BLOCK));
                let block = content.get(at..end).ok_or(io::ErrorKind::InvalidData)?;
                let place = body.get(..8).unwrap_or_default();
                send(&mut stream, BLOCK_OF_PIECE, &[place, block].concat())?;
            }
            _ => {}
        }
    }
}

/// Fetches the torrent of this size from a peer that answers within `patience`; gives what arrived
/// of it.
pub(super) fn fetch(peer: SocketAddr, size: usize, patience: Duration) -> Vec<u8> {
    let mut content = Vec::new();
    // What the connection ended by shows in what is missing.
    let connected = TcpStream::connect_timeout(&peer, patience);
    connected
        .and_then(|stream| take(stream, size, &mut content))
        .ok();
    content
}

fn take(mut stream: TcpStream, size: usize, content: &mut Vec<u8>) -> io::Result<()> {
    stream.set_read_timeout(Some(DEMO_SOCKET))?;
    stream.write_all(&handshake(b"-RW0001-who-wants-it"))?;
    take_handshake(&mut stream)?;
    send(&mut stream, INTERESTED, &[])?;
    while receive(&mut stream)?.0 != UNCHOKE {}
    while content.len() < size {
        let at = content.len();
        let length = BLOCK.min(size - at);
        let mut request = Vec::new();
        for field in [at / PIECE, at % PIECE, length] {
            let field = u32::try_from(field).map_err(io::Error::other)?;
            request.extend(field.to_be_bytes());
        }
        send(&mut stream, REQUEST, &request)?;
        let (number, body) = receive(&mut stream)?;
        if number == BLOCK_OF_PIECE {
            content.extend(body.get(8..).unwrap_or_default());
        }
    }
    Ok(())
}

fn handshake(peer: &[u8; 20]) -> Vec<u8> {
    [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &INFOHASH,
        peer,
    ]
    .concat()
}

fn take_handshake(stream: &mut TcpStream) -> io::Result<()> {
    let mut taken = [0; 68];
    stream.read_exact(&mut taken)?;
    match taken.get(..20) == Some(b"\x13BitTorrent protocol") {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn send(stream: &mut TcpStream, number: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 1).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), [number].as_slice(), body].concat())
}

/// The next message: its number and its body. One without a number keeps a connection alive.
fn receive(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut message = vec![0; length];
        stream.read_exact(&mut message)?;
        if let Some((number, body)) = message.split_first() {
            return Ok((*number, body.to_vec()));
        }
    }
}

/// The number at this place.
fn word(body: &[u8], at: usize) -> io::Result<usize> {
    let bytes = body.get(at..).and_then(<[u8]>::first_chunk);
    let word = bytes.map(|bytes| u32::from_be_bytes(*bytes));
    let word = word.ok_or(io::ErrorKind::InvalidData)?;
    usize::try_from(word).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_exchange_a_torrent_of_odd_size() {
        let content: Arc<[u8]> = (0..=u8::MAX).cycle().take(2 * PIECE + BLOCK + 7).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let given = Arc::clone(&content);
        std::thread::spawn(move || serve(&listener, &given));
        assert!(fetch(address, content.len(), DEMO_SOCKET) == *content);
    }
}
