//! Peer-to-peer flows that are encrypted: found by what their host does otherwise, and without that
//! a guess.

use super::{Sample, inside, joined, noise, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-hidden.pcap");
    bittorrent(&mut sample);
    edonkey(&mut sample);
    sample
}

fn bittorrent(sample: &mut Sample) {
    const APP: &str = "bittorrent";
    let ping = joined(&[
        b"d1:ad2:id20:",
        &noise(121, 20),
        b"e1:q4:ping1:t2:aa1:y1:qe",
    ]);
    let pong = joined(&[b"d1:rd2:id20:", &noise(122, 20), b"e1:t2:aa1:y1:re"]);
    sample.udp(
        inside(14, 51_413),
        outside(130, 6_881),
        APP,
        &[&ping, &pong],
    );

    // A key and padding each way, then hashes and what is offered.
    let mut stream = sample.tcp(inside(14, 50_100), outside(131, 18_201), APP);
    stream.client(&noise(123, 96 + 211));
    stream.server(&noise(124, 96 + 44));
    stream.client(&noise(125, 130));
    stream.server(&noise(126, 90));
    stream.close();
}

fn edonkey(sample: &mut Sample) {
    const APP: &str = "edonkey";
    let request = joined(&[&[0xe4, 0x21, 2], &noise(127, 16), &noise(128, 16)]);
    let answer = joined(&[&[0xe4, 0x29], &noise(127, 16), &[1], &noise(129, 25)]);
    sample.udp(
        inside(15, 4_672),
        outside(132, 4_672),
        APP,
        &[&request, &answer],
    );

    let mut stream = sample.tcp(inside(15, 50_110), outside(133, 21_007), APP);
    stream.client(&noise(130, 12 + 9));
    stream.server(&noise(131, 6 + 13));
    stream.client(&noise(132, 110));
    stream.server(&noise(133, 120));
    stream.close();

    // Kad, obfuscated, from the port that speaks it in the clear.
    sample.udp(
        inside(15, 4_672),
        outside(134, 14_672),
        APP,
        &[&noise(134, 43), &noise(135, 60)],
    );
}
