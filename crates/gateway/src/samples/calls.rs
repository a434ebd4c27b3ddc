//! Messengers of today: Telegram, WhatsApp, Discord, Skype.

use super::web::client_hello;
use super::{Sample, inside, joined, noise, outside};
use crate::classify::telegram_keystream;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-calls.pcap");
    telegram(&mut sample);
    whatsapp(&mut sample);
    discord(&mut sample);
    skype(&mut sample);
    sample
}

fn telegram(sample: &mut Sample) {
    const APP: &str = "telegram";
    // No key yet, a message's number, its length, a request and its random number.
    let request = joined(&[
        &[0; 8],
        &noise(81, 8),
        &20_u32.to_le_bytes(),
        &0xbe7e_8ef1_u32.to_le_bytes(),
        &noise(82, 16),
    ]);
    let mut stream = sample.tcp(inside(11, 49_900), outside(100, 443), APP);
    stream.client(&joined(&[&[0xef, 10], &request]));
    stream.server(&joined(&[&[21], &noise(83, 84)]));
    stream.close();

    let mut stream = sample.tcp(inside(11, 49_901), outside(100, 443), APP);
    stream.client(&joined(&[&[0xee; 4], &40_u32.to_le_bytes(), &request]));
    stream.close();

    let mut stream = sample.tcp(inside(11, 49_902), outside(101, 443), APP);
    stream.client(&joined(&[&obfuscated(), &noise(84, 105)]));
    stream.server(&noise(85, 300));
    stream.close();

    let tag = noise(86, 16);
    let ask = joined(&[&tag, &[0xff; 12], &[0xfe, 0xff, 0xff, 0xff], &noise(87, 8)]);
    let answer = joined(&[&tag, &[0xff; 12], &noise(88, 36)]);
    sample.udp(inside(11, 23_174), outside(102, 521), APP, &[&ask, &answer]);
}

/// 64 random bytes that decrypt to the abridged transport's number at 56.
fn obfuscated() -> Vec<u8> {
    let mut head = [0; 64];
    head.copy_from_slice(&noise(89, 64));
    let stream = telegram_keystream(&head).unwrap_or([0; 64]);
    for (place, key) in head.iter_mut().zip(stream).skip(56).take(4) {
        *place = 0xef ^ key;
    }
    head.to_vec()
}

fn whatsapp(sample: &mut Sample) {
    const APP: &str = "whatsapp";
    // A protobuf: the client's hello with a key, an encrypted key and an encrypted payload.
    let hello = joined(&[
        &[0x0a, 32],
        &noise(91, 32),
        &[0x12, 48],
        &noise(92, 48),
        &[0x1a, 20],
        &noise(93, 20),
    ]);
    let frame = joined(&[&[0, 0, 106, 0x12, 104], &hello]);
    let mut stream = sample.tcp(inside(11, 49_910), outside(103, 5_222), APP);
    stream.client(b"ED\x00\x01");
    stream.client(&joined(&[&[0, 0, 4, 8, 9, 8, 2], b"WA\x05\x02", &frame]));
    stream.server(&joined(&[&[0, 0, 80], &noise(94, 80)]));
    stream.close();
}

fn discord(sample: &mut Sample) {
    let head = |kind| joined(&[&[0, kind, 0, 70], &noise(95, 4)]);
    let ask = joined(&[&head(1), &[0; 66]]);
    let mut address = [0; 64];
    for (place, byte) in address.iter_mut().zip(b"203.0.113.5") {
        *place = *byte;
    }
    let answer = joined(&[&head(2), &address, &[0xc3, 0x50]]);
    sample.udp(
        inside(11, 50_000),
        outside(104, 50_004),
        "discord",
        &[&ask, &answer],
    );

    let ping = b"\x13\x37\xca\xfe\x07\x00\x00\x00";
    sample.udp(
        inside(11, 50_000),
        outside(105, 50_004),
        "discord",
        &[ping, ping],
    );

    let mut stream = sample.tcp(inside(11, 49_920), outside(106, 443), "discord");
    stream.client(&client_hello("gateway.discord.gg", &[b"http/1.1"]));
    stream.close();
}

fn skype(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(11, 49_930), outside(107, 443), "skype");
    stream.client(&client_hello("edge.skype.com", &[b"h2"]));
    stream.close();
}
