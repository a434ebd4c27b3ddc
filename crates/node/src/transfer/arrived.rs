//! What happens once a file is there, or waits for an answer: the program of its rule is run, and
//! the desktop shows it.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use super::arrival::Hook;
use super::desktop::{Desktop, Note};
use super::hook;
use super::live::Live;
use super::record::{Direction, Phase, TransferId};
use super::service::Context;
use crate::limits::HOOKS;

/// What happens to files that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A person is asked about it.
    Asks(TransferId),
    /// It is in its place.
    Arrived(TransferId),
}

/// Acts on events for as long as the daemon runs.
pub(super) async fn run(context: Arc<Context>, mut events: mpsc::UnboundedReceiver<Event>) {
    let hooks = Arc::new(Semaphore::new(HOOKS));
    let desktop = Desktop::start();
    while let Some(event) = events.recv().await {
        let (Event::Asks(id) | Event::Arrived(id)) = event;
        let Some(live) = context.find(id, Direction::Receive) else {
            continue;
        };
        let record = live.record();
        if record
            .arrival
            .as_ref()
            .is_some_and(|arrival| arrival.notify)
        {
            desktop.show(Note {
                from: record.peer_name.clone(),
                file: record.file.clone(),
                size: record.size,
                asks: event == Event::Asks(id),
            });
        }
        let due = record
            .arrival
            .is_some_and(|arrival| arrival.hook == Hook::Due);
        if due && record.phase == Phase::Done {
            tokio::spawn(run_hook(Arc::clone(&context), live, Arc::clone(&hooks)));
        }
    }
}

async fn run_hook(context: Arc<Context>, live: Arc<Live>, hooks: Arc<Semaphore>) {
    let Ok(_turn) = hooks.acquire().await else {
        return;
    };
    // On disk first: it is run once at most, whenever the daemon ends.
    set(&live, Hook::Running, None);
    let recorded = context.state.put_transfer(&live.record());
    let (hook, note) = match recorded {
        Ok(()) => hook::run(&live.record()).await,
        Err(error) => (Hook::Failed, Some(format!("it was not begun: {error}"))),
    };
    let record = live.record();
    let (id, program) = (record.id, record.arrival.map(|arrival| arrival.run));
    let program = program.and_then(|run| run.into_iter().next());
    let program = program.unwrap_or_default();
    if hook == Hook::Failed {
        let reason = note.as_deref().unwrap_or_default();
        tracing::warn!(%id, program, reason, "the program for a received file failed");
    } else {
        tracing::info!(%id, program, "the program for a received file has ended");
    }
    set(&live, hook, note);
    context.save(&live);
}

fn set(live: &Live, hook: Hook, note: Option<String>) {
    if let Some(arrival) = &mut live.lock_record().arrival {
        (arrival.hook, arrival.note) = (hook, note);
    }
}

/// Takes up what an earlier run has left: a program that was due is run, and one that ran then is
/// not run again.
pub(super) fn take_up(context: &Context, live: &Live) {
    let record = live.record();
    let hook = record.arrival.map(|arrival| arrival.hook);
    match hook {
        Some(Hook::Due) if record.phase == Phase::Done => context.tell(Event::Arrived(record.id)),
        Some(Hook::Running) => {
            let note = "the daemon ended while it ran: it is not run again";
            set(live, Hook::Interrupted, Some(note.to_owned()));
            context.save(live);
        }
        _ => {}
    }
}
