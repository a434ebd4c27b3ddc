//! `ringway inbox`: what others have offered, and the answers to it.

use indicatif::HumanBytes;
use ringway_node::control::{InboxItem, Reply, Request};
use ringway_terminal::{Failure, Table, visible};

use crate::cli::{InboxArgs, InboxCommand};
use crate::context::Context;
use crate::request;
use crate::transfers::{moment, short};

/// Schema of every item.
const SCHEMA: &str = "ringway.inbox/1";

/// Lists, or answers.
pub(crate) async fn run(context: &Context, args: InboxArgs) -> Result<(), Failure> {
    let (transfer, accept, reason) = match args.command {
        None => return list(context, &args).await,
        Some(InboxCommand::Accept(accept)) => (accept.id, true, None),
        Some(InboxCommand::Refuse(refuse)) => (refuse.id, false, refuse.reason),
    };
    let request = Request::Answer {
        transfer,
        accept,
        reason,
    };
    let item = request::only(request::ask(context, &request).await?, as_item).await?;
    context.output.either(SCHEMA, &item, || {
        let InboxItem {
            id,
            file,
            from,
            state,
            ..
        } = &item;
        let state = if accept { "accepted" } else { state.as_str() };
        format!("{} ({file} from {from}) is {state}", short(id))
    })
}

async fn list(context: &Context, args: &InboxArgs) -> Result<(), Failure> {
    let replies = request::ask(context, &Request::Inbox).await?.all().await?;
    let items = replies.into_iter().filter_map(as_item);
    let wanted = |item: &InboxItem| {
        let from = args.from.as_ref().is_none_or(|from| *from == item.from);
        from && (!args.asks || item.state == "asks")
    };
    let mut items: Vec<InboxItem> = items.filter(wanted).collect();
    if let Some(limit) = args.limit.and_then(|limit| usize::try_from(limit).ok()) {
        items.drain(..items.len().saturating_sub(limit));
    }
    if context.output.json() {
        let mut items = items.iter();
        return items.try_for_each(|item| context.output.object(SCHEMA, item));
    }
    if items.is_empty() {
        context.output.note("Nothing in the inbox.");
        return Ok(());
    }
    context.output.line(&table(&items).text())?;
    if let Some(asks) = items.iter().find(|item| item.state == "asks") {
        let id = short(&asks.id);
        context.output.note(&format!(
            "`ringway inbox accept {id}` has it come, `ringway inbox refuse {id}` refuses it."
        ));
    }
    Ok(())
}

fn as_item(reply: Reply) -> Option<InboxItem> {
    match reply {
        Reply::Inbox(item) => Some(*item),
        _ => None,
    }
}

fn table(items: &[InboxItem]) -> Table {
    let mut table = Table::new(&[
        "ID",
        "STATE",
        "OFFERED",
        "ENDED",
        "FROM",
        "FILE",
        "SIZE",
        "BLAKE3",
        "RULE",
        "HOOK",
        "PATH OR REASON",
    ]);
    let unknown = || "-".to_owned();
    for item in items {
        let path = item.path.as_ref().map(|path| path.display().to_string());
        let hook = item.hook.as_ref();
        let note = hook.and_then(|hook| hook.note.clone());
        let last = [path.or_else(|| item.reason.clone()), note];
        let last: Vec<String> = last.into_iter().flatten().collect();
        table.row(&[
            short(&item.id).to_owned(),
            item.state.clone(),
            moment(item.offered),
            item.ended.map_or_else(unknown, moment),
            item.from.clone(),
            item.file.clone(),
            HumanBytes(item.size).to_string(),
            item.blake3
                .as_deref()
                .map_or_else(unknown, |hash| short(hash).to_owned()),
            match item.rule {
                0 => unknown(),
                rule => rule.to_string(),
            },
            hook.map_or_else(unknown, |hook| hook.state.clone()),
            visible(&last.join("; ")).into_owned(),
        ]);
    }
    table
}
