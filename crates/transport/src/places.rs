//! Places for connections: when all are taken, the peer that has proved nothing and been quiet for
//! longest makes room.
//!
//! Without that an attacker could take all places of a listener by connections that say nothing,
//! and no other peer would get through. An honest newcomer proves itself within a few round trips;
//! to push it out before that, an attacker must open as many connections as there are places within
//! that time, again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A bounded number of places.
#[derive(Debug)]
pub struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Counts up; the lowest has been quiet for longest.
    next: u64,
    /// Those that may be asked to go.
    guests: BTreeMap<u64, Arc<Notify>>,
    /// How many others there are.
    kept: usize,
}

impl Taken {
    fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }
}

/// One connection's place. Dropping it leaves the place.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    go: Arc<Notify>,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
struct Standing {
    /// Our number among the guests; `None` if kept.
    number: Option<u64>,
    /// How often it is to be kept.
    holders: usize,
}

impl Places {
    /// As many places.
    pub fn new(most: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { most, taken })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // A panic elsewhere cannot leave it half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place. If there is none, the guest that has been quiet for longest is asked to go
    /// ([`Place::must_go`]); `None` if all are kept.
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.guests.len().saturating_add(taken.kept) >= self.most {
            let (_, go) = taken.guests.pop_first()?;
            go.notify_one();
        }
        let (number, go) = (taken.number(), Arc::new(Notify::new()));
        taken.guests.insert(number, Arc::clone(&go));
        Some(Place {
            places: Arc::clone(self),
            go,
            standing: Mutex::new(Standing {
                number: Some(number),
                holders: 0,
            }),
        })
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        let taken = self.taken();
        taken.guests.len().saturating_add(taken.kept)
    }

    /// As [`Self::take`], but waits while all are kept.
    pub async fn wait(self: &Arc<Self>) -> Place {
        /// Time between two looks; who waits is a person.
        const LOOK: Duration = Duration::from_millis(100);
        loop {
            match self.take() {
                Some(place) => return place,
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

impl Place {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the place is wanted for another peer. Its holder ends the connection then.
    pub async fn must_go(&self) {
        self.go.notified().await;
    }

    /// It has done something that is worth waiting for: it is no longer the one that was quiet for
    /// longest.
    pub fn touch(&self) {
        let mut standing = self.standing();
        let mut taken = self.places.taken();
        if let Some(own) = standing.number.as_mut()
            && let Some(go) = taken.guests.remove(own)
        {
            *own = taken.number();
            taken.guests.insert(*own, go);
        }
    }

    /// The holder of the place has proved itself, or is in use: it is not asked to go, until
    /// [`Self::release`] is called as often.
    pub fn keep(&self) {
        let mut standing = self.standing();
        standing.holders = standing.holders.saturating_add(1);
        let mut taken = self.places.taken();
        // Without an entry it has been asked to go already.
        if let Some(own) = standing.number
            && taken.guests.remove(&own).is_some()
        {
            taken.kept = taken.kept.saturating_add(1);
            standing.number = None;
        }
    }

    /// The opposite of [`Self::keep`].
    pub fn release(&self) {
        let mut standing = self.standing();
        standing.holders = standing.holders.saturating_sub(1);
        if standing.holders == 0 && standing.number.is_none() {
            let mut taken = self.places.taken();
            let own = taken.number();
            taken.kept = taken.kept.saturating_sub(1);
            taken.guests.insert(own, Arc::clone(&self.go));
            standing.number = Some(own);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let number = self.standing().number;
        let mut taken = self.places.taken();
        match number {
            Some(own) => drop(taken.guests.remove(&own)),
            None => taken.kept = taken.kept.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it has been asked to go.
    fn is_asked(place: &Place) -> bool {
        let mut asked = std::pin::pin!(place.must_go());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let asked = asked.as_mut().poll(&mut context).is_ready();
        if asked {
            place.go.notify_one();
        }
        asked
    }

    #[test]
    fn quietest_guest_makes_room_and_kept_ones_stay() {
        let places = Places::new(3);
        let [a, b, c] = [0; 3].map(|_| places.take().unwrap());
        a.keep();
        b.touch();
        let d = places.take().unwrap();
        assert_eq!([&a, &b, &c, &d].map(is_asked), [false, false, true, false]);
        // It is late, and takes no place any more.
        c.touch();
        for place in [&b, &c, &d, &d] {
            place.keep();
        }
        d.release();
        assert!(places.take().is_none(), "all are in use");
        d.release();
        let e = places.take().unwrap();
        assert!(is_asked(&d) && !is_asked(&e));
    }

    #[test]
    fn places_come_back() {
        let places = Places::new(2);
        for round in 0..10 {
            let (a, b) = (places.take().unwrap(), places.take().unwrap());
            a.keep();
            b.keep();
            if round % 2 == 0 {
                b.release();
            }
            assert_eq!(places.take().is_some(), round % 2 == 0, "round {round}");
        }
        let taken = places.taken();
        assert_eq!((taken.guests.len(), taken.kept), (0, 0));
    }
}
