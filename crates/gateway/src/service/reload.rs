//! The policy is loaded again from its file, while packets go on.

use std::path::Path;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::controller::{Apply, Controller};

/// What came of the latest order to load the policy again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    /// When, in seconds since 1970.
    pub at: u64,
    /// The file's policy is at work; if not, the policy before is, as it was.
    pub loaded: bool,
    /// Why it is not: a line for each fault. With a policy that was loaded, what else is to be
    /// known of it.
    pub notes: Vec<String>,
}

impl Controller {
    /// Tests the policy of this file and puts it to work, in the mode that is at work. Nothing
    /// changes if anything is wrong with it, or while another policy is on trial. What came of it
    /// is logged and stays in the [status](Controller::status). `read` is the file's text, or why
    /// it cannot be read.
    pub fn reload(&self, file: &Path, read: Result<String, String>) -> Reload {
        let before = self.policy_name();
        let applied = read
            .map_err(|reason| vec![reason])
            .and_then(|text| self.apply_reloaded(file, &text));
        let policy = file.display().to_string();
        // What a restart would have at work is at work from here on, also if that is news to the
        // one who has applied another policy since.
        let (loaded, notes) = match applied {
            Ok(()) if before == policy => (true, Vec::new()),
            Ok(()) => {
                let note = format!("it replaces {before}, which was applied meanwhile");
                (true, vec![note])
            }
            Err(reasons) => (false, reasons),
        };
        let reasons = notes.join("; ");
        if loaded {
            tracing::info!(policy, note = reasons, "the policy was loaded again");
        } else {
            tracing::error!(
                policy,
                reason = reasons,
                stays = before,
                "the policy was not loaded again: the one before stays"
            );
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let reload = Reload {
            at: at.unwrap_or_default().as_secs(),
            loaded,
            notes,
        };
        let mut last = self.reload.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(reload.clone());
        reload
    }

    fn apply_reloaded(&self, file: &Path, text: &str) -> Result<(), Vec<String>> {
        if let Some(seconds) = self.trial_left() {
            return Err(vec![format!(
                "a policy is on trial for {seconds} s: `ringway gate confirm` keeps it, and without it the earlier one comes back first"
            )]);
        }
        let apply = Apply {
            file,
            text,
            mode: None,
            confirm: None,
        };
        self.apply(&apply).map(drop)
    }

    /// What came of the latest order to load the policy again, if there was one.
    pub(super) fn last_reload(&self) -> Option<Reload> {
        let last = self.reload.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
