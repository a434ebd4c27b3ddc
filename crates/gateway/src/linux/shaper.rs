//! Classes of bandwidth: a tree of HTB at each interface of the border, so that both directions are
//! shaped where they leave.
//!
//! What is in no class passes beside the tree as if it were not there. An interface that already
//! has a queueing discipline of somebody's own is left alone, and said so. Each class ends in the
//! best [`Leaf`] that the kernel has.

mod leaf;
mod trial;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

pub(super) use self::leaf::share_id;
pub use self::leaf::{Leaf, Side};
use self::leaf::{Place, share, share_priority};
pub use self::trial::{Lack, Leaves, leaves};
use super::tool::{Tool, ToolError};
use crate::policy::Class;

pub(super) const TC: Tool = Tool {
    name: "tc",
    package: "iproute2",
};
/// The tree's handle, which distinguishes it from others'.
const HANDLE: &str = "7a11";
const HANDLE_NUMBER: u32 = 0x7a11;
const FIRST_MINOR: usize = 0x10;
/// Bytes of the longest packet where the interface does not say: Ethernet's.
const USUAL_MTU: u64 = 1_500;

/// Why bandwidth cannot be shaped.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Somebody else shapes there.
    #[error(
        "interface {0} has a queueing discipline of its own ({1}); the gateway does not replace it: \
         take it off, or leave classes out of the policy"
    )]
    Taken(String, String),
}

/// The class's name for tc and iptables.
pub(super) fn class_id(class: usize) -> String {
    format!("{HANDLE}:{:x}", class.saturating_add(FIRST_MINOR))
}

/// Puts classes in force. Which leaf they have is found out by the first that is put anywhere, and
/// holds for all that follow; clones know it too.
#[derive(Clone, Debug, Default)]
pub struct Shaper {
    leaf: Arc<OnceLock<Leaf>>,
}

impl Shaper {
    /// The leaf that classes have; `None` until the first was put in force.
    #[must_use]
    pub fn leaf(&self) -> Option<Leaf> {
        self.leaf.get().copied()
    }

    /// The priority that puts a socket's packets into the class: HTB takes one that is a class's
    /// number for its choice (tc-htb(8)). `inside`: the host whose connection it is.
    pub(super) fn priority(&self, class: usize, inside: IpAddr) -> u32 {
        if self.leaf() == Some(Leaf::Shares) {
            return share_priority(class, share(inside));
        }
        let minor = u32::try_from(class.saturating_add(FIRST_MINOR)).unwrap_or(0);
        (HANDLE_NUMBER << 16) | minor
    }

    /// Puts the classes in force at an interface, in place of any that an earlier run left.
    ///
    /// # Errors
    /// tc is missing or refuses, or the interface has a queueing discipline of its own.
    pub fn set_up(
        &self,
        interface: &str,
        side: Side,
        classes: &[Class],
    ) -> Result<(), ShaperError> {
        take_down(interface)?;
        let shown = TC.run(&["qdisc", "show", "dev", interface, "root"], "")?;
        if let Some(own) = somebodys(&shown) {
            return Err(ShaperError::Taken(interface.to_owned(), own));
        }
        let place = Place {
            interface,
            side,
            mtu: mtu(interface),
        };
        if let Some(leaf) = self.leaf() {
            TC.run(&["-batch", "-"], &tree(&place, leaf, classes))?;
            return Ok(());
        }
        let leaf = best(&place, classes)?;
        // Another thread that was faster has found the same.
        self.leaf.set(leaf).ok();
        Ok(())
    }
}

/// Puts the classes in force with the first leaf that the kernel takes, and returns which it is. A
/// kernel does not say what it has; modules are loaded by being asked for.
fn best(place: &Place<'_>, classes: &[Class]) -> Result<Leaf, ToolError> {
    let mut refused = None;
    for leaf in Leaf::ORDER {
        match TC.run(&["-batch", "-"], &tree(place, leaf, classes)) {
            Ok(_) => return Ok(leaf),
            Err(error) => {
                tracing::debug!(leaf = leaf.name(), %error, "classes cannot have this leaf");
                // What stands of it.
                take_down(place.interface)?;
                refused = Some(error);
            }
        }
    }
    // The plainest one is refused where there are no classes at all.
    Err(refused.unwrap_or(ToolError::Missing(TC.name, TC.package)))
}

/// Bytes of the longest packet of an interface.
fn mtu(interface: &str) -> u64 {
    let file = std::path::Path::new("/sys/class/net")
        .join(interface)
        .join("mtu");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL_MTU)
}

/// Takes our classes off an interface, if they are there. Where there is no tc there are none of
/// ours.
///
/// # Errors
/// tc refuses.
pub fn take_down(interface: &str) -> Result<(), ToolError> {
    if stands(interface)? == Some(true) {
        let handle = format!("{HANDLE}:");
        TC.run(
            &["qdisc", "del", "dev", interface, "root", "handle", &handle],
            "",
        )?;
    }
    Ok(())
}

/// Whether our classes are at an interface; `None` where there is no such interface, and where
/// there is no tc.
///
/// # Errors
/// tc refuses.
pub fn stands(interface: &str) -> Result<Option<bool>, ToolError> {
    if !std::path::Path::new("/sys/class/net")
        .join(interface)
        .exists()
    {
        // What was at it has gone with it.
        return Ok(None);
    }
    let shown = TC.run_if_there(&["qdisc", "show", "dev", interface, "root"])?;
    Ok(shown.map(|shown| shown.contains(&format!("qdisc htb {HANDLE}: "))))
}

/// The queueing discipline that somebody put there: the kernel's own have the handle 0.
fn somebodys(shown: &str) -> Option<String> {
    let first = shown.lines().next()?;
    let mut words = first.split_whitespace();
    let (kind, handle) = (words.nth(1)?, words.next()?);
    (handle != "0:" && kind != "noqueue").then(|| format!("{kind} {handle}"))
}

fn tree(place: &Place<'_>, leaf: Leaf, classes: &[Class]) -> String {
    let interface = place.interface;
    let most = classes.iter().map(|class| class.ceiling).max().unwrap_or(0);
    let rate = |bits: u64| format!("{bits}bit");
    // `default 0`: what has no class is not shaped (tc-htb(8)).
    let mut lines = vec![
        format!("qdisc add dev {interface} root handle {HANDLE}: htb default 0"),
        format!(
            "class add dev {interface} parent {HANDLE}: classid {HANDLE}:1 htb rate {} ceil {}",
            rate(most),
            rate(most)
        ),
    ];
    for (index, class) in classes.iter().enumerate() {
        let id = class_id(index);
        lines.push(format!(
            "class add dev {interface} parent {HANDLE}:1 classid {id} htb rate {} ceil {}",
            rate(class.rate),
            rate(class.ceiling)
        ));
        lines.extend(place.leaf(leaf, index, class));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{HANDLE, HANDLE_NUMBER, Leaf, Place, Shaper, Side, class_id, somebodys, tree};
    use crate::policy::Class;

    #[test]
    fn default_qdiscs_belong_to_no_program() {
        assert_eq!(somebodys("qdisc noqueue 0: root refcnt 2\n"), None);
        assert_eq!(somebodys("qdisc mq 0: root \n"), None);
        assert_eq!(somebodys(""), None);
        assert_eq!(
            somebodys("qdisc htb 1: root refcnt 2 r2q 10 default 0x1\n"),
            Some("htb 1:".to_owned())
        );
    }

    #[test]
    fn a_sockets_priority_is_its_classs_number() {
        assert_eq!(format!("{HANDLE_NUMBER:x}"), HANDLE);
        let inside = [10, 0, 0, 1].into();
        let (class, priority) = (class_id(3), Shaper::default().priority(3, inside));
        assert_eq!(
            class,
            format!("{:x}:{:x}", priority >> 16, priority & 0xffff)
        );
    }

    #[test]
    fn each_class_has_its_rate_and_ceiling() {
        let class = |name: &str, rate, ceiling| Class {
            name: name.to_owned(),
            rate,
            ceiling,
        };
        let place = Place {
            interface: "wan0",
            side: Side::Outside,
            mtu: 1_500,
        };
        let classes = [class("a", 1_000_000, 2_000_000), class("b", 8_000, 8_000)];
        let text = tree(&place, Leaf::Fifo, &classes);
        for line in [
            "class add dev wan0 parent 7a11: classid 7a11:1 htb rate 2000000bit ceil 2000000bit",
            "class add dev wan0 parent 7a11:1 classid 7a11:10 htb rate 1000000bit ceil 2000000bit",
            "class add dev wan0 parent 7a11:1 classid 7a11:11 htb rate 8000bit ceil 8000bit",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
