//! Each trial of priority 0 with a few seeds. The example `scavenger` plays them with as many as
//! you like, and prints the figures.

use ringway_dtl::Algorithm;
use ringway_sim::seeds;
use ringway_sim::trials::{Bound, Figure, matrix, trial};

/// What a figure has to be as long as it is not yet what it should be: see
/// docs/explanation/priority.md.
pub(crate) type Short = (&'static str, f64);

fn holds(figure: &Figure, short: &[Short]) -> bool {
    let value = figure.value;
    match (figure.bound, short.iter().find(|s| s.0 == figure.name)) {
        (Bound::AtLeast(_), Some((_, least))) => value >= *least,
        (Bound::AtMost(_), Some((_, most))) => value <= *most,
        (_, None) => figure.holds(),
    }
}

fn plays(name: &str, short: &[Short]) {
    plays_often(name, 2, short);
}

fn plays_often(name: &str, seeds: u64, short: &[Short]) {
    let trial = trial(name).unwrap_or_else(|| panic!("there is no trial {name}"));
    let play = |seed| (trial.play)(Algorithm::default(), seed);
    all_hold(name, seeds, play, short);
}

/// Every figure of so many seeds is what it has to be, or what is said here. What is said here has
/// to be needed by one of them at least.
pub(crate) fn all_hold(name: &str, count: u64, play: impl Fn(u64) -> Vec<Figure>, short: &[Short]) {
    let played: Vec<(u64, Vec<Figure>)> = seeds(count)
        .into_iter()
        .map(|seed| (seed, play(seed)))
        .collect();
    let figures = || played.iter().flat_map(|(_, figures)| figures);
    for (what, least) in short {
        assert!(least.is_finite(), "{name}: {what} may be anything");
        let known = figures().any(|figure| figure.name == *what);
        assert!(known, "{name} has no figure {what}");
        let mut named = figures().filter(|figure| figure.name == *what);
        let reached = named.all(Figure::holds);
        assert!(
            !reached,
            "{name}: {what} is reached now, take it off the list"
        );
    }
    let missed = played.iter().flat_map(|(seed, figures)| {
        let missing = figures.iter().filter(|figure| !holds(figure, short));
        missing.map(move |figure| (*seed, figure))
    });
    let missed: Vec<(u64, &Figure)> = missed.collect();
    assert!(missed.is_empty(), "{name}: {missed:#?}");
}

#[test]
fn wifi() {
    plays(
        "wifi",
        &[
            ("alone ÷ CUBIC", 0.915),
            ("back after CUBIC, s", 3.1),
            ("back after Reno, s", 3.3),
            ("back after BBR, s", 3.3),
            ("Jain", 0.87),
            ("together", 0.935),
        ],
    );
}

#[test]
fn wifi_at_a_hundred_megabits() {
    plays(
        "wifi-fast",
        &[("alone ÷ CUBIC", 0.9), ("back after CUBIC, s", 3.0)],
    );
}

#[test]
fn jitter() {
    plays(
        "jitter",
        &[
            ("alone ÷ CUBIC", 0.95),
            ("back after CUBIC, s", 3.3),
            ("back after Reno, s", 3.6),
            ("back after BBR, s", 3.7),
            ("Jain", 0.9),
        ],
    );
}

#[test]
fn a_fast_clock() {
    plays("clock-fast", &[]);
}

#[test]
fn a_slow_clock() {
    plays("clock-slow", &[("queue, ms", 3.7)]);
}

#[test]
fn acknowledgements_of_pairs() {
    plays(
        "acks-25ms",
        &[
            ("back after CUBIC, s", 2.3),
            ("back after Reno, s", 2.3),
            ("BBR keeps", 0.985),
            ("back after BBR, s", 2.2),
        ],
    );
}

#[test]
fn acknowledgements_that_wait_for_long() {
    plays(
        "acks-60ms",
        &[
            ("back after CUBIC, s", 2.4),
            ("back after Reno, s", 2.3),
            ("BBR keeps", 0.985),
            ("Jain", 0.985),
        ],
    );
}

#[test]
fn acknowledgements_of_ten() {
    plays("acks-tenth", &[]);
}

#[test]
fn bunched_acknowledgements() {
    plays(
        "acks-bunched",
        &[
            ("queue, ms", 3.7),
            ("back after CUBIC, s", 14.4),
            ("back after Reno, s", 9.9),
            ("back after BBR, s", 14.0),
            ("Jain", 0.255),
        ],
    );
}

#[test]
fn loss_of_a_thousandth() {
    plays(
        "loss-0.1%",
        &[
            ("alone ÷ CUBIC", 0.92),
            ("back after CUBIC, s", 2.3),
            ("Reno keeps", 0.98),
        ],
    );
}

#[test]
fn loss_of_a_hundredth() {
    plays(
        "loss-1%",
        &[
            ("CUBIC keeps", 0.91),
            ("back after CUBIC, s", 3.1),
            ("Reno keeps", 0.91),
            ("back after Reno, s", 4.4),
            ("BBR keeps", 0.98),
            ("back after BBR, s", 12.1),
        ],
    );
}

#[test]
fn reordering() {
    plays("reordering", &[("back after Reno, s", 2.2), ("Jain", 0.98)]);
}

#[test]
fn packets_that_keep_their_order() {
    plays("scatter-0ms", &[]);
}

#[test]
fn packets_scattered_over_a_millisecond() {
    plays("scatter-1ms", &[]);
}

#[test]
fn packets_scattered_over_three_milliseconds() {
    plays("scatter-3ms", &[]);
}

#[test]
fn packets_scattered_over_five_milliseconds() {
    plays("scatter-5ms", &[]);
}

#[test]
fn packets_scattered_over_half_of_a_round_trip() {
    plays("scatter-20ms", &[]);
}

#[test]
fn files_through_queues_of_three_packets() {
    for trial in [
        "three-packets-10ms",
        "three-packets-20ms",
        "three-packets-40ms",
    ] {
        plays(trial, &[]);
    }
}

#[test]
fn random_early_detection() {
    plays("red", &[("Reno keeps", 0.985), ("BBR keeps", 0.985)]);
}

#[test]
fn controlled_delay() {
    plays(
        "codel",
        &[
            ("CUBIC keeps", 0.975),
            ("back after CUBIC, s", 2.3),
            ("Reno keeps", 0.97),
        ],
    );
}

#[test]
fn a_shallow_buffer() {
    plays(
        "half-bdp",
        &[
            ("CUBIC keeps", 0.975),
            ("back after CUBIC, s", 2.5),
            ("Reno keeps", 0.96),
            ("back after Reno, s", 2.1),
            ("BBR keeps", 0.955),
            ("back after BBR, s", 2.4),
        ],
    );
}

#[test]
fn a_deep_buffer() {
    plays(
        "ten-bdp",
        &[
            ("back after CUBIC, s", 6.1),
            ("back after Reno, s", 5.8),
            ("BBR keeps", 0.985),
        ],
    );
}

#[test]
fn a_buffer_of_four_packets() {
    plays(
        "four-packets",
        &[
            ("CUBIC keeps", 0.83),
            ("Reno keeps", 0.6),
            ("BBR keeps", 0.98),
            ("back after BBR, s", 2.3),
            ("Jain", 0.97),
            ("together", 0.83),
            ("lost by late-comers, %", 0.56),
        ],
    );
}

#[test]
fn an_upload_with_readings_of_the_clock() {
    plays(
        "upload-told",
        &[
            ("dropped, %", 0.6),
            ("CUBIC keeps", 0.93),
            ("back after CUBIC, s", 4.9),
            ("back after Reno, s", 5.2),
            ("BBR keeps", 0.985),
            ("back after BBR, s", 6.4),
            ("Jain", 0.64),
            ("together", 0.615),
            ("lost by late-comers, %", 0.61),
        ],
    );
}

#[test]
fn a_slow_upload_with_readings_of_the_clock() {
    plays("upload-told-slow", &[("dropped, %", 0.68)]);
}

#[test]
fn readings_of_the_clock_without_an_upload() {
    plays("clock-told", &[("BBR keeps", 0.985)]);
}

#[test]
fn an_upload_with_one_way_delays() {
    plays(
        "upload-one-way",
        &[
            ("dropped, %", 0.35),
            ("CUBIC keeps", 0.965),
            ("back after CUBIC, s", 5.9),
            ("back after Reno, s", 6.2),
            ("BBR keeps", 0.985),
            ("back after BBR, s", 9.8),
            ("Jain", 0.79),
            ("together", 0.73),
            ("lost by late-comers, %", 0.19),
        ],
    );
}

#[test]
fn ten_late_comers() {
    plays("ten-late", &[("Jain", 0.9)]);
}

#[test]
fn ten_late_comers_at_a_hundred_megabits() {
    plays("ten-late-100", &[]);
}

#[test]
fn five_late_comers() {
    plays("five-late", &[]);
}

#[test]
fn a_longer_route() {
    plays("route-longer", &[]);
}

#[test]
fn a_route_a_little_longer() {
    plays("route-little-longer", &[("queue from 40 s on, ms", 3.7)]);
}

#[test]
fn a_longer_route_where_delays_tremble() {
    plays("route-longer-jitter", &[("back on the new route, s", 15.4)]);
}

/// It once took the queue that the TCP kept for the path after a minute, and what it took beside
/// the TCP for its share of it.
#[test]
fn a_tcp_for_minutes() {
    plays("tcp-for-minutes", &[]);
}

#[test]
fn a_shorter_route() {
    plays("route-shorter", &[]);
}

#[test]
fn a_change_of_rate() {
    plays("rate", &[("share at 2 Mbit/s", 0.92)]);
}

#[test]
fn an_application_with_little_to_send() {
    plays("application", &[]);
}

#[test]
fn a_base_that_another_scavenger_hides() {
    plays("poisoned", &[]);
}

#[test]
fn a_base_that_tcp_hides() {
    plays("poisoned-by-tcp", &[]);
}

#[test]
fn figure_6() {
    plays_often(
        "figure-6",
        20,
        &[
            ("share at 0", 0.04),
            ("0 to 1: more drops, %", 4.3),
            ("1 to 2: more drops, %", 3.2),
        ],
    );
}

#[test]
fn a_raise() {
    plays_often(
        "raise-10-20",
        20,
        &[
            ("met TCP at once, 0 to 3: more drops, %", 3.6),
            ("had it to itself, 0 to 3: more drops, %", 4.7),
        ],
    );
}

#[test]
fn a_raise_in_a_deep_queue() {
    plays_often(
        "raise-10-20-deep",
        20,
        &[
            ("met TCP at once, 0 to 1: more drops, %", 6.3),
            ("met TCP at once, 0 to 3: more drops, %", 10.7),
            ("had it to itself, 0 to 1: more drops, %", 7.3),
            ("had it to itself, 0 to 3: more drops, %", 10.7),
        ],
    );
}

#[test]
fn a_raise_under_codel() {
    plays_often("raise-10-20-codel", 20, &[]);
}

#[test]
fn a_raise_on_a_long_path() {
    plays_often(
        "raise-10-60",
        20,
        &[
            ("met TCP at once, 0 to 1: s", 6.5),
            ("met TCP at once, 0 to 1: more drops, %", 3.6),
            ("met TCP at once, 0 to 3: more drops, %", 9.4),
            ("had it to itself, 0 to 1: s", 12.7),
            ("had it to itself, 0 to 1: more drops, %", 5.6),
            ("had it to itself, 0 to 3: more drops, %", 12.0),
        ],
    );
}

#[test]
fn a_raise_where_shares_are_few_packets() {
    plays_often(
        "raise-1-60",
        20,
        &[
            ("met TCP at once, 0 to 1: s", 7.3),
            ("met TCP at once, 0 to 1: soon ÷ later, no more", 1.9),
            ("met TCP at once, 0 to 1: more drops, %", 14.6),
            ("met TCP at once, 0 to 3: more drops, %", 13.4),
            ("had it to itself, 0 to 1: s", 6.1),
            ("had it to itself, 0 to 1: soon ÷ later, no more", 2.9),
            ("had it to itself, 0 to 1: more drops, %", 18.2),
            ("had it to itself, 0 to 3: more drops, %", 14.6),
        ],
    );
}

#[test]
fn a_raise_on_a_fast_path() {
    plays_often(
        "raise-100-20",
        4,
        &[
            ("met TCP at once, 0 to 3: more drops, %", 2.9),
            ("had it to itself, 0 to 3: more drops, %", 2.9),
        ],
    );
}

#[test]
fn a_raise_on_a_fast_long_path() {
    plays_often(
        "raise-100-60",
        4,
        &[
            ("met TCP at once, 0 to 1: more drops, %", 3.1),
            ("met TCP at once, 0 to 3: more drops, %", 9.7),
            ("had it to itself, 0 to 1: s", 2.8),
            ("had it to itself, 0 to 1: more drops, %", 3.3),
            ("had it to itself, 0 to 3: more drops, %", 9.0),
        ],
    );
}

#[test]
fn changes_of_priority_alone() {
    plays(
        "alone-changes",
        &[
            ("10 Mbit/s, 20 ms, 1 to 2: more drops, %", 0.32),
            ("10 Mbit/s, 60 ms, 1 to 2: more drops, %", 0.66),
            ("100 Mbit/s, 20 ms, 1 to 2: more drops, %", 0.13),
        ],
    );
}

#[test]
fn figure_7() {
    plays_often("figure-7", 20, &[]);
}

#[test]
fn one_way_delays_pay_beside_an_upload() {
    let alone = |name: &str| {
        let play = trial(name).unwrap().play;
        play(Algorithm::default(), 1)[0].value
    };
    let (round_trips, one_way) = (alone("upload-rtt"), alone("upload-one-way"));
    let told = alone("upload-told");
    assert!(
        round_trips <= 0.1 && one_way >= 0.9 && told >= 0.9,
        "{round_trips} {one_way} {told}"
    );
}

/// Some cells of the matrix, of each rate that is played in seconds, each buffer and each
/// discipline: docs/dev/priority-matrix.md has them all.
fn plays_cell(name: &str, short: &[Short]) {
    let cell = matrix().into_iter().find(|cell| cell.name == name).unwrap();
    all_hold(name, 1, |seed| cell.play(Algorithm::default(), seed), short);
}

#[test]
fn a_cell_of_one_megabit() {
    plays_cell(
        "1 Mbit/s, 150 ms, 4 BDP, drop-tail",
        &[
            ("queue, ms", 24.1),
            ("back after CUBIC, s", 5.3),
            ("back after Reno, s", 6.7),
            ("BBR keeps", 0.965),
            ("back after BBR, s", 5.4),
        ],
    );
}

#[test]
fn a_cell_of_half_a_product() {
    plays_cell(
        "10 Mbit/s, 60 ms, 0.5 BDP, drop-tail",
        &[
            ("back after CUBIC, s", 2.5),
            ("Reno keeps", 0.98),
            ("back after Reno, s", 2.3),
            ("BBR keeps", 0.985),
            ("back after BBR, s", 6.8),
        ],
    );
}

#[test]
fn a_cell_with_codel() {
    plays_cell(
        "10 Mbit/s, 60 ms, 4 BDP, CoDel",
        &[
            ("CUBIC keeps", 0.965),
            ("back after CUBIC, s", 5.5),
            ("Reno keeps", 0.91),
            ("back after Reno, s", 3.5),
            ("back after BBR, s", 6.5),
        ],
    );
}

#[test]
fn a_cell_with_red() {
    plays_cell("10 Mbit/s, 20 ms, 4 BDP, RED", &[("BBR keeps", 0.985)]);
}

#[test]
fn a_cell_of_150_ms() {
    plays_cell(
        "10 Mbit/s, 150 ms, 4 BDP, drop-tail",
        &[
            ("back after CUBIC, s", 4.2),
            ("back after Reno, s", 3.9),
            ("BBR keeps", 0.965),
            ("back after BBR, s", 2.3),
            ("Jain of two of priority 1", 0.935),
        ],
    );
}

#[test]
fn a_cell_of_a_hundred_megabits() {
    plays_cell("100 Mbit/s, 20 ms, 4 BDP, drop-tail", &[]);
}

#[test]
fn a_cell_of_a_hundred_megabits_with_codel() {
    plays_cell(
        "100 Mbit/s, 60 ms, 1 BDP, CoDel",
        &[
            ("CUBIC keeps", 0.98),
            ("back after CUBIC, s", 4.1),
            ("Reno keeps", 0.96),
            ("back after Reno, s", 4.1),
            ("back after BBR, s", 6.8),
            ("Jain of 2", 0.96),
        ],
    );
}
