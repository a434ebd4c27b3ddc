//! The smallest table of the same meaning: states and classes of bytes that nothing distinguishes
//! become one.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// Numbers of what was seen before. Its keys come from the owner's policy and signatures, so a
/// hash that resists attacks is not needed; SipHash took most of the time of compiling.
pub(super) type Numbers<K, N> = HashMap<K, N, FixedState>;

/// A table with what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Next states, a row for each state.
    pub(super) next: Vec<u16>,
    /// Length of a row.
    pub(super) width: usize,
    pub(super) flags: Vec<u8>,
    pub(super) starts: [u16; 3],
    /// The column of each byte.
    pub(super) classes: Box<[u8; 256]>,
}

impl Table {
    /// Joins what is alike (Moore's algorithm): states differ by their flags, then by what their
    /// next states differ by, until that finds no more differences.
    pub(super) fn minimized(self) -> Self {
        let mut kinds: Vec<u16> = numbered(self.flags.iter().copied());
        loop {
            let rows = self.next.chunks(self.width.max(1));
            let refined = numbered(kinds.iter().zip(rows).map(|(kind, row)| {
                let next: Vec<u16> = row.iter().map(|&next| kind_of(&kinds, next)).collect();
                (*kind, next)
            }));
            let settled = count(&refined) == count(&kinds);
            kinds = refined;
            if settled {
                break;
            }
        }
        self.joined(&kinds)
    }

    /// One state of each kind, then one column of each that is the same in all states.
    fn joined(self, kinds: &[u16]) -> Self {
        let rows = || self.next.chunks(self.width.max(1));
        let mut first: Vec<(usize, u8)> = Vec::new();
        for (index, (&kind, &flags)) in kinds.iter().zip(&self.flags).enumerate() {
            if usize::from(kind) == first.len() {
                first.push((index, flags));
            }
        }
        let kept: Vec<Vec<u16>> = first
            .iter()
            .filter_map(|&(index, _)| rows().nth(index))
            .map(|row| row.iter().map(|&next| kind_of(kinds, next)).collect())
            .collect();
        let column = |at: usize| {
            let cells = kept.iter().map(|row| row.get(at).copied());
            cells.collect::<Vec<Option<u16>>>()
        };
        let columns = numbered((0..self.width).map(column));
        let width = count(&columns);
        let mut next = Vec::with_capacity(kept.len().saturating_mul(width));
        for row in &kept {
            for wanted in 0..width {
                let at = columns
                    .iter()
                    .position(|&column| usize::from(column) == wanted);
                next.push(at.and_then(|at| row.get(at)).copied().unwrap_or(0));
            }
        }
        let mut classes = self.classes;
        for class in classes.iter_mut() {
            // At most as many columns as before, and those were counted in a byte.
            *class = u8::try_from(kind_of(&columns, u16::from(*class))).unwrap_or(u8::MAX);
        }
        Self {
            next,
            width,
            flags: first.into_iter().map(|(_, flags)| flags).collect(),
            starts: self.starts.map(|start| kind_of(kinds, start)),
            classes,
        }
    }
}

fn kind_of(kinds: &[u16], state: u16) -> u16 {
    kinds.get(usize::from(state)).copied().unwrap_or(0)
}

fn count(kinds: &[u16]) -> usize {
    kinds
        .iter()
        .max()
        .map_or(0, |&last| usize::from(last).saturating_add(1))
}

/// Numbers for values, in the order in which they come first.
fn numbered<T: Eq + Hash>(values: impl Iterator<Item = T>) -> Vec<u16> {
    let mut known: Numbers<T, u16> = Numbers::default();
    values
        .map(|value| {
            let new = u16::try_from(known.len()).unwrap_or(u16::MAX);
            *known.entry(value).or_insert(new)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn equal_states_and_columns_are_joined() {
        // 1 and 2 both lead to 3, the only one with a flag; the first two columns are alike.
        let table = Table {
            next: vec![1, 1, 2, 3, 3, 0, 3, 3, 0, 3, 3, 3],
            width: 3,
            flags: vec![0, 0, 0, 1],
            starts: [0, 1, 2],
            classes: Box::new(std::array::from_fn(|byte| u8::try_from(byte % 3).unwrap())),
        };
        let small = table.minimized();
        assert_eq!(
            (small.flags.as_slice(), small.width),
            ([0, 0, 1].as_slice(), 2)
        );
        assert_eq!(small.next, [1, 1, 2, 0, 2, 2]);
        assert_eq!(small.starts, [0, 1, 1]);
        assert_eq!(small.classes[..4], [0, 0, 1, 0]);
    }
}
