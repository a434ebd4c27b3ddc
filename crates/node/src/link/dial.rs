//! Handshakes under way: those that we have begun, and those that we have answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId, Protocol};

use super::cookie::{Cookie, NO_COOKIE, Source, name_of};
use super::handshake::Initiator;
use super::session::Session;
use super::wire::Packet;
use crate::limits::{COOKIES_TAKEN, HALF_OPEN_WAYS, MAIL_HANDSHAKE, OLD_SESSION};

/// The same for a handshake that is to make a link.
const HALF_OPEN_FOR: Duration = Duration::from_secs(10);
/// Pause after the first attempts to reach a peer: one for each address, so that one that is
/// blocked delays little.
const NEXT_ADDRESS: Duration = Duration::from_millis(300);
/// How long an answer is waited for where no other attempt is to follow.
const ONLY_ADDRESS: Duration = Duration::from_secs(3);
/// Pauses after further attempts; after the last one the peer is given up.
const DIAL_PAUSES: [Duration; 5] = [
    Duration::from_millis(400),
    Duration::from_millis(600),
    Duration::from_millis(1_000),
    Duration::from_millis(1_500),
    Duration::from_millis(2_000),
];
/// A handshake that we have begun.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) index: u32,
    pub(super) initiator: Initiator,
    /// The epoch that we have named as our newest.
    pub(super) newest: u32,
    pub(super) due: Instant,
    noise: Vec<u8>,
    pub(super) addresses: Vec<Address>,
    /// Addresses for which only others speak: each gets one packet, and no other.
    once: Vec<Address>,
    attempts: usize,
    mailed: bool,
    /// The addresses that something has gone to, the cookie that came from there, and how many
    /// have.
    sent_to: BTreeMap<Address, (Cookie, u32)>,
}

impl Dial {
    pub(super) fn new(
        now: Instant,
        names: (u32, u32),
        begun: (Initiator, Vec<u8>),
        addresses: Vec<Address>,
    ) -> Dial {
        let ((index, newest), (initiator, noise)) = (names, begun);
        Dial {
            index,
            newest,
            initiator,
            due: now,
            noise,
            addresses,
            once: Vec::new(),
            attempts: 0,
            mailed: false,
            sent_to: BTreeMap::new(),
        }
    }

    fn packet_for(&mut self, address: &Address) -> Vec<u8> {
        let known = self.sent_to.entry(address.clone());
        let (cookie, _) = known.or_insert((NO_COOKIE, 0));
        let (sender, noise) = (self.index, self.noise.as_slice());
        let packet = Packet::Initiation {
            sender,
            cookie,
            noise,
        };
        packet.encode()
    }

    /// The peer at `from` wants to see `cookie`; gives what goes there now. None if this is not
    /// about what we have sent there last.
    pub(super) fn take_cookie(
        &mut self,
        from: &Address,
        initiation: &Cookie,
        cookie: &Cookie,
    ) -> Option<Vec<u8>> {
        let taken = self.sent_to.get(from)?.1;
        if taken >= COOKIES_TAKEN || name_of(&self.packet_for(from)) != *initiation {
            return None;
        }
        self.sent_to.insert(from.clone(), (*cookie, taken + 1));
        Some(self.packet_for(from))
    }

    /// More addresses of the peer have been found: they are tried at once.
    pub(super) fn also_at(&mut self, now: Instant, addresses: Vec<Address>) {
        let before = self.addresses.len();
        for address in addresses {
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        if self.addresses.len() > before {
            self.attempts = before;
            self.mailed = false;
            self.due = now;
        }
    }

    /// Members have signed that the peer answered them there: one packet goes to each.
    pub(super) fn once_at(&mut self, now: Instant, addresses: Vec<Address>) {
        self.once = addresses;
        self.due = now;
    }

    /// Where to send the initiation now; each address in turn, cheapest first. After the last
    /// attempt over something faster one goes out by mail, if there is a mailbox, and is waited
    /// for.
    pub(super) fn next_attempt(&mut self, now: Instant) -> Option<(Address, Vec<u8>)> {
        if let Some(address) = self.once.pop() {
            let last = self.once.is_empty() && self.addresses.is_empty();
            self.due = now + if last { ONLY_ADDRESS } else { NEXT_ADDRESS };
            let packet = self.packet_for(&address);
            return Some((address, packet));
        }
        let (mail, fast): (Vec<&Address>, Vec<&Address>) =
            self.addresses.iter().partition(|address| is_mail(address));
        let first_round = fast.len().saturating_sub(1);
        let pause = match self.attempts.checked_sub(first_round) {
            _ if fast.is_empty() => None,
            None => Some(NEXT_ADDRESS),
            Some(further) => DIAL_PAUSES.get(further).copied(),
        };
        let chosen = match pause {
            Some(pause) => {
                let position = self.attempts % fast.len().max(1);
                fast.get(position).map(|address| (*address, pause))
            }
            // Mail is slow and has quotas, so it comes last and once.
            None if self.mailed => None,
            None => mail.first().map(|address| (*address, MAIL_HANDSHAKE)),
        };
        let (address, pause) = chosen?;
        self.mailed |= is_mail(address);
        let address = address.clone();
        self.attempts += 1;
        self.due = now + pause;
        let packet = self.packet_for(&address);
        Some((address, packet))
    }
}

pub(super) fn is_mail(address: &Address) -> bool {
    address.protocol() == Protocol::Smtp
}

/// A handshake that we have answered; the initiator has not yet shown that it got the answer.
#[derive(Debug)]
pub(super) struct HalfOpen {
    pub(super) member: MemberId,
    /// Where the initiation came from, and whether that is proved.
    pub(super) source: Source,
    pub(super) proved: bool,
    /// Whether it is newer than all handshakes of the member that became a link.
    pub(super) new: bool,
    /// Where the answer has gone, by our name for the session there. What comes back over the
    /// session under a name shows that the answer has arrived at its address.
    pub(super) ways: Vec<Way>,
    pub(super) initiation: (u32, blake3::Hash),
    /// The second Noise message.
    pub(super) answer: Vec<u8>,
    pub(super) session: Session,
    pub(super) expires: Instant,
    /// The newest session that the initiator knows of; 0 if it knows of none.
    pub(super) newest: u32,
    /// The time that it showed.
    pub(super) time: u64,
    /// The certificate shown, to be judged again when the session is taken into use.
    pub(super) shown: Vec<u8>,
}

/// An address to which an initiation was answered. Copies of one initiation may come from several:
/// somebody on the way may be quicker with one than its sender.
#[derive(Debug)]
pub(super) struct Way {
    /// Our name for the session in the answer that went there, and in no other.
    pub(super) index: u32,
    pub(super) path: Address,
    /// Whether a cookie has proved the address.
    pub(super) proved: bool,
}

impl HalfOpen {
    /// The answer for one of its ways.
    pub(super) fn response(&self, way: &Way) -> Vec<u8> {
        let packet = Packet::Response {
            sender: way.index,
            receiver: self.initiation.0,
            noise: &self.answer,
        };
        packet.encode()
    }

    pub(super) fn way(&self, index: u32) -> Option<&Way> {
        self.ways.iter().find(|way| way.index == index)
    }

    /// Whether there is room for one more way.
    pub(super) fn takes_way(&self, proved: bool) -> bool {
        let alike = self.ways.iter().filter(|way| way.proved == proved);
        alike.count() < HALF_OPEN_WAYS
    }

    pub(super) fn answers(&self, sender: u32, noise: &[u8]) -> bool {
        self.initiation.0 == sender && self.initiation.1 == blake3::hash(noise)
    }

    /// How long an answered handshake waits for its first message. `again`: the old keys serve
    /// meanwhile.
    pub(super) fn patience(path: &Address, again: bool) -> Duration {
        match (is_mail(path), again) {
            (true, _) => MAIL_HANDSHAKE,
            (false, true) => OLD_SESSION,
            (false, false) => HALF_OPEN_FOR,
        }
    }
}
