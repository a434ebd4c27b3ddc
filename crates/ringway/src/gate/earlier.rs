//! The folder in which earlier builds kept the audit: a member's service has the one above it.

use std::io;
use std::path::Path;

use ringway_gateway::limits::AUDIT_FILE;

use crate::cli::STATE;

/// Where builds before the packages kept it by default.
const EARLIER: &str = "/var/lib/ringway/gate";

/// Moves the audit of an earlier build to the folder that is the default now, if that is the one
/// in use and has none. Call it before privileges are given up.
pub(crate) fn move_state(folder: &Path) {
    if folder != Path::new(STATE) {
        return;
    }
    match moved(Path::new(EARLIER), folder) {
        Ok(false) => {}
        Ok(true) => {
            tracing::warn!("the audit of an earlier build was moved from {EARLIER} to {STATE}")
        }
        Err(error) => tracing::warn!(
            %error,
            "the audit of an earlier build stays in {EARLIER}, and a new one begins in {STATE}; to keep the earlier one: `rm -r {STATE}; mv {EARLIER} {STATE}` while no gateway runs"
        ),
    }
}

/// True if there was something to move. An empty folder in its place gives way.
fn moved(from: &Path, to: &Path) -> io::Result<bool> {
    if !from.join(AUDIT_FILE).exists() || to.join(AUDIT_FILE).exists() {
        return Ok(false);
    }
    std::fs::rename(from, to).map(|()| true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn earlier_audit_moves_once() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (
            folder.path().join("gate"),
            folder.path().join("ringway-gate"),
        );
        assert!(!moved(&from, &to).unwrap());
        fs::create_dir(&from).unwrap();
        fs::write(from.join(AUDIT_FILE), "earlier").unwrap();
        // systemd has made the new one already.
        fs::create_dir(&to).unwrap();
        assert!(moved(&from, &to).unwrap() && !from.exists());
        assert_eq!(fs::read_to_string(to.join(AUDIT_FILE)).unwrap(), "earlier");
        // One that is in use is never replaced.
        fs::create_dir(&from).unwrap();
        fs::write(from.join(AUDIT_FILE), "restored").unwrap();
        assert!(!moved(&from, &to).unwrap() && from.exists());
    }
}
