//! HELLO: a member's signed statement of the addresses at which it can be reached.
//!
//! On the wire `[body, signature]`, both byte strings; the body is the array
//! `[version, member, sequence, [[protocol, address, mtu, cost, direction, latency, quota], …]]`.
//! The signature covers the body's bytes as they travel, so nothing is encoded again to verify.

use bytes::Bytes;
use minicbor::{Decoder, decode};
use thiserror::Error;

use crate::address::{Address, AddressDescriptor, Direction, LatencyClass, Protocol};
use crate::cbor;
use crate::limits::{ADDRESS_BYTES, HELLO_ADDRESSES, HELLO_BYTES};
use crate::member::{BadSignature, MemberId, Signature, Signer};

/// The version that is written and read.
const VERSION: u8 = 1;

/// The context of a HELLO's signature.
const CONTEXT: &[u8] = b"ringway hello";

/// A HELLO whose signature is valid. It cannot be held otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    member: MemberId,
    sequence: u64,
    addresses: Vec<AddressDescriptor>,
    encoded: Bytes,
}

impl Hello {
    /// Signs a HELLO. `sequence` must exceed that of every earlier HELLO of this member: keep it
    /// across restarts, or take the time in milliseconds. An address named twice is kept once.
    ///
    /// # Errors
    /// `TooManyAddresses` past [`HELLO_ADDRESSES`].
    pub fn sign(
        signer: &dyn Signer,
        sequence: u64,
        addresses: Vec<AddressDescriptor>,
    ) -> Result<Self, HelloError> {
        let addresses = without_duplicates(addresses);
        if addresses.len() > HELLO_ADDRESSES {
            return Err(HelloError::TooManyAddresses {
                count: u64::try_from(addresses.len()).unwrap_or(u64::MAX),
            });
        }
        let member = signer.member();
        let body = encode_body(&member, sequence, &addresses);
        let signature = signer.sign(CONTEXT, &body);
        let encoded = cbor::encode(|e| {
            e.array(2)?.bytes(&body)?.bytes(&signature)?;
            Ok(())
        });
        Ok(Self {
            member,
            sequence,
            addresses,
            encoded: encoded.into(),
        })
    }

    /// Reads a HELLO and verifies its signature. Addresses of unknown protocols, directions or
    /// latency classes are left out; they still travel on with [`Self::encoded`].
    ///
    /// # Errors
    /// [`HelloError`]: the sender misbehaved or speaks another version; drop the HELLO.
    pub fn decode(bytes: &[u8]) -> Result<Self, HelloError> {
        if bytes.len() > HELLO_BYTES {
            return Err(HelloError::TooLong { size: bytes.len() });
        }
        let (body, signature) = decode_envelope(bytes)?;
        let mut decoder = Decoder::new(body);
        cbor::array(&mut decoder, 4)?;
        let version = decoder.u8()?;
        if version != VERSION {
            return Err(HelloError::Version { version });
        }
        let member = MemberId(cbor::bytes(&mut decoder)?);
        // Before the addresses: what is not signed is not worth reading.
        member.verify(CONTEXT, body, &signature)?;
        let sequence = decoder.u64()?;
        let addresses = decode_addresses(&mut decoder)?;
        cbor::end(&decoder)?;
        Ok(Self {
            member,
            sequence,
            addresses: without_duplicates(addresses),
            encoded: Bytes::copy_from_slice(bytes),
        })
    }

    /// The bytes as they were signed or received, to be passed on.
    pub const fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// The member that signed.
    pub const fn member(&self) -> MemberId {
        self.member
    }

    /// Which of a member's HELLOs this is; the highest counts.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The addresses that this version understands, at most [`HELLO_ADDRESSES`], in the signer's
    /// order.
    pub fn addresses(&self) -> &[AddressDescriptor] {
        &self.addresses
    }
}

/// Each endpoint once, the first descriptor of it, as it travels.
fn without_duplicates(addresses: Vec<AddressDescriptor>) -> Vec<AddressDescriptor> {
    let mut kept: Vec<AddressDescriptor> = Vec::new();
    for mut descriptor in addresses {
        descriptor.address = descriptor.address.canonical();
        if !kept.iter().any(|k| k.address == descriptor.address) {
            kept.push(descriptor);
        }
    }
    kept
}

fn encode_body(member: &MemberId, sequence: u64, addresses: &[AddressDescriptor]) -> Vec<u8> {
    cbor::encode(|e| {
        e.array(4)?.u8(VERSION)?.bytes(&member.0)?.u64(sequence)?;
        e.array(u64::try_from(addresses.len()).unwrap_or(u64::MAX))?;
        for descriptor in addresses {
            e.array(7)?
                .u8(descriptor.protocol().number())?
                .bytes(&descriptor.address.to_wire())?
                .u32(descriptor.mtu)?
                .u32(descriptor.cost)?
                .u8(descriptor.direction.number())?
                .u8(descriptor.latency.number())?
                .encode(descriptor.quota)?;
        }
        Ok(())
    })
}

fn decode_envelope(bytes: &[u8]) -> Result<(&[u8], Signature), HelloError> {
    let mut decoder = Decoder::new(bytes);
    cbor::array(&mut decoder, 2)?;
    let body = decoder.bytes()?;
    let signature = cbor::bytes(&mut decoder)?;
    cbor::end(&decoder)?;
    Ok((body, signature))
}

fn decode_addresses(decoder: &mut Decoder<'_>) -> Result<Vec<AddressDescriptor>, HelloError> {
    let count = decoder
        .array()?
        .ok_or_else(|| decode::Error::message("array without a length"))?;
    if count > u64::try_from(HELLO_ADDRESSES).unwrap_or(u64::MAX) {
        return Err(HelloError::TooManyAddresses { count });
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        addresses.extend(decode_descriptor(decoder)?);
    }
    Ok(addresses)
}

/// Reads one descriptor; `None` for one that only a later version understands.
fn decode_descriptor(decoder: &mut Decoder<'_>) -> Result<Option<AddressDescriptor>, HelloError> {
    cbor::array(decoder, 7)?;
    let protocol = Protocol::from_number(decoder.u8()?);
    let bytes = decoder.bytes()?;
    if bytes.len() > ADDRESS_BYTES {
        return Err(decode::Error::message("address too long").into());
    }
    let mtu = decoder.u32()?;
    let cost = decoder.u32()?;
    let direction = Direction::from_number(decoder.u8()?);
    let latency = LatencyClass::from_number(decoder.u8()?);
    let quota = decoder.decode()?;
    let (Some(protocol), Some(direction), Some(latency)) = (protocol, direction, latency) else {
        return Ok(None);
    };
    let address = Address::from_wire(protocol, bytes)
        .ok_or_else(|| decode::Error::message("address of another length"))?;
    Ok(Some(AddressDescriptor {
        address,
        mtu,
        cost,
        direction,
        latency,
        quota,
    }))
}

/// Why a HELLO was not signed or not believed.
#[derive(Debug, Error)]
pub enum HelloError {
    /// The peer misbehaved: no HELLO is that long.
    #[error("the HELLO has {size} bytes, at most {HELLO_BYTES} are allowed; drop it")]
    TooLong {
        /// Bytes received.
        size: usize,
    },
    /// The peer misbehaved, or we named too many addresses.
    #[error("the HELLO names {count} addresses, at most {HELLO_ADDRESSES} are allowed; name fewer")]
    TooManyAddresses {
        /// Addresses named.
        count: u64,
    },
    /// The peer speaks another version.
    #[error("the HELLO has version {version}, this program reads {VERSION}; update one of the two")]
    Version {
        /// The version it has.
        version: u8,
    },
    /// The peer misbehaved: not the bytes of a HELLO.
    #[error("the HELLO is malformed ({0}); drop it")]
    Malformed(#[from] decode::Error),
    /// Somebody misbehaved: the member did not sign this.
    #[error("the HELLO is forged or altered: {0}")]
    Forged(#[from] BadSignature),
}
