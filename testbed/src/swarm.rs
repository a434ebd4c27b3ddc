//! BitTorrent programs of other authors, and a tracker that sends everybody to one peer.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;

use crate::nameserver::installed;
use crate::{Host, Running, TestbedError};

/// How long a program waits before it asks the tracker again, in seconds.
const INTERVAL: u32 = 5;

/// A file to be shared, its metainfo, and a folder for each program that shares it.
#[derive(Debug)]
pub struct Torrent {
    folder: PathBuf,
    metainfo: PathBuf,
}

/// How a program treats encryption and transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// TCP; in the clear if the program can be told so.
    Plain,
    /// TCP, encrypted; nothing else is accepted.
    Encrypted,
    /// uTP before TCP.
    Utp,
    /// As the program comes.
    Usual,
}

impl Torrent {
    /// Makes one of these bytes in a folder, which those trackers serve.
    ///
    /// # Errors
    /// When a file cannot be written or `transmission-create` (package transmission-cli) fails.
    pub fn make(folder: &Path, bytes: &[u8], trackers: &[String]) -> Result<Torrent, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("making a torrent", error);
        let seed = folder.join("seed");
        fs::create_dir_all(&seed).map_err(wrong)?;
        fs::write(seed.join("film.bin"), bytes).map_err(wrong)?;
        let metainfo = folder.join("film.torrent");
        let mut command = std::process::Command::new("transmission-create");
        command.arg("-o").arg(&metainfo);
        for tracker in trackers {
            command.args(["-t", tracker]);
        }
        command.arg(seed.join("film.bin"));
        let outcome = crate::program::finish(command, "")?;
        if outcome.code != Some(0) {
            return Err(TestbedError(outcome.stderr));
        }
        Ok(Torrent {
            folder: folder.to_owned(),
            metainfo,
        })
    }

    /// Where a program that is called so puts the file.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("film.bin")
    }

    /// Transmission; `name` is `seed` for one that has the file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn transmission(
        &self,
        host: &Host,
        name: &str,
        port: u16,
        wire: Wire,
    ) -> Result<Running, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting transmission", error);
        let own = self.folder.join(format!("{name}.transmission"));
        fs::create_dir_all(own.join("watch")).map_err(wrong)?;
        fs::create_dir_all(self.folder.join(name)).map_err(wrong)?;
        fs::copy(&self.metainfo, own.join("watch/film.torrent")).map_err(wrong)?;
        let mut command = host.command("transmission-daemon");
        // No peers are looked for but those that the tracker names.
        command.args([
            "--foreground",
            "--no-dht",
            "--no-lpd",
            "--no-portmap",
            "--no-auth",
        ]);
        command.arg("-g").arg(&own);
        command.arg("-c").arg(own.join("watch"));
        command.arg("-w").arg(self.folder.join(name));
        command.arg("-P").arg(port.to_string());
        command.args(match wire {
            Wire::Plain => ["--encryption-tolerated", "--no-utp"].as_slice(),
            Wire::Encrypted => &["--encryption-required", "--no-utp"],
            Wire::Utp => &["--encryption-tolerated", "--utp"],
            Wire::Usual => &["--encryption-preferred", "--utp"],
        });
        Running::start(command, &self.folder.join(format!("{name}.log")))
    }

    /// aria2; `name` is `seed` for one that has the file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn aria2(
        &self,
        host: &Host,
        name: &str,
        port: u16,
        wire: Wire,
    ) -> Result<Running, TestbedError> {
        let mut command = host.command("aria2c");
        command.args([
            "--enable-dht=false",
            "--bt-enable-lpd=false",
            "--enable-peer-exchange=false",
            "--summary-interval=0",
            "--file-allocation=none",
            "--seed-ratio=0.0",
            "--check-integrity=true",
            "--no-conf=true",
            // As it comes it waits for a minute for a tracker that does not answer.
            "--bt-tracker-connect-timeout=3",
        ]);
        if wire == Wire::Encrypted {
            command.args(["--bt-require-crypto=true", "--bt-min-crypto-level=arc4"]);
        }
        command.arg(format!("--listen-port={port}"));
        command.arg("-d").arg(self.folder.join(name));
        command.arg(&self.metainfo);
        Running::start(command, &self.folder.join(format!("{name}.log")))
    }
}

/// Whether these programs are installed; the first that is not.
///
/// # Errors
/// With the missing program's name.
pub fn need(programs: &[&'static str]) -> Result<(), &'static str> {
    match programs.iter().find(|name| installed(name).is_none()) {
        Some(missing) => Err(missing),
        None => Ok(()),
    }
}

/// A tracker on a host that answers every client with this peer, as long as the test runs.
///
/// # Errors
/// When it cannot listen.
pub fn serve_tracker(
    host: &Host,
    listen: SocketAddrV4,
    peer: SocketAddrV4,
) -> Result<String, TestbedError> {
    let bound = host.enter(|| TcpListener::bind(listen))?;
    let listener = bound.map_err(|error| TestbedError::of("a tracker", error))?;
    let answer = answer(*peer.ip(), peer.port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let answer = answer.clone();
            thread::spawn(move || {
                // Who asks and goes gets no answer.
                if stream.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {
                    stream.write_all(&answer).ok();
                }
            });
        }
    });
    Ok(format!("http://{listen}/announce"))
}

/// BEP 3, and BEP 23 for the peers.
fn answer(address: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut body = format!(
        "d8:completei1e10:incompletei1e8:intervali{INTERVAL}e12:min intervali{INTERVAL}e5:peers6:"
    )
    .into_bytes();
    body.extend(address.octets());
    body.extend(port.to_be_bytes());
    body.push(b'e');
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.into_bytes(), body].concat()
}
