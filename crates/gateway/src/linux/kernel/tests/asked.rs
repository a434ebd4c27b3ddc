//! What `triage` leaves to the rules behind it, whatever it says: calls like a blocked one, and
//! what crosses no border.

use super::refusals::{MINUTE, NOW, key, until};
use super::{asking, packet_of};
use crate::linux::kernel::Interfaces;
use crate::linux::kernel::refused::KernelCache;
use crate::packet::L4;

/// What no signature asks about.
const OTHERS: &[u8] = b"\x99";

#[test]
fn matches_of_a_blocked_one_never_pass_unasked() {
    let Some(mut loaded) = asking("asked", "\"gnutella\"") else {
        return;
    };
    let cache = KernelCache::new(loaded.ebpf.take_map("blocked").unwrap().try_into().unwrap());
    let syn = packet_of((0, 0), Some((5, 0x02, 0)), b"");
    let datagram = |from| packet_of((6, from), None, OTHERS);
    let [silent, answered] = [6, 7].map(|which| packet_of((which, 0), None, OTHERS));
    // One conversation that was answered before, and one that was not.
    assert_eq!(loaded.run("triage", &silent), 1);
    assert_eq!(loaded.run("triage", &answered), 1);
    assert_eq!(loaded.run("triage", &packet_of((7, 1), None, OTHERS)), 1);
    for (which, l4) in [(0, L4::Tcp), (6, L4::Udp), (7, L4::Udp)] {
        let told = cache.apply(NOW, &until(key(which, l4), NOW + MINUTE));
        assert_eq!(told, [], "{which}");
    }
    assert_eq!(
        [&syn, &silent].map(|packet| loaded.run("triage", packet)),
        [0, 0]
    );
    // Nor is it taken for finished, however often it calls.
    for _ in 0..40 {
        assert_eq!(loaded.run("triage", &silent), 0);
        assert_eq!(loaded.run("finished", &silent), 0);
    }
    // What has been answered is under way, and a server opens no connection.
    assert_eq!(loaded.run("triage", &answered), 1);
    assert_eq!(loaded.run("triage", &datagram(1)), 1);
}

#[test]
fn other_interfaces_are_left_to_the_rules() {
    let Some(mut loaded) = asking("border", "\"gnutella\"") else {
        return;
    };
    let map = loaded.ebpf.take_map("border").unwrap();
    let mut border = Interfaces(map.try_into().unwrap());
    let datagram = packet_of((6, 0), None, OTHERS);
    // A run for tests comes by the loopback interface, which is always the first.
    let many: Vec<u32> = (2..18).collect();
    for (interfaces, passes) in [
        (vec![], 1),
        (vec![1], 1),
        (vec![7, 1], 1),
        (vec![7], 0),
        (many.clone(), 0),
        ([&many[1..], &[1]].concat(), 1),
        // More than are told from others.
        ([&many[..], &[18]].concat(), 1),
    ] {
        border.set(&interfaces);
        loaded.forget();
        assert_eq!(loaded.run("triage", &datagram), passes, "{interfaces:?}");
    }
}
