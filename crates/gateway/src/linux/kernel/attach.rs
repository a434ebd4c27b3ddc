//! Where the connection cache stands at an interface: in its driver (XDP), or behind it at tc's
//! ingress.
//!
//! In the driver a new connection that matches a blocked one costs least. But some drivers give up
//! offloads for it, which costs all other traffic far more than a reconnection flood; and what is
//! virtual has no driver that is worth it. So the interface's features are compared: where one
//! goes with the program, the program goes.

use std::path::{Path, PathBuf};

use aya::programs::ProgramInfo;

use super::{KernelError, REFUSE_EARLY, ingress};
use crate::linux::border::number;
use crate::linux::tool::{IP, Tool, ToolError};

/// What `ethtool -k` says of an interface that takes tags off before its driver's program has the
/// frame.
const TAGS_TAKEN_OFF: &str = "rx-vlan-offload: on";
const ETHTOOL: Tool = Tool {
    name: "ethtool",
    package: "ethtool",
};

/// Where the connection cache is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachPoint {
    /// In drivers that keep their offloads, elsewhere behind them.
    #[default]
    Auto,
    /// Behind the driver, at tc's ingress.
    Tc,
    /// In the driver, whatever that costs.
    Xdp,
}

/// Where it is at one interface.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AttachedAt {
    /// The interface.
    pub interface: String,
    /// `xdp`: in its driver; `tc`: behind it; `filter`: not before the packet filter, which
    /// refuses by its own program if there is one.
    pub at: &'static str,
    /// It stands there while somebody is blocked only.
    #[serde(skip)]
    pub(super) while_needed: bool,
    /// Why it is not further to the front; `None`: it is where it is wanted.
    pub why: Option<String>,
}

/// Puts the cache at an interface whose driver has none of ours any more. `late`: why the kernel
/// has no program for drivers.
pub(super) fn put(
    interface: &str,
    programs: &Path,
    point: AttachPoint,
    late: Option<&str>,
) -> Result<AttachedAt, KernelError> {
    let placed = |at, why| AttachedAt {
        interface: interface.to_owned(),
        at,
        while_needed: false,
        why,
    };
    if number(interface).is_none() {
        // Whether it will have a driver or frames is not known; the packet filter refuses there.
        let why = "it was not there yet".to_owned();
        return Ok(placed("filter", Some(why)));
    }
    if !has_frames(interface) {
        let why = "its packets have no Ethernet header to look behind".to_owned();
        if point == AttachPoint::Xdp {
            return Err(KernelError::Refused(REFUSE_EARLY, why));
        }
        ingress::take_out(interface, &[programs.to_owned()])?;
        return Ok(placed("filter", Some(why)));
    }
    let early = match (point, late) {
        (AttachPoint::Tc, _) => Err(None),
        (_, Some(late)) => Err(Some(late.to_owned())),
        (AttachPoint::Xdp, None) => {
            attach_xdp(interface, programs).map_err(|error| Some(error.to_string()))
        }
        (AttachPoint::Auto, None) => try_xdp(interface, programs).map_err(Some),
    };
    match early {
        Ok(()) => {
            ingress::take_out(interface, &[programs.to_owned()])?;
            Ok(placed("xdp", None))
        }
        Err(Some(why)) if point == AttachPoint::Xdp => Err(KernelError::Refused(REFUSE_EARLY, why)),
        Err(why) => {
            // Where the kernel has lists, it is put in and taken out at no cost.
            let while_needed = ingress::has_list(interface);
            if !while_needed {
                ingress::take(interface, programs)?;
            }
            Ok(AttachedAt {
                while_needed,
                ..placed("tc", why)
            })
        }
    }
}

/// Whether what comes by an interface begins with an Ethernet header: not by a tunnel or a dialled
/// line.
fn has_frames(interface: &str) -> bool {
    /// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK` of `linux/if_arp.h`.
    const WITH_HEADER: [&str; 2] = ["1", "772"];
    let file = Path::new("/sys/class/net").join(interface).join("type");
    // An interface that is not there any more is refused by tc.
    std::fs::read_to_string(file).map_or(true, |kind| WITH_HEADER.contains(&kind.trim()))
}

/// Puts it into the driver, if that keeps its offloads.
fn try_xdp(interface: &str, programs: &Path) -> Result<(), String> {
    let device = Path::new("/sys/class/net").join(interface).join("device");
    if !device.exists() {
        return Err("it is virtual, and has no driver of its own".to_owned());
    }
    let text = |error: ToolError| error.to_string();
    let before = ETHTOOL.run(&["-k", interface], "").map_err(text)?;
    if before.contains(TAGS_TAKEN_OFF) {
        return Err("it takes VLANs' tags off, and the program could not tell them".to_owned());
    }
    attach_xdp(interface, programs).map_err(text)?;
    let after = ETHTOOL.run(&["-k", interface], "");
    // Lost offloads cost all traffic more than early refusals save, so the program goes then.
    let lost = match after {
        Ok(after) => lost(&before, &after),
        Err(error) => vec![error.to_string()],
    };
    if lost.is_empty() {
        return Ok(());
    }
    detach_xdp(interface, &[programs.to_owned()]).map_err(text)?;
    Err(format!("its driver gives up {} for it", lost.join(", ")))
}

/// What was on and is not any more, of what `ethtool -k` lists.
fn lost(before: &str, after: &str) -> Vec<String> {
    let on = |listed: &str| -> Vec<String> {
        let lines = listed.lines().filter_map(|line| line.split_once(": on"));
        lines.map(|(name, _)| name.trim().to_owned()).collect()
    };
    let after = on(after);
    let mut before = on(before);
    before.retain(|name| !after.contains(name));
    before
}

fn attach_xdp(interface: &str, programs: &Path) -> Result<(), ToolError> {
    let path = programs.join(REFUSE_EARLY).display().to_string();
    // Somebody else's stays: the kernel refuses without -force.
    let set = ["link", "set", "dev", interface, "xdpdrv", "pinned", &path];
    IP.run(&set, "").map(drop)
}

/// Takes ours out of an interface's driver: what is pinned in one of these folders, or has our
/// program's name. `ip` sees names only with CAP_SYS_ADMIN.
pub(super) fn detach_xdp(interface: &str, folders: &[PathBuf]) -> Result<(), ToolError> {
    if number(interface).is_none() {
        // What was at it has gone with it.
        return Ok(());
    }
    let show = ["-details", "link", "show", "dev", interface];
    let Some(shown) = IP.run_if_there(&show)? else {
        return Ok(());
    };
    let Some((_, program)) = shown.split_once("prog/xdp id ") else {
        return Ok(());
    };
    let id = program.split(' ').next().and_then(|id| id.parse().ok());
    let is_pinned = |folder: &PathBuf| {
        let pinned = ProgramInfo::from_pin(folder.join(REFUSE_EARLY));
        pinned.is_ok_and(|pinned| Some(pinned.id()) == id)
    };
    let ours = program.contains(&format!(" name {REFUSE_EARLY} ")) || folders.iter().any(is_pinned);
    if ours {
        IP.run(&["link", "set", "dev", interface, "xdpdrv", "off"], "")?;
    }
    Ok(())
}

/// Takes ours off an interface, in its driver and behind it, and the hook with it if no other
/// program uses that. `bpffs`: where the bpf file system is.
///
/// # Errors
/// tc or ip refuses; where they are missing there is nothing to take off.
pub fn unhook(interface: &str, bpffs: &Path) -> Result<(), ToolError> {
    if !Path::new("/sys/class/net").join(interface).exists() {
        // What was at it has gone with it.
        return Ok(());
    }
    let folders = super::folders(bpffs);
    let early = detach_xdp(interface, &folders);
    ingress::take_out(interface, &folders).and(early)
}

#[cfg(test)]
mod tests {
    use super::lost;

    #[test]
    fn what_a_driver_gives_up_is_named() {
        let before = "Features for eth0:\nrx-checksumming: on\n\ttx-tcp-segmentation: on\n\
            large-receive-offload: on\ntx-gso-robust: off [fixed]\n";
        let after = before
            .replace(
                "large-receive-offload: on",
                "large-receive-offload: off [requested on]",
            )
            .replace("tx-tcp-segmentation: on", "tx-tcp-segmentation: off");
        assert_eq!(
            lost(before, &after),
            ["tx-tcp-segmentation", "large-receive-offload"]
        );
        assert!(lost(before, before).is_empty());
    }
}
