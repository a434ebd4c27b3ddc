//! What networks run on: time, addresses, names, directories, files, supervision.

use super::{Sample, inside, joined, noise, outside};
use crate::reader::length32;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-network.pcap");
    hosts(&mut sample);
    windows(&mut sample);
    files(&mut sample);
    directories(&mut sample);
    routers(&mut sample);
    telephones(&mut sample);
    sample
}

/// A value of ASN.1 with a short length.
fn value(tag: u8, contents: &[u8]) -> Vec<u8> {
    let [.., length] = length32(contents.len()).to_be_bytes();
    joined(&[&[tag, length], contents])
}

fn hosts(sample: &mut Sample) {
    let time = |head: &[u8], asked: &[u8], sent: &[u8]| {
        joined(&[head, &[0; 20], asked, &[0xe9, 0, 0, 1, 0, 0, 0, 0], sent])
    };
    let sent = noise(150, 8);
    let ask = time(&[0x23, 0, 6, 0], &[0; 8], &sent);
    let answer = time(&[0x24, 2, 6, 0xe8], &sent, &noise(151, 8));
    sample.udp(
        inside(17, 50_130),
        outside(160, 123),
        "ntp",
        &[&ask, &answer],
    );

    let mut discover = joined(&[
        b"\x01\x01\x06\x00\x11\x22\x33\x44",
        &[0; 20],
        &noise(152, 6),
    ]);
    discover.resize(236, 0);
    discover.extend(b"\x63\x82\x53\x63\x35\x01\x01\xff");
    sample.udp(inside(17, 68), outside(161, 67), "dhcp", &[&discover]);
    let solicit = joined(&[
        b"\x01\x12\x34\x56\x00\x01\x00\x0a\x00\x03\x00\x01",
        &noise(153, 6),
        b"\x00\x08\x00\x02\x00\x00",
    ]);
    sample.udp(inside(17, 546), outside(161, 547), "dhcp", &[&solicit]);

    let search = b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 2\r\nST: ssdp:all\r\n\r\n";
    let everybody = ([239, 255, 255, 250], 1_900).into();
    sample.udp(inside(17, 50_131), everybody, "ssdp", &[search]);
    let probe = b"<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\" \
        xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\"><s:Body><d:Probe/></s:Body></s:Envelope>";
    let everybody = ([239, 255, 255, 250], 3_702).into();
    sample.udp(inside(17, 50_132), everybody, "wsd", &[probe]);
    let find = b"\x02\x01\x00\x00\x20\x00\x00\x00\x00\x00\x12\x34\x00\x02en\x00\x00\x00\x08service:\x00\x00\x00\x00";
    sample.udp(inside(17, 50_133), outside(162, 427), "slp", &[find]);

    let (client, server) = (inside(17, 50_134), outside(163, 5_351));
    let answer = b"\x00\x80\x00\x00\x00\x00\x12\x34\xcb\x00\x71\x05";
    sample.udp(client, server, "nat-pmp", &[&[0, 0], answer]);
}

fn windows(sample: &mut Sample) {
    let name = b"\x20EGFCEFEECACACACACACACACACACACACA\x00";
    let asks = joined(&[
        b"\x12\x34\x01\x10\x00\x01\x00\x00\x00\x00\x00\x00",
        name,
        b"\x00\x20\x00\x01",
    ]);
    sample.udp(inside(17, 137), outside(164, 137), "netbios", &[&asks]);
    let told = joined(&[
        b"\x11\x02\x12\x34\x0a\x00\x00\x11\x00\x8a\x00\x50\x00\x00",
        name,
        name,
        b"\xffSMB",
        &[0; 28],
    ]);
    sample.udp(inside(17, 138), outside(164, 138), "netbios", &[&told]);
    let mut stream = sample.tcp(inside(17, 50_135), outside(164, 139), "netbios");
    stream.client(&joined(&[&[0x81, 0, 0, 68], name, name]));
    stream.close();

    let negotiate = joined(&[
        b"\x00\x00\x00\x66\xfeSMB\x40\x00",
        &[0; 58],
        &[36],
        &[0; 37],
    ]);
    let mut stream = sample.tcp(inside(17, 50_136), outside(164, 445), "smb");
    stream.client(&negotiate);
    stream.close();
}

fn files(sample: &mut Sample) {
    let call = |program: u32, procedure: u32| {
        joined(&[
            b"\x12\x34\x56\x78\x00\x00\x00\x00\x00\x00\x00\x02",
            &program.to_be_bytes(),
            &3_u32.to_be_bytes(),
            &procedure.to_be_bytes(),
            &[0; 16],
        ])
    };
    let (nfs, other) = (call(100_003, 1), call(100_026, 1));
    let framed = |call: &[u8]| joined(&[&[0x80, 0, 0, 40], call]);
    sample.udp(inside(17, 50_137), outside(165, 2_049), "nfs", &[&nfs]);
    let mut stream = sample.tcp(inside(17, 50_138), outside(165, 2_049), "nfs");
    stream.client(&framed(&nfs));
    stream.close();
    sample.udp(
        inside(17, 50_139),
        outside(165, 50_000),
        "sunrpc",
        &[&other],
    );
    let mut stream = sample.tcp(inside(17, 50_140), outside(165, 50_000), "sunrpc");
    stream.client(&framed(&other));
    stream.close();

    let status = b"\x00\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let told = b"\x01\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x10\x00\x20";
    let mut stream = sample.tcp(inside(17, 50_141), outside(166, 548), "afp");
    stream.client(status);
    stream.server(told);
    stream.close();

    let read = b"\x00\x01boot.img\x00octet\x00tsize\x000\x00";
    sample.udp(inside(17, 50_142), outside(167, 69), "tftp", &[read]);
}

fn directories(sample: &mut Sample) {
    let fields = joined(&[
        &value(0xa1, &value(2, &[5])),
        &value(0xa2, &value(2, &[10])),
        &value(0xa4, &value(0x30, &noise(154, 40))),
    ]);
    let ticket = value(0x6a, &value(0x30, &fields));
    sample.udp(inside(17, 50_143), outside(168, 88), "kerberos", &[&ticket]);
    let mut stream = sample.tcp(inside(17, 50_144), outside(168, 88), "kerberos");
    stream.client(&joined(&[&length32(ticket.len()).to_be_bytes(), &ticket]));
    stream.close();

    let search = joined(&[
        &value(4, b""),
        b"\x0a\x01\x00\x0a\x01\x00\x02\x01\x00\x02\x01\x00\x01\x01\x00",
        b"\x87\x0bobjectClass\x30\x00",
    ]);
    let search = value(0x30, &joined(&[&value(2, &[1]), &value(0x63, &search)]));
    sample.udp(inside(17, 50_145), outside(169, 389), "ldap", &[&search]);
    let bind = joined(&[
        &value(2, &[3]),
        &value(4, b"cn=reader"),
        &value(0x80, b"secret"),
    ]);
    let bind = value(0x30, &joined(&[&value(2, &[1]), &value(0x60, &bind)]));
    let mut stream = sample.tcp(inside(17, 50_146), outside(169, 389), "ldap");
    stream.client(&bind);
    stream.close();

    let request = joined(&[
        b"\x01\x07\x00\x21",
        &noise(155, 16),
        b"\x01\x07clerk\x04\x06\x0a\x00\x00\x11",
    ]);
    let accept = joined(&[
        b"\x02\x07\x00\x1a",
        &noise(156, 16),
        b"\x06\x06\x00\x00\x00\x02",
    ]);
    let (client, server) = (inside(17, 50_147), outside(170, 1_812));
    sample.udp(client, server, "radius", &[&request, &accept]);
}

fn routers(sample: &mut Sample) {
    let get = joined(&[
        &value(2, &[0x12]),
        &value(2, &[0]),
        &value(2, &[0]),
        &value(
            0x30,
            &value(0x30, b"\x06\x08\x2b\x06\x01\x02\x01\x01\x01\x00\x05\x00"),
        ),
    ]);
    let get = joined(&[&value(2, &[1]), &value(4, b"reading"), &value(0xa0, &get)]);
    let get = value(0x30, &get);
    sample.udp(inside(17, 50_148), outside(171, 161), "snmp", &[&get]);

    let line = b"<34>Oct 11 22:14:15 host program: a line";
    sample.udp(inside(17, 50_149), outside(172, 514), "syslog", &[line]);

    let export = joined(&[b"\x00\x05\x00\x01", &noise(157, 20), &noise(158, 48)]);
    sample.udp(
        inside(17, 50_150),
        outside(173, 2_055),
        "netflow",
        &[&export],
    );

    let hello = b"\x00\x00\x10\x03\x0a\x64\x01\x00cisco\x00\x00\x00\x0a\x00\x00\x01";
    let everybody = ([224, 0, 0, 2], 1_985).into();
    sample.udp(inside(17, 1_985), everybody, "hsrp", &[hello]);

    let greeting = b"\x04\x00\x00\x10\x00\x00\x00\x01\x00\x01\x00\x08\x00\x00\x00\x10";
    let mut stream = sample.tcp(inside(17, 50_151), outside(174, 6_653), "openflow");
    stream.client(greeting);
    stream.server(greeting);
    stream.close();
}

fn telephones(sample: &mut Sample) {
    let echo = b"\x32\x01\x00\x04\x00\x00\x00\x00\x00\x01\x00\x00";
    sample.udp(inside(17, 2_123), outside(175, 2_123), "gtp", &[echo]);
    let heartbeat = b"\x20\x01\x00\x0c\x00\x00\x01\x00\x00\x60\x00\x04\x11\x22\x33\x44";
    sample.udp(inside(17, 8_805), outside(175, 8_805), "pfcp", &[heartbeat]);
}
