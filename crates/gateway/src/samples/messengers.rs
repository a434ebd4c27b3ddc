//! MSN Messenger and MSNFTP, IRC and DCC, XMPP and its bytestreams.

use super::{Sample, inside, joined, noise, outside};
use crate::reader::length32;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-messengers.pcap");
    msn(&mut sample);
    irc(&mut sample);
    xmpp(&mut sample);
    sample
}

fn msn(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(10, 49_800), outside(90, 1_863), "msn");
    stream.client(b"VER 1 MSNP8 CVR0\r\n");
    stream.server(b"VER 1 MSNP8 CVR0\r\n");
    stream.client(b"CVR 2 0x0409 win 4.10 i386 MSNMSGR 5.0.0544 MSMSGS sample@example.com\r\n");
    stream.close();

    let invitation = "MIME-Version: 1.0\r\nContent-Type: text/x-msmsgsinvite; charset=UTF-8\r\n\r\n\
                      Invitation-Command: ACCEPT\r\nInvitation-Cookie: 33267\r\nIP-Address: 10.0.0.10\r\nPort: 7891\r\n\
                      AuthCookie: 93301\r\n\r\n";
    let message = format!("MSG 3 N {}\r\n{invitation}", invitation.len());
    let mut stream = sample.tcp(inside(10, 49_801), outside(91, 1_863), "msn");
    stream.client(b"ANS 1 sample@example.com 849102291.520491113 11752013\r\n");
    stream.server(b"IRO 1 1 1 other@example.com other\r\nANS 1 OK\r\n");
    stream.client(message.as_bytes());
    stream.close();

    let mut stream = sample.tcp(outside(92, 49_802), inside(10, 6_891), "msnftp");
    stream.client(b"VER MSNFTP\r\n");
    stream.server(b"VER MSNFTP\r\n");
    stream.client(b"USR other@example.com 93301\r\n");
    stream.server(b"FIL 2048\r\n");
    stream.client(b"TFR\r\n");
    stream.server(&joined(&[&[0, 0xfd, 0x07], &noise(71, 2_045)]));
    stream.close();

    // Picked up after its text: only the invitation names the endpoint.
    let mut stream = sample.tcp(outside(92, 49_803), inside(10, 7_891), "msnftp");
    stream.server(&joined(&[&[0, 0xfd, 0x07], &noise(72, 2_045)]));
    stream.close();
}

fn irc(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(10, 49_810), outside(93, 6_667), "irc");
    stream.client(b"NICK sample\r\nUSER sample 0 * :Sample\r\n");
    stream.server(b":irc.example.org 001 sample :Welcome\r\n");
    stream.client(b"JOIN #sample\r\n");
    stream.server(b":sample!s@h JOIN #sample\r\n");
    for _ in 0..8 {
        stream.client(b"PING :irc.example.org\r\n");
        stream.server(b":irc.example.org PONG irc.example.org :irc.example.org\r\n");
    }
    // 198.51.100.94 as a number.
    stream
        .server(b":other!o@h PRIVMSG sample :\x01DCC SEND sample.bin 3325256798 5000 3000\x01\r\n");
    stream.close();

    let part = noise(73, 1_000);
    let mut stream = sample.tcp(inside(10, 49_811), outside(94, 5_000), "dcc");
    for count in 1..=3_u32 {
        stream.server(&part);
        stream.client(&count.saturating_mul(1_000).to_be_bytes());
    }
    stream.close();

    // Not announced: the counts alone tell.
    let mut stream = sample.tcp(inside(10, 49_812), outside(95, 5_001), "dcc");
    let mut received = 0_u32;
    for seed in 74..77 {
        let part = joined(&[b"PK", &noise(seed, 900)]);
        received = received.saturating_add(length32(part.len()));
        stream.server(&part);
        stream.client(&received.to_be_bytes());
    }
    stream.close();
}

fn xmpp(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(10, 49_820), outside(96, 5_222), "xmpp");
    stream.client(
        b"<?xml version='1.0'?><stream:stream to='example.org' xmlns='jabber:client' \
          xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>",
    );
    stream.server(
        b"<?xml version='1.0'?><stream:stream from='example.org' id='s1' xmlns='jabber:client' \
          xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>",
    );
    stream.close();

    // XEP-0065 §5.3.2: the domain name is the SHA-1 of the session and both addresses, in
    // hexadecimal.
    let name = b"972b7bf47291ca609517f67f86b5081086052dad";
    let mut stream = sample.tcp(inside(10, 49_821), outside(97, 7_625), "xmpp");
    stream.client(&[5, 1, 0]);
    stream.server(&[5, 0]);
    stream.client(&joined(&[&[5, 1, 0, 3, 40], name, &[0, 0]]));
    stream.server(&joined(&[&[5, 0, 0, 3, 40], name, &[0, 0]]));
    stream.client(&noise(78, 2_000));
    stream.close();
}
