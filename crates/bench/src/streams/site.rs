//! A ring of `oslo`, which offers services, and `lima`, which uses them. Both run the program, as
//! its users do.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringway_terminal::Failure;
use ringway_testbed::{
    Host, Line, Network, Program, Ring, RingBuilder, TestbedError, free_port, wait_until,
};

use super::failed;
use super::servers::{echo, greet, greeted, start};
use crate::limits::RING_WAIT;

/// Bytes of a transfer after which it has found its speed.
const FOUND_SPEED: u64 = 4 << 20;

/// The ring and the hosts that it is on, if they are others than this machine.
#[derive(Debug)]
pub(super) struct Site {
    ring: Ring,
    lima: Option<Host>,
    _network: Option<Network>,
}

/// `ringway forward`; it ends with this.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) address: SocketAddr,
    child: Child,
}

impl Drop for Forward {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn program() -> Result<Program, Failure> {
    Ok(Program::new(&crate::program::ringway()?))
}

/// Starts both members, of which oslo offers these.
fn started(builder: RingBuilder, services: &[(&str, SocketAddr)]) -> Result<Ring, Failure> {
    let mut text = String::new();
    for (name, address) in services {
        // Writing to a string does not fail.
        write!(
            text,
            "[[service]]\nname = \"{name}\"\nto = \"{address}\"\nfrom = [\"lima\"]\n"
        )
        .ok();
    }
    let mut ring = builder.start().map_err(failed)?;
    for (name, more) in [("oslo", text.as_str()), ("lima", "")] {
        let member = ring.member_mut(name).map_err(failed)?;
        let transports = "[\"udp\", \"tcp\", \"quic\"]";
        member.configure(transports, more).map_err(failed)?;
        member.start().map_err(failed)?;
    }
    ring.wait_until_settled().map_err(failed)?;
    Ok(ring)
}

impl Site {
    /// All on this machine.
    pub(super) fn on_loopback(services: &[(&str, SocketAddr)]) -> Result<Site, Failure> {
        let builder = RingBuilder::new(program()?);
        let builder = builder.absent_router("oslo").absent_router("lima");
        Ok(Site {
            ring: started(builder, services)?,
            lima: None,
            _network: None,
        })
    }

    /// Each on a host of its own, with such a cable to a switch. `services`: `echo`, `greeting`.
    pub(super) fn over(line: Line, services: &[&str]) -> Result<Site, Failure> {
        Network::available().map_err(failed)?;
        let mut network = Network::new().map_err(failed)?;
        let switch = network.switch("switch").map_err(failed)?;
        let mut hosts = Vec::new();
        for (label, number) in ["owner", "oslo", "lima"].into_iter().zip(1..) {
            let host = network.host(label).map_err(failed)?;
            let address = format!("10.77.0.{number}/24");
            let laid = network.attach(&host, &switch, &address, &line);
            laid.map_err(failed)?;
            hosts.push(host);
        }
        let [owner, oslo, lima] = hosts.as_slice() else {
            return Err(failed("the benchmark has three hosts"));
        };
        let mut offered = Vec::new();
        for name in services {
            let serve = if *name == "echo" { echo } else { greet };
            offered.push((*name, start(Some(oslo), serve)?));
        }
        let builder = RingBuilder::new(program()?).authority_on(owner);
        let builder = builder.absent_router("oslo").on(oslo);
        let builder = builder.absent_router("lima").on(lima);
        Ok(Site {
            ring: started(builder, &offered)?,
            lima: Some(lima.clone()),
            _network: Some(network),
        })
    }

    /// Does something on lima's host.
    pub(super) fn on_lima<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        match &self.lima {
            Some(host) => host.enter(work).map_err(failed),
            None => Ok(work()),
        }
    }

    /// A forward of lima's.
    pub(super) fn forward(&self, to: &str) -> Result<Forward, Failure> {
        let port = free_port().map_err(failed)?;
        let member = self.ring.member("lima").map_err(failed)?;
        let executable = crate::program::ringway()?;
        let mut command = match &self.lima {
            Some(host) => host.command(executable),
            None => Command::new(executable),
        };
        command.arg("--home").arg(&member.home);
        command.args(["forward", &port.to_string(), to]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().map_err(failed)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let forward = Forward { address, child };
        let up = wait_until(RING_WAIT, || {
            let tried = self.on_lima(|| TcpStream::connect(address));
            let tried = tried.map_err(|failure| TestbedError(failure.message().to_owned()))?;
            tried.map_err(|error| TestbedError(error.to_string()))
        });
        up.map_err(failed)?;
        Ok(forward)
    }

    /// Makes the connection that later streams use, and leaves it time to find its way.
    pub(super) fn warm(&self, forward: &Forward) -> Result<(), Failure> {
        let up = wait_until(RING_WAIT, || {
            let member = self.ring.member("lima")?;
            let services = member.call(&["services", "oslo"])?;
            (!services.is_empty())
                .then_some(())
                .ok_or_else(|| TestbedError("no services".to_owned()))
        });
        up.map_err(failed)?;
        drop(self.on_lima(|| TcpStream::connect(forward.address))?);
        std::thread::sleep(Duration::from_secs(15));
        Ok(())
    }

    /// How long the service's first byte takes.
    pub(super) fn first_byte(&self, forward: &Forward) -> Result<Duration, Failure> {
        self.on_lima(|| greeted(forward.address))?
    }

    /// A transfer at priority 0 from lima to oslo that has found its speed.
    pub(super) fn fill(&self, size: usize) -> Result<(), Failure> {
        let file = self.ring.folder().join("bulk");
        std::fs::write(&file, vec![7; size]).map_err(failed)?;
        let lima = self.ring.member("lima").map_err(failed)?;
        let file = file.display().to_string();
        let words = ["send", &file, "oslo", "--priority", "0", "--detach"];
        lima.call(&words).map_err(failed)?;
        let flows = wait_until(RING_WAIT, || {
            let sent = self
                .transferred()
                .map_err(|failure| TestbedError(failure.message().to_owned()))?;
            (sent > FOUND_SPEED)
                .then_some(())
                .ok_or_else(|| TestbedError(format!("{sent} bytes are sent")))
        });
        flows.map_err(failed)
    }

    /// Bytes that lima's transfers have sent.
    pub(super) fn transferred(&self) -> Result<u64, Failure> {
        let lima = self.ring.member("lima").map_err(failed)?;
        let transfers = lima.call(&["transfers"]).map_err(failed)?;
        Ok(transfers.iter().filter_map(|it| it["bytes"].as_u64()).sum())
    }
}
