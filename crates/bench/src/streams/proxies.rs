//! Plain TCP proxies, and dumbpipe, which encrypts as we do; of those that are installed.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringway_terminal::{Failure, Output};
use ringway_testbed::{TestbedError, free_port, wait_until};
use tempfile::TempDir;

use super::failed;

/// How long one may take to listen.
const UP: Duration = Duration::from_secs(20);

/// A running proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    _children: Children,
    _folder: Option<TempDir>,
}

/// Programs that end with this.
#[derive(Debug, Default)]
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Proxy {
    /// Those that this machine has; of the others a line is said.
    pub(super) fn all(output: Output, to: SocketAddr) -> Result<Vec<Proxy>, Failure> {
        let mut all = Vec::new();
        for start in [Proxy::socat, Proxy::haproxy, Proxy::dumbpipe] {
            match start(to)? {
                Ok(proxy) => all.push(proxy),
                Err(missing) => output.note(&format!("left out: {missing}")),
            }
        }
        Ok(all)
    }

    fn socat(to: SocketAddr) -> Result<Result<Proxy, String>, Failure> {
        let port = free_port().map_err(failed)?;
        let mut command = Command::new("socat");
        command.args(["-b", "131072"]);
        command.arg(format!("TCP-LISTEN:{port},fork,reuseaddr,bind=127.0.0.1"));
        command.arg(format!("TCP:{to}"));
        Proxy::start("socat", Children::default(), command, port, None)
    }

    fn haproxy(to: SocketAddr) -> Result<Result<Proxy, String>, Failure> {
        let port = free_port().map_err(failed)?;
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\
             listen sink\n  bind 127.0.0.1:{port}\n  server sink {to}\n"
        );
        std::fs::write(&file, text).map_err(failed)?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        Proxy::start("HAProxy", Children::default(), command, port, Some(folder))
    }

    /// A pair of dumbpipes: TCP in, one QUIC connection between them, TCP out.
    fn dumbpipe(to: SocketAddr) -> Result<Result<Proxy, String>, Failure> {
        // It looks for its makers' relays, and nothing of a benchmark leaves the machine.
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        if routes.lines().count() > 1 {
            return Ok(Err(
                "dumbpipe: it asks relays of its makers; measure in a network namespace without routes"
                    .to_owned(),
            ));
        }
        let folder = tempfile::tempdir().map_err(failed)?;
        let said = folder.path().join("said");
        let log = std::fs::File::create(&said).map_err(failed)?;
        let mut listener = Command::new("dumbpipe");
        listener.args(["listen-tcp", "--host", &to.to_string()]);
        listener.stdin(Stdio::null()).stdout(Stdio::null());
        let listener = match listener.stderr(log).spawn() {
            Ok(child) => Children(vec![child]),
            Err(error) => return Ok(Err(format!("dumbpipe: {error}"))),
        };
        let ticket = wait_until(UP, || {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            let ticket = said.split("dumbpipe connect-tcp ").nth(1);
            let ticket = ticket.and_then(|rest| rest.split_whitespace().next());
            ticket
                .map(str::to_owned)
                .ok_or_else(|| TestbedError(format!("dumbpipe says no ticket: {said}")))
        });
        let port = free_port().map_err(failed)?;
        let mut command = Command::new("dumbpipe");
        command.args(["connect-tcp", "--addr", &format!("127.0.0.1:{port}")]);
        command.arg(ticket.map_err(failed)?);
        Proxy::start("dumbpipe", listener, command, port, Some(folder))
    }

    fn start(
        name: &'static str,
        mut children: Children,
        mut command: Command,
        port: u16,
        folder: Option<TempDir>,
    ) -> Result<Result<Proxy, String>, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match command.stderr(Stdio::null()).spawn() {
            Ok(child) => children.0.push(child),
            Err(error) => return Ok(Err(format!("{name}: {error}"))),
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let proxy = Proxy {
            name,
            address,
            _children: children,
            _folder: folder,
        };
        let up = wait_until(UP, || {
            let tried = std::net::TcpStream::connect(address);
            tried.map_err(|error| TestbedError(error.to_string()))
        });
        up.map_err(|error| failed(format_args!("{name}: {error}")))?;
        Ok(Ok(proxy))
    }
}
