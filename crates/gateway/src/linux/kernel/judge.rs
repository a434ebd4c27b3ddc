//! What the kernel need not ask about: [`Triage`] in the maps of the program `triage`.
//!
//! The form is that of `../bpf/border.bpf.c`: `struct triage`, `cells`, `in_use`.

use std::fmt;

use aya::maps::{Array, MapData, MapError};

use super::{KernelError, told};
use crate::limits::{MAX_TRIAGE_BYTES, MAX_TRIAGE_PORTS};
use crate::packet::L4;
use crate::triage::Triage;

/// Bytes of `struct triage`.
const TRIAGE: usize = 344;
/// Where its ports and classes stand.
const PORTS: usize = 24;
const CLASSES: usize = 88;
/// Cells of one table.
const CELLS: u32 = 262_144;
const _: () = assert!(CELLS as usize * 2 == MAX_TRIAGE_BYTES);

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
    /// judged by one of the two.
    ///
    /// # Errors
    /// The kernel refuses; then the earlier one stays.
    pub fn put(&mut self, triage: Option<&Triage>) -> Result<(), KernelError> {
        self.write(triage)
            .map_err(|error| KernelError::Refused("a table of signatures", told(&error)))
    }

    fn write(&mut self, triage: Option<&Triage>) -> Result<(), MapError> {
        let slot = 1 - (self.in_use.get(&0, 0)? & 1);
        let mut value = [0; TRIAGE];
        if let Some(triage) = triage {
            let base = slot * CELLS;
            for (at, next) in (base..).zip(triage.table()) {
                let flags = triage.flags().get(usize::from(*next));
                let flags = flags.copied().unwrap_or(crate::triage::ASK);
                self.cells
                    .set(at, u32::from(*next) | (u32::from(flags) << 16), 0)?;
            }
            describe(triage, &mut value);
        }
        self.triages.set(slot, value, 0)?;
        self.in_use.set(0, slot, 0)
    }
}

/// `struct triage`.
fn describe(triage: &Triage, value: &mut [u8; TRIAGE]) {
    let mut put = |at: usize, bytes: &[u8]| {
        for (byte, new) in value.iter_mut().skip(at).zip(bytes) {
            *byte = *new;
        }
    };
    put(0, &1_u32.to_ne_bytes());
    let count = u32::try_from(triage.class_count()).unwrap_or(u32::MAX);
    put(4, &count.to_ne_bytes());
    for (place, start) in triage.starts().into_iter().enumerate() {
        put(8 + place * 2, &start.to_ne_bytes());
    }
    put(14, &[triage.packets(), u8::from(triage.needs_unknown())]);
    for (place, l4) in [L4::Tcp, L4::Udp].into_iter().enumerate() {
        let ports = triage.asking_ports(l4);
        let count = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        put(16 + place * 4, &count.to_ne_bytes());
        for (port, at) in ports.iter().zip(0..MAX_TRIAGE_PORTS) {
            put(
                PORTS + (place * MAX_TRIAGE_PORTS + at) * 2,
                &port.to_be_bytes(),
            );
        }
    }
    put(CLASSES, triage.classes());
}
