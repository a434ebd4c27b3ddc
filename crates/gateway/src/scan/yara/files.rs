//! Files under way of which rules are asked as wholes, kept within bounds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::flow::Direction;
use crate::limits::{MAX_SCAN_SESSIONS, MAX_WHOLE, MAX_WHOLE_HELD, SCAN_IDLE};
use crate::verdict::{FlowId, ScanJob};

/// Time between two looks for files that stand still.
const TIDY: Duration = Duration::from_secs(10);

/// Files under way that may become whole ones.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) parts: HashMap<(FlowId, Direction), Part>,
    pub(super) held: usize,
    /// When those that stand still were last looked for.
    tidied: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Part {
    bytes: Vec<u8>,
    used: Instant,
}

impl Files {
    /// Adds what is new in a window; returns the whole file if it ends with it and all of it was
    /// kept.
    pub(super) fn take_in(&mut self, job: &ScanJob) -> Option<Vec<u8>> {
        let key = (job.flow, job.direction);
        let new = job.bytes.get(job.repeated..).unwrap_or_default();
        let mut part = if job.first {
            self.forget(job);
            self.tidy();
            Part {
                bytes: Vec::new(),
                used: Instant::now(),
            }
        } else {
            let part = self.parts.remove(&key)?;
            self.held = self.held.saturating_sub(part.bytes.len());
            part
        };
        let length = part.bytes.len().saturating_add(new.len());
        if length > MAX_WHOLE {
            return None;
        }
        part.bytes.extend_from_slice(new);
        if job.last {
            return Some(part.bytes);
        }
        // The oldest give way: of a flow that stopped there comes no last window.
        while self.held.saturating_add(length) > MAX_WHOLE_HELD && self.forget_oldest() {}
        part.used = Instant::now();
        self.held = self.held.saturating_add(length);
        self.parts.insert(key, part);
        None
    }

    pub(super) fn forget(&mut self, job: &ScanJob) {
        if let Some(part) = self.parts.remove(&(job.flow, job.direction)) {
            self.held = self.held.saturating_sub(part.bytes.len());
        }
    }

    /// Forgets what stands still, of flows that are over too, and the oldest where there are too
    /// many.
    fn tidy(&mut self) {
        let now = Instant::now();
        let due = self
            .tidied
            .is_none_or(|tidied| now.duration_since(tidied) >= TIDY);
        if due {
            self.tidied = Some(now);
            self.parts
                .retain(|_, part| now.duration_since(part.used) < SCAN_IDLE);
            self.held = self.parts.values().map(|part| part.bytes.len()).sum();
        }
        while self.parts.len() >= MAX_SCAN_SESSIONS && self.forget_oldest() {}
    }

    /// Forgets what has stood still for longest; `false`: there is nothing.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.parts.iter().min_by_key(|(_, part)| part.used);
        let Some(key) = oldest.map(|(key, _)| *key) else {
            return false;
        };
        if let Some(part) = self.parts.remove(&key) {
            self.held = self.held.saturating_sub(part.bytes.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::Files;
    use crate::limits::{MAX_WHOLE, MAX_WHOLE_HELD};

    #[test]
    fn endless_files_make_room_for_new_ones() {
        let mut files = Files::default();
        let count = u64::try_from(MAX_WHOLE_HELD / MAX_WHOLE).unwrap() + 3;
        for flow in 0..count {
            assert!(
                files
                    .take_in(&job(flow, MAX_WHOLE, (true, false)))
                    .is_none()
            );
            assert!(files.held <= MAX_WHOLE_HELD);
        }
        assert!(files.take_in(&job(99, 100, (true, false))).is_none());
        let whole = files.take_in(&job(99, 50, (false, true)));
        assert_eq!(whole.map(|whole| whole.len()), Some(150));
        let whole = files.take_in(&job(100, 70, (true, true)));
        assert_eq!(whole.map(|whole| whole.len()), Some(70));
        let held: usize = files.parts.values().map(|part| part.bytes.len()).sum();
        assert_eq!(held, files.held);
    }
}
