//! Places of a listener, of which each source has a share: one that opens connections without end
//! pushes out its own, and no others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringway_transport::{Place, Places};

/// The places, and what each source has of them.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Arc<Places>,
    share: usize,
    /// Only those that have one: no more than there are places, and one that waits.
    sources: Mutex<HashMap<IpAddr, Source>>,
}

/// A connection's place, and the part of its source's share. Dropping it leaves both.
#[derive(Debug)]
pub(crate) struct SharedPlace {
    /// The first to be dropped: the next one of its share waits for this.
    all: Place,
    of_source: Place,
    /// Its source's connections, also those that have been pushed out and have not ended yet.
    _present: Arc<()>,
}

/// What one source has.
#[derive(Debug)]
struct Source {
    places: Arc<Places>,
    present: Arc<()>,
}

impl Shares {
    /// `most` places, of which one source has at most `share`.
    pub(crate) fn new(most: usize, share: usize) -> Shares {
        Shares {
            all: Places::new(most),
            share,
            sources: Mutex::default(),
        }
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<IpAddr, Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place. If the source has used up its share, its own quietest connection makes room,
    /// and none is given while all of those are kept. Waits until that has ended, and while all
    /// places are kept.
    pub(crate) async fn take(&self, from: IpAddr) -> Option<SharedPlace> {
        /// Time between two looks whether a connection has ended that was asked to.
        const LOOK: Duration = Duration::from_millis(1);
        let (of_source, present) = {
            let mut sources = self.sources();
            sources.retain(|_, source| Arc::strong_count(&source.present) > 1);
            let source = sources.entry(source_of(from)).or_insert_with(|| Source {
                places: Places::new(self.share),
                present: Arc::default(),
            });
            (source.places.take()?, Arc::clone(&source.present))
        };
        // Else it would push out another source's. One count is that of the entry itself.
        while Arc::strong_count(&present) > self.share + 1 {
            tokio::time::sleep(LOOK).await;
        }
        Some(SharedPlace {
            all: self.all.wait().await,
            of_source,
            _present: present,
        })
    }
}

impl SharedPlace {
    /// As [`Place::must_go`].
    pub(crate) async fn must_go(&self) {
        tokio::select! {
            () = self.all.must_go() => {}
            () = self.of_source.must_go() => {}
        }
    }

    /// As [`Place::touch`].
    pub(crate) fn touch(&self) {
        self.all.touch();
        self.of_source.touch();
    }

    /// As [`Place::keep`].
    pub(crate) fn keep(&self) {
        self.all.keep();
        self.of_source.keep();
    }
}

/// Whom a connection counts for: an IPv4 address; of IPv6 the 64 bits of a network, within which a
/// machine takes any address.
pub(crate) fn source_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(ip) => {
            let network = u128::from(ip) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    /// A connection that ends when it is asked to; kept, if it is to be.
    async fn connection(shares: &Shares, from: IpAddr, keep: bool) -> Option<JoinHandle<()>> {
        let place = shares.take(from).await?;
        if keep {
            place.keep();
        }
        Some(tokio::spawn(async move { place.must_go().await }))
    }

    #[tokio::test]
    async fn one_source_pushes_out_its_own_connections_only() {
        let shares = Shares::new(8, 2);
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
        let honest = connection(&shares, other, false).await.unwrap();
        let mut taken = Vec::new();
        for _ in 0..20 {
            taken.push(connection(&shares, one, false).await.unwrap());
        }
        tokio::task::yield_now().await;
        assert!(!honest.is_finished());
        let ended: Vec<bool> = taken.iter().map(JoinHandle::is_finished).collect();
        assert_eq!(ended, [[true; 18].as_slice(), &[false; 2]].concat());
        let neighbour: IpAddr = "2001:db8::2:0:0:1".parse().unwrap();
        assert_eq!(source_of("2001:db8::9".parse().unwrap()), source_of(other));
        assert!(connection(&shares, neighbour, false).await.is_some());
    }

    #[tokio::test]
    async fn a_used_up_share_gets_no_more() {
        let shares = Shares::new(8, 2);
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let kept = [
            shares.take(one).await.unwrap(),
            shares.take(one).await.unwrap(),
        ];
        kept.iter().for_each(SharedPlace::keep);
        assert!(connection(&shares, one, false).await.is_none());
        let other = connection(&shares, "192.0.2.2".parse().unwrap(), true).await;
        assert!(other.is_some());
        drop(kept);
        let again = timeout(Duration::from_secs(5), shares.take(one)).await;
        assert!(again.unwrap().is_some());
    }
}
