//! How long the queue may be that priority 0 keeps.

use super::tuning::TUNING;

/// A path's target. Times in seconds.
#[derive(Copy, Clone, Debug)]
pub(super) struct Target {
    base: f64,
    /// How long a datagram takes at the path's rate.
    datagram: f64,
    most: f64,
}

impl Target {
    pub(super) fn new(base: f64, datagram: f64, managed: bool) -> Target {
        let most = if managed {
            TUNING.target.most_managed.as_secs_f64()
        } else {
            TUNING.target.most.as_secs_f64()
        };
        Target {
            base,
            datagram,
            most,
        }
    }

    /// That of a queue that is not managed.
    pub(super) fn roomy(&self) -> Target {
        Target {
            most: TUNING.target.most.as_secs_f64(),
            ..*self
        }
    }

    pub(super) fn of_path(&self) -> f64 {
        let share = (self.base * TUNING.target.share.get())
            .clamp(TUNING.target.least.as_secs_f64(), self.most);
        share.max(
            (self.datagram * TUNING.target.datagrams.get())
                .min(TUNING.target.slowest.as_secs_f64()),
        )
    }

    /// That of a window of so many datagrams. A flow that has little bears more: each sees the
    /// queue through noise of its own, and he who sees it longer than it is would give way for
    /// ever (as in Swift: Kumar and others, SIGCOMM 2020).
    pub(super) fn of_window(&self, datagrams: f64) -> f64 {
        let target = self.of_path();
        let datagrams = datagrams.clamp(
            TUNING.target.scale_least.get(),
            TUNING.target.scale_most.get(),
        );
        // Where the target is less than a datagram, windows are small because the path is.
        let scale = TUNING.target.scale.get() * (target / self.datagram.max(1e-9)).min(1.0);
        target
            * (1.0
                + scale
                    * (datagrams.sqrt().recip() - TUNING.target.scale_most.get().sqrt().recip()))
    }

    /// As much of `target` as a queue bears in which packets wait for `room` at most: one that has
    /// no room for it shows by losses only.
    pub(super) fn within(&self, room: Option<f64>, target: f64) -> f64 {
        room.map_or(target, |room| {
            target.min(
                (room * TUNING.target.room.get())
                    .max(self.datagram * TUNING.target.datagrams.get()),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: f64, datagram: f64) -> f64 {
        Target::new(base, datagram, false).of_path()
    }

    #[test]
    fn it_is_an_eighth_of_the_path() {
        assert_eq!(
            [of(0.001, 0.0), of(0.080, 0.0), of(1.0, 0.0)],
            [
                TUNING.target.least.as_secs_f64(),
                0.010,
                TUNING.target.most.as_secs_f64()
            ]
        );
    }

    #[test]
    fn managed_queues_bound_it_on_any_path() {
        let managed = Target::new(0.300, 0.0, true);
        assert_eq!(managed.of_path(), TUNING.target.most_managed.as_secs_f64());
        assert!((managed.roomy().of_path() - 0.0375).abs() < 1e-12);
    }

    #[test]
    fn a_slow_path_bears_most_of_a_datagram() {
        assert!((of(0.060, 0.012) - 0.0075).abs() < 1e-12);
        assert_eq!(of(0.060, 10.0), TUNING.target.slowest.as_secs_f64());
    }

    #[test]
    fn who_has_less_bears_more() {
        let target = Target::new(0.060, 0.0001, true);
        let of = |datagrams| target.of_window(datagrams);
        assert!(of(1.0) > of(4.0) && of(4.0) > of(16.0));
        assert_eq!(of(16.0), target.of_path());
        assert!((of(0.1) / target.of_path() - 2.125).abs() < 1e-9);
    }

    #[test]
    fn a_short_queue_is_filled_by_half() {
        let target = Target::new(0.020, 0.0012, false);
        assert_eq!(target.within(None, 0.0025), 0.0025);
        assert_eq!(target.within(Some(0.003), 0.0025), 0.0015);
        assert!((target.within(Some(0.0001), 0.0025) - 0.00075).abs() < 1e-12);
    }
}
