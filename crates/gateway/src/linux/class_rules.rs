//! The packet filter's rules that put packets into classes, and into shares of them.
//!
//! They stand in FORWARD, where addresses inside are not translated any more (on the way in) or not
//! yet (on the way out). Where a class has shares, a chain of its own compares the last bits of the
//! inside host's address.

use super::border::Border;
use super::marks::Marks;
use super::shaper::{class_id, share_id};
use crate::limits::CLASS_SHARES;
use crate::verdict::Offload;

/// All packets of classes come here.
pub(super) const CLASS: &str = "RINGWAY-CLASS";
/// Those of a class with shares then come to this and its number.
const OF_CLASS: &str = "RINGWAY-CLASS-";

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

impl Ip {
    /// Addresses whose last bits are these. The packet filter takes masks with holes.
    fn ending_in(self, share: u32) -> String {
        let mask = CLASS_SHARES.saturating_sub(1);
        match self {
            Ip::V4 => format!("0.0.0.{share}/0.0.0.{mask}"),
            Ip::V6 => format!("::{share:x}/::{mask:x}"),
        }
    }
}

/// What the rules of classes are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassRules<'a> {
    pub(super) border: &'a Border,
    pub(super) marks: Marks,
    pub(super) classes: usize,
    /// Classes end in shares.
    pub(super) shares: bool,
}

/// Whether a chain is of a class.
pub(super) fn is_of_class(chain: &str) -> bool {
    let number = chain.strip_prefix(OF_CLASS);
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

impl ClassRules<'_> {
    /// The chains besides [`CLASS`].
    pub(super) fn chains(&self) -> Vec<String> {
        let with_shares = if self.shares { self.classes } else { 0 };
        (0..with_shares)
            .map(|class| format!("{OF_CLASS}{class}"))
            .collect()
    }

    /// The rules of all of these chains.
    pub(super) fn lines(&self, ip: Ip) -> Vec<String> {
        let chains = self.chains();
        let classified = (0..self.classes).flat_map(|class| {
            let target = match chains.get(class) {
                Some(chain) => format!("-j {chain}"),
                None => format!("-j CLASSIFY --set-class {}", class_id(class)),
            };
            [Offload::Shaped(class), Offload::WatchedIn(class)].map(|settled| {
                let mark = self.marks.whole(settled);
                format!("-A {CLASS} -m connmark --mark {mark} {target}")
            })
        });
        let mut lines: Vec<String> = classified.collect();
        for (class, chain) in chains.iter().enumerate() {
            for (way, address) in self.border.inside_matches() {
                lines.extend((0..CLASS_SHARES).map(|share| {
                    let ending = ip.ending_in(share);
                    let id = share_id(class, share);
                    format!("-A {chain} {way} {address} {ending} -j CLASSIFY --set-class {id}")
                }));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{Border, ClassRules, Ip, Marks, is_of_class};

    #[test]
    fn shares_are_chosen_by_the_inside_address() {
        let border = Border {
            inside: vec!["lan0".to_owned()],
            outside: vec!["wan0".to_owned()],
            bridged: false,
        };
        let rules = |shares| ClassRules {
            border: &border,
            marks: Marks::default(),
            classes: 2,
            shares,
        };
        assert_eq!(rules(true).chains(), ["RINGWAY-CLASS-0", "RINGWAY-CLASS-1"]);
        assert!(rules(true).chains().iter().all(|chain| is_of_class(chain)));
        assert!(!is_of_class("RINGWAY-CLASS") && !is_of_class("RINGWAY-CLASS-OWN"));
        assert!(rules(false).chains().is_empty() && rules(false).lines(Ip::V4).len() == 4);
        for (ip, line) in [
            (
                Ip::V4,
                "-i lan0 -s 0.0.0.17/0.0.0.31 -j CLASSIFY --set-class 7a11:131",
            ),
            (
                Ip::V4,
                "-o lan0 -d 0.0.0.17/0.0.0.31 -j CLASSIFY --set-class 7a11:131",
            ),
            (
                Ip::V6,
                "-o lan0 -d ::11/::1f -j CLASSIFY --set-class 7a11:131",
            ),
        ] {
            let line = format!("-A RINGWAY-CLASS-1 {line}");
            assert!(rules(true).lines(ip).contains(&line), "{line}");
        }
    }
}
