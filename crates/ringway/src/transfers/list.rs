//! `ringway transfers`: the table, and following it.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};

use indicatif::HumanBytes;
use ringway_node::control::{Giver, LimitedBy, PathReport, TransferStatus};
use ringway_terminal::{Failure, Table};

use super::{SCHEMA, arrow, moment, short};
use crate::cli::{TransfersArgs, shown};
use crate::context::Context;
use crate::limits::{TERMINAL_SIZE, WATCH_INTERVAL};
use crate::progress::rate;
use crate::request;
use crate::signals::Signals;

/// Names of others that a note has room for.
const SHOWN_NAMES: usize = 2;

/// Lists transfers, once or again and again.
pub(crate) async fn list(context: &Context, args: &TransfersArgs) -> Result<(), Failure> {
    if args.watch {
        return watch(context, args).await;
    }
    let transfers = wanted(context, args).await?;
    if context.output.json() {
        return transfers
            .iter()
            .try_for_each(|transfer| context.output.object(SCHEMA, transfer));
    }
    if transfers.is_empty() {
        context
            .output
            .note("No such transfers: `ringway send PATH PEER` begins one.");
        return Ok(());
    }
    context.output.line(&table(&transfers).text())
}

/// Those that the options leave, oldest first.
async fn wanted(context: &Context, args: &TransfersArgs) -> Result<Vec<TransferStatus>, Failure> {
    let mut transfers = request::transfers(context).await?;
    transfers.retain(|transfer| is_wanted(transfer, args));
    if let Some(limit) = args.limit.and_then(|limit| usize::try_from(limit).ok()) {
        transfers.drain(..transfers.len().saturating_sub(limit));
    }
    Ok(transfers)
}

fn is_wanted(transfer: &TransferStatus, args: &TransfersArgs) -> bool {
    let sends = transfer.direction == "send";
    let with = |peer: &Option<String>, direction: bool| {
        let named = peer.as_deref();
        named.is_none_or(|peer| direction && peer == transfer.peer)
    };
    let latest = transfer.created.max(transfer.ended.unwrap_or(0));
    let states = &args.state;
    with(&args.to, sends)
        && with(&args.from, !sends)
        && (sends || !args.send)
        && (!sends || !args.receive)
        && (states.is_empty() || states.iter().any(|state| state.word() == transfer.state))
        && args.since.is_none_or(|since| latest >= since.as_secs())
}

/// Shows each transfer again whenever it has changed; on a terminal the whole table, in its place.
async fn watch(context: &Context, args: &TransfersArgs) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let mut shown: BTreeMap<String, TransferStatus> = BTreeMap::new();
    let live = io::stdout().is_terminal() && !context.output.json();
    let mut drawn = 0;
    loop {
        let transfers = wanted(context, args).await?;
        if live {
            drawn = draw(context, &transfers, drawn)?;
        } else {
            append(context, transfers, &mut shown)?;
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            _ = signals.next() => return Ok(()),
        }
    }
}

/// Writes those that have changed.
fn append(
    context: &Context,
    transfers: Vec<TransferStatus>,
    shown: &mut BTreeMap<String, TransferStatus>,
) -> Result<(), Failure> {
    let is_new = |transfer: &TransferStatus| shown.get(&transfer.id) != Some(transfer);
    let changed: Vec<TransferStatus> = transfers.into_iter().filter(is_new).collect();
    if context.output.json() {
        changed
            .iter()
            .try_for_each(|transfer| context.output.object(SCHEMA, transfer))?;
    } else if !changed.is_empty() {
        // Only the first table has a heading.
        let lines = table(&changed).lines();
        let lines = lines.get(usize::from(!shown.is_empty())..);
        context.output.line(&lines.unwrap_or_default().join("\n"))?;
    }
    let changed = changed.into_iter();
    shown.extend(changed.map(|transfer| (transfer.id.clone(), transfer)));
    Ok(())
}

/// Draws the table over the `drawn` lines of the one before. Gives how many lines it has now.
fn draw(context: &Context, transfers: &[TransferStatus], drawn: usize) -> Result<usize, Failure> {
    let lines = if transfers.is_empty() {
        vec!["No such transfers.".to_owned()]
    } else {
        table(transfers).lines()
    };
    let (columns, rows) = terminal_size();
    let lines = fitting(lines, columns, rows);
    // Up to where it begins, and nothing left below: ECMA-48 CUU and ED.
    let up = match drawn {
        0 => String::new(),
        drawn => format!("\u{1b}[{drawn}A\r\u{1b}[J"),
    };
    context.output.line(&format!("{up}{}", lines.join("\n")))?;
    Ok(lines.len())
}

/// Columns and rows.
fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let size = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(TERMINAL_SIZE, |size| {
        (size.ws_col.into(), size.ws_row.into())
    })
}

/// What has room: the heading and the latest, none of them longer than a row. A line that wraps, or
/// scrolls away, could not be drawn over.
fn fitting(mut lines: Vec<String>, columns: usize, rows: usize) -> Vec<String> {
    let room = rows.saturating_sub(1).max(2);
    if lines.len() > room {
        lines.drain(1..=lines.len() - room);
    }
    let cut = |line: String| match line.char_indices().nth(columns.saturating_sub(1)) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    };
    lines.into_iter().map(cut).collect()
}

fn table(transfers: &[TransferStatus]) -> Table {
    // Padded, so that the tables of `--watch` line up although each is laid out by itself.
    let mut table = Table::new(&[
        "ID      ",
        "STATE     ",
        "BEGAN              ",
        "ENDED              ",
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
        "PATH",
    ]);
    for transfer in transfers {
        let [rtt, queue, lost, window] = path(transfer.path_report.as_ref());
        table.row(&[
            short(&transfer.id).to_owned(),
            transfer.state.clone(),
            moment(transfer.created),
            transfer.ended.map_or_else(|| "-".to_owned(), moment),
            transfer.file.clone(),
            format!("{} {}", arrow(transfer), transfer.peer),
            percent(transfer.bytes, transfer.size),
            HumanBytes(transfer.size).to_string(),
            transfer.rate.map_or_else(|| "-".to_owned(), rate),
            transfer.priority.to_string(),
            rtt,
            queue,
            lost,
            window,
            match note(transfer).as_str() {
                "" => "-".to_owned(),
                note => note.to_owned(),
            },
            transfer.path.display().to_string(),
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

/// Why a transfer waits or has failed, or else why it is not faster, with whom it shares a queue,
/// and who gives it.
fn note(transfer: &TransferStatus) -> String {
    let why = transfer.reason.clone().or_else(|| limit(transfer));
    let givers = givers(&transfer.givers, &transfer.peer);
    let parts = [
        deadline(transfer),
        why,
        shared(&transfer.shares_with),
        givers,
    ];
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

/// How much has come from other receivers of the same file, and not from its sender.
fn givers(all: &[Giver], sender: &str) -> Option<String> {
    let sum = |given: &mut dyn Iterator<Item = &Giver>| {
        given.fold(0_u64, |sum, giver| sum.saturating_add(giver.bytes))
    };
    let others = || all.iter().filter(|giver| giver.peer != sender);
    match others().count() {
        0 => None,
        count => Some(format!(
            "{} from {count} other receiver{}",
            percent(sum(&mut others()), sum(&mut all.iter())),
            if count == 1 { "" } else { "s" }
        )),
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
    fn a_note_says_what_came_from_other_receivers() {
        let given = |peer: &str, bytes| Giver {
            peer: peer.to_owned(),
            bytes,
        };
        let all = [given("lima", 30), given("oslo", 10), given("quito", 60)];
        assert_eq!(givers(&all, "oslo").unwrap(), "90 % from 2 other receivers");
        assert_eq!(
            givers(&all[..2], "lima").unwrap(),
            "25 % from 1 other receiver"
        );
        assert_eq!(givers(&all[1..2], "oslo"), None);
    }

    #[test]
    fn an_empty_file_is_done_from_the_start() {
        assert_eq!(percent(0, 0), "100 %");
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100 %");
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

    #[test]
    fn live_table_has_room_on_its_terminal() {
        let lines = || ["ID", "1", "2", "3é4567"].map(str::to_owned).to_vec();
        assert_eq!(fitting(lines(), 80, 24), lines());
        assert_eq!(fitting(lines(), 4, 3), ["ID", "3é4…"]);
        assert_eq!(fitting(vec![], 80, 24), [""; 0]);
    }
}
