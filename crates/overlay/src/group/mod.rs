//! Groups: the g members around a point of the ring.
//!
//! Around a member its group is itself, the (g − 1) / 2 nearest before it and as many after it.
//! Around any other point it is the (g − 1) / 2 nearest before the point and the (g + 1) / 2
//! nearest at or after it, so that the point's owner is in the middle.
//!
//! - [`around`] chooses a group among keys, [`width`] and [`Density`] say whether it is as dense as
//!   the ring: keys are spread evenly by the owner's nonces, so a group that leaves honest members
//!   out is wider.
//! - `neighbours`: this member's own group, and the views that it exchanges with those in it.
//!   `start`: which start of this member they are from. `audit` and `witness`: views compared with
//!   what others were told, and convictions.
//!
//! Source: "Our Brothers' Keepers" §3.4 for the groups; the density test is from Castro and others,
//! "Secure routing for structured peer-to-peer overlay networks", §4.

pub(crate) mod audit;
pub(crate) mod neighbours;
pub(crate) mod start;
pub(crate) mod witness;

use crate::key::RingKey;

/// A group at the end of a lookup up to so much wider than expected is accepted at once.
/// Source: chosen; 12 % of honest groups of nine are wider (a gamma distribution of nine spacings),
/// and 98 % of groups of colluders at 30 % of all.
pub(crate) const DENSE: f64 = 1.4;

/// The group of `g` around `point` among `keys`, from its first member clockwise. All of them if
/// there are no more than `g`. Duplicates count once.
pub(crate) fn around(
    point: &RingKey,
    g: usize,
    keys: impl IntoIterator<Item = RingKey>,
) -> Vec<RingKey> {
    let mut clockwise: Vec<RingKey> = keys.into_iter().collect();
    clockwise.sort_unstable();
    clockwise.dedup();
    let first = clockwise.partition_point(|key| key < point);
    clockwise.rotate_left(first);
    // From the point on clockwise: who is at or after it comes first, who is before it last.
    if clockwise.len() > g {
        let before = g.saturating_sub(1) / 2;
        let after = g.saturating_sub(before);
        clockwise.drain(after..clockwise.len().saturating_sub(before));
        clockwise.rotate_left(after);
    } else {
        // Those within half the ring before the point come first.
        let half = RingKey::ZERO.plus_power(255);
        let opposite = clockwise.partition_point(|key| point.distance_to(key) < *half.as_bytes());
        clockwise.rotate_left(opposite);
    }
    clockwise
}

/// The share of the ring from the first to the last member of a group.
pub(crate) fn width(group: &[RingKey]) -> f64 {
    match (group.first(), group.last()) {
        (Some(first), Some(last)) => first.share_to(last),
        _ => 0.0,
    }
}

/// How far the members of the ring stand from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Density {
    /// The mean distance between two neighbours, as a share of the ring.
    pub(crate) spacing: f64,
    /// Members of a group.
    g: usize,
}

impl Density {
    /// The estimate of a member whose own group is `own` and whose fingers' whole groups have these
    /// `widths`, as shares of the ring.
    /// `everybody` says that the ring has no other members than those.
    ///
    /// The width of a group around a point is distributed as a sum of g exponential spacings: g − 2
    /// whole ones and the one that holds the point, which counts twice, because a wide one is
    /// hit more often. Its median is g − 1/3 spacings. The median over all groups withstands a
    /// minority that lies.
    pub(crate) fn estimate(
        own: &[RingKey],
        everybody: bool,
        widths: impl Iterator<Item = f64>,
        g: usize,
    ) -> Density {
        if everybody {
            let spacing = 1.0 / whole(own.len().max(1));
            return Density { spacing, g };
        }
        let spacings = widths.map(|width| width / (whole(g) - 1.0 / 3.0));
        let mut spacings: Vec<f64> = spacings.collect();
        // Around a member there is one spacing less than around a point.
        if own.len() > 2 {
            spacings.push(width(own) / (whole(own.len()) - 4.0 / 3.0));
        }
        Density::median(&mut spacings, g)
    }

    /// The median of `spacings`; without any, members stand infinitely close.
    pub(crate) fn of(spacings: &[f64], g: usize) -> Density {
        Density::median(&mut spacings.to_vec(), g)
    }

    fn median(spacings: &mut [f64], g: usize) -> Density {
        let middle = spacings.len() / 2;
        if spacings.is_empty() {
            return Density { spacing: 0.0, g };
        }
        let (_, spacing, _) = spacings.select_nth_unstable_by(middle, f64::total_cmp);
        Density {
            spacing: *spacing,
            g,
        }
    }

    /// How wide `group` is: 1 if it is as wide as can be expected, about 3 if two of three members
    /// are left out.
    pub(crate) fn stretch(&self, group: &[RingKey]) -> f64 {
        if group.len() < self.g {
            // Few are there, or few were named.
            let expected = (1.0 / self.spacing).min(whole(self.g));
            return expected / whole(group.len()).max(0.5);
        }
        width(group) / (whole(self.g) * self.spacing)
    }
}

/// A small count as a number to reckon with.
fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The spacing that the width of one group around a point speaks for: the ring has no more members
/// if it has less than g.
pub(crate) fn spacing(group: &[RingKey], g: usize) -> f64 {
    if group.len() < g {
        1.0 / whole(group.len().max(1))
    } else {
        width(group) / (whole(g) - 1.0 / 3.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> RingKey {
        let mut bytes = [0; 32];
        bytes[0] = n;
        RingKey::from_bytes(bytes)
    }

    fn keys(ns: impl IntoIterator<Item = u8>) -> Vec<RingKey> {
        ns.into_iter().map(key).collect()
    }

    #[test]
    fn a_group_is_centred_on_its_points_owner() {
        let all = keys((0..25).map(|n| n * 10));
        assert_eq!(
            around(&key(100), 5, all.clone()),
            keys([80, 90, 100, 110, 120])
        );
        assert_eq!(
            around(&key(101), 5, all.clone()),
            keys([90, 100, 110, 120, 130])
        );
        assert_eq!(around(&key(0), 5, all.clone()), keys([230, 240, 0, 10, 20]));
        assert_eq!(around(&key(245), 5, all), keys([230, 240, 0, 10, 20]));
        assert_eq!(around(&key(7), 5, keys([9, 3, 9])), keys([3, 9]));
        assert_eq!(around(&key(7), 5, keys([])), keys([]));
    }

    #[test]
    fn a_group_with_members_left_out_is_stretched() {
        let all = keys((0..=255).step_by(2));
        let density = Density {
            spacing: 2.0 / 256.0,
            g: 9,
        };
        let honest = around(&key(101), 9, all.clone());
        assert!(density.stretch(&honest) < 1.0);
        let third = all.into_iter().enumerate().filter(|(n, _)| n % 3 == 0);
        let lying = around(&key(101), 9, third.map(|(_, key)| key));
        assert!(density.stretch(&lying) > 2.5);
        assert!(density.stretch(&keys([100])) > 5.0);
    }

    proptest! {
        #[test]
        fn a_group_is_of_the_nearest(points in proptest::collection::vec(any::<[u8; 32]>(), 1..60), at: [u8; 32]) {
            let at = RingKey::from_bytes(at);
            let all: Vec<RingKey> = points.into_iter().map(RingKey::from_bytes).collect();
            let group = around(&at, 9, all.clone());
            prop_assert!(group.len() <= 9);
            let after = group.iter().map(|k| at.distance_to(k)).filter(|d| d[0] < 128).max();
            for key in &all {
                let nearer = after.is_some_and(|after| at.distance_to(key) < after);
                prop_assert!(!nearer || group.contains(key) || group.len() < 9 || group.iter().filter(|k| at.distance_to(k) < at.distance_to(key)).count() >= 5);
            }
        }
    }
}
