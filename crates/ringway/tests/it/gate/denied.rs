//! A torrent that is put on a list of refused ones while its connections are under way.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::beside::{Tested, wrong};
use super::border::{Border, DEADLINE, SERVER};
use super::both::on_each;

const PORT: u16 = 6_881;
/// A rule with a list, and one that has other flows classified.
const POLICY: &str =
    "[[rule]]\nname = \"denied\"\ninfohash = \"file:denied.txt\"\naction = \"block\"\n";

fn handshake(hash: u8) -> Vec<u8> {
    let parts = [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &[hash; 20],
        &[9; 20],
    ];
    parts.concat()
}

/// A peer that answers a handshake by the same, and sends without an end.
fn serve(border: &Border) -> Tested {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, PORT)))??;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut asked = [0; 68];
                if stream.read_exact(&mut asked).is_err() {
                    return;
                }
                // Until the other side, or the gateway, has had enough.
                let mut more = asked.to_vec();
                while stream.write_all(&more).is_ok() {
                    more = vec![7; 1_000];
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    Ok(())
}

/// A connection of this torrent that has got something.
fn connect(border: &Border, hash: u8) -> Tested<TcpStream> {
    let mut stream = (border.client).enter(|| TcpStream::connect((SERVER, PORT)))??;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(&handshake(hash))?;
    stream.read_exact(&mut [0; 5_000])?;
    Ok(stream)
}

/// Nothing comes any more but an end, after what was under way.
fn ends(mut stream: TcpStream) -> bool {
    let mut buffer = [0; 10_000];
    // A minute of what the peer sends.
    for _ in 0..3_000 {
        match stream.read(&mut buffer) {
            Ok(1..) => {}
            // A pause of a minute is an end as well: the kernel may drop all.
            Ok(0) | Err(_) => return true,
        }
    }
    false
}

#[test]
fn listed_torrents_running_connections_end() -> Tested {
    on_each(|path| {
        let name = format!(
            "a torrent that is listed later, on the path {}",
            path.word()
        );
        let Some(mut border) = Border::on(&name, path) else {
            return Ok(());
        };
        serve(&border)?;
        border.file("denied.txt", "# nothing\n");
        border.up(POLICY, &["--enforce"]);
        border.status();
        let (denied, mut allowed) = (connect(&border, 7)?, connect(&border, 8)?);
        border.file("new.txt", &format!("{}\n", "07".repeat(20)));
        let folder = border.folder.path();
        std::fs::rename(folder.join("new.txt"), folder.join("denied.txt"))?;
        if !ends(denied) {
            return wrong(border.daemon().log_text());
        }
        // The other one of the same two hosts goes on, and a new one is refused.
        allowed.read_exact(&mut [0; 5_000])?;
        if connect(&border, 7).is_ok() {
            return wrong("a new connection goes on");
        }
        Ok(())
    })
}
