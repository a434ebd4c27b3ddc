//! What waits for the rest of a line.

/// Why a decoder gives up.
pub(super) type Reason = &'static str;

/// A direction's bytes that are not whole yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.bytes.capacity()
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first bytes of what waits and of the input behind it, at most so many.
    pub(super) fn beginning(&self, input: &[u8], most: usize) -> Vec<u8> {
        let all = self.bytes.iter().chain(input);
        all.take(most).copied().collect()
    }

    /// Takes input up to and with the next LF; `None`: the line goes on in the next input.
    /// A line that is longer than `limit` is refused at the same byte however the input is cut.
    pub(super) fn line(
        &mut self,
        input: &mut &[u8],
        limit: usize,
    ) -> Result<Option<Vec<u8>>, Reason> {
        if self.extend(input, limit)? {
            return Ok(Some(std::mem::take(&mut self.bytes)));
        }
        Ok(None)
    }

    /// Takes lines that end with CRLF up to and with an empty one.
    pub(super) fn head(
        &mut self,
        input: &mut &[u8],
        limit: usize,
    ) -> Result<Option<Vec<u8>>, Reason> {
        while self.extend(input, limit)? {
            match self.bytes.as_slice() {
                whole if whole == b"\r\n" || whole.ends_with(b"\r\n\r\n") => {
                    return Ok(Some(std::mem::take(&mut self.bytes)));
                }
                part if !part.ends_with(b"\r\n") => return Err("a line that ends without CR"),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Takes exactly `count` bytes; `None`: some are missing.
    pub(super) fn exactly(&mut self, input: &mut &[u8], count: usize) -> Option<Vec<u8>> {
        let missing = count.saturating_sub(self.bytes.len());
        let (part, rest) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(part);
        *input = rest;
        (self.bytes.len() >= count).then(|| std::mem::take(&mut self.bytes))
    }

    /// What is left at the end of a direction.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Adds input up to and with an LF, and whether there was one.
    fn extend(&mut self, input: &mut &[u8], limit: usize) -> Result<bool, Reason> {
        let room = limit.saturating_sub(self.bytes.len());
        let within = input.get(..room.min(input.len())).unwrap_or_default();
        let end = within.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(within.len(), |end| end.saturating_add(1));
        let (part, rest) = input.split_at(length);
        if part.contains(&0) {
            return Err("a NUL where text belongs");
        }
        if end.is_none() && !rest.is_empty() {
            return Err("a line or head that is too long");
        }
        self.bytes.extend_from_slice(part);
        *input = rest;
        Ok(end.is_some())
    }
}

/// A slice's length as a count of bytes.
pub(super) fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Splits off at most `left` bytes of input.
pub(super) fn up_to<'a>(input: &mut &'a [u8], left: u64) -> &'a [u8] {
    let most = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    let (part, rest) = input.split_at(most);
    *input = rest;
    part
}
