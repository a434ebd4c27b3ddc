//! How links come to be: handshakes begun, answered, repeated, renewed and given up.

use std::time::Instant;

use ringway_transport::{Address, MemberId, Paths};

use super::cookie::{Cookie, Source, Verdict, name_of};
use super::dial::{Dial, HalfOpen, Way};
use super::half_open::{self, Admission};
use super::handshake::Responder;
use super::peer::Peer;
use super::session::{Names, Session};
use super::shown::{Shown, next_epoch};
use super::version::{LinkVersion, Unread};
use super::wire::{LinkMessage, Packet, Told};
use super::{Event, LinkEnd, Links};
use crate::certificate::Certificate;
use crate::limits::MAX_LINKS;

/// A handshake that has succeeded.
pub(super) struct Made {
    pub(super) member: MemberId,
    /// The address that has proven itself.
    pub(super) path: Address,
    pub(super) session: Session,
    pub(super) version: LinkVersion,
    /// The time that the member has shown; 0 in the version before ours.
    pub(super) time: u64,
    /// The newest session that the member knows of; 0 if it knows of none.
    pub(super) newest: u32,
}

impl Links {
    /// Begins a handshake with the holder of `certificate` at `addresses`, cheapest first. One that
    /// is under way tries the addresses that are new to it as well.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        addresses: Vec<Address>,
    ) {
        let member = certificate.member();
        if let Some(dial) = self.peers.get_mut(&member).and_then(|p| p.dial.as_mut()) {
            return dial.also_at(now, addresses);
        }
        if addresses.is_empty() {
            return;
        }
        if !self.peers.contains_key(&member) && self.peers.len() >= MAX_LINKS {
            self.counters.handshakes_refused += 1;
            return;
        }
        self.dial(now, member, addresses);
    }

    /// As [`Links::connect`], where others only say that the peer is at `vouched`: these may be a
    /// stranger's, and get one packet each.
    pub(crate) fn connect_vouched(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        addresses: Vec<Address>,
        vouched: Vec<Address>,
    ) {
        let member = certificate.member();
        let dialling = |links: &Links| links.peers.get(&member).is_some_and(Peer::is_dialling);
        let known = dialling(self);
        self.connect(now, certificate, addresses);
        if known || vouched.is_empty() {
            return;
        }
        if !dialling(self) && !self.is_up(&member) {
            self.begin_dial(now, member, Vec::new());
        }
        let peer = self.peers.get_mut(&member);
        if let Some(dial) = peer.and_then(|peer| peer.dial.as_mut()) {
            dial.once_at(now, vouched);
        }
        self.run_dial(now, member);
    }

    fn dial(&mut self, now: Instant, member: MemberId, addresses: Vec<Address>) {
        self.begin_dial(now, member, addresses);
        self.run_dial(now, member);
    }

    fn begin_dial(&mut self, now: Instant, member: MemberId, addresses: Vec<Address>) {
        let newest = self.peers.newest_epoch(&member);
        let index = self.indices.free(&mut self.rng, &self.half_open);
        let spoken = self.versions.of(&member);
        let dial = Dial::new(now, (index, newest), spoken, addresses);
        self.indices.add_dial(index, member);
        let peer = self.peer(now, member);
        peer.dial = Some(dial);
    }

    fn peer(&mut self, now: Instant, member: MemberId) -> &mut Peer {
        use rand::Rng as _;
        let (rules, quotas, rng) = (&self.rules, &self.quotas, &mut self.rng);
        self.peers.get_or_insert_with(member, || {
            let mut seed = [0; 32];
            rng.fill_bytes(&mut seed);
            let paths = Paths::new(rules.clone(), seed);
            Peer::new(now, paths.with_quotas(member, quotas.clone()))
        })
    }

    pub(super) fn handle_initiation(
        &mut self,
        now: Instant,
        path: Address,
        packet: (u32, &Cookie, &[u8]),
        bytes: &[u8],
    ) {
        let (sender, cookie, noise) = packet;
        let mut waiting = self.half_open.iter();
        if let Some(position) = waiting.position(|half| half.answers(sender, noise)) {
            return self.answer_again(now, position, path, (cookie, bytes));
        }
        if self.used.contains(&blake3::hash(noise)) {
            self.counters.handshakes_replayed += 1;
            return;
        }
        // Before any public-key operation: a flood of initiations has to stay cheap.
        match self.gate.judge(now, &path, cookie, &mut self.rng) {
            Verdict::Read => {}
            Verdict::Drop => {
                self.counters.handshakes_too_many += 1;
                return;
            }
            Verdict::Cookie(wanted) => return self.ask_for_cookie(path, sender, bytes, &wanted),
        }
        self.counters.handshakes_read += 1;
        let Some((mut responder, shown)) = self.read_initiation(&path, sender, noise) else {
            self.counters.packets_rejected += 1;
            let unread = Unread {
                path,
                sender,
                bytes,
            };
            let found = self.versions.look(now, unread, &self.own, &mut self.output);
            self.counters.handshakes_other_version += u64::from(found);
            return;
        };
        let admitted = (self.gatekeeper)(&shown.certificate);
        let admitted = admitted.map(|certificate| certificate.member());
        let Some(member) = admitted.filter(|member| responder.is(member)) else {
            self.counters.handshakes_refused += 1;
            return;
        };
        if !self.peers.contains_key(&member) && self.peers.len() >= MAX_LINKS {
            self.counters.handshakes_refused += 1;
            return;
        }
        let proof = self.gate.prove(now, &path, cookie, &mut self.rng);
        let source = Source::of(&path);
        let new = self.times.is_new(&member, shown.time);
        match half_open::admit(&self.half_open, &member, &source, proof.is_ok(), new) {
            Admission::Free => {}
            Admission::Replaces(older) => {
                self.half_open.remove(older);
            }
            Admission::Full => {
                self.counters.handshakes_too_many += 1;
                return;
            }
            Admission::WantsCookie => {
                if let Err(wanted) = proof {
                    self.ask_for_cookie(path, sender, bytes, &wanted);
                }
                return;
            }
        }
        let from = (path, source, (proof.is_ok(), new));
        self.respond(now, from, member, (responder, shown), (sender, noise));
    }

    /// Reads an initiation in the versions that are spoken here, the newest first. A peer that
    /// tries the one before as well has had our answer to the newest already.
    fn read_initiation(
        &self,
        path: &Address,
        sender: u32,
        noise: &[u8],
    ) -> Option<(Responder, Shown)> {
        let read = |version| self.own.read(version, noise);
        read(LinkVersion::Newest).or_else(|| {
            let source = Source::of(path);
            let mut waiting = self.half_open.iter();
            let answered = waiting.any(|half| half.initiation.0 == sender && half.source == source);
            (!answered).then(|| read(LinkVersion::Earlier)).flatten()
        })
    }

    /// Somebody at `path` answers our initiation with the versions that it speaks. It proves
    /// nothing, so that nothing ends by it.
    pub(super) fn handle_versions(&mut self, path: Address, receiver: u32, told: Told<'_>) {
        let member = self.indices.dial(receiver);
        let about = member.filter(|member| {
            let dial = self.peers.get_mut(member).and_then(|p| p.dial.as_mut());
            dial.is_some_and(|dial| dial.is_about(&path, told.initiation))
        });
        if !self.versions.told(about, path, &told, &mut self.output) {
            self.counters.packets_rejected += 1;
        }
    }

    /// A repeated initiation gets the same answer; nothing is computed twice for it. Under each
    /// address our name for the session is another one: what comes back says which answer has
    /// arrived.
    fn answer_again(
        &mut self,
        now: Instant,
        position: usize,
        path: Address,
        packet: (&Cookie, &[u8]),
    ) {
        let proof = self.gate.prove(now, &path, packet.0, &mut self.rng);
        let proved = proof.is_ok();
        let index = self.indices.free(&mut self.rng, &self.half_open);
        let Some(half) = self.half_open.get_mut(position) else {
            return;
        };
        let known = half.ways.iter().any(|way| way.path == path);
        // Each path is state and a packet to an address that may be forged.
        if !known && !half.takes_way(proved) {
            match proof {
                Ok(()) => self.counters.handshakes_too_many += 1,
                Err(wanted) => {
                    let sender = half.initiation.0;
                    self.ask_for_cookie(path, sender, packet.1, &wanted);
                }
            }
            return;
        }
        if !known {
            let path = path.clone();
            half.ways.push(Way {
                index,
                path,
                proved,
            });
        }
        let way = half.ways.iter().find(|way| way.path == path);
        if let Some(response) = way.map(|way| half.response(way)) {
            self.output.transmit(path, response);
        }
    }

    /// The sender of an initiation has to show `wanted` with it.
    fn ask_for_cookie(&mut self, path: Address, sender: u32, initiation: &[u8], wanted: &Cookie) {
        self.counters.cookies_sent += 1;
        let answer = Packet::Cookie {
            receiver: sender,
            initiation: &name_of(initiation),
            cookie: wanted,
        };
        let answer = answer.encode();
        self.output.transmit(path, answer);
    }

    /// Answers an admitted member's initiation, of which `shown` was read. `from`: its path and
    /// source, and whether that is proved and
    /// the initiation new. There is a slot for it.
    fn respond(
        &mut self,
        now: Instant,
        from: (Address, Source, (bool, bool)),
        member: MemberId,
        read: (Responder, Shown),
        initiation: (u32, &[u8]),
    ) {
        let ((responder, shown), (sender, noise)) = (read, initiation);
        let (path, source, (proved, new)) = from;
        let newest = self.peers.newest_epoch(&member);
        let own = self.own.shown(newest, self.times.next(now));
        let me = self.own.member();
        let version = responder.version();
        let epoch = next_epoch((shown.newest, own.newest), &member, &me);
        let answered = responder.finish(&own).ok();
        let Some((epoch, (answer, keys))) = epoch.zip(answered) else {
            self.counters.packets_rejected += 1;
            return;
        };
        let index = self.indices.free(&mut self.rng, &self.half_open);
        let names = Names {
            own: me,
            peer: member,
            local: index,
            remote: sender,
            epoch,
            initiator: false,
        };
        let again = shown.newest > 0 && own.newest > 0;
        let way = Way {
            index,
            path: path.clone(),
            proved,
        };
        let half = HalfOpen {
            member,
            source,
            proved,
            new,
            ways: vec![way],
            initiation: (sender, blake3::hash(noise)),
            answer,
            session: Session::new(now, keys, names),
            expires: now + HalfOpen::patience(&path, again),
            newest: shown.newest,
            time: shown.time,
            version,
            shown: shown.certificate,
        };
        if let Some(way) = half.ways.first() {
            self.output.transmit(path, half.response(way));
        }
        self.half_open.push_back(half);
    }

    /// The peer at `path` wants to see a cookie with our initiation.
    pub(super) fn handle_cookie(
        &mut self,
        now: Instant,
        path: &Address,
        receiver: u32,
        cookie: (&Cookie, &Cookie),
    ) {
        let member = self.indices.dial(receiver);
        let again = member.and_then(|member| {
            let peer = self.peers.get_mut(&member)?;
            let packet = peer.dial.as_mut()?.take_cookie(path, cookie.0, cookie.1)?;
            self.quotas.take(now, &member, path, 1).then_some(packet)
        });
        match again {
            Some(packet) => self.output.transmit(path.clone(), packet),
            None => self.counters.packets_rejected += 1,
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        path: Address,
        indices: (u32, u32),
        noise: &[u8],
    ) -> bool {
        let (sender, receiver) = indices;
        let Some(member) = self.indices.dial(receiver) else {
            self.counters.packets_unknown_session += 1;
            return false;
        };
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.as_mut())
        else {
            return false;
        };
        let newest = dial.newest;
        let Some((version, shown)) = dial.finish(noise) else {
            self.counters.packets_rejected += 1;
            return false;
        };
        self.indices.end_dial(receiver);
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.take())
        else {
            return false;
        };
        let admitted = (self.gatekeeper)(&shown.certificate)
            .is_some_and(|certificate| certificate.member() == member);
        let me = self.own.member();
        let epoch = next_epoch((newest, shown.newest), &me, &member);
        let keys = dial.into_keys(version).ok().filter(|_| admitted);
        let Some((keys, epoch)) = keys.zip(epoch) else {
            self.counters.handshakes_refused += 1;
            self.forget(&member, LinkEnd::NotAdmitted);
            return false;
        };
        let names = Names {
            own: me,
            peer: member,
            local: receiver,
            remote: sender,
            epoch,
            initiator: true,
        };
        let session = Session::new(now, keys, names);
        let made = Made {
            member,
            path,
            session,
            version,
            time: shown.time,
            newest: shown.newest,
        };
        self.establish(now, made);
        // The responder takes the session into use with the first message that it can decrypt.
        if !self.peers.get(&member).is_some_and(Peer::has_sent) {
            self.send(now, &member, LinkMessage::Echo(0));
        }
        true
    }

    /// A handshake has become a link.
    pub(super) fn establish(&mut self, now: Instant, made: Made) {
        let (member, session) = (made.member, made.session);
        // The version before shows no time.
        if made.version == LinkVersion::Newest {
            self.times.learn(member, made.time);
        }
        self.versions.linked(member, made.version, &mut self.output);
        self.counters.handshakes += 1;
        self.indices.add_session(session.local(), member);
        // A peer that knows of no session has forgotten everything; otherwise these are new keys,
        // and nothing else changes.
        let restarted = !self.peer(now, member).is_up() || made.newest == 0;
        self.counters.rekeys += u64::from(!restarted);
        let bounds = self.bounds.clone();
        let replaced = self.with_paths(&member, |peer| {
            if restarted {
                peer.adopt(now, made.path)
            } else {
                peer.heard_at(now, made.path)
            }
            peer.add_session(now, session, &bounds)
        });
        self.indices.end_sessions(replaced.unwrap_or_default());
        let peer = self.peer(now, member);
        let waiting = std::mem::take(&mut peer.waiting);
        if restarted {
            self.output.emit(Event::Up(member));
        }
        for message in waiting {
            self.send(now, &member, message);
        }
    }

    /// Begins a handshake for new keys, over the path in use.
    pub(super) fn rekey(&mut self, now: Instant, member: MemberId) {
        let pause = self.bounds.pause;
        let peer = self.peers.get_mut(&member);
        if let Some(path) = peer.and_then(|peer| peer.rekeying(now, pause)) {
            self.dial(now, member, vec![path]);
        }
    }

    /// Somebody at `path` says that it does not know our session: the peer has restarted, or it is
    /// a lie. Either way a new handshake does no harm; the old session stays until that has
    /// succeeded.
    pub(super) fn handle_unknown(&mut self, now: Instant, path: &Address, receiver: u32) {
        let found = self
            .peers
            .iter()
            .find(|(_, peer)| peer.sends_to(receiver, path))
            .map(|(member, _)| *member);
        if let Some(member) = found {
            self.renew(now, member);
        }
    }

    fn renew(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        if peer.is_dialling() || !peer.may_renew(now) {
            return;
        }
        self.versions.restarted(&member);
        let addresses = peer.renewing(now);
        self.dial(now, member, addresses);
    }

    /// Sends the next initiation, or gives up.
    pub(super) fn run_dial(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        let Some(dial) = peer.dial.as_mut() else {
            return;
        };
        let (own, times) = (&self.own, &mut self.times);
        let begun = dial.begin_wanted(|version, newest| {
            let shown = own.shown(newest, times.next(now));
            own.begin(&member, version, &shown)
        });
        self.counters.handshakes_refused += u64::from(begun.is_err());
        if dial.due > now {
            return;
        }
        match dial.next_attempt(now) {
            Some((address, packet)) => {
                if self.quotas.take(now, &member, &address, 1) {
                    self.output.transmit(address, packet);
                }
            }
            None => {
                let index = dial.index;
                peer.dial = None;
                self.indices.end_dial(index);
                // Where a rekey failed, the link goes on with the session that it has.
                if !self.is_up(&member) {
                    self.forget(&member, LinkEnd::Silent);
                }
            }
        }
    }
}
