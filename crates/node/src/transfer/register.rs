//! An offer's way to its record: by the rules, a person's answer, and what is known of the transfer
//! already.

use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::sync::SemaphorePermit;

use super::arrival::{Answer, Arrival};
use super::arrived::Event;
use super::content::safe_file_name;
use super::live::Live;
use super::receive::{
    Ended, GIVEN_UP_HERE, KEY_NOT_KNOWN, described, discard, ended_with_membership, refused,
};
use super::record::{Direction, Phase, Record, TransferId};
use super::rules::{self, Decision, Landing, OfferFacts, OfferedKind};
use super::service::Context;
use super::told;
use super::wire::Offer;
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::directory::Directory;
use crate::limits::{AWAITED_OFFERS, RECEIVES_PER_MEMBER};

pub(super) const TOO_MANY_FILES: &str = "too many files are being received";

/// The certificate of a member that sends.
pub(super) fn sender(context: &Context, peer: MemberId) -> Result<Certificate, Ended> {
    let unknown = || "no valid certificate of the sender is known".to_owned();
    let certificate = context.directory.cached(&peer);
    certificate.ok_or_else(|| Ended::Refuse(unknown(), true))
}

/// A place for the file, and its record. If there is neither, the log tells who offered what: no
/// record will end.
pub(super) fn begin<'a>(
    context: &'a Arc<Context>,
    peer: MemberId,
    offer: &Offer,
) -> Result<(SemaphorePermit<'a>, Arc<Live>), Ended> {
    let begun = register(context, peer, offer).and_then(|live| {
        let slot = context.receives.try_acquire();
        let slot = slot.map_err(|_| Ended::Refuse(TOO_MANY_FILES.to_owned(), true))?;
        Ok((slot, live))
    });
    begun.inspect_err(|ended| {
        let Ended::Refuse(reason, later) = ended else {
            return;
        };
        let known = context.find(TransferId(*offer.id), Direction::Receive);
        let from = name_of(context, peer);
        match known {
            // What is known has its own place in the log and in the inbox.
            Some(_) => tracing::debug!(from, reason, "a file is not received now"),
            None => told::refused(&context.refusals, &from, offer, reason, *later),
        }
    })
}

/// What a member is called in the log.
fn name_of(context: &Context, member: MemberId) -> String {
    let certificate = context.directory.cached(&member);
    certificate.map_or_else(|| member.to_string(), |known| known.name().to_string())
}

/// Whether a transfer that has begun is that of the member that comes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Its,
    /// It has the name and a newer certificate; that it is the same member the owner has not stated
    /// yet, as far as is known here.
    MayBeIts,
    Anothers,
}

impl Whose {
    pub(super) fn of(directory: &Directory, record: &Record, comes: &Certificate) -> Whose {
        let named = comes.name().as_str() == record.peer_name;
        if record.peer == comes.member() || directory.succeeds(record.peer_serial, comes) {
            Whose::Its
        } else if named && record.peer_serial != 0 && comes.serial() > record.peer_serial {
            Whose::MayBeIts
        } else {
            Whose::Anothers
        }
    }
}

/// Checks whether the file may come, and finds or makes the transfer's record.
fn register(context: &Arc<Context>, peer: MemberId, offer: &Offer) -> Result<Arc<Live>, Ended> {
    let certificate = sender(context, peer)?;
    let name = certificate.name().to_string();
    let file = safe_file_name(&offer.file);
    let file = file.ok_or_else(|| refused("the file's name cannot be used"))?;
    let facts = OfferFacts {
        from: &name,
        name: &file,
        kind: match offer.bundle {
            Some(_) => OfferedKind::Folder,
            None => OfferedKind::File,
        },
        size: offer.size,
    };
    let id = TransferId(*offer.id);
    if let Some(live) = context.find(id, Direction::Receive) {
        let live = known(context, live, offer, &certificate)?;
        still_taken(context, &live, &facts)?;
        return Ok(live);
    }
    let receiving = context.receiving();
    let (landing, answer) = match rules::decide(&receiving, &facts) {
        Decision::Take(landing) => (landing, Answer::NotAsked),
        Decision::Ask(landing) => (landing, Answer::Awaited),
        Decision::Refuse { reason } => return Err(refused(&reason)),
    };
    check_place(&landing)?;
    if context.find(id, Direction::Send).is_some() {
        return Err(refused("the transfer's id is in use"));
    }
    check_room(context, peer, answer)?;
    let record = Record {
        id,
        direction: Direction::Receive,
        peer,
        peer_serial: certificate.serial(),
        path: landing.into.join(&file),
        size: offer.size,
        priority: Priority::NORMAL,
        phase: Phase::Waiting,
        reason: (answer == Answer::Awaited).then(|| AWAITED.to_owned()),
        hash: Some(blake3::Hash::from_bytes(*offer.hash)),
        created: unix_seconds(),
        ended: None,
        active: Duration::ZERO,
        moved: 0,
        offered: false,
        handed: false,
        bundle: offer.bundle.map(described),
        arrival: Some(Arrival::of(&landing, facts.kind.as_str(), answer)),
        file,
        peer_name: name,
    };
    let added = context.add(record);
    let live = added.map_err(|error| Ended::Refuse(error.to_string(), true))?;
    context.refusals.forget(&id.to_string());
    if answer == Answer::Awaited {
        told::asks(&live.record());
        context.tell(Event::Asks(id));
        return Err(awaited(&receiving));
    }
    Ok(live)
}

/// Why a file waits here that a person is asked about.
const AWAITED: &str = "waits for an answer: `ringway inbox accept` or `refuse` it";

/// What its sender is told.
fn awaited(receiving: &rules::Receiving) -> Ended {
    let own_name = receiving.own_name();
    let reason = format!("it waits until a person at {own_name} accepts it");
    Ended::Refuse(reason, true)
}

/// The transfer with the offer's id, if the offer is of the same content by the same member.
fn known(
    context: &Context,
    live: Arc<Live>,
    offer: &Offer,
    certificate: &Certificate,
) -> Result<Arc<Live>, Ended> {
    let record = live.record();
    let whose = Whose::of(&context.directory, &record, certificate);
    let hash = blake3::Hash::from_bytes(*offer.hash);
    let same = record.hash == Some(hash) && record.size == offer.size;
    match record.phase {
        // The same content in the same name.
        _ if same && whose != Whose::Anothers && ended_with_membership(&record) => {
            context.revive(&live);
            context.follow(&live, certificate);
            Ok(live)
        }
        Phase::Cancelled | Phase::Failed => Err(refused(&ended_here(&record))),
        _ if same && whose == Whose::Its => {
            context.follow(&live, certificate);
            Ok(live)
        }
        _ if same && whose == Whose::MayBeIts => Err(Ended::Refuse(KEY_NOT_KNOWN.to_owned(), true)),
        _ => Err(refused(
            "the file is not the one that this transfer began with",
        )),
    }
}

/// Why a transfer that has ended without its file does not go on: what a person has said is for the
/// sender, too.
fn ended_here(record: &Record) -> String {
    let arrival = record.arrival.as_ref();
    match (&record.reason, arrival.map(|arrival| arrival.answer)) {
        (Some(reason), Some(Answer::Refused)) => reason.clone(),
        _ => GIVEN_UP_HERE.to_owned(),
    }
}

/// Whether a transfer that is known may go on: a person has accepted it, or the rules of today take
/// it still.
fn still_taken(
    context: &Arc<Context>,
    live: &Arc<Live>,
    facts: &OfferFacts<'_>,
) -> Result<(), Ended> {
    let record = live.record();
    if record.phase.is_ended() {
        return Ok(());
    }
    let answer = record.arrival.as_ref().map(|arrival| arrival.answer);
    let receiving = context.receiving();
    match (answer, rules::decide(&receiving, facts)) {
        (Some(Answer::Accepted), _) => Ok(()),
        (_, Decision::Refuse { reason }) => {
            context.set_phase(live, Phase::Failed, Some(reason.clone()));
            let (context, live) = (Arc::clone(context), Arc::clone(live));
            tokio::spawn(async move { discard(&context, &live).await });
            Err(refused(&reason))
        }
        (Some(Answer::Awaited), _) => Err(awaited(&receiving)),
        (_, Decision::Take(landing) | Decision::Ask(landing)) => check_place(&landing),
    }
}

fn check_place(landing: &Landing) -> Result<(), Ended> {
    if rules::has_place(&landing.into) {
        return Ok(());
    }
    let folder = landing.into.display();
    tracing::warn!(%folder, "no file is received: the place of the folder has gone. Was the home moved? Start the daemon again where it is now");
    let reason = "the folder for received files has gone there".to_owned();
    Err(Ended::Refuse(reason, true))
}

/// Whether this member may have one more on its way, and a person one more to answer.
fn check_room(context: &Context, peer: MemberId, answer: Answer) -> Result<(), Ended> {
    if context.open_transfers(Direction::Receive, Some(peer)) >= RECEIVES_PER_MEMBER {
        let reason = "too many files of this sender are on their way".to_owned();
        return Err(Ended::Refuse(reason, true));
    }
    if answer == Answer::Awaited && context.awaited() >= AWAITED_OFFERS {
        let reason = "too many files wait for a person's answer there".to_owned();
        return Err(Ended::Refuse(reason, true));
    }
    Ok(())
}
