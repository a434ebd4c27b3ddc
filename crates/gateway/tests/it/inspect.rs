//! What decoders tell, however their input is cut.

mod http;
mod irc;
mod msn;
mod push;
mod xmpp;

use proptest::prelude::*;
use ringway_gateway::flow::Direction;
use ringway_gateway::inspect::{Decoder, Expected, FileForm, FileHead, Message, Seen, decoder};

/// Bytes of one direction, or its end.
#[derive(Clone, Debug)]
enum Step {
    Client(Vec<u8>),
    Server(Vec<u8>),
    ClientEnds,
    ServerEnds,
}

fn client(bytes: impl AsRef<[u8]>) -> Step {
    Step::Client(bytes.as_ref().to_vec())
}

fn server(bytes: impl AsRef<[u8]>) -> Step {
    Step::Server(bytes.as_ref().to_vec())
}

/// [`Seen`], owned; data that belongs together is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Offer(FileHead),
    Begin(FileHead),
    Data(String),
    End,
    Message(Message),
    Expect(Expected),
    Lost(&'static str),
}

/// A file with a name.
fn named(name: &str) -> FileHead {
    FileHead {
        name: Some(name.to_owned()),
        ..FileHead::default()
    }
}

fn offer(name: &str, sender: Direction) -> Told {
    Told::Offer(FileHead {
        sender: Some(sender),
        ..named(name)
    })
}

/// A file that a direction sends.
fn begin(name: Option<&str>, kind: Option<&str>, size: Option<u64>, sender: Direction) -> Told {
    Told::Begin(FileHead {
        name: name.map(str::to_owned),
        kind: kind.map(str::to_owned),
        size,
        sender: Some(sender),
        ..FileHead::default()
    })
}

/// The same of which only a part comes.
fn begin_part(
    name: Option<&str>,
    kind: Option<&str>,
    size: Option<u64>,
    sender: Direction,
) -> Told {
    match begin(name, kind, size, sender) {
        Told::Begin(head) => Told::Begin(FileHead {
            form: FileForm::Part,
            ..head
        }),
        other => other,
    }
}

fn data(text: &str) -> Told {
    Told::Data(text.to_owned())
}

fn message(text: &str, from: Option<&str>, to: Option<&str>) -> Told {
    Told::Message(Message {
        text: text.to_owned(),
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    })
}

/// Adds what was seen.
fn add(told: &mut Vec<Told>, seen: Seen<'_>) {
    let next = match seen {
        Seen::Offer(head) => Told::Offer(head),
        Seen::Begin(head) => Told::Begin(head),
        Seen::Data(bytes) => {
            assert!(!bytes.is_empty());
            let text: String = bytes.iter().copied().map(char::from).collect();
            if let Some(Told::Data(before)) = told.last_mut() {
                before.push_str(&text);
                return;
            }
            Told::Data(text)
        }
        Seen::End => Told::End,
        Seen::Message(message) => Told::Message(message),
        Seen::Expect(expected) => Told::Expect(expected),
        Seen::Lost(reason) => Told::Lost(reason),
    };
    told.push(next);
}

/// Makes a new decoder for each run.
type Make<'a> = &'a dyn Fn() -> Box<dyn Decoder>;

/// What was told, and what must hold between its parts.
#[derive(Default)]
struct Record {
    told: Vec<Told>,
    /// Directions with an open file.
    open: Vec<Direction>,
}

impl Record {
    /// Adds what was seen while a direction was handled: files belong to it, and nothing follows a
    /// loss.
    fn add(&mut self, direction: Direction, seen: Seen<'_>) {
        assert!(!matches!(self.told.last(), Some(Told::Lost(_))), "{seen:?}");
        match &seen {
            Seen::Begin(head) => {
                assert_eq!(head.sender, Some(direction));
                // One that is cut off has no end.
                self.open.retain(|open| *open != direction);
                self.open.push(direction);
            }
            Seen::Data(_) => assert!(self.open.contains(&direction), "{seen:?}"),
            Seen::End => {
                assert!(self.open.contains(&direction));
                self.open.retain(|open| *open != direction);
            }
            _ => {}
        }
        add(&mut self.told, seen);
    }
}

/// What a decoder tells when each step comes in pieces of these lengths, again and again.
fn run_cut(make: Make<'_>, steps: &[Step], lengths: &[usize]) -> Vec<Told> {
    use Direction::{FromClient, FromServer};
    let mut decoder = make();
    let mut record = Record::default();
    let mut lengths = lengths.iter().cycle();
    for step in steps {
        let (direction, mut bytes) = match step {
            Step::Client(bytes) => (FromClient, bytes.as_slice()),
            Step::Server(bytes) => (FromServer, bytes.as_slice()),
            Step::ClientEnds | Step::ServerEnds => {
                let from_client = matches!(step, Step::ClientEnds);
                let direction = if from_client { FromClient } else { FromServer };
                decoder.handle_end(direction, &mut |seen| record.add(direction, seen));
                continue;
            }
        };
        while !bytes.is_empty() {
            let length = (*lengths.next().unwrap()).clamp(1, bytes.len());
            let (piece, rest) = bytes.split_at(length);
            decoder.handle_data(direction, piece, &mut |seen| record.add(direction, seen));
            assert!(decoder.held() < 2_000_000);
            bytes = rest;
        }
    }
    record.told
}

/// What a decoder tells; the same for all cuts of the input in two, and byte by byte.
fn run_made(make: Make<'_>, steps: &[Step]) -> Vec<Told> {
    let whole = run_cut(make, steps, &[usize::MAX]);
    assert_eq!(run_cut(make, steps, &[1]), whole, "byte by byte");
    let longest = steps.iter().map(|step| match step {
        Step::Client(bytes) | Step::Server(bytes) => bytes.len(),
        Step::ClientEnds | Step::ServerEnds => 0,
    });
    let longest = longest.max().unwrap_or_default();
    for at in 1..longest.min(1_000) {
        assert_eq!(
            run_cut(make, steps, &[at, usize::MAX]),
            whole,
            "cut at {at}"
        );
    }
    whole
}

fn run(application: &str, steps: &[Step]) -> Vec<Told> {
    run_made(&|| decoder(application).unwrap(), steps)
}

/// Conversations that lead deep into each decoder.
fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    [
        http::seeds(),
        irc::seeds(),
        msn::seeds(),
        push::seeds(),
        xmpp::seeds(),
    ]
    .concat()
}

#[derive(Clone, Debug)]
struct Mutation {
    step: prop::sample::Index,
    at: prop::sample::Index,
    remove: usize,
    insert: Vec<u8>,
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let insert = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        prop::sample::select(vec![
            b"\r\n".to_vec(),
            b"\n".to_vec(),
            b"\0".to_vec(),
            b":".to_vec(),
            b" ".to_vec(),
            b"<".to_vec(),
            b">".to_vec(),
            b"--".to_vec(),
            b"99999999999999999999".to_vec(),
            b"ffffffffffffffff".to_vec(),
        ]),
    ];
    let mutation = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0..8_usize,
        insert,
    )
        .prop_map(|(step, at, remove, insert)| Mutation {
            step,
            at,
            remove,
            insert,
        });
    prop::collection::vec(mutation, 0..4)
}

fn mutate(steps: &mut [Step], mutations: &[Mutation]) {
    for mutation in mutations {
        let count = steps.len();
        if let Step::Client(bytes) | Step::Server(bytes) = &mut steps[mutation.step.index(count)] {
            let at = mutation.at.index(bytes.len() + 1);
            let end = (at + mutation.remove).min(bytes.len());
            bytes.splice(at..end, mutation.insert.iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn cuts_change_nothing_also_in_damaged_input(
        seed in any::<prop::sample::Index>(),
        mutations in mutations(),
        lengths in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let seeds = seeds();
        let (application, mut steps) = seeds[seed.index(seeds.len())].clone();
        mutate(&mut steps, &mutations);
        let make = || made(application);
        let whole = run_cut(&make, &steps, &[usize::MAX]);
        prop_assert_eq!(run_cut(&make, &steps, &lengths), whole.clone());
        prop_assert_eq!(run_cut(&make, &steps, &[1]), whole);
    }

    #[test]
    fn random_bytes_never_panic(
        seed in any::<prop::sample::Index>(),
        pieces in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20),
    ) {
        let seeds = seeds();
        let (application, _) = seeds[seed.index(seeds.len())].clone();
        let steps: Vec<Step> = pieces
            .into_iter()
            .map(|(asks, bytes)| if asks { client(bytes) } else { server(bytes) })
            .collect();
        let make = || made(application);
        prop_assert_eq!(run_cut(&make, &steps, &[usize::MAX]), run_cut(&make, &steps, &[1, 3]));
    }
}

/// The decoder of an application, as a connection that nothing announced has it.
fn made(application: &str) -> Box<dyn Decoder> {
    decoder(application).unwrap()
}

#[test]
fn what_cannot_be_read_has_no_decoder() {
    for application in ["bittorrent", "tls", "edonkey", "unknown", ""] {
        assert!(decoder(application).is_none(), "{application}");
    }
}
