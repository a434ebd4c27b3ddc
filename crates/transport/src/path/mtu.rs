//! How long a packet one path carries (RFC 8899, simplified): padded probes find out, once
//! packets leave that would be longer, and go on finding out while the path is used.

use std::time::{Duration, Instant};

use crate::address::Protocol;
use crate::limits::{
    MTU_AGAIN, MTU_CANDIDATES, MTU_DOUBTS, MTU_TRIES, MTU_WORTH, PATH_PROBE, UDP_MTU,
};

/// The search for one path's MTU.
#[derive(Debug)]
pub(super) struct MtuSearch {
    /// What has been shown to pass, bytes.
    current: u32,
    /// What the receiver takes, bytes.
    most: u32,
    /// Whether the path may carry less than the receiver takes.
    searched: bool,
    /// The probe that is out: number, length, when it was sent.
    probe: Option<(u64, u32, Instant)>,
    /// Probes of the next length that were lost.
    tries: u32,
    /// Before that nothing longer is tried.
    rests_until: Option<Instant>,
    /// How often in a row a padded probe was lost and a short one was not.
    doubts: u32,
    /// Packets that would have been longer if they could, since the search last rested.
    full: u32,
}

impl MtuSearch {
    /// A path over this protocol to somebody who takes `most` bytes.
    pub(super) fn new(protocol: Protocol, most: u32) -> Self {
        let searched = protocol == Protocol::Udp;
        let mut search = Self {
            current: least(),
            most,
            searched,
            probe: None,
            tries: 0,
            rests_until: None,
            doubts: 0,
            full: 0,
        };
        search.receiver_takes(most);
        search
    }

    /// The receiver says what it takes.
    pub(super) fn receiver_takes(&mut self, most: u32) {
        self.most = most;
        self.current = if self.searched {
            self.current.max(least()).min(most)
        } else {
            most
        };
    }

    /// Largest message, bytes.
    pub(super) const fn current(&self) -> u32 {
        self.current
    }

    fn candidate(&self) -> Option<u32> {
        let mut longer = MTU_CANDIDATES.into_iter();
        longer.find(|length| *length > self.current && *length <= self.most)
    }

    /// When something longer is to be tried, or the try that is out is lost.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.searched {
            return None;
        }
        if let Some((.., sent)) = self.probe {
            return sent.checked_add(PATH_PROBE);
        }
        self.candidate().filter(|_| self.full >= MTU_WORTH)?;
        Some(self.rests_until.unwrap_or(now))
    }

    /// The length of the probe that leaves now with this number, if one is due.
    pub(super) fn poll_probe(&mut self, now: Instant, number: u64) -> Option<u32> {
        if self.probe.is_some() || self.due(now).is_none_or(|due| due > now) {
            return None;
        }
        let length = self.candidate()?;
        self.probe = Some((number, length, now));
        Some(length)
    }

    /// An answer came; true if it was to a probe of this search.
    pub(super) fn handle_answer(&mut self, number: u64) -> bool {
        let Some((_, length, _)) = self.probe.filter(|(own, ..)| *own == number) else {
            return false;
        };
        self.probe = None;
        self.current = length.min(self.most).max(self.current);
        self.tries = 0;
        self.rests_until = None;
        true
    }

    /// The probe that is out may be lost.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let Some((.., sent)) = self.probe else {
            return;
        };
        if now.saturating_duration_since(sent) < PATH_PROBE {
            return;
        }
        self.probe = None;
        self.tries = self.tries.saturating_add(1);
        if self.tries >= MTU_TRIES {
            self.rest(now, MTU_AGAIN);
        }
    }

    /// A packet has left that would have been longer if it could.
    pub(super) fn was_full(&mut self) {
        self.full = self.full.saturating_add(1);
    }

    fn rest(&mut self, now: Instant, time: Duration) {
        self.tries = 0;
        self.full = 0;
        self.rests_until = now.checked_add(time);
    }

    /// To what length a probe of the path in use is padded, so that it shows that long packets
    /// still pass.
    pub(super) fn padding(&self) -> Option<u32> {
        (self.searched && self.current > least()).then_some(self.current)
    }

    /// A padded probe was answered.
    pub(super) fn confirm(&mut self) {
        self.doubts = 0;
    }

    /// A padded probe was lost, and the next, a short one, was not.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.doubts = self.doubts.saturating_add(1);
        if self.doubts >= MTU_DOUBTS {
            self.doubts = 0;
            self.current = least().min(self.most);
            self.rest(now, MTU_AGAIN);
        }
    }
}

fn least() -> u32 {
    u32::try_from(UDP_MTU).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many packets leave as make a search worth its probes.
    fn fill(path: &mut MtuSearch) {
        (0..MTU_WORTH).for_each(|_| path.was_full());
    }

    /// Searches over a path that carries `carries` bytes, for `time`.
    fn search(search: &mut MtuSearch, start: Instant, time: Duration, carries: u32) -> u32 {
        let mut now = start;
        let mut probes = 0;
        while let Some(due) = search.due(now).filter(|due| *due <= start + time) {
            now = now.max(due);
            search.handle_timeout(now);
            let number = u64::from(probes);
            if let Some(length) = search.poll_probe(now, number) {
                probes += 1;
                if length <= carries {
                    assert!(search.handle_answer(number));
                }
            }
        }
        probes
    }

    /// Longer ones are left alone for [`MTU_AGAIN`].
    #[test]
    fn longest_size_that_passes_is_found() {
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let mut path = MtuSearch::new(Protocol::Udp, 8_952);
        assert_eq!(path.current(), 1_200);
        for _ in 1..MTU_WORTH {
            path.was_full();
        }
        assert_eq!(search(&mut path, start, minute, 1_500), 0, "small talk");
        path.was_full();
        let probes = search(&mut path, start, minute, 1_500);
        assert_eq!(path.current(), 1_452);
        assert_eq!(probes, 1 + MTU_TRIES);
        // No message is longer; then one is, and the path has become wider.
        assert_eq!(search(&mut path, start, MTU_AGAIN + minute, 9_000), 0);
        fill(&mut path);
        search(&mut path, start, MTU_AGAIN + minute, 9_000);
        assert_eq!(path.current(), 8_952);
    }

    #[test]
    fn lower_limit_of_the_receiver_holds() {
        let start = Instant::now();
        let mut path = MtuSearch::new(Protocol::Udp, 1_200);
        fill(&mut path);
        assert_eq!(path.due(start), None);
        path.receiver_takes(1_000);
        assert_eq!(path.current(), 1_000);
        assert_eq!(MtuSearch::new(Protocol::Tcp, 16_384).current(), 16_384);
    }

    #[test]
    fn a_path_that_has_become_narrow_is_noticed() {
        let start = Instant::now();
        let mut path = MtuSearch::new(Protocol::Udp, 1_452);
        fill(&mut path);
        search(&mut path, start, Duration::from_secs(1), 1_452);
        assert_eq!(path.padding(), Some(1_452));
        path.doubt(start);
        path.confirm();
        path.doubt(start);
        assert_eq!(path.current(), 1_452, "a probe may be lost by chance");
        path.doubt(start);
        assert_eq!(path.current(), 1_200);
        assert_eq!(path.due(start), None);
        fill(&mut path);
        assert!(path.due(start) > Some(start));
    }
}
