//! What is on this machine: the folders of a member, an authority and a gateway, their daemons, and
//! what those say. All of it is read, and nothing is made or changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ringway_gateway::service::GatewayStatus;
use ringway_node::authority::{Authority, RingInfo};
use ringway_node::config::Config;
use ringway_node::control::{Client, ClientError, PathsStatus, Reply, Request, Status};
use ringway_node::endpoint::Endpoint;
use ringway_node::home;
use ringway_node::state::{Membership, State};
use ringway_terminal::Failure;
use tokio::time::timeout;

use crate::cli::{CheckupArgs, STATE};
use crate::context::{Context, SERVICE_AUTHORITY, SERVICE_HOME};
use crate::gate;
use crate::limits::DOCTOR_ANSWER;
use crate::request;

/// Something that is read: it may be absent, or not be readable.
#[derive(Debug)]
pub(super) enum Read<T> {
    /// It is not there.
    Absent,
    /// This user may not look.
    Forbidden,
    /// It is there and is wrong.
    Wrong(String),
    /// What it is.
    Is(T),
}

impl<T> Read<T> {
    /// What it is, if that is known.
    pub(super) fn known(&self) -> Option<&T> {
        match self {
            Read::Is(value) => Some(value),
            _ => None,
        }
    }
}

/// A member's daemon.
#[derive(Debug)]
pub(super) enum Daemon {
    /// No program listens at the socket.
    Stopped,
    /// Its socket is for others.
    Forbidden,
    /// It does not answer, or not in a form that is understood.
    Silent(String),
    /// What it says of itself.
    Answers(Box<Status>),
}

/// The authority of a ring in a folder of this machine.
#[derive(Debug)]
pub(super) struct AuthorityFound {
    pub(super) folder: PathBuf,
    pub(super) ring: Read<RingInfo>,
}

/// All that is examined.
#[derive(Debug)]
pub(super) struct Subject {
    /// Neither DNS servers nor peers are asked.
    pub(super) offline: bool,
    /// The member's folder.
    pub(super) home: PathBuf,
    pub(super) member: Read<Membership>,
    /// `ringway.toml` of it.
    pub(super) config: Read<Config>,
    /// Where the member's daemon is asked.
    pub(super) socket: PathBuf,
    pub(super) daemon: Daemon,
    pub(super) authority: Option<AuthorityFound>,
    /// Where the gateway's daemon is asked.
    pub(super) gate_socket: PathBuf,
    /// The gateway has a folder here, or a daemon.
    pub(super) has_gateway: bool,
    /// What it says; none while it does not run, or to this user.
    pub(super) gateway: Option<Box<GatewayStatus>>,
}

impl Subject {
    /// Looks for all of it.
    pub(super) async fn find(context: &Context, args: &CheckupArgs) -> Result<Subject, Failure> {
        let home = context.member_home()?;
        let socket = context.socket()?;
        let gate_socket = args.gate_control.clone();
        let has_gateway = gate_socket.exists() || Path::new(STATE).exists();
        // Where there is none, nothing answers at once.
        let asked = timeout(DOCTOR_ANSWER, gate::ask_status(context, &gate_socket));
        let gateway = asked.await.ok().and_then(Result::ok);
        Ok(Subject {
            offline: args.offline,
            member: membership(&home),
            config: config(&home),
            daemon: ask(&socket).await,
            authority: authority(args, context)?,
            home,
            socket,
            gate_socket,
            has_gateway,
            gateway,
        })
    }

    /// What the member's daemon says, if it answers.
    pub(super) fn status(&self) -> Option<&Status> {
        match &self.daemon {
            Daemon::Answers(status) => Some(status),
            _ => None,
        }
    }

    /// Whether a member is here: in the folder, or as a daemon.
    pub(super) fn has_member(&self) -> bool {
        !matches!(self.member, Read::Absent)
            || !matches!(self.daemon, Daemon::Stopped)
            || !matches!(self.config, Read::Absent)
    }

    /// The DNS server of the configuration.
    pub(super) fn resolver(&self) -> Option<&Endpoint> {
        self.config.known()?.node.resolver.as_ref()
    }

    /// The folder for received files.
    pub(super) fn inbox(&self) -> Option<PathBuf> {
        Some(self.home.join(&self.config.known()?.receive.directory))
    }

    /// Whether the member is a service of this machine.
    pub(super) fn is_service(&self) -> bool {
        self.home == Path::new(SERVICE_HOME)
    }

    /// What starts the member's daemon, or starts it again.
    pub(super) fn start_command(&self) -> String {
        if self.is_service() {
            return "sudo systemctl restart ringway-node".to_owned();
        }
        format!("ringway --home {} node", self.home.display())
    }

    /// Every way to a peer, as the daemon sees it.
    pub(super) async fn paths(&self, peer: &str) -> Option<PathsStatus> {
        let request = Request::Path {
            peer: peer.to_owned(),
        };
        let asked = async {
            let client = Client::request(&self.socket, &request).await.ok()?;
            let picked = request::only(client, |reply| match reply {
                Reply::Paths(paths) => Some(*paths),
                _ => None,
            });
            picked.await.ok()
        };
        timeout(DOCTOR_ANSWER, asked).await.ok().flatten()
    }
}

/// Whether a file is there, and this user may read it.
fn readable(path: &Path) -> Read<()> {
    match File::open(path) {
        Ok(_) => Read::Is(()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Read::Absent,
            io::ErrorKind::PermissionDenied => Read::Forbidden,
            _ => Read::Wrong(format!("{}: {error}", path.display())),
        },
    }
}

fn membership(home: &Path) -> Read<Membership> {
    match readable(&home.join("state.db")) {
        Read::Absent => Read::Absent,
        Read::Forbidden => Read::Forbidden,
        Read::Wrong(reason) => Read::Wrong(reason),
        Read::Is(()) => match State::examine(home) {
            Ok(Some(membership)) => Read::Is(membership),
            Ok(None) => Read::Absent,
            Err(error) => Read::Wrong(error.to_string()),
        },
    }
}

fn config(home: &Path) -> Read<Config> {
    match readable(&home::config_path(home)) {
        Read::Absent => Read::Absent,
        Read::Forbidden => Read::Forbidden,
        Read::Wrong(reason) => Read::Wrong(reason),
        Read::Is(()) => match Config::load(home) {
            Ok(config) => Read::Is(config),
            Err(error) => Read::Wrong(error.to_string()),
        },
    }
}

/// The folder that was named, else one in the home, else that of the service.
fn authority(args: &CheckupArgs, context: &Context) -> Result<Option<AuthorityFound>, Failure> {
    let own = context.own_home()?.join("authority");
    let candidates = [own, PathBuf::from(SERVICE_AUTHORITY)];
    let there = |folder: &PathBuf| !matches!(readable(&folder.join("root.key")), Read::Absent);
    let named = args.dir.clone();
    let Some(folder) = named.or_else(|| candidates.into_iter().find(there)) else {
        return Ok(None);
    };
    let ring = match readable(&folder.join("root.key")) {
        Read::Absent => Read::Absent,
        Read::Forbidden => Read::Forbidden,
        Read::Wrong(reason) => Read::Wrong(reason),
        Read::Is(()) => match Authority::open(&folder) {
            Ok(authority) => Read::Is(authority.ring()),
            Err(error) => Read::Wrong(error.to_string()),
        },
    };
    Ok(Some(AuthorityFound { folder, ring }))
}

/// What the member's daemon says of itself.
async fn ask(socket: &Path) -> Daemon {
    let asked = async {
        let client = Client::request(socket, &Request::Status).await?;
        client.all().await
    };
    let replies = match timeout(DOCTOR_ANSWER, asked).await {
        Ok(Ok(replies)) => replies,
        Ok(Err(ClientError::NotRunning { .. })) => return Daemon::Stopped,
        Ok(Err(ClientError::NotPermitted { .. })) => return Daemon::Forbidden,
        Ok(Err(error)) => return Daemon::Silent(error.to_string()),
        Err(_) => {
            let seconds = DOCTOR_ANSWER.as_secs();
            return Daemon::Silent(format!("it did not answer within {seconds} s"));
        }
    };
    match replies.into_iter().next() {
        Some(Reply::Status(status)) => Daemon::Answers(status),
        _ => Daemon::Silent("it answered something else than was asked".to_owned()),
    }
}
