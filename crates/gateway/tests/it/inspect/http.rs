//! Files in HTTP.

use ringway_gateway::flow::Direction::{FromClient, FromServer};
use ringway_gateway::inspect::FileForm;

use super::{Step, Told, begin, begin_part, client, data, offer, run, server};

fn http(steps: &[Step]) -> Vec<Told> {
    run("http", steps)
}

const FORM: &str = "POST /up HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=\"x-1\"\r\nContent-Length: LENGTH\r\n\r\n";

fn form(body: &str) -> Step {
    client(FORM.replace("LENGTH", &body.len().to_string()) + body)
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    let parts = "--x-1\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n--x-1\r\nContent-Disposition: form-data; name=f; filename=\"a.bin\"\r\nContent-Type: a/b\r\n\r\nab\r\n--x\r\ncd\r\n--x-1--\r\n";
    vec![
        (
            "http",
            vec![
                client("GET /a/b%20c.exe?x HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\n\r\n"),
                server(
                    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Type: A/b; c\r\n\r\nabcdHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
                ),
                client("GET /c HTTP/1.1\r\n\r\n"),
                server(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: 1\r\n\r\n",
                ),
            ],
        ),
        (
            "http",
            vec![
                form(parts),
                server(
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nContent-Disposition: attachment; filename*=UTF-8''%e2%82%ac.txt\r\n\r\nrest",
                ),
                Step::ServerEnds,
            ],
        ),
        (
            "http",
            vec![
                client(
                    "PUT /x.bin HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\nCONNECT a:443 HTTP/1.1\r\n\r\n",
                ),
                server(
                    "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
                ),
            ],
        ),
    ]
}

#[test]
fn pipelined_answers_carry_requested_files_in_order() {
    let told = http(&[
        client(
            "GET /pub/a%20b.iso HTTP/1.1\r\nHost: h\r\n\r\nGET /c.txt?v=2 HTTP/1.1\r\nHost: h\r\n\r\n",
        ),
        server(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: Application/X-ISO; a=b\r\n\r\nabcHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
        ),
    ]);
    assert_eq!(
        told,
        [
            offer("a b.iso", FromServer),
            offer("c.txt", FromServer),
            begin(
                Some("a b.iso"),
                Some("application/x-iso"),
                Some(3),
                FromServer
            ),
            data("abc"),
            Told::End,
            begin(None, None, Some(2), FromServer),
            data("no"),
            Told::End,
        ]
    );
}

#[test]
fn an_offer_comes_before_the_answer() {
    let told = http(&[client("GET /x.exe HTTP/1.1\r\n\r\n")]);
    assert_eq!(told, [offer("x.exe", FromServer)]);
    assert_eq!(http(&[client("GET /x.exe HTTP/1.1\r\nHost: h\r\n")]), []);
}

#[test]
fn answers_without_bodies_have_none() {
    let told = http(&[
        client(
            "HEAD /a.txt HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\nGET /d HTTP/1.1\r\n\r\n",
        ),
        server("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        server("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        server("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
        server("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nd"),
    ]);
    assert_eq!(
        told,
        [
            offer("b", FromServer),
            offer("c", FromServer),
            offer("d", FromServer),
            begin(Some("d"), None, Some(1), FromServer),
            data("d"),
            Told::End,
        ]
    );
}

#[test]
fn chunks_join_without_extensions_and_trailers() {
    let told = http(&[
        client("GET /d HTTP/1.1\r\n\r\nGET /e HTTP/1.1\r\n\r\n"),
        server(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4;n=\"v\"\r\nabcd\r\n00A ;x\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
        ),
        server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ]);
    assert_eq!(
        told,
        [
            offer("d", FromServer),
            offer("e", FromServer),
            begin(Some("d"), None, None, FromServer),
            data("abcd0123456789"),
            Told::End,
            begin(Some("e"), None, None, FromServer),
            Told::End,
        ]
    );
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let steps = [
        client("GET /d HTTP/1.0\r\n\r\n"),
        server("HTTP/1.0 200 OK\r\n\r\nabc"),
        Step::ServerEnds,
    ];
    let told = http(&steps);
    assert_eq!(
        told[1..],
        [
            begin(Some("d"), None, None, FromServer),
            data("abc"),
            Told::End
        ]
    );
    // What is cut off has no end.
    let told = http(&[
        client("GET /d HTTP/1.0\r\n\r\n"),
        server("HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabc"),
        Step::ServerEnds,
    ]);
    assert_eq!(told.last(), Some(&data("abc")));
}

#[test]
fn a_range_tells_the_size_of_the_whole() {
    let told = http(&[
        client("GET /d.bin HTTP/1.1\r\nRange: bytes=2-4\r\n\r\n"),
        server(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/90\r\nContent-Length: 3\r\n\r\nabc",
        ),
    ]);
    let part = begin_part(Some("d.bin"), None, Some(90), FromServer);
    assert_eq!(told[1], part);
    assert_eq!(told[2..], [data("abc"), Told::End]);
}

/// What a scanner would not see as it is.
#[test]
fn files_in_a_coding_are_told_as_such() {
    for (line, form) in [
        ("Content-Encoding: gzip", FileForm::Encoded),
        ("Content-Encoding: identity, br", FileForm::Encoded),
        ("Content-Encoding: identity", FileForm::Whole),
        ("Content-Encoding:", FileForm::Whole),
        ("Content-Range: bytes 0-2/9", FileForm::Part),
        ("Content-Transfer-Encoding: base64", FileForm::Encoded),
        ("Content-Transfer-Encoding: binary", FileForm::Whole),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{line}\r\nContent-Length: 3\r\n\r\nabc");
        let told = http(&[client("GET /a HTTP/1.1\r\n\r\n"), server(&answer)]);
        let Told::Begin(head) = &told[1] else {
            panic!("{told:?}");
        };
        assert_eq!(head.form, form, "{line}");
    }
}

#[test]
fn a_name_in_several_parameters_is_one() {
    for (value, name) in [
        ("filename*0=\"ev\"; filename*1=\"il.exe\"", "evil.exe"),
        ("filename*0*=UTF-8''%65vil%2E; filename*1=exe", "evil.exe"),
        ("filename*1=\"il.exe\"; filename*0=\"ev\"", "evil.exe"),
        ("filename*=UTF-8''%C3%A9vil.exe", "\u{e9}vil.exe"),
    ] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Disposition: attachment; {value}\r\nContent-Length: 3\r\n\r\nabc"
        );
        let told = http(&[client("GET /a HTTP/1.1\r\n\r\n"), server(&answer)]);
        assert_eq!(
            told[1],
            begin(Some(name), None, Some(3), FromServer),
            "{value}"
        );
    }
}

#[test]
fn names_are_those_that_receivers_show() {
    let cases = [
        (
            "attachment; filename=\"a;b \\\"c\\\".txt\"",
            "a;b \"c\".txt",
        ),
        (
            "attachment; filename=plain.exe; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.exe",
            "naïve €.exe",
        ),
        ("attachment; filename*=ISO-8859-1'en'%E9t%e9.txt", "été.txt"),
        (
            "attachment; filename*=KOI8-R''%C1; filename=\"b.txt\"",
            "b.txt",
        ),
        (
            "inline; FileName = \"..\\..\\windows\\evil.dll\"",
            "evil.dll",
        ),
        ("attachment; filename=\"../../etc/passwd\"", "passwd"),
        ("attachment; filename=\"=?UTF-8?B?w6kuZXhl?=\"", "é.exe"),
        (
            "attachment; filename=\"=?iso-8859-1?Q?a_=E9?= =?utf-8?q?.exe?=\"",
            "a é.exe",
        ),
        ("attachment; filename=\"a.e%78e\"", "a.exe"),
        ("attachment; filename=\"a.exe. .\"", "a.exe"),
        ("filename=x.zip", "x.zip"),
        ("attachment; filename=\"\"", "asked"),
        ("attachment; filename=\"/\"", "asked"),
        ("attachment", "asked"),
    ];
    for (line, name) in cases {
        let told = http(&[
            client("GET /asked HTTP/1.1\r\n\r\n"),
            server(format!(
                "HTTP/1.1 200 OK\r\nContent-Disposition: {line}\r\nContent-Length: 1\r\n\r\nx"
            )),
        ]);
        assert_eq!(
            told[1],
            begin(Some(name), None, Some(1), FromServer),
            "{line}"
        );
    }
}

#[test]
fn targets_name_files() {
    let cases = [
        ("/a/b/c.tar.gz", Some("c.tar.gz")),
        ("http://host.example/x%2ebin?y#z", Some("x.bin")),
        ("/a%2Fb.txt", Some("b.txt")),
        ("/%E2%82%AC%", Some("€%")),
        ("/get.php?file=x.exe", Some("get.php")),
        ("/?id=3&file=dir%2fsome+thing.exe", Some("some thing.exe")),
        ("/?id=3", None),
        ("http://host.exe", None),
        ("/", None),
        ("*", Some("*")),
    ];
    for (target, name) in cases {
        let told = http(&[client(format!("GET {target} HTTP/1.1\r\n\r\n"))]);
        let expected: Vec<Told> = name.iter().map(|name| offer(name, FromServer)).collect();
        assert_eq!(told, expected, "{target}");
    }
}

#[test]
fn uploads_are_files_from_the_client() {
    let put = http(&[client(
        "PUT /dir/x.doc HTTP/1.1\r\nContent-Type: application/msword\r\nContent-Length: 3\r\n\r\nabc",
    )]);
    assert_eq!(
        put,
        [
            begin(
                Some("x.doc"),
                Some("application/msword"),
                Some(3),
                FromClient
            ),
            data("abc"),
            Told::End,
        ]
    );
    let post = http(&[client(
        "POST /api HTTP/1.1\r\nContent-Type: application/json\r\nContent-Disposition: attachment; filename=j.json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    )]);
    assert_eq!(
        post,
        [
            begin(Some("j.json"), Some("application/json"), None, FromClient),
            data("{}"),
            Told::End,
        ]
    );
    let fields = http(&[
        client(
            "POST /f HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
        ),
        server("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
    ]);
    assert_eq!(
        fields,
        [
            offer("f", FromServer),
            begin(Some("f"), None, Some(1), FromServer),
            data("x"),
            Told::End,
        ]
    );
}

#[test]
fn forms_are_cut_into_their_files() {
    let told = http(&[form(
        "preamble\r\n--x-1\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nno file\r\n\
         --x-1  \r\nContent-Disposition: form-data; name=\"f\"; filename=\"C:\\dir\\a.bin\"\r\nContent-Type: Image/PNG\r\n\r\nab\r\n--x-\r\n\ncd\r\r\n\
         --x-1\r\nContent-Disposition: form-data; name=\"e\"; filename=\"empty\"\r\n\r\n\r\n\
         --x-1\r\nContent-Disposition: form-data; name=\"e\"; filename=\"none\"\r\n\r\n\
         --x-1\r\n\r\nno head\r\n\
         --x-1--\r\nepilogue",
    )]);
    assert_eq!(
        told,
        [
            offer("up", FromServer),
            begin(Some("a.bin"), Some("image/png"), None, FromClient),
            data("ab\r\n--x-\r\n\ncd\r"),
            Told::End,
            begin(Some("empty"), None, None, FromClient),
            Told::End,
            begin(Some("none"), None, None, FromClient),
            Told::End,
        ]
    );
}

#[test]
fn form_cut_off_has_no_end() {
    let told = http(&[form(
        "--x-1\r\nContent-Disposition: form-data; filename=a\r\n\r\nsome content that is long enough",
    )]);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(!told.contains(&Told::End));
}

#[test]
fn long_parts_come_through_whole() {
    let long = "0123456789\r\n-".repeat(3_000);
    let body =
        format!("--x-1\r\nContent-Disposition: form-data; filename=a\r\n\r\n{long}\r\n--x-1--");
    let steps = [form(&body)];
    let make = || super::made("http");
    for lengths in [&[usize::MAX][..], &[1_460], &[8_192], &[1, 8_191, 77]] {
        let told = super::run_cut(&make, &steps, lengths);
        assert!(
            told[2] == data(&long) && told[3] == Told::End,
            "{lengths:?}"
        );
    }
}

#[test]
fn what_receivers_may_read_otherwise_is_lost() {
    let head = |line: &str| format!("POST /a HTTP/1.1\r\n{line}\r\n\r\n");
    let cases = [
        (
            head("Content-Length: 3\r\nTransfer-Encoding: chunked"),
            "a length and a transfer coding",
        ),
        (
            head("Content-Length: 3\r\nContent-Length: 4"),
            "two different lengths",
        ),
        (head("Content-Length: 3, 4"), "two different lengths"),
        (head("Content-Length: +3"), "a malformed length"),
        (head("Content-Length: 3 3"), "a malformed length"),
        (head("Content-Length:"), "a malformed length"),
        (
            head("Content-Length: 99999999999999999999"),
            "a malformed length",
        ),
        (
            head("Transfer-Encoding: gzip, chunked"),
            "an unknown transfer coding",
        ),
        (
            head("Transfer-Encoding: chunked, identity"),
            "an unknown transfer coding",
        ),
        (
            head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            "an unknown transfer coding",
        ),
        (
            head("Transfer-Encoding : chunked"),
            "a malformed or folded header line",
        ),
        (head("A: b\r\n c"), "a malformed or folded header line"),
        (head(" A: b"), "a malformed or folded header line"),
        (head("A: b\rc"), "a bare CR"),
        (head("A: b\nC: d"), "a line that ends without CR"),
        (head("A: b\0"), "a NUL where text belongs"),
        (
            "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            "a transfer coding in HTTP/1.0",
        ),
        ("GET /a\r\n\r\n".to_owned(), "a malformed first line"),
        (
            "GET /a HTTP/3.0\r\n\r\n".to_owned(),
            "another version of HTTP",
        ),
        (
            "GET  /a HTTP/1.1\r\n\r\n".to_owned(),
            "a malformed first line",
        ),
        (
            "GET /a HTTP/1.1\r\n".to_owned() + &"a: b\r\n".repeat(101) + "\r\n",
            "too many header lines",
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            "a malformed first line",
        ),
    ];
    for (request, reason) in cases {
        assert_eq!(
            http(&[client(&request)]),
            [Told::Lost(reason)],
            "{request:?}"
        );
    }
}

#[test]
fn the_same_length_twice_is_one() {
    let told = http(&[client(
        "PUT /a HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3, 3\r\n\r\nabc",
    )]);
    assert_eq!(told[1..], [data("abc"), Told::End]);
}

#[test]
fn malformed_chunks_are_lost() {
    let cases = [
        ("3\nabc\r\n", "a bare CR or LF in a chunked body"),
        ("3;a\rb\r\nabc\r\n", "a bare CR or LF in a chunked body"),
        ("3 \r\nabc\r\n", "a malformed chunk size"),
        ("0x3\r\nabc\r\n", "a malformed chunk size"),
        ("\r\n", "a malformed chunk size"),
        ("-1\r\n", "a malformed chunk size"),
        ("fffffffffffffffff\r\n", "a malformed chunk size"),
        ("0\r\nGET / HTTP/1.1\r\n", "a malformed trailer"),
    ];
    for (body, reason) in cases {
        let told = http(&[client(format!(
            "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        ))]);
        assert_eq!(
            told,
            [begin(Some("a"), None, None, FromClient), Told::Lost(reason)],
            "{body:?}"
        );
    }
    let told = http(&[client(
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
    )]);
    assert_eq!(
        told.last(),
        Some(&Told::Lost("a chunk that is longer than its size"))
    );
}

#[test]
fn ambiguous_forms_are_lost() {
    let cases = [
        (
            "--x-1\r\nContent-Disposition: form-data; filename=a\r\n\r\nab\n--x-1\r\n",
            "a boundary behind a bare LF",
        ),
        ("--x-12\r\n", "a boundary that may be another one"),
        ("--x-1\nA: b\r\n", "a boundary that may be another one"),
        ("--x-1\r\nA: b\nC: d\r\n\r\n", "a line that ends without CR"),
    ];
    for (body, reason) in cases {
        assert_eq!(
            http(&[form(body)]).last(),
            Some(&Told::Lost(reason)),
            "{body:?}"
        );
    }
    let twice = "POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(
        http(&[client(twice)]),
        [Told::Lost("two different media types of a form")]
    );
}

#[test]
fn tunnels_and_other_versions_are_lost() {
    let websocket = http(&[
        client("GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        server("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02"),
        client("\x03"),
    ]);
    assert_eq!(websocket, [offer("chat", FromServer), Told::Lost("tunnel")]);
    let connect = [
        client("CONNECT a.example:443 HTTP/1.1\r\n\r\n"),
        server("HTTP/1.1 200 Established\r\n\r\n"),
    ];
    assert_eq!(http(&connect), [Told::Lost("tunnel")]);
    let early = [client("CONNECT a.example:443 HTTP/1.1\r\n\r\n\x16\x03")];
    assert_eq!(http(&early), [Told::Lost("tunnel")]);
    let refused = http(&[
        client("CONNECT a.example:443 HTTP/1.1\r\n\r\n"),
        server("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
        client("GET /a HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(refused, [offer("a", FromServer)]);
    let second = http(&[client("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]);
    assert_eq!(second, [Told::Lost("http/2")]);
}

#[test]
fn an_answer_without_its_request_is_lost() {
    let told = http(&[server("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")]);
    assert_eq!(told, [Told::Lost("an answer without its request")]);
    // Its first byte says so.
    assert_eq!(
        http(&[server("H")]),
        [Told::Lost("an answer without its request")]
    );
}

#[test]
fn empty_line_before_a_request_is_skipped() {
    let told = http(&[client("\r\n\r\nGET /a HTTP/1.1\r\n\r\n")]);
    assert_eq!(told, [offer("a", FromServer)]);
}

#[test]
fn bounds_hold() {
    let make = || super::made("http");
    let endless = [client([b"GET /".as_slice(), &[b'a'; 70_000]].concat())];
    for lengths in [&[usize::MAX][..], &[1_000]] {
        let told = super::run_cut(&make, &endless, lengths);
        assert_eq!(told, [Told::Lost("a line or head that is too long")]);
    }
    let many = [client("GET / HTTP/1.1\r\n\r\n".repeat(65))];
    let told = super::run_cut(&make, &many, &[1_000]);
    assert_eq!(told, [Told::Lost("too many requests without answers")]);
}

#[test]
fn malformed_answers_are_lost() {
    let cases = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "a length and a transfer coding",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n",
            "a malformed or folded header line",
        ),
        (
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "a malformed or folded header line",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\n",
            "two different lengths",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
            "an unknown transfer coding",
        ),
        ("HTTP/1.1 20 OK\r\n\r\n", "a malformed first line"),
        ("HTTP/1.1 600 OK\r\n\r\n", "a malformed answer"),
        ("HTTP/2.0 200 OK\r\n\r\n", "another version of HTTP"),
        (
            "HTTP/1.1 101 No\r\n\r\n",
            "a change of protocol that nobody asked for",
        ),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "an answer without a head"),
        ("ICY 200 OK\r\n\r\n", "an answer without a head"),
        ("MZ\u{90} the file itself", "an answer without a head"),
    ];
    for (answer, reason) in cases {
        let told = http(&[client("GET /a HTTP/1.1\r\n\r\n"), server(answer)]);
        assert_eq!(
            told,
            [offer("a", FromServer), Told::Lost(reason)],
            "{answer:?}"
        );
    }
}

#[test]
fn files_of_both_directions_overlap() {
    let told = http(&[
        client("PUT /up.bin HTTP/1.1\r\nContent-Length: 4\r\n\r\nab"),
        server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx"),
        client("cd"),
        server("y"),
    ]);
    assert_eq!(
        told,
        [
            begin(Some("up.bin"), None, Some(4), FromClient),
            data("ab"),
            begin(None, None, Some(2), FromServer),
            data("xcd"),
            Told::End,
            data("y"),
            Told::End,
        ]
    );
}

#[test]
fn long_names_keep_their_end() {
    let name = "\u{20ac}".repeat(1_000) + ".exe";
    let told = super::run_cut(
        &|| super::made("http"),
        &[client(format!(
            "PUT /x HTTP/1.1\r\nContent-Disposition: a; filename={name}\r\nContent-Length: 1\r\n\r\nx"
        ))],
        &[usize::MAX],
    );
    let Told::Begin(head) = &told[0] else {
        panic!("{told:?}")
    };
    let shown = head.name.as_deref().unwrap();
    assert!(shown.len() <= 1_024 && shown.len() > 1_000 && shown.ends_with("\u{20ac}.exe"));
}
