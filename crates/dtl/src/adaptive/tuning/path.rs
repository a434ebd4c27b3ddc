//! What samples say of the path and its queue.

use std::time::Duration;

use super::constants;
use super::units::{Datagrams, Factor, Fraction};

constants! {
    /// Which packets and rounds count.
    Packets {
        /// Part of the best rate that is left after a round.
        /// Source: 0.998 fails `trials::wifi` and `trials::reordering`.
        best_rate_kept: Fraction = Fraction::of(0.999),
        /// Round trips after which a round has ended, whatever was acknowledged: where packet
        /// numbers begin again, none ends it.
        /// Source: chosen; the short trials hold with half and with twice of it.
        longest_round: u32 = 8,
        /// Part of the largest recent packet below which a packet says nothing of the path's delay:
        /// it crosses a slow link sooner.
        /// Source: chosen; the short trials hold with half and with twice of it.
        small: Fraction = Fraction::of(0.8),
        /// How many times larger than all before a packet in slow start begins the history of
        /// delays again.
        /// Source: chosen; the short trials hold with half and with twice of it.
        larger: Factor = Factor::of(1.1),
        /// Part of the largest recent packet's size that is left after a round. Who goes over to
        /// small packets is judged by them after a few rounds.
        /// Source: 0.975 fails `adaptive::small_packets_do_not_show_the_delay`.
        largest_kept: Fraction = Fraction::of(0.95),
        /// Smallest window of N flows: a packet in twenty round trips still shows what the path is
        /// like.
        /// Source: chosen; the short trials hold with half and with twice of it.
        least_window: Datagrams = Datagrams::of(0.05),
        /// For how long a cut is reported as the reason why the window is not larger.
        /// Source: 20 s fails `it::reasons::a_loss_of_long_ago_is_no_reason`.
        cut_reported: Duration = Duration::from_secs(10),
    }
}

constants! {
    /// The path's delay without a queue.
    Base {
        /// How long one entry of the history lasts.
        /// Source: 20 s fails `base::silence_forgets_nothing_for_ten_minutes` and
        /// `base::a_hidden_base_is_kept_for_ten_minutes`.
        slice: Duration = Duration::from_secs(10),
        /// Entries: a base is forgotten after a minute of packets in which the queue never emptied.
        /// Drains empty it many times in that time.
        /// Source: 12 fails `base::a_hidden_base_is_kept_for_ten_minutes`.
        slices: usize = 6,
        /// Entries that are not counted while others fill the queue: what they never let become
        /// empty is not the path. After ten minutes a base is forgotten all the same.
        /// Source: RFC 6817 §3.4.2, BASE_HISTORY.
        held_slices: u32 = 60,
        /// For how long delays have to stay where they are, while nothing of ours is in the queue,
        /// to be those of another route.
        /// Source: 20 s fails `trials::a_longer_route` and `trials::a_change_of_rate`.
        steady: Duration = Duration::from_secs(10),
        /// How often they have to be seen so.
        /// Source: 6 fails `trials::ten_late_comers` and `trials::a_change_of_rate`.
        steady_looks: u32 = 3,
        /// For how long a look at both ways is believed. A scavenger at its floor sends four
        /// packets a second, and fewer on slow paths.
        /// Source: chosen; the short trials hold with half and with twice of it.
        look_kept: Duration = Duration::from_secs(4),
        /// How many of the latest looks have to agree that there is a queue on the way back.
        /// Source: 6 fails `base::between_looks_the_latest_one_counts`.
        looks: usize = 3,
        /// Shortest queue on the way back that counts. What is less may be a look that was not
        /// sharp.
        /// Source: chosen; the short trials hold with half and with twice of it.
        back_least: Duration = Duration::from_millis(2),
        /// The same as a part of the base delay.
        /// Source: 0.25 fails `trials::a_slow_upload_with_readings_of_the_clock`.
        back_share: Fraction = Fraction::of(0.125),
        /// For how long the way there is taken to be seen dimly after it was: the queue on the way
        /// back of a TCP comes and goes.
        /// Source: chosen; the short trials hold with half and with twice of it.
        dim_kept: Duration = Duration::from_secs(60),
        /// Packets of which the least wait is reported: one that was held up by chance is no queue.
        /// Source: chosen; the short trials hold with half and with twice of it.
        recent: usize = 3,
    }
}

constants! {
    /// What delays of a round say of the queue.
    Queueing {
        /// Datagrams that end slow start, if all of them found a queue.
        /// Source: 8 fails `it::scavenger::after_an_outage_its_window_is_soon_back`.
        few: usize = 4,
        /// The same at most, where the path reorders packets.
        /// Source: chosen; the short trials hold with half and with twice of it.
        few_most: usize = 64,
        /// Smallest round that shows jitter.
        /// Source: 8 fails `trials::five_late_comers` and
        /// `trials::a_longer_route_where_delays_tremble`.
        broad: Datagrams = Datagrams::of(4.0),
        /// Rounds that show it together, at least.
        /// Source: 8 fails `trials::a_slow_upload_with_readings_of_the_clock`.
        noise_rounds: u32 = 4,
        /// Datagrams that show it together, at least.
        /// Source: 96 fails `trials::a_slow_upload_with_readings_of_the_clock` and
        /// `trials::a_cell_of_150_ms`.
        noise_datagrams: Datagrams = Datagrams::of(48.0),
    }
}

constants! {
    /// How long the queue of priority 0 may be.
    Target {
        /// Part of the base delay that may stand in the queue.
        /// Source: 0.25 fails `target::it_is_an_eighth_of_the_path` and
        /// `target::managed_queues_bound_it_on_any_path`.
        share: Fraction = Fraction::of(1.0 / 8.0),
        /// Shortest target.
        /// Source: 4 ms fails `target::who_has_less_bears_more` and
        /// `target::managed_queues_bound_it_on_any_path`.
        least: Duration = Duration::from_millis(2),
        /// Longest target.
        /// Source: 30 ms fails `target::managed_queues_bound_it_on_any_path`.
        most: Duration = Duration::from_millis(60),
        /// The same where a queue is managed. CoDel drops packets that waited for 5 ms, if all of a
        /// tenth of a second did. A TCP that grows adds a packet or two in a round trip: at half of
        /// that there is time to yield to it before it is hit. More cost a CUBIC up to half of what
        /// it had on long paths.
        /// Source: RFC 8289 §4 (TARGET, INTERVAL); 2.5 ms everywhere is measured in
        /// benches/results/short-queue.runs.
        most_managed: Duration = Duration::from_micros(2_500),
        /// Part of a datagram's own time that may stand in the queue, where that is more. Less than
        /// a datagram cannot stand there.
        /// Source: 1.25 fails `target::a_short_queue_is_filled_by_half` and
        /// `target::a_slow_path_bears_most_of_a_datagram`.
        datagrams: Datagrams = Datagrams::of(0.625),
        /// That time at most.
        /// Source: 120 ms fails `trials::a_cell_of_one_megabit`.
        slowest: Duration = Duration::from_millis(60),
        /// How much more a window of few datagrams bears.
        /// Source: 2 fails `target::who_has_less_bears_more`.
        scale: Factor = Factor::of(1.5),
        /// Windows of so many datagrams and more bear no more.
        /// Source: 32 fails `target::who_has_less_bears_more`.
        scale_most: Datagrams = Datagrams::of(16.0),
        /// Windows of less bear no more than those of so many.
        /// Source: 2 fails `target::who_has_less_bears_more`.
        scale_least: Datagrams = Datagrams::of(1.0),
        /// Part of a full queue's delay that is aimed at, if that is less.
        /// Source: 1 fails `target::a_short_queue_is_filled_by_half`.
        room: Fraction = Fraction::of(0.5),
    }
}

constants! {
    /// Whether a queue is to blame for losses.
    Losses {
        /// Delays that are remembered.
        /// Source: 128 fails `trials::a_buffer_of_four_packets`.
        remembered: usize = 64,
        /// How many of them for each window: over so many round trips a queue comes and goes.
        /// Source: 8 fails `trials::a_buffer_of_four_packets`.
        of_window: Datagrams = Datagrams::of(4.0),
        /// Packets that come after a lost one before it is deemed lost, less the one that shows it.
        /// Source: RFC 9002 §6.1.1, kPacketThreshold.
        beside: usize = 2,
        /// Weight of a loss in the average rank.
        /// Source: 0.25 fails `trials::loss_of_a_hundredth` and `trials::a_buffer_of_four_packets`.
        weight: Fraction = Fraction::of(1.0 / 8.0),
        /// Rank from which on the queue is to blame. A loss at an average delay has a half.
        /// Source: 0.5 fails `losses::losses_anywhere_do_not_blame_the_queue`.
        full: Fraction = Fraction::of(0.75),
        /// Rank from which on losses say how long a full queue is.
        /// Source: 0.7 fails `it::scavenger::an_outage_in_slow_start_is_over_soon`.
        sure: Fraction = Fraction::of(0.85),
        /// Part of the datagrams whose loss is no chance, wherever the queue stands.
        /// Source: draft-ietf-ccwg-bbr, BBRLossThresh.
        many: Fraction = Fraction::of(0.02),
        /// Datagrams over which that is averaged.
        /// Source: 512 fails `trials::loss_of_a_hundredth` and `trials::a_buffer_of_four_packets`.
        averaged: Datagrams = Datagrams::of(256.0),
        /// Weight of a new loss in what is known of the queue's room.
        /// Source: 0.5 fails `trials::a_buffer_of_four_packets`.
        room_weight: Fraction = Fraction::of(0.25),
        /// For how long that is known. Another route may have more, and who keeps the queue short
        /// for the sake of the one before never sees it.
        /// Source: chosen; the short trials hold with half and with twice of it.
        room_kept: Duration = Duration::from_secs(600),
    }
}

constants! {
    /// Whether the queue is too short for bursts.
    Shallow {
        /// Mean wait of a round, as datagrams at the best rate, in a queue that holds the pacer's
        /// bursts.
        /// Source: 8 fails `shallow::two_cuts_without_waiting_show_a_short_queue`.
        room: Datagrams = Datagrams::of(4.0),
        /// Cuts in a row in a shorter queue that show one. A flow that begins while the queue is
        /// full takes its first one for short.
        /// Source: 4 fails `shallow::two_cuts_without_waiting_show_a_short_queue`.
        cuts: u32 = 2,
    }
}
