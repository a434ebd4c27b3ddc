//! What the kernel need not ask about: [`Triage`] in the maps of the program `triage`.
//!
//! The form is that of `../bpf/border.bpf.c`: `struct triage`, `cells`, `in_use`.

use std::fmt;

use aya::maps::{Array, MapData, MapError};

use super::{KernelError, told};
use crate::limits::MAX_TRIAGE_PORTS;
use crate::packet::L4;
use crate::triage::Triage;

/// Bytes of `struct triage`.
const TRIAGE: usize = 348;
/// Cells of one table.
const CELLS: u32 = 262_144;

/// The maps. There are two of each table: one is in use while the other is written.
pub struct Judge {
    in_use: Array<MapData, u32>,
    triages: Array<MapData, [u8; TRIAGE]>,
    cells: Array<MapData, u32>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").finish_non_exhaustive()
    }
}

impl Judge {
    pub(super) fn new(
        in_use: Array<MapData, u32>,
        triages: Array<MapData, [u8; TRIAGE]>,
        cells: Array<MapData, u32>,
    ) -> Self {
        Self {
            in_use,
            triages,
            cells,
        }
    }

    /// Puts another triage in place of the one at work; `None`: everything is asked about. Packets that are being judged are
    /// judged by one of the two. `closed`: without a gateway everything is asked about, and so nothing goes on
    /// ([`Pulse`](super::Pulse)).
    ///
    /// # Errors
    /// The kernel refuses; then the earlier one stays.
    pub fn put(&mut self, triage: Option<&Triage>, closed: bool) -> Result<(), KernelError> {
        self.write(triage, closed)
            .map_err(|error| KernelError::Refused("a table of signatures", told(&error)))
    }

    fn write(&mut self, triage: Option<&Triage>, closed: bool) -> Result<(), MapError> {
        let (slot, base) = match self.in_use.get(&0, 0)? & 1 {
            0 => (1, CELLS),
            _ => (0, 0),
        };
        let mut value = [0; TRIAGE];
        if let Some(triage) = triage {
            for (at, next) in (base..).zip(triage.table()) {
                let flags = triage.flags().get(usize::from(*next));
                let flags = flags.copied().unwrap_or(crate::triage::ASK);
                self.cells
                    .set(at, u32::from(*next) | (u32::from(flags) << 16), 0)?;
            }
            for (byte, new) in value.iter_mut().zip(described(triage, closed)) {
                *byte = new;
            }
        }
        self.triages.set(slot, value, 0)?;
        self.in_use.set(0, slot, 0)
    }
}

/// `struct triage`.
fn described(triage: &Triage, closed: bool) -> Vec<u8> {
    let transports = [L4::Tcp, L4::Udp].map(|l4| triage.asking_ports(l4));
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_ne_bytes();
    let mut bytes = [1_u32.to_ne_bytes(), number(triage.class_count())].concat();
    bytes.extend(triage.starts().into_iter().flat_map(u16::to_ne_bytes));
    bytes.extend([triage.packets(), u8::from(triage.needs_unknown())]);
    bytes.extend(transports.into_iter().flat_map(|ports| number(ports.len())));
    for ports in transports {
        let ports = ports.iter().copied().chain(std::iter::repeat(0));
        let ports = ports.take(MAX_TRIAGE_PORTS);
        bytes.extend(ports.flat_map(u16::to_be_bytes));
    }
    bytes.extend(triage.classes());
    bytes.extend(u32::from(closed).to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::{CELLS, TRIAGE, described};
    use crate::classify::SignatureSet;
    use crate::limits::MAX_TRIAGE_BYTES;
    use crate::policy::Policy;
    use crate::triage::Triage;

    #[test]
    fn the_form_is_that_of_the_program() {
        let policy = Policy::parse("", &std::collections::BTreeSet::new()).unwrap();
        let triage = Triage::new(&SignatureSet::built_in(), &policy).unwrap();
        assert_eq!(described(&triage, true).len(), TRIAGE);
        assert_eq!(usize::try_from(CELLS).unwrap() * 2, MAX_TRIAGE_BYTES);
    }
}
