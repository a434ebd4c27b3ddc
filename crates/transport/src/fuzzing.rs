//! Doors to private decoders, for the targets in `fuzz/` only.

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
