//! Two members of a ring on loopback, each on a thread of its own, and their ring's authority on a
//! third.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringway_node::authority::{Authority, InitOptions, InviteOptions};
use ringway_node::certificate::Role;
use ringway_node::control::{Client, ControlPlace, Reply, Request, Status};
use ringway_node::daemon::{Daemon, Messages, Options};
use ringway_node::enrol;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::authority::{Thread, runtime, serve};
use super::limit;
use crate::limits::WAIT;
use ringway_terminal::Failure;
use ringway_testbed::free_address;

const DOMAIN: &str = "bench.ring.example";

/// What a member's application does with its messages.
pub(super) type Application<T> = Box<dyn FnOnce(Messages) -> Work<T> + Send>;
/// The application at work.
pub(super) type Work<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// How one member is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Its name.
    pub(super) name: &'static str,
    /// Router or leaf.
    pub(super) role: Role,
    /// The list of its transports as in `ringway.toml`.
    pub(super) transports: String,
    /// What else its `ringway.toml` says.
    pub(super) more: String,
}

/// A ring of two that have not been started.
#[derive(Debug)]
pub(super) struct Pair {
    folder: TempDir,
    members: [Setup; 2],
    authority: Option<Thread<()>>,
}

/// Addresses that the configuration of a pair may name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Of the two members' certificates, if they are routers.
    pub(super) routers: [SocketAddr; 2],
    /// Free, for further listeners of each.
    pub(super) spare: [SocketAddr; 2],
}

impl Pair {
    /// Founds a ring and lets two members join it, who are set up as `setup` says for these
    /// addresses.
    pub(super) fn new(setup: impl FnOnce(Places) -> [Setup; 2]) -> Result<Pair, Failure> {
        let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir();
        let folder = folder.map_err(Failure::failed)?;
        let next = || free_address().map_err(Failure::failed);
        let (dns, enrol) = (next()?, next()?);
        let routers = [next()?, next()?];
        let spare = [next()?, next()?];
        let members = setup(Places { routers, spare });
        let options = InitOptions {
            domain: DOMAIN.to_owned(),
            dns: dns.into(),
            enrol: enrol.into(),
            successors: 2,
            group: 9,
            lifetime: ringway_node::limits::CERTIFICATE_LIFETIME,
        };
        let owner = folder.path().join("owner");
        let mut authority = Authority::init(&owner, &options).map_err(Failure::failed)?;
        let mut invites = Vec::new();
        for member in &members {
            let options = InviteOptions {
                name: member.name.to_owned(),
                role: member.role,
                valid_for: Duration::from_secs(3600),
                spoken: false,
            };
            let invite = authority.invite(&options).map_err(Failure::failed)?;
            invites.push(invite.to_string());
        }
        let mut pair = Pair {
            folder,
            members,
            authority: None,
        };
        pair.authority = Some(serve(authority)?);
        let runtime = runtime()?;
        for ((member, address), invite) in pair.members.iter().zip(routers).zip(invites) {
            let home = pair.folder.path().join(member.name);
            let listen = (member.role == Role::Router).then_some(address);
            let joining = enrol::join(&home, &invite, listen);
            runtime.block_on(joining).map_err(Failure::failed)?;
            configure(&home, member)?;
        }
        Ok(pair)
    }

    fn home(&self, index: usize) -> PathBuf {
        let name = self.members.get(index).map_or("", |member| member.name);
        self.folder.path().join(name)
    }

    /// Runs both members, each with its application, until the first member's application is done.
    pub(super) fn run<T: Send + 'static>(
        &self,
        first: Application<T>,
        second: Application<()>,
    ) -> Result<T, Failure> {
        let other = member(self.home(1), 1, second);
        let done = member(self.home(0), 0, first).thread.join();
        let done = done.unwrap_or_else(|_| Err(Failure::failed("a member's thread failed")));
        other.end()?;
        done?.ok_or_else(|| Failure::failed("a member ended before its application"))
    }

    /// What a member sees.
    pub(super) async fn status(socket: &Path) -> Result<Status, Failure> {
        let mut client = Client::request(socket, &Request::Status).await?;
        match client.next().await? {
            Some(Reply::Status(status)) => Ok(*status),
            _ => Err(Failure::failed("a member did not tell its status")),
        }
    }

    /// The control socket of the first or second member.
    pub(super) fn socket(&self, index: usize) -> PathBuf {
        ringway_node::home::socket_path(&self.home(index))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(authority) = self.authority.take()
            && let Err(failure) = authority.end()
        {
            tracing::debug!(failure = failure.message(), "the authority failed");
        }
    }
}

fn configure(home: &Path, member: &Setup) -> Result<(), Failure> {
    let path = ringway_node::home::config_path(home);
    let text = std::fs::read_to_string(&path).map_err(Failure::failed)?;
    let line = |line: &str| match line.starts_with("transports") {
        true => format!("transports = {}\n", member.transports),
        false => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    std::fs::write(&path, text + &member.more).map_err(Failure::failed)
}

/// A member on a thread of its own. It ends when its application does, or when it is stopped.
fn member<T: Send + 'static>(
    home: PathBuf,
    end: usize,
    application: Application<T>,
) -> Thread<Option<T>> {
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        limit::on_own_core(end);
        let runtime = runtime()?;
        runtime.block_on(async {
            let options = Options {
                home,
                upload_limit: None,
                control: ControlPlace::default(),
            };
            let mut daemon = Daemon::start(options).await.map_err(Failure::failed)?;
            let messages = daemon.take_messages();
            let messages = messages.ok_or_else(|| Failure::failed("a member has no messages"))?;
            let (end, ended) = oneshot::channel();
            let work = tokio::spawn(async move {
                let result = application(messages).await;
                // The daemon may have ended first.
                end.send(()).ok();
                result
            });
            let stop = async {
                tokio::select! {
                    _ = stopped => {}
                    _ = ended => {}
                }
            };
            daemon.run(stop).await.map_err(Failure::failed)?;
            if work.is_finished() {
                return Ok(work.await.ok());
            }
            work.abort();
            Ok(None)
        })
    });
    Thread { stop, thread }
}

/// Waits until a message of ours comes back from `peer`, whose application answers every message:
/// the link stands then.
pub(super) async fn wait_for(messages: &mut Messages, peer: &str) -> Result<(), Failure> {
    let end = Instant::now() + WAIT;
    while Instant::now() < end {
        let sender = messages.to(peer).await;
        if let Some(sender) = sender {
            sender.send(bytes::Bytes::from_static(b"?")).await;
            let answer = tokio::time::timeout(Duration::from_secs(1), messages.receive());
            if matches!(answer.await, Ok(Some(_))) {
                return Ok(());
            }
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Err(Failure::failed(format_args!(
        "the members of the benchmark did not reach each other within {} s",
        WAIT.as_secs()
    )))
}
