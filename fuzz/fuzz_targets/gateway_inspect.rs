#![no_main]
//! Content decoders: whole, and cut into single bytes. Both must tell the same.

use ringway_gateway::flow::Direction;
use ringway_gateway::inspect::{Seen, decoder};

const APPLICATIONS: [&str; 10] = [
    "http",
    "gnutella",
    "fasttrack",
    "msn",
    "msnftp",
    "xmpp",
    "xmpp-bytestream",
    "irc",
    "dcc",
    "dcc-chat",
];

/// What is told, with data apart, as its pieces follow the input's.
fn told(application: &str, steps: &[(Direction, &[u8])], most: usize) -> (Vec<String>, Vec<u8>) {
    let (mut told, mut data) = (Vec::new(), Vec::new());
    let Some(mut decoder) = decoder(application) else {
        return (told, data);
    };
    let mut tell = |seen: Seen<'_>| match seen {
        Seen::Data(bytes) => data.extend_from_slice(bytes),
        other => told.push(format!("{other:?}")),
    };
    for (direction, bytes) in steps {
        for piece in bytes.chunks(most) {
            decoder.handle_data(*direction, piece, &mut tell);
        }
    }
    decoder.handle_end(Direction::FromClient, &mut tell);
    decoder.handle_end(Direction::FromServer, &mut tell);
    (told, data)
}

// The first byte chooses the application; 0xff changes the direction.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    let application = APPLICATIONS[usize::from(first) % APPLICATIONS.len()];
    let directions = [Direction::FromClient, Direction::FromServer];
    let steps: Vec<(Direction, &[u8])> = directions
        .into_iter()
        .cycle()
        .zip(rest.split(|&byte| byte == 0xff))
        .collect();
    let whole = told(application, &steps, usize::MAX);
    assert_eq!(told(application, &steps, 1), whole);
});
