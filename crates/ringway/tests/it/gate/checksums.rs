//! Datagrams with a wrong checksum on a live gateway.

use ringway_testbed::{TestbedError, wait_until};

use super::border::{Border, CLIENT, DEADLINE, SERVER};

/// Sends a ping of BitTorrent's DHT from these ports, with its own UDP header: the checksum is
/// right, or off by one.
const SEND: &str = r#"
import socket, struct, sys
client, server = sys.argv[1], sys.argv[2]
def total(data):
    if len(data) % 2: data += b'\0'
    sum_ = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while sum_ >> 16: sum_ = (sum_ & 0xffff) + (sum_ >> 16)
    return sum_
ping = b'd1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe'
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
for port, off in ((4001, 1), (4002, 0)):
    length = 8 + len(ping)
    head = struct.pack('!HHHH', port, 6881, length, 0)
    pseudo = socket.inet_aton(client) + socket.inet_aton(server) + struct.pack('!HH', 17, length)
    checksum = (0xffff - total(pseudo + head + ping)) ^ off
    raw.sendto(struct.pack('!HHHH', port, 6881, length, checksum) + ping, (server, 0))
"#;

#[test]
fn discarded_datagram_is_no_flow() {
    let Some(mut border) = Border::new("wrong checksums") else {
        return;
    };
    border.up("", &[]);
    border
        .client
        .check(&["/usr/bin/python3", "-c", SEND, CLIENT, SERVER])
        .unwrap();
    let ports = || {
        let flows = border.ask(&["flows"]).objects().unwrap();
        let mut ports: Vec<u64> = flows
            .iter()
            .filter_map(|flow| flow["client_port"].as_u64())
            .collect();
        ports.sort_unstable();
        ports
    };
    let told = wait_until(DEADLINE, || match ports() {
        known if known.contains(&4_002) => Ok(known),
        known => Err(TestbedError(format!("{known:?}"))),
    });
    assert_eq!(told.unwrap(), [4_002]);
}
