//! Whose fault the errors of the crates below are: a user's mistake, or failed work.

use ringway_node::authority::{AuthorityError, BackupError, PublishError, ServerError};
use ringway_node::control::ClientError;
use ringway_node::daemon::DaemonError;
use ringway_node::enrol::{JoinError, RotateError};
use ringway_node::leave::LeaveError;

use crate::Failure;

/// Errors that know by themselves whether the user made a mistake.
macro_rules! blame {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::blame(error.is_usage(), error)
            }
        })+
    };
}

blame!(
    JoinError,
    DaemonError,
    PublishError,
    AuthorityError,
    BackupError,
    LeaveError,
    RotateError
);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Failure {
        Failure::failed(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let usage = matches!(&error, ClientError::Refused(refused) if refused.usage);
        Failure::blame(usage, error)
    }
}
