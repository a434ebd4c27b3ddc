//! `ringway ring move`: another address for a router.

use super::{in_words, open, publish};
use crate::cli::MoveArgs;
use crate::context::Context;
use ringway_terminal::Failure;

/// Asks the router.
pub(super) async fn run(context: &Context, args: MoveArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir)?;
    let member = authority.ask_move(&args.name, args.address, args.within)?;
    let name = &member.name;
    let what = match (member.moves_to, member.address) {
        (Some(to), _) => format!("{name} is asked to go on at {to}"),
        (None, Some(stays)) => format!("{name} stays at {stays}"),
        (None, None) => format!("{name} stays where it is"),
    };
    context
        .output
        .either("ringway.member/1", &member, || what.clone())?;
    if member.moves_to.is_some() {
        context.output.note(&format!(
            "It has {} for it, and does it by itself once it runs and reaches `ringway ring serve`; `ringway ring members` shows when it has.",
            in_words(args.within)
        ));
    }
    publish::after_change(context, &authority, &what, "what was before").await
}
