//! Messages through a ring of real routers: round trips, packets from one to another, and what the
//! whole ring carries.
//!
//! Source: "Our Brothers' Keepers" §4: tables 1 and 2, figures 2 to 4.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_node::daemon::RingSender;

use super::ring::Ring;
use super::tokens::Game;
use super::{Plan, figure, no_routers, processor_time, whole};
use crate::figure::{self, Figure};
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Tokens that go round before any are counted.
const WARM_UP: usize = 200;

/// Microseconds of processor time that a message of a link is to take.
const PROCESSOR_TIME: f64 = 5.0;

/// Pings of one router in one round.
const PINGS: usize = 10;

/// All of it.
pub(super) fn measure(
    output: Output,
    plan: &Plan,
    ring: &Ring,
    game: &Arc<Game>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = round_trips(output, plan, ring)?;
    figures.extend(packets(output, plan, ring, game)?);
    // The first message between two routers costs both a certificate's check and a key.
    output.note("routers get to know each other");
    ring.run(async { game.begin(&senders(ring), WARM_UP) });
    std::thread::sleep(plan.time.saturating_mul(3));
    ring.run(game.end());
    for tokens in &plan.tokens {
        figures.extend(capacity(output, plan, ring, game, *tokens)?);
    }
    Ok(figures)
}

/// The first router pings the others through the ring, one after the other: of each the least of
/// all rounds' means counts.
fn round_trips(output: Output, plan: &Plan, ring: &Ring) -> Result<Vec<Figure>, Failure> {
    let (first, others) = ring.members.split_first().ok_or_else(no_routers)?;
    let (mut least, mut failed, mut again) = (vec![f64::INFINITY; plan.peers], 0_usize, 0_usize);
    for round in 1..=plan.rounds {
        output.note(&format!("round trips, round {round} of {}", plan.rounds));
        for (peer, least) in others.iter().zip(&mut least) {
            let mut times = Vec::new();
            for _ in 0..PINGS {
                match ring.run(first.sender.to_router(&peer.name, &[])) {
                    Ok(delivered) => {
                        again += usize::from(delivered.ways > 1);
                        times.push(delivered.elapsed.as_secs_f64() * 1e3);
                    }
                    Err(error) => {
                        failed += 1;
                        output.note(&format!("{}: {error}", peer.name));
                    }
                }
            }
            if !times.is_empty() {
                *least = least.min(times.iter().sum::<f64>() / whole(times.len()));
            }
        }
    }
    least.retain(|time| time.is_finite());
    let all = whole(plan.peers * PINGS * plan.rounds);
    let share = |count: usize| [whole(count) / all];
    let mut figures = spread(
        plan,
        [
            "round_trip_mean",
            "round_trip_median",
            "round_trip_least",
            "round_trip_most",
        ],
        "ms",
        &least,
    );
    figures.push(figure(plan, "pings_unanswered", "share", &share(failed)));
    figures.push(figure(plan, "pings_by_another_way", "share", &share(again)));
    Ok(figures)
}

/// Each of the others in turn sends packets to the first as fast as the ring takes them.
fn packets(output: Output, plan: &Plan, ring: &Ring, game: &Game) -> Result<Vec<Figure>, Failure> {
    let (first, others) = ring.members.split_first().ok_or_else(no_routers)?;
    output.note("packets from each router");
    let before = Tally::take(ring, game)?;
    let rates = others
        .iter()
        .take(plan.peers)
        .filter_map(|peer| ring.run(game.packets(&peer.sender, &first.name, plan.packets)));
    let rates: Vec<f64> = rates.collect();
    let spent = Tally::take(ring, game)?.processor_time_since(&before);
    let mut figures = spread(
        plan,
        [
            "packets_mean",
            "packets_median",
            "packets_least",
            "packets_most",
        ],
        "packets/s",
        &rates,
    );
    // A stream of messages in one direction, with answers and confirmations: they share packets
    // where several wait. Looks at all routers are in it.
    let spent = figure(plan, "packets_processor_time_per_message", "µs", &[spent]);
    figures.push(spent.against("aim", &[PROCESSOR_TIME]));
    Ok(figures)
}

/// Mean, median, least and most of values of single routers.
fn spread(
    plan: &Plan,
    [mean, median, least, most]: [&'static str; 4],
    unit: &'static str,
    values: &[f64],
) -> Vec<Figure> {
    let sum: f64 = values.iter().sum();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    vec![
        figure(plan, mean, unit, &[sum / whole(values.len().max(1))]),
        figure(plan, median, unit, &[figure::median(values)]),
        figure(plan, least, unit, &[low]),
        figure(plan, most, unit, &[high]),
    ]
}

/// What has been done at one moment.
#[derive(Clone, Copy, Debug)]
struct Tally {
    at: Instant,
    passes: u64,
    lost: u64,
    /// Messages that all links have sent, whatever is in them.
    messages: u64,
    processor: Duration,
}

impl Tally {
    fn take(ring: &Ring, game: &Game) -> Result<Tally, Failure> {
        let statuses = ring.statuses()?;
        let counters = statuses.iter().map(|status| &status.counters);
        let sent = counters.filter_map(|counters| counters.get("link_messages_sent"));
        let (passes, lost) = game.counts();
        Ok(Tally {
            at: Instant::now(),
            passes,
            lost,
            messages: sent.sum(),
            processor: processor_time(),
        })
    }

    /// Microseconds for each message of a link since `before`, with everything else that the
    /// routers did meanwhile.
    fn processor_time_since(&self, before: &Tally) -> f64 {
        let messages = (self.messages - before.messages).max(1) as f64;
        (self.processor - before.processor).as_secs_f64() * 1e6 / messages
    }
}

/// Tokens go round; of which the first while, in which they spread, does not count.
fn capacity(
    output: Output,
    plan: &Plan,
    ring: &Ring,
    game: &Arc<Game>,
    tokens: usize,
) -> Result<Vec<Figure>, Failure> {
    ring.run(async { game.begin(&senders(ring), tokens) });
    std::thread::sleep(plan.time / 5);
    let before = Tally::take(ring, game)?;
    std::thread::sleep(plan.time);
    let after = Tally::take(ring, game)?;
    ring.run(game.end());
    let passes = (after.passes - before.passes).max(1) as f64;
    let messages = (after.messages - before.messages).max(1) as f64;
    let rate = passes / after.at.duration_since(before.at).as_secs_f64();
    let spent = after.processor_time_since(&before);
    output.note(&format!("{tokens} tokens: {rate:.0} hops/s"));
    let case = format!("{} routers over UDP, {tokens} tokens", plan.routers);
    let figure =
        |metric, unit, value: f64| Figure::new("overlay", case.clone(), metric, unit, &[value]);
    Ok(vec![
        figure("token_hops", "hops/s", rate).against("aim", &[30_000.0]),
        figure("hops_of_a_token", "hops/s", rate / whole(tokens)),
        figure(
            "token_hops_lost",
            "share",
            (after.lost - before.lost) as f64 / passes,
        ),
        figure("processor_time_per_message", "µs", spent).against("aim", &[PROCESSOR_TIME]),
        figure("messages_per_hop", "messages", messages / passes),
    ])
}

fn senders(ring: &Ring) -> Vec<RingSender> {
    ring.members.iter().map(|m| m.sender.clone()).collect()
}
