//! Whether this member's own certificate still counts.

use super::DaemonError;
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::statement::Statement;

/// Whether the certificate is valid now.
pub(super) fn check_time(own: &Certificate) -> Result<(), DaemonError> {
    if has_run_out(own) {
        Err(DaemonError::RunOut(own.name().clone()))
    } else {
        Ok(own.check_time(unix_seconds())?)
    }
}

pub(super) fn has_run_out(own: &Certificate) -> bool {
    own.not_after() <= unix_seconds()
}

/// True if the owner has revoked the certificate. One that was replaced has a way on: see `key`.
pub(super) fn is_over(statement: &Statement, own: &Certificate) -> bool {
    statement.revokes(own.serial()) && statement.heir(own.serial()).is_none()
}
