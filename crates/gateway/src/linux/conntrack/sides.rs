//! On which side of the border an address is: the kernel's routes tell.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::super::border::Border;
use super::super::netlink::{Attributes, Messages, Outgoing, REQUEST};
use crate::accounting::Side;
use crate::limits::{MAX_SIDES, SIDE_KEPT};
use crate::reader::Reader;

/// RTM_NEWROUTE and RTM_GETROUTE of `linux/rtnetlink.h`.
const ROUTE: u16 = 24;
const ASK: u16 = 26;
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
/// Bytes of `struct rtmsg`, and where it says the kind of the route.
const HEADER: usize = 12;
const KIND: usize = 7;
/// RTN_LOCAL and RTN_BROADCAST.
const LOCAL: u8 = 2;
const BROADCAST: u8 = 3;

/// Asks the kernel's routes on which side an address is, and remembers it for a while.
#[derive(Debug)]
pub struct BorderSides {
    border: Border,
    socket: Socket,
    known: HashMap<IpAddr, (Side, Instant)>,
    buffer: Vec<u8>,
}

impl BorderSides {
    /// The sides of this border.
    ///
    /// # Errors
    /// The system gives no socket.
    pub fn new(border: Border) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        Ok(Self {
            border,
            socket,
            known: HashMap::new(),
            buffer: vec![0; 4_096],
        })
    }

    /// The side of an address.
    pub fn side(&mut self, address: IpAddr) -> Side {
        let now = Instant::now();
        if let Some((side, until)) = self.known.get(&address)
            && *until > now
        {
            return *side;
        }
        let side = self.ask(address).unwrap_or(Side::Unknown);
        if self.known.len() >= MAX_SIDES {
            self.known.clear();
        }
        let until = now.checked_add(SIDE_KEPT).unwrap_or(now);
        self.known.insert(address, (side, until));
        side
    }

    fn ask(&mut self, address: IpAddr) -> io::Result<Side> {
        let mut out = Outgoing::default();
        let (family, bits) = match address {
            IpAddr::V4(_) => (2, 32),
            IpAddr::V6(_) => (10, 128),
        };
        out.begin(ASK, REQUEST, &[family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        match address {
            IpAddr::V4(address) => out.attribute(DESTINATION, &address.octets()),
            IpAddr::V6(address) => out.attribute(DESTINATION, &address.octets()),
        }
        out.end();
        self.socket.send(out.bytes(), 0)?;
        let mut room = self.buffer.as_mut_slice();
        let read = self.socket.recv(&mut room, 0)?;
        let bytes = self.buffer.get(..read).unwrap_or_default();
        // No route at all is the world's: where a default route is missing for a moment.
        let route = Messages::new(bytes).find(|message| message.kind == ROUTE);
        Ok(route.map_or(Side::Unknown, |route| self.of(route.body)))
    }

    fn of(&self, body: &[u8]) -> Side {
        if matches!(body.get(KIND), Some(&LOCAL | &BROADCAST)) {
            return Side::Local;
        }
        if self.border.bridged {
            return Side::Unknown;
        }
        let mut attributes = Attributes::new(body.get(HEADER..).unwrap_or_default());
        let interface = attributes.find_map(|(kind, value)| {
            let number = || Reader::new(value).array().map(u32::from_ne_bytes);
            (kind == INTERFACE).then(number).flatten()
        });
        let is_one = |names: &[String]| {
            let numbers = names
                .iter()
                .filter_map(|name| super::super::border::number(name));
            interface.is_some_and(|interface| numbers.into_iter().any(|one| one == interface))
        };
        if is_one(&self.border.inside) {
            Side::Inside
        } else if is_one(&self.border.outside) {
            Side::Outside
        } else {
            // Another interface of this machine: what goes there crosses no border.
            Side::Local
        }
    }
}
