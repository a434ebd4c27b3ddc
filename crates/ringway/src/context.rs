//! What every command gets: how to show results, and the options given.

use std::path::PathBuf;

use ringway_terminal::{Failure, Output};

use crate::cli::Global;

/// What every command gets.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// How to show results.
    pub(crate) output: Output,
    /// The options given.
    pub(crate) global: Global,
}

impl Context {
    /// The home folder: the option, else the environment.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let chosen = self
            .global
            .home
            .clone()
            .or_else(|| variable("RINGWAY_HOME"));
        // The default of the XDG Base Directory Specification.
        let data =
            || variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        let home = chosen.or_else(|| Some(data()?.join("ringway")));
        let home = home
            .ok_or_else(|| Failure::usage("no home folder: set HOME, or name one with --home"))?;
        std::path::absolute(&home).map_err(|error| {
            Failure::usage(format_args!(
                "the home folder `{}` has no absolute path: {error}",
                home.display()
            ))
        })
    }
}
