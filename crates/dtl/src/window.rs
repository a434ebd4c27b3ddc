//! The congestion window and its slow start, in bytes.

use crate::limits::{MAX_WINDOW, MIN_SSTHRESH_DATAGRAMS, MIN_WINDOW_DATAGRAMS};

/// A congestion window. Always finite and between one datagram and [`MAX_WINDOW`].
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: f64,
    datagram: f64,
    ssthresh: Option<f64>,
    /// The window with which slow start began; `None` after slow start.
    slow_start_from: Option<f64>,
}

impl Window {
    /// A window in slow start without a threshold.
    pub(crate) fn new(initial: u64, datagram: u64) -> Window {
        let mut window = Window {
            bytes: initial as f64,
            datagram: datagram as f64,
            ssthresh: None,
            slow_start_from: None,
        };
        window.set(initial as f64);
        window.slow_start_from = Some(window.bytes);
        window
    }

    /// Bytes that may be in flight.
    pub(crate) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// The same as a whole number.
    #[cfg(test)]
    pub(crate) fn get(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn set_datagram(&mut self, datagram: u64) {
        self.datagram = datagram as f64;
        self.set(self.bytes);
    }

    pub(crate) fn ssthresh(&self) -> Option<u64> {
        self.ssthresh.map(|bytes| bytes as u64)
    }

    /// The window with which the present slow start began, in bytes; `None` outside slow start.
    pub(crate) fn slow_start_from(&self) -> Option<f64> {
        self.slow_start_from
    }

    /// Slow start: `bytes` more, and an end at the threshold.
    pub(crate) fn grow_slow_start(&mut self, bytes: f64) {
        self.set(self.bytes + bytes);
        if let Some(ssthresh) = self.ssthresh
            && self.bytes >= ssthresh
        {
            self.set(ssthresh);
            self.slow_start_from = None;
        }
    }

    /// Congestion avoidance: `datagrams` more for each acknowledged window.
    pub(crate) fn grow(&mut self, datagrams: f64, acked: u64) {
        // At most one window's worth at once: right after a cut more than a window may be
        // acknowledged together.
        let windows = (acked as f64 / self.bytes).min(1.0);
        self.set(self.bytes + datagrams * self.datagram * windows);
    }

    /// Leaves `share` (0 ..= 1) of the window, and slow start.
    pub(crate) fn cut(&mut self, share: f64) {
        self.set(self.bytes * share);
        if self.slow_start_from.take().is_some() {
            self.ssthresh = Some(self.bytes);
        }
    }

    /// A loss: leaves `share` of the window and of the threshold.
    pub(crate) fn cut_by_loss(&mut self, share: f64) {
        self.cut(share);
        self.ssthresh = Some(self.bytes);
    }

    /// Persistent congestion: the smallest window, then slow start up to `share` of what it was.
    ///
    /// A second one before anything grew changes nothing: RFC 5681 §3.1 holds the threshold then.
    pub(crate) fn collapse(&mut self, share: f64) {
        if self.ssthresh.is_some() && self.slow_start_from == Some(self.bytes) {
            return;
        }
        let least = MIN_SSTHRESH_DATAGRAMS * self.datagram;
        self.ssthresh = Some((self.bytes * share).max(least));
        self.set(0.0);
        self.slow_start_from = Some(self.bytes);
    }

    fn set(&mut self, bytes: f64) {
        let least = MIN_WINDOW_DATAGRAMS * self.datagram;
        // `max` also turns NaN into the smallest window.
        self.bytes = bytes.max(least).min(MAX_WINDOW as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_between_one_datagram_and_the_maximum() {
        let mut window = Window::new(0, 1000);
        assert_eq!(window.get(), 1000);
        window.grow_slow_start(f64::INFINITY);
        assert_eq!(window.get(), MAX_WINDOW);
        window.grow_slow_start(f64::NAN);
        assert_eq!(window.get(), 1000);
        window.cut(0.0);
        assert_eq!(window.get(), 1000);
        window.set_datagram(1400);
        assert_eq!(window.get(), 1400);
    }

    #[test]
    fn an_acknowledged_window_grows_by_the_datagrams_asked() {
        let mut window = Window::new(10_000, 1000);
        window.grow(2.0, 5000);
        assert_eq!(window.get(), 11_000);
        window.grow(2.0, u64::MAX);
        assert_eq!(window.get(), 13_000);
    }

    #[test]
    fn slow_start_ends_exactly_at_the_threshold() {
        let mut window = Window::new(20_000, 1000);
        window.collapse(0.5);
        assert_eq!((window.get(), window.ssthresh()), (1000, Some(10_000)));
        window.collapse(0.5);
        assert_eq!(window.ssthresh(), Some(10_000), "held while nothing grows");
        window.grow_slow_start(8000.0);
        assert_eq!(window.slow_start_from(), Some(1000.0));
        window.grow_slow_start(8000.0);
        assert_eq!((window.get(), window.slow_start_from()), (10_000, None));
    }
}
