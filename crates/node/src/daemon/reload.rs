//! `ringway.toml` read again while the member runs.

use std::path::{Path, PathBuf};

use super::{DaemonError, make_inbox};
use crate::certificate::Role;
use crate::config::Config;
use crate::member::MemberHandle;
use crate::message::Messages;
use crate::priorities::Priorities;
use crate::stream::Streams;
use crate::transfer::Transfers;

/// What a member runs with.
#[derive(Clone, Debug)]
pub(super) struct Configured {
    home: PathBuf,
    role: Role,
    /// Overrides what the file says.
    upload_limit: Option<u64>,
    config: Config,
}

impl Configured {
    pub(super) fn new(
        config: Config,
        upload_limit: Option<u64>,
        role: Role,
        home: &Path,
    ) -> Configured {
        Configured {
            home: home.to_owned(),
            role,
            upload_limit,
            config,
        }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    fn read_again(&self) -> Result<Config, DaemonError> {
        let config = Config::load(&self.home)?;
        config.check_role(self.role)?;
        make_inbox(&self.home, &config)?;
        Ok(config)
    }

    /// Takes over what counts from now on; returns the sections that count from the next start and
    /// have changed.
    fn take(&mut self, config: Config) -> Vec<&'static str> {
        let before = std::mem::replace(&mut self.config, config);
        let now = &mut self.config;
        // They are what sockets, keys and programs were made of.
        let fixed = [
            ("[node]", now.node == before.node),
            ("[ws]", now.ws == before.ws),
            ("[[exec]]", now.exec == before.exec),
            ("[smtp]", now.smtp == before.smtp),
        ];
        (now.node, now.ws) = (before.node, before.ws);
        (now.exec, now.smtp) = (before.exec, before.smtp);
        let changed = fixed.into_iter().filter(|(_, same)| !same);
        changed.map(|(section, _)| section).collect()
    }
}

/// Reads the member's configuration again, and has the running member follow it.
#[derive(Debug)]
pub struct Reloader {
    pub(super) configured: Configured,
    pub(super) transfers: Transfers,
    pub(super) priorities: Priorities,
    pub(super) messages: Messages,
    pub(super) streams: Streams,
    pub(super) member: MemberHandle,
}

impl Reloader {
    /// Reads the file. `[[receive]]`, `[messages]`, `[limits]`, `[[class]]`, `[[interface]]`,
    /// `[[path]]`, `[[peer]]` and `[[service]]` count from now on. Caps and costs of paths do for
    /// what is under way as well, rules on files for those that are offered from now on, names of
    /// priorities for what is asked from now on. Returns the other sections that have changed,
    /// which count from the next start. What came of it is logged.
    ///
    /// # Errors
    /// The file is wrong, or the folder for received files cannot be made; nothing changes then.
    pub async fn reload(&mut self) -> Result<Vec<&'static str>, DaemonError> {
        match self.configured.read_again() {
            Ok(config) => {
                let left = self.follow(config).await;
                let restart = left.join(" ");
                if left.is_empty() {
                    tracing::info!("the configuration was loaded again");
                } else {
                    tracing::warn!(
                        restart,
                        "the configuration was loaded again, but for sections that count from the next start"
                    );
                }
                Ok(left)
            }
            Err(error) => {
                tracing::error!(%error, "the configuration was not loaded again: the one before stays");
                Err(error)
            }
        }
    }

    async fn follow(&mut self, config: Config) -> Vec<&'static str> {
        let left = self.configured.take(config);
        let Configured {
            home,
            upload_limit,
            config,
            ..
        } = &self.configured;
        let ((all, interfaces), receive) = (config.caps(*upload_limit), config.receive.clone());
        self.priorities.configure(config);
        self.transfers.configure(all, &interfaces, receive, home);
        self.messages.configure(config.messages.clone()).await;
        self.streams.configure(&config.service);
        self.member.configure(config).await;
        left
    }
}
