//! Results of scanners for windows of files, and what becomes of the packets that wait for them.

use super::event::{EventKind, FileInfo};
use super::inspecting::blocking;
use super::machine::FlowContext;
use super::{Mode, ScanJob, Scanned};

impl FlowContext<'_> {
    /// What a scanner reports of a window.
    pub(super) fn handle_scanned(&mut self, job: &ScanJob, scanned: &Scanned) {
        match scanned {
            Scanned::Clean => self.clean(job),
            Scanned::Found(name) => {
                self.found_in(job, name);
                if self.env.settings.mode == Mode::Observe {
                    // It is not kept from its receiver.
                    self.clean(job);
                }
            }
            Scanned::Failed(reason) => {
                self.give_up(reason);
            }
        }
    }

    fn clean(&mut self, job: &ScanJob) {
        let own = &mut self.entry.flow.attachment.own;
        if let Some((_, content)) = own.content_mut() {
            let whole = content.handle_clean(job.direction, job.number);
            self.effects.parts.extend(whole);
        }
        self.release();
    }

    fn found_in(&mut self, job: &ScanJob, name: &str) {
        let subject = self.subject();
        let own = &self.entry.flow.attachment.own;
        let Some(decided) = own.decided() else {
            return;
        };
        let ruling = blocking(decided.plan.ruling);
        let mut event = self
            .env
            .event(self.now, EventKind::FileInfo, &subject, decided, &ruling);
        event.alert.evidence = format!("the scanner found {name}");
        event.fileinfo = Some(FileInfo {
            filename: job.name.clone(),
            found: Some(name.to_owned()),
            delivered: own
                .content()
                .map(|content| content.delivered(job.direction, job.end())),
            sender: Some(job.direction),
            ..FileInfo::default()
        });
        self.effects.note(event);
        if self.env.enforces() {
            self.block(ruling);
        }
    }
}
