//! Devices, machines and buildings, and what speaks with them.

mod building;
mod frames;
mod lines;
mod plant;
mod sensors;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("bacnet.message", building::bacnet),
    ("coap.message", sensors::coap),
    ("dlms.frame", frames::dlms),
    ("dnp3.frame", frames::dnp3),
    ("dropbox.announcement", lines::dropbox),
    ("fins.datagram", plant::fins_datagram),
    ("fins.stream", plant::fins_stream),
    ("iec104.frame", frames::iec104),
    ("modbus.message", plant::modbus),
    ("mqtt.connect", sensors::mqtt),
    ("opcua.message", plant::opcua),
    ("rtmp.handshake", lines::rtmp),
    ("s7.message", plant::s7),
    ("speedtest.greeting", lines::speedtest),
    ("tuya.message", building::tuya),
    ("zabbix.message", lines::zabbix),
];
