//! `ringway gate quotas`.

use clap::Args;

use super::ControlArgs;

/// `ringway gate quotas`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate quotas
  ringway gate quotas --over
  ringway gate quotas --json | jq -r 'select(.used > .quota / 2) | .of'

The fullest come first. NOW is what happens to the flows of the rule: as it says below its quota, else its class above the
quota, or `block`. Times are of this machine's zone; periods begin by that of `gate up --zone`.")]
pub(crate) struct QuotasArgs {
    /// Only those of this rule
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,

    /// Only this host or member
    #[arg(long, value_name = "NAME")]
    pub(crate) of: Option<String>,

    /// Only those whose quota is used up
    #[arg(long)]
    pub(crate) over: bool,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
