//! Mail, news, files and streams, and what resembles them.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::super::{only, pair};
use super::{is, tcp, unknown};

/// A server speaks first, then the client.
fn greeted(greeting: &str, command: &str) -> ringway_gateway::FlowRecord {
    tcp(&[b"", greeting.as_bytes(), command.as_bytes()])
}

#[test]
fn smtp_and_ftp_by_both_sides() {
    is(&greeted("220 a\r\n", "EHLO b\r\n"), "smtp", Certain);
    is(
        &greeted("220-a\r\n220 b\r\n", "helo b\r\n"),
        "smtp",
        Certain,
    );
    is(&greeted("220 a ESMTP\r\n", ""), "smtp", Likely);
    is(&tcp(&[b"EHLO b\r\n"]), "smtp", Likely);
    is(&greeted("220 a\r\n", "USER b\r\n"), "ftp", Certain);
    is(&greeted("220 a FTP\r\n", ""), "ftp", Likely);
    unknown(&greeted("220 a\r\n", ""));
    unknown(&greeted("220 a\r\n", "MAIL b\r\n"));
    unknown(&greeted("221 a\r\n", "FEAT\r\n"));
    unknown(&tcp(&[b"FEAT\r\n"]));
    unknown(&tcp(&[b"EHLO\r\n"]));
}

#[test]
fn pop3_imap_and_nntp_by_both_sides() {
    is(&greeted("+OK a\r\n", "USER b\r\n"), "pop3", Certain);
    is(&greeted("+OK POP3 a\r\n", ""), "pop3", Likely);
    is(&greeted("+OK a\r\n", ""), "pop3", Guess);
    unknown(&greeted("+OKAY a\r\n", "USER b\r\n"));
    unknown(&tcp(&[b"CAPA\r\n"]));
    is(&greeted("* OK a\r\n", "a1 LOGIN b c\r\n"), "imap", Certain);
    is(
        &greeted("* OK [CAPABILITY IMAP4rev1] a\r\n", ""),
        "imap",
        Certain,
    );
    is(&greeted("* OK a\r\n", ""), "imap", Likely);
    unknown(&greeted("* NO a\r\n", "a1 LOGIN b c\r\n"));
    unknown(&tcp(&[b"a1 LOGIN b c\r\n"]));
    is(&greeted("200 a\r\n", "MODE READER\r\n"), "nntp", Certain);
    is(&greeted("201 a NNTP\r\n", ""), "nntp", Likely);
    unknown(&greeted("202 a\r\n", "MODE READER\r\n"));
    unknown(&tcp(&[b"GROUP a.b\r\n"]));
}

#[test]
fn rtsp_by_its_version_and_numbers() {
    let options = b"OPTIONS rtsp://a.example/b RTSP/1.0\r\nCSeq: 1\r\n\r\n";
    is(&tcp(&[options]), "rtsp", Certain);
    is(
        &tcp(&[b"", b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n"]),
        "rtsp",
        Certain,
    );
    is(
        &tcp(&[b"DESCRIBE rtsp://a.example/b RTSP/1.0\r\n\r\n"]),
        "rtsp",
        Likely,
    );
    unknown(&tcp(&[
        b"DESCRIBE http://a.example/b RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    ]));
    unknown(&tcp(&[
        b"DESCRIBE rtsp://a.example/b RTSP/3.0\r\nCSeq: 1\r\n\r\n",
    ]));
}

#[test]
fn encrypted_mail_by_its_ports() {
    use super::web::{client_hello, records};
    let hello = records(&client_hello("a.example", 0), 10_000);
    for (port, app) in [(993, "imap"), (995, "pop3"), (465, "smtp"), (994, "tls")] {
        let (client, mut server) = pair();
        server.set_port(port);
        let mut packets = ringway_gateway::Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.client(&hello);
        let flow = only(&packets);
        assert_eq!(flow.app, app);
        assert_eq!(flow.details.sni.as_deref(), Some("a.example"));
    }
}
