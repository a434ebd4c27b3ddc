//! `ringway send`.

mod content;
mod peers;

use std::path::PathBuf;

use indicatif::HumanBytes;
use ringway_node::control::{Client, Request, SendAll, SendPath, TransferStatus};
use ringway_terminal::{Failure, visible};

use self::content::Content;
use crate::cli::SendArgs;
use crate::context::Context;
use crate::limits::WATCH_INTERVAL;
use crate::progress::{Progress, rate};
use crate::request;
use crate::signals::Signals;
use crate::transfers::{SCHEMA, short};

/// Sends files and folders and, unless detached, follows them to their end.
pub(crate) async fn send(context: &Context, args: &SendArgs) -> Result<(), Failure> {
    let (paths, named) = split(args)?;
    let content = Content::open(&paths, args.name.as_deref())?;
    let peers = peers::resolve(context, &named).await?;
    // Caught before the request: from then on Ctrl-C has to explain that the transfer goes on.
    let signals = Signals::catch()?;
    let (queued, notes) = queue(context, args, content, peers).await?;
    for note in notes {
        context.output.note(&visible(&note));
    }
    if args.detach {
        return detach(context, &queued);
    }
    let last = match queued.as_slice() {
        [one] => {
            let watch = Request::Watch {
                transfer: one.id.clone(),
            };
            let client = request::ask(context, &watch).await?;
            vec![follow(context, client, signals, one.clone()).await?]
        }
        _ => follow_all(context, signals, queued).await?,
    };
    tell(context, &last)
}

/// What is sent, and to whom.
fn split(args: &SendArgs) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    if !args.to.is_empty() {
        return Ok((args.paths.clone(), args.to.clone()));
    }
    let Some((peer, paths)) = args
        .paths
        .split_last()
        .filter(|(_, paths)| !paths.is_empty())
    else {
        return Err(Failure::usage(
            "no member is named: `ringway send PATH... PEER`, or `--to PEER` for each of several",
        ));
    };
    let peer = peer.to_str().ok_or_else(|| {
        Failure::usage("the last argument is no member's name: name members with --to")
    })?;
    Ok((paths.to_vec(), vec![peer.to_owned()]))
}

/// Asks the daemon to send. Gives what it has recorded, and what has to be said before.
async fn queue(
    context: &Context,
    args: &SendArgs,
    mut content: Content,
    peers: Vec<String>,
) -> Result<(Vec<TransferStatus>, Vec<String>), Failure> {
    let socket = context.socket()?;
    // One file for one member has the form that every release knows.
    let plain = !content.is_stdin && args.name.is_none() && peers.len() == 1;
    let file = content.file.take_if(|_| plain);
    if let ([peer], Some(file)) = (peers.as_slice(), file) {
        let request = Request::Send {
            path: content.paths.swap_remove(0),
            peer: peer.clone(),
            priority: args.priority.clone(),
            by: args.by,
        };
        let queued = request::send(context, &request, &file).await?;
        return Ok((vec![queued], Vec::new()));
    }
    let home = context.member_home()?;
    let paths = content.paths.iter().cloned().map(SendPath).collect();
    let (handed, file, notes) = content.hand_over(&socket, &home)?;
    let request = Request::SendAll(Box::new(SendAll {
        paths,
        name: args.name.clone(),
        peers,
        priority: args.priority.clone(),
        by: args.by,
        direct: args.direct,
        handed,
    }));
    let client = Client::request_with(&socket, &request, file.as_ref()).await?;
    let queued = request::all_transfers(client).await?;
    Ok((queued, notes))
}

fn detach(context: &Context, queued: &[TransferStatus]) -> Result<(), Failure> {
    for transfer in queued {
        context
            .output
            .either(SCHEMA, transfer, || transfer.id.clone())?;
        let id = short(&transfer.id);
        context.output.note(&format!(
            "`ringway transfers` shows it, `ringway cancel {id}` ends it."
        ));
    }
    Ok(())
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
                return Err(goes_on(reason, &[last]));
            }
        }
    }
    progress.finish();
    Ok(last)
}

/// The same for several: the progress of them together.
async fn follow_all(
    context: &Context,
    mut signals: Signals,
    mut last: Vec<TransferStatus>,
) -> Result<Vec<TransferStatus>, Failure> {
    let mut progress = Progress::new(context.output);
    loop {
        let now = request::transfers(context).await;
        let now = now.inspect_err(|_| progress.finish())?;
        for transfer in &mut last {
            if let Some(now) = now.iter().find(|now| now.id == transfer.id) {
                transfer.clone_from(now);
            }
        }
        if last.iter().all(has_ended) {
            progress.finish();
            return Ok(last);
        }
        if let Some(together) = together(&last) {
            progress.update(&together);
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            reason = signals.next() => {
                progress.finish();
                return Err(goes_on(reason, &last));
            }
        }
    }
}

fn has_ended(transfer: &TransferStatus) -> bool {
    matches!(transfer.state.as_str(), "done" | "failed" | "cancelled")
}

/// Several transfers as if they were one.
fn together(all: &[TransferStatus]) -> Option<TransferStatus> {
    let mut sum = all
        .iter()
        .find(|one| !has_ended(one))
        .or(all.first())?
        .clone();
    let rates: Vec<f64> = all
        .iter()
        .filter(|one| !has_ended(one))
        .filter_map(|one| one.rate)
        .collect();
    sum.size = all.iter().map(|one| one.size).sum();
    sum.bytes = all.iter().map(|one| one.bytes).sum();
    sum.rate = (!rates.is_empty()).then(|| rates.iter().sum());
    sum.eta_s = all.iter().filter_map(|one| one.eta_s).reduce(f64::max);
    sum.peer = format!("{} members", all.len());
    Some(sum)
}

fn goes_on(reason: impl std::fmt::Display, transfers: &[TransferStatus]) -> Failure {
    let (what, id) = match transfers {
        [one] => ("the transfer", short(&one.id)),
        _ => ("the transfers", "ID"),
    };
    Failure::failed(format_args!(
        "{reason}; the daemon goes on with {what}: `ringway transfers` shows it, `ringway cancel {id}` ends it"
    ))
}

/// What has come of it.
fn tell(context: &Context, last: &[TransferStatus]) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for transfer in last {
        if context.output.json() {
            context.output.object(SCHEMA, transfer)?;
        } else if transfer.state == "done" {
            context.output.line(&visible(&sent_line(transfer)))?;
        }
        if transfer.state != "done" {
            let reason = transfer.reason.as_deref().unwrap_or("no reason given");
            let (file, peer, state) = (shown(&transfer.file), &transfer.peer, &transfer.state);
            failed.push(format!("{file} to {peer}: {state}: {reason}"));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(failed.join("; ")))
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
    let inside = match transfer.entries {
        Some(1) => " (1 entry)".to_owned(),
        Some(entries) => format!(" ({entries} entries)"),
        None => String::new(),
    };
    let notes: String = transfer
        .notes
        .iter()
        .map(|note| format!("; {}", shown(note)))
        .collect();
    let file = shown(file);
    format!("sent {file}{inside} to {peer}: {done}{resumed}, BLAKE3 {hash}{notes}")
}

/// A name on one line.
fn shown(name: &str) -> String {
    visible(name).replace('\n', "\\n").replace('\t', "\\t")
}

/// A time for people.
fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", (seconds * 1e3).max(1.0));
    }
    format!("{seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> SendArgs {
        use clap::Parser as _;
        let all = ["ringway", "send"].iter().chain(words);
        match crate::cli::Cli::parse_from(all).command {
            crate::cli::Command::Send(args) => args,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn last_argument_is_the_member() {
        let split = |words: &[&str]| split(&args(words)).ok();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let one = split(&["a", "b", "oslo"]).unwrap();
        assert_eq!(one, (paths(&["a", "b"]), vec!["oslo".to_owned()]));
        let several = split(&["a", "--to", "lab-*", "--to", "oslo"]).unwrap();
        let names = ["lab-*", "oslo"].map(str::to_owned).to_vec();
        assert_eq!(several, (paths(&["a"]), names));
        assert_eq!(split(&["a"]), None);
        assert!(split(&["-", "oslo", "--name", "x"]).is_some());
    }

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(shown("a\nb\tc\u{1b}[2J"), "a\\nb\\tc\\u{1b}[2J");
    }

    #[test]
    fn short_times_are_not_rounded_to_nothing() {
        assert_eq!(time(0.000_2), "1 ms");
        assert_eq!(time(0.0204), "20 ms");
        assert_eq!(time(19.96), "20.0 s");
    }
}
