//! Doors to private decoders, for the targets in `fuzz/` only.

use bytes::Bytes;

use crate::quic::clock::Word;
use crate::quic::datagrams;
use crate::stream::ws;
use crate::{Receipt, Referral, exec, smtp};

/// A frame of a child program, behind its length.
pub fn exec_frame(data: &[u8]) {
    exec::decode_anything(data);
}

/// What a mail carries, once it is taken out of the mail.
pub fn mail_container(data: &[u8]) {
    smtp::decode_container(data);
}

/// A whole mail as it arrives, with the filter header `X-Ringway: fuzz`.
pub fn mail(data: &[u8]) {
    smtp::decode_mail(data);
}

/// What a writer puts into the named pipe.
pub fn mail_pipe(data: &[u8]) {
    smtp::cut_pipe(data);
}

/// What somebody passes on: a HELLO with receipts.
///
/// # Panics
/// When what was read is written differently.
pub fn referral(data: &[u8]) {
    drop(Receipt::decode(data));
    if let Ok(referral) = Referral::decode(data) {
        for receipt in referral.receipts() {
            drop(Receipt::decode(receipt));
        }
        assert_eq!(Referral::decode(&referral.encode()).ok(), Some(referral));
    }
}

/// What a POP3 server answers; the first two bytes say to what, and in which pieces.
pub fn mail_pop3(data: &[u8]) {
    if let Some(([kind, piece], data)) = data.split_first_chunk() {
        let limit = (kind % 4 != 0).then(|| usize::from(*kind));
        smtp::read_pop3(limit, usize::from(*piece), data);
    }
}

/// A datagram on a connection for streams: what a peer says of its clock, or a stream's.
///
/// # Panics
/// When what was read is written differently, or may be read as both.
pub fn clock_word(data: &[u8]) {
    let word = Word::decode(data).map(Word::encode);
    let of_stream = datagrams::decode(Bytes::copy_from_slice(data));
    let of_stream = of_stream.map(|(stream, payload)| datagrams::encode(stream, &payload));
    assert!(word.is_none() || of_stream.is_none());
    if let Some(written) = word.or(of_stream) {
        assert_eq!(written, data);
    }
}

/// What a stranger asks the web server for.
pub fn web_request(data: &[u8]) {
    ws::decode_anything(data);
}
