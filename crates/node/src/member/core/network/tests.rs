//! What becomes of packets that cannot be sent.

use ringway_testbed::free_address;
use ringway_transport::{Counters, Link, SendError, Signer as _};

use super::*;
use crate::certificate::CertificateFields;
use crate::statement::Statement;

/// A session whose far end has gone.
#[derive(Debug)]
struct Ended {
    counters: Counters,
    remote: Address,
}

impl Link for Ended {
    fn offer(&self, _message: &[u8]) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn remote(&self) -> Address {
        self.remote.clone()
    }

    fn mtu(&self) -> usize {
        1_200
    }

    fn is_closed(&self) -> bool {
        true
    }
}

/// The transports of a router.
async fn network() -> (Network, Arrivals) {
    let (owner, identity) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let fields = CertificateFields {
        member: identity.member(),
        name: "oslo".parse().unwrap(),
        address: Some(free_address().unwrap()),
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial: 1,
    };
    let certificate = Certificate::issue(&owner, &fields);
    let statement = Statement::issue(&owner, 1, 2, BTreeSet::new());
    let no_server = "127.0.0.1:9".parse().unwrap();
    let directory = Directory::new(owner.member(), "ring.example", statement, Some(no_server));
    let home = tempfile::tempdir().unwrap();
    std::fs::write(crate::home::config_path(home.path()), "[node]\n").unwrap();
    let config = Config::load(home.path()).unwrap();
    Network::start(
        &config,
        &identity,
        &certificate,
        &Arc::new(directory.unwrap()),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn packets_refused_by_a_new_session_are_counted() {
    let (mut network, _arrivals) = network().await;
    let remote = Address::Tcp("192.0.2.1:7".parse().unwrap());
    let waiting = VecDeque::from([vec![1], vec![2]]);
    network.connecting.insert(remote.clone(), waiting);
    let ended = Ended {
        counters: Counters::default(),
        remote: remote.clone(),
    };
    network.connected(Instant::now(), remote, Ok(Session::new(Arc::new(ended))));
    let counted: BTreeMap<&str, u64> = network.dropped.by_reason().into();
    assert_eq!(counted["packets_dropped_closed"], 2);
}
