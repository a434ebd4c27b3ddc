//! One rule of a policy, and what it decides.

use super::matcher::Matcher;
use super::quota::Quota;

/// What happens to a flow, a file or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It goes on; the kernel carries the rest of the flow.
    Allow,
    /// It is dropped, and both sides of a TCP connection are reset.
    Block,
    /// It goes on within a class of bandwidth.
    Shape,
    /// It goes on, but no file is whole at its receiver before it was found clean.
    Scan,
    /// It goes on and is written down.
    Audit,
}

impl Action {
    /// The name used in policies and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
            Self::Shape => "shape",
            Self::Scan => "scan",
            Self::Audit => "audit",
        }
    }
}

/// What happens when the gateway or its scanner cannot do its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// Traffic goes on.
    #[default]
    Open,
    /// Traffic stops.
    Closed,
}

/// Which flows the classifier looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Those whose application a rule asks for.
    #[default]
    Needed,
    /// All that go on, so that figures and events name their applications.
    All,
}

/// A class of bandwidth, shared by the flows that are put into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Bits per second that it gets in each direction.
    pub rate: u64,
    /// Bits per second that it may borrow up to; the rate where nothing is said.
    pub ceiling: u64,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, as records show it.
    pub name: String,
    /// Line of the policy file at which it begins.
    pub line: usize,
    /// What it decides.
    pub action: Action,
    /// Index of the class in [`Policy::classes`](super::Policy::classes).
    pub class: Option<usize>,
    /// What it decides is written down.
    pub audit: bool,
    /// The texts of messages are written down too.
    pub texts: bool,
    /// Files are kept themselves.
    pub files: bool,
    /// What happens to its flows when scanning is not possible. Where it says nothing, what it
    /// scans fails closed, and all else as the policy says.
    pub failure: Option<Failure>,
    /// Parts of files are scanned by themselves. Otherwise they count as unreadable.
    pub scan_parts: bool,
    /// Bytes of a file's beginning that wait together until they were scanned.
    pub hold_first: u64,
    /// How much its flows may carry for each host or member.
    pub quota: Option<Quota>,
    pub(super) matcher: Matcher,
}

impl Rule {
    /// Whether what a flow carries has a say: files, messages, keywords.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        self.matcher.needs_content()
    }

    /// All that it can do is to let flows pass, as if it were not there and nothing else either.
    pub(super) fn only_allows(&self) -> bool {
        let plain = self.class.is_none() && !self.audit && !self.texts && !self.files;
        // What is counted by a rule has to be known for a flow of that rule.
        let counts = self.quota.is_some();
        self.action == Action::Allow && plain && !counts && !self.is_about_content()
    }

    /// It names this application. Its other conditions are not looked at.
    pub(super) fn is_about(&self, application: &str) -> bool {
        let apps = self.matcher.apps.as_ref();
        apps.is_some_and(|apps| apps.contains(application))
    }

    /// It names torrents.
    pub(super) fn names_torrents(&self) -> bool {
        self.matcher.infohashes.is_some()
    }

    /// It names no application, and may match flows of any.
    pub(super) fn is_about_all(&self) -> bool {
        self.matcher.apps.is_none()
    }
}
