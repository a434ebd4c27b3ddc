//! How the values of options are read. Every message says what is taken instead.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ringway_gateway::InfoHash;
use ringway_node::authority::ListenChange;
use ringway_node::config::{is_class_name, parse_bytes};
use ringway_node::control::AskedPriority;

/// The highest priority, as the daemon takes it.
const HIGHEST_PRIORITY: f64 = 1000.0;

/// Reads a priority: a number from 0 to 1000, or the name of a class, which the daemon knows.
pub(super) fn priority(text: &str) -> Result<AskedPriority, String> {
    if is_class_name(text) {
        return Ok(AskedPriority::Class(text.to_owned()));
    }
    let mend = "a priority is a number from 0 (takes only idle capacity) to 1000, such as 0, 1 or 2.5, or the name of a class, such as backup";
    let value: f64 = text.parse().map_err(|_| mend.to_owned())?;
    if (0.0..=HIGHEST_PRIORITY).contains(&value) {
        Ok(AskedPriority::Flows(value.abs()))
    } else {
        Err(mend.to_owned())
    }
}

/// Reads an address and a port.
pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    let mend = "an IP address and a port are needed, such as 192.0.2.7:7400 or [2001:db8::7]:7400";
    text.parse().map_err(|_| mend.to_owned())
}

/// Reads where a server is to listen: an address and a port, or `auto`.
pub(super) fn listen(text: &str) -> Result<ListenChange, String> {
    if text == "auto" {
        return Ok(ListenChange::Automatic);
    }
    let read = socket(text).map(ListenChange::At);
    read.map_err(|mend| format!("{mend}, or `auto`"))
}

/// Reads a number of bytes with an optional unit: `B`, `kB`, `KiB`, `MB`, `MiB`, `GB`, `GiB`, and
/// `/s` behind it.
/// Reads a number of bytes above 0, with an optional unit, as configuration files have them.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
        "a rate is a whole number of bytes a second with an optional unit, such as 500KiB, 20MiB or 1GB".to_owned()
    })
}

/// Reads a time span: a whole number with the unit `s`, `m`, `h` or `d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let mend =
        || "a time is a whole number from 1 on with a unit, such as 30s, 30m, 24h or 7d".to_owned();
    let (number, unit) = split(text.trim());
    let factor: u64 = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(mend()),
    };
    let number: u64 = number.parse().map_err(|_| mend())?;
    match number.checked_mul(factor) {
        Some(0) | None => Err(mend()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// Reads the name of a torrent.
pub(super) fn infohash(text: &str) -> Result<InfoHash, String> {
    InfoHash::parse(text).map_err(|error| error.to_string())
}

/// Reads a moment (RFC 3339), or without an offset one in the machine's zone; returns the time
/// since the Unix epoch.
pub(super) fn moment(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let utc = [" UTC", " GMT"]
        .iter()
        .find_map(|zone| text.strip_suffix(zone));
    let utc = utc.map(|text| format!("{text}Z"));
    let text = utc.as_deref().unwrap_or(text);
    let local = || {
        let civil = text.parse::<DateTime>().ok()?;
        let zoned = civil.to_zoned(TimeZone::system()).ok()?;
        Some(zoned.timestamp())
    };
    let moment = text.parse::<Timestamp>().ok().or_else(local);
    let seconds = moment.and_then(|moment| u64::try_from(moment.as_second()).ok());
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "a time is written like 2026-11-28T21:14:05Z".to_owned())
}

/// Reads bits of a mark: hexadecimal with `0x`, or decimal.
pub(super) fn mask(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "a mask is written like 0x7f800000".to_owned())
}

/// Reads the length of successor lists.
pub(super) fn successors(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(r @ 2..=16) => Ok(r),
        _ => Err("the successor list has 2 to 16 entries".to_owned()),
    }
}

/// Reads the size of groups.
pub(super) fn group(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(g) if ringway_overlay::is_group_size(g) => Ok(g),
        _ => Err("a group has an odd number of members, from 5 to 15".to_owned()),
    }
}

/// Splits `text` behind its leading digits.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_finite_and_not_negative() {
        assert_eq!(priority("0"), Ok(AskedPriority::Flows(0.0)));
        assert_eq!(priority("2.5"), Ok(AskedPriority::Flows(2.5)));
        let Ok(AskedPriority::Flows(zero)) = priority("-0") else {
            panic!("-0 is no number");
        };
        assert!(zero.is_sign_positive());
        let class = AskedPriority::Class("backup".to_owned());
        assert_eq!(priority("backup"), Ok(class));
        for bad in [
            "-1",
            "NaN",
            "inf",
            "-inf",
            "1e400",
            "1000.5",
            "",
            "two words",
            "1,5",
            "9lives",
        ] {
            assert!(priority(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_above_nothing() {
        assert_eq!(bytes("20MiB"), Ok(20 << 20));
        assert!(bytes("0").is_err() && bytes("20Mb").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for bad in ["", "24", "0h", "-1h", "1y", "h", "99999999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
