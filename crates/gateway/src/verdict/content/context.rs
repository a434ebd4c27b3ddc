//! What a connection's contents are judged by, and where what they carry is written down.

use std::time::Duration;

use crate::inspect::{Expected, FileHead, Message};
use crate::limits::MAX_TEXT;
use crate::packet::L4;
use crate::policy::{Failure, Item, Ruling};
use crate::verdict::cache::ConnectionCache;
use crate::verdict::effects::Effects;
use crate::verdict::env::{Env, Subject, Unreadable};
use crate::verdict::event::{EventKind, FileInfo, Text};
use crate::verdict::machine::facts;
use crate::verdict::state::Decided;
use crate::verdict::{FileEnd, FilePart, FlowId, ScanJob};

/// The decision on a followed flow, and the effects of what is found in it. Before the decision
/// all is allowed, and nothing is written down.
pub(in crate::verdict) struct ContentContext<'a> {
    pub(in crate::verdict) now: Duration,
    pub(in crate::verdict) subject: Subject,
    pub(in crate::verdict) decided: Option<&'a Decided>,
    pub(in crate::verdict) env: &'a Env,
    pub(in crate::verdict) cache: &'a mut ConnectionCache,
    pub(in crate::verdict) effects: &'a mut Effects,
}

impl ContentContext<'_> {
    /// The flow.
    pub(super) fn flow(&self) -> FlowId {
        self.subject.id
    }

    /// What happens to a file or message.
    pub(super) fn judge(&self, item: &Item<'_>) -> Ruling {
        self.decided.map_or(Ruling::ALLOW, |decided| {
            let at = self.env.moment(self.now);
            let facts = facts(&self.subject.ends, Some(&*decided.found), at);
            decided.policy.judge(&decided.plan, &facts, item)
        })
    }

    /// What happens where something cannot be read, by the rule that decided on it.
    pub(super) fn failure(&self, ruling: &Ruling) -> Failure {
        self.decided
            .map_or(Failure::Open, |decided| decided.policy.failure_of(ruling))
    }

    /// The rule that decided scans parts of files by themselves.
    pub(super) fn scans_parts(&self, ruling: &Ruling) -> bool {
        self.decided
            .is_some_and(|decided| decided.policy.scans_parts(ruling))
    }

    /// Bytes of a file's beginning that wait together, by the rule that decided.
    pub(super) fn holds_first(&self, ruling: &Ruling) -> u64 {
        self.decided
            .map_or(0, |decided| decided.policy.holds_first(ruling))
    }

    /// Packets of the flow go on in this class.
    pub(super) fn class(&self) -> Option<usize> {
        self.decided.and_then(|decided| decided.plan.ruling.class)
    }

    /// Requests must not ask for coded files, because those are to be scanned.
    pub(in crate::verdict) fn forbids_codings(&self) -> bool {
        let scans = |decided: &Decided| decided.policy.scans(&decided.plan);
        self.env.enforces() && self.decided.is_some_and(scans)
    }

    /// What the next audited file is called.
    pub(super) fn number_file(&mut self) -> u64 {
        self.effects.number_file()
    }

    /// A part of an audited file.
    pub(super) fn part(&mut self, part: FilePart) {
        self.effects.parts.push_back(part);
    }

    /// A window to scan.
    pub(super) fn scan(&mut self, window: ScanJob) {
        self.effects.scans.push_back(window);
    }

    /// A connection that was announced: connections to it are refused no more.
    pub(super) fn expect(&mut self, expected: Expected) {
        let server = expected.server;
        if self.env.announced.add(self.now, expected) {
            self.cache.forgive(L4::Tcp, server);
        }
    }

    /// A file was offered or asked for, and may not come.
    pub(super) fn refused(&mut self, head: FileHead, ruling: &Ruling) {
        let Some(decided) = self.decided else {
            return;
        };
        let mut event = self.env.event(
            self.now,
            EventKind::FileInfo,
            &self.subject,
            decided,
            ruling,
        );
        event.fileinfo = Some(info(head, None));
        self.effects.note(event);
    }

    /// A file comes in a form that cannot be scanned, and why; it is stopped, or goes on.
    pub(super) fn unreadable(
        &mut self,
        head: FileHead,
        ruling: &Ruling,
        failure: Failure,
        reason: &str,
    ) {
        let Some(decided) = self.decided else {
            return;
        };
        let mut event = self.env.unreadable(
            self.now,
            EventKind::FileInfo,
            &Unreadable {
                subject: &self.subject,
                decided,
                ruling,
                failure,
                reason,
            },
        );
        event.fileinfo = Some(info(head, None));
        self.effects.note(event);
    }

    /// A message went by, or is refused.
    pub(super) fn message(&mut self, message: Message, ruling: &Ruling) {
        let Some(decided) = self.decided else {
            return;
        };
        let mut event =
            self.env
                .event(self.now, EventKind::Message, &self.subject, decided, ruling);
        let texts = decided.policy.keeps_texts(ruling);
        event.message = Some(Text {
            size: u64::try_from(message.text.len()).unwrap_or(u64::MAX),
            text: texts.then(|| cut(message.text)),
            from: message.from,
            to: message.to,
        });
        self.effects.note(event);
    }

    /// An audited file is whole: its last part, with the event that lacks the hash alone. `None`:
    /// nothing is decided on the flow.
    pub(super) fn whole(
        &mut self,
        head: FileHead,
        ruling: &Ruling,
        bytes: u64,
        rest: FilePart,
    ) -> Option<FilePart> {
        let decided = self.decided?;
        let mut event = self.env.event(
            self.now,
            EventKind::FileInfo,
            &self.subject,
            decided,
            ruling,
        );
        event.fileinfo = Some(info(head, Some(bytes)));
        Some(FilePart {
            end: Some(FileEnd::Whole(Box::new(event))),
            ..rest
        })
    }
}

fn info(head: FileHead, whole: Option<u64>) -> FileInfo {
    FileInfo {
        filename: head.name,
        mimetype: head.kind,
        sender: head.sender,
        size: whole.or(head.size),
        whole: whole.is_some(),
        ..FileInfo::default()
    }
}

/// The text as far as it is written down.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}
