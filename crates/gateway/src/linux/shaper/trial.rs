//! Which leaves of classes the kernel has, tried where no packets are.

use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::leaf::{Leaf, Place, Side};
use super::{TC, USUAL_MTU, take_down, tree};
use crate::linux::tool::IP;
use crate::policy::Class;

/// Where it is tried there is this interface, and never another.
const INTERFACE: &str = "lo";
/// Bits a second of the class that is tried: slow enough for all that a leaf has.
const RATE: u64 = 2_000_000;

/// A leaf that the kernel does not take.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Lack {
    /// Which.
    pub leaf: Leaf,
    /// What tc says.
    pub why: String,
}

/// What the kernel has of leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// The one that classes get; `None`: there can be no classes.
    pub leaf: Option<Leaf>,
    /// Better ones that it lacks, the best first.
    pub lacks: Vec<Lack>,
}

/// Tries leaves from the best on, in a network namespace of its own.
///
/// # Errors
/// There is no namespace for it, in words.
pub fn leaves() -> Result<Leaves, String> {
    let tries = || {
        // SAFETY: only sharing file descriptors could make this unsound, and that goes on.
        #[expect(unsafe_code, reason = "the thread leaves the network and nothing else")]
        let apart = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
        match apart {
            Ok(()) => Ok(tried()),
            Err(error) => Err(format!(
                "not tried: no network namespace ({error}); it takes root"
            )),
        }
    };
    let joined = std::thread::scope(|scope| scope.spawn(tries).join());
    joined.unwrap_or_else(|_| Err("it could not be tried".to_owned()))
}

fn tried() -> Leaves {
    let place = Place {
        interface: INTERFACE,
        side: Side::Outside,
        mtu: USUAL_MTU,
    };
    let class = Class {
        name: "tried".to_owned(),
        rate: RATE,
        ceiling: RATE,
    };
    // Else the kernel complains in its log of bursts below the MTU.
    let mtu = USUAL_MTU.to_string();
    IP.run(&["link", "set", "dev", INTERFACE, "mtu", &mtu], "")
        .ok();
    let mut lacks = Vec::new();
    for leaf in Leaf::ORDER {
        let lines = tree(&place, leaf, std::slice::from_ref(&class));
        match TC.run(&["-batch", "-"], &lines) {
            Ok(_) => {
                let leaf = Some(leaf);
                return Leaves { leaf, lacks };
            }
            Err(error) => {
                let why = error.to_string();
                lacks.push(Lack { leaf, why });
                // What stands of it would be in the way of the next.
                take_down(INTERFACE).ok();
            }
        }
    }
    let leaf = None;
    Leaves { leaf, lacks }
}
