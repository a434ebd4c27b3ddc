//! `ringway forward`: sockets of this machine that lead to services of members.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringway_node::limits::{FORWARD_DATAGRAM_IDLE, FORWARD_DATAGRAM_PEERS, SERVICE_DATAGRAMS};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::cli::ForwardArgs;
use crate::context::Context;
use crate::signals::Signals;
use crate::socks::{self, Socks};
use crate::streams::{Destination, Open, services_of};
use ringway_terminal::{Failure, visible};

/// Pause after the system has refused to accept, as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where to listen.
#[derive(Debug, PartialEq, Eq)]
enum Listen {
    Address(SocketAddr),
    Unix(PathBuf),
}

impl Listen {
    fn parse(text: &str) -> Result<Listen, Failure> {
        let local = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Listen::Unix(path.into()));
        }
        let port = text.parse().map(local);
        let address = port.or_else(|_| text.parse());
        address.map(Listen::Address).map_err(|_| {
            Failure::usage(format_args!(
                "`{text}` is no place to listen at: a port, an address with a port, or `unix:` and a path is, such as 2222"
            ))
        })
    }

    fn address(self) -> Result<SocketAddr, Failure> {
        match self {
            Listen::Address(address) => Ok(address),
            Listen::Unix(_) => Err(Failure::usage("a port is needed here, such as 1080")),
        }
    }
}

/// A Unix socket; its file goes with it.
struct SocketFile(PathBuf);

impl SocketFile {
    fn bind(path: &Path) -> std::io::Result<(UnixListener, SocketFile)> {
        // One that a killed forward has left.
        let is_socket = path
            .symlink_metadata()
            .is_ok_and(|it| it.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let file = SocketFile(path.to_owned());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok((listener, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another may have removed it.
        std::fs::remove_file(&self.0).ok();
    }
}

fn cannot(listen: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format_args!("cannot listen at {listen}: {error}"))
}

/// Forwards until a signal comes.
pub(crate) async fn run(context: &Context, args: ForwardArgs) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let forwarding = async {
        match (args.socks, args.listen, args.to) {
            (Some(listen), ..) => {
                let address = Listen::parse(&listen)?.address()?;
                let proxy = Socks::new(context, args.priority).await?;
                serve_socks(context, address, proxy).await
            }
            (None, Some(listen), Some(to)) => {
                let listen = Listen::parse(&listen)?;
                let destination = Destination::parse(context, &to, args.priority)?;
                check(context, &destination, args.udp).await?;
                match (listen, args.udp) {
                    (listen, true) => datagrams(context, listen.address()?, destination).await,
                    (Listen::Address(address), false) => tcp(context, address, destination).await,
                    (Listen::Unix(path), false) => unix(context, &path, destination).await,
                }
            }
            _ => Err(Failure::usage(
                "name where to listen, and a service, such as `2222 oslo/ssh`",
            )),
        }
    };
    tokio::select! {
        ended = forwarding => ended,
        _signal = signals.next() => Ok(()),
    }
}

/// Says at once what is wrong, where the peer can be asked.
async fn check(context: &Context, to: &Destination, udp: bool) -> Result<(), Failure> {
    let Destination { peer, service, .. } = to;
    let offered = match services_of(&to.socket, Some(peer.clone())).await {
        Ok(offered) => offered,
        Err(failure @ Failure::Usage(_)) => return Err(failure),
        Err(failure) => {
            context.output.note(&visible(failure.message()));
            return Ok(());
        }
    };
    let found = offered.iter().find(|offered| offered.name == *service);
    let found = found.ok_or_else(|| {
        Failure::failed(format_args!(
            "`{peer}` offers no service `{service}` to this member: `ringway services {peer}` lists what it offers"
        ))
    })?;
    match (found.protocol == "udp", udp) {
        (true, false) => Err(Failure::usage(format_args!(
            "`{service}` of `{peer}` is a UDP service: add --udp"
        ))),
        (false, true) => Err(Failure::usage(format_args!(
            "`{service}` of `{peer}` is no UDP service: leave --udp out"
        ))),
        _ => Ok(()),
    }
}

fn says(context: &Context, listen: &str, to: &Destination) {
    let text = format!(
        "{listen} leads to {}/{}; Ctrl-C ends it.",
        to.peer, to.service
    );
    context.output.note(&visible(&text));
}

async fn tcp(context: &Context, address: SocketAddr, to: Destination) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| cannot(&address.to_string(), &error))?;
    let bound = listener.local_addr().unwrap_or(address);
    says(context, &bound.to_string(), &to);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (context, to) = (context.clone(), to.clone());
        tokio::spawn(async move {
            let forwarded = forward(stream, &to).await;
            note(&context, forwarded);
        });
    }
}

fn note(context: &Context, outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        context.output.note(&visible(failure.message()));
    }
}

async fn forward(stream: TcpStream, to: &Destination) -> Result<(), Failure> {
    let socket = stream.into_std().map_err(Failure::failed)?;
    let copying = async |socket: OwnedFd, open: Open| {
        let stream = TcpStream::from_std(socket.into())?;
        stream.set_nodelay(true)?;
        let (from, into) = stream.into_split();
        open.join(from, into, false).await
    };
    to.carry(socket, copying).await
}

async fn unix(context: &Context, path: &Path, to: Destination) -> Result<(), Failure> {
    let shown = path.display().to_string();
    let bound = SocketFile::bind(path);
    let (listener, _file) = bound.map_err(|error| cannot(&shown, &error))?;
    says(context, &shown, &to);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (context, to) = (context.clone(), to.clone());
        tokio::spawn(async move {
            let forwarded = forward_unix(stream, &to).await;
            note(&context, forwarded);
        });
    }
}

async fn forward_unix(stream: UnixStream, to: &Destination) -> Result<(), Failure> {
    let socket = stream.into_std().map_err(Failure::failed)?;
    let copying = async |socket: OwnedFd, open: Open| {
        let (from, into) = UnixStream::from_std(socket.into())?.into_split();
        open.join(from, into, false).await
    };
    to.carry(socket, copying).await
}

async fn serve_socks(context: &Context, address: SocketAddr, proxy: Socks) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| cannot(&address.to_string(), &error))?;
    let bound = listener.local_addr().unwrap_or(address);
    context.output.note(&format!(
        "{bound} is a SOCKS5 proxy to the ring; Ctrl-C ends it."
    ));
    let proxy = Arc::new(proxy);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (context, proxy) = (context.clone(), Arc::clone(&proxy));
        tokio::spawn(async move {
            let forwarded = socks::serve(stream, &proxy).await;
            note(&context, forwarded);
        });
    }
}

/// One client of a UDP forward.
struct Client {
    datagrams: mpsc::Sender<Vec<u8>>,
    last: Instant,
}

async fn datagrams(context: &Context, address: SocketAddr, to: Destination) -> Result<(), Failure> {
    let socket = UdpSocket::bind(address).await;
    let socket = Arc::new(socket.map_err(|error| cannot(&address.to_string(), &error))?);
    let bound = socket.local_addr().unwrap_or(address);
    says(context, &format!("udp://{bound}"), &to);
    let mut clients: HashMap<SocketAddr, Client> = HashMap::new();
    let mut datagram = vec![0; usize::from(u16::MAX)];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut datagram).await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let bytes = datagram.get(..length).unwrap_or_default().to_vec();
        let now = Instant::now();
        clients.retain(|_, client| !client.datagrams.is_closed());
        if !clients.contains_key(&from) && clients.len() >= FORWARD_DATAGRAM_PEERS {
            let oldest = clients.iter().min_by_key(|(_, client)| client.last);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.and_then(|address| clients.remove(&address));
        }
        let client = clients.entry(from).or_insert_with(|| {
            let (datagrams, receiver) = mpsc::channel(SERVICE_DATAGRAMS);
            let (context, socket, to) = (context.clone(), Arc::clone(&socket), to.clone());
            tokio::spawn(async move {
                let served = datagrams_of(&socket, from, receiver, &to).await;
                note(&context, served);
            });
            Client {
                datagrams,
                last: now,
            }
        });
        client.last = now;
        // A datagram for which there is no room is lost.
        client.datagrams.try_send(bytes).ok();
    }
}

/// The datagrams of one client, until it is silent for long.
async fn datagrams_of(
    socket: &UdpSocket,
    client: SocketAddr,
    mut datagrams: mpsc::Receiver<Vec<u8>>,
    to: &Destination,
) -> Result<(), Failure> {
    let open = to.open().await?;
    let (reading, mut writing) = open.stream.into_split();
    let mut reading = std::io::Cursor::new(open.early).chain(reading);
    let there = async {
        while let Ok(Some(datagram)) = timeout(FORWARD_DATAGRAM_IDLE, datagrams.recv()).await {
            let Ok(length) = u16::try_from(datagram.len()) else {
                continue;
            };
            writing.write_u16(length).await?;
            writing.write_all(&datagram).await?;
        }
        std::io::Result::Ok(())
    };
    let back = async {
        loop {
            let length = reading.read_u16().await?;
            let mut datagram = vec![0; usize::from(length)];
            reading.read_exact(&mut datagram).await?;
            socket.send_to(&datagram, client).await.ok();
        }
    };
    // Either end: a client that comes again gets another stream.
    let _ended: std::io::Result<()> = tokio::select! {
        ended = there => ended,
        ended = back => ended,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_alone_are_local() {
        let local = |text: &str| Listen::parse(text).unwrap();
        assert_eq!(
            local("2222"),
            Listen::Address("127.0.0.1:2222".parse().unwrap())
        );
        assert_eq!(
            local("[::1]:80"),
            Listen::Address("[::1]:80".parse().unwrap())
        );
        assert_eq!(local("unix:/run/x"), Listen::Unix("/run/x".into()));
        for wrong in ["", "unix:", "oslo", "70000"] {
            assert!(Listen::parse(wrong).is_err(), "{wrong}");
        }
    }
}
