//! What the kernel need not ask about: [`Triage`] in the maps of the program `triage`.

use std::fmt;

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, MapData, MapError};
use ipnet::IpNet;

use super::layout::{CELLS, Form as _, Judged, Network, PORT_WORDS};
use super::{KernelError, error_text};
use crate::packet::L4;
use crate::triage::Triage;

/// Bytes of a network behind its prefix.
const NETWORK: usize = Network::BYTES - u32::BYTES;

/// The maps. There are two of each table: one is in use while the other is written.
pub struct Judge {
    in_use: Array<MapData, u32>,
    triages: Array<MapData, [u8; Judged::BYTES]>,
    cells: Array<MapData, u32>,
    ports: Array<MapData, u64>,
    networks: Networks,
}

type Networks = LpmTrie<MapData, [u8; NETWORK], u32>;

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").finish_non_exhaustive()
    }
}

impl Judge {
    pub(super) fn new(
        in_use: Array<MapData, u32>,
        triages: Array<MapData, [u8; Judged::BYTES]>,
        cells: Array<MapData, u32>,
        ports: Array<MapData, u64>,
        networks: Networks,
    ) -> Self {
        Self {
            in_use,
            triages,
            cells,
            ports,
            networks,
        }
    }

    /// Puts another triage in place of the one at work; `None`: everything is asked about. Packets
    /// that are being judged are judged by one of the two. `closed`: without a gateway
    /// everything is asked about, and so nothing goes on ([`Heartbeat`](super::Heartbeat)).
    ///
    /// # Errors
    /// The kernel refuses; then the earlier one stays.
    pub fn put(&mut self, triage: Option<&Triage>, closed: bool) -> Result<(), KernelError> {
        self.write(triage, closed)
            .map_err(|error| KernelError::Refused("a table of signatures", error_text(&error)))
    }

    fn write(&mut self, triage: Option<&Triage>, closed: bool) -> Result<(), MapError> {
        // Written into the table that is not in use. The last line switches, so no packet meets
        // half of it.
        let (slot, base) = match self.in_use.get(&0, 0)? & 1 {
            0 => (1, u32::try_from(CELLS).unwrap_or(u32::MAX)),
            _ => (0, 0),
        };
        let mut value = [0; Judged::BYTES];
        self.clear_networks(slot)?;
        if let Some(triage) = triage {
            for (at, word) in
                (slot.saturating_mul(2).saturating_mul(PORT_WORDS)..).zip(words(triage))
            {
                self.ports.set(at, word, 0)?;
            }
            for network in triage.asking_networks() {
                self.networks.insert(&key(slot, network), 1, 0)?;
            }
            for (at, next) in (base..).zip(triage.table()) {
                let flags = triage.flags().get(usize::from(*next));
                let flags = flags.copied().unwrap_or(crate::triage::ASK);
                self.cells
                    .set(at, u32::from(*next) | (u32::from(flags) << 16), 0)?;
            }
            value = judged(triage, closed).bytes();
        }
        self.triages.set(slot, value, 0)?;
        self.in_use.set(0, slot, 0)
    }

    /// Takes out the networks of the triage before the one at work.
    fn clear_networks(&mut self, slot: u32) -> Result<(), MapError> {
        let keys: Vec<Key<[u8; NETWORK]>> = self.networks.keys().collect::<Result<_, _>>()?;
        let own = |key: &&Key<[u8; NETWORK]>| {
            let first = key.data().first().copied();
            first.map(u32::from) == Some(slot)
        };
        for key in keys.iter().filter(own) {
            self.networks.remove(key)?;
        }
        Ok(())
    }
}

/// A bit for each port, of TCP and then of UDP.
fn words(triage: &Triage) -> impl Iterator<Item = u64> + '_ {
    [L4::Tcp, L4::Udp].into_iter().flat_map(move |l4| {
        let spans = triage.asking_ports(l4);
        (0..PORT_WORDS).map(move |word| {
            let first = word.saturating_mul(u64::BITS);
            let ports = (0..u64::BITS).filter(|bit| {
                let port = u16::try_from(first.saturating_add(*bit)).unwrap_or(u16::MAX);
                spans.iter().any(|span| span.contains(&port))
            });
            ports.fold(0, |bits, bit| bits | (1_u64 << bit))
        })
    })
}

/// A network in a slot.
fn key(slot: u32, network: &IpNet) -> Key<[u8; NETWORK]> {
    let (address, bits) = match network {
        IpNet::V4(network) => {
            let address = network.network().to_ipv6_mapped();
            (address, network.prefix_len().saturating_add(96))
        }
        IpNet::V6(network) => (network.network(), network.prefix_len()),
    };
    let network = Network {
        // The slot stands before the address, and has to match as a whole.
        prefix: u32::from(bits).saturating_add(8),
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        address: address.octets(),
        zero: [0; 3],
    };
    let whole: [u8; Network::BYTES] = network.bytes();
    let mut data = [0; NETWORK];
    for (byte, new) in data.iter_mut().zip(whole.iter().skip(u32::BYTES)) {
        *byte = *new;
    }
    Key::new(network.prefix, data)
}

/// What the program reads beside the table.
fn judged(triage: &Triage, closed: bool) -> Judged {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Judged {
        enabled: 1,
        class_count: number(triage.class_count()),
        starts: triage.starts(),
        packets: triage.packets(),
        needs_unknown: triage.needs_unknown().into(),
        ports: [L4::Tcp, L4::Udp].map(|l4| number(triage.asking_ports(l4).len())),
        classes: *triage.classes(),
        closed: closed.into(),
        networks: number(triage.asking_networks().len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{PORT_WORDS, words};
    use crate::classify::SignatureSet;
    use crate::policy::Policy;
    use crate::triage::Triage;

    #[test]
    fn each_port_of_each_transport_has_a_bit() {
        let policy = Policy::parse("", &std::collections::BTreeSet::new()).unwrap();
        let triage = Triage::new(&SignatureSet::built_in(), &policy).unwrap();
        assert_eq!(
            words(&triage).count(),
            usize::try_from(PORT_WORDS).unwrap() * 2
        );
    }
}
