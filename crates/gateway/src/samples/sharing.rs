//! FastTrack, Direct Connect and Soulseek.

use super::{Sample, inside, joined, noise, outside};
use crate::packet::L4;
use crate::reader::length32;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-sharing.pcap");
    fasttrack(&mut sample);
    direct_connect(&mut sample);
    soulseek(&mut sample);
    others(&mut sample);
    sample
}

/// Hyperswarm's DHT, and a message of PPStream.
fn others(sample: &mut Sample) {
    let to = b"\xc6\x33\x64\x46\x49\xc2";
    let asks = joined(&[b"\x03\x0c\x11\x22", to, b"\x02", &noise(67, 32)]);
    let answers = joined(&[b"\x13\x04\x11\x22", to, b"\x01", to]);
    let (client, server) = (inside(9, 49_737), outside(70, 49_737));
    sample.udp(client, server, "hyperswarm", &[&asks, &answers]);
    let message = joined(&[
        b"\x28\x00\x43\x11\x22\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00",
        &noise(68, 25),
    ]);
    sample.udp(
        inside(9, 17_788),
        outside(71, 17_788),
        "ppstream",
        &[&message],
    );
}

fn fasttrack(sample: &mut Sample) {
    const APP: &str = "fasttrack";
    let request = "GET /.hash=0123456789abcdef0123456789abcdef01234567/sample.ogg HTTP/1.1\r\nHost: 198.51.100.60:1214\r\n\
                   UserAgent: KazaaClient Nov  3 2002 20:29:03\r\nX-Kazaa-Username: sample\r\nX-Kazaa-Network: KaZaA\r\n\
                   Range: bytes=0-4095\r\nConnection: close\r\n\r\n";
    let answer = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4095/8192\r\nContent-Length: 4096\r\n\
                  X-Kazaa-Username: other\r\nX-KazaaTag: 4=Sample\r\n\r\n";
    let answer = joined(&[answer.as_bytes(), &noise(61, 4_096)]);
    let mut stream = sample.tcp(inside(9, 49_700), outside(60, 1_214), APP);
    stream.client(request.as_bytes());
    stream.server(&answer);
    stream.close();

    // The uploader is behind a firewall: it calls back, then the downloader asks.
    let mut stream = sample.tcp(outside(61, 49_701), inside(9, 1_214), APP);
    stream.client(b"GIVE 1234567890\r\n\r\n");
    stream.server(request.as_bytes());
    stream.client(&answer);
    stream.close();

    let ping = b"\x27\x00\x00\x00\xa9\x80KaZaA\x00";
    let pong = b"\x28\x00\x00\x00\xa9\x00\x00\x00\x00\x00\x00KaZaA\x00";
    sample.udp(inside(9, 1_214), outside(62, 1_214), APP, &[ping, pong]);
}

fn direct_connect(sample: &mut Sample) {
    const APP: &str = "directconnect";
    const HASH: &str = "TTH/LWPNACQDBZRYXW3VHJVCJ64QBZNGHOHHHZWCLNQ";
    let mut stream = sample.tcp(inside(9, 49_710), outside(63, 411), APP);
    stream.server(b"$Lock EXTENDEDPROTOCOL_samplehub Pk=sample|<hub> welcome|");
    stream.client(
        b"$Supports NoGetINFO NoHello UserIP2 TTHSearch |$Key sample|$ValidateNick sample|",
    );
    stream.server(b"$HubName sample|$Hello sample|");
    stream.close();

    let get = format!("$ADCGET file {HASH} 0 4096|");
    let sent = format!("$ADCSND file {HASH} 0 4096|");
    let mut stream = sample.tcp(inside(9, 49_711), outside(64, 3_000), APP);
    stream.client(b"$MyNick sample|$Lock EXTENDEDPROTOCOL Pk=sample|");
    stream.server(b"$MyNick other|$Lock EXTENDEDPROTOCOL Pk=sample|$Supports ADCGet TTHF |$Direction Upload 7|$Key sample|");
    stream.client(get.as_bytes());
    stream.server(&joined(&[sent.as_bytes(), &noise(62, 4_096)]));
    stream.close();

    let mut stream = sample.tcp(inside(9, 49_712), outside(65, 5_000), APP);
    stream.client(b"HSUP ADBASE ADTIGR\n");
    stream.server(b"ISUP ADBASE ADTIGR\nISID AAAX\nIINF CT32 NIhub\n");
    stream.close();

    let mut stream = sample.tcp(inside(9, 49_713), outside(66, 3_001), APP);
    stream.client(b"CSUP ADBASE ADTIGR\n");
    stream.server(b"CSUP ADBASE ADTIGR\n");
    stream.client(format!("CGET file {HASH} 0 4096\n").as_bytes());
    stream.close();

    let (client, server) = (outside(67, 412), inside(9, 412));
    sample.expect(L4::Udp, client, server, APP);
    let result = b"$SR other music\\sample.ogg\x058192 3/4\x05TTH:LWPNACQDBZRYXW3VHJVCJ64QBZNGHOHHHZWCLNQ (198.51.100.63:411)|";
    sample.packets.udp(client, server, result);
}

/// Length and bytes.
fn string(text: &[u8]) -> Vec<u8> {
    joined(&[&length32(text.len()).to_le_bytes(), text])
}

fn soulseek(sample: &mut Sample) {
    const APP: &str = "soulseek";
    let login = joined(&[
        &1_u32.to_le_bytes(),
        &string(b"sample"),
        &string(b"secret"),
        &160_u32.to_le_bytes(),
        &string(b"0123456789abcdef0123456789abcdef"),
        &1_u32.to_le_bytes(),
    ]);
    let welcome = joined(&[
        &1_u32.to_le_bytes(),
        &[1],
        &string(b"welcome"),
        &[5, 0, 0, 10],
        &string(b"0123456789abcdef0123456789abcdef"),
    ]);
    let mut stream = sample.tcp(inside(9, 49_720), outside(68, 2_242), APP);
    stream.client(&string(&login));
    stream.server(&string(&welcome));
    stream.close();

    let init = joined(&[
        &[1],
        &string(b"sample"),
        &string(b"P"),
        &0_u32.to_le_bytes(),
    ]);
    let mut stream = sample.tcp(inside(9, 49_721), outside(69, 2_234), APP);
    stream.client(&string(&init));
    stream.client(&string(&4_u32.to_le_bytes()));
    stream.close();

    let pierce = joined(&[&[0], &77_u32.to_le_bytes()]);
    let mut stream = sample.tcp(outside(70, 49_722), inside(9, 2_234), APP);
    stream.client(&joined(&[&string(&pierce), &string(&15_u32.to_le_bytes())]));
    stream.close();
}
