//! What every command gets: how to show results, and the options given.

use std::path::{Path, PathBuf};

use ringway_node::home;
use ringway_terminal::{Failure, Output};

use crate::acting::another_owner;
use crate::cli::Global;

/// The home of the member that is a service of this machine.
pub(crate) const SERVICE_HOME: &str = "/var/lib/ringway";

/// The folder of the authority that is a service of this machine.
pub(crate) const SERVICE_AUTHORITY: &str = "/var/lib/ringway-authority";

/// Where commands reach the member that is a service of this machine.
pub(crate) const SERVICE_SOCKET: &str = "/run/ringway/node/control.sock";

/// What every command gets.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// How to show results.
    pub(crate) output: Output,
    /// The options given.
    pub(crate) global: Global,
}

impl Context {
    /// Where commands reach the daemon: in the home folder or, unless that was chosen or has a
    /// member of its own, at the member that is a service of this machine.
    pub(crate) fn socket(&self) -> Result<PathBuf, Failure> {
        let home = self.own_home()?;
        let service = Path::new(SERVICE_SOCKET);
        let own = self.chosen_home().is_some() || home::config_path(&home).exists();
        if !own && service.exists() {
            return Ok(service.to_owned());
        }
        Ok(home::socket_path(&home))
    }

    /// The folder of the member that commands reach, as far as that can be told: the home folder
    /// or, unless that was chosen or has a member of its own, that of this machine's service.
    pub(crate) fn member_home(&self) -> Result<PathBuf, Failure> {
        let home = self.own_home()?;
        let service = Path::new(SERVICE_HOME);
        let own = self.chosen_home().is_some() || home::config_path(&home).exists();
        if !own && service.exists() {
            return Ok(service.to_owned());
        }
        Ok(home)
    }

    /// The home folder that the option names, else the environment.
    pub(crate) fn chosen_home(&self) -> Option<PathBuf> {
        let option = self.global.home.clone();
        option.or_else(|| variable("RINGWAY_HOME"))
    }

    /// The home folder: the option, else the environment's. Root that is no member itself has the
    /// home of the service.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        let own = self.own_home()?;
        let service = Path::new(SERVICE_HOME);
        let chosen = self.chosen_home().is_some() || home::config_path(&own).exists();
        let theirs = !chosen && another_owner(service).is_some();
        Ok(if theirs { service.to_owned() } else { own })
    }

    /// The home folder that the option or the environment names.
    pub(crate) fn own_home(&self) -> Result<PathBuf, Failure> {
        let chosen = self.chosen_home();
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

/// A variable of the environment that names a folder.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}
