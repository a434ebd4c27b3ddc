//! Handshakes under way: those that we have begun, and those that we have answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId, Protocol};

use super::cookie::{Cookie, NO_COOKIE, Source, name_of};
use super::handshake::{HandshakeFailed, Initiator, Keys};
use super::session::Session;
use super::shown::Shown;
use super::version::LinkVersion;
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
/// Of the attempts past the first at each address, those that are of the version before, where the
/// peer's is not known. They begin when a peer of our version has answered long since: it need not
/// do the work twice.
const EARLIER_ATTEMPTS: [usize; 2] = [2, 4];

/// A handshake that we have begun.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) index: u32,
    /// The first message in each version that was tried so far.
    begun: Vec<Begun>,
    /// The version of the latest link with the peer.
    spoken: Option<LinkVersion>,
    /// The epoch that we have named as our newest.
    pub(super) newest: u32,
    pub(super) due: Instant,
    pub(super) addresses: Vec<Address>,
    /// Addresses for which only others speak: each gets one packet, and no other.
    once: Vec<Address>,
    attempts: usize,
    /// Of them, those of the version before.
    earlier: usize,
    mailed: bool,
    /// What has gone to each address.
    sent_to: BTreeMap<Address, Sent>,
}

/// A first message.
#[derive(Debug)]
struct Begun {
    initiator: Initiator,
    noise: Vec<u8>,
}

/// What went to an address last.
#[derive(Debug)]
struct Sent {
    version: LinkVersion,
    /// The cookie that came from there, and how many have.
    cookie: Cookie,
    taken: u32,
}

impl Dial {
    /// `names`: our name for the session, and our newest epoch.
    pub(super) fn new(
        now: Instant,
        names: (u32, u32),
        spoken: Option<LinkVersion>,
        addresses: Vec<Address>,
    ) -> Dial {
        let (index, newest) = names;
        Dial {
            index,
            begun: Vec::new(),
            spoken,
            newest,
            due: now,
            addresses,
            once: Vec::new(),
            attempts: 0,
            earlier: 0,
            mailed: false,
            sent_to: BTreeMap::new(),
        }
    }

    /// The first message of the next attempt's version is made by `begin`, from that version and
    /// our newest epoch, unless there is one already.
    pub(super) fn begin_wanted(
        &mut self,
        begin: impl FnOnce(LinkVersion, u32) -> Result<(Initiator, Vec<u8>), HandshakeFailed>,
    ) -> Result<(), HandshakeFailed> {
        let wanted = self.next_version();
        let begun = |begun: &Begun| begun.initiator.version() == wanted;
        if self.begun.iter().any(begun) {
            return Ok(());
        }
        let (initiator, noise) = begin(wanted, self.newest)?;
        self.begun.push(Begun { initiator, noise });
        Ok(())
    }

    fn next_version(&self) -> LinkVersion {
        let further = self.attempts.checked_sub(self.first_round());
        let earlier = match self.spoken {
            Some(LinkVersion::Newest) => false,
            // It may have another build by now.
            Some(LinkVersion::Earlier) => self.attempts.is_multiple_of(2),
            None => further.is_some_and(|further| EARLIER_ATTEMPTS.contains(&further)),
        };
        if earlier && self.once.is_empty() && !cfg!(feature = "insecure") {
            LinkVersion::Earlier
        } else {
            LinkVersion::Newest
        }
    }

    /// Attempts before each address that is not of mail had one, but for the last.
    fn first_round(&self) -> usize {
        let fast = self.addresses.iter().filter(|address| !is_mail(address));
        fast.count().saturating_sub(1)
    }

    /// Reads the response, in whichever version it is. One that does not verify changes nothing.
    pub(super) fn finish(&mut self, noise: &[u8]) -> Option<(LinkVersion, Shown)> {
        self.begun.iter_mut().find_map(|begun| {
            let shown = begun.initiator.finish(noise).ok()?;
            Some((begun.initiator.version(), shown))
        })
    }

    /// The keys, once a response of this version was read.
    pub(super) fn into_keys(self, version: LinkVersion) -> Result<Keys, HandshakeFailed> {
        let mut begun = self.begun.into_iter();
        let begun = begun.find(|begun| begun.initiator.version() == version);
        begun.ok_or(HandshakeFailed)?.initiator.into_keys()
    }

    fn packet_for(&mut self, version: LinkVersion, address: &Address) -> Option<Vec<u8>> {
        let mut begun = self.begun.iter();
        let begun = begun.find(|begun| begun.initiator.version() == version)?;
        let known = self.sent_to.entry(address.clone());
        let sent = known.or_insert(Sent {
            version,
            cookie: NO_COOKIE,
            taken: 0,
        });
        sent.version = version;
        let (sender, noise) = (self.index, begun.noise.as_slice());
        let packet = Packet::Initiation {
            sender,
            cookie: &sent.cookie,
            noise,
        };
        Some(packet.encode())
    }

    /// The packet that went to `address` last, if `initiation` names it.
    fn last_packet(&mut self, address: &Address, initiation: &Cookie) -> Option<Vec<u8>> {
        let version = self.sent_to.get(address)?.version;
        let packet = self.packet_for(version, address)?;
        (name_of(&packet) == *initiation).then_some(packet)
    }

    /// Whether this is about what we have sent to `from` last.
    pub(super) fn is_about(&mut self, from: &Address, initiation: &Cookie) -> bool {
        self.last_packet(from, initiation).is_some()
    }

    /// The peer at `from` wants to see `cookie`; gives what goes there now. None if this is not
    /// about what we have sent there last.
    pub(super) fn take_cookie(
        &mut self,
        from: &Address,
        initiation: &Cookie,
        cookie: &Cookie,
    ) -> Option<Vec<u8>> {
        self.last_packet(from, initiation)?;
        let sent = self.sent_to.get_mut(from)?;
        if sent.taken >= COOKIES_TAKEN {
            return None;
        }
        sent.taken += 1;
        sent.cookie = *cookie;
        let version = sent.version;
        self.packet_for(version, from)
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
        let version = self.next_version();
        if let Some(address) = self.once.pop() {
            let last = self.once.is_empty() && self.addresses.is_empty();
            self.due = now + if last { ONLY_ADDRESS } else { NEXT_ADDRESS };
            let packet = self.packet_for(version, &address)?;
            return Some((address, packet));
        }
        let first_round = self.first_round();
        let (mail, fast): (Vec<&Address>, Vec<&Address>) =
            self.addresses.iter().partition(|address| is_mail(address));
        // The version before is tried at the cheapest address first as well.
        let turn = if version == LinkVersion::Earlier && self.spoken.is_none() {
            self.earlier
        } else {
            self.attempts
        };
        let pause = match self.attempts.checked_sub(first_round) {
            _ if fast.is_empty() => None,
            None => Some(NEXT_ADDRESS),
            Some(further) => DIAL_PAUSES.get(further).copied(),
        };
        let chosen = match pause {
            Some(pause) => {
                let position = turn % fast.len().max(1);
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
        self.earlier += usize::from(version == LinkVersion::Earlier);
        self.due = now + pause;
        let packet = self.packet_for(version, &address)?;
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
    pub(super) version: LinkVersion,
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
