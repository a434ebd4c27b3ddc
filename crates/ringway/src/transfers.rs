//! `ringway send`, `transfers`, `priority` and `cancel`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use ringway_node::control::{Client, LimitedBy, PathReport, Request, TransferStatus};

use crate::cli::{CancelArgs, PriorityArgs, SendArgs, TransfersArgs, shown};
use crate::context::Context;
use crate::limits::WATCH_INTERVAL;
use crate::progress::{Progress, rate};
use crate::request;
use crate::signals::Signals;
use ringway_terminal::Failure;
use ringway_terminal::{Table, visible};

/// Schema of every transfer object.
const SCHEMA: &str = "ringway.transfer/1";

/// Digits of an id that are shown to people; enough for every command that takes one.
const SHOWN_ID_DIGITS: usize = 8;

/// Names of others that a note has room for.
const SHOWN_NAMES: usize = 2;

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
fn readable_file(file: &Path) -> Result<(PathBuf, File), Failure> {
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

/// Lists all transfers, once or again and again.
pub(crate) async fn list(context: &Context, args: &TransfersArgs) -> Result<(), Failure> {
    let transfers = request::transfers(context).await?;
    if args.watch {
        return watch(context, transfers).await;
    }
    if context.output.json() {
        return transfers
            .iter()
            .try_for_each(|transfer| context.output.object(SCHEMA, transfer));
    }
    if transfers.is_empty() {
        context
            .output
            .note("No transfers: `ringway send FILE PEER` begins one.");
        return Ok(());
    }
    context.output.line(&table(&transfers).text())
}

/// Shows each transfer again whenever it has changed.
async fn watch(context: &Context, mut transfers: Vec<TransferStatus>) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let mut shown: BTreeMap<String, TransferStatus> = BTreeMap::new();
    loop {
        let is_new = |transfer: &&TransferStatus| shown.get(&transfer.id) != Some(*transfer);
        let changed: Vec<TransferStatus> = transfers.iter().filter(is_new).cloned().collect();
        if context.output.json() {
            changed
                .iter()
                .try_for_each(|transfer| context.output.object(SCHEMA, transfer))?;
        } else if !changed.is_empty() {
            // Only the first table has a heading.
            context.output.line(
                &table(&changed)
                    .lines()
                    .split_off(usize::from(!shown.is_empty()))
                    .join("\n"),
            )?;
        }
        shown.extend(
            changed
                .into_iter()
                .map(|transfer| (transfer.id.clone(), transfer)),
        );
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            _ = signals.next() => return Ok(()),
        }
        transfers = request::transfers(context).await?;
    }
}

fn table(transfers: &[TransferStatus]) -> Table {
    // Padded, so that the tables of `--watch` line up although each is laid out by itself.
    let mut table = Table::new(&[
        "ID      ",
        "STATE     ",
        "FILE",
        "PEER",
        "DONE",
        "SIZE",
        "RATE",
        "PRIORITY",
        "RTT",
        "QUEUE",
        "LOST",
        "WINDOW",
        "NOTE",
    ]);
    for transfer in transfers {
        let arrow = if transfer.direction == "send" {
            "→"
        } else {
            "←"
        };
        let [rtt, queue, lost, window] = path(transfer.path_report.as_ref());
        table.row(&[
            short(&transfer.id).to_owned(),
            transfer.state.clone(),
            transfer.file.clone(),
            format!("{arrow} {}", transfer.peer),
            percent(transfer.bytes, transfer.size),
            HumanBytes(transfer.size).to_string(),
            transfer.rate.map_or_else(|| "-".to_owned(), rate),
            transfer.priority.to_string(),
            rtt,
            queue,
            lost,
            window,
            note(transfer),
        ]);
    }
    table
}

/// Round trip, queueing delay with that of the way back where it is known, packets lost, and window
/// of what is being sent.
fn path(report: Option<&PathReport>) -> [String; 4] {
    let Some(report) = report else {
        return [(); 4].map(|()| "-".to_owned());
    };
    let ms = |ms: f64| format!("{ms:.1}");
    let back = report.way_back_ms.map(|back| format!("+{}", ms(back)));
    let lost = report.packets_lost as f64 / report.packets_sent.max(1) as f64;
    [
        format!("{} ms", ms(report.rtt_ms)),
        format!("{}{} ms", ms(report.queueing_ms), back.unwrap_or_default()),
        format!("{:.1} %", lost * 100.0),
        HumanBytes(report.window).to_string(),
    ]
}

/// Why a transfer waits or has failed, or else why it is not faster, and with whom it shares a
/// queue.
fn note(transfer: &TransferStatus) -> String {
    let why = transfer.reason.clone().or_else(|| limit(transfer));
    let parts = [deadline(transfer), why, shared(&transfer.shares_with)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// By when it has to have arrived, and whether it does.
fn deadline(transfer: &TransferStatus) -> Option<String> {
    let by = shown(transfer.deadline?);
    let expected = transfer.expected.map(shown);
    let what = match (transfer.state.as_str(), expected) {
        ("done", Some(at)) => format!(", arrived {at}"),
        (_, Some(at)) => format!(", expected {at}"),
        (_, None) => String::new(),
    };
    let late = match transfer.in_time {
        Some(false) => ", late",
        _ => "",
    };
    Some(format!("by {by}{what}{late}"))
}

/// None if no other transfer is known to wait in the same queue.
fn shared(with: &[String]) -> Option<String> {
    let (named, more) = with.split_at(with.len().min(SHOWN_NAMES));
    let named = named.join(", ");
    match more.len() {
        0 if named.is_empty() => None,
        0 => Some(format!("queue shared with {named}")),
        more => Some(format!("queue shared with {named} and {more} more")),
    }
}

/// What keeps it from being faster, with the interface where the limit is that of one.
fn limit(transfer: &TransferStatus) -> Option<String> {
    let words = in_words(transfer.limited_by?);
    Some(match transfer.capped_by.as_deref() {
        Some(interface) if interface != "all" => {
            words.replacen("upload limit", &format!("upload limit of {interface}"), 1)
        }
        _ => words.to_owned(),
    })
}

/// What keeps a transfer from being faster, for people; `transfers --help` explains it.
fn in_words(limited_by: LimitedBy) -> &'static str {
    match limited_by {
        LimitedBy::Capped => "upload limit",
        LimitedBy::BehindOthers => "upload limit: others come first",
        LimitedBy::Yielding => "gives way to other traffic",
        LimitedBy::Path => "takes all that is free",
        LimitedBy::Loss => "the network is full",
        LimitedBy::SlowStart | LimitedBy::Growth => "trying to go faster",
        LimitedBy::Receiver => "the receiver takes no more",
        LimitedBy::FlowControl => "as fast as one file may",
        LimitedBy::Unanswered => "the receiver does not answer",
        LimitedBy::Application => "slower than the network",
        // A later daemon has a reason that this program does not know.
        _ => "unknown",
    }
}

fn percent(bytes: u64, size: u64) -> String {
    let share = (u128::from(bytes) * 100)
        .checked_div(u128::from(size))
        .unwrap_or(100);
    format!("{share} %")
}

fn short(id: &str) -> &str {
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
    let transfer = request::transfer(context, &request).await?;
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
            "{} ({} → {}) is {}",
            short(&transfer.id),
            transfer.file,
            transfer.peer,
            transfer.state
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `transfers --help` says of the notes: the note that people see, and the words of
    /// `limited_by` for it.
    fn explained() -> Vec<(String, Vec<String>)> {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let help = command.find_subcommand("transfers").unwrap();
        let help = help.get_after_help().unwrap().to_string();
        let lines = help.lines();
        let notes = lines.skip_while(|line| !line.starts_with("what keeps it from being faster"));
        let mut whole: Vec<String> = Vec::new();
        for line in notes.skip(1) {
            // What is indented further goes on with the line before it.
            match line.strip_prefix("   ") {
                Some(rest) => *whole.last_mut().unwrap() += &format!(" {}", rest.trim_start()),
                None => whole.push(line.to_owned()),
            }
        }
        let note = |line: String| {
            let (note, meaning) = line.trim_start().split_once("  ").unwrap();
            let (_, words) = meaning.split_once('(').unwrap();
            let (words, _) = words.split_once(')').unwrap();
            let words = words.split(", ").map(str::to_owned).collect();
            (note.to_owned(), words)
        };
        whole.into_iter().map(note).collect()
    }

    #[test]
    fn the_help_explains_every_word_of_the_node() {
        let explained = explained();
        let words = explained.iter().flat_map(|(_, words)| words);
        let mut words: Vec<_> = words.map(String::as_str).collect();
        let mut given = LimitedBy::ALL.map(LimitedBy::word);
        words.sort_unstable();
        given.sort_unstable();
        assert_eq!(words, given);
        for (note, words) in &explained {
            for word in words {
                let reason = LimitedBy::ALL.into_iter().find(|one| one.word() == word);
                assert_eq!(reason.map(in_words), Some(note.as_str()), "{word}");
            }
        }
    }

    #[test]
    fn a_note_names_few_sharers_of_a_queue() {
        let names = ["lima", "oslo", "paris", "quito"].map(str::to_owned);
        assert_eq!(shared(&[]), None);
        assert_eq!(shared(&names[..1]).unwrap(), "queue shared with lima");
        assert_eq!(shared(&names[..2]).unwrap(), "queue shared with lima, oslo");
        assert_eq!(
            shared(&names).unwrap(),
            "queue shared with lima, oslo and 2 more"
        );
    }

    #[test]
    fn an_empty_file_is_done_from_the_start() {
        assert_eq!(percent(0, 0), "100 %");
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100 %");
    }

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

    #[test]
    fn only_known_facts_of_the_path_are_shown() {
        let report = PathReport {
            address: "quic://192.0.2.1:7".to_owned(),
            rtt_ms: 120.04,
            queueing_ms: 2.5,
            way_back_ms: Some(98.0),
            window: 48 * 1024,
            packets_sent: 1000,
            packets_lost: 3,
        };
        let wanted = ["120.0 ms", "2.5+98.0 ms", "0.3 %", "48.00 KiB"];
        assert_eq!(path(Some(&report)), wanted);
        let without = PathReport {
            way_back_ms: None,
            packets_sent: 0,
            packets_lost: 0,
            ..report
        };
        assert_eq!(
            path(Some(&without)),
            ["120.0 ms", "2.5 ms", "0.0 %", "48.00 KiB"]
        );
        assert_eq!(path(None), ["-", "-", "-", "-"]);
    }
}
