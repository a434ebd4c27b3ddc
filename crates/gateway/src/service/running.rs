//! A gateway at work, and its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::accounts::AccountsThread;
use super::controller::Controller;
use super::error::ServiceError;
use super::event_writer::EventWriter;
use super::history::HistoryThread;
use super::installation::Installation;
use super::queue::{QueueThread, end_all};
use super::state_lock::StateLock;
use crate::limits::COUNTING_FILE;
use crate::linux::conntrack::switch;
use crate::linux::kernel::attach::AttachedAt;
use crate::linux::kernel::parts::MissingPart;
use crate::linux::kernel::{Kernel, remove, unhook};
use crate::linux::leftover;
use crate::linux::priority::reset_priority;
use crate::linux::rules::Rules;
use crate::linux::ruleset_watch::RulesetWatch;
use crate::linux::shaper;
use crate::linux::terminate::redirect;

/// A gateway at work. It ends with [`end`](Self::end), or when it is dropped.
///
/// Its parts end in the order in which they stand here. First the policy changes no more, then no
/// more packets are asked about, and then the queues end. What they reported is written down, and
/// last the folder of state can be had again.
#[derive(Debug)]
pub struct RunningGateway {
    pub(super) controller: Arc<Controller>,
    pub(super) watch: Option<RulesetWatch>,
    pub(super) housekeeping: Option<JoinHandle<()>>,
    pub(super) kernel: Option<Kernel>,
    pub(super) installation: Installation,
    pub(super) queues: Vec<QueueThread>,
    pub(super) accounts: Option<AccountsThread>,
    pub(super) history: Option<HistoryThread>,
    pub(super) writer: Option<EventWriter>,
    pub(super) cache: Vec<AttachedAt>,
    /// The folder of state.
    pub(super) state: PathBuf,
    pub(super) ended: bool,
    pub(super) _lock: StateLock,
}

impl RunningGateway {
    /// Takes back policies that are not confirmed in time from now on, and puts back rules that
    /// other programs take out; it looks for these when nftables announces a change, and as often
    /// as `rules_look` says.
    ///
    /// # Errors
    /// The thread does not start.
    pub fn keep_house(&mut self, rules_look: Duration) -> Result<(), ServiceError> {
        let controller = Arc::clone(&self.controller);
        let thread = std::thread::Builder::new()
            .name("housekeeping".to_owned())
            .spawn(move || {
                reset_priority();
                controller.keep_house(rules_look);
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        self.housekeeping = Some(thread);
        let controller = Arc::clone(&self.controller);
        match RulesetWatch::start(move || controller.look_at_rules()) {
            Ok(watch) => self.watch = Some(watch),
            // A kernel without nftables: the rules are in iptables' own tables.
            Err(error) => {
                tracing::info!(%error, "the kernel announces no changes of the packet filter: they are found by looks");
            }
        }
        Ok(())
    }

    /// What the gateway is asked.
    #[must_use]
    pub fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// The parts of the in-kernel path that this machine cannot do; `None` without the path.
    #[must_use]
    pub fn without(&self) -> Option<Vec<MissingPart>> {
        let kernel = self.kernel.as_ref()?;
        Some(self.installation.without(kernel))
    }

    /// Where the kernel's connection cache is, in front of the packet filter.
    #[must_use]
    pub fn cache(&self) -> &[AttachedAt] {
        &self.cache
    }

    /// The interfaces of the border that were not there when this was asked.
    #[must_use]
    pub fn missing_interfaces(&self) -> Vec<String> {
        self.installation.missing()
    }

    /// Has the EVE files opened again, by their names, within a second: another program has renamed
    /// them. A file that was renamed or removed is found to be so by itself when the next event is
    /// written.
    pub fn reopen_events(&self) {
        if let Some(writer) = &self.writer {
            writer.reopen();
        }
    }

    /// Ends. `stays`: what was put into the system stays there, for the next run.
    ///
    /// # Errors
    /// The first part that did not end as it should; the others have ended all the same.
    pub fn end(mut self, stays: bool) -> Result<(), ServiceError> {
        self.end_parts(stays)
    }

    fn end_parts(&mut self, stays: bool) -> Result<(), ServiceError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.controller.close();
        self.watch = None;
        if let Some(thread) = self.housekeeping.take() {
            // A panic there was reported already.
            thread.join().ok();
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.rest();
        }
        let removed = self.installation.end(stays);
        if !stays {
            remove_leftover(&self.state);
        }
        let ended = end_all(std::mem::take(&mut self.queues));
        if let Some(accounts) = self.accounts.take() {
            accounts.end();
        }
        if let Some(history) = self.history.take() {
            history.end();
        }
        if !stays && let Err(error) = switch::put_back(&self.state) {
            tracing::warn!(%error, "the kernel goes on counting connections");
        }
        if let Some(writer) = self.writer.take() {
            writer.end();
        }
        ended.and(removed)
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        if let Err(error) = self.end_parts(false) {
            tracing::error!(%error, "the gateway did not end as it should");
        }
    }
}

/// Takes rules, redirections, classes and programs out, whichever run has left them, and has the
/// kernel count as it did before, which `state` holds.
///
/// # Errors
/// A part that cannot be taken out; the others are out all the same.
pub fn take_down(interfaces: &[String], bpffs: &Path, state: &Path) -> Result<(), ServiceError> {
    let mut taken = vec![Rules::take_down().map_err(ServiceError::failed)];
    for interface in interfaces {
        taken.push(shaper::take_down(interface).map_err(ServiceError::failed));
        taken.push(unhook(interface, bpffs).map_err(ServiceError::failed));
    }
    taken.push(redirect::take_down().map_err(ServiceError::failed));
    remove_leftover(state);
    remove(bpffs);
    taken.push(switch::put_back(state).map_err(|error| {
        ServiceError::failed(format_args!(
            "the kernel counts connections as the gateway had it ({}): {error}",
            state.join(COUNTING_FILE).display()
        ))
    }));
    taken.into_iter().collect()
}

/// Deletes what iptables leaves empty; that it stays does no harm.
pub(super) fn remove_leftover(state: &Path) {
    if let Err(error) = leftover::remove(state) {
        tracing::debug!(%error, "empty chains of iptables stay");
    }
}
