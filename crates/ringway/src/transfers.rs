//! `ringway send`, `priority` and `cancel`; `transfers` is in `list`.

mod list;

use std::fs::File;
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ringway_node::control::{Client, Reply, Request, TransferStatus};

use crate::cli::{CancelArgs, PriorityArgs, SendArgs, shown};
use crate::context::Context;
use crate::msg;
use crate::progress::{Progress, rate};
use crate::request;
use crate::signals::Signals;
use crate::streams;
use ringway_terminal::Failure;
use ringway_terminal::visible;

pub(crate) use self::list::list;

/// Schema of every transfer object.
const SCHEMA: &str = "ringway.transfer/1";

/// Digits of an id that are shown to people; enough for every command that takes one.
const SHOWN_ID_DIGITS: usize = 8;

/// Sends a file and, unless detached, follows it to its end.
pub(crate) async fn send(context: &Context, args: &SendArgs) -> Result<(), Failure> {
    let (path, file) = readable_file(&args.file)?;
    // Caught before the request: from then on Ctrl-C has to explain that the transfer goes on.
    let signals = Signals::catch()?;
    let request = Request::Send {
        path,
        peer: args.peer.clone(),
        priority: args.priority.clone(),
        by: args.by,
    };
    let queued = request::send(context, &request, &file).await?;
    if args.detach {
        context
            .output
            .either(SCHEMA, &queued, || queued.id.clone())?;
        let id = short(&queued.id);
        context.output.note(&format!(
            "`ringway transfers` shows it, `ringway cancel {id}` ends it."
        ));
        return Ok(());
    }
    let watch = Request::Watch {
        transfer: queued.id.clone(),
    };
    let client = request::ask(context, &watch).await?;
    let last = follow(context, client, signals, queued).await?;
    if context.output.json() {
        context.output.object(SCHEMA, &last)?;
    }
    if last.state != "done" {
        let reason = last.reason.as_deref().unwrap_or("no reason given");
        return Err(Failure::failed(format_args!(
            "{} to {}: {}: {reason}",
            last.file, last.peer, last.state
        )));
    }
    if context.output.json() {
        Ok(())
    } else {
        context.output.line(&visible(&sent_line(&last)))
    }
}

/// Shows progress until the transfer ends or somebody stops looking at it.
async fn follow(
    context: &Context,
    mut client: Client,
    mut signals: Signals,
    mut last: TransferStatus,
) -> Result<TransferStatus, Failure> {
    let mut progress = Progress::new(context.output);
    loop {
        tokio::select! {
            next = request::next_transfer(&mut client) => match next {
                Ok(Some(transfer)) => {
                    progress.update(&transfer);
                    last = transfer;
                }
                Ok(None) => break,
                Err(failure) => {
                    progress.finish();
                    return Err(failure);
                }
            },
            reason = signals.next() => {
                progress.finish();
                let id = short(&last.id);
                return Err(Failure::failed(format_args!(
                    "{reason}; the daemon goes on with the transfer: `ringway transfers` shows it, `ringway cancel {id}` ends it"
                )));
            }
        }
    }
    progress.finish();
    Ok(last)
}

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

fn sent_line(transfer: &TransferStatus) -> String {
    let TransferStatus {
        file, peer, size, ..
    } = transfer;
    let hash = transfer.blake3.as_deref().unwrap_or("unknown");
    let resumed = match transfer.resumed_from {
        0 => String::new(),
        bytes => format!(", {} of it earlier", HumanBytes(bytes)),
    };
    let size = HumanBytes(*size);
    let done = match transfer.rate {
        Some(speed) => format!("{size} in {} ({})", time(transfer.active_s), rate(speed)),
        None => format!("{size}, there already"),
    };
    format!("sent {file} to {peer}: {done}{resumed}, BLAKE3 {hash}")
}

/// A time for people.
fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", (seconds * 1e3).max(1.0));
    }
    format!("{seconds:.1} s")
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
    fn short_times_are_not_rounded_to_nothing() {
        assert_eq!(time(0.000_2), "1 ms");
        assert_eq!(time(0.0204), "20 ms");
        assert_eq!(time(19.96), "20.0 s");
    }

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
