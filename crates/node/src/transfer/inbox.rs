//! What has come, what comes, and what waits for a person's answer.

use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;
use tokio::time::timeout;

use super::arrival::{Answer, Arrival, Hook};
use super::live::Live;
use super::receive;
use super::record::{Direction, Phase, Record};
use super::service::{Context, TransferError, Transfers};
use super::wire::Frame;
use crate::clock::unix_seconds;
use crate::connection::code::DONE;
use crate::control::{HookStatus, InboxItem};
use crate::limits::{ANSWER_TIME, AWAITED_TIME, REFUSAL_REASON};
use crate::text::printable;

/// Why an offer has ended that was not answered.
const NOT_ANSWERED: &str = "no person has answered in time";

impl Transfers {
    /// Everything that other members have offered and that is remembered, oldest first.
    pub(crate) fn inbox(&self) -> Vec<InboxItem> {
        let all = self.context().all().into_iter();
        let mut items: Vec<InboxItem> = all
            .filter(|live| live.lock_record().direction == Direction::Receive)
            .map(|live| item(&live.record()))
            .collect();
        items.extend(self.context().refusals.items());
        items.sort_by_key(|item| item.offered);
        items
    }

    /// Accepts or refuses what waits for an answer; the reason is for the sender.
    pub(crate) fn answer(
        &self,
        prefix: &str,
        accept: bool,
        reason: Option<&str>,
    ) -> Result<InboxItem, TransferError> {
        let context = self.context();
        let live = self.by_prefix(prefix)?;
        let record = live.record();
        let waits = record.arrival.as_ref().is_some_and(Arrival::waits);
        if !waits || record.phase.is_ended() {
            return Err(TransferError::NotAsked(record.id));
        }
        let answer = if accept {
            Answer::Accepted
        } else {
            Answer::Refused
        };
        set_answer(&live, answer);
        let (phase, words) = if accept {
            (Phase::Waiting, "accepted; waits for the sender".to_owned())
        } else {
            let own_name = context.receiving().own_name().to_owned();
            let reason = reason.map(|reason| printable(reason, REFUSAL_REASON));
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            (
                Phase::Failed,
                format!("refused by a person at {own_name}{reason}"),
            )
        };
        context.set_phase(&live, phase, Some(words));
        tokio::spawn(notify_sender(Arc::clone(context), Arc::clone(&live)));
        Ok(item(&live.record()))
    }
}

fn set_answer(live: &Live, answer: Answer) {
    if let Some(arrival) = &mut live.lock_record().arrival {
        arrival.answer = answer;
    }
}

/// Has the sender come at once. One that is away, or of an earlier release, comes at its next try.
async fn notify_sender(context: Arc<Context>, live: Arc<Live>) {
    let record = live.record();
    let Some(certificate) = context.directory.cached(&record.peer) else {
        return;
    };
    let notifying = async {
        let connecting = context.connections.connect(certificate, Priority::NORMAL);
        let connection = connecting.await.ok()?;
        let (mut sink, _answers) = connection.open_bi().await.ok()?;
        Frame::Come(record.id.0.into())
            .write(&mut sink)
            .await
            .ok()?;
        sink.finish().ok()?;
        let _gone = sink.stopped().await;
        connection.close(DONE, "the sender knows");
        Some(())
    };
    if !matches!(timeout(ANSWER_TIME, notifying).await, Ok(Some(()))) {
        tracing::debug!(id = %record.id, "the sender does not know of an answer yet");
    }
}

/// Lets go of an offer that waits for an answer for too long. True if it did.
pub(super) async fn expire(context: &Arc<Context>, live: &Live) -> bool {
    let record = live.record();
    let waits = record.arrival.as_ref().is_some_and(Arrival::waits);
    let since = Duration::from_secs(unix_seconds().saturating_sub(record.created));
    if !waits || record.phase.is_ended() || since < AWAITED_TIME {
        return false;
    }
    set_answer(live, Answer::Refused);
    context.set_phase(live, Phase::Failed, Some(NOT_ANSWERED.to_owned()));
    receive::discard(context, live).await;
    true
}

fn item(record: &Record) -> InboxItem {
    let arrival = record.arrival.clone().unwrap_or_default();
    let state = match record.phase {
        Phase::Done => "received",
        Phase::Failed | Phase::Cancelled if arrival.answer == Answer::Refused => "refused",
        Phase::Failed | Phase::Cancelled => "failed",
        _ if arrival.waits() => "asks",
        _ => "coming",
    };
    let there = record.phase == Phase::Done;
    InboxItem {
        id: record.id.to_string(),
        state: state.to_owned(),
        from: record.peer_name.clone(),
        file: record.file.clone(),
        kind: match arrival.kind.as_str() {
            "" => "file".to_owned(),
            kind => kind.to_owned(),
        },
        size: record.size,
        blake3: record.hash.map(|hash| hash.to_hex().to_string()),
        path: there.then(|| record.path.clone()),
        offered: record.created,
        ended: record.ended,
        rule: arrival.rule,
        reason: record.reason.clone(),
        hook: (arrival.hook != Hook::None).then(|| HookStatus {
            program: arrival.run.first().cloned().unwrap_or_default(),
            state: arrival.hook.as_str().to_owned(),
            note: arrival.note,
        }),
    }
}
