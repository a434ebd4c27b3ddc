//! What this process may do: rules and queues of the packet filter, and packets of its own, and
//! nothing else of what root may.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::family::tool;

/// Queues, marks, rules and classes; and resets.
const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// What the in-kernel path takes besides, once its programs are loaded: its maps, when the policy
/// changes.
const FOR_KERNEL_PATH: CapabilitySet = CapabilitySet::BPF;

/// Gives up all capabilities but CAP_NET_ADMIN and CAP_NET_RAW (and CAP_BPF for the in-kernel
/// path) for good, for this thread, those that it will start, and programs that they run.
/// `kernel_path`: there is one; its programs are loaded already, which takes more (CAP_PERFMON,
/// and CAP_SYS_ADMIN to mount their file system). Call it before there is a second thread. A
/// process that has fewer keeps those.
///
/// What the user may read and write by its own right stays; root does not read other users' files
/// any more.
///
/// # Errors
/// The system refuses.
pub fn give_up(kernel_path: bool) -> io::Result<()> {
    let mut needed = NEEDED;
    if kernel_path {
        needed |= FOR_KERNEL_PATH;
    }
    // The packet filter's tools load their modules when they are used first, and may not later.
    for program in ["iptables", "ip6tables"] {
        // Whether they can shows when they are needed.
        tool(program).run(&["-t", "mangle", "-n", "-L"], "").ok();
    }
    for bit in 0..u64::BITS {
        let Some(capability) = 1_u64.checked_shl(bit) else {
            continue;
        };
        let capability = CapabilitySet::from_bits_retain(capability);
        if needed.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            // Not known here, or not this user's to give.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let had = capabilities(None)?;
    let kept = had.permitted.intersection(needed);
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            // Who is not root has them by this way, and the tools with him.
            inheritable: had.inheritable.intersection(needed),
        },
    )?;
    Ok(set_no_new_privs(true)?)
}
