//! Sockets in the names of others (`IP_TRANSPARENT`, ip(7)).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// A silent connection is probed after a while: the other end may be gone.
const KEEP_ALIVE: Duration = Duration::from_secs(300);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// Two sockets and two pipes for each connection, and what the rest of the program takes.
const FILES: u64 = 32_768;

/// Asks the system for as many files as all connections take; returns how many there are, which
/// may be fewer.
pub(super) fn raise_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(FILES).min(FILES);
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        setrlimit(Resource::Nofile, limit).ok();
    }
    getrlimit(Resource::Nofile).current.unwrap_or(FILES)
}

/// Listens for connections that are meant for others.
pub(super) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    // Of IPv6 as well: the flag is one for both (Linux, `ipv6_setsockopt`).
    socket.set_ip_transparent_v4(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // It may be the port of a door that was shut a moment ago.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// What both sockets have in common. Until the connection ends in order its end is a reset, also
/// where this process is killed: a file that was cut short must not look whole.
pub(super) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    SockRef::from(socket).set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))
}

/// Connects to a server with a client's address and, where the system gives it, its port.
pub(super) fn connect(client: SocketAddr, server: SocketAddr) -> io::Result<Socket> {
    let mut nameless = client;
    nameless.set_port(0);
    let mut refused = None;
    for from in [client, nameless] {
        let domain = Domain::for_address(server);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        prepare(&socket)?;
        // Of IPv6 as well: the flag is one for both (Linux, `ipv6_setsockopt`).
        socket.set_ip_transparent_v4(true)?;
        socket.set_reuse_address(true)?;
        let opened =
            socket
                .bind(&from.into())
                .and_then(|()| match socket.connect(&server.into()) {
                    Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => Ok(()),
                    other => other,
                });
        match opened {
            Ok(()) => return Ok(socket),
            // The port is an earlier connection's, or only root may have it.
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

/// `EINPROGRESS`: the connection is being opened.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
