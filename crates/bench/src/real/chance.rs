//! What is drawn by lot: who looks which point up, and who is a malicious router. The programs of
//! `--beside` draw the same from the same seed.

/// Points, one for each lookup.
const POINTS: u64 = 1;
/// Who looks them up.
const ASKERS: u64 = 2;
/// In which order members become malicious routers.
const MALICIOUS: u64 = 3;

/// SplitMix64. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn new(seed: u64, purpose: u64) -> Chance {
        let mut chance = Chance(purpose);
        Chance(seed ^ chance.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

/// One lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// Who looks it up: a place among the honest members.
    pub(super) asker: usize,
    /// The point.
    pub(super) point: [u8; 32],
}

/// The lookups of one run, by `honest` members.
pub(super) fn lookups(seed: u64, count: usize, honest: usize) -> Vec<Lookup> {
    let (mut points, mut askers) = (Chance::new(seed, POINTS), Chance::new(seed, ASKERS));
    let mut one = || {
        let mut point = [0; 32];
        for part in point.chunks_exact_mut(8) {
            part.copy_from_slice(&points.next().to_be_bytes());
        }
        let asker = askers.below(honest);
        Lookup { asker, point }
    };
    (0..count).map(|_| one()).collect()
}

/// Who of `members` is a malicious router: `share` of them, rounded; those of a smaller share are
/// also those of a greater one.
pub(super) fn malicious(seed: u64, members: usize, share: f64) -> Vec<bool> {
    let mut chance = Chance::new(seed, MALICIOUS);
    let mut order: Vec<usize> = (0..members).collect();
    for at in (1..members).rev() {
        order.swap(at, chance.below(at + 1));
    }
    let mut chosen = vec![false; members];
    let wanted = (0..members).take_while(|n| *n as f64 + 0.5 < share * members as f64);
    for (_, place) in wanted.zip(&order) {
        if let Some(chosen) = chosen.get_mut(*place) {
            *chosen = true;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_drawn_as_by_programs_beside() {
        let drawn = lookups(1, 2, 255);
        assert_eq!(drawn[1].asker, 197, "{drawn:x?}");
        assert_eq!(drawn[1].point[..4], [255, 132, 24, 116], "{drawn:x?}");
        let places = |share: f64| -> Vec<usize> {
            let all = malicious(1, 10, share).into_iter().enumerate();
            all.filter_map(|(n, chosen)| chosen.then_some(n)).collect()
        };
        assert_eq!(places(0.3), [0, 3, 6]);
        assert!(places(0.0).is_empty());
    }
}
