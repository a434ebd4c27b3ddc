//! What routers do for leaves, and for members that claim to be leaves.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ringway_overlay::{Message, between};
use ringway_testbed::free_address;
use ringway_transport::{
    Address, AddressDescriptor, Hello, MemberId, Referral, RelayAddress, Signer as _,
};

use super::members::{DIRECT, Honest, Owner, Puppet};
use crate::identity::Identity;
use crate::limits::REGISTER_PAUSE;
use crate::link::LinkMessage;
use crate::member::services::key_of;

/// Generous: a condition is waited for in between.
const ROUNDS: usize = 300;
/// Leaves that go to the router that joins, and leaves that stay.
const GOING: usize = 280;
const STAYING: usize = 20;

/// Asks for a packet to be passed on until something comes back, and gives the one who has sent
/// that.
async fn relayed(
    puppet: &mut Puppet,
    by: &Honest,
    to: MemberId,
    packet: &[u8],
    rounds: usize,
) -> Option<MemberId> {
    for _ in 0..rounds {
        let (to, packet) = ((*to.as_bytes()).into(), packet.to_vec().into());
        puppet.say(by, LinkMessage::Relay { to, packet });
        let answered = |message: &LinkMessage| matches!(message, LinkMessage::Relayed { .. });
        let heard = puppet.run(Duration::from_millis(200), answered).await;
        if let Some(LinkMessage::Relayed { from, .. }) = heard {
            return Some(MemberId::new(*from));
        }
    }
    None
}

/// A router makes a link with another for its leaf and for no other.
#[tokio::test]
async fn router_links_to_another_only_for_its_leaf() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let lima = Honest::start(&mut owner, "lima", DIRECT).await;
    assert!(oslo.directory.admit(lima.certificate.as_bytes()).is_ok());
    let mut alice = Puppet::new(&mut owner, "alice").await;
    let bob = Puppet::new(&mut owner, "bob").await;
    assert!(oslo.directory.admit(bob.certificate.as_bytes()).is_ok());
    alice.link_to(&oslo).await;
    // The handshake of a link with lima, by way of oslo.
    let mut other = Puppet::new(&mut owner, "other").await;
    let (parent, member) = (oslo.certificate.member(), lima.certificate.member());
    let way = Address::Relay(RelayAddress { parent, member });
    let now = Instant::now();
    other
        .links
        .connect(now, &lima.certificate, vec![way.clone()]);
    let (to, initiation) = other.links.poll_transmit(now).unwrap();
    assert_eq!(to, way);
    let answer = relayed(&mut alice, &oslo, member, &initiation, ROUNDS).await;
    assert_eq!(answer, Some(member), "lima answers");
    // Neither a leaf that is not linked nor the router itself is dialled.
    let before = oslo.counter("relay_packets_refused").await;
    for to in [bob.certificate.member(), parent] {
        assert_eq!(relayed(&mut alice, &oslo, to, &initiation, 2).await, None);
    }
    let refused = oslo.counter("relay_packets_refused").await - before;
    assert_eq!(refused, 4);
    // A router has no need of that.
    let mut quito = Puppet::at(&mut owner, "quito", Some(free_address().unwrap())).await;
    let cairo = Honest::start(&mut owner, "cairo", DIRECT).await;
    assert!(oslo.directory.admit(cairo.certificate.as_bytes()).is_ok());
    quito.link_to(&oslo).await;
    let cairo = cairo.certificate.member();
    assert_eq!(
        relayed(&mut quito, &oslo, cairo, &initiation, 2).await,
        None
    );
    let refused = oslo.counter("relay_packets_refused").await - before;
    assert_eq!(refused, 6);
}

fn hello_of_a_leaf() -> (MemberId, Vec<u8>) {
    let identity = Identity::generate().unwrap();
    let parent = MemberId::new([1; 32]);
    let member = identity.member();
    let relay = Address::Relay(RelayAddress { parent, member });
    let hello = Hello::sign(&identity, 1, vec![AddressDescriptor::observed(relay)]).unwrap();
    let referral = Referral::new(hello.encoded().clone(), Vec::new()).unwrap();
    (member, referral.encode())
}

fn handed_over(heard: &[(MemberId, LinkMessage)]) -> BTreeSet<MemberId> {
    let kept = heard.iter().filter_map(|(_, message)| match message {
        LinkMessage::Keep { referral, copies } => {
            assert_eq!(*copies, 0, "the giver has the copy");
            let referral = Referral::decode(referral).unwrap();
            Some(Hello::decode(referral.hello()).unwrap().member())
        }
        _ => None,
    });
    kept.collect()
}

/// Runs until all of these have been handed over, and no other.
async fn gets(router: &mut Puppet, expected: &BTreeSet<MemberId>) {
    for _ in 0..ROUNDS {
        router.run(Duration::from_millis(200), |_| false).await;
        if handed_over(&router.heard).len() >= expected.len() {
            break;
        }
    }
    let handed = handed_over(&router.heard);
    let foreign = handed.difference(expected).count();
    assert!(
        handed.len() == expected.len() && foreign == 0,
        "{} of {}, and {foreign} that are not its own",
        handed.len(),
        expected.len()
    );
}

/// A router that joins gets the leaves that it is responsible for.
#[tokio::test]
async fn joining_router_gets_leaves_of_its_range() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut lima = Puppet::at(&mut owner, "lima", Some(free_address().unwrap())).await;
    lima.link_to(&oslo).await;
    let (me, before) = (&oslo.certificate, &lima.certificate);
    let (me, before) = (me.ring_key().unwrap(), before.ring_key().unwrap());
    // More than are handed over at once, but no more than before oslo notices that a puppet answers
    // no question of the ring.
    let (mut expected, mut stay) = (BTreeSet::new(), 0);
    let mut number = 0;
    while number < GOING + STAYING {
        let (member, referral) = hello_of_a_leaf();
        let stays = between(&before, &key_of(&member), &me);
        match stays {
            true if stay < STAYING => stay += 1,
            false if expected.len() < GOING => drop(expected.insert(member)),
            _ => continue,
        }
        number += 1;
        let (referral, copies) = (referral.into(), 0);
        lima.say(&oslo, LinkMessage::Keep { referral, copies });
        if number % 20 == 0 {
            lima.echo(&oslo, 10 + number as u64).await;
        }
    }
    lima.echo(&oslo, 1_000).await;
    let all = (GOING + STAYING) as u64;
    assert_eq!(oslo.counter("leaves_kept").await, all);
    // It becomes oslo's predecessor.
    lima.say(&oslo, LinkMessage::Overlay(Message::Notify.encode().into()));
    gets(&mut lima, &expected).await;
    assert_eq!(oslo.counter("leaves_kept").await, all, "it has the copies");
    // It restarts, and has forgotten them.
    lima.restart(&owner);
    lima.link_to(&oslo).await;
    lima.say(&oslo, LinkMessage::Overlay(Message::Notify.encode().into()));
    gets(&mut lima, &expected).await;
}

/// A leaf that says nothing more is registered again.
#[tokio::test]
async fn silent_leaf_is_registered_again() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    alice.link_to(&oslo).await;
    let hello = Hello::sign(&alice.identity, 1, Vec::new()).unwrap();
    let hello = hello.encoded().to_vec().into();
    alice.say(&oslo, LinkMessage::Register { hello });
    alice.echo(&oslo, 2).await;
    assert_eq!(oslo.counter("registrations").await, 1);
    let end = Instant::now() + 4 * REGISTER_PAUSE;
    while oslo.counter("registrations").await < 2 && Instant::now() < end {
        // Its link lives; idle links end.
        alice.run(Duration::from_secs(1), |_| false).await;
    }
    assert_eq!(oslo.counter("registrations").await, 2);
}
