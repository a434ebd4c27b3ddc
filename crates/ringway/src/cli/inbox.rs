//! Arguments of `ringway inbox`.

use clap::{Args, Subcommand};

/// `ringway inbox`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  ringway inbox
  ringway inbox --asks
  ringway inbox accept 4f1c
  ringway inbox refuse 4f1c --reason 'send it to lima'
  ringway inbox --json

STATE is `asks` for what waits for your answer, because a rule of `[[receive]]` has `ask = true`;
`coming`, `received`, `failed`; `refused`, by a rule or by you; `later` for what was refused for now
and comes again. Offers that no record was made of are forgotten with the daemon's end.
RULE is the number of the rule in ringway.toml. HOOK is how the program of the rule (`run`) ended.")]
pub(crate) struct InboxArgs {
    /// What to do; without it, list
    #[command(subcommand)]
    pub(crate) command: Option<InboxCommand>,
    /// Only what waits for an answer
    #[arg(long)]
    pub(crate) asks: bool,
    /// Only what comes from this member
    #[arg(long, value_name = "PEER")]
    pub(crate) from: Option<String>,
    /// Only the latest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// An answer.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Have it come
    #[command(after_help = "Examples:\n  ringway inbox accept 4f1c")]
    Accept(AcceptArgs),
    /// Refuse it; its sender is told
    #[command(after_help = "Examples:\n  ringway inbox refuse 4f1c --reason 'too large'")]
    Refuse(RefuseArgs),
}

/// `ringway inbox accept`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AcceptArgs {
    /// Its id, or an unambiguous beginning of it
    pub(crate) id: String,
}

/// `ringway inbox refuse`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RefuseArgs {
    /// Its id, or an unambiguous beginning of it
    pub(crate) id: String,
    /// What its sender is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
