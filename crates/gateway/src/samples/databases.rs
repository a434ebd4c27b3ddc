//! Databases, and queues between programs.

use super::{Sample, inside, joined, noise, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-databases.pcap");
    relational(&mut sample);
    stores(&mut sample);
    queues(&mut sample);
    sample
}

fn relational(sample: &mut Sample) {
    let greeting = joined(&[
        b"\x2c\x00\x00\x00\x0a8.0.1\x00\x07\x00\x00\x00abcdefgh\x00",
        &[0xff; 24],
    ]);
    let mut stream = sample.tcp(inside(19, 50_180), outside(190, 3_306), "mysql");
    stream.server(&greeting);
    stream.close();

    let opening = b"\x00\x00\x00\x20\x00\x03\x00\x00user\x00reader\x00database\x00a\x00\x00";
    let mut stream = sample.tcp(inside(19, 50_181), outside(191, 5_432), "postgresql");
    stream.client(opening);
    stream.close();

    let opening = b"\x12\x01\x00\x1a\x00\x00\x00\x00\x00\x00\x0b\x00\x06\x01\x00\x11\x00\x01\xff\x10\x00\x00\x00\x00\x00\x00";
    let mut stream = sample.tcp(inside(19, 50_182), outside(192, 1_433), "mssql");
    stream.client(opening);
    stream.close();
}

fn stores(sample: &mut Sample) {
    let hello = joined(&[
        b"\x29\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00",
        b"\x00\x00\x00\x00\x00\x14\x00\x00\x00\x10hello\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
    ]);
    let mut stream = sample.tcp(inside(19, 50_183), outside(193, 27_017), "mongodb");
    stream.client(&hello);
    stream.close();

    let mut stream = sample.tcp(inside(19, 50_184), outside(194, 6_379), "redis");
    stream.client(b"*2\r\n$3\r\nGET\r\n$4\r\nname\r\n");
    stream.server(b"$5\r\nvalue\r\n");
    stream.close();

    let mut stream = sample.tcp(inside(19, 50_185), outside(195, 11_211), "memcached");
    stream.client(b"get name\r\n");
    stream.server(b"VALUE name 0 5\r\nvalue\r\nEND\r\n");
    stream.close();
}

fn queues(sample: &mut Sample) {
    let request = b"\x00\x00\x00\x12\x00\x12\x00\x00\x00\x00\x00\x07\x00\x08producer";
    let answer = joined(&[b"\x00\x00\x00\x14\x00\x00\x00\x07", &noise(170, 16)]);
    let mut stream = sample.tcp(inside(19, 50_186), outside(196, 9_092), "kafka");
    stream.client(request);
    stream.server(&answer);
    stream.close();

    let mut stream = sample.tcp(inside(19, 50_187), outside(197, 5_672), "amqp");
    stream.client(b"AMQP\x00\x00\x09\x01");
    stream.server(b"\x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x0a\x00\x09\x00\x00\xce");
    stream.close();

    let mut stream = sample.tcp(inside(19, 50_188), outside(198, 4_222), "nats");
    stream.server(b"INFO {\"server_id\":\"A\",\"version\":\"2.0.0\"}\r\n");
    stream.client(b"CONNECT {\"verbose\":false}\r\n");
    stream.close();
}
