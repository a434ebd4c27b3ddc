//! Transfers of Gnutella and FastTrack.

use ringway_gateway::flow::Direction::{FromClient, FromServer};
use ringway_gateway::inspect::FileHead;

use super::{Step, Told, begin, begin_part, client, data, offer, run, server};

const GUID: &str = "0123456789ABCDEF0123456789ABCDEF";

pub(super) fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        (
            "gnutella",
            vec![
                client(format!("GIV 4:{GUID}/a%20song.mp3\n\n")),
                server("GET /uri-res/N2R?urn:sha1:ABC HTTP/1.1\r\n\r\n"),
                client("HTTP 200 OK\r\nContent-Length: 2\r\n\r\nab"),
            ],
        ),
        (
            "fasttrack",
            vec![
                client("GIVE 12345678\r\n\r\n"),
                server("GET /.hash=0011 HTTP/1.1\r\nX-Kazaa-Network: KaZaA\r\n\r\n"),
                client(
                    "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\nX-KazaaTag: 4=T\r\nX-KazaaTag: 2=t.mp3\r\n\r\nab",
                ),
            ],
        ),
    ]
}

#[test]
fn gnutella_asks_by_index_and_by_hash() {
    let told = run(
        "gnutella",
        &[
            client(
                "GET /get/7/a%20song.mp3 HTTP/1.1\r\n\r\nGET /uri-res/N2R?urn:sha1:ABC HTTP/1.1\r\n\r\n",
            ),
            server(
                "HTTP 200 OK\r\nContent-Type: application/binary\r\nContent-Length: 2\r\n\r\nab",
            ),
            server(
                "HTTP/1.1 206 Partial Content\r\nContent-Disposition: attachment; filename=\"b.ogg\"\r\nContent-Range: bytes=0-1/50\r\nContent-Length: 2\r\n\r\ncd",
            ),
        ],
    );
    assert_eq!(
        told,
        [
            offer("a song.mp3", FromServer),
            Told::Offer(FileHead {
                sender: Some(FromServer),
                ..FileHead::default()
            }),
            begin(
                Some("a song.mp3"),
                Some("application/binary"),
                Some(2),
                FromServer
            ),
            data("ab"),
            Told::End,
            begin_part(Some("b.ogg"), None, Some(50), FromServer),
            data("cd"),
            Told::End,
        ]
    );
}

#[test]
fn an_uploader_that_calls_is_asked() {
    let told = run(
        "gnutella",
        &[
            client(format!("GIV 4:{GUID}/dir/a%20song.mp3\n\n")),
            server("GET /uri-res/N2R?urn:sha1:ABC HTTP/1.1\r\n\r\n"),
            client("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"),
        ],
    );
    assert_eq!(
        told,
        [
            offer("a song.mp3", FromClient),
            offer("a song.mp3", FromClient),
            begin(Some("a song.mp3"), None, Some(2), FromClient),
            data("ab"),
            Told::End,
        ]
    );
}

/// It may also come late.
#[test]
fn empty_line_after_announcement_is_optional() {
    for (first, second) in [("\n", "\n"), ("\r\n", ""), ("\n", "\r\n")] {
        let told = run(
            "gnutella",
            &[
                client(format!("GIV 4:{GUID}/a{first}")),
                server("GET /get/4/a HTTP/1.1\r\n\r\n"),
                client(format!("{second}HTTP/1.1 200 OK\r\n\r\nab")),
                Step::ClientEnds,
            ],
        );
        assert_eq!(
            told[2..],
            [
                begin(Some("a"), None, None, FromClient),
                data("ab"),
                Told::End
            ]
        );
    }
}

#[test]
fn gnutella_nodes_are_not_read() {
    let told = run(
        "gnutella",
        &[
            client("GNUTELLA CONNECT/0.6\r\n"),
            server("GNUTELLA/0.6 200 OK\r\n"),
        ],
    );
    assert_eq!(told, [Told::Lost("messages between nodes, no transfer")]);
    let told = run("gnutella", &[server("HTTP/1.1 200 OK\r\n")]);
    assert_eq!(told, [Told::Lost("an answer without its request")]);
}

#[test]
fn fasttrack_names_stand_in_tags() {
    let told = run(
        "fasttrack",
        &[
            client("GIVE 12345678\r\n\r\n"),
            server(
                "GET /.hash=0011223344556677889900112233445566778899 HTTP/1.1\r\nX-Kazaa-Network: KaZaA\r\n\r\n",
            ),
            client(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\nX-KazaaTag: 3==hash=\r\nX-KazaaTag: 4=Title\r\nX-KazaaTag: 2=t.mp3\r\n\r\nab",
            ),
        ],
    );
    assert_eq!(
        told,
        [
            Told::Offer(FileHead {
                sender: Some(FromClient),
                ..FileHead::default()
            }),
            begin_part(Some("t.mp3"), None, Some(9), FromClient),
            data("ab"),
            Told::End,
        ]
    );
    let told = run(
        "fasttrack",
        &[
            client("GET /.download/x.avi HTTP/1.1\r\n\r\n"),
            server("HTTP/1.0 503 Service Unavailable\r\nX-Kazaa-Username: u\r\n\r\n"),
            Step::ServerEnds,
        ],
    );
    assert_eq!(
        told,
        [
            offer("x.avi", FromServer),
            begin(None, None, None, FromServer),
            Told::End
        ]
    );
}
