//! Bytes that a message must have, as signature files write them: `opening`, `known`, `naming`,
//! `needs`.
//!
//! | written | stands for |
//! |---|---|
//! | `e3` | this byte; `?` for a digit that may be any: `4?`, `??` |
//! | `[00-05 16]` | one byte of these |
//! | `'GET '` | these characters |
//! | `??{18}` | 18 of the byte or set before |
//! | `[21-7e]*` | any number of the byte or set before, also none |

use crate::limits::{MAX_EXPRESSION, TRIAGE_SCAN};

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Bytes([u64; 4]);

impl Bytes {
    pub(crate) const ALL: Self = Self([u64::MAX; 4]);

    pub(crate) fn of(byte: u8) -> Self {
        let mut set = Self::default();
        set.insert(byte);
        set
    }

    /// An ASCII letter in either case, any other byte as it is.
    pub(crate) fn either_case(byte: u8) -> Self {
        let mut set = Self::of(byte.to_ascii_lowercase());
        set.insert(byte.to_ascii_uppercase());
        set
    }

    fn insert(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1_u64.checked_shl(u32::from(byte & 63)).unwrap_or(0);
        }
    }

    pub(crate) fn contains(self, byte: u8) -> bool {
        let word = self.0.get(usize::from(byte >> 6)).copied().unwrap_or(0);
        word.checked_shr(u32::from(byte & 63))
            .is_some_and(|word| word & 1 == 1)
    }

    /// Bytes that are in both.
    pub(crate) fn and(self, other: Self) -> Self {
        let Self([a, b, c, d]) = self;
        let Self([w, x, y, z]) = other;
        Self([a & w, b & x, c & y, d & z])
    }

    /// Bytes that are in either.
    pub(crate) fn or(self, other: Self) -> Self {
        let Self([a, b, c, d]) = self;
        let Self([w, x, y, z]) = other;
        Self([a | w, b | x, c | y, d | z])
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Any number of bytes on the same line.
const SAME_LINE: Element = Element {
    // All but the line feed.
    bytes: Bytes([u64::MAX ^ 1 << 10, u64::MAX, u64::MAX, u64::MAX]),
    many: true,
};

/// One byte of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Element {
    pub(crate) bytes: Bytes,
    /// Any number of such bytes, also none.
    pub(crate) many: bool,
}

impl Element {
    pub(crate) fn once(bytes: Bytes) -> Self {
        Self { bytes, many: false }
    }
}

/// A sequence of bytes with alternatives for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Expression {
    elements: Vec<Element>,
    /// A text that stands at the very beginning.
    first: bool,
}

impl Expression {
    pub(crate) fn new(elements: Vec<Element>) -> Self {
        Self {
            elements,
            first: false,
        }
    }

    /// An expression of bytes at fixed positions, as in `opening`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            rest: text,
            elements: Vec::new(),
        };
        while parser
            .step()
            .map_err(|reason| format!("`{text}`: {reason}"))?
        {}
        Self::within_bounds(parser.elements, text)
    }

    /// A text anywhere in a head, as in `needs`: letters in either case, `*` for anything on the
    /// same line; behind `^` one with which the head begins.
    pub(crate) fn text(written: &str) -> Result<Self, String> {
        let text = written.strip_prefix('^').unwrap_or(written);
        if text.starts_with('*') || text.ends_with('*') {
            return Err(format!("`{text}` must neither begin nor end with *"));
        }
        let elements = text.bytes().map(|byte| match byte {
            b'*' => SAME_LINE,
            _ => Element::once(Bytes::either_case(byte)),
        });
        Ok(Self {
            first: text != written,
            ..Self::within_bounds(elements.collect(), text)?
        })
    }

    /// This, and behind it on the same line another text.
    pub(crate) fn before(&self, text: &str) -> Self {
        let mut elements = self.elements.clone();
        elements.push(SAME_LINE);
        let text = text.bytes().map(Bytes::either_case).map(Element::once);
        elements.extend(text);
        Self {
            elements,
            first: self.first,
        }
    }

    /// Bytes with which what it stands for may begin.
    pub(crate) fn first_bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        for element in &self.elements {
            bytes = bytes.or(element.bytes);
            // Of those that may be missing the next one may come first.
            if !element.many {
                break;
            }
        }
        bytes
    }

    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    fn within_bounds(elements: Vec<Element>, text: &str) -> Result<Self, String> {
        let least = elements.iter().filter(|element| !element.many).count();
        if least == 0 || elements.len() > MAX_EXPRESSION.min(TRIAGE_SCAN) {
            return Err(format!(
                "`{text}` must stand for 1 to {MAX_EXPRESSION} bytes"
            ));
        }
        Ok(Self::new(elements))
    }

    /// The beginning that is decided by this many bytes. Bytes that may be anything do not count,
    /// and none of them stands at its end. A stream that ends before is asked about, as more may
    /// follow. The few datagrams that are too short are not worth a state for each byte.
    pub(crate) fn decided(&self, most: usize) -> Self {
        let mut telling = 0_usize;
        let mut kept = 0_usize;
        for (index, element) in self.elements.iter().enumerate() {
            if element.bytes != Bytes::ALL && !element.many && telling < most {
                telling = telling.saturating_add(1);
                kept = index.saturating_add(1);
            }
        }
        Self {
            elements: self.elements.get(..kept).unwrap_or_default().to_vec(),
            first: self.first,
        }
    }

    pub(crate) fn elements(&self) -> &[Element] {
        &self.elements
    }
}

struct Parser<'a> {
    rest: &'a str,
    elements: Vec<Element>,
}

impl Parser<'_> {
    /// Reads the next part; `false` at the end.
    fn step(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Ok(false);
        }
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (text, rest) = rest.split_once('\'').ok_or("a ' has no end")?;
            let bytes = text.bytes().map(|byte| Element::once(Bytes::of(byte)));
            self.elements.extend(bytes);
            self.rest = rest;
            return Ok(true);
        }
        let bytes = if let Some(rest) = self.rest.strip_prefix('[') {
            let (inside, rest) = rest.split_once(']').ok_or("a [ has no end")?;
            self.rest = rest;
            set(inside)?
        } else {
            let (pair, rest) = self
                .rest
                .split_at_checked(2)
                .ok_or("a byte needs two digits")?;
            self.rest = rest;
            nibbles(pair)?
        };
        self.repeat(bytes)?;
        Ok(true)
    }

    /// What stands behind a byte or a set.
    fn repeat(&mut self, bytes: Bytes) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            self.elements.push(Element { bytes, many: true });
            return Ok(());
        }
        let mut count = 1;
        if let Some(rest) = self.rest.strip_prefix('{') {
            let (number, rest) = rest.split_once('}').ok_or("a { has no end")?;
            self.rest = rest;
            count = number
                .parse()
                .ok()
                .filter(|count| (1..=MAX_EXPRESSION).contains(count))
                .ok_or_else(|| format!("{number} is no number from 1 to {MAX_EXPRESSION}"))?;
        }
        self.elements
            .extend(std::iter::repeat_n(Element::once(bytes), count));
        Ok(())
    }
}

fn set(text: &str) -> Result<Bytes, String> {
    let mut bytes = Bytes::default();
    for part in text.split_whitespace() {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (byte(first)?, byte(last)?);
        if first > last {
            return Err(format!("{part} ends before it begins"));
        }
        for byte in first..=last {
            bytes.insert(byte);
        }
    }
    if bytes.is_empty() {
        return Err("[] stands for no byte".to_owned());
    }
    Ok(bytes)
}

fn byte(text: &str) -> Result<u8, String> {
    let valid = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(text, 16)
        .ok()
        .filter(|_| valid)
        .ok_or_else(|| format!("{text} is no byte in two hexadecimal digits"))
}

fn nibbles(pair: &str) -> Result<Bytes, String> {
    let (low, high) = (pair.replace('?', "0"), pair.replace('?', "f"));
    let (low, high) = (byte(&low)?, byte(&high)?);
    let mut bytes = Bytes::default();
    // With `?` for the upper digit the bytes between the two are not all meant.
    for byte in low..=high {
        let fits = |shift: u32| {
            let digit = |byte: u8| byte.checked_shr(shift).unwrap_or(0) & 0xf;
            digit(low) <= digit(byte) && digit(byte) <= digit(high)
        };
        if fits(0) && fits(4) {
            bytes.insert(byte);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Expression};

    fn sets(text: &str) -> Vec<Vec<u8>> {
        let members = |bytes: Bytes| (0..=255).filter(|&byte| bytes.contains(byte)).collect();
        let expression = Expression::parse(text).unwrap();
        let elements = expression.elements().iter();
        elements.map(|element| members(element.bytes)).collect()
    }

    #[test]
    fn bytes_nibbles_sets_texts_and_repetitions() {
        assert_eq!(
            sets("e3 'ab'[01-03 ff]"),
            [vec![0xe3], vec![b'a'], vec![b'b'], vec![1, 2, 3, 0xff]]
        );
        assert_eq!(sets("4?")[0], (0x40..=0x4f).collect::<Vec<u8>>());
        assert_eq!(
            sets("?a")[0],
            (0..16).map(|high| high * 16 + 10).collect::<Vec<u8>>()
        );
        assert_eq!(sets("??{18}").len(), 18);
        assert_eq!(sets("??")[0].len(), 256);
        let many = Expression::parse("[21-7e]* 0d").unwrap();
        assert!(many.elements()[0].many && !many.elements()[1].many);
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        for (text, reason) in [
            ("", "must stand for"),
            ("??*", "must stand for"),
            ("e", "two digits"),
            ("xy", "no byte"),
            ("+1", "no byte"),
            ("[05-01]", "ends before"),
            ("[]", "no byte"),
            ("[01", "no end"),
            ("'GET", "no end"),
            ("??{0}", "no number"),
            ("??{600}", "no number"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(Expression::text("*a").is_err() && Expression::text("").is_err());
    }
}
