//! eDonkey: aMule's daemon, and a server that knows one source of everything.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::program::finish;
use crate::{Host, Running, TestbedError};

/// Who shares the file, for all others; eMule's own have these two bytes at these places.
const USER: [u8; 16] = [1, 2, 3, 4, 5, 14, 7, 8, 9, 10, 11, 12, 13, 14, 111, 16];
/// Bytes of the longest message that the server reads.
const MESSAGE: usize = 64 * 1024;

/// Somebody who has a file, as the server tells of him.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Where he takes connections.
    pub place: SocketAddrV4,
    /// Whether his connections are obfuscated.
    pub obfuscated: bool,
}

/// How long somebody who shares may take to say so; not everybody does.
const SHARING: Duration = Duration::from_secs(8);

/// Whether somebody has offered a file.
type Offered = Arc<(Mutex<bool>, Condvar)>;

/// A server on a host that lets everybody in and names one source for every file, as long as the
/// test runs. Who asks before anybody has offered a file waits some seconds: he would look for
/// another source, and come back after many minutes.
///
/// # Errors
/// When it cannot listen.
pub fn serve_edonkey(
    host: &Host,
    listen: SocketAddrV4,
    source: Source,
) -> Result<(), TestbedError> {
    let bound = host.enter(|| TcpListener::bind(listen))?;
    let listener = bound.map_err(|error| TestbedError::of("an eDonkey server", error))?;
    let offered = Offered::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let offered = Arc::clone(&offered);
            // Somebody who goes is told no more.
            thread::spawn(move || attend(stream, source, &offered).ok());
        }
    });
    Ok(())
}

fn attend(mut stream: TcpStream, source: Source, offered: &Offered) -> io::Result<()> {
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut message = vec![0; usize::try_from(length).unwrap_or(MESSAGE).min(MESSAGE)];
        stream.read_exact(&mut message)?;
        match message.split_first() {
            // A login: the caller's id is its address.
            Some((0x01, _)) => {
                let id = match stream.peer_addr()?.ip() {
                    std::net::IpAddr::V4(address) => address,
                    std::net::IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
                };
                say(&mut stream, 0x40, &[id.octets(), [0; 4]].concat())?;
            }
            // Files are offered: how many comes first.
            Some((0x15, rest)) if rest.get(..4).is_some_and(|count| count != [0; 4]) => {
                *offered.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                offered.1.notify_all();
            }
            // Who has this file?
            Some((0x19 | 0x23, rest)) if rest.len() >= 16 => {
                let known = offered.0.lock().unwrap_or_else(PoisonError::into_inner);
                drop(
                    offered
                        .1
                        .wait_timeout_while(known, SHARING, |known| !*known),
                );
                let (place, port) = (source.place.ip().octets(), source.place.port());
                let mut found = [&rest[..16], &[1], &place, &port.to_le_bytes()].concat();
                if source.obfuscated {
                    // He supports it and asks for it; his hash follows.
                    found.push(0x83);
                    found.extend(USER);
                }
                say(
                    &mut stream,
                    if source.obfuscated { 0x44 } else { 0x42 },
                    &found,
                )?;
            }
            _ => {}
        }
    }
}

fn say(stream: &mut TcpStream, code: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len() + 1).unwrap_or(0).to_le_bytes();
    stream.write_all(&[&[0xe3], length.as_slice(), &[code], content].concat())
}

/// The link of a file, by which aMule fetches it.
///
/// # Errors
/// When `alcc` (package amule-utils) fails.
pub fn edonkey_link(file: &Path) -> Result<String, TestbedError> {
    let mut command = Command::new("alcc");
    command.arg(file);
    let outcome = finish(command, "")?;
    let link = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("ed2k:"));
    link.map(str::to_owned).ok_or(TestbedError(outcome.stderr))
}

/// A running aMule.
#[derive(Debug)]
pub struct Amule {
    running: Running,
    folder: PathBuf,
}

impl Amule {
    /// Starts it: it goes to that server, shares what is in its folder, and fetches what the link
    /// names.
    ///
    /// # Errors
    /// When a file cannot be written or it cannot be started.
    pub fn start(
        host: &Host,
        folder: &Path,
        port: u16,
        (server, obfuscated, link): (SocketAddrV4, bool, Option<&str>),
    ) -> Result<Amule, TestbedError> {
        let write = || -> io::Result<()> {
            for below in ["Incoming", "Temp"] {
                fs::create_dir_all(folder.join(below))?;
            }
            fs::write(
                folder.join("amule.conf"),
                configuration(folder, port, obfuscated),
            )?;
            let place = server.ip().octets();
            let number = server.port().to_le_bytes();
            let met = [&[0x0e, 1, 0, 0, 0], place.as_slice(), &number, &[0; 4]].concat();
            fs::write(folder.join("server.met"), met)?;
            match link {
                Some(link) => fs::write(folder.join("ED2KLinks"), format!("{link}\n")),
                // A client that shares is known by its hash.
                None => fs::write(
                    folder.join("preferences.dat"),
                    [&[20], USER.as_slice()].concat(),
                ),
            }
        };
        write().map_err(|error| TestbedError::of("starting amuled", error))?;
        let mut command = host.command("amuled");
        command.arg("-c").arg(folder).env("HOME", folder);
        Ok(Amule {
            running: Running::start(command, &folder.join("out.log"))?,
            folder: folder.to_owned(),
        })
    }

    /// A file that it has fetched whole.
    #[must_use]
    pub fn fetched(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join("Incoming").join(name)).ok()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.log_text()
    }
}

fn configuration(folder: &Path, port: u16, obfuscated: bool) -> String {
    let (here, datagrams) = (folder.display(), port.saturating_add(10));
    let obfuscated = u8::from(obfuscated);
    format!(
        "[eMule]\nNick=test\nPort={port}\nUDPPort={datagrams}\nAutoconnect=1\nReconnect=1\nConnectToKad=0\nConnectToED2K=1\n\
         TempDir={here}/Temp\nIncomingDir={here}/Incoming\nFilterLanIPs=0\nParanoidFiltering=0\nIPFilterAutoLoad=0\n\
         MaxUpload=0\nMaxDownload=0\nSlotAllocation=100\nUploadCapacity=100000\nDownloadCapacity=100000\nNewVersionCheck=0\n\
         [ExternalConnect]\nAcceptExternalConnections=1\nECAddress=127.0.0.1\nECPassword=5f4dcc3b5aa765d61d8327deb882cf99\n\
         IpFilterClients=0\n[Obfuscation]\nIsClientCryptLayerSupported={obfuscated}\nIsCryptLayerRequested={obfuscated}\n\
         IsClientCryptLayerRequired=0\n"
    )
}
