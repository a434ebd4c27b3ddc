//! Work on a distant machine: terminals and screens.

mod nomachine;
mod rdp;
mod ssh;
mod telnet;
mod vnc;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("nomachine.datagram", nomachine::datagram),
    ("nomachine.greeting", nomachine::greeting),
    ("rdp.connection", rdp::connection),
    ("ssh.greeting", ssh::greeting),
    ("telnet.negotiation", telnet::negotiation),
    ("vnc.version", vnc::version),
];
