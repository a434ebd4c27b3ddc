//! What N virtual flows do.

use std::time::Duration;

use super::constants;
use super::units::{CubicGrowth, Datagrams, Factor, Fraction, RoundTrips};

constants! {
    /// N virtual flows.
    Flows {
        /// Most virtual flows; beyond, each stands for several.
        /// Source: 64 fails `flows::weights_add_up_to_the_priority` and
        /// `flows::going_up_and_down_at_once_costs_nothing`.
        most: usize = 32,
        /// Samples of a round that HyStart compares.
        /// Source: Linux, tcp_cubic.c: HYSTART_MIN_SAMPLES.
        hystart_samples: u32 = 8,
        /// Increase of the round trip that ends slow start, at least; an eighth of it between.
        /// Source: Linux, tcp_cubic.c: HYSTART_DELAY_MIN.
        hystart_least: Duration = Duration::from_millis(4),
        /// The same at most.
        /// Source: Linux, tcp_cubic.c: HYSTART_DELAY_MAX.
        hystart_most: Duration = Duration::from_millis(16),
        /// For how long Linux' TCP waits for more room before it sends what it may, if an
        /// acknowledgement is due by then.
        /// Source: Linux 6.18, tcp_tso_should_defer.
        deferred: Duration = Duration::from_millis(1),
        /// How much faster than window ÷ round trip it reckons it will be sent.
        /// Source: Linux, tcp_pacing_ca_ratio.
        paced: Factor = Factor::of(1.2),
        /// Time from which on it is a rest that little is sent: single acknowledgements may find a
        /// window that is not used.
        /// Source: chosen; the short trials hold with half and with twice of it.
        rests: Duration = Duration::from_secs(1),
        /// The same at least, where round trips are long.
        /// Source: chosen; the short trials hold with half and with twice of it.
        rests_round_trips: RoundTrips = RoundTrips::of(8.0),
        /// Datagrams in flight that are none: sums of parts of datagrams are not exact.
        /// Source: chosen; the short trials hold with half and with twice of it.
        little: Datagrams = Datagrams::of(0.01),
        /// Packets behind the newest acknowledged one, beyond twice what is in flight, after which
        /// one is given up.
        /// Source: 128 fails `flows::unreported_packets_leave_the_window`.
        stale: u64 = 64,
    }
}

constants! {
    /// One virtual flow's window.
    Cubic {
        /// C: how fast the curve bends.
        /// Source: RFC 9438 §5.
        c: CubicGrowth = CubicGrowth::of(0.4),
        /// Part of the window that a loss leaves.
        /// Source: RFC 9438 §4.6, β.
        beta: Fraction = Fraction::of(0.7),
        /// Fewest acknowledged datagrams for which the window grows by one.
        /// Source: Linux, tcp_cubic.c: bictcp_update.
        fastest: Datagrams = Datagrams::of(2.0),
        /// Most of them before the first loss.
        /// Source: Linux, tcp_cubic.c: bictcp_update.
        slowest_at_first: Datagrams = Datagrams::of(20.0),
        /// The same where the curve has been reached, for each datagram of the window.
        /// Source: Linux, tcp_cubic.c: bictcp_update.
        at_curve: Datagrams = Datagrams::of(100.0),
        /// By how many times more a flow may stand for without doubling up to it: less than a loss
        /// takes.
        /// Source: 1.5 fails `flows::going_up_and_down_at_once_costs_nothing`.
        at_once: Factor = Factor::of(1.25),
        /// Smallest window after a loss.
        /// Source: Linux, tcp_cubic.c: cubictcp_recalc_ssthresh.
        after_loss: Datagrams = Datagrams::of(2.0),
        /// Smallest window.
        /// Source: RFC 5681 §3.1, the loss window.
        least: Datagrams = Datagrams::of(1.0),
    }
}

constants! {
    /// How often others were cut.
    Falls {
        /// Part of the longest recent queue by which it has to become shorter, or longer again, to
        /// be noticed: a CUBIC that is cut takes three tenths of its packets out of the path, some
        /// of which stood in the queue.
        /// Source: 0.0625 fails `flows::falls::jitter_is_no_fall`.
        noticed: Fraction = Fraction::of(1.0 / 8.0),
        /// Part of the longest queue that is left after a round.
        /// Source: chosen; the short trials hold with half and with twice of it.
        kept: Fraction = Fraction::of(0.999),
        /// Rounds after a cut in which the queue becomes shorter by that cut.
        /// Source: chosen; the short trials hold with half and with twice of it.
        own: u32 = 3,
    }
}

constants! {
    /// The probe after a change from 0.
    Probe {
        /// For how long it goes on: what a change may take.
        /// Source: 4 s fails `flows::probe::only_time_with_data_ends_it`.
        longest: Duration = Duration::from_secs(2),
        /// The same at least, where round trips are long.
        /// Source: chosen; the short trials hold with half and with twice of it.
        longest_round_trips: RoundTrips = RoundTrips::of(40.0),
        /// The same at most, with the time in which the application has too little to send.
        /// Source: 120 s fails `flows::probe::only_time_with_data_ends_it`.
        longest_of_all: Duration = Duration::from_secs(60),
        /// Part of a CUBIC's window that is left after an overflow of the queue: the probe ends
        /// with as many as bring it down to its share. Those of one flow are two; with a third it
        /// takes two to three times a CUBIC's share at first (100 Mbit/s, 60 ms).
        /// Source: RFC 9438 §4.6, β.
        left: Fraction = Fraction::of(0.7),
        /// By how many times the window has to grow in a round to say something of the path's rate.
        /// Source: 1.4 fails `trials::a_raise_where_shares_are_few_packets`.
        larger: Factor = Factor::of(1.2),
        /// The same of the round trip.
        /// Source: 1.06 fails `trials::a_raise` and `trials::a_raise_where_shares_are_few_packets`.
        longer: Factor = Factor::of(1.03),
        /// Rounds that have to show it: others may have begun to grow in one.
        /// Source: 4 fails `flows::probe::the_queue_shows_a_shared_paths_rate`.
        rounds: u32 = 2,
        /// Growth ÷ slow start's once it is known how far to go, or that the queue is full.
        /// Source: 1 fails `trials::a_raise` and `trials::figure_6`.
        near: Fraction = Fraction::of(0.5),
        /// Part of the best rate from which on a flow uses the path as if it were its own.
        /// Source: 1 fails `trials::changes_of_priority_alone` and
        /// `trials::a_raise_where_shares_are_few_packets`.
        own: Fraction = Fraction::of(0.5),
    }
}
