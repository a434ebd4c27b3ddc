//! Cases one by one, and a model: a receiver that may take any copy of any packet that was passed
//! on.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test ends at the first surprise"
)]

use std::time::Duration;

use proptest::prelude::*;

use super::{Decision, Loss, Output, Position, Refusal, Segment, Stream, StreamBounds};
use crate::limits::{MAX_AHEAD, PART_OVERHEAD};

const ROOM: usize = 1 << 20;
const NOW: Duration = Duration::from_secs(100);

fn data(sequence: u32, payload: &[u8]) -> Segment<'_, u32> {
    Segment {
        sequence,
        payload,
        ..Segment::default()
    }
}

fn syn(sequence: u32) -> Segment<'static, u32> {
    Segment {
        syn: true,
        ..data(sequence, b"")
    }
}

fn fin(sequence: u32, payload: &[u8]) -> Segment<'_, u32> {
    Segment {
        fin: true,
        ..data(sequence, payload)
    }
}

/// A stream with its outputs and its receiver's acknowledgements.
struct Case {
    stream: Stream<u32>,
    output: Output<u32>,
}

impl Case {
    fn new(bounds: StreamBounds) -> Self {
        Self {
            stream: Stream::new(bounds),
            output: Output::default(),
        }
    }

    /// A stream whose SYN has the number 999 and was acknowledged.
    fn open() -> Self {
        let mut case = Self::new(StreamBounds::default());
        assert_eq!(case.push(syn(999)), Decision::Pass);
        case.stream.handle_acknowledgement(1_000);
        case
    }

    fn holding() -> Self {
        Self::new(StreamBounds {
            fast_pass: false,
            ..StreamBounds::default()
        })
    }

    fn push(&mut self, segment: Segment<'_, u32>) -> Decision {
        self.stream
            .handle_segment(NOW, &segment, ROOM, &mut self.output)
    }
}

#[test]
fn segments_are_ordered_across_the_wrap() {
    let mut case = Case::new(StreamBounds::default());
    assert_eq!(case.push(syn(u32::MAX - 3)), Decision::Pass);
    assert_eq!(case.push(data(3, b"fgh")), Decision::Ahead);
    assert_eq!(case.push(data(0, b"cd")), Decision::Ahead);
    assert_eq!(case.push(data(u32::MAX - 2, b"_ab")), Decision::Deliver);
    assert_eq!(case.output.bytes, b"_abcd");
    assert_eq!(case.push(data(2, b"e")), Decision::Deliver);
    assert_eq!(case.output.bytes, b"_abcdefgh");
    assert_eq!(case.stream.poll_timeout(), None);
    assert_eq!(case.stream.delivered(), 9);
}

#[test]
fn repetitions_and_keep_alives_pass() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    for again in [
        data(1_000, b"abcd"),
        data(1_002, b"cd"),
        data(1_004, b""),
        syn(999),
    ] {
        assert_eq!(case.push(again), Decision::Pass, "{again:?}");
    }
    case.stream.handle_acknowledgement(1_004);
    assert_eq!(
        case.push(data(1_003, b"\0")),
        Decision::Pass,
        "a keep-alive with a byte"
    );
    assert_eq!(case.output.bytes, b"abcd");
}

#[test]
fn an_overlap_delivers_its_new_bytes_only() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    assert_eq!(case.push(data(1_002, b"cdef")), Decision::Deliver);
    assert_eq!(case.output.bytes, b"abcdef");
}

#[test]
fn changed_delivered_bytes_are_rewritten_until_acknowledged() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    assert_eq!(
        case.push(data(1_000, b"aXXd")),
        Decision::Conflict(Position::Old)
    );
    assert_eq!(case.output.rewritten, b"abcd");
    assert_eq!(
        case.push(data(1_002, b"XXef")),
        Decision::Conflict(Position::Next)
    );
    assert_eq!(
        (&*case.output.rewritten, &*case.output.bytes),
        (&b"cdef"[..], &b"abcdef"[..])
    );
    case.stream.handle_acknowledgement(1_003);
    assert_eq!(
        case.push(data(1_000, b"XXXd")),
        Decision::Pass,
        "acknowledged"
    );
    assert_eq!(
        case.push(data(1_000, b"XXXX")),
        Decision::Conflict(Position::Old)
    );
    assert_eq!(
        case.output.rewritten, b"XXXd",
        "the receiver discards the first three"
    );
    assert!(case.stream.held() > 0);
    case.stream.handle_acknowledgement(1_006);
    assert_eq!(case.push(data(1_000, b"XXXXXX")), Decision::Pass);
}

#[test]
fn changed_kept_bytes_are_rewritten() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_004, b"efgh")), Decision::Ahead);
    assert_eq!(
        case.push(data(1_006, b"XXij")),
        Decision::Conflict(Position::Ahead)
    );
    assert_eq!(case.output.rewritten, b"ghij");
    assert_eq!(
        case.push(data(1_005, b"XX")),
        Decision::Conflict(Position::Old)
    );
    assert_eq!(case.output.rewritten, b"fg");
    assert_eq!(
        case.push(data(1_000, b"abcdXXXXX")),
        Decision::Conflict(Position::Next)
    );
    assert_eq!(case.output.rewritten, b"abcdefghi");
    assert_eq!(case.output.bytes, b"abcdefghij");
}

#[test]
fn acknowledgements_beyond_delivery_do_not_count() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    for acknowledged in [1_005, 1_000_000, 999, 0] {
        case.stream.handle_acknowledgement(acknowledged);
    }
    assert_eq!(
        case.push(data(1_000, b"XXXX")),
        Decision::Conflict(Position::Old)
    );
}

#[test]
fn the_fin_ends_the_stream_where_it_stands() {
    let mut case = Case::open();
    assert_eq!(case.push(fin(1_004, b"ef")), Decision::Ahead);
    assert!(!case.stream.is_ended());
    assert_eq!(
        case.push(data(1_006, b"g")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(
        case.push(fin(1_002, b"")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    assert!(case.stream.is_ended());
    assert_eq!(case.output.bytes, b"abcdef");
    assert_eq!(case.push(fin(1_006, b"")), Decision::Pass, "repeated");
    assert_eq!(
        case.push(data(1_006, b"g")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(
        case.push(data(1_007, b"")),
        Decision::Pass,
        "an acknowledgement behind the end"
    );
    case.stream.handle_acknowledgement(1_007);
    assert_eq!(case.push(data(1_000, b"XXXX")), Decision::Pass);
}

#[test]
fn an_empty_fin_waits_for_the_gap() {
    let mut case = Case::open();
    assert_eq!(case.push(fin(1_002, b"")), Decision::Ahead);
    assert!(case.stream.poll_timeout().is_some());
    assert_eq!(case.push(data(1_000, b"a")), Decision::Deliver);
    assert!(case.stream.poll_timeout().is_some());
    assert_eq!(case.push(data(1_001, b"b")), Decision::Deliver);
    assert!(case.stream.is_ended());
    assert_eq!(case.stream.poll_timeout(), None);
    let mut bare = Case::open();
    assert_eq!(bare.push(fin(1_000, b"")), Decision::Deliver);
    assert!(bare.stream.is_ended());
}

#[test]
fn a_fin_amid_known_data_is_dropped() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
    assert_eq!(
        case.push(fin(1_003, b"")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(case.push(data(1_008, b"ij")), Decision::Ahead);
    assert_eq!(
        case.push(fin(1_002, b"c")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(
        case.push(fin(1_004, b"efgh")),
        Decision::Drop(Refusal::BehindEnd)
    );
    assert_eq!(case.push(fin(1_006, b"ghij")), Decision::Ahead);
}

#[test]
fn a_reset_counts_with_the_next_number() {
    let mut case = Case::open();
    let reset = |sequence| Segment {
        rst: true,
        ..data(sequence, b"reason")
    };
    assert_eq!(case.push(reset(1_005)), Decision::Pass);
    assert!(!case.stream.is_reset());
    assert_eq!(case.push(reset(1_000)), Decision::Pass);
    assert!(case.stream.is_reset());
    assert_eq!(
        case.push(data(1_000, b"abcd")),
        Decision::Deliver,
        "it may not have arrived"
    );
    assert_eq!(case.output.bytes, b"abcd");
}

#[test]
fn a_second_syn_waits_for_the_receivers_choice() {
    let mut case = Case::new(StreamBounds::default());
    assert_eq!(case.push(syn(999)), Decision::Pass);
    assert_eq!(case.push(syn(5_000)), Decision::Drop(Refusal::OtherNumbers));
    assert_eq!(
        case.push(data(990, b"before")),
        Decision::Drop(Refusal::OtherNumbers)
    );
    for other in [5_001, 900] {
        case.stream.handle_acknowledgement(other);
    }
    assert_eq!(case.push(syn(5_000)), Decision::Drop(Refusal::OtherNumbers));
    case.stream.handle_acknowledgement(1_000);
    assert_eq!(case.push(syn(5_000)), Decision::Pass);
    assert_eq!(case.push(data(990, b"before")), Decision::Pass);
    assert_eq!(case.push(data(1_000, b"abcd")), Decision::Deliver);
}

#[test]
fn data_with_the_syn_follows_it() {
    let mut case = Case::new(StreamBounds::default());
    let opening = Segment {
        payload: b"ab",
        ..syn(999)
    };
    assert_eq!(case.push(opening), Decision::Deliver);
    assert_eq!(case.push(opening), Decision::Pass);
    assert_eq!(case.push(data(1_002, b"cd")), Decision::Deliver);
    assert_eq!(case.output.bytes, b"abcd");
    assert!(!case.stream.is_midway());
}

#[test]
fn midway_the_first_data_begin_the_stream() {
    let mut case = Case::new(StreamBounds::default());
    assert_eq!(case.push(data(77, b"")), Decision::Pass);
    assert_eq!(case.push(data(5_000, b"cd")), Decision::Deliver);
    assert_eq!(case.push(data(4_998, b"abcd")), Decision::Pass);
    assert_eq!(
        case.push(data(4_998, b"abXd")),
        Decision::Conflict(Position::Old)
    );
    assert_eq!(case.output.rewritten, b"abcd");
    assert_eq!(case.push(data(4_998, b"abcdef")), Decision::Deliver);
    assert_eq!(case.output.bytes, b"cdef");
    assert!(case.stream.is_midway());
}

#[test]
fn unkept_segments_are_dropped_for_retransmission() {
    let bounds = StreamBounds {
        ahead: 200,
        ahead_segments: 2,
        ..StreamBounds::default()
    };
    let mut case = Case::new(bounds);
    assert_eq!(case.push(data(0, b"a")), Decision::Deliver);
    assert_eq!(
        case.push(data(3, &[1; 199])),
        Decision::Drop(Refusal::TooFarAhead)
    );
    assert_eq!(case.push(data(11, &[1; 60])), Decision::Ahead);
    assert_eq!(
        case.push(data(81, &[1; 60])),
        Decision::Drop(Refusal::NoRoom),
        "bytes"
    );
    assert_eq!(case.push(data(81, &[1; 10])), Decision::Ahead);
    assert_eq!(
        case.push(data(92, &[1; 1])),
        Decision::Drop(Refusal::NoRoom),
        "number"
    );
    let room = case
        .stream
        .handle_segment(NOW, &data(2, b"x"), 40, &mut case.output);
    assert_eq!(room, Decision::Drop(Refusal::NoRoom), "all streams");
    assert_eq!(case.push(data(1, &[1; 10])), Decision::Deliver);
    assert_eq!(case.push(data(71, &[1; 10])), Decision::Deliver);
    assert_eq!(case.stream.delivered(), 91);
}

#[test]
fn a_window_may_precede_the_missing_segment() {
    let mut case = Case::new(StreamBounds::default());
    let part = [7; 1_448];
    let step = u32::try_from(part.len()).unwrap();
    let take = |case: &mut Case, number: u32| {
        let segment = data(number * step, &part);
        case.stream
            .handle_segment(NOW, &segment, 2 * MAX_AHEAD, &mut case.output)
    };
    assert_eq!(take(&mut case, 0), Decision::Deliver);
    // Linux offers at most half of its 32 MiB.
    let mut number = 2;
    while take(&mut case, number) == Decision::Ahead {
        number += 1;
    }
    let kept = part.len() * usize::try_from(number - 2).unwrap();
    assert!(kept > MAX_AHEAD * 9 / 10, "{kept}");
    assert!(case.stream.held() <= MAX_AHEAD + 4_096);
    assert_eq!(take(&mut case, number), Decision::Drop(Refusal::NoRoom));
    assert_eq!(take(&mut case, 1), Decision::Deliver);
    assert_eq!(case.output.bytes.len(), kept + 2 * part.len());
    assert_eq!(take(&mut case, number), Decision::Deliver);
}

#[test]
fn forgotten_bytes_repeated_lose_the_stream() {
    let two_chunks = 2 * (2 + PART_OVERHEAD);
    for (bound, room) in [(4, ROOM), (1_000, two_chunks)] {
        let mut case = Case::new(StreamBounds {
            unacknowledged: bound,
            ..StreamBounds::default()
        });
        for (at, part) in [(0, b"ab"), (2, b"cd"), (4, b"ef")] {
            let room = room.min(room - case.stream.held().min(room));
            let decision = case
                .stream
                .handle_segment(NOW, &data(at, part), room, &mut case.output);
            assert_eq!(decision, Decision::Deliver);
            assert!(case.stream.held() <= two_chunks, "{}", case.stream.held());
        }
        assert_eq!(
            case.push(data(2, b"cdXX")),
            Decision::Conflict(Position::Old)
        );
        case.stream.handle_acknowledgement(1);
        assert_eq!(case.push(data(0, b"a")), Decision::Pass, "acknowledged");
        assert_eq!(case.push(data(0, b"ab")), Decision::Lost(Loss::Forgotten));
        assert_eq!(case.push(data(6, b"gh")), Decision::Lost(Loss::Forgotten));
        assert_eq!(
            (case.stream.held(), case.stream.loss()),
            (0, Some(Loss::Forgotten))
        );
    }
}

#[test]
fn a_gap_that_stays_gives_the_stream_up() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_001, b"b")), Decision::Ahead);
    let due = case.stream.poll_timeout().unwrap();
    assert_eq!(due, NOW + StreamBounds::default().gap);
    let early = due - Duration::from_nanos(1);
    assert_eq!(case.stream.handle_timeout(early, &mut case.output), None);
    assert_eq!(
        case.stream.handle_timeout(due, &mut case.output),
        Some(Loss::GapTimeout)
    );
    assert_eq!((case.stream.poll_timeout(), case.stream.held()), (None, 0));
    assert_eq!(
        case.push(data(1_000, b"a")),
        Decision::Lost(Loss::GapTimeout)
    );
}

#[test]
fn progress_renews_the_time_for_the_next_gap() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_001, b"b")), Decision::Ahead);
    assert_eq!(case.push(data(1_003, b"d")), Decision::Ahead);
    let later = NOW + Duration::from_secs(30);
    let decision = case
        .stream
        .handle_segment(later, &data(1_000, b"a"), ROOM, &mut case.output);
    assert_eq!(decision, Decision::Deliver);
    assert_eq!(
        case.stream.poll_timeout(),
        Some(later + StreamBounds::default().gap)
    );
}

#[test]
fn without_fast_pass_packets_are_released_in_order() {
    let mut case = Case::holding();
    let named = |token, sequence, payload| Segment {
        token,
        ..data(sequence, payload)
    };
    assert_eq!(case.push(named(1, 10, b"a")), Decision::Deliver);
    assert_eq!(case.push(named(2, 13, b"d")), Decision::Ahead);
    assert_eq!(case.push(named(3, 12, b"c")), Decision::Ahead);
    assert_eq!(
        case.push(named(4, 12, b"c")),
        Decision::Ahead,
        "a copy waits too"
    );
    assert_eq!(case.push(named(5, 15, b"f")), Decision::Ahead);
    assert_eq!(case.push(named(6, 11, b"b")), Decision::Deliver);
    assert_eq!(case.output.released, [3, 4, 2]);
    let due = case.stream.poll_timeout().unwrap();
    assert_eq!(case.stream.handle_timeout(due, &mut case.output), None);
    assert_eq!(case.output.abandoned, [5]);
    assert_eq!(
        case.push(named(7, 14, b"eF")),
        Decision::Deliver,
        "the held copy never went on"
    );
    assert_eq!(case.output.bytes, b"abcdeF");
}

#[test]
fn an_abandoned_fin_may_come_again_elsewhere() {
    let mut case = Case::holding();
    assert_eq!(case.push(data(10, b"a")), Decision::Deliver);
    assert_eq!(case.push(fin(12, b"")), Decision::Ahead);
    let due = case.stream.poll_timeout().unwrap();
    case.stream.handle_timeout(due, &mut case.output);
    assert_eq!(case.push(data(11, b"bcd")), Decision::Deliver);
    assert!(!case.stream.is_ended());
}

#[test]
fn closing_hands_out_what_was_held() {
    let mut case = Case::holding();
    assert_eq!(case.push(data(10, b"a")), Decision::Deliver);
    assert_eq!(case.push(data(12, b"c")), Decision::Ahead);
    case.stream.close(&mut case.output);
    assert_eq!((case.output.abandoned.len(), case.stream.held()), (1, 0));
    assert_eq!(case.push(data(11, b"b")), Decision::Lost(Loss::Closed));
}

#[test]
fn a_cut_packet_loses_the_stream() {
    let mut case = Case::open();
    assert_eq!(case.push(data(1_000, b"ab")), Decision::Deliver);
    let cut = |sequence| Segment {
        truncated: true,
        ..data(sequence, b"ab")
    };
    assert_eq!(case.push(cut(1_000)), Decision::Pass);
    assert_eq!(case.push(cut(1_004)), Decision::Lost(Loss::Truncated));
}

/// One step of a made conversation.
#[derive(Clone, Debug)]
enum Step {
    /// A segment at this position; its bytes are the true ones or others.
    Send { at: usize, length: usize, lie: u8 },
    /// The receiver acknowledges this share (of 255) of what is contiguous.
    Acknowledge(u8),
    /// The true bytes from the beginning of the gap.
    Fill(usize),
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..size, 1..40_usize, prop_oneof![3 => Just(0_u8), 1 => any::<u8>()])
            .prop_map(|(at, length, lie)| Step::Send { at, length, lie }),
        1 => any::<u8>().prop_map(Step::Acknowledge),
        2 => (1..30_usize).prop_map(Step::Fill),
    ]
}

/// The receiver's view: of every position all bytes that any passed packet brought there.
struct Model {
    first: Vec<Option<u8>>,
    acknowledged: usize,
}

impl Model {
    /// A packet that was passed on: it has the first copies, save where the receiver discards.
    fn receive(&mut self, at: usize, payload: &[u8]) {
        for (place, &byte) in (at..).zip(payload) {
            let first = *self.first[place].get_or_insert(byte);
            assert!(
                first == byte || place < self.acknowledged,
                "two bytes at {place}"
            );
        }
    }

    fn contiguous(&self) -> Vec<u8> {
        self.first.iter().map_while(|byte| *byte).collect()
    }
}

const SIZE: usize = 300;

struct Run {
    case: Case,
    model: Model,
    isn: u32,
    room: usize,
    held: Vec<(u32, usize, Vec<u8>)>,
    token: u32,
}

impl Run {
    fn send(&mut self, at: usize, length: usize, lie: u8) -> Decision {
        let payload: Vec<u8> = (at..SIZE.min(at + length))
            .map(|place| u8::try_from(place % 251).unwrap() ^ lie)
            .collect();
        let sequence = self.isn.wrapping_add(1 + u32::try_from(at).unwrap());
        let before = self.case.stream.held();
        self.token += 1;
        let segment = Segment {
            token: self.token,
            fin: at + payload.len() == SIZE,
            ..data(sequence, &payload)
        };
        let room = self.room.saturating_sub(before);
        let decision = self
            .case
            .stream
            .handle_segment(NOW, &segment, room, &mut self.case.output);
        assert!(self.case.stream.held() <= self.room.max(before));
        let sent = match decision {
            Decision::Conflict(_) => {
                assert_ne!(self.case.output.rewritten, payload);
                std::mem::take(&mut self.case.output.rewritten)
            }
            _ => payload.clone(),
        };
        assert_eq!(sent.len(), segment.payload.len());
        match decision {
            Decision::Ahead | Decision::Conflict(Position::Ahead)
                if !self.case.stream.bounds().fast_pass =>
            {
                self.held.push((self.token, at, sent));
            }
            Decision::Drop(_) | Decision::Lost(_) => {}
            _ => self.model.receive(at, &sent),
        }
        for token in std::mem::take(&mut self.case.output.released) {
            let place = self.held.iter().position(|held| held.0 == token).unwrap();
            let (_, at, sent) = self.held.swap_remove(place);
            self.model.receive(at, &sent);
        }
        assert!(self.case.output.abandoned.is_empty() || self.case.stream.loss().is_some());
        decision
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send { at, length, lie } => {
                let _any = self.send(at, length, lie);
            }
            Step::Fill(length) => {
                let _any = self.send(self.case.output.bytes.len(), length, 0);
            }
            Step::Acknowledge(share) => {
                let most = self.case.output.bytes.len();
                let new = most * usize::from(share) / 255;
                self.model.acknowledged = self.model.acknowledged.max(new);
                let number = u32::try_from(new).unwrap() + 1;
                self.case
                    .stream
                    .handle_acknowledgement(self.isn.wrapping_add(number));
            }
        }
        if self.case.stream.loss().is_none() {
            assert_eq!(self.case.output.bytes, self.model.contiguous());
        }
    }
}

fn run(bounds: StreamBounds, isn: u32, room: usize) -> Run {
    let mut case = Case::new(bounds);
    assert_eq!(case.push(syn(isn)), Decision::Pass);
    case.stream.handle_acknowledgement(isn.wrapping_add(1));
    Run {
        case,
        model: Model {
            first: vec![None; SIZE],
            acknowledged: 0,
        },
        isn,
        room,
        held: Vec::new(),
        token: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// With room enough, all bytes arrive, each as its first copy, whatever was sent before in
    /// whatever order.
    #[test]
    fn the_delivered_bytes_are_the_first_copies(
        steps in prop::collection::vec(step(SIZE), 0..80),
        isn in prop_oneof![any::<u32>(), (u32::MAX - 320)..=u32::MAX],
        fast_pass in any::<bool>(),
    ) {
        let bounds = StreamBounds { fast_pass, ..StreamBounds::default() };
        let mut run = run(bounds, isn, ROOM);
        for step in &steps {
            run.take(step);
        }
        for at in (0..SIZE).step_by(7) {
            run.take(&Step::Send { at, length: 7, lie: 0 });
        }
        prop_assert_eq!(run.case.stream.loss(), None);
        prop_assert!(run.case.stream.is_ended());
        prop_assert_eq!(run.case.output.bytes.len(), SIZE);
        prop_assert!(run.held.is_empty());
        run.case.stream.handle_acknowledgement(isn.wrapping_add(302));
        prop_assert!(run.case.stream.held() <= 16_384);
    }

    /// Within tight bounds memory stays there, and still no two copies of a byte are passed on.
    #[test]
    fn tight_bounds_drop_and_pass_nothing_unseen(
        steps in prop::collection::vec(step(SIZE), 0..80),
        isn in any::<u32>(),
        fast_pass in any::<bool>(),
        ahead in 0_usize..400,
        unacknowledged in 0_usize..300,
        room in 0_usize..600,
    ) {
        let bounds = StreamBounds { fast_pass, ahead, ahead_segments: 3, unacknowledged, ..StreamBounds::default() };
        let mut run = run(bounds, isn, room);
        for step in &steps {
            run.take(step);
            let tokens = if fast_pass { 0 } else { 3 * PART_OVERHEAD };
            // The first and the last chunk of the window may hold other bytes than those
            // remembered.
            let window = 3 * unacknowledged + 12 * PART_OVERHEAD;
            prop_assert!(run.case.stream.held() <= ahead + window + tokens);
        }
    }

    /// Segments of any kind and number never panic.
    #[test]
    fn any_segments_are_answered(
        segments in prop::collection::vec((prop_oneof![any::<u32>(), 0_u32..50], prop::collection::vec(any::<u8>(), 0..20), any::<[bool; 4]>(), any::<u32>()), 0..60),
        fast_pass in any::<bool>(),
    ) {
        let mut case = Case::new(StreamBounds { fast_pass, ..StreamBounds::default() });
        for (sequence, payload, [syn, fin, rst, truncated], acknowledged) in &segments {
            let segment = Segment { syn: *syn && *fin, fin: *fin, rst: *rst && *truncated, truncated: *truncated && *syn && *fin, ..data(*sequence, payload) };
            let _any = case.push(segment);
            case.stream.handle_acknowledgement(*acknowledged);
        }
    }
}
