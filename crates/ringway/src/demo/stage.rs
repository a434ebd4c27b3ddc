//! The demo's temporary folder, its authority and its members.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_node::control::Status;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::process::{Daemon, Objects, Program};
use crate::limits::{DEMO_LOG_TAIL, DEMO_POLL};
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// How often the removal of the folder is tried: a process that was killed a moment ago may still
/// create a file.
const REMOVAL_ATTEMPTS: u32 = 10;

/// The process with the border: its folder, and its log.
const BORDER: &str = "border";

/// A member of the demo's ring.
#[derive(Debug)]
pub(super) struct Member {
    /// Its name in the ring.
    pub(super) name: &'static str,
    /// A router's address; none for a leaf.
    pub(super) listen: Option<SocketAddr>,
    /// Its home folder.
    pub(super) home: PathBuf,
    /// Its id, base32.
    pub(super) id: String,
    /// A router's ring key, hex digits.
    pub(super) ring_key: Option<String>,
    /// Its upload limit in bytes a second.
    pub(super) upload_limit: Option<u64>,
    daemon: Option<Daemon>,
}

/// Everything that the demo makes, and removes again.
#[derive(Debug)]
pub(super) struct Stage {
    folder: TempDir,
    /// Runs the program.
    pub(super) program: Program,
    /// The members, routers first.
    pub(super) members: Vec<Member>,
    authority: Option<Daemon>,
    border: Option<Daemon>,
}

impl Member {
    /// A member that has not joined yet.
    pub(super) fn new(
        name: &'static str,
        listen: Option<SocketAddr>,
        folder: &Path,
        upload_limit: Option<u64>,
    ) -> Member {
        let home = folder.join(name);
        Member {
            name,
            listen,
            home,
            id: String::new(),
            ring_key: None,
            upload_limit,
            daemon: None,
        }
    }

    /// Starts its daemon.
    pub(super) async fn start(&mut self, program: &Program) -> Result<(), Failure> {
        let limit = self.upload_limit.map(|limit| limit.to_string());
        let mut arguments = vec!["node"];
        if let Some(limit) = &limit {
            arguments.extend(["--upload-limit", limit]);
        }
        let (daemon, _) = program.daemon(self.name, &self.home, &arguments).await?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Kills its daemon without warning.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        match self.daemon.take() {
            Some(mut daemon) => daemon.kill().await,
            None => Ok(()),
        }
    }

    /// True if its daemon was started and not killed since.
    pub(super) fn runs(&self) -> bool {
        self.daemon.is_some()
    }
}

impl Stage {
    /// Makes the folder, readable by this user only.
    pub(super) fn new(output: Output) -> Result<Stage, Failure> {
        let made = tempfile::Builder::new()
            .prefix("ringway-demo-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .and_then(|folder| std::fs::create_dir(folder.path().join("logs")).map(|()| folder));
        let folder = made.map_err(|error| {
            Failure::failed(format_args!("making a temporary folder failed: {error}"))
        })?;
        output.note(&format!(
            "The demo lives in {} until it ends.",
            folder.path().display()
        ));
        let program = Program::this(folder.path().join("logs"))?;
        Ok(Stage {
            folder,
            program,
            members: Vec::new(),
            authority: None,
            border: None,
        })
    }

    /// The temporary folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Home of the ring owner.
    pub(super) fn owner(&self) -> PathBuf {
        self.folder.path().join("owner")
    }

    /// Founds the ring and serves it.
    pub(super) async fn found(
        &mut self,
        dns: SocketAddr,
        enrol: SocketAddr,
    ) -> Result<(), Failure> {
        let owner = self.owner();
        let (dns, enrol) = (dns.to_string(), enrol.to_string());
        let init = [
            "ring",
            "init",
            super::found::DOMAIN,
            "--dns",
            &dns,
            "--enrol",
            &enrol,
            "--successors",
            "3",
        ];
        let _: serde_json::Value = self.program.call_one(&owner, &init).await?;
        let (daemon, _) = self
            .program
            .daemon("owner", &owner, &["ring", "serve"])
            .await?;
        self.authority = Some(daemon);
        Ok(())
    }

    /// Starts the process with the border, and gives what it reports.
    pub(super) fn open_border(&mut self) -> Result<Objects, Failure> {
        let home = self.folder.path().join(BORDER);
        std::fs::create_dir(&home).map_err(|error| {
            Failure::failed(format_args!("making `{}` failed: {error}", home.display()))
        })?;
        // What iptables' older form locks belongs to root outside of the namespaces.
        let lock = [("XTABLES_LOCKFILE", home.join("xtables.lock"))];
        let (daemon, objects) = self
            .program
            .listen(BORDER, &home, &["demo-border"], &lock)?;
        self.border = Some(daemon);
        Ok(objects)
    }

    /// Ends all processes and forgets the members, so that the ring can be founded again.
    pub(super) async fn clear(&mut self) -> Result<(), Failure> {
        self.end().await;
        for member in self.members.drain(..) {
            remove_if_there(&member.home)?;
        }
        remove_if_there(&self.owner())
    }

    /// Asks all running members, at the same time, by one command each.
    pub(super) async fn ask_all<T>(
        &self,
        arguments: &[&str],
    ) -> Result<Vec<(&'static str, Vec<T>)>, Failure>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for (place, member) in self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.runs())
        {
            let (program, home, name) = (self.program.clone(), member.home.clone(), member.name);
            let arguments: Vec<String> = arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect();
            tasks.spawn(async move {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                program
                    .call(&home, &arguments)
                    .await
                    .map(|answer| (place, name, answer))
            });
        }
        let mut answers = Vec::new();
        while let Some(joined) = tasks.join_next().await {
            answers.push(joined.map_err(|error| {
                Failure::failed(format_args!("asking a member failed: {error}"))
            })??);
        }
        // The commands end in any order, and are shown in that of the members.
        answers.sort_by_key(|(place, ..)| *place);
        Ok(answers
            .into_iter()
            .map(|(_, name, answer)| (name, answer))
            .collect())
    }

    /// What each running member sees.
    pub(super) async fn statuses(&self) -> Result<Vec<Status>, Failure> {
        let answers = self.ask_all::<Status>(&["status"]).await?;
        Ok(answers
            .into_iter()
            .flat_map(|(_, statuses)| statuses)
            .collect())
    }

    /// Asks until `holds` is content, and fails with its last complaint after `deadline`.
    pub(super) async fn wait_until(
        &self,
        deadline: Duration,
        holds: impl Fn(&[Status]) -> Result<(), String>,
    ) -> Result<Vec<Status>, Failure> {
        let end = tokio::time::Instant::now() + deadline;
        loop {
            let complaint = match self.statuses().await {
                Ok(statuses) => match holds(&statuses) {
                    Ok(()) => return Ok(statuses),
                    Err(complaint) => complaint,
                },
                Err(failure) => failure.message().to_owned(),
            };
            if tokio::time::Instant::now() >= end {
                return Err(Failure::failed(format_args!(
                    "after {} s still: {complaint}",
                    deadline.as_secs()
                )));
            }
            tokio::time::sleep(DEMO_POLL).await;
        }
    }

    /// The member with this name.
    pub(super) fn member(&self, name: &str) -> Result<&Member, Failure> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .ok_or_else(|| no_member(name))
    }

    /// The member with this name, to be changed.
    pub(super) fn member_mut(&mut self, name: &str) -> Result<&mut Member, Failure> {
        self.members
            .iter_mut()
            .find(|member| member.name == name)
            .ok_or_else(|| no_member(name))
    }

    /// Tells what can be done with the running ring.
    pub(super) fn invite_to_try(&self, output: Output) -> Result<(), Failure> {
        if output.json() {
            let members: Vec<_> = self
                .members
                .iter()
                .map(|m| serde_json::json!({"name": m.name, "home": m.home}))
                .collect();
            let folder = self.folder.path();
            let owner = self.owner();
            return output.object(
                "ringway.demo.ready/1",
                &serde_json::json!({"folder": folder, "owner": owner, "members": members}),
            );
        }
        let program = self.program.executable().display().to_string();
        let home = |name: &str| self.folder.path().join(name).display().to_string();
        let (alice, bob, owner) = (home("alice"), home("bob"), home("owner"));
        output.line(&format!(
            "\nThe ring is up. In another terminal:\n\
             \x20 {program} --home {alice} status\n\
             \x20 {program} --home {alice} ping oslo\n\
             \x20 {program} --home {alice} send {program} lima --priority 2\n\
             \x20 {program} --home {bob} route --key anything\n\
             \x20 {program} --home {owner} ring members\n\
             Ctrl-C ends the demo and removes everything."
        ))
    }

    /// Ends all processes, all at the same time.
    pub(super) async fn end(&mut self) {
        let daemons = self
            .members
            .iter_mut()
            .filter_map(|member| member.daemon.take());
        let mut tasks = JoinSet::new();
        for daemon in daemons
            .chain(self.authority.take())
            .chain(self.border.take())
        {
            tasks.spawn(daemon.end());
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Shows the ends of all logs on stderr.
    pub(super) fn show_logs(&self) {
        let mut text = String::new();
        for name in self.names() {
            let log = std::fs::read(self.program.log(name)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.iter().skip(lines.len().saturating_sub(DEMO_LOG_TAIL));
            text.extend(tail.map(|line| format!("{name}: {line}\n")));
        }
        // With stderr gone it has no reader anyway.
        std::io::stderr().lock().write_all(text.as_bytes()).ok();
    }

    /// Names of all processes that have a log.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let members = self.members.iter().map(|member| member.name);
        ["owner"].into_iter().chain(members).chain([BORDER])
    }

    /// Removes the folder, or says where it stays.
    pub(super) fn remove(self, keep: bool) -> Result<(), Failure> {
        if keep {
            let path = self.folder.keep();
            // As in `show_logs`.
            writeln!(
                std::io::stderr().lock(),
                "Homes and logs stay in {}",
                path.display()
            )
            .ok();
            return Ok(());
        }
        let path = self.folder.keep();
        for _ in 1..REMOVAL_ATTEMPTS {
            if remove_if_there(&path).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        remove_if_there(&path)
    }
}

fn no_member(name: &str) -> Failure {
    Failure::failed(format_args!("the demo has no member `{name}`"))
}

fn remove_if_there(folder: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::failed(
            format_args!("removing `{}` failed: {error}", folder.display()),
        )),
        _ => Ok(()),
    }
}
