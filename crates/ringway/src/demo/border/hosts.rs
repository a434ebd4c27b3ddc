//! The three hosts: this process is the gateway, and client and server are a thread each in a
//! network of its own.

use std::sync::mpsc::{Receiver, Sender, channel};

use ringway_gateway::linux::namespaces::leave_network;
use ringway_gateway::linux::tool::{IP, ToolError};
use rustix::thread::gettid;

use super::message::Stop;

/// The client's address, inside.
pub(super) const CLIENT: &str = "10.66.0.2";
/// The server's, outside.
pub(super) const SERVER: &str = "198.51.100.9";
/// The gateway's interface towards the client.
pub(super) const INSIDE: &str = "lan0";
/// And towards the server.
pub(super) const OUTSIDE: &str = "wan0";
/// The gateway's address inside.
const GATEWAY_INSIDE: &str = "10.66.0.1";
/// The gateway's address outside.
const GATEWAY_OUTSIDE: &str = "198.51.100.1";
/// The interface of client and server.
const ONLY: &str = "eth0";

type Work = Box<dyn FnOnce() + Send>;

/// A host with a network of its own; what it does runs in its thread, and so do threads that it
/// starts.
#[derive(Debug)]
pub(super) struct Host {
    work: Sender<Work>,
    thread: i32,
}

/// All three, connected.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) client: Host,
    pub(super) server: Host,
}

impl Host {
    fn start() -> Result<Host, Stop> {
        let (work, todo) = channel::<Work>();
        let (said, heard) = channel();
        std::thread::spawn(move || {
            let left = leave_network().map(|()| gettid().as_raw_nonzero().get());
            // Who started it waits for that.
            let told = said.send(left).is_ok();
            while let (true, Ok(work)) = (told, todo.recv()) {
                work();
            }
        });
        let left = heard
            .recv()
            .unwrap_or_else(|gone| Err(std::io::Error::other(gone)));
        let thread = left.map_err(|error| {
            Stop::Missing(format!("a second network namespace was refused: {error}"))
        })?;
        Ok(Host { work, thread })
    }

    /// Begins something on it; what comes of it is received later.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (said, heard) = channel();
        // A host that is gone, and one who does not wait any more, show at the other end.
        let work = Box::new(move || drop(said.send(work())));
        drop(self.work.send(work));
        heard
    }

    /// Does something on it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stop> {
        let done = self.begin(work).recv();
        done.map_err(|_| Stop::Failed("a host of the demo's border is gone".to_owned()))
    }

    /// Gives it its address, and sends all else to the gateway.
    fn set_up(&self, address: &'static str, gateway: &'static str) -> Result<(), Stop> {
        let address = format!("{address}/24");
        let set = self.run(move || {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["address", "add", &address, "dev", ONLY])?;
            ip(&["link", "set", ONLY, "up"])?;
            ip(&["route", "add", "default", "via", gateway])
        })?;
        set.map_err(cannot)
    }
}

impl Hosts {
    /// Lays it all out around this process, which is in a network of its own already.
    pub(super) fn lay() -> Result<Hosts, Stop> {
        let (client, server) = (Host::start()?, Host::start()?);
        ip(&["link", "set", "lo", "up"]).map_err(cannot)?;
        for (own, address, host) in [
            (INSIDE, GATEWAY_INSIDE, &client),
            (OUTSIDE, GATEWAY_OUTSIDE, &server),
        ] {
            let (thread, address) = (host.thread.to_string(), format!("{address}/24"));
            let pair = ["link", "add", "name", own, "type", "veth", "peer"];
            let peer = ["name", ONLY, "netns", thread.as_str()];
            ip(&[pair.as_slice(), &peer].concat()).map_err(|error| {
                let why = format!("no pair of interfaces (veth) can be made: {error}");
                Stop::Missing(format!(
                    "{why}; `sudo modprobe veth` mends it where it is a module"
                ))
            })?;
            ip(&["address", "add", &address, "dev", own]).map_err(cannot)?;
            ip(&["link", "set", own, "up"]).map_err(cannot)?;
        }
        client.set_up(CLIENT, GATEWAY_INSIDE)?;
        server.set_up(SERVER, GATEWAY_OUTSIDE)?;
        let forwards = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        forwards.map_err(|error| {
            Stop::Missing(format!(
                "/proc/sys cannot be written here (ip_forward): {error}"
            ))
        })?;
        Ok(Hosts { client, server })
    }
}

fn ip(arguments: &[&str]) -> Result<(), ToolError> {
    IP.run(arguments, "").map(drop)
}

fn cannot(error: ToolError) -> Stop {
    Stop::Missing(format!("the border's network cannot be laid out: {error}"))
}
