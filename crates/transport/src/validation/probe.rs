//! PING and PONG on the wire.
//!
//! PING `[1, challenge, target, protocol, address, challenger]`,
//! PONG `[2, challenge, protocol, address, challenger, signature]`.

use minicbor::{Decoder, decode};
use thiserror::Error;

use crate::address::{Address, Protocol};
use crate::cbor;
use crate::limits::PROBE_BYTES;
use crate::member::{BadSignature, MemberId, Signature, Signer};

const PING: u8 = 1;
const PONG: u8 = 2;

/// The context of a PONG's signature.
const CONTEXT: &[u8] = b"ringway pong";

/// Asks a member to show that it receives at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// Random; the peer that sends it back has seen this PING.
    pub challenge: [u8; 32],
    /// The member that should answer.
    pub target: MemberId,
    /// The address under test, the one this is sent to.
    pub address: Address,
    /// The member that asks.
    pub challenger: MemberId,
}

impl Ping {
    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        cbor::encode(|e| {
            e.array(6)?.u8(PING)?.bytes(&self.challenge)?;
            e.bytes(&self.target.0)?
                .u8(self.address.protocol().number())?
                .bytes(&self.address.to_wire())?
                .bytes(&self.challenger.0)?;
            Ok(())
        })
    }

    /// Reads a PING.
    ///
    /// # Errors
    /// [`ProbeError`]: the sender misbehaved or is newer; drop the message.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProbeError> {
        let mut decoder = open(bytes, PING)?;
        let challenge = cbor::bytes(&mut decoder)?;
        let target = MemberId(cbor::bytes(&mut decoder)?);
        let address = decode_address(&mut decoder)?;
        let challenger = MemberId(cbor::bytes(&mut decoder)?);
        cbor::end(&decoder)?;
        Ok(Self {
            challenge,
            target,
            address,
            challenger,
        })
    }
}

/// The answer to a [`Ping`], signed by its target over all that it repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pong {
    /// The PING's.
    pub challenge: [u8; 32],
    /// The PING's address under test.
    pub address: Address,
    /// The PING's sender.
    pub challenger: MemberId,
    /// By the PING's target.
    pub signature: Signature,
}

impl Pong {
    /// Answers a PING. [`Validator::handle_ping`](super::Validator::handle_ping) says whether to.
    pub fn sign(ping: &Ping, signer: &dyn Signer) -> Self {
        let signed = signed(&ping.challenge, &ping.address, &ping.challenger);
        Self {
            challenge: ping.challenge,
            address: ping.address.clone(),
            challenger: ping.challenger,
            signature: signer.sign(CONTEXT, &signed),
        }
    }

    /// Checks that `member` signed it.
    ///
    /// # Errors
    /// [`BadSignature`] if it did not.
    pub fn verify(&self, member: &MemberId) -> Result<(), BadSignature> {
        let signed = signed(&self.challenge, &self.address, &self.challenger);
        member.verify(CONTEXT, &signed, &self.signature)
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        cbor::encode(|e| {
            e.array(6)?.u8(PONG)?.bytes(&self.challenge)?;
            e.u8(self.address.protocol().number())?
                .bytes(&self.address.to_wire())?
                .bytes(&self.challenger.0)?
                .bytes(&self.signature)?;
            Ok(())
        })
    }

    /// Reads a PONG. Its signature is verified by [`Self::verify`], against the member that was
    /// asked.
    ///
    /// # Errors
    /// [`ProbeError`]: the sender misbehaved or is newer; drop the message.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProbeError> {
        let mut decoder = open(bytes, PONG)?;
        let challenge = cbor::bytes(&mut decoder)?;
        let address = decode_address(&mut decoder)?;
        let challenger = MemberId(cbor::bytes(&mut decoder)?);
        let signature = cbor::bytes(&mut decoder)?;
        cbor::end(&decoder)?;
        Ok(Self {
            challenge,
            address,
            challenger,
            signature,
        })
    }
}

fn signed(challenge: &[u8; 32], address: &Address, challenger: &MemberId) -> Vec<u8> {
    cbor::encode(|e| {
        e.array(4)?.bytes(challenge)?;
        e.u8(address.protocol().number())?
            .bytes(&address.to_wire())?
            .bytes(&challenger.0)?;
        Ok(())
    })
}

fn open(bytes: &[u8], expected: u8) -> Result<Decoder<'_>, ProbeError> {
    if bytes.len() > PROBE_BYTES {
        return Err(ProbeError::TooLong { size: bytes.len() });
    }
    let mut decoder = Decoder::new(bytes);
    cbor::array(&mut decoder, 6)?;
    let kind = decoder.u8()?;
    if kind == expected {
        Ok(decoder)
    } else {
        Err(ProbeError::Kind { kind, expected })
    }
}

fn decode_address(decoder: &mut Decoder<'_>) -> Result<Address, ProbeError> {
    let number = decoder.u8()?;
    let bytes = decoder.bytes()?;
    let protocol = Protocol::from_number(number).ok_or(ProbeError::Protocol { number })?;
    Address::from_wire(protocol, bytes)
        .ok_or_else(|| decode::Error::message("address of another length").into())
}

/// Why bytes are no PING or no PONG.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The peer misbehaved: none is that long.
    #[error("the message has {size} bytes, a PING or PONG at most {PROBE_BYTES}; drop it")]
    TooLong {
        /// Bytes received.
        size: usize,
    },
    /// Another message.
    #[error("the message is of kind {kind}, not {expected}; drop it")]
    Kind {
        /// Its kind.
        kind: u8,
        /// 1 for a PING, 2 for a PONG.
        expected: u8,
    },
    /// The peer is newer.
    #[error("transport protocol {number} is unknown to this program; update it")]
    Protocol {
        /// The protocol's number.
        number: u8,
    },
    /// The peer misbehaved: not the bytes of such a message.
    #[error("the message is malformed ({0}); drop it")]
    Malformed(#[from] decode::Error),
}
