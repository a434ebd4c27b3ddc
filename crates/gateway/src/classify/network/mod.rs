//! What networks run on: time, addresses, names, directories, files, and their supervision.

mod afp;
mod dhcp;
mod directory;
mod flow_export;
mod hsrp;
mod mobile;
mod netbios;
mod ntp;
mod openflow;
mod port_mapping;
mod proxies;
mod radius;
mod remote_calls;
mod rpc;
mod slp;
mod smb;
mod snmp;
mod ssdp;
mod syslog;
mod tftp;
mod wsd;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("afp.session", afp::session),
    ("dcerpc.datagram", remote_calls::datagram),
    ("dcerpc.stream", remote_calls::stream),
    ("dhcp.message", dhcp::message),
    ("dhcp.version_6", dhcp::version_6),
    ("gtp.message", mobile::gtp),
    ("haproxy.header", proxies::haproxy),
    ("hsrp.hello", hsrp::hello),
    ("kerberos.datagram", directory::kerberos),
    ("kerberos.stream", directory::kerberos_stream),
    ("ldap.message", directory::ldap),
    ("netbios.datagram", netbios::datagram),
    ("netbios.name", netbios::name),
    ("netbios.session", netbios::session),
    ("netflow.export", flow_export::netflow),
    ("nfs.datagram", rpc::nfs),
    ("nfs.stream", rpc::nfs_stream),
    ("ntp.message", ntp::message),
    ("openflow.hello", openflow::hello),
    ("pcp.message", port_mapping::message),
    ("pfcp.message", mobile::pfcp),
    ("radius.message", radius::message),
    ("slp.message", slp::message),
    ("smb.message", smb::message),
    ("snmp.message", snmp::message),
    ("ssdp.message", ssdp::message),
    ("sunrpc.datagram", rpc::any),
    ("sunrpc.stream", rpc::any_stream),
    ("syslog.message", syslog::message),
    ("tftp.request", tftp::request),
    ("wsd.message", wsd::message),
];
