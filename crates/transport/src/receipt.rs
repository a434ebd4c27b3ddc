//! Receipts: a member's signed word that another one answered at an address, and what passes a
//! HELLO on with them.
//!
//! A receipt is `[body, signature]`, both byte strings; the body is the array
//! `[version, challenger, member, protocol, address, when, lifetime]`. A [`Referral`] is `[version,
//! hello, [receipt, …]]`, all of them byte strings as their signers made them.
//!
//! A receipt proves nothing to anybody else: its signer may lie. It says which addresses are worth
//! a PING, and which first.

use bytes::Bytes;
use minicbor::{Decoder, decode};
use thiserror::Error;

use crate::address::{Address, Protocol};
use crate::cbor;
use crate::limits::{HELLO_BYTES, RECEIPT_BYTES, RECEIPT_SKEW, REFERRAL_BYTES, REFERRAL_RECEIPTS};
use crate::member::{BadSignature, MemberId, Signature, Signer};

/// The version of both that is written and read.
const VERSION: u8 = 1;

/// The context of a receipt's signature.
const CONTEXT: &[u8] = b"ringway receipt";

/// A receipt whose signature is valid. It cannot be held otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    challenger: MemberId,
    member: MemberId,
    address: Address,
    when: u64,
    lifetime: u32,
    encoded: Bytes,
}

impl Receipt {
    /// Signs that `member` answered a PING at `address`, at `when` (Unix time, seconds), and that
    /// this counts for `lifetime` seconds.
    pub fn sign(
        challenger: &dyn Signer,
        member: MemberId,
        address: Address,
        when: u64,
        lifetime: u32,
    ) -> Self {
        let address = address.canonical();
        let by = challenger.member();
        let body = cbor::encode(|e| {
            e.array(7)?.u8(VERSION)?.bytes(&by.0)?.bytes(&member.0)?;
            e.u8(address.protocol().number())?
                .bytes(&address.to_wire())?
                .u64(when)?
                .u32(lifetime)?;
            Ok(())
        });
        let signature = challenger.sign(CONTEXT, &body);
        let encoded = cbor::encode(|e| {
            e.array(2)?.bytes(&body)?.bytes(&signature)?;
            Ok(())
        });
        Self {
            challenger: by,
            member,
            address,
            when,
            lifetime,
            encoded: encoded.into(),
        }
    }

    /// Reads a receipt and verifies its signature.
    ///
    /// # Errors
    /// [`ReceiptError`]: somebody misbehaved or is newer; drop the receipt, not what came with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, ReceiptError> {
        Self::decode_if(bytes, |_, _| true)?.ok_or_else(|| malformed("no receipt").into())
    }

    /// As [`Self::decode`], but verifies only if `wanted` says so of challenger and member: a
    /// signature costs 40 µs.
    pub(crate) fn decode_if(
        bytes: &[u8],
        wanted: impl FnOnce(&MemberId, &MemberId) -> bool,
    ) -> Result<Option<Self>, ReceiptError> {
        if bytes.len() > RECEIPT_BYTES {
            return Err(ReceiptError::TooLong { size: bytes.len() });
        }
        let mut envelope = Decoder::new(bytes);
        cbor::array(&mut envelope, 2)?;
        let body = envelope.bytes()?;
        let signature: Signature = cbor::bytes(&mut envelope)?;
        cbor::end(&envelope)?;
        let mut decoder = Decoder::new(body);
        cbor::array(&mut decoder, 7)?;
        let version = decoder.u8()?;
        if version != VERSION {
            return Err(ReceiptError::Version { version });
        }
        let challenger = MemberId(cbor::bytes(&mut decoder)?);
        let member = MemberId(cbor::bytes(&mut decoder)?);
        if !wanted(&challenger, &member) {
            return Ok(None);
        }
        let number = decoder.u8()?;
        let address = decoder.bytes()?;
        let (when, lifetime) = (decoder.u64()?, decoder.u32()?);
        cbor::end(&decoder)?;
        challenger.verify(CONTEXT, body, &signature)?;
        let protocol = Protocol::from_number(number).ok_or(ReceiptError::Protocol { number })?;
        let address = Address::from_wire(protocol, address)
            .ok_or_else(|| malformed("address of another length"))?;
        Ok(Some(Self {
            challenger,
            member,
            address,
            when,
            lifetime,
            encoded: Bytes::copy_from_slice(bytes),
        }))
    }

    /// The bytes as they were signed or received, to be passed on.
    pub const fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Who asked, was answered, and signed.
    pub const fn challenger(&self) -> MemberId {
        self.challenger
    }

    /// Who answered.
    pub const fn member(&self) -> MemberId {
        self.member
    }

    /// Where.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// When, as Unix time in seconds.
    pub const fn when(&self) -> u64 {
        self.when
    }

    /// Whether it counts at `unix` (seconds), if at most `longest` seconds are believed. Clocks may
    /// differ by [`RECEIPT_SKEW`].
    pub fn is_fresh(&self, unix: u64, longest: u64) -> bool {
        let lifetime = u64::from(self.lifetime).min(longest);
        let ends = self.when.saturating_add(lifetime);
        self.when <= unix.saturating_add(RECEIPT_SKEW) && unix < ends.saturating_add(RECEIPT_SKEW)
    }
}

/// A third member's HELLO as it is passed on, with receipts for its addresses. Nothing in it is
/// verified yet: the HELLO by [`Hello::decode`](crate::Hello::decode), the receipts by
/// [`Self::vouched_for`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referral {
    hello: Bytes,
    receipts: Vec<Bytes>,
}

impl Referral {
    /// Passes on an encoded HELLO with encoded receipts. Receipts past [`REFERRAL_RECEIPTS`] stay
    /// behind.
    ///
    /// # Errors
    /// `TooLong` if one of them is longer than any such is.
    pub fn new(hello: Bytes, mut receipts: Vec<Bytes>) -> Result<Self, ReceiptError> {
        receipts.truncate(REFERRAL_RECEIPTS);
        let receipts_end = receipts.iter().find(|bytes| bytes.len() > RECEIPT_BYTES);
        let long = Some(&hello).filter(|hello| hello.len() > HELLO_BYTES);
        match long.or(receipts_end) {
            Some(bytes) => Err(ReceiptError::TooLong { size: bytes.len() }),
            None => Ok(Self { hello, receipts }),
        }
    }

    /// The HELLO's bytes.
    pub const fn hello(&self) -> &Bytes {
        &self.hello
    }

    /// The receipts' bytes, at most [`REFERRAL_RECEIPTS`].
    pub fn receipts(&self) -> &[Bytes] {
        &self.receipts
    }

    /// The bytes on the wire, at most [`REFERRAL_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        cbor::encode(|e| {
            e.array(3)?.u8(VERSION)?.bytes(&self.hello)?;
            e.array(u64::try_from(self.receipts.len()).unwrap_or(u64::MAX))?;
            for receipt in &self.receipts {
                e.bytes(receipt)?;
            }
            Ok(())
        })
    }

    /// Reads a referral.
    ///
    /// # Errors
    /// [`ReceiptError`]: the sender misbehaved or is newer; drop the message.
    pub fn decode(bytes: &[u8]) -> Result<Self, ReceiptError> {
        if bytes.len() > REFERRAL_BYTES {
            return Err(ReceiptError::TooLong { size: bytes.len() });
        }
        let mut decoder = Decoder::new(bytes);
        cbor::array(&mut decoder, 3)?;
        let version = decoder.u8()?;
        if version != VERSION {
            return Err(ReceiptError::Version { version });
        }
        let hello = Bytes::copy_from_slice(decoder.bytes()?);
        let count = decoder.array()?.unwrap_or(u64::MAX);
        if count > u64::try_from(REFERRAL_RECEIPTS).unwrap_or(u64::MAX) {
            return Err(malformed("more receipts than allowed, or an unknown number").into());
        }
        let mut receipts = Vec::new();
        for _ in 0..count {
            receipts.push(Bytes::copy_from_slice(decoder.bytes()?));
        }
        cbor::end(&decoder)?;
        Self::new(hello, receipts)
    }
}

fn malformed(reason: &'static str) -> decode::Error {
    decode::Error::message(reason)
}

/// Why a receipt or a referral is not used.
#[derive(Debug, Error)]
pub enum ReceiptError {
    /// The peer misbehaved: none is that long.
    #[error("a part of the referral has {size} bytes, more than any such has; drop it")]
    TooLong {
        /// Bytes received.
        size: usize,
    },
    /// The peer speaks another version.
    #[error(
        "the receipt has version {version}, this program reads {VERSION}; update one of the two"
    )]
    Version {
        /// The version it has.
        version: u8,
    },
    /// The peer is newer.
    #[error("transport protocol {number} is unknown to this program; update it")]
    Protocol {
        /// The protocol's number.
        number: u8,
    },
    /// The peer misbehaved: not the bytes of such a thing.
    #[error("the receipt or referral is malformed ({0}); drop it")]
    Malformed(#[from] decode::Error),
    /// Somebody misbehaved: the challenger did not sign this.
    #[error("the receipt is forged or altered: {0}")]
    Forged(#[from] BadSignature),
}
