//! A cable between two hosts, and how good it is.

use std::sync::Arc;
use std::time::Duration;

use super::host::Host;
use super::ip;
use super::wire::{Control, Wire};
use crate::TestbedError;

/// Bytes of an IP packet on Ethernet.
const ETHERNET_MTU: u32 = 1_500;

/// Bytes that wait for a slow line unless the test says otherwise: half a second at 4 Mbit/s.
const QUEUE: usize = 256 * 1024;

/// How good a cable is, the same in both directions.
///
/// A plain one is a veth pair, which costs nothing. One with a delay, loss or a rate is carried by
/// a thread of the test: good for some hundred Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub(super) mtu: u32,
    pub(super) delay: Duration,
    pub(super) loss: f64,
    pub(super) late: f64,
    pub(super) lateness: Duration,
    pub(super) scatter: Duration,
    pub(super) rate: Option<u64>,
    pub(super) queue: usize,
}

impl Line {
    /// Ethernet without faults.
    #[must_use]
    pub fn plain() -> Line {
        Line {
            mtu: ETHERNET_MTU,
            delay: Duration::ZERO,
            loss: 0.0,
            late: 0.0,
            lateness: Duration::ZERO,
            scatter: Duration::ZERO,
            rate: None,
            queue: QUEUE,
        }
    }

    /// Each packet takes so many milliseconds one way.
    #[must_use]
    pub fn delay_ms(mut self, delay: u64) -> Line {
        self.delay = Duration::from_millis(delay);
        self
    }

    /// Packets are lost with this probability, from 0 to 1, the same ones in every run.
    #[must_use]
    pub fn loss(mut self, probability: f64) -> Line {
        self.loss = probability;
        self
    }

    /// With this probability, from 0 to 1, a packet takes so many milliseconds longer, and later
    /// ones overtake it.
    #[must_use]
    pub fn late(mut self, probability: f64, by_ms: u64) -> Line {
        self.late = probability;
        self.lateness = Duration::from_millis(by_ms);
        self
    }

    /// Each packet takes up to so many milliseconds longer, whatever those before it took, as on a
    /// bundle of links that are shared out by packet.
    #[must_use]
    pub fn scatter_ms(mut self, most: u64) -> Line {
        self.scatter = Duration::from_millis(most);
        self
    }

    /// So many bits pass in a second; what comes faster waits, and is dropped when `queue` bytes
    /// wait.
    #[must_use]
    pub fn rate(mut self, bits: u64, queue: usize) -> Line {
        self.rate = Some(bits.max(1));
        self.queue = queue;
        self
    }

    /// Both ends take packets of so many bytes. To hide it from a host, put it on the far side of a
    /// gateway.
    #[must_use]
    pub fn mtu(mut self, bytes: u32) -> Line {
        self.mtu = bytes;
        self
    }

    fn is_perfect(&self) -> bool {
        let keeps_order = self.late <= 0.0 && self.scatter.is_zero();
        self.delay.is_zero() && self.loss <= 0.0 && keeps_order && self.rate.is_none()
    }
}

/// A cable. It stays when this is dropped; the [`Network`](crate::Network) removes it.
#[derive(Debug)]
pub struct Link {
    ends: [(Host, String); 2],
    control: Option<Arc<Control>>,
}

impl Link {
    /// The interface at the end that was named first.
    #[must_use]
    pub fn first_interface(&self) -> &str {
        &self.ends[0].1
    }

    /// The interface at the end that was named second.
    #[must_use]
    pub fn second_interface(&self) -> &str {
        &self.ends[1].1
    }

    /// Cuts it. A plain cable is pulled at its second end: the first one sees that there is no
    /// carrier, keeps its addresses and routes. Any other swallows everything in silence.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn down(&self) -> Result<(), TestbedError> {
        self.set(false)
    }

    /// Mends it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn up(&self) -> Result<(), TestbedError> {
        self.set(true)
    }

    fn set(&self, up: bool) -> Result<(), TestbedError> {
        if let Some(control) = &self.control {
            control.set_up(up);
            return Ok(());
        }
        let (host, interface) = &self.ends[1];
        let state = if up { "up" } else { "down" };
        ip(&["-n", host.namespace(), "link", "set", interface, state]).map(drop)
    }

    /// Makes it better or worse while it is in use; the MTU stays.
    ///
    /// # Errors
    /// When it began as a plain cable.
    pub fn change(&self, line: &Line) -> Result<(), TestbedError> {
        let control = self.control.as_ref().ok_or_else(|| {
            TestbedError("a plain cable cannot change: begin with a delay".to_owned())
        })?;
        control.set_line(*line);
        Ok(())
    }
}

/// Lays a cable: a veth pair, or two TAP devices and a thread between them.
pub(super) fn lay(
    first: (&Host, Option<&str>),
    second: (&Host, Option<&str>),
    line: &Line,
) -> Result<(Link, Option<Wire>), TestbedError> {
    let names = [first.0.next_interface(), second.0.next_interface()];
    let wire = if line.is_perfect() {
        let mut words = vec!["link", "add", &names[0], "netns", first.0.namespace()];
        words.extend(["type", "veth", "peer", "name", &names[1]]);
        words.extend(["netns", second.0.namespace()]);
        ip(&words)?;
        None
    } else {
        let ends = [(first.0, names[0].as_str()), (second.0, &names[1])];
        Some(Wire::lay(ends, *line)?)
    };
    for ((host, address), name) in [first, second].into_iter().zip(&names) {
        host.set_up(name, address, line.mtu)?;
    }
    let [one, two] = names;
    let link = Link {
        ends: [(first.0.clone(), one), (second.0.clone(), two)],
        control: wire.as_ref().map(Wire::control),
    };
    Ok((link, wire))
}
