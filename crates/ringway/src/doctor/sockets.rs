//! Which process has which port, from `/proc` (proc(5)).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Udp,
    Tcp,
}

impl Protocol {
    /// As programs write it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        }
    }

    /// Its tables, and the state in which a socket takes what comes (`TCP_CLOSE` of UDP,
    /// `TCP_LISTEN`).
    fn tables(self) -> ([&'static str; 2], &'static str) {
        match self {
            Protocol::Udp => (["/proc/net/udp", "/proc/net/udp6"], "07"),
            Protocol::Tcp => (["/proc/net/tcp", "/proc/net/tcp6"], "0A"),
        }
    }
}

/// A socket that takes what comes to its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) at: SocketAddr,
    /// The user who has made it.
    pub(super) user: u32,
    inode: u64,
}

impl Socket {
    /// Whether it is in the way of one at `wanted`: the same port at the same address, or at all of
    /// them.
    pub(super) fn takes(&self, wanted: SocketAddr) -> bool {
        let (own, other) = (self.at.ip(), wanted.ip());
        let any = own.is_unspecified() || other.is_unspecified();
        // Of IPv6 it may take IPv4, too, if it is for all addresses.
        let both = own.is_ipv4() == other.is_ipv4() || own == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        self.at.port() == wanted.port() && (own == other || (any && both))
    }

    /// Number and name of the process that has it, as far as this user may look.
    pub(super) fn process(&self) -> Option<(u32, String)> {
        let link = format!("socket:[{}]", self.inode);
        let folders = fs::read_dir("/proc").ok()?.flatten();
        let mut processes = folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let pid: u32 = processes.find(|pid: &u32| has_open(*pid, &link))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some((pid, name.trim().to_owned()))
    }
}

fn has_open(pid: u32, link: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut targets = descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| target.as_os_str() == link)
}

/// All that take what comes, of this network namespace.
pub(super) fn listening(protocol: Protocol) -> Vec<Socket> {
    let (tables, state) = protocol.tables();
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.lines().skip(1));
    lines.filter_map(|line| parse(line, state)).collect()
}

/// One line: number, local and remote address, state, queues, timers, retransmissions, user,
/// time-out, inode.
fn parse(line: &str, wanted: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let state = fields.get(3)?;
    if *state != wanted {
        return None;
    }
    Some(Socket {
        at: address(fields.get(1)?)?,
        user: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// Such as `0100007F:1CE8`: words of 32 bits in the machine's order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes = <[u8; 16]>::try_from(words.concat()).ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn own_sockets_are_found_with_their_process() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("[::]:0").unwrap();
        let own = rustix::process::geteuid().as_raw();
        for (protocol, at) in [
            (Protocol::Udp, udp.local_addr().unwrap()),
            (Protocol::Tcp, tcp.local_addr().unwrap()),
        ] {
            let all = listening(protocol);
            let found = all.iter().find(|socket| socket.at == at).unwrap();
            assert_eq!(found.user, own);
            assert_eq!(found.process().unwrap().0, std::process::id());
        }
    }

    #[test]
    fn sockets_take_their_address_or_all() {
        let socket = |at: &str| Socket {
            at: at.parse().unwrap(),
            user: 0,
            inode: 0,
        };
        let wanted = "192.0.2.7:7400".parse().unwrap();
        for (at, takes) in [
            ("192.0.2.7:7400", true),
            ("0.0.0.0:7400", true),
            ("[::]:7400", true),
            ("192.0.2.8:7400", false),
            ("192.0.2.7:7401", false),
            ("[::1]:7400", false),
        ] {
            assert_eq!(socket(at).takes(wanted), takes, "{at}");
        }
    }
}
