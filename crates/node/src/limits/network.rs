//! Bounds of waiting for the machine's network.

use std::time::Duration;

/// How long nothing more may change before a change of the network is reported.
///
/// Source: chosen; an address, its routes and its DNS servers come within some tens of
/// milliseconds. Sooner, what waits would find half of them.
pub const CHANGES_SETTLE: Duration = Duration::from_millis(100);

/// Pause between two reports that the network has changed.
///
/// Source: chosen. An interface that comes and goes all the time wakes what waits once a second.
/// Changes in the pause make one report after it.
pub const CHANGES_PAUSE: Duration = Duration::from_secs(1);

/// For how long after the machine's start its clock and its addresses may be wrong.
///
/// Source: chosen; networks and time servers take a minute or two. Within it the daemon waits for
/// them. Past it a certificate that has run out, and an address that is not there, end the daemon.
pub const MACHINE_STARTS: Duration = Duration::from_secs(600);

/// Pause between two lines about what a start waits for.
///
/// Source: chosen. More would hide other lines.
pub const WAITING_PAUSE: Duration = Duration::from_secs(60);

/// How long a peer is silent before what comes from it counts as its return.
///
/// Source: twice what a link that is in use is silent for at most
/// ([`LINK_LOOK`](super::LINK_LOOK)). Sooner, each lost probe would wake its transfers.
pub const SILENT: Duration = Duration::from_secs(4);

/// How long a file may stand still after its peer or the network has come back, before its
/// connection is made again.
///
/// Source: QUIC repeats what was lost after pauses that have doubled with each; a new connection
/// takes some round trips. Sooner, ones that only wait would be made again.
pub const STILL_AFTER_RETURN: Duration = Duration::from_secs(1);
