//! `ringway gate preset`, and the option of `gate up` of this name.

use clap::{Args, ValueEnum};
use ringway_gateway::policy::Preset;

/// `ringway gate preset`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate preset
  ringway gate preset vpn
  ringway gate preset vpn > vpn.toml && ringway gate check vpn.toml

`ringway gate up --preset NAME` works by it as it stands; a file that was made of it is for --policy.")]
pub(crate) struct PresetArgs {
    /// Which one; without it all are listed
    #[arg(value_name = "PRESET", value_enum)]
    pub(crate) preset: Option<PresetChoice>,
}

/// A policy that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PresetChoice {
    /// A VPN server
    Vpn,
    /// A home router
    Home,
    /// An office
    Office,
}

impl PresetChoice {
    /// The policy.
    pub(crate) fn preset(self) -> Preset {
        match self {
            PresetChoice::Vpn => Preset::Vpn,
            PresetChoice::Home => Preset::Home,
            PresetChoice::Office => Preset::Office,
        }
    }
}
