//! What priority 0 does.

use std::time::Duration;

use super::constants;
use super::units::{DatagramRate, Datagrams, Factor, Fraction, RoundTrips};

constants! {
    /// How priority 0 grows.
    Growth {
        /// Datagrams by which a window of [`at`](Self::at) datagrams grows in a round trip. Others
        /// grow by the root of their size: small ones less, so that many of them do not overrun the
        /// target at once, large ones more, so that a cycle does not take minutes.
        /// Source: 1 fails `trials::a_longer_route` and `trials::a_shorter_route`.
        step: Datagrams = Datagrams::of(0.5),
        /// The window that grows by that.
        /// Source: 16 fails `trials::a_change_of_rate` and
        /// `trials::a_slow_upload_with_readings_of_the_clock`.
        at: Datagrams = Datagrams::of(8.0),
        /// Rounds with an empty queue after which the window grows by a part of itself instead of a
        /// step; every second round, because the queue shows what was done two rounds ago.
        /// Source: 6 fails `it::scavenger::an_outage_in_slow_start_is_over_soon`.
        empty_rounds: u32 = 3,
        /// What the window is multiplied with then, beyond the window that filled the path last.
        /// Source: 1.2 fails `trials::ten_late_comers` and `trials::a_change_of_rate`.
        explore: Factor = Factor::of(1.1),
        /// Smallest window to begin with.
        /// Source: chosen; the short trials hold with half and with twice of it.
        least: Datagrams = Datagrams::of(0.05),
        /// Pacing rate ÷ (window ÷ round trip): a window that opens after a drain must not fill the
        /// queue by its haste.
        /// Source: 1.1 fails `trials::a_change_of_rate` and
        /// `trials::a_slow_upload_with_readings_of_the_clock`.
        pacing_gain: Factor = Factor::of(1.05),
    }
}

constants! {
    /// How it drains its queue, so that all flows on the path see its delay.
    Drain {
        /// Part of the window while draining.
        /// Source: 0.5 fails `trials::a_change_of_rate` and
        /// `trials::a_longer_route_where_delays_tremble`.
        share: Fraction = Fraction::of(0.25),
        /// Rounds for which.
        /// Source: decision 19: the queue shows what was done two rounds ago.
        rounds: u32 = 2,
        /// Smallest window that is drained; what a drain after N flows leaves at least.
        /// Source: 4 fails `trials::a_cell_of_150_ms` and `trials::a_cell_with_codel`.
        from: Datagrams = Datagrams::of(2.0),
        /// Part of the window after a drain: who has more gives more.
        /// Source: 0.9 fails `it::scavenger::after_an_outage_its_window_is_soon_back`.
        after: Fraction = Fraction::of(0.95),
        /// Time to the first drain.
        /// Source: 2 s fails `trials::ten_late_comers` and
        /// `trials::a_longer_route_where_delays_tremble`.
        first: Duration = Duration::from_secs(1),
        /// Time between drains, once they have become rarer.
        /// Source: 10 s fails `trials::a_change_of_rate` and `trials::a_cell_with_codel`.
        pause: Duration = Duration::from_secs(5),
        /// The same at least, where round trips are long.
        /// Source: 200 fails `it::reasons::a_scavenger_alone_is_limited_by_the_path`.
        round_trips: RoundTrips = RoundTrips::of(100.0),
        /// Longest time between drains.
        /// Source: chosen; the short trials hold with half and with twice of it.
        latest: Duration = Duration::from_secs(60),
    }
}

constants! {
    /// How it returns after contention.
    Returns {
        /// What the window is multiplied with, every second round, below the window that filled the
        /// path last.
        /// Source: 3 fails `trials::a_cell_of_150_ms` and `trials::a_cell_with_codel`.
        factor: Factor = Factor::of(2.0),
        /// Part of that window up to which it returns so.
        /// Source: 0.7 fails `it::scavenger::an_outage_in_slow_start_is_over_soon`.
        to: Fraction = Fraction::of(0.85),
        /// For how long the queue has to be empty before a probe.
        /// Source: 600 ms fails `scavenger::contention::a_return_follows_an_empty_queue`.
        hold: Duration = Duration::from_millis(300),
        /// Part of the path's window that is sent to find out whether others still need it.
        /// Source: 0.06 fails `trials::ten_late_comers` and `trials::a_cell_of_150_ms`.
        probe: Fraction = Fraction::of(0.03),
        /// The same while it is not worth asking yet.
        /// Source: 0.03 fails `trials::wifi`.
        wait: Fraction = Fraction::of(0.015),
        /// Rate that is enough for it.
        /// Source: 8 fails `trials::ten_late_comers` and `trials::a_cell_with_red`.
        listening: DatagramRate = DatagramRate::of(4.0),
        /// Rounds of a probe: a queue that builds up says that others still fill the path.
        /// Source: 8 fails `trials::a_cell_of_half_a_product`.
        probe_rounds: u32 = 4,
        /// Time after which fewer are enough.
        /// Source: 800 ms fails `trials::a_cell_of_150_ms`.
        probe_time: Duration = Duration::from_millis(400),
        /// How many that are.
        /// Source: 4 fails `trials::a_cell_of_150_ms` and `trials::a_cell_of_one_megabit`.
        probe_least: u32 = 2,
        /// For how long returns are careful after one that met others. A CUBIC is back at a window
        /// of a thousand packets 9 s after a loss, loses the next some seconds later, and leaves
        /// the queue empty once more.
        /// Source: RFC 9438 §4.2, K.
        careful: Duration = Duration::from_secs(30),
    }
}

constants! {
    /// How it learns the part of the path that it usually has.
    Share {
        /// Time in which it is learned.
        /// Source: 6 s fails `trials::a_change_of_rate` and `trials::a_cell_of_150_ms`.
        time: Duration = Duration::from_secs(3),
        /// For how long after contention what it gives says nothing of that: others may still be
        /// there, and less visible, as a TCP that has just halved its window.
        /// Source: 20 s fails `trials::a_change_of_rate`.
        pause: Duration = Duration::from_secs(10),
    }
}

constants! {
    /// When others are taken to need the path.
    Contention {
        /// How many times the target a queue is that is not the work of scavengers.
        /// Source: 3 fails `trials::a_cell_of_150_ms` and `trials::a_cell_of_one_megabit`.
        foreign: Factor = Factor::of(2.0),
        /// And so many datagrams more.
        /// Source: 6 fails `trials::a_cell_of_one_megabit` and `trials::a_cell_of_half_a_product`.
        foreign_datagrams: Datagrams = Datagrams::of(3.0),
        /// Rounds in a row that have to show such a queue.
        /// Source: 6 fails `trials::a_longer_route_where_delays_tremble` and
        /// `trials::a_cell_of_150_ms`.
        rounds: u32 = 3,
        /// Time for which they have to show it: delays of a medium that is taken for a moment do
        /// not last so long.
        /// Source: 200 ms fails `trials::wifi` and `trials::reordering`.
        lasts: Duration = Duration::from_millis(100),
        /// For how long the path counts as contested after that.
        /// Source: 4 s fails `trials::ten_late_comers` and `trials::a_change_of_rate`.
        kept: Duration = Duration::from_secs(2),
        /// The same at least, where round trips are long.
        /// Source: 60 fails `trials::a_change_of_rate` and
        /// `trials::a_longer_route_where_delays_tremble`.
        kept_round_trips: RoundTrips = RoundTrips::of(30.0),
        /// The same at most.
        /// Source: chosen; the short trials hold with half and with twice of it.
        most: Duration = Duration::from_secs(60),
    }
}

constants! {
    /// Losses and managed queues at priority 0.
    Managed {
        /// For how long a queue is taken to be managed after a loss that showed it.
        /// Source: 120 s fails `trials::a_base_that_tcp_hides`.
        kept: Duration = Duration::from_secs(60),
        /// Part of the window that a loss at a full queue leaves.
        /// Source: RFC 5681 §3.1, equation 4.
        after_loss: Fraction = Fraction::of(0.5),
        /// Part of the target above which there is a queue beside a loss.
        /// Source: 0.5 fails `trials::loss_of_a_hundredth` and
        /// `trials::an_upload_with_readings_of_the_clock`.
        queued: Fraction = Fraction::of(0.25),
        /// Part of the window that is left after a loss that has nothing to do with a queue.
        /// Source: 0.8 fails `trials::loss_of_a_hundredth` and `trials::loss_of_a_thousandth`.
        after_chance: Fraction = Fraction::of(0.9),
    }
}

constants! {
    /// The slowest rate of priority 0.
    Floor {
        /// As a part of the best rate.
        /// Source: 0.01 fails `it::scavenger::after_an_outage_its_window_is_soon_back`.
        share: Fraction = Fraction::of(0.005),
        /// At least.
        /// Source: 1 fails `trials::a_cell_of_one_megabit`.
        least: DatagramRate = DatagramRate::of(0.5),
        /// At most.
        /// Source: chosen; the short trials hold with half and with twice of it.
        most: DatagramRate = DatagramRate::of(40.0),
        /// As a window, whatever the round trip, at least.
        /// Source: chosen; the short trials hold with half and with twice of it.
        window: Datagrams = Datagrams::of(0.005),
    }
}
