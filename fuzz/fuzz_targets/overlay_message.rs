#![no_main]
//! The overlay's messages: what decodes, encodes to something that decodes to the same.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(record) = ringway_overlay::Record::decode(data) {
        let again = ringway_overlay::Record::decode(&record.encode());
        assert_eq!(again.ok(), Some(record));
    }
    if let Ok(message) = ringway_overlay::Message::decode(data) {
        let again = ringway_overlay::Message::decode(&message.encode());
        assert_eq!(again.ok(), Some(message));
    }
});
