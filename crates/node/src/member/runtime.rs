//! The run loop: input, the services' reactions, output, wait. It is the only place that knows both
//! the core and the services.

use std::future::Future;
use std::time::{Duration, Instant};

use ringway_transport::quic::MemberDatagram;
use ringway_transport::{Address, Incoming, MemberId};
use tokio::sync::{broadcast, mpsc};
use tokio::time::sleep_until;

use super::core::{Core, Outcome, Setup};
use super::handle::{Command, MemberHandle};
use super::service::LinkEvent;
use super::services::{Arrived, RingMessage, Services};
use super::status::{self, status};
use crate::limits::{COMMANDS, INPUT_BATCH, OUTPUT_BATCH};
use crate::link::{Event, LinkEnd};
use crate::message::Mailroom;
use crate::state::StateError;

/// The longest sleep where no part has a deadline; input ends it sooner.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The member's task.
#[derive(Debug)]
pub(crate) struct Runtime {
    core: Core,
    services: Services,
    /// Packets that transports have received.
    incoming: mpsc::Receiver<Incoming>,
    /// Datagrams of QUIC for links to carry.
    datagrams: mpsc::Receiver<MemberDatagram>,
    commands: mpsc::Receiver<Command>,
    outcomes: mpsc::Receiver<Outcome>,
}

/// Where what comes for applications arrives.
#[derive(Debug)]
pub(crate) struct Inboxes {
    /// Over links.
    pub(crate) messages: mpsc::Receiver<Arrived>,
    /// Through the ring.
    pub(crate) routed: mpsc::Receiver<RingMessage>,
    /// Frames of stored messages.
    pub(crate) stored: Mailroom,
}

impl Runtime {
    /// Puts the task together; it does nothing before [`Runtime::run`]. Gives what talks to it, and
    /// where messages for applications arrive.
    ///
    /// # Errors
    /// When the state cannot be read or written.
    pub(crate) fn new(setup: Setup) -> Result<(Runtime, MemberHandle, Inboxes), StateError> {
        let (handle, commands) = MemberHandle::channel();
        let (ended, outcomes) = mpsc::channel(COMMANDS);
        let (mut core, arrivals) = Core::new(setup, ended)?;
        let mut services = Services::start(&mut core)?;
        let inboxes = Inboxes {
            messages: services.messages.open_inbox(),
            routed: services.routed.open_inbox(),
            stored: services.messages.mailroom(),
        };
        let runtime = Runtime {
            core,
            services,
            incoming: arrivals.messages,
            datagrams: arrivals.datagrams,
            commands,
            outcomes,
        };
        Ok((runtime, handle, inboxes))
    }

    /// Reports members that are back, from now on.
    pub(crate) fn returns(&self) -> broadcast::Receiver<MemberId> {
        self.services.returns.subscribe()
    }

    /// Runs until `shutdown` completes, then leaves the ring and says goodbye to all.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        tokio::pin!(shutdown);
        let wake = self.core.wake.clone();
        let alarm = sleep_until(Instant::now().into());
        tokio::pin!(alarm);
        loop {
            self.drain();
            let due = self.next_deadline().into();
            // Too early does no harm, and setting a timer costs more than looking in vain once.
            if due < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(due);
            }
            tokio::select! {
                () = &mut shutdown => break,
                Some(incoming) = self.incoming.recv() => self.take_batch(incoming),
                Some(datagram) = self.datagrams.recv() => self.carry_batch(&datagram),
                () = wake.notified() => {}
                Some(outcome) = self.outcomes.recv() => self.take_outcome(outcome),
                Some(command) = self.commands.recv() => self.take_command(command),
                () = &mut alarm => {}
            }
            self.on_deadline();
        }
        self.core.now = Instant::now();
        self.services.ring.leave(&mut self.core);
        self.transmit();
        self.say_goodbye();
    }

    fn say_goodbye(&mut self) {
        // What a router has to pass on leaves before the link with that router ends.
        for relayed in [true, false] {
            let ending = self.core.links.up();
            let ending = ending.filter(|(_, peer)| peer.is_relayed() == relayed);
            let members: Vec<MemberId> = ending.map(|(member, _)| *member).collect();
            self.core.now = Instant::now();
            for member in members {
                let why = LinkEnd::Stopping;
                self.core.links.close(self.core.now, &member, why);
            }
            self.drain();
        }
    }

    fn take_batch(&mut self, first: Incoming) {
        self.core.now = Instant::now();
        self.take_incoming(first);
        for _ in 1..INPUT_BATCH {
            match self.incoming.try_recv() {
                Ok(incoming) => self.take_incoming(incoming),
                Err(_) => break,
            }
        }
    }

    fn take_incoming(&mut self, incoming: Incoming) {
        let now = self.core.now;
        let path = incoming.session.remote();
        let is_member = self.core.links.handle_packet(now, path, &incoming.message);
        self.core.network.remember(now, incoming.session, is_member);
    }

    fn carry_batch(&mut self, first: &MemberDatagram) {
        self.core.now = Instant::now();
        self.core.carry(first);
        for _ in 1..INPUT_BATCH {
            match self.datagrams.try_recv() {
                Ok(datagram) => self.core.carry(&datagram),
                Err(_) => break,
            }
        }
    }

    fn take_outcome(&mut self, outcome: Outcome) {
        self.core.now = Instant::now();
        self.core.take_outcome(outcome);
    }

    /// The status is of all parts; any other command is of one service.
    fn take_command(&mut self, command: Command) {
        self.core.now = Instant::now();
        match command.downcast::<status::Wanted>() {
            Ok(wanted) => {
                let status = status(&self.core, &self.services);
                self.core.reply(wanted.reply, Box::new(status));
            }
            Err(command) => self.services.on_command(&mut self.core, command),
        }
    }

    fn next_deadline(&mut self) -> Instant {
        let core = self.core.next_deadline();
        let services = self.services.next_deadline(&self.core);
        let next = core.into_iter().chain(services).min();
        next.unwrap_or_else(|| self.core.now + LONGEST_SLEEP)
    }

    fn on_deadline(&mut self) {
        self.core.now = Instant::now();
        self.core.on_deadline();
        self.services.on_deadline(&mut self.core);
    }

    /// Has all parts react to each other, and sends what comes of it.
    fn drain(&mut self) {
        self.core.now = Instant::now();
        self.settle();
        self.services.on_room(&mut self.core);
        self.settle();
        self.transmit();
    }

    /// Moves everything that one part has for another, until none has anything.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            // What has come first: the rest depends on it.
            while let Some(event) = self.core.links.poll_event() {
                self.take_link_event(event);
                moved = true;
            }
            while let Some(signal) = self.core.next_signal() {
                self.services.on_signal(&mut self.core, &signal);
                moved = true;
            }
            moved |= self.core.send_overlay();
            while let Some(event) = self.core.next_ring_event() {
                self.services.on_ring(&mut self.core, &event);
                moved = true;
            }
            moved |= self.core.send_pings();
            if !moved {
                break;
            }
        }
    }

    /// A message goes to the first service of the list in `services.rs` that takes it, links'
    /// coming and going to all.
    fn take_link_event(&mut self, event: Event) {
        let core = &mut self.core;
        match event {
            Event::Up(member) => {
                let address = core.links.path(&member).map(ToString::to_string);
                let (name, address) = (core.name_of(&member), address.unwrap_or_default());
                tracing::info!(member = name, address, "a link is up");
                self.services.on_link(core, LinkEvent::Up(member));
            }
            Event::Down(member, why) => {
                if let Some(why) = why {
                    let (name, reason) = (core.name_of(&member), why.as_str());
                    tracing::info!(member = name, reason, "a link has ended");
                }
                self.services.on_link(core, LinkEvent::Down(member));
            }
            Event::EarlierVersion(member) => core.log_earlier_version(&member),
            Event::OtherVersion(other) => core.log_other_version(&other),
            Event::Message(member, mut message) => {
                self.services.on_message(core, member, &mut message);
            }
        }
    }

    /// Packets to one address leave together, as far as they follow each other.
    fn transmit(&mut self) {
        let now = self.core.now;
        let mut next = self.core.links.poll_transmit(now);
        while let Some((address, packet)) = next.take() {
            let mut packets = vec![packet];
            while packets.len() < OUTPUT_BATCH {
                next = self.core.links.poll_transmit(now);
                match next.take_if(|(to, _)| *to == address) {
                    Some((_, packet)) => packets.push(packet),
                    None => break,
                }
            }
            if let Address::Relay(relay) = address {
                // It becomes a message to the router, whose packet is polled in its turn.
                for packet in packets {
                    self.services.relay.send(&mut self.core, relay, packet);
                }
            } else {
                self.core.send_packets(&address, packets);
            }
            if next.is_none() {
                next = self.core.links.poll_transmit(now);
            }
        }
    }
}
