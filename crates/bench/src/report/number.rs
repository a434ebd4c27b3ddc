//! How a number is written: three digits that count, thousands apart, shares as per cent.

/// A value with its unit, such as `1.86 Gbit/s` or `99.99 %`.
pub(super) fn with_unit(value: f64, unit: &str, shown: &str) -> String {
    let number = bare(value, unit);
    match (unit, shown) {
        ("share", "") => format!("{number} %"),
        (_, "") => number,
        (_, shown) => format!("{number} {shown}"),
    }
}

/// A value of this unit, without it.
pub(super) fn bare(value: f64, unit: &str) -> String {
    match unit {
        "share" => trimmed(format!("{:.2}", value * 100.0)),
        _ => short(value),
    }
}

/// Three digits that count; from a thousand on all of the whole number.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => grouped(value),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => trimmed(format!("{value:.1}")),
        size if size >= 0.9995 => trimmed(format!("{value:.2}")),
        size if size >= 0.01 => trimmed(format!("{value:.3}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

/// Without zeros behind the point.
fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// A whole number, three digits at a time.
fn grouped(value: f64) -> String {
    let text = format!("{value:.0}");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let mut parts = Vec::new();
    let mut rest = digits;
    while let Some((head, tail)) = rest.len().checked_sub(3).map(|at| rest.split_at(at)) {
        parts.push(tail);
        rest = head;
        if rest.is_empty() {
            break;
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts.reverse();
    format!("{sign}{}", parts.join(" "))
}

/// The least and the greatest, or both in one if they read alike.
pub(super) fn span(texts: (String, String)) -> String {
    match texts {
        (least, greatest) if least == greatest => least,
        (least, greatest) => format!("{least} to {greatest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.0025, "0.0025"),
            (0.078, "0.078"),
            (0.9896, "0.99"),
            (1.855, "1.85"),
            (9.996, "10"),
            (12.34, "12.3"),
            (371.0, "371"),
            (999.7, "1 000"),
            (53_476.2, "53 476"),
            (1_130_000.0, "1 130 000"),
            (-1_234.0, "-1 234"),
            (-0.00001, "0"),
        ];
        for (value, wanted) in cases {
            assert_eq!(bare(value, "x"), wanted, "{value}");
        }
    }

    #[test]
    fn shares_are_per_cent() {
        assert_eq!(with_unit(0.9999, "share", ""), "99.99 %");
        assert_eq!(with_unit(1.0, "share", ""), "100 %");
        assert_eq!(with_unit(0.0001, "share", "of all"), "0.01 of all");
        assert_eq!(with_unit(0.078, "ratio", "of NAT"), "0.078 of NAT");
        assert_eq!(with_unit(3.0, "", ""), "3");
    }

    #[test]
    fn a_span_of_equals_is_one_number() {
        assert_eq!(span(("1".into(), "1".into())), "1");
        assert_eq!(span(("1".into(), "5".into())), "1 to 5");
    }
}
