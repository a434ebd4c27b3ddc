//! HELLOs, PINGs and PONGs over links: members tell each other where they are, and prove it.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::{Address, Hello, HelloError, MemberId, Ping, Pong, Protocol};
use tokio::sync::oneshot;

use crate::limits::{HELLO_PAUSE, PARENTS};
use crate::link::LinkMessage;
use crate::member::core::{Core, Signal};
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

/// A PING has come over QUIC.
#[derive(Debug)]
pub(in crate::member) struct Command {
    ping: Box<Ping>,
    reply: oneshot::Sender<Option<Pong>>,
}

impl MemberHandle {
    /// The PONG to a PING, if it is for us.
    pub(crate) async fn answer(&self, ping: Ping) -> Option<Pong> {
        let ping = Box::new(ping);
        self.ask(|reply| Command { ping, reply }).await.flatten()
    }
}

counters! {
    /// What this service counts.
    Counters {
        hellos_of_others,
        hellos_refused,
        pongs_malformed,
        pongs_passed_on,
        pongs_refused,
    }
}

/// Who has our HELLO.
#[derive(Debug, Default)]
pub(in crate::member) struct Hellos {
    /// Who has asked for it within the last [`HELLO_PAUSE`].
    given: BTreeMap<MemberId, Instant>,
    /// When to forget those that may ask again, if there may be some.
    tidy: Option<Instant>,
    counted: Counters,
}

impl Hellos {
    /// Each HELLO costs a signature: one a second for each peer is enough.
    fn give(&mut self, core: &mut Core, member: &MemberId) {
        let now = core.now;
        let given = self.given.get(member);
        if given.is_none_or(|given| now >= *given + HELLO_PAUSE) {
            self.given.insert(*member, now);
            self.tidy.get_or_insert(now + HELLO_PAUSE);
            core.send_hello(member);
        }
    }

    /// A member says its HELLO.
    fn take(&mut self, core: &mut Core, member: MemberId, bytes: &[u8]) {
        if !core.may_check(&member) {
            return;
        }
        match Hello::decode(bytes) {
            Ok(hello) if hello.member() == member => {
                let believed = believed(core, &hello);
                let believes = |address: &Address| believed.contains(address);
                core.validator
                    .handle_hello_from(core.now, &hello, &believes);
                core.signal(Signal::Proven(member));
            }
            Ok(_) => self.counted.hellos_of_others += 1,
            Err(error) => {
                tracing::debug!(%member, %error, "a HELLO is refused");
                self.counted.hellos_refused += 1;
                // Another version is no forgery.
                if !matches!(error, HelloError::Version { .. }) {
                    core.badly_signed(&member);
                }
            }
        }
    }

    /// A PONG has come from a member; it proves an address if it answers one of our PINGs.
    fn take_pong(&mut self, core: &mut Core, from: MemberId, pong: &Pong) {
        let Some(validated) = core.validator.handle_pong(core.now, pong) else {
            self.counted.pongs_refused += 1;
            return;
        };
        tracing::debug!(member = %validated.member, address = %validated.address, "an address is proven");
        if from != validated.member {
            self.counted.pongs_passed_on += 1;
        }
        offer_paths(core, &validated.member);
        core.signal(Signal::Proven(validated.member));
    }
}

/// Which of a member's addresses are worth a PING. Each relay costs a link: a leaf has as many
/// as it has parents.
fn believed(core: &Core, hello: &Hello) -> Vec<Address> {
    let member = hello.member();
    let addresses = hello.addresses().iter().map(|d| &d.address);
    let believed = addresses.filter(|address| believes(core, &member, address));
    let (relays, others): (Vec<Address>, Vec<Address>) = believed
        .cloned()
        .partition(|address| address.protocol() == Protocol::Relay);
    others
        .into_iter()
        .chain(relays.into_iter().take(PARENTS))
        .collect()
}

fn believes(core: &Core, member: &MemberId, address: &Address) -> bool {
    match address {
        // A router is dialled directly, or through a parent of ours.
        Address::Relay(relay) => core.is_leaf(member) && core.may_use_relay(member, relay),
        address if !address.is_private() || core.is_at_our_site(member) => true,
        // From where a common parent hears it.
        address => address.protocol() == Protocol::Udp && core.shares_our_site(member),
    }
}

/// Tells the link which addresses of the member are proven.
fn offer_paths(core: &mut Core, member: &MemberId) {
    let mut proved = core.validator.proved(core.now, member);
    proved.retain(|proved| core.carries(member, &proved.descriptor.address));
    if !proved.is_empty() {
        core.links.offer_paths(core.now, member, &proved);
    }
}

/// A PING over a link gets its PONG over the same link: the shortest way through a service.
///
/// Members are not answered in another's name: it would only serve those who pass PINGs on.
fn answer_ping(core: &mut Core, member: &MemberId, bytes: &[u8]) {
    let ping = Ping::decode(bytes).ok();
    let ping = ping.filter(|ping| ping.challenger == *member);
    let pong = ping.and_then(|ping| core.validator.handle_ping(core.now, &ping, &core.identity));
    if let Some(pong) = pong {
        core.send(member, LinkMessage::Pong(pong.encode().into()));
    }
}

impl Service for Hellos {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<Hellos, StateError> {
        Ok(Hellos::default())
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        let Command { ping, reply } = command;
        let pong = core.validator.handle_ping(core.now, &ping, &core.identity);
        core.reply(reply, pong);
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(member) = event {
            offer_paths(core, &member);
            core.send_hello(&member);
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::Hello(bytes) => self.take(core, member, bytes),
            LinkMessage::Ping(bytes) => answer_ping(core, &member, bytes),
            LinkMessage::Pong(bytes) => match Pong::decode(bytes) {
                Ok(pong) => self.take_pong(core, member, &pong),
                Err(_) => self.counted.pongs_malformed += 1,
            },
            LinkMessage::HelloWanted => self.give(core, &member),
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
        if let Signal::Pong(member, pong) = signal {
            self.take_pong(core, *member, pong);
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.tidy
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let now = core.now;
        self.given.retain(|_, given| now < *given + HELLO_PAUSE);
        self.tidy = (!self.given.is_empty()).then_some(now + HELLO_PAUSE);
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
