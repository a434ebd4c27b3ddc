//! Messages signed with a TSIG key (RFC 8945), and answers whose signature has been checked.
//!
//! hickory has the wire forms and what is signed; the MAC is made here, because its own signer
//! keeps the secret in memory that it does not clear.

use aws_lc_rs::hmac;
use hickory_proto::ProtoError;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::DNSClass;
use hickory_proto::rr::rdata::tsig::{
    TSIG, TsigError, make_tsig_record, message_tbs, signed_bitmessage_to_buf,
};

use super::fault::Fault;
use super::key::TsigKey;
use crate::limits::TSIG_FUDGE;

/// A message on its way, and what its answer's signature covers of it.
pub(super) struct Sealed {
    pub(super) bytes: Vec<u8>,
    mac: Vec<u8>,
}

/// Signs `message` at `now`, in Unix seconds.
pub(super) fn seal(mut message: Message, key: &TsigKey, now: u64) -> Result<Sealed, ProtoError> {
    let stub = TSIG::new(
        key.algorithm.clone(),
        now,
        TSIG_FUDGE,
        Vec::new(),
        message.id,
        None,
        Vec::new(),
    );
    let signed = message_tbs(&message, &stub, &key.name)?;
    let mac = hmac::sign(&key.mac, &signed).as_ref().to_vec();
    let record = make_tsig_record(key.name.clone(), stub.set_mac(mac.clone()));
    message.set_signature(Box::new(record));
    let bytes = message.to_vec()?;
    Ok(Sealed { bytes, mac })
}

/// The response to `request`, if it was signed with the key within the last minutes.
pub(super) fn open(
    bytes: &[u8],
    request: &Sealed,
    key: &TsigKey,
    now: u64,
) -> Result<Message, Fault> {
    // First as a whole: hickory's function below adds up counts that only a message that was read
    // is sure to have.
    let message = Message::from_vec(bytes).map_err(|_| Fault::Malformed)?;
    let Some(signature) = message.signature() else {
        return Err(Fault::Unsigned(message.response_code));
    };
    let name = || super::shown(&key.name);
    // These two come unsigned (RFC 8945 §5.3.2). A forger gains no more than by silence.
    match signature.data.error {
        Some(TsigError::BadKey) => {
            return Err(Fault::BadKey {
                key: name(),
                algorithm: key.algorithm.to_string(),
            });
        }
        Some(TsigError::BadSig) => return Err(Fault::BadSignature { key: name() }),
        _ => {}
    }
    let (signed, record) =
        signed_bitmessage_to_buf(bytes, Some(&request.mac), true).map_err(|_| Fault::Malformed)?;
    // RFC 8945 §4.2; the signature covers what they must be, not what they are.
    if record.dns_class != DNSClass::ANY || record.ttl != 0 {
        return Err(Fault::Malformed);
    }
    let tsig = &record.data;
    if record.name != key.name || tsig.algorithm != key.algorithm {
        return Err(Fault::OtherKey { key: name() });
    }
    hmac::verify(&key.mac, &signed, &tsig.mac).map_err(|_| Fault::Forged { key: name() })?;
    if tsig.error == Some(TsigError::BadTime) {
        return Err(Fault::BadTime {
            seconds: server_time(&tsig.other).map(|theirs| theirs.abs_diff(now)),
        });
    }
    if let Some(error) = tsig.error {
        return Err(Fault::Code(ResponseCode::from(0, low_byte(error))));
    }
    let difference = tsig.time.abs_diff(now);
    if difference > u64::from(TSIG_FUDGE) {
        let seconds = Some(difference);
        return Err(Fault::BadTime { seconds });
    }
    Ok(message)
}

fn low_byte(error: TsigError) -> u8 {
    let [_, low] = u16::from(error).to_be_bytes();
    low
}

/// RFC 8945 §5.2.3: the server's own time, 48 bits.
fn server_time(other: &[u8]) -> Option<u64> {
    let other: [u8; 6] = other.try_into().ok()?;
    let [a, b, c, d, e, f] = other;
    Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// What the fuzzer tries: nothing is taken for the server's that it has not signed, and no text is
/// too odd for a key.
#[cfg(feature = "fuzzing")]
pub(super) fn decode_anything(data: &[u8]) {
    let name = hickory_proto::rr::Name::from_ascii("ring-update.");
    let Ok(name) = name else { return };
    let key = TsigKey {
        name,
        algorithm: hickory_proto::rr::rdata::tsig::TsigAlgorithm::HmacSha256,
        mac: hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]),
    };
    let request = Sealed {
        bytes: Vec::new(),
        mac: vec![9; 32],
    };
    assert!(open(data, &request, &key, 1_700_000_000).is_err());
    if let Ok(text) = std::str::from_utf8(data) {
        TsigKey::parse(text, std::path::Path::new("key")).ok();
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{MessageType, OpCode};
    use hickory_proto::rr::Name;
    use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
    use proptest::prelude::*;

    use super::*;

    fn key(secret: u8) -> TsigKey {
        TsigKey {
            name: Name::from_ascii("ring-update.").unwrap(),
            algorithm: TsigAlgorithm::HmacSha256,
            mac: hmac::Key::new(hmac::HMAC_SHA256, &[secret; 32]),
        }
    }

    /// As a server does it: over the request's MAC, its length first, and the answer.
    fn answer(request: &Sealed, key: &TsigKey, time: u64, error: Option<TsigError>) -> Vec<u8> {
        let mut message = Message::response(7, OpCode::Update);
        let mut stub = TSIG::new(
            key.algorithm.clone(),
            time,
            300,
            Vec::new(),
            7,
            error,
            Vec::new(),
        );
        if error == Some(TsigError::BadTime) {
            stub.other = (time + 1000).to_be_bytes()[2..].to_vec();
        }
        let mut signed = u16::try_from(request.mac.len())
            .unwrap()
            .to_be_bytes()
            .to_vec();
        signed.extend_from_slice(&request.mac);
        signed.extend(message_tbs(&message, &stub, &key.name).unwrap());
        let mac = match error {
            Some(TsigError::BadSig | TsigError::BadKey) => Vec::new(),
            _ => hmac::sign(&key.mac, &signed).as_ref().to_vec(),
        };
        message.set_signature(Box::new(make_tsig_record(
            key.name.clone(),
            stub.set_mac(mac),
        )));
        message.to_vec().unwrap()
    }

    fn request(key: &TsigKey) -> Sealed {
        seal(
            Message::new(7, MessageType::Query, OpCode::Update),
            key,
            5000,
        )
        .unwrap()
    }

    #[test]
    fn only_a_response_signed_for_its_request_counts() {
        let key = key(1);
        let sent = request(&key);
        let bytes = answer(&sent, &key, 5001, None);
        assert_eq!(open(&bytes, &sent, &key, 5002).unwrap().id, 7);
        let other = seal(
            Message::new(8, MessageType::Query, OpCode::Update),
            &key,
            5000,
        )
        .unwrap();
        assert!(matches!(
            open(&bytes, &other, &key, 5002),
            Err(Fault::Forged { .. })
        ));
        let late = open(&bytes, &sent, &key, 6000);
        assert!(matches!(late, Err(Fault::BadTime { seconds: Some(999) })));
    }

    #[test]
    fn every_changed_bit_of_an_answer_is_noticed() {
        let key = key(1);
        let sent = request(&key);
        let bytes = answer(&sent, &key, 5001, None);
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[index] ^= 1 << bit;
                match open(&changed, &sent, &key, 5002) {
                    Err(_) => {}
                    // Not signed: the message's own id (the original one is), the header's reserved
                    // bit, the case of names.
                    Ok(message) => {
                        let reserved = (index, bit) == (3, 6);
                        let harmless = message.id != 7 || reserved || bit == 5;
                        assert!(harmless, "byte {index} bit {bit}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_refusal_is_told_from_the_others() {
        let key = key(1);
        let sent = request(&key);
        let of = |error| open(&answer(&sent, &key, 5000, error), &sent, &key, 5000).unwrap_err();
        assert!(matches!(of(Some(TsigError::BadKey)), Fault::BadKey { .. }));
        assert!(matches!(
            of(Some(TsigError::BadSig)),
            Fault::BadSignature { .. }
        ));
        let badtime = of(Some(TsigError::BadTime));
        assert!(
            matches!(
                badtime,
                Fault::BadTime {
                    seconds: Some(1000)
                }
            ),
            "{badtime:?}"
        );
        let unsigned = Message::error_msg(7, OpCode::Update, ResponseCode::Refused);
        let unsigned = open(&unsigned.to_vec().unwrap(), &sent, &key, 5000);
        assert!(matches!(
            unsigned,
            Err(Fault::Unsigned(ResponseCode::Refused))
        ));
        let foreign = answer(&sent, &super::tests::key(2), 5000, None);
        assert!(matches!(
            open(&foreign, &sent, &key, 5000),
            Err(Fault::Forged { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), counts in any::<[u8; 8]>()) {
            let key = key(1);
            let sent = request(&key);
            prop_assert!(open(&bytes, &sent, &key, 0).is_err());
            let mut real = answer(&sent, &key, 5001, None);
            real[4..12].copy_from_slice(&counts);
            open(&real, &sent, &key, 5001).ok();
        }
    }
}
