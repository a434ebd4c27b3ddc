//! MSN Messenger and its file transfer.

use ringway_gateway::flow::Direction::{FromClient, FromServer};
use ringway_gateway::inspect::{Expected, FileHead, expected};

use super::{Step, Told, begin, client, data, message, named, run, run_made, server};
use crate::at;

fn payload(command: &str, payload: &str) -> String {
    format!("{command} {}\r\n{payload}", payload.len())
}

const INVITE: &str = "MIME-Version: 1.0\r\nContent-Type: text/x-msmsgsinvite; charset=UTF-8\r\n\r\nApplication-Name: File Transfer\r\nApplication-GUID: {5D3E02AB-6190-11d3-BBBB-00C04F795683}\r\nInvitation-Command: INVITE\r\nInvitation-Cookie: 33267\r\nApplication-File: Autoexec.bat\r\nApplication-FileSize: 187\r\nConnectivity: N\r\n\r\n";
const ACCEPT: &str = "MIME-Version: 1.0\r\nContent-Type: text/x-msmsgsinvite; charset=UTF-8\r\n\r\nInvitation-Command: ACCEPT\r\nInvitation-Cookie: 33267\r\nIP-Address: 192.0.2.7\r\nIP-Address-Internal: 10.0.0.7\r\nPort: 6892\r\nPortX: 11178\r\nAuthCookie: 93301\r\nLaunch-Application: FALSE\r\n\r\n";
const TEXT: &str = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\nX-MMS-IM-Format: FN=Arial\r\n\r\nhello\r\nthere €";

pub(super) fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        (
            "msn",
            vec![
                client("USR 1 ann@example.org 17\r\n"),
                server("USR 1 OK ann@example.org Ann\r\n"),
                client(payload("MSG 2 N", TEXT)),
                server(payload("MSG bob@example.org Bob", INVITE)),
                server(
                    payload("UBX bob@example.org", "<Data/>")
                        + &payload("MSG bob@example.org Bob", ACCEPT),
                ),
            ],
        ),
        (
            "msnftp",
            vec![
                client("VER MSNFTP\r\nUSR ann@example.org 9\r\n"),
                server("VER MSNFTP\r\nFIL 5\r\n"),
                client("TFR\r\n"),
                server(b"\0\x03\0abc\0\x02\0de\x01\0\0"),
                client("BYE 16777989\r\n"),
            ],
        ),
    ]
}

#[test]
fn messages_are_told_with_their_writer() {
    let told = run(
        "msn",
        &[
            client("ANS 1 ann@example.org;{0-1} 17 8\r\n"),
            client(payload("MSG 2 N", TEXT)),
            server(payload("MSG bob@example.org Bob", TEXT)),
            server(payload(
                "MSG bob@example.org Bob",
                "Content-Type: text/x-msmsgscontrol\r\n\r\n\r\n",
            )),
            server(payload(
                "MSG bob@example.org Bob",
                "Content-Type: application/x-msnmsgrp2p\r\n\r\n\0\0bin",
            )),
            server(payload(
                "MSG bob@example.org Bob",
                "Message-ID: {1}\r\nChunk: 1\r\n\r\nmore",
            )),
        ],
    );
    assert_eq!(
        told,
        [
            message("hello\r\nthere €", Some("ann@example.org"), None),
            message("hello\r\nthere €", Some("bob@example.org"), None),
            message("more", Some("bob@example.org"), None),
        ]
    );
}

#[test]
fn other_payloads_are_passed_over() {
    let hidden = payload("MSG mallory@example.org M", TEXT);
    let told = run(
        "msn",
        &[
            server(payload("UBX bob@example.org", &hidden)),
            server("UUX 9 0\r\nQRY 7\r\nADL 5 OK\r\n"),
            client(payload("QRY 7 PROD0038YGB34", &"f".repeat(32))),
            server(payload("NOT", "<NOTIFICATION/>")),
            client("PNG\r\n"),
            client(payload("MSG 3 U", TEXT)),
            server(payload("MSG b@x B", TEXT)),
        ],
    );
    assert_eq!(
        told,
        [
            message("hello\r\nthere €", None, None),
            message("hello\r\nthere €", Some("b@x"), None),
        ]
    );
}

#[test]
fn invitations_announce_transfers() {
    let told = run(
        "msn",
        &[
            server(payload("MSG bob@example.org Bob", INVITE)),
            server(payload("MSG bob@example.org Bob", ACCEPT)),
        ],
    );
    let head = FileHead {
        size: Some(187),
        ..named("Autoexec.bat")
    };
    let expect = |server: &str| {
        Told::Expect(Expected {
            server: at(server),
            application: "msnftp",
            file: head.clone(),
        })
    };
    assert_eq!(
        told,
        [
            Told::Offer(head.clone()),
            expect("192.0.2.7:6892"),
            expect("10.0.0.7:11178"),
        ]
    );
}

#[test]
fn messages_without_a_sane_length_are_lost() {
    let too_long = run("msn", &[client("MSG 1 N 70000\r\n")]);
    assert_eq!(too_long, [Told::Lost("a message that is too long")]);
    let none = run("msn", &[client("MSG 1 N many\r\n")]);
    assert_eq!(none, [Told::Lost("a message without a length")]);
}

#[test]
fn blocks_are_joined_to_the_file() {
    let head = FileHead {
        size: Some(9),
        ..named("a.txt")
    };
    let make = || expected("msnftp", head.clone()).unwrap();
    let told = run_made(
        &make,
        &[
            client("VER MSNFTP\r\n"),
            server("VER MSNFTP\r\n"),
            client("USR ann@example.org 9\r\n"),
            server("FIL 5\r\n"),
            client("TFR\r\n"),
            server(b"\0\x03\0abc\0\0\0\0\x02\0de"),
            server(b"\x01\0\0"),
            client("BYE 16777989\r\n"),
        ],
    );
    // What the sender says on the connection counts.
    assert_eq!(
        told,
        [
            begin(Some("a.txt"), None, Some(5), FromServer),
            data("abcde"),
            Told::End
        ]
    );
    let told = run("msnftp", &[client("VER MSNFTP\r\nFIL 2\r\n\0\x02\0ab")]);
    assert_eq!(
        told,
        [
            begin(None, None, Some(2), FromClient),
            data("ab"),
            Told::End
        ]
    );
}

#[test]
fn a_cancelled_transfer_has_no_end() {
    let told = run("msnftp", &[server(b"FIL 5\r\n\0\x02\0ab\x01\0\0")]);
    assert_eq!(told, [begin(None, None, Some(5), FromServer), data("ab")]);
}

#[test]
fn malformed_transfers_are_lost() {
    let more = run("msnftp", &[server(b"FIL 2\r\n\0\x03\0abc")]);
    assert_eq!(more.last(), Some(&Told::Lost("more bytes than announced")));
    let block = run("msnftp", &[server(b"FIL 2\r\n\x02\x01\0a")]);
    assert_eq!(block.last(), Some(&Told::Lost("a malformed block")));
    let size = run("msnftp", &[server(b"FIL -2\r\n")]);
    assert_eq!(size, [Told::Lost("a malformed size")]);
}
