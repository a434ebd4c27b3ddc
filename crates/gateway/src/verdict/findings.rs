//! What scanners say of windows of files, and what becomes of the packets that wait for it.

use std::time::Duration;

use super::desk::Desk;
use super::event::{EventKind, FileInfo};
use super::state::Status;
use super::{Mode, ScanJob, Scanned};
use crate::policy::{Action, Ruling};

impl Desk {
    /// What a scanner says of a window.
    pub(super) fn handle_scanned(&mut self, now: Duration, job: &ScanJob, scanned: &Scanned) {
        let place = job.flow.place;
        let there = self
            .tracker
            .flow(place)
            .is_some_and(|flow| flow.serial == job.flow.serial);
        if !there {
            return;
        }
        match scanned {
            Scanned::Clean => self.clean(place, job),
            Scanned::Found(name) => {
                self.found_in(now, job, name);
                if self.settings.mode == Mode::Observe {
                    // Nobody is kept from having it.
                    self.clean(place, job);
                }
            }
            Scanned::Failed(reason) => {
                self.give_up(now, place, reason);
            }
        }
    }

    fn clean(&mut self, place: usize, job: &ScanJob) {
        if let Some(flow) = self.tracker.flow_mut(place)
            && let Some(content) = &mut flow.attachment.own.content
        {
            self.parts
                .extend(content.handle_clean(job.direction, job.number));
        }
        self.release(place);
    }

    fn found_in(&mut self, now: Duration, job: &ScanJob, name: &str) {
        let Some(flow) = self.tracker.flow(job.flow.place) else {
            return;
        };
        let Status::Decided(decided) = &flow.attachment.own.status else {
            return;
        };
        let ruling = Ruling {
            action: Action::Block,
            ..decided.plan.ruling
        };
        let mut event = self.event_of((now, EventKind::FileInfo), flow, decided, &ruling);
        event.alert.evidence = format!("the scanner found {name}");
        event.fileinfo = Some(FileInfo {
            filename: job.name.clone(),
            found: Some(name.to_owned()),
            delivered: flow
                .attachment
                .own
                .content
                .as_ref()
                .and_then(|content| content.delivered(job.direction)),
            ..FileInfo::default()
        });
        self.note(event);
        if self.settings.mode == Mode::Enforce {
            self.block(now, job.flow.place, ruling);
        }
    }
}
