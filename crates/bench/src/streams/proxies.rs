//! Plain TCP proxies, of those that are installed.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringway_terminal::{Failure, Output};
use ringway_testbed::{free_port, wait_until};
use tempfile::TempDir;

use super::failed;

/// How long one may take to listen.
const UP: Duration = Duration::from_secs(20);

/// A running proxy; it ends with this.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    child: Child,
    _folder: Option<TempDir>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Proxy {
    /// Those that this machine has; of the others a line is said.
    pub(super) fn all(output: Output, to: SocketAddr) -> Result<Vec<Proxy>, Failure> {
        let mut all = Vec::new();
        for start in [Proxy::socat, Proxy::haproxy] {
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
        Proxy::start("socat", command, port, None)
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
        Proxy::start("HAProxy", command, port, Some(folder))
    }

    fn start(
        name: &'static str,
        mut command: Command,
        port: u16,
        folder: Option<TempDir>,
    ) -> Result<Result<Proxy, String>, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = match command.stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(format!("{name}: {error}"))),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let proxy = Proxy {
            name,
            address,
            child,
            _folder: folder,
        };
        let up = wait_until(UP, || {
            let tried = std::net::TcpStream::connect(address);
            tried.map_err(|error| ringway_testbed::TestbedError(error.to_string()))
        });
        up.map_err(|error| failed(format_args!("{name}: {error}")))?;
        Ok(Ok(proxy))
    }
}
