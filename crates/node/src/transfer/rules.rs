//! Whether a file that is offered is taken, by the first rule that fits it.

use std::path::{Path, PathBuf};

use crate::config::{OfferedType, ReceiveConfig, ReceiveRule};

/// What counts for files that are offered now.
#[derive(Debug)]
pub(super) struct Receiving {
    rules: ReceiveConfig,
    home: PathBuf,
    /// What this member is called.
    own_name: String,
    /// Where files go whose own place has gone.
    pub(super) inbox: PathBuf,
}

impl Receiving {
    pub(super) fn new(rules: ReceiveConfig, home: &Path, own_name: &str) -> Receiving {
        Receiving {
            inbox: home.join(&rules.directory),
            home: home.to_owned(),
            own_name: own_name.to_owned(),
            rules,
        }
    }

    pub(super) fn own_name(&self) -> &str {
        &self.own_name
    }
}

/// What a member may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferedKind {
    File,
    /// Or several files and folders at once.
    Folder,
}

impl OfferedKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            OfferedKind::File => "file",
            OfferedKind::Folder => "folder",
        }
    }
}

/// What is known of a file before it is there: nothing of its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfferFacts<'a> {
    /// The sender's name, from its certificate.
    pub(super) from: &'a str,
    /// Under which name it would be stored here, which is not always the one that was offered.
    pub(super) name: &'a str,
    pub(super) kind: OfferedKind,
    /// Bytes in all.
    pub(super) size: u64,
}

/// Where a file goes, and what happens then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Landing {
    pub(super) into: PathBuf,
    /// Counts from 1; 0 where rules have no numbers.
    pub(super) rule: u32,
    /// A program and its arguments; empty is none.
    pub(super) run: Vec<String>,
    pub(super) notify: bool,
}

/// What is done with an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Take(Landing),
    /// A person decides.
    Ask(Landing),
    /// Never, as long as the rules are these; what both ends are told.
    Refuse {
        reason: String,
    },
}

/// The first rule that fits the offer decides: its limit of size is no part of what it fits.
pub(super) fn decide(receiving: &Receiving, offer: &OfferFacts<'_>) -> Decision {
    let Receiving {
        rules,
        own_name,
        home,
        ..
    } = receiving;
    let mut numbered = (1..).zip(&rules.rules);
    let Some((number, rule)) = numbered.find(|(_, rule)| fits(rule, offer)) else {
        return Decision::Refuse {
            reason: unfitted(receiving, offer),
        };
    };
    let called = if rules.numbered {
        format!("rule {number} of {own_name}'s [[receive]]")
    } else {
        own_name.clone()
    };
    if rule.refuse {
        let reason = format!("{called} refuses it");
        return Decision::Refuse { reason };
    }
    if offer.size > rule.max {
        let (kind, size) = (offer.kind.as_str(), in_words(offer.size));
        let most = in_words(rule.max);
        let reason = format!("the {kind} has {size}, and {called} takes at most {most}");
        return Decision::Refuse { reason };
    }
    let landing = Landing {
        into: home.join(&rule.into),
        rule: if rules.numbered { number } else { 0 },
        run: rule.run.clone(),
        notify: rule.notify,
    };
    if rule.ask {
        Decision::Ask(landing)
    } else {
        Decision::Take(landing)
    }
}

fn fits(rule: &ReceiveRule, offer: &OfferFacts<'_>) -> bool {
    let of_type = |wanted: &OfferedType| match offer.kind {
        OfferedKind::File => wanted.fits_file(offer.name),
        OfferedKind::Folder => *wanted == OfferedType::Folder,
    };
    let type_fits = rule.types.is_empty() || rule.types.iter().any(of_type);
    type_fits && rule.from.fit(offer.from) && rule.name.fit(offer.name)
}

/// Why an offer is refused that fits no rule.
fn unfitted(receiving: &Receiving, offer: &OfferFacts<'_>) -> String {
    let Receiving {
        rules, own_name, ..
    } = receiving;
    let kind = offer.kind.as_str();
    let accepted_from = |rule: &ReceiveRule| !rule.refuse && rule.from.fit(offer.from);
    if rules.rules.iter().any(accepted_from) {
        format!("no rule of {own_name}'s [[receive]] takes a {kind} of this name or type")
    } else {
        format!("{own_name} takes no files from {}", offer.from)
    }
}

/// False once the folder in which `into` was has gone, as with a home that is moved under a running
/// daemon: to make it again would deliver where no person looks.
pub(super) fn has_place(into: &Path) -> bool {
    into.is_dir() || into.parent().is_some_and(Path::is_dir)
}

/// A number of bytes in the largest unit that leaves it whole, or else as people say it: a size
/// just above a limit is not shown as that limit.
pub(super) fn in_words(bytes: u64) -> String {
    const EXACT: [(&str, u64); 8] = [
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1_000),
    ];
    let whole = EXACT
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    if let Some((name, unit)) = whole {
        return format!("{} {name}", bytes / unit);
    }
    let decimal = EXACT.iter().filter(|(name, _)| !name.ends_with("iB"));
    let mut fitting = decimal.filter(|(_, unit)| bytes >= *unit);
    match fitting.next() {
        None => format!("{bytes} bytes"),
        Some((name, unit)) => {
            // Two digits behind the point, rounded up.
            let hundredths = (u128::from(bytes) * 100).div_ceil(u128::from(*unit));
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        }
    }
}

#[cfg(test)]
mod tests;
