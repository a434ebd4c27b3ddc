//! Values of ASN.1's encodings BER and DER (X.690 §8): a tag, a length, the contents.

use crate::reader::Reader;

/// Tag of an integer.
pub(super) const INTEGER: u8 = 0x02;
/// Tag of a string of bytes.
pub(super) const OCTETS: u8 = 0x04;
/// Tag of a sequence.
pub(super) const SEQUENCE: u8 = 0x30;

/// The next value whose contents are all there: tag and contents.
pub(super) fn value<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let tag = reader.u8()?;
    let length = match reader.u8()? {
        short @ 0..=0x7f => usize::from(short),
        0x81 => usize::from(reader.u8()?),
        0x82 => usize::from(reader.be16()?),
        // Messages in one datagram or segment are shorter than 64 KiB; some write four bytes.
        0x84 => usize::try_from(reader.be32()?).ok()?,
        _ => return None,
    };
    Some((tag, reader.take(length)?))
}

/// The contents of a value with this tag.
pub(super) fn tagged<'a>(reader: &mut Reader<'a>, tag: u8) -> Option<&'a [u8]> {
    let (found, contents) = value(reader)?;
    (found == tag).then_some(contents)
}

/// An integer of at most four bytes that is not negative.
pub(super) fn integer(reader: &mut Reader<'_>) -> Option<u32> {
    let tag = reader.u8()?;
    let length = reader.u8()?;
    if tag != INTEGER || !(1..=5).contains(&length) {
        return None;
    }
    let contents = reader.take(usize::from(length))?;
    let fits = contents.first()? & 0x80 == 0;
    fits.then(|| {
        contents
            .iter()
            .fold(0_u32, |sum, &byte| sum.wrapping_shl(8) | u32::from(byte))
    })
}
