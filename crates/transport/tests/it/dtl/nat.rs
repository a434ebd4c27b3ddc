//! NAT-friendliness: one UDP port, addresses that change, and two NATs.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use ringway_testbed::{Host, Line as Cable, Network, Rule};
use ringway_transport::dtl::{Connection, Endpoint, Error, PeerKey, Priority, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::line::{Line, Quality};
use super::{Pair, bound, directly, key, pair, stream};
use crate::support::{loopback, skipped, soon, until};

const LINE: Quality = Quality {
    rate: 50_000_000,
    delay: Duration::from_millis(5),
    queue: Duration::from_millis(50),
};

/// Moves bytes from the first to the second while something happens, on one stream.
async fn transfer(pair: &Pair, meanwhile: impl Future<Output = ()>) {
    let (mut ours, mut theirs) = stream(pair, 1.0).await;
    let reading = tokio::spawn(async move {
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.map(|_| got)
    });
    ours.write_all(&vec![1; 1_000_000]).await.unwrap();
    meanwhile.await;
    soon(ours.write_all(&vec![2; 2_000_000])).await.unwrap();
    soon(ours.finish()).await.unwrap();
    let got = soon(reading).await.unwrap().unwrap();
    assert_eq!((got.len(), got[0], got[2_999_999]), (3_000_000, 1, 2));
}

/// One port serves connections in both directions at once.
#[tokio::test]
async fn one_port_makes_and_accepts_connections() {
    let ((one, at_one, key_one), (two, at_two, key_two)) = (bound(1), bound(2));
    let there = one.connect(at_two, key_two, Priority::NORMAL);
    let back = two.connect(at_one, key_one, Priority::NORMAL);
    let (there, back) = soon(async { tokio::join!(there, back) }).await;
    let (_there, _back) = (there.unwrap(), back.unwrap());
    let (into_one, into_two) = soon(async { tokio::join!(one.accept(), two.accept()) }).await;
    assert_eq!(into_two.unwrap().remote_address(), Some(at_one));
    assert_eq!(into_one.unwrap().remote_address(), Some(at_two));
}

/// A NAT forgets, and gives another port: the connection and its streams go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_goes_on_from_another_port() {
    let mut line = None;
    let lay = async |address| {
        line.insert(Line::lay(address, LINE).await.unwrap())
            .address()
    };
    let pair = pair(lay).await;
    let line = line.unwrap();
    let before = pair.into.remote_address().unwrap();
    let mut after = before;
    transfer(&pair, async { after = line.renumber().await.unwrap() }).await;
    assert_ne!(before, after);
    until(|| pair.into.remote_address() == Some(after)).await;
}

/// The program goes to another network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_goes_on_from_another_socket() {
    let pair = directly().await;
    let [one, _] = &pair.ends;
    let before = one.local_address().unwrap();
    transfer(&pair, async { one.rebind(loopback()).unwrap() }).await;
    let after = one.local_address().unwrap();
    assert_ne!(before, after);
    until(|| pair.into.remote_address() == Some(after)).await;
    // An address of another host's.
    let error = one.rebind("192.0.2.1:0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "{error}");
    assert_eq!(one.local_address().unwrap(), after);
}

#[tokio::test]
async fn peer_tells_which_address_it_sees() {
    let mut line = None;
    let lay = async |address| {
        line.insert(Line::lay(address, LINE).await.unwrap())
            .address()
    };
    let pair = pair(lay).await;
    until(|| pair.out.observed_address().is_some()).await;
    let seen = pair.out.observed_address().unwrap();
    assert_eq!(Some(seen), pair.into.remote_address());
    assert_ne!(seen, pair.ends[0].local_address().unwrap());
}

/// A host behind a NAT of its own, which has this address outside.
fn behind_nat(network: &mut Network, switch: &Host, number: u8) -> Host {
    let (gateway, host) = (
        network.gateway("gateway").unwrap(),
        network.host("inside").unwrap(),
    );
    let outside = format!("203.0.113.{number}/24");
    let uplink = network
        .attach(&gateway, switch, &outside, &Cable::plain())
        .unwrap();
    let ends = [2, 1].map(|end| format!("192.168.{number}.{end}/24"));
    network
        .connect((&host, &ends[0]), (&gateway, &ends[1]), &Cable::plain())
        .unwrap();
    host.route("default", [192, 168, number, 1].into()).unwrap();
    let nat = Rule::Masquerade(uplink.first_interface().to_owned());
    gateway.rules(&[nat]).unwrap();
    host
}

/// What the two do: learn the own address from the third, exchange addresses, both connect, and
/// each sends on the connection that it made and reads on the one that it accepted.
async fn meet(
    own: u8,
    third: SocketAddr,
    peer: PeerKey,
    (tell, told): (mpsc::Sender<SocketAddr>, mpsc::Receiver<SocketAddr>),
) {
    let listen = "0.0.0.0:0".parse().unwrap();
    let endpoint = Endpoint::bind(listen, &key(own), Trust::from(peer)).unwrap();
    let with_third = endpoint.connect(third, key(3).peer_key(), Priority::NORMAL);
    let with_third = soon(with_third).await.unwrap();
    until(|| with_third.observed_address().is_some()).await;
    tell.send(with_third.observed_address().unwrap()).unwrap();
    let there = told.recv().unwrap();
    let out = soon(async {
        loop {
            let connecting = endpoint.connect(there, peer, Priority::NORMAL);
            if let Ok(connection) = connecting.await {
                return connection;
            }
        }
    })
    .await;
    let into = soon(endpoint.accept()).await.unwrap();
    let says = async |connection: &Connection| {
        let mut stream = connection.open(Priority::NORMAL).await.unwrap();
        stream.write_all(&vec![own; 100_000]).await.unwrap();
        stream.finish().await.unwrap();
    };
    let hears = async |connection: &Connection| {
        let mut stream = connection.accept().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert_eq!((got.len(), got[0]), (100_000, 3 - own));
    };
    soon(async { tokio::join!(says(&out), hears(&into)) }).await;
    assert_eq!(out.remote_address(), Some(there));
    // The other may not have heard everything yet.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// Two programs behind NATs that drop what was not asked for meet without a relay.
#[test]
fn two_programs_behind_nats_meet() {
    let name = "two programs behind NATs";
    let Some(mut network) = Network::or_skip(name).unwrap() else {
        return skipped(name, "namespaces");
    };
    let switch = network.switch("internet").unwrap();
    let third = network.host("third").unwrap();
    network
        .attach(&third, &switch, "203.0.113.1/24", &Cable::plain())
        .unwrap();
    let hosts = [9, 10].map(|number| behind_nat(&mut network, &switch, number));
    let (stop, mut stopped) = tokio::sync::mpsc::channel::<()>(1);
    let (tell_third, at_third) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            third.enter(|| {
                block_on(async {
                    let listen = "203.0.113.1:0".parse().unwrap();
                    let endpoint = Endpoint::bind(listen, &key(3), Trust::Anyone).unwrap();
                    tell_third.send(endpoint.local_address().unwrap()).unwrap();
                    let mut held = Vec::new();
                    loop {
                        tokio::select! {
                            connection = endpoint.accept() => held.push(connection),
                            _ = stopped.recv() => return,
                        }
                    }
                });
            })
        });
        let address = at_third.recv().unwrap();
        let ((tell_one, at_one), (tell_two, at_two)) = (mpsc::channel(), mpsc::channel());
        let ways = [(tell_two, at_one), (tell_one, at_two)];
        let meets: Vec<_> = [1, 2]
            .into_iter()
            .zip(&hosts)
            .zip(ways)
            .map(|((own, host), ways)| {
                let peer = key(3 - own).peer_key();
                scope.spawn(move || host.enter(|| block_on(meet(own, address, peer, ways))))
            })
            .collect();
        for one in meets {
            one.join().unwrap().unwrap();
        }
        drop(stop);
    });
}
