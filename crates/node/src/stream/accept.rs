//! Streams that peers open to services of this member.

use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use data_encoding::HEXLOWER;
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::SendStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Inner;
use super::drive::{Attachment, Driver, Order, Times};
use super::local::Local;
use super::offers::{Announced, Offer, Target};
use super::open::ORDERS;
use super::table::Entry;
use super::wire::{Attach, Frame, KINDS, Open};
use crate::connection::{Opened, Serving, StreamService, code};
use crate::limits::{SERVICE_NAME, SERVICE_TAKE};
use crate::text::printable;

/// What a peer is told that may not use a service, and one that names none.
const NOT_OFFERED: &str =
    "offers no such service to this member: `ringway services` with its name lists what it offers";

/// Serves peers.
#[derive(Debug)]
pub(super) struct Service(pub(super) Weak<Inner>);

impl StreamService for Service {
    fn kinds(&self) -> RangeInclusive<u32> {
        KINDS
    }

    fn serve(&self, opened: Opened) -> Serving {
        let inner = self.0.upgrade();
        Box::pin(async move {
            let Some(inner) = inner else { return };
            let Opened {
                connection,
                sink,
                stream,
                first,
            } = opened;
            let attachment = Attachment {
                connection,
                sink,
                stream,
                used: None,
                held: None,
            };
            let Some(peer) = inner.name_of(&attachment.connection.peer()) else {
                attachment.connection.close(code::REVOKED, "not a member");
                return;
            };
            let peer = (peer.member(), peer.name().to_string());
            match Frame::decode(&first) {
                Ok(Frame::List) => {
                    let offered = inner.offers.offered_to(&peer.1);
                    answer(attachment, Frame::Listed(offered)).await;
                }
                Ok(Frame::Open(open)) => inner.open_for(peer, open, attachment).await,
                Ok(Frame::Attach(attach)) => inner.attach_for(peer.0, attach, attachment).await,
                _ => attachment.connection.close(code::FAILED, "malformed"),
            }
        })
    }
}

/// Says something, and waits until the peer has it.
async fn answer(attachment: Attachment, frame: Frame) {
    let mut sink: SendStream = attachment.sink;
    if frame.write(&mut sink).await.is_ok() && sink.finish().is_ok() {
        // Until the peer has read it, or has gone.
        let _gone = sink.stopped().await;
    }
}

/// The priority with which this member sends: what is asked for, and at most the service's.
fn granted(offer: &Offer, asked: Option<f64>) -> Priority {
    let asked = asked.and_then(|asked| Priority::new(asked).ok());
    let asked = asked.filter(|asked| asked.get() < offer.priority.get());
    asked.unwrap_or(offer.priority)
}

impl Inner {
    fn name_of(&self, peer: &MemberId) -> Option<crate::certificate::Certificate> {
        self.directory.cached(peer)
    }

    async fn open_for(
        self: Arc<Self>,
        peer: (MemberId, String),
        open: Open,
        attachment: Attachment,
    ) {
        let name = printable(&open.service, SERVICE_NAME);
        match self.accept(peer.clone(), open, attachment).await {
            Ok(()) => {}
            Err((attachment, reason)) => {
                tracing::info!(
                    peer = peer.1,
                    service = name,
                    reason,
                    "a stream was refused"
                );
                answer(*attachment, Frame::Refused(reason)).await;
            }
        }
    }

    /// Serves the stream to its end, or says why it does not.
    async fn accept(
        self: &Arc<Self>,
        peer: (MemberId, String),
        open: Open,
        attachment: Attachment,
    ) -> Result<(), (Box<Attachment>, String)> {
        let refused = |attachment, reason: &str| Err((Box::new(attachment), reason.to_owned()));
        let Some(offer) = self.offers.find(&open.service, &peer.1) else {
            return refused(attachment, NOT_OFFERED);
        };
        let (orders, receiver) = mpsc::channel(ORDERS);
        let entry = Entry::new(*open.id, peer.clone(), &open.service, false, orders);
        // Counted and entered under one lock, so that two at once do not both fit.
        let fits = |open: &[&Entry]| {
            let same = |it: &&&Entry| !it.outgoing && it.service == entry.service;
            let of_peer = |it: &&&Entry| it.peer == peer.0;
            let all = open.iter().filter(same);
            all.clone().count() < offer.max && all.filter(of_peer).count() < offer.max_per_peer
        };
        if !self.table.insert(entry.clone(), fits) {
            return refused(
                attachment,
                "serves as many streams of this service as it may: try again later",
            );
        }
        let priority = granted(&offer, open.priority);
        entry.meters.set_priority(priority.get());
        let takes_datagrams = open.datagrams == Some(true);
        let mut local = match self.reach(&offer, &entry).await {
            Ok(local) => local,
            Err(reason) => {
                self.table.remove(&entry, false);
                return refused(attachment, &reason);
            }
        };
        obey(&attachment, &offer, open.priority, open.carried_at);
        let times = Times {
            idle: offer.idle,
            time: offer.time,
        };
        let race_paths = self.path_race(peer.0);
        let mut driver = Driver::new(entry.clone(), priority, times, None, race_paths);
        let (received, limit) = driver.position();
        driver.attach(attachment, (received, limit), (0, open.limit));
        local.beside = local.beside.filter(|_| takes_datagrams);
        driver.answer(&Frame::Accepted {
            priority: priority.get(),
            received,
            limit,
            datagrams: local.beside.as_ref().map(|_| true),
        });
        tracing::info!(peer = peer.1, service = entry.service, "a stream began");
        let outcome = driver.run(local, receiver).await;
        self.close(&entry, &outcome);
        Ok(())
    }

    /// The service itself.
    async fn reach(&self, offer: &Offer, entry: &Entry) -> Result<Local, String> {
        let program = match &offer.target {
            Target::Socket(target) => {
                return Local::connect(target).await.map_err(|error| {
                    // Where it is concerns the peer no more than why.
                    let service = &entry.service;
                    tracing::warn!(service, %target, %error, "a service does not answer");
                    "cannot reach the service itself: it does not answer there".to_owned()
                });
            }
            Target::Program(program) => program,
        };
        let comes = self.offers.wait_for_program(entry.status());
        let announced = Announced {
            id: HEXLOWER.encode(&entry.id),
            peer: entry.peer_name.clone(),
        };
        let busy = "cannot reach the service itself: its program takes no more".to_owned();
        program.try_send(announced).map_err(|_| busy.clone())?;
        match timeout(SERVICE_TAKE, comes).await {
            Ok(Ok(socket)) => Ok(Local::unix(socket)),
            _ => Err(busy),
        }
    }

    /// A stream goes on over another connection.
    async fn attach_for(&self, peer: MemberId, attach: Attach, mut attachment: Attachment) {
        let Some(entry) = self.table.of_peer(peer, *attach.id) else {
            let frame = if self.table.has_finished(peer, *attach.id) {
                Frame::Finished
            } else {
                Frame::Refused(
                    "knows this stream no more: it was started anew, or waited too long".to_owned(),
                )
            };
            return answer(attachment, frame).await;
        };
        if let Some(offer) = self.offers.find(&entry.service, &entry.peer_name) {
            let priority = granted(&offer, attach.priority);
            obey(&attachment, &offer, attach.priority, attach.carried_at);
            entry.meters.set_priority(priority.get());
        }
        let (held, ends) = oneshot::channel();
        attachment.held = Some(held);
        let order = Order::Attach {
            attachment: Box::new(attachment),
            attempt: attach.attempt,
            received: attach.received,
            limit: attach.limit,
        };
        // Where it ends just now, the peer asks again and learns how.
        entry.orders.send(order).await.ok();
        // The connection has a stream for as long as this lasts.
        let _dropped = ends.await;
    }
}

/// Sends on a connection at the priority that all its streams have: only where the stream asks for
/// just that, and may.
fn obey(attachment: &Attachment, offer: &Offer, asked: Option<f64>, carried_at: f64) {
    let granted = granted(offer, asked);
    if asked == Some(carried_at) || granted.get() == carried_at {
        attachment.connection.set_priority(granted);
    }
}
