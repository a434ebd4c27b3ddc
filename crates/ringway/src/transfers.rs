//! `ringway priority` and `cancel`; `transfers` is in `list`.

mod list;

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ringway_node::control::{Reply, Request, TransferStatus};

use crate::cli::{CancelArgs, PriorityArgs, shown};
use crate::context::Context;
use crate::msg;
use crate::request;
use crate::streams;
use ringway_terminal::Failure;

pub(crate) use self::list::list;

/// Schema of every transfer object.
pub(crate) const SCHEMA: &str = "ringway.transfer/1";

/// Digits of an id that are shown to people; enough for every command that takes one.
const SHOWN_ID_DIGITS: usize = 8;

/// The absolute path of a file that this user can read, and the file.
pub(crate) fn readable_file(file: &Path) -> Result<(PathBuf, File), Failure> {
    let wrong = |reason: &dyn std::fmt::Display| {
        Failure::usage(format_args!(
            "`{}` cannot be sent: {reason}",
            file.display()
        ))
    };
    let metadata = std::fs::metadata(file).map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(
            &"it is not a regular file (pack a folder first, for example with tar)",
        ));
    }
    let opened = File::open(file).map_err(|error| wrong(&error))?;
    let path = std::fs::canonicalize(file).map_err(|error| wrong(&error))?;
    Ok((path, opened))
}

/// Which way it goes, seen from here.
fn arrow(transfer: &TransferStatus) -> &'static str {
    if transfer.direction == "send" {
        "→"
    } else {
        "←"
    }
}

/// A time of this machine's zone; the seconds are those since 1970.
pub(crate) fn moment(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let timestamp = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    timestamp.map_or_else(
        || "-".to_owned(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}

/// An id as people see it.
pub(crate) fn short(id: &str) -> &str {
    id.get(..SHOWN_ID_DIGITS).unwrap_or(id)
}

/// Changes a priority.
pub(crate) async fn priority(context: &Context, args: PriorityArgs) -> Result<(), Failure> {
    let transfer = args.id;
    let request = match (args.priority, args.by) {
        (Some(priority), _) => Request::Priority { transfer, priority },
        (None, by) => {
            let by = by.unwrap_or_default();
            Request::Deadline { transfer, by }
        }
    };
    let reply = request::only(request::ask(context, &request).await?, Some).await?;
    let transfer = match reply {
        Reply::Transfer(transfer) => transfer,
        Reply::Message(message) => return msg::show(context, &message),
        Reply::Stream(stream) => return streams::show(context, &stream),
        _ => return Err(request::odd()),
    };
    context.output.either(SCHEMA, &transfer, || {
        let deadline = match transfer.deadline.map(shown) {
            Some(by) if transfer.steered => format!(", and what it needs to arrive by {by}"),
            Some(by) => format!("; its deadline, {by}, no longer changes that"),
            None => String::new(),
        };
        format!(
            "{} ({} → {}) has priority {}{deadline}",
            short(&transfer.id),
            transfer.file,
            transfer.peer,
            transfer.priority
        )
    })
}

/// Gives a transfer up.
pub(crate) async fn cancel(context: &Context, args: CancelArgs) -> Result<(), Failure> {
    let transfer = request::transfer(context, &Request::Cancel { transfer: args.id }).await?;
    context.output.either(SCHEMA, &transfer, || {
        format!(
            "{} ({} {} {}) is {}",
            short(&transfer.id),
            transfer.file,
            arrow(&transfer),
            transfer.peer,
            transfer.state
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_can_be_sent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            readable_file(folder.path()),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(
            readable_file(&folder.path().join("absent")),
            Err(Failure::Usage(_))
        ));
    }
}
