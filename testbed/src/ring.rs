//! A ring on loopback or on hosts: an authority and members, each a process with a home of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::ports::free_port;
use crate::program::finish;
use crate::{Host, Outcome, Process, Program, TestbedError, wait_until};

/// The ring's domain; `.test` is reserved for such uses (RFC 6761 §6.2).
const DOMAIN: &str = "bed.ringway.test";

/// How long a ring may take to fall into place.
const SETTLE: Duration = Duration::from_secs(120);
/// Lines of each member's log that are shown when it does not.
const SHOWN_LINES: usize = 60;

/// Ports on a host of its own, where no other program has any: DNS and enrolment of the authority.
const OWNER_PORTS: [u16; 2] = [7453, 7410];

/// The port of a router on a host of its own; QUIC has the next one.
const ROUTER_PORT: u16 = 7400;

/// What a test wants.
#[derive(Debug)]
pub struct RingBuilder {
    program: Program,
    authority: Option<Host>,
    seen_as: Option<IpAddr>,
    lifetime: Option<String>,
    planned: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    name: String,
    router: bool,
    absent: bool,
    arguments: Vec<String>,
    host: Option<Host>,
    seen_as: Option<IpAddr>,
    program: Option<Program>,
}

/// A member: its home, and its daemon while that runs.
#[derive(Debug)]
pub struct Member {
    /// Name in the ring.
    pub name: String,
    /// Home folder.
    pub home: PathBuf,
    /// The object that `join` printed.
    pub joined: Value,
    program: Program,
    arguments: Vec<String>,
    process: Option<Process>,
}

/// A running ring; its processes are killed and its folder is removed when it is dropped.
#[derive(Debug)]
pub struct Ring {
    members: Vec<Member>,
    /// The authority's process.
    pub authority: Process,
    owner: PathBuf,
    program: Program,
    // Last: the folder goes when it is no longer used.
    folder: TempDir,
}

impl RingBuilder {
    /// A ring without members, of processes of this program.
    #[must_use]
    pub fn new(program: Program) -> RingBuilder {
        RingBuilder {
            program,
            authority: None,
            seen_as: None,
            lifetime: None,
            planned: Vec::new(),
        }
    }

    /// Makes certificates valid for this long only, such as `30s`.
    #[must_use]
    pub fn lifetime(mut self, lifetime: &str) -> RingBuilder {
        self.lifetime = Some(lifetime.to_owned());
        self
    }

    /// Puts the authority on this host, at the host's first address. Then every member needs a host
    /// that reaches it.
    #[must_use]
    pub fn authority_on(mut self, host: &Host) -> RingBuilder {
        self.authority = Some(host.clone());
        self
    }

    /// Gives members this address for the authority, as where its host is behind a 1:1 NAT.
    #[must_use]
    pub fn authority_seen_as(mut self, address: IpAddr) -> RingBuilder {
        self.seen_as = Some(address);
        self
    }

    /// Gives others this address for the router that was added last, which listens at all that it
    /// has.
    #[must_use]
    pub fn seen_as(mut self, address: IpAddr) -> RingBuilder {
        if let Some(planned) = self.planned.last_mut() {
            planned.seen_as = Some(address);
        }
        self
    }

    /// Puts the member that was added last on this host; a router is at the host's first address.
    #[must_use]
    pub fn on(mut self, host: &Host) -> RingBuilder {
        if let Some(planned) = self.planned.last_mut() {
            planned.host = Some(host.clone());
        }
        self
    }

    /// Has the member that was added last run this program, such as one of another release.
    #[must_use]
    pub fn running(mut self, program: &Program) -> RingBuilder {
        if let Some(planned) = self.planned.last_mut() {
            planned.program = Some(program.clone());
        }
        self
    }

    /// Adds a router.
    #[must_use]
    pub fn router(self, name: &str) -> RingBuilder {
        self.member(name, true, &[])
    }

    /// Adds a leaf.
    #[must_use]
    pub fn leaf(self, name: &str) -> RingBuilder {
        self.member(name, false, &[])
    }

    /// Adds a leaf whose `node` gets more arguments, such as an upload limit.
    #[must_use]
    pub fn leaf_with(self, name: &str, arguments: &[&str]) -> RingBuilder {
        self.member(name, false, arguments)
    }

    fn member(mut self, name: &str, router: bool, arguments: &[&str]) -> RingBuilder {
        let arguments = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        self.planned.push(Planned {
            name: name.to_owned(),
            router,
            absent: false,
            arguments,
            host: None,
            seen_as: None,
            program: None,
        });
        self
    }

    /// Adds a router that is enrolled and does not run, until it is started by [`Member::start`].
    #[must_use]
    pub fn absent_router(self, name: &str) -> RingBuilder {
        self.router(name).absent()
    }

    /// Adds a leaf that is enrolled and does not run, until it is started by [`Member::start`].
    #[must_use]
    pub fn absent_leaf(self, name: &str) -> RingBuilder {
        self.leaf(name).absent()
    }

    fn absent(mut self) -> RingBuilder {
        if let Some(planned) = self.planned.last_mut() {
            planned.absent = true;
        }
        self
    }

    /// Founds the ring, enrols the members and starts them all.
    ///
    /// # Errors
    /// When any of that fails, with the program's own words.
    pub fn start(self) -> Result<Ring, TestbedError> {
        let folder = tempfile::Builder::new().prefix("ringway-bed-").tempdir();
        let folder =
            folder.map_err(|error| TestbedError::of("making a temporary folder", error))?;
        let ports: Result<Vec<u16>, TestbedError> =
            (0..2 + self.planned.len()).map(|_| free_port()).collect();
        let mut ports = ports?.into_iter();
        let mut address = |host: Option<&Host>, port: u16| match host {
            Some(host) => Ok(SocketAddr::new(host.address()?, port)),
            None => ports
                .next()
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .ok_or_else(|| TestbedError("not enough ports".to_owned())),
        };
        let authority = self.authority.as_ref();
        let seen_as = self.seen_as;
        let [dns, enrol] = OWNER_PORTS.map(|port| {
            let outer = seen_as.map(|ip| Ok(SocketAddr::new(ip, port)));
            outer.unwrap_or_else(|| address(authority, port))
        });
        let mut ring = found(
            folder,
            &authority.map_or_else(|| self.program.clone(), |host| self.program.on(host)),
            [dns?, enrol?],
            self.lifetime.as_deref(),
        )?;
        for planned in self.planned {
            let host = planned.host.as_ref();
            let listen = match planned.router {
                true => Some(match planned.seen_as {
                    Some(outer) => SocketAddr::new(outer, ROUTER_PORT),
                    None => address(host, ROUTER_PORT)?,
                }),
                false => None,
            };
            let program = planned.program.as_ref().unwrap_or(&self.program);
            let program = host.map_or_else(|| program.clone(), |host| program.on(host));
            let absent = planned.absent;
            let mut member = ring.enrol(planned, listen, program)?;
            if !absent {
                member.start()?;
            }
            ring.members.push(member);
        }
        Ok(ring)
    }
}

/// Makes the authority and starts it.
fn found(
    folder: TempDir,
    program: &Program,
    [dns, enrol]: [SocketAddr; 2],
    lifetime: Option<&str>,
) -> Result<Ring, TestbedError> {
    let owner = folder.path().join("owner");
    let (dns, enrol) = (dns.to_string(), enrol.to_string());
    let mut init = vec!["ring", "init", DOMAIN, "--successors", "2"];
    init.extend(["--dns", &dns, "--enrol", &enrol]);
    if let Some(lifetime) = lifetime {
        init.extend(["--lifetime", lifetime]);
    }
    call(program, &owner, &init, "")?;
    let authority = serve(program, &owner, folder.path())?;
    Ok(Ring {
        members: Vec::new(),
        authority,
        owner,
        program: program.clone(),
        folder,
    })
}

fn serve(program: &Program, owner: &Path, folder: &Path) -> Result<Process, TestbedError> {
    let serve = with_home(program, owner, &["ring", "serve", "--exit-with-stdin"]);
    Process::start(serve, &folder.join("owner.log"))
}

impl Ring {
    /// Starts the authority again, which somebody has ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_authority(&mut self) -> Result<(), TestbedError> {
        self.authority = serve(&self.program, &self.owner, self.folder.path())?;
        Ok(())
    }

    /// Has the owner's commands and the authority be of this program from their next start on.
    pub fn upgrade_owner(&mut self, program: &Program) {
        self.program = program.clone();
    }

    fn enrol(
        &self,
        planned: Planned,
        listen: Option<SocketAddr>,
        program: Program,
    ) -> Result<Member, TestbedError> {
        let Planned {
            name,
            router,
            arguments,
            seen_as,
            ..
        } = planned;
        let home = self.folder.path().join(&name);
        let role = if router { "router" } else { "leaf" };
        let invited = call(
            &self.program,
            &self.owner,
            &["ring", "invite", &name, "--role", role],
            "",
        )?;
        let invite = invited
            .first()
            .and_then(|object| object["invite"].as_str())
            .unwrap_or_default()
            .to_owned();
        let mut join = vec!["join"];
        let option = match seen_as {
            Some(_) => "--advertise",
            None => "--listen",
        };
        let listen = listen.map(|listen| listen.to_string());
        if let Some(listen) = &listen {
            join.extend([option, listen]);
        }
        let joined = call(&program, &home, &join, &invite)?
            .pop()
            .unwrap_or_default();
        Ok(Member {
            name,
            home,
            joined,
            program,
            arguments,
            process: None,
        })
    }

    /// Joins a member again in its home, by a new invite, and gives what `join` has printed. Its
    /// daemon must have ended.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn join_again(&self, name: &str) -> Result<Value, TestbedError> {
        let member = self.member(name)?;
        let role = member.joined["role"].as_str().unwrap_or("leaf");
        let invited = self.owner_call(&["ring", "invite", name, "--role", role])?;
        let invite = invited.first().and_then(|object| object["invite"].as_str());
        let joined = call(
            &member.program,
            &member.home,
            &["join"],
            invite.unwrap_or_default(),
        );
        Ok(joined?.pop().unwrap_or_default())
    }

    /// The folder of everything.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command of the ring owner and gives the objects that it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn owner_call(&self, arguments: &[&str]) -> Result<Vec<Value>, TestbedError> {
        call(&self.program, &self.owner, arguments, "")
    }

    /// The member with this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn member(&self, name: &str) -> Result<&Member, TestbedError> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .ok_or_else(|| TestbedError(format!("no member {name}")))
    }

    /// The member with this name, to be killed or started.
    ///
    /// # Errors
    /// When there is none.
    pub fn member_mut(&mut self, name: &str) -> Result<&mut Member, TestbedError> {
        let found = self.members.iter_mut().find(|member| member.name == name);
        found.ok_or_else(|| TestbedError(format!("no member {name}")))
    }

    /// Waits until all running routers know each other in order, and all running leaves have a
    /// parent.
    ///
    /// # Errors
    /// When that takes longer than two minutes: what is not so, and what the members say and have
    /// logged last.
    pub fn wait_until_settled(&self) -> Result<(), TestbedError> {
        let waited = wait_until(SETTLE, || {
            let statuses = self.running().map(Member::status);
            settled(&statuses.collect::<Result<Vec<_>, _>>()?)
        });
        waited.map_err(|TestbedError(reason)| {
            let logs = self.running().map(|member| {
                let log = member.log_text();
                let lines: Vec<&str> = log.lines().rev().take(SHOWN_LINES).collect();
                let lines: Vec<&str> = lines.into_iter().rev().collect();
                let status = member.status().map_err(|error| error.to_string());
                format!("\n--- {}\n{status:?}\n{}", member.name, lines.join("\n"))
            });
            TestbedError(reason + &logs.collect::<String>())
        })
    }

    fn running(&self) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(|member| member.process.is_some())
    }
}

/// Every router's predecessor and successors are its neighbours by ring key; every leaf has a
/// parent.
fn settled(statuses: &[Value]) -> Result<(), TestbedError> {
    let mut routers: Vec<&Value> = statuses
        .iter()
        .filter(|status| status["role"] == "router")
        .collect();
    routers.sort_by_key(|router| router["ring_key"].as_str());
    let others = routers.len().saturating_sub(1);
    for (place, router) in routers.iter().enumerate() {
        let kept = router["successor_list_length"]
            .as_u64()
            .and_then(|kept| usize::try_from(kept).ok())
            .unwrap_or(0);
        let after = routers
            .iter()
            .cycle()
            .skip(place + 1)
            .take(others.min(kept));
        let expected: Vec<&Value> = after.map(|router| &router["ring_key"]).collect();
        let list = router["successors"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let found: Vec<&Value> = list.iter().map(|router| &router["ring_key"]).collect();
        let before = &router["predecessor"]["ring_key"];
        let expected_before = &routers[(place + others) % routers.len()]["ring_key"];
        if found != expected || (others > 0 && before != expected_before) {
            return Err(TestbedError(format!(
                "{} stands between {before} and {found:?}",
                router["name"]
            )));
        }
    }
    let lonely = |status: &&Value| status["role"] == "leaf" && status["parents"][0].is_null();
    match statuses.iter().find(lonely) {
        Some(leaf) => Err(TestbedError(format!("{} has no parent", leaf["name"]))),
        None => Ok(()),
    }
}

impl Member {
    /// Changes its configuration: the transports in use, and lines to add. It counts from the next
    /// start.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn configure(&self, transports: &str, more: &str) -> Result<(), TestbedError> {
        let path = self.home.join("ringway.toml");
        let wrong = |error: std::io::Error| TestbedError::of(&path.display().to_string(), error);
        let text = std::fs::read_to_string(&path).map_err(wrong)?;
        let lines = text
            .lines()
            .map(|line| match line.starts_with("transports") {
                true => format!("transports = {transports}\n"),
                false => format!("{line}\n"),
            });
        let changed = lines.collect::<String>() + more;
        std::fs::write(&path, changed).map_err(wrong)
    }

    /// Has its commands and its daemon be of this program from their next start on.
    pub fn upgrade(&mut self, program: &Program) {
        self.program = program.clone();
    }

    /// Starts its daemon.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(&mut self) -> Result<(), TestbedError> {
        let mut arguments = vec!["-v", "node", "--exit-with-stdin"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let command = with_home(&self.program, &self.home, &arguments);
        self.process = Some(Process::start(command, &self.home.with_extension("log"))?);
        Ok(())
    }

    /// Kills its daemon without warning (SIGKILL).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.process
            .take()
            .map_or(Ok(()), |mut process| process.kill())
    }

    /// Ends its daemon by SIGTERM and gives its exit code.
    ///
    /// # Errors
    /// When it does not end.
    pub fn terminate(&mut self) -> Result<Option<i32>, TestbedError> {
        self.process
            .take()
            .map_or(Ok(None), |mut process| process.terminate())
    }

    /// Has its daemon load its configuration again (SIGHUP).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn reload(&mut self) -> Result<(), TestbedError> {
        self.process.as_mut().map_or(Ok(()), Process::hang_up)
    }

    /// Everything that its daemons have logged.
    #[must_use]
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(self.home.with_extension("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command at its home, with `--json`, and gives the objects that it printed.
    ///
    /// # Errors
    /// When the exit code is not 0.
    pub fn call(&self, arguments: &[&str]) -> Result<Vec<Value>, TestbedError> {
        call(&self.program, &self.home, arguments, "")
    }

    /// Runs a command at its home, without `--json`.
    ///
    /// # Errors
    /// When it does not end; a bad exit code is no error.
    pub fn run(&self, arguments: &[&str]) -> Result<Outcome, TestbedError> {
        let mut command = self.program.command(["--home"]);
        command.arg(&self.home).args(arguments);
        finish(command, "")
    }

    /// What it sees.
    ///
    /// # Errors
    /// When its daemon does not answer.
    pub fn status(&self) -> Result<Value, TestbedError> {
        self.call(&["status"])?
            .pop()
            .ok_or_else(|| TestbedError("status printed nothing".to_owned()))
    }

    /// The transfer with this id, if it has one.
    ///
    /// # Errors
    /// When its daemon does not answer, or does not list it.
    pub fn transfer(&self, id: &str) -> Result<Value, TestbedError> {
        let transfers = self.call(&["transfers"])?;
        let found = transfers.into_iter().find(|transfer| transfer["id"] == id);
        found.ok_or_else(|| TestbedError(format!("{} does not list the transfer {id}", self.name)))
    }
}

fn with_home(program: &Program, home: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = program.command(["--json", "--home"]);
    command.arg(home).args(arguments);
    command
}

fn call(
    program: &Program,
    home: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<Vec<Value>, TestbedError> {
    let outcome = finish(with_home(program, home, arguments), input)?;
    match outcome.code {
        Some(0) => outcome.objects(),
        code => Err(TestbedError(format!(
            "{arguments:?} at {} ended with {code:?}: {}",
            home.display(),
            outcome.stderr
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn router(key: &str, before: &str, after: [&str; 2]) -> Value {
        let successors = after.map(|key| json!({ "ring_key": key }));
        json!({
            "name": key, "role": "router", "ring_key": key, "successor_list_length": 2,
            "predecessor": {"ring_key": before}, "successors": successors, "parents": []
        })
    }

    #[test]
    fn settled_means_neighbours_know_each_other() {
        let good = [
            router("b", "a", ["c", "a"]),
            router("a", "c", ["b", "c"]),
            router("c", "b", ["a", "b"]),
        ];
        assert!(settled(&good).is_ok());
        let bad = [
            router("b", "a", ["c", "a"]),
            router("a", "c", ["c", "b"]),
            router("c", "b", ["a", "b"]),
        ];
        assert!(settled(&bad).is_err());
        let leaf = json!({"name": "l", "role": "leaf", "parents": []});
        assert!(settled(&[leaf]).is_err());
    }
}
