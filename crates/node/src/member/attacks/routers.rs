//! Routers of which one runs and the others say what a test lets them say: how one leaves, and what
//! becomes of one that lies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_overlay::{Message, RingKey, View};
use ringway_testbed::free_address;
use ringway_transport::Signer as _;

use super::members::{DIRECT, Honest, Owner, Puppet};
use super::{A_WHILE, SOON};
use crate::clock::unix_seconds;
use crate::credentials::RouterCredentials;
use crate::evidence::Evidence;
use crate::link::LinkMessage;
use crate::state::State;

/// A router that answers what the ring has to know, and has no state of its own.
struct Router {
    puppet: Puppet,
    credentials: RouterCredentials,
    /// All routers of the ring, in their order.
    ring: Vec<RingKey>,
    /// What it states of them.
    view: Option<View>,
    /// How much of what it has heard has been answered.
    answered: usize,
}

impl Router {
    async fn new(owner: &mut Owner, name: &str, honest: &Honest) -> Router {
        let mut puppet = Puppet::at(owner, name, Some(free_address().unwrap())).await;
        puppet.link_to(honest).await;
        let directory = Arc::clone(&honest.directory);
        let own = puppet.certificate.clone();
        directory.admit(own.as_bytes()).unwrap();
        let credentials = RouterCredentials::new(puppet.identity.clone(), own, directory);
        Router {
            puppet,
            credentials,
            ring: Vec::new(),
            view: None,
            answered: 0,
        }
    }

    fn key(&self) -> RingKey {
        self.puppet.certificate.ring_key().unwrap()
    }

    /// A view of the same number always: only one of them may be said by an honest one.
    fn sign(&self, group: Vec<RingKey>) -> View {
        let expires = unix_seconds() + 60;
        View::sign(
            &self.credentials,
            self.key(),
            ([0; 16], 1),
            None,
            expires,
            group,
        )
    }

    fn say(&mut self, honest: &Honest, message: &Message) {
        let message = LinkMessage::Overlay(message.encode().into());
        self.puppet.say(honest, message);
    }

    /// What of the ring's messages it has heard.
    fn heard(&self) -> Vec<Message> {
        let heard = self.puppet.heard.iter();
        let heard = heard.filter_map(|(_, message)| match message {
            LinkMessage::Overlay(bytes) => Message::decode(bytes).ok(),
            _ => None,
        });
        heard.collect()
    }

    /// Listens for a moment, and answers by the true ring.
    async fn serve(&mut self, honest: &Honest) {
        self.puppet.run(Duration::from_millis(20), |_| false).await;
        let heard = self.heard();
        for message in heard.iter().skip(self.answered) {
            if let Some(answer) = self.answer(message) {
                self.say(honest, &answer);
            }
        }
        self.answered = heard.len();
        self.puppet.run(Duration::ZERO, |_| false).await;
    }

    fn answer(&self, message: &Message) -> Option<Message> {
        let own = self.ring.iter().position(|key| *key == self.key())?;
        let mut others = self.ring.clone();
        others.rotate_left(own);
        let others = others.split_off(1);
        Some(match *message {
            Message::Ping { id } => Message::Pong { id, member: true },
            Message::GetState { id } => Message::State {
                id,
                predecessor: others.last().copied(),
                successors: others,
            },
            Message::GetView { id, .. } => Message::ViewIs {
                id,
                view: self.view.clone()?,
            },
            _ => return None,
        })
    }
}

/// An honest router and others that have its certificate and it theirs, in one ring as far as they
/// say.
async fn ring(owner: &mut Owner, names: &[&str]) -> (Honest, Vec<Router>) {
    let oslo = Honest::start(owner, "oslo", DIRECT).await;
    let mut routers = Vec::new();
    for name in names {
        routers.push(Router::new(owner, name, &oslo).await);
    }
    let mut keys: Vec<RingKey> = routers.iter().map(Router::key).collect();
    keys.extend(oslo.certificate.ring_key());
    keys.sort_unstable();
    for router in &mut routers {
        router.ring.clone_from(&keys);
        router.view = Some(router.sign(keys.clone()));
        router.say(&oslo, &Message::Notify);
    }
    (oslo, routers)
}

/// Lets the routers answer until it is so.
async fn until(honest: &Honest, routers: &mut [Router], is_so: impl Fn(&[Router]) -> bool) {
    let end = Instant::now() + SOON;
    while !is_so(routers) {
        assert!(Instant::now() < end, "not within a minute");
        for router in routers.iter_mut() {
            router.serve(honest).await;
        }
    }
}

fn was_asked_for_its_view(router: &Router) -> bool {
    let heard = router.heard();
    heard.iter().any(|m| matches!(m, Message::GetView { .. }))
}

/// A router that ends tells those around it that it leaves.
#[tokio::test]
async fn ending_router_notifies_its_neighbours() {
    let mut owner = Owner::new();
    let (oslo, mut routers) = ring(&mut owner, &["lima", "cairo", "quito"]).await;
    until(&oslo, &mut routers, |routers| {
        routers.iter().all(was_asked_for_its_view)
    })
    .await;
    // With their answers it knows three others, one more than its list of successors holds.
    for router in &mut routers {
        router.serve(&oslo).await;
    }
    let address = oslo.address;
    drop(oslo.stop);
    for router in &mut routers {
        let leaves = |message: &LinkMessage| match message {
            LinkMessage::Overlay(bytes) => {
                Message::decode(bytes).is_ok_and(|message| message == Message::Leaving)
            }
            _ => false,
        };
        let said = router.puppet.run(SOON, leaves).await;
        assert!(said.is_some(), "{address} says that it leaves");
    }
}

/// A router that tells two stories is convicted by a file and stays so.
#[tokio::test]
async fn two_stories_convict_router_across_restarts() {
    let mut owner = Owner::new();
    let (oslo, mut routers) = ring(&mut owner, &["mallory"]).await;
    until(&oslo, &mut routers, |routers| {
        routers.iter().all(was_asked_for_its_view)
    })
    .await;
    assert_eq!(Evidence::kept(oslo.home.path()), []);
    let mallory = &mut routers[0];
    let (guilty, alone) = (mallory.puppet.certificate.clone(), mallory.key());
    let other = mallory.sign(vec![alone]);
    mallory.say(&oslo, &Message::Announce { view: other });
    let home = oslo.home.path().to_owned();
    until(&oslo, &mut routers, |_| !Evidence::kept(&home).is_empty()).await;
    let ring = owner.identity.member();
    let kept = Evidence::kept(&home);
    let judged = kept[0].judge(&ring).unwrap();
    assert_eq!(judged.certificate, guilty);
    // Nothing of the ring is asked of it any more, whatever it says.
    let mallory = &mut routers[0];
    assert!(quiet(mallory, &oslo).await);
    // But it is shown why: it may be honest, and set up twice.
    let shown = |message: &Message| matches!(message, Message::Evidence { accusation } if accusation.accused() == alone);
    assert!(mallory.heard().iter().any(shown));
    // A router that starts with the file believes it, and does not begin its way into the ring
    // there; another does not ask why.
    let files = tempfile::tempdir().unwrap();
    kept[0].keep(files.path(), &guilty.member()).unwrap();
    for (name, home, convicted) in [
        ("lima", files, true),
        ("cairo", tempfile::tempdir().unwrap(), false),
    ] {
        let state = State::open(home.path()).unwrap();
        state.remember_router(&guilty).unwrap();
        drop(state);
        let router = Honest::start_in(home, &mut owner, name, DIRECT).await;
        mallory.puppet.link_to(&router).await;
        quiet(mallory, &router).await;
        let of_it = router.certificate.member();
        let heard = mallory.puppet.heard.iter();
        let mut heard = heard.filter(|(from, _)| *from == of_it);
        let asked = heard.any(|(_, message)| asks(message));
        assert_eq!(asked, !convicted, "{name}");
    }
}

/// Whether a router that is told of this one's place asks it nothing about the ring.
async fn quiet(router: &mut Router, honest: &Honest) -> bool {
    // An echo may overtake what came with it; a second one cannot.
    for number in [21, 22] {
        router.puppet.echo(honest, number).await;
    }
    let before = router.puppet.heard.len();
    router.say(honest, &Message::Notify);
    router.puppet.run(A_WHILE, |_| false).await;
    let heard = router.puppet.heard.iter().skip(before);
    let mut of_it = heard.filter(|(from, _)| *from == honest.certificate.member());
    !of_it.any(|(_, message)| asks(message))
}

/// Whether it is of the ring, and does more than show a proof.
fn asks(message: &LinkMessage) -> bool {
    let LinkMessage::Overlay(bytes) = message else {
        return false;
    };
    !matches!(Message::decode(bytes), Ok(Message::Evidence { .. }))
}
