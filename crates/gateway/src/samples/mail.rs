//! Mail, news, files and streams in lines of text.

use super::web::client_hello;
use super::{Sample, inside, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-mail.pcap");
    let conversations: [(u16, &str, [&str; 2]); 5] = [
        (
            25,
            "smtp",
            [
                "220 mail.example.com ESMTP\r\n",
                "EHLO host.example.com\r\n",
            ],
        ),
        (
            21,
            "ftp",
            ["220 files.example.com ready\r\n", "USER reader\r\n"],
        ),
        (110, "pop3", ["+OK ready\r\n", "USER reader\r\n"]),
        (
            143,
            "imap",
            ["* OK ready\r\n", "a1 LOGIN reader secret\r\n"],
        ),
        (
            119,
            "nntp",
            ["200 news.example.com ready\r\n", "MODE READER\r\n"],
        ),
    ];
    for (client, (port, app, [greeting, command])) in (50_160..).zip(conversations) {
        let mut stream = sample.tcp(inside(18, client), outside(180, port), app);
        stream.server(greeting.as_bytes());
        stream.client(command.as_bytes());
        stream.close();
    }
    let mut stream = sample.tcp(inside(18, 50_170), outside(181, 554), "rtsp");
    stream.client(b"OPTIONS rtsp://camera.example.com/live RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    stream.server(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nPublic: DESCRIBE, SETUP\r\n\r\n");
    stream.close();
    for (client, port, app) in [
        (50_171, 993, "imap"),
        (50_172, 995, "pop3"),
        (50_173, 465, "smtp"),
    ] {
        let mut stream = sample.tcp(inside(18, client), outside(182, port), app);
        stream.client(&client_hello("mail.example.com", &[]));
        stream.close();
    }
    sample
}
