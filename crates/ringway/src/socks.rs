//! A SOCKS5 proxy (RFC 1928) whose hosts are members: only services that they offer are reached.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ringway_node::control::{AskedPriority, ServiceStatus};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::context::Context;
use crate::request;
use crate::streams::{Destination, services_of};
use ringway_terminal::Failure;

/// How long a client may take to say what it wants.
const ASKS: Duration = Duration::from_secs(10);

/// How long the list of a member's services is used again.
const LISTED: Duration = Duration::from_secs(10);

/// Members whose lists are kept.
const LISTS: usize = 256;

/// Replies, RFC 1928 §6.
mod reply {
    pub(super) const DONE: u8 = 0;
    pub(super) const NOT_ALLOWED: u8 = 2;
    pub(super) const HOST_UNREACHABLE: u8 = 4;
    pub(super) const COMMAND: u8 = 7;
    pub(super) const ADDRESS_TYPE: u8 = 8;
}

/// What the proxy knows.
#[derive(Debug)]
pub(crate) struct Socks {
    socket: PathBuf,
    /// Domain of the ring.
    ring: String,
    priority: Option<AskedPriority>,
    lists: Mutex<HashMap<String, (Instant, Vec<ServiceStatus>)>>,
}

impl Socks {
    pub(crate) async fn new(
        context: &Context,
        priority: Option<AskedPriority>,
    ) -> Result<Socks, Failure> {
        let status = request::status(context).await?;
        Ok(Socks {
            socket: context.socket()?,
            ring: status.ring,
            priority,
            lists: Mutex::default(),
        })
    }

    async fn services(&self, peer: &str) -> Result<Vec<ServiceStatus>, Failure> {
        let lists = || {
            self.lists
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        if let Some((at, all)) = lists().get(peer)
            && at.elapsed() < LISTED
        {
            return Ok(all.clone());
        }
        let all = services_of(&self.socket, Some(peer.to_owned())).await?;
        let mut lists = lists();
        if lists.len() >= LISTS {
            lists.clear();
        }
        lists.insert(peer.to_owned(), (Instant::now(), all.clone()));
        Ok(all)
    }

    /// The service that a host and a port stand for.
    async fn find(&self, host: &str, port: u16) -> Result<Destination, Failure> {
        let (service, peer) = split(host, &self.ring);
        let offered = self.services(&peer).await?;
        let fits = |it: &&ServiceStatus| match &service {
            Some(name) => it.name == *name,
            None => it.port == Some(port) && it.protocol != "udp",
        };
        let found = offered.iter().find(fits).map(|it| it.name.clone());
        let service = found.ok_or_else(|| {
            let what = service.map_or_else(
                || format!("at port {port}"),
                |service| format!("`{service}`"),
            );
            Failure::usage(format_args!(
                "`{peer}` offers no service {what} to this member: `ringway services {peer}` lists what it offers"
            ))
        })?;
        Ok(Destination {
            socket: self.socket.clone(),
            peer,
            service,
            priority: self.priority.clone(),
        })
    }
}

/// A service by its name, if the host says one, and the member.
fn split(host: &str, ring: &str) -> (Option<String>, String) {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let own = host
        .strip_suffix(&ring.to_ascii_lowercase())
        .and_then(|rest| rest.strip_suffix('.'));
    let host = own.unwrap_or(&host);
    match host.rsplit_once('.') {
        Some((service, peer)) => (Some(service.to_owned()), peer.to_owned()),
        None => (None, host.to_owned()),
    }
}

/// Serves one client.
pub(crate) async fn serve(mut stream: TcpStream, proxy: &Socks) -> Result<(), Failure> {
    stream.set_nodelay(true).ok();
    let asked = timeout(ASKS, ask(&mut stream)).await;
    let (host, port) = match asked {
        Ok(Ok(Some(asked))) => asked,
        // It is no client, or has been told so.
        _ => return Ok(()),
    };
    let destination = match proxy.find(&host, port).await {
        Ok(destination) => destination,
        Err(failure) => {
            let code = match &failure {
                Failure::Usage(_) => reply::NOT_ALLOWED,
                _ => reply::HOST_UNREACHABLE,
            };
            say(&mut stream, code).await.ok();
            return Err(failure);
        }
    };
    match destination.open().await {
        Ok(open) => {
            if say(&mut stream, reply::DONE).await.is_ok() {
                let (from, into) = stream.into_split();
                // What breaks a connection is for its ends to see.
                open.join(from, into, false).await.ok();
            }
            Ok(())
        }
        Err(failure) => {
            say(&mut stream, reply::HOST_UNREACHABLE).await.ok();
            Err(failure)
        }
    }
}

/// What a client wants; none if it was refused.
async fn ask(stream: &mut TcpStream) -> std::io::Result<Option<(String, u16)>> {
    if stream.read_u8().await? != 5 {
        return Ok(None);
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Ok(None);
    }
    stream.write_all(&[5, 0]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != 5 {
        return Ok(None);
    }
    if command != 1 {
        say(stream, reply::COMMAND).await?;
        return Ok(None);
    }
    // Members have names, and addresses are none of theirs.
    if kind != 3 {
        say(stream, reply::ADDRESS_TYPE).await?;
        return Ok(None);
    }
    let mut host = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut host).await?;
    let port = stream.read_u16().await?;
    let host = String::from_utf8_lossy(&host).into_owned();
    Ok(Some((host, port)))
}

async fn say(stream: &mut TcpStream, code: u8) -> std::io::Result<()> {
    stream.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_name_members_and_services() {
        let named = |host: &str| split(host, "Ring.test");
        let oslo = || "oslo".to_owned();
        for host in ["oslo", "OSLO.", "oslo.ring.test", "oslo.ring.test."] {
            assert_eq!(named(host), (None, oslo()), "{host}");
        }
        for host in ["db.1.oslo", "db.1.oslo.ring.test"] {
            assert_eq!(named(host), (Some("db.1".to_owned()), oslo()), "{host}");
        }
    }
}
