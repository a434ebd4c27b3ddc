//! All paths at once, where somebody cannot wait until the path in use is known to be dead.

use std::time::Instant;

use super::Paths;
use crate::limits;

impl Paths {
    /// Command: something that cannot wait hears nothing over the path in use. All paths are
    /// probed, those among them that did not work; the first that answers is used. If the path in
    /// use answers after all, it is taken again as any better path is. Called again and again while
    /// nothing is heard, it asks those once more that have not answered in time.
    pub fn race(&mut self, now: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_mail()) {
            if let Some(proved) = entry.proved {
                if now.saturating_duration_since(proved) < limits::PATH_PROBE {
                    continue;
                }
                entry.doubt(now);
            }
            // A probe that is out is lost when its time is over.
            if !entry.is_asked() {
                entry.due = Some(now);
            }
        }
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        // It has answered only just now.
        self.racing = active.is_none_or(|entry| !entry.is_fresh(now));
    }
}
