//! Namespaces and devices.
//!
//! ```text
//! base              middle              behind the line
//! BASE line0 ------ base   inner ------ line0 INNER
//!                     \     /
//!                   this program
//! ```
//!
//! The namespace in the middle has no addresses: nothing but this program sees frames there. It and
//! the one behind the line are held by threads, files and sockets only, so they go with this
//! process and its command.

use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::process::{Command, Stdio, id};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Failure;
use crate::device::Device;

/// The address of the base; those of a private network (RFC 1918), which are seen only in these
/// namespaces.
pub(crate) const BASE: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 1);
/// The address behind the line.
const INNER: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 2);

/// Addresses of the link layer, administered locally. Devices in the middle have others, so their
/// own kernel takes no frame for its own.
const BASE_LINK: &str = "02:00:00:00:02:01";
const INNER_LINK: &str = "02:00:00:00:02:02";

/// Longest packet: Ethernet's.
const MTU: u16 = 1500;

/// Devices that cut or checksum packets later than when they leave would let the line see packets
/// that no line carries.
const OFFLOADS: [&str; 7] = ["rx", "tx", "sg", "tso", "gso", "gro", "tx-udp-segmentation"];

/// What was laid.
#[derive(Debug)]
pub(crate) struct Laid {
    /// The line's end at the base.
    pub(crate) base: Device,
    /// Its end at the command.
    pub(crate) inner: Device,
    /// The namespace behind the line.
    pub(crate) behind: Namespace,
}

/// Makes everything but the rate, the delay and the queue.
pub(crate) fn lay() -> Result<Laid, Failure> {
    let behind = Namespace::new()?;
    let middle = Namespace::new()?;
    let process = id();
    let devices = format!(
        "link add base mtu {MTU} type veth peer name line0 address {BASE_LINK} mtu {MTU} netns /proc/{process}/ns/net\n\
         link add inner mtu {MTU} type veth peer name line0 address {INNER_LINK} mtu {MTU} netns /proc/{process}/fd/{}\n",
        behind.0.as_raw_fd(),
    );
    let (base, inner) = middle.enter(move || {
        ip(&devices)?;
        let open =
            |name| Device::open(name).map_err(|error| Failure::of("a packet socket", &error));
        let devices = (open("base")?, open("inner")?);
        let up = |name| format!("{}link set {name} up\n", without_ipv6(name));
        ip(&format!("{}{}", up("base"), up("inner")))?;
        Ok(devices)
    })?;
    behind.enter(|| {
        configure(
            INNER,
            BASE,
            BASE_LINK,
            "link set lo up\n",
            &format!("route add default via {BASE}\n"),
        )
    })?;
    configure(BASE, INNER, INNER_LINK, "", "")?;
    Ok(Laid {
        base,
        inner,
        behind,
    })
}

/// Makes this namespace's end ready. Neighbours are known, so that the first packet does not wait
/// for ARP and no other one meets it.
fn configure(
    own: Ipv4Addr,
    other: Ipv4Addr,
    other_link: &str,
    before: &str,
    after: &str,
) -> Result<(), Failure> {
    let offloads = OFFLOADS.iter().flat_map(|name| [*name, "off"]);
    run(
        Command::new("ethtool").args(["-K", "line0"]).args(offloads),
        "",
    )?;
    let no_ipv6 = without_ipv6("line0");
    ip(&format!(
        "{before}{no_ipv6}\
         link set line0 up\n\
         address add {own} peer {other} dev line0\n\
         neighbour add {other} lladdr {other_link} dev line0 nud permanent\n\
         {after}"
    ))
}

/// Lets a device have no IPv6 address of its own making: packets at the start (RFC 4861, RFC 9777)
/// are none of the measurement's.
///
/// Not by `disable_ipv6`: a write to it tries again and again while somebody else configures
/// devices, and with a real-time priority it never lets those finish who share its processor.
fn without_ipv6(device: &str) -> String {
    match Path::new("/proc/sys/net/ipv6").exists() {
        true => format!("link set {device} addrgenmode none\n"),
        false => String::new(),
    }
}

fn ip(script: &str) -> Result<(), Failure> {
    run(Command::new("ip").args(["-batch", "-"]), script)
}

/// Runs a program of the system to its end.
fn run(command: &mut Command, input: &str) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| Failure::of(&name, &error);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    Err(Failure::Failed(format!(
        "{name}: {}: {first}",
        output.status
    )))
}

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    fn new() -> Result<Namespace, Failure> {
        let made = on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        made.map(Namespace)
            .map_err(|error| Failure::of("making a network namespace", &error))
    }

    /// Does something there, on a thread of its own: this one stays where it is.
    pub(crate) fn enter<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        on_thread(|| {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| Failure::of("entering a network namespace", &error.into()))?;
            work()
        })
    }
}

/// Runs on a thread that ends with it.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
