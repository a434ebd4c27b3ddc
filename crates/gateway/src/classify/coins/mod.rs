//! Currencies: their networks, and how work on them is shared out.

mod bitcoin;
mod ethereum;
mod monero;
mod stratum;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("bitcoin.message", bitcoin::message),
    ("ethereum.discovery", ethereum::discovery),
    ("ethereum.session", ethereum::session),
    ("monero.message", monero::message),
    ("stratum.line", stratum::line),
];
