//! `ringway msg`: messages to members, and from them.

mod lines;

use std::io::{self, Read as _, Write as _};

use data_encoding::BASE64;
use ringway_node::control::{AskedPriority, Client, MessageStatus, Reply, Request};
use ringway_node::date_of;
use ringway_node::limits::MESSAGE_BYTES;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cli::MsgArgs;
use crate::context::Context;
use crate::limits::FOLLOWED_MESSAGES;
use crate::request::{self, ask};
use crate::signals::Signals;
use crate::transfers::readable_file;
use ringway_terminal::{Failure, Table, visible};

/// Schema of every message object.
const SCHEMA: &str = "ringway.message/1";

/// Digits of an id that are shown to people.
const SHOWN_ID_DIGITS: usize = 8;

/// Characters of a message that a list has room for.
const SHOWN_TEXT: usize = 60;

/// A message as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    direction: &'a str,
    peer: &'a str,
    number: u64,
    state: &'a str,
    created: u64,
    signed: Option<u64>,
    read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    attach: &'a [String],
    priority: f64,
    reason: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn of(message: &'a MessageStatus) -> Shown<'a> {
        let text = std::str::from_utf8(&message.body).ok();
        Shown {
            id: &message.id,
            direction: &message.direction,
            peer: &message.peer,
            number: message.number,
            state: &message.state,
            created: message.created,
            signed: message.signed,
            read: message.read,
            body: text,
            body_base64: text.is_none().then(|| BASE64.encode(&message.body)),
            attach: &message.attach,
            priority: message.priority,
            reason: message.reason.as_deref(),
        }
    }
}

/// What is shown to people of a body.
fn text(message: &MessageStatus) -> String {
    match std::str::from_utf8(&message.body) {
        Ok(text) => text.trim_end_matches('\n').to_owned(),
        Err(_) => format!(
            "({} bytes that are no text: --json has them)",
            message.body.len()
        ),
    }
}

fn short(id: &str) -> &str {
    id.get(..SHOWN_ID_DIGITS).unwrap_or(id)
}

/// Prints a message that was sent, or whose priority was changed.
pub(crate) fn show(context: &Context, message: &MessageStatus) -> Result<(), Failure> {
    context.output.either(SCHEMA, &Shown::of(message), || {
        format!(
            "message {} to {}: {}",
            short(&message.id),
            message.peer,
            message.state
        )
    })
}

pub(crate) async fn run(context: &Context, args: MsgArgs) -> Result<(), Failure> {
    if args.follow {
        return follow(context, args).await;
    }
    if args.list {
        return list(context, args).await;
    }
    send(context, args).await
}

async fn send(context: &Context, args: MsgArgs) -> Result<(), Failure> {
    let (mut to, mut said) = (args.to, args.text);
    match (args.peer, to.is_empty(), said.is_none()) {
        (Some(peer), false, true) => said = Some(peer),
        (Some(peer), ..) => to.insert(0, peer),
        (None, true, _) => {
            return Err(Failure::usage(
                "name the member that the message is for, as in `ringway msg oslo \"text\"`; `--follow` shows what comes",
            ));
        }
        (None, false, _) => {}
    }
    if args.lines {
        if said.is_some() {
            return Err(Failure::usage(
                "with --lines the texts are the lines of standard input: leave the text out",
            ));
        }
        let peers = receivers(context, to).await?;
        return lines::send(context, peers, &args.priority).await;
    }
    let body = match said.as_deref() {
        None | Some("-") => standard_input()?,
        Some(text) => text.as_bytes().to_vec(),
    };
    if body.is_empty() && args.attach.is_empty() {
        return Err(Failure::usage("the message is empty: say something"));
    }
    if body.len() > MESSAGE_BYTES {
        return Err(Failure::usage(format_args!(
            "the message is longer than {MESSAGE_BYTES} bytes: send it as a file, by `ringway send`"
        )));
    }
    let files = args.attach.iter().map(|file| readable_file(file));
    let files: Vec<_> = files.collect::<Result<_, _>>()?;
    let peers = receivers(context, to).await?;
    if files.is_empty() {
        return send_to(context, peers, body, args.priority.clone(), Vec::new()).await;
    }
    for peer in peers {
        let mut attach = Vec::new();
        for (path, file) in &files {
            let request = Request::Send {
                path: path.clone(),
                peer: peer.clone(),
                priority: args.priority.clone(),
                by: None,
            };
            attach.push(request::send(context, &request, file).await?.id);
        }
        let priority = args.priority.clone();
        send_to(context, vec![peer], body.clone(), priority, attach).await?;
    }
    Ok(())
}

async fn send_to(
    context: &Context,
    peers: Vec<String>,
    body: Vec<u8>,
    priority: AskedPriority,
    attach: Vec<String>,
) -> Result<(), Failure> {
    let request = Request::Message {
        peers,
        body,
        priority,
        attach,
    };
    let mut client = ask(context, &request).await?;
    while let Some(message) = next(&mut client).await? {
        show(context, &message)?;
    }
    Ok(())
}

/// Names, with each pattern replaced by the members that fit it.
async fn receivers(context: &Context, to: Vec<String>) -> Result<Vec<String>, Failure> {
    let is_pattern = |name: &String| name.contains(['*', '?']);
    if !to.iter().any(is_pattern) {
        return Ok(to);
    }
    let members = request::members(context).await?;
    let mut receivers = Vec::new();
    for name in to {
        if !is_pattern(&name) {
            receivers.push(name);
            continue;
        }
        let fitting = members.iter().filter(|member| !member.this);
        let fitting = fitting.filter(|member| fits(&name, &member.name));
        let before = receivers.len();
        receivers.extend(fitting.map(|member| member.name.clone()));
        if receivers.len() == before {
            return Err(Failure::usage(format_args!(
                "no other member's name fits `{name}`: `ringway members` lists those that are known here"
            )));
        }
    }
    receivers.sort();
    receivers.dedup();
    Ok(receivers)
}

/// Whether a name fits a pattern in which `*` is any text and `?` any character.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // Which beginnings of the name fit the pattern so far.
    let mut fitting: Vec<bool> = (0..=name.len()).map(|length| length == 0).collect();
    for wanted in pattern {
        let mut next = vec![false; fitting.len()];
        for length in 0..fitting.len() {
            let one_less = length.checked_sub(1);
            next[length] = match wanted {
                '*' => fitting[length] || one_less.is_some_and(|less| next[less]),
                '?' => one_less.is_some_and(|less| fitting[less]),
                wanted => one_less.is_some_and(|less| fitting[less] && name[less] == wanted),
            };
        }
        fitting = next;
    }
    fitting.last() == Some(&true)
}

/// What there is to say, up to a byte more than may be.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let most = u64::try_from(MESSAGE_BYTES + 1).unwrap_or(u64::MAX);
    io::stdin().take(most).read_to_end(&mut body)?;
    Ok(body)
}

async fn next(client: &mut Client) -> Result<Option<MessageStatus>, Failure> {
    match client.next().await? {
        None => Ok(None),
        Some(Reply::Message(message)) => Ok(Some(*message)),
        Some(_) => Err(request::odd()),
    }
}

async fn list(context: &Context, args: MsgArgs) -> Result<(), Failure> {
    let request = Request::Messages {
        peer: args.peer,
        follow: false,
        after: args.after,
    };
    let mut client = ask(context, &request).await?;
    let mut messages = Vec::new();
    while let Some(message) = next(&mut client).await? {
        messages.push(message);
    }
    if context.output.json() {
        let mut all = messages.iter();
        return all.try_for_each(|message| context.output.object(SCHEMA, &Shown::of(message)));
    }
    if messages.is_empty() {
        context
            .output
            .note("No messages: `ringway msg PEER TEXT` sends one.");
        return Ok(());
    }
    let mut table = Table::new(&["ID", "WRITTEN", "PEER", "STATE", "TEXT", "NOTE"]);
    for message in &messages {
        let arrow = if message.direction == "send" {
            "to"
        } else {
            "from"
        };
        let text: String = text(message).chars().take(SHOWN_TEXT).collect();
        table.row(&[
            short(&message.id).to_owned(),
            date_of(message.created),
            format!("{arrow} {}", message.peer),
            message.state.clone(),
            text.replace('\n', " "),
            message.reason.clone().unwrap_or_default(),
        ]);
    }
    context.output.line(&table.text())
}

/// Shows what comes. What is written out is marked as read.
async fn follow(context: &Context, args: MsgArgs) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let request = Request::Messages {
        peer: args.peer,
        follow: true,
        after: None,
    };
    let mut client = ask(context, &request).await?;
    let (messages, mut coming) = mpsc::channel(FOLLOWED_MESSAGES);
    // A task of its own: a line that has come in part must not be dropped.
    let reading = tokio::spawn(async move {
        while let Some(message) = next(&mut client).await? {
            if messages.send(message).await.is_err() {
                break;
            }
        }
        Ok::<(), Failure>(())
    });
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let first = tokio::select! {
            first = coming.recv() => first,
            _ = signals.next() => return Ok(()),
        };
        let Some(first) = first else {
            return reading.await.map_err(Failure::failed)?;
        };
        let mut written = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next.take() {
            write(context, &message)?;
            mark(&mut written, message);
            left -= 1;
            next = coming.try_recv().ok().filter(|_| left > 0);
        }
        io::stdout().flush()?;
        for (peer, upto) in written {
            let request = Request::MarkRead { peer, upto };
            ask(context, &request).await?.all().await?;
        }
    }
    Ok(())
}

/// Notes the last message of each peer.
fn mark(written: &mut Vec<(String, String)>, message: MessageStatus) {
    let MessageStatus { peer, id, .. } = message;
    match written.iter_mut().find(|(known, _)| *known == peer) {
        Some((_, last)) => *last = id,
        None => written.push((peer, id)),
    }
}

fn write(context: &Context, message: &MessageStatus) -> Result<(), Failure> {
    if context.output.json() {
        return context.output.object(SCHEMA, &Shown::of(message));
    }
    // Indented, so that a message cannot look like another's.
    let text = text(message).replace('\n', "\n    ");
    let mut line = format!("{} {}: {text}", date_of(message.created), message.peer);
    for transfer in &message.attach {
        line.push_str(&format!(" [transfer {}]", short(transfer)));
    }
    context.output.line(&visible(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("lab-*", "lab-1", true),
            ("lab-*", "lab-", true),
            ("lab-?", "lab-", false),
            ("*", "oslo", true),
            ("*o", "oslo", true),
            ("o*l*", "oslo", true),
            ("o?o", "oslo", false),
            ("oslo", "oslo2", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        // No pattern takes long.
        assert!(!fits(&"*a".repeat(500), &"b".repeat(63)));
    }
}
