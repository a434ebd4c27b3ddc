//! Routers over UDP on loopback, all in this process, and their ring's authority.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc as channel;
use std::time::{Duration, Instant};

use ringway_node::authority::{Authority, InitOptions, InviteOptions};
use ringway_node::certificate::Role;
use ringway_node::control::{Client, ControlPlace, Reply, Request, Status};
use ringway_node::daemon::{Daemon, Options, RingMessages, RingSender};
use ringway_node::enrol;
use ringway_overlay::RingKey;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::authority::{Thread, serve};
use crate::limits::RING_WAIT;
use ringway_terminal::Failure;
use ringway_terminal::Output;
use ringway_testbed::free_address;

const DOMAIN: &str = "bench.ring.example";

/// Time after which those who start know their groups and fingers.
const FILLING: Duration = Duration::from_secs(30);

/// Pause between the starts of two routers: those that start all at once have so much to ask each
/// other that two cores are busy for half a minute.
const START_PAUSE: Duration = Duration::from_millis(150);

/// How often a ring is founded at most, because another program has one of its ports.
/// Source: chosen; it happens once in dozens of rings of 255.
const FORMING_TRIES: usize = 3;

/// How routers start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starts {
    /// One after the other; their groups and fingers are waited for.
    OneByOne,
    /// All at the same moment.
    AtOnce,
}

/// One router.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) sender: RingSender,
    socket: PathBuf,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

/// Keeps the thread of those that are silent from doing anything.
#[derive(Debug)]
#[must_use]
pub(super) struct Silence(
    #[allow(dead_code, reason = "it acts when it is dropped")] channel::Sender<()>,
);

/// A ring at rest.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) members: Vec<Member>,
    /// Time from the first router's start until each knew its neighbours.
    pub(super) formed: Duration,
    /// As many as there are cores, with one thread each: a router stays on its thread, as one that
    /// is a process would.
    threads: Vec<Runtime>,
    /// That of the benchmark, which asks the routers. What is spawned there goes on in the
    /// background.
    caller: Runtime,
    /// That of the routers which are to fall silent: one thread, so that one task can stop all of
    /// them.
    silenced: Runtime,
    authority: Option<Thread<()>>,
    folder: TempDir,
}

impl Ring {
    /// Founds a ring of as many routers as `malicious router` has places; those for which it is
    /// true can be silenced. `application` gets the messages of each, by its place.
    pub(super) fn form(
        output: Output,
        malicious: &[bool],
        starts: Starts,
        mut application: impl FnMut(usize, RingMessages),
    ) -> Result<Ring, Failure> {
        for _ in 1..FORMING_TRIES {
            match Ring::try_form(output, malicious, starts, &mut application) {
                Err(failure) if is_conflict(&failure) => {
                    output.note(&format!("{}; another ring is founded", failure.message()));
                }
                formed => return formed,
            }
        }
        Ring::try_form(output, malicious, starts, &mut application)
    }

    /// Fails where another program has taken a port between its choice and its use.
    fn try_form(
        output: Output,
        malicious: &[bool],
        starts: Starts,
        application: &mut impl FnMut(usize, RingMessages),
    ) -> Result<Ring, Failure> {
        let count = malicious.len();
        let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir();
        let folder = folder.map_err(Failure::failed)?;
        let next = || free_address().map_err(Failure::failed);
        let options = InitOptions {
            domain: DOMAIN.to_owned(),
            dns: next()?.into(),
            enrol: next()?.into(),
            successors: 3,
            group: 9,
            lifetime: ringway_node::limits::CERTIFICATE_LIFETIME,
        };
        let owner = folder.path().join("owner");
        let mut authority = Authority::init(&owner, &options).map_err(Failure::failed)?;
        let names: Vec<String> = (0..count).map(|n| format!("r{n}")).collect();
        let mut invites = Vec::new();
        for name in &names {
            let options = InviteOptions {
                name: name.clone(),
                role: Role::Router,
                valid_for: Duration::from_secs(3600),
                spoken: false,
            };
            let invite = authority.invite(&options).map_err(Failure::failed)?;
            invites.push(invite.to_string());
        }
        let mut ring = Ring {
            members: Vec::new(),
            formed: Duration::ZERO,
            threads: (0..cores()).map(|_| thread()).collect::<Result<_, _>>()?,
            caller: thread()?,
            silenced: thread()?,
            authority: Some(serve(authority)?),
            folder,
        };
        output.note(&format!("{count} routers join"));
        for (name, invite) in names.iter().zip(&invites) {
            let home = ring.home(name);
            let joining = enrol::join(&home, invite, Some(next()?));
            ring.run(joining).map_err(Failure::failed)?;
            only_udp(&home)?;
        }
        let began = Instant::now();
        for ((n, name), malicious) in names.into_iter().enumerate().zip(malicious) {
            let runtime = match malicious {
                true => &ring.silenced,
                false => place(&ring.threads, n)?,
            };
            let (member, messages) = ring.start(name, runtime)?;
            ring.members.push(member);
            let _inside = runtime.enter();
            application(n, messages);
            if starts == Starts::OneByOne {
                std::thread::sleep(START_PAUSE);
            }
        }
        ring.wait(began)?;
        output.note(&format!(
            "the ring stands after {:.1} s",
            ring.formed.as_secs_f64()
        ));
        if starts == Starts::OneByOne {
            std::thread::sleep(FILLING);
        }
        Ok(ring)
    }

    fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, name: String, runtime: &Runtime) -> Result<(Member, RingMessages), Failure> {
        let home = self.home(&name);
        let socket = ringway_node::home::socket_path(&home);
        let options = Options {
            home,
            upload_limit: None,
            control: ControlPlace::default(),
        };
        let daemon = runtime.block_on(Daemon::start(options));
        let mut daemon = daemon.map_err(Failure::failed)?;
        let messages = daemon.take_ring_messages();
        let messages = messages.ok_or_else(|| Failure::failed("a router has no messages"))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = runtime.spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            daemon.run(stop).await.map_err(Failure::failed).map(|_| ())
        });
        let member = Member {
            name,
            sender: messages.sender(),
            socket,
            stop,
            task,
        };
        Ok((member, messages))
    }

    /// Waits until each router's first successor is the next router.
    fn wait(&mut self, began: Instant) -> Result<(), Failure> {
        loop {
            let statuses = self.statuses()?;
            let mut keys: Vec<RingKey> = statuses.iter().filter_map(key).collect();
            keys.sort_unstable();
            let next = |own: &RingKey| {
                let after = keys.iter().find(|key| *key > own);
                after.or(keys.first()).map(ToString::to_string)
            };
            let right = statuses.iter().filter(|status| {
                let successor = status.successors.first().map(|s| s.ring_key.clone());
                key(status).is_some_and(|own| next(&own) == successor)
            });
            let right = right.count();
            self.formed = began.elapsed();
            if right == self.members.len() {
                return Ok(());
            }
            if self.formed > RING_WAIT {
                return Err(Failure::failed(format_args!(
                    "after {} s only {right} of {} routers know their successor",
                    RING_WAIT.as_secs(),
                    self.members.len()
                )));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// What each router sees.
    pub(super) fn statuses(&self) -> Result<Vec<Status>, Failure> {
        let sockets = self.members.iter().map(|member| &member.socket);
        self.run(async {
            let mut statuses = Vec::new();
            for socket in sockets {
                statuses.push(status(socket).await?);
            }
            Ok(statuses)
        })
    }

    /// The key of each router, by its place.
    pub(super) fn keys(&self) -> Result<Vec<RingKey>, Failure> {
        let statuses = self.statuses()?;
        let keys = statuses.iter().map(key).collect::<Option<_>>();
        keys.ok_or_else(|| Failure::failed("a router has no key"))
    }

    /// From now on, and until what it gives is dropped, those that can be silenced do nothing:
    /// their sockets stay open, and none answers.
    pub(super) fn silence(&self) -> Result<Silence, Failure> {
        let (end, ended) = channel::channel();
        let (begin, begun) = channel::channel();
        self.silenced.spawn(async move {
            // Both ends may have gone.
            begin.send(()).ok();
            ended.recv().unwrap_or_default();
        });
        begun.recv().map_err(Failure::failed)?;
        Ok(Silence(end))
    }

    /// Does `work` with the ring's routers at work.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.caller.block_on(work)
    }

    /// Revokes the last router, and says how long it took until 99 of 100 of the others knew the
    /// owner's statement and had no link with it.
    pub(super) fn revoke_last(&mut self) -> Result<Duration, Failure> {
        let before = self.statuses()?.iter().map(|s| s.statement).max();
        // It ends by itself when it hears of it, which for its task is a failure.
        let last = self.members.pop();
        let last = last.ok_or_else(|| Failure::failed("the ring has no routers"))?;
        let revoked = self.run(status(&last.socket))?.member;
        let others = &self.members;
        let mut authority =
            Authority::open(&self.folder.path().join("owner")).map_err(Failure::failed)?;
        let began = Instant::now();
        authority.revoke(&last.name).map_err(Failure::failed)?;
        loop {
            let known = others.iter().map(|member| {
                let status = self.run(status(&member.socket))?;
                let linked = status.links.iter().any(|link| link.member == revoked);
                Ok(Some(status.statement) > before && !linked)
            });
            let known = known.collect::<Result<Vec<bool>, Failure>>()?;
            let elapsed = began.elapsed();
            let count = known.iter().filter(|known| **known).count();
            if count * 100 >= others.len() * 99 {
                return Ok(elapsed);
            }
            if elapsed > RING_WAIT {
                return Err(Failure::failed(format_args!(
                    "after {} s only {count} of {} routers know of a revocation",
                    RING_WAIT.as_secs(),
                    others.len()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends all routers.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let members = std::mem::take(&mut self.members);
        let mut tasks = Vec::new();
        for member in members {
            // It may have ended by itself.
            member.stop.send(()).ok();
            tasks.push(member.task);
        }
        for task in tasks {
            self.caller.block_on(task).map_err(Failure::failed)??;
        }
        match self.authority.take() {
            Some(authority) => authority.end(),
            None => Ok(()),
        }
    }
}

/// What tasks run on that are to stay on one thread.
fn thread() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(1).enable_all().build();
    built.map_err(Failure::failed)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The thread of the `n`th router: they take turns.
fn place(threads: &[Runtime], n: usize) -> Result<&Runtime, Failure> {
    let turn = n.checked_rem(threads.len()).unwrap_or(0);
    let thread = threads.get(turn);
    thread.ok_or_else(|| Failure::failed("no thread for a router"))
}

async fn status(socket: &Path) -> Result<Status, Failure> {
    let mut client = Client::request(socket, &Request::Status).await?;
    match client.next().await? {
        Some(Reply::Status(status)) => Ok(*status),
        _ => Err(Failure::failed("a router did not tell its status")),
    }
}

fn key(status: &Status) -> Option<RingKey> {
    RingKey::from_str(status.ring_key.as_deref()?).ok()
}

fn only_udp(home: &Path) -> Result<(), Failure> {
    let path = ringway_node::home::config_path(home);
    let text = std::fs::read_to_string(&path).map_err(Failure::failed)?;
    let line = |line: &str| match line.starts_with("transports") {
        true => "transports = [\"udp\"]\n".to_owned(),
        false => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    std::fs::write(&path, text).map_err(Failure::failed)
}

/// True if a member could not start because another program has its port.
fn is_conflict(failure: &Failure) -> bool {
    matches!(failure, Failure::Failed(reason) if reason.to_ascii_lowercase().contains("address already in use"))
}
