//! A list of table slots ordered by use: moving one to the end and taking the oldest cost the same
//! at any size.

const NONE: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: usize,
    newer: usize,
}

/// Slots from the one unused for longest to the one used last.
#[derive(Debug)]
pub(super) struct Recency {
    links: Vec<Link>,
    oldest: usize,
    newest: usize,
}

impl Recency {
    pub(super) fn new() -> Self {
        Self {
            links: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// The slot unused for longest.
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Adds a slot that is not in the list, as the one used last.
    pub(super) fn push(&mut self, slot: usize) {
        if self.links.len() <= slot {
            self.links.resize(
                slot.saturating_add(1),
                Link {
                    older: NONE,
                    newer: NONE,
                },
            );
        }
        let newest = self.newest;
        self.set(
            slot,
            Link {
                older: newest,
                newer: NONE,
            },
        );
        match self.links.get_mut(newest) {
            Some(link) => link.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    /// Takes a slot that is in the list out of it.
    pub(super) fn remove(&mut self, slot: usize) {
        let Some(&Link { older, newer }) = self.links.get(slot) else {
            return;
        };
        match self.links.get_mut(older) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
        self.set(
            slot,
            Link {
                older: NONE,
                newer: NONE,
            },
        );
    }

    fn set(&mut self, slot: usize, link: Link) {
        if let Some(entry) = self.links.get_mut(slot) {
            *entry = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Recency;

    #[test]
    fn the_oldest_leaves_first_and_use_renews() {
        let mut list = Recency::new();
        for slot in [2, 0, 1] {
            list.push(slot);
        }
        list.remove(2);
        list.push(2);
        let mut order = Vec::new();
        while let Some(slot) = list.oldest() {
            order.push(slot);
            list.remove(slot);
        }
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn removal_from_the_middle_keeps_the_rest() {
        let mut list = Recency::new();
        for slot in 0..3 {
            list.push(slot);
        }
        list.remove(1);
        assert_eq!(list.oldest(), Some(0));
        list.remove(0);
        assert_eq!(list.oldest(), Some(2));
    }
}
