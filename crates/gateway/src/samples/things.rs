//! Devices and machines, currencies, games.

use super::{Sample, inside, joined, noise, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-things.pcap");
    sensors(&mut sample);
    plant(&mut sample);
    homes(&mut sample);
    sample
}

fn sensors(sample: &mut Sample) {
    let connect = b"\x10\x12\x00\x04MQTT\x04\x02\x00\x3c\x00\x06sensor";
    let mut stream = sample.tcp(inside(20, 50_190), outside(200, 1_883), "mqtt");
    stream.client(connect);
    stream.server(b"\x20\x02\x00\x00");
    stream.close();

    let get = b"\x42\x01\x12\x34\xab\xcd\xb4temp";
    let content = b"\x62\x45\x12\x34\xab\xcd\xc0\xff21.5";
    sample.udp(
        inside(20, 50_191),
        outside(201, 5_683),
        "coap",
        &[get, content],
    );
}

fn plant(sample: &mut Sample) {
    let conversations: [(u16, &str, [&[u8]; 2]); 6] = [
        (
            502,
            "modbus",
            [
                b"\x00\x07\x00\x00\x00\x06\x01\x03\x00\x10\x00\x01",
                b"\x00\x07\x00\x00\x00\x05\x01\x03\x02\x12\x34",
            ],
        ),
        (
            102,
            "s7",
            [
                b"\x03\x00\x00\x19\x02\xf0\x80\x32\x01\x00\x00\x00\x01\x00\x08\x00\x00\xf0\x00\x00\x01\x00\x01\x01\xe0",
                b"\x03\x00\x00\x1b\x02\xf0\x80\x32\x03\x00\x00\x00\x01\x00\x08\x00\x00\x00\x00\xf0\x00\x00\x01\x00\x01\x00\xf0",
            ],
        ),
        (
            4_840,
            "opcua",
            [
                b"HELF\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
                b"ACKF\x1c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            ],
        ),
        (
            9_600,
            "fins",
            [
                b"FINS\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
                b"FINS\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x07",
            ],
        ),
        (
            20_000,
            "dnp3",
            [
                b"\x05\x64\x05\xc0\x01\x00\x00\x04\xe9\x21",
                b"\x05\x64\x05\xc0\x01\x00\x00\x04\xe9\x21",
            ],
        ),
        (
            2_404,
            "iec104",
            [b"\x68\x04\x07\x00\x00\x00", b"\x68\x04\x0b\x00\x00\x00"],
        ),
    ];
    for (client, (port, app, [ask, answer])) in (50_192..).zip(conversations) {
        let mut stream = sample.tcp(inside(20, client), outside(202, port), app);
        stream.client(ask);
        stream.server(answer);
        stream.close();
    }
    let ask = b"\x80\x00\x02\x00\x05\x00\x00\x07\x00\x11\x01\x01\x82\x00\x10\x00\x00\x01";
    let answer = b"\xc0\x00\x02\x00\x07\x00\x00\x05\x00\x11\x01\x01\x00\x00\x12\x34";
    sample.udp(
        inside(20, 50_200),
        outside(203, 9_600),
        "fins",
        &[ask, answer],
    );
    let frame = b"\x7e\xa0\x07\x03\x21\x93\x0f\x01\x7e";
    sample.udp(inside(20, 50_201), outside(204, 4_059), "dlms", &[frame]);
    let mut stream = sample.tcp(inside(20, 50_202), outside(204, 4_060), "dlms");
    stream.client(frame);
    stream.close();
    let who = b"\x81\x0b\x00\x0c\x01\x20\xff\xff\x00\xff\x10\x08";
    sample.udp(inside(20, 47_808), outside(205, 47_808), "bacnet", &[who]);
}

fn homes(sample: &mut Sample) {
    let told = joined(&[
        b"\x00\x00\x55\xaa\x00\x00\x00\x00\x00\x00\x00\x13\x00\x00\x00\x18",
        &noise(180, 20),
        b"\x00\x00\xaa\x55",
    ]);
    let everybody = ([255, 255, 255, 255], 6_667).into();
    sample.udp(inside(21, 50_203), everybody, "tuya", &[&told]);
    let mut stream = sample.tcp(inside(21, 50_204), outside(206, 6_668), "tuya");
    stream.client(&told);
    stream.close();
    let mut stream = sample.tcp(inside(21, 50_205), outside(207, 10_050), "zabbix");
    stream.client(b"ZBXD\x01\x0a\x00\x00\x00\x00\x00\x00\x00agent.ping");
    stream.close();
    let here = b"{\"version\": [2, 0], \"port\": 17500, \"host_int\": 7, \"displayname\": \"\", \"namespaces\": [1]}";
    let everybody = ([255, 255, 255, 255], 17_500).into();
    sample.udp(inside(21, 17_500), everybody, "dropbox", &[here]);
    let here = joined(&[b"SpotUdp0", &noise(181, 32)]);
    let everybody = ([255, 255, 255, 255], 57_621).into();
    sample.udp(inside(21, 57_621), everybody, "spotify", &[&here]);
    let shake = |seed: u8| joined(&[b"\x03\x00\x01\x02\x03\x00\x00\x00\x00", &noise(seed, 1_528)]);
    let mut stream = sample.tcp(inside(21, 50_206), outside(208, 1_935), "rtmp");
    stream.client(&shake(182));
    stream.server(&shake(183));
    stream.close();
    let mut stream = sample.tcp(inside(21, 50_207), outside(209, 8_080), "speedtest");
    stream.client(b"HI 01234567-89ab-cdef-0123-456789abcdef\n");
    stream.close();
}

pub(super) fn games() -> Sample {
    let mut sample = Sample::new("made-games.pcap");
    let information = b"\xff\xff\xff\xffTSource Engine Query\x00";
    let told = b"\xff\xff\xff\xffI\x11A server\x00a_map\x00";
    sample.udp(
        inside(22, 50_210),
        outside(210, 27_015),
        "source",
        &[information, told],
    );
    let status = b"\xff\xff\xff\xffgetstatus\n";
    sample.udp(inside(22, 50_211), outside(211, 27_960), "quake", &[status]);
    let ping = joined(&[&[1], &noise(190, 8), MAGIC, &noise(191, 8)]);
    sample.udp(inside(22, 50_212), outside(212, 19_132), "raknet", &[&ping]);
    let begins = joined(&[&[5], MAGIC, &[11], &[0; 200]]);
    sample.udp(
        inside(22, 50_213),
        outside(213, 19_132),
        "raknet",
        &[&begins],
    );
    let asks = joined(&[b"VS01\x00\x00\x01\x04", &[0; 28]]);
    sample.udp(inside(22, 50_214), outside(214, 27_018), "steam", &[&asks]);
    let mut stream = sample.tcp(inside(22, 50_215), outside(215, 27_018), "steam");
    stream.server(&joined(&[b"\x10\x00\x00\x00VT01", &noise(192, 16)]));
    stream.close();
    let mut stream = sample.tcp(inside(22, 50_216), outside(216, 25_565), "minecraft");
    stream.client(b"\x17\x00\xf9\x05\x10play.example.com\x63\xdd\x02");
    stream.close();
    let begins =
        b"\x00\x00\x00\xff\x00\x00\x00\x00\x11\x22\x33\x44\x49\x96\x02\xd2\xff\xff\xff\xff";
    sample.udp(
        inside(22, 50_217),
        outside(217, 22_101),
        "genshin",
        &[begins],
    );
    coins(&mut sample);
    sample
}

const MAGIC: &[u8] = b"\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78";

fn coins(sample: &mut Sample) {
    let version = joined(&[
        b"\xf9\xbe\xb4\xd9version\x00\x00\x00\x00\x00\x56\x00\x00\x00",
        &noise(193, 90),
    ]);
    let mut stream = sample.tcp(inside(22, 50_218), outside(218, 8_333), "bitcoin");
    stream.client(&version);
    stream.close();
    let ping = joined(&[
        &noise(194, 96),
        b"\x01\x01\xcf\x04\xc7\x84\x0a\x00\x00\x16\x80\x80\x84\x6a\x1b\x2c\x3d\x05",
    ]);
    sample.udp(
        inside(22, 30_303),
        outside(219, 30_303),
        "ethereum",
        &[&ping],
    );
    let session = |seed: u8| joined(&[b"\x01\x33\x04", &noise(seed, 0x132)]);
    let mut stream = sample.tcp(inside(22, 50_221), outside(222, 30_303), "ethereum");
    stream.client(&session(196));
    stream.server(&session(197));
    stream.close();
    let handshake = joined(&[
        b"\x01\x21\x01\x01\x01\x01\x01\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\xe9\x03\x00\x00",
        b"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00",
        &noise(195, 16),
    ]);
    let mut stream = sample.tcp(inside(22, 50_219), outside(220, 18_080), "monero");
    stream.client(&handshake);
    stream.close();
    let mut stream = sample.tcp(inside(22, 50_220), outside(221, 3_333), "stratum");
    stream.client(b"{\"id\": 1, \"method\": \"mining.subscribe\", \"params\": [\"miner/1.0\"]}\n");
    stream.close();
}
