//! XMPP: messages, and files in and beside its stream.

use ringway_gateway::flow::Direction::{FromClient, FromServer};
use ringway_gateway::inspect::{Expected, FileHead, bytestream};

use super::{Step, Told, begin, client, data, message, named, run, run_made, server};
use crate::at;

const OPEN: &str = "<?xml version='1.0'?><stream:stream to='ring.example' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const SI: &str = "<iq type='set' id='1'><si xmlns='http://jabber.org/protocol/si' id='s1' mime-type='Text/Plain' profile='http://jabber.org/protocol/si/profile/file-transfer'><file xmlns='http://jabber.org/protocol/si/profile/file-transfer' name='a &amp; b.txt' size='6'/></si></iq>";
const HOSTS: &str = "<iq type='set'><query xmlns='http://jabber.org/protocol/bytestreams' sid='s1' mode='tcp'><streamhost jid='a@x' host='192.0.2.4' port='5086'/><streamhost jid='proxy.x' host='proxy.example' port='7777'/><streamhost jid='b@x' host='2001:db8::4' port='5087'/></query></iq>";

fn block(stream: &str, number: u32, content: &str) -> String {
    format!(
        "<iq type='set'><data xmlns='http://jabber.org/protocol/ibb' seq='{number}' sid='{stream}'>{content}</data></iq>"
    )
}

fn close(stream: &str) -> String {
    format!("<iq><close xmlns='http://jabber.org/protocol/ibb' sid='{stream}'/></iq>")
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        (
            "xmpp",
            vec![
                client(OPEN),
                server(format!(
                    "{OPEN}<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>"
                )),
                client(format!(
                    "<message to='b@x'><body>a &lt;b&gt; <![CDATA[<c>]]>&#x21;</body></message>{SI}{HOSTS}"
                )),
                client(block("s1", 0, "YWJj") + &block("s1", 1, "ZGVm") + &close("s1")),
                server("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
            ],
        ),
        (
            "xmpp-bytestream",
            vec![
                client(b"\x05\x01\0"),
                server(b"\x05\0"),
                client(b"\x05\x01\0\x03\x03abc\0\0"),
                server(b"\x05\0\0\x03\x03abc\0\0"),
                client("file"),
                Step::ClientEnds,
            ],
        ),
    ]
}

#[test]
fn subjects_rich_text_and_statuses_are_messages() {
    let stanza = "<message to='b@x'><subject>the secret</subject><html \
        xmlns='http://jabber.org/protocol/xhtml-im'><body xmlns='http://www.w3.org/1999/xhtml'>\
        <p><b>the</b> se<i>cr</i>et</p></body></html></message>\
        <presence to='b@x'><show>away</show><status>the secret</status></presence>";
    let told = xmpp(&[client(OPEN), client(stanza)]);
    assert_eq!(told, vec![message("the secret", None, Some("b@x")); 3]);
}

fn xmpp(steps: &[Step]) -> Vec<Told> {
    run("xmpp", steps)
}

fn offered() -> FileHead {
    FileHead {
        kind: Some("text/plain".to_owned()),
        size: Some(6),
        ..named("a & b.txt")
    }
}

#[test]
fn bodies_are_messages() {
    let told = xmpp(&[
        client(OPEN),
        client(
            " \n<presence/><message from='a@x/1' to='b@x' type='chat'><active xmlns='c'/><body>hi &lt;you&gt; &#x20AC;<![CDATA[ <b> ]]></body><body xml:lang='de'>hallo</body></message>",
        ),
        // Logging in begins the stream again inside itself.
        client(format!(
            "{OPEN}<message to=\"b>'@x\"><body>again</body></message></stream:stream>"
        )),
        server(
            "<message xmlns='jabber:client' from='me@x'><sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'><message from='a@x' to='c@x'><body>copy</body></message></forwarded></sent></message>",
        ),
        server(
            "<message from='a@x'><composing/></message><m:message xmlns:m='jabber:client'><m:body>prefixed</m:body></m:message>",
        ),
    ]);
    assert_eq!(
        told,
        [
            message("hi <you> € <b> ", Some("a@x/1"), Some("b@x")),
            message("hallo", Some("a@x/1"), Some("b@x")),
            message("again", None, Some("b>'@x")),
            message("copy", Some("a@x"), Some("c@x")),
            message("prefixed", None, None),
        ]
    );
}

#[test]
fn unnamed_client_is_known_by_its_binding() {
    let told = xmpp(&[
        client("<message><body>who</body></message>"),
        server(
            "<iq type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@x/1</jid></bind></iq>",
        ),
        client("<message to='b@x'><body>me</body></message>"),
        server("<message><body>server</body></message>"),
    ]);
    assert_eq!(
        told,
        [
            message("who", None, None),
            message("me", Some("a@x/1"), Some("b@x")),
            message("server", None, None),
        ]
    );
}

#[test]
fn offers_name_the_connections_that_follow() {
    let told = xmpp(&[client(OPEN), client(SI), client(HOSTS)]);
    let expect = |server: &str| {
        Told::Expect(Expected {
            server: at(server),
            application: "xmpp-bytestream",
            file: offered(),
        })
    };
    assert_eq!(
        told,
        [
            Told::Offer(offered()),
            expect("192.0.2.4:5086"),
            expect("[2001:db8::4]:5087"),
        ]
    );
}

#[test]
fn jingle_offers_files_and_candidates() {
    let jingle = |action: &str, content: &str| {
        format!(
            "<iq><jingle xmlns='urn:xmpp:jingle:1' action='{action}' sid='j1'><content name='f'>{content}</content></jingle></iq>"
        )
    };
    let description = "<description xmlns='urn:xmpp:jingle:apps:file-transfer:5'><file><media-type>text/plain</media-type><name>dir/test.txt</name><size>6144</size></file></description>";
    let candidate = |host: &str| {
        format!(
            "<transport xmlns='urn:xmpp:jingle:transports:s5b:1' sid='t1'><candidate cid='1' host='{host}' jid='a@x' port='5086' type='direct'/></transport>"
        )
    };
    let told = xmpp(&[
        client(jingle(
            "session-initiate",
            &(description.to_owned() + &candidate("192.0.2.4")),
        )),
        server(jingle(
            "session-accept",
            &(description.to_owned() + &candidate("192.0.2.5")),
        )),
        server(jingle("transport-info", &candidate("192.0.2.6"))),
    ]);
    let head = FileHead {
        kind: Some("text/plain".to_owned()),
        size: Some(6144),
        ..named("test.txt")
    };
    let expect = |server: &str| {
        Told::Expect(Expected {
            server: at(server),
            application: "xmpp-bytestream",
            file: head.clone(),
        })
    };
    assert_eq!(
        told,
        [
            Told::Offer(head.clone()),
            expect("192.0.2.4:5086"),
            expect("192.0.2.5:5086"),
            expect("192.0.2.6:5086"),
        ]
    );
}

#[test]
fn an_upload_slot_names_its_file() {
    let told = xmpp(&[client(
        "<iq><request xmlns='urn:xmpp:http:upload:0' filename='x.jpg' size='23' content-type='image/jpeg'/></iq>",
    )]);
    let head = FileHead {
        kind: Some("image/jpeg".to_owned()),
        size: Some(23),
        ..named("x.jpg")
    };
    assert_eq!(told, [Told::Offer(head)]);
}

#[test]
fn in_band_blocks_are_joined() {
    let told = xmpp(&[
        client(SI),
        client(block("s1", 0, "YWJ\nj")),
        client("<presence/>"),
        client(block("s1", 1, "ZGVm")),
        server(close("s1")),
        // Of another stream nothing is known.
        client(block("s2", 0, "eA==") + &close("s2")),
        server(format!(
            "<message><data xmlns='http://jabber.org/protocol/ibb' seq='0' sid='s3'>eQ==</data></message>{}",
            close("s3")
        )),
    ]);
    assert_eq!(
        told,
        [
            Told::Offer(offered()),
            begin(Some("a & b.txt"), Some("text/plain"), Some(6), FromClient),
            data("abcdef"),
            Told::End,
            begin(None, None, None, FromClient),
            data("x"),
            Told::End,
            begin(None, None, None, FromServer),
            data("y"),
            Told::End,
        ]
    );
}

/// Those are bytes of its sender, or the end of its stream.
#[test]
fn file_closed_by_receiver_ends_at_next_bytes() {
    let sent = client(block("s2", 0, "eA=="));
    let closed = server(close("s2"));
    let told = xmpp(&[sent.clone(), closed.clone()]);
    assert_eq!(told.last(), Some(&data("x")));
    for answer in [client("<iq type='result'/>"), Step::ClientEnds] {
        let told = xmpp(&[sent.clone(), closed.clone(), answer]);
        assert_eq!(told[1..], [data("x"), Told::End]);
    }
}

#[test]
fn cut_in_band_files_have_no_end() {
    let told = xmpp(&[client(SI), client(block("s1", 0, "YWJj") + &close("s1"))]);
    assert_eq!(told.last(), Some(&data("abc")));
}

#[test]
fn inconsistent_in_band_data_is_lost() {
    let cases = [
        (
            block("s1", 0, "YWJj") + &block("s1", 2, "ZGVm"),
            "in-band data out of order",
        ),
        (
            block("s1", 0, "YWJj") + &block("s2", 0, "ZGVm"),
            "several files at once",
        ),
        (block("s1", 0, "YWJjZGVmZw=="), "more bytes than announced"),
        (block("s1", 0, "Y*"), "malformed base64"),
        (
            block(&"s".repeat(300), 0, "YWJj"),
            "in-band data without a stream",
        ),
    ];
    for (blocks, reason) in cases {
        let told = xmpp(&[client(SI), client(&blocks)]);
        assert_eq!(told.last(), Some(&Told::Lost(reason)), "{blocks}");
    }
}

#[test]
fn encryption_and_compression_are_lost() {
    let told = xmpp(&[
        client(format!(
            "{OPEN}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
        )),
        server(format!(
            "{OPEN}<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
        )),
        client("\x16\x03\x01"),
    ]);
    assert_eq!(told, [Told::Lost("encrypted")]);
    let told = xmpp(&[server(
        "<compressed xmlns='http://jabber.org/protocol/compress'/>",
    )]);
    assert_eq!(told, [Told::Lost("compressed")]);
    // Only the server decides.
    let told = xmpp(&[client("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")]);
    assert_eq!(told, []);
}

#[test]
fn what_xmpp_forbids_is_lost() {
    let deep = "<a>".repeat(65);
    let many = format!("<a>{}</a>", "<b/>".repeat(4_096));
    let long = format!("<a>{}", "x".repeat(262_144));
    let cases = [
        ("<!-- <message> -->", "XML that XMPP forbids"),
        (
            "<a><!DOCTYPE x [<!ENTITY e 'f'>]></a>",
            "XML that XMPP forbids",
        ),
        ("<a><?php ?></a>", "XML that XMPP forbids"),
        ("<a>&e;</a>", "malformed XML"),
        ("<a></b>", "malformed XML"),
        ("<a b=c/>", "malformed XML"),
        ("<message to='a' to='b'/>", "malformed XML"),
        ("<a <b/>", "malformed XML"),
        ("</a>", "an end without its beginning"),
        ("hello", "text between stanzas"),
        (&deep, "XML that is too deep"),
        (&many, "a stanza of too many elements"),
        (&long, "a stanza that is too long"),
    ];
    let make = || super::made("xmpp");
    for (stream, reason) in cases {
        for lengths in [&[usize::MAX][..], &[7], &[1, 2]] {
            let told = super::run_cut(&make, &[client(stream)], lengths);
            let shown = &stream[..stream.len().min(40)];
            assert_eq!(told, [Told::Lost(reason)], "{shown} in {lengths:?}");
        }
    }
    let told = xmpp(&[client(b"<a>\xff</a>")]);
    assert_eq!(told, [Told::Lost("text that is not UTF-8")]);
}

#[test]
fn many_attributes_cost_no_square() {
    let attributes: String = (0..30_000).map(|at| format!("a{at}='' ")).collect();
    let steps = [client(format!(
        "<message {attributes}><body>x</body></message>"
    ))];
    let begun = std::time::Instant::now();
    let told = super::run_cut(&|| super::made("xmpp"), &steps, &[usize::MAX]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(begun.elapsed().as_secs() < 5);
}

#[test]
fn a_bytestream_carries_its_file_behind_the_exchange() {
    let make = || bytestream(offered());
    let name = b"0123456789012345678901234567890123456789";
    let request = [b"\x05\x01\0\x03\x28".as_slice(), name, b"\0\0"].concat();
    let reply = [b"\x05\0\0\x03\x28".as_slice(), name, b"\0\0"].concat();
    let opened = [
        client(b"\x05\x02\0\x02"),
        server(b"\x05\0"),
        client(&request),
        server(&reply),
    ];
    for (step, sender) in [
        (client("abcdef"), FromClient),
        (server("abcdef"), FromServer),
    ] {
        let told = run_made(&make, &[opened.as_slice(), &[step]].concat());
        let head = begin(Some("a & b.txt"), Some("text/plain"), Some(6), sender);
        assert_eq!(told, [head, data("abcdef"), Told::End]);
    }
    let both = run_made(
        &make,
        &[opened.as_slice(), &[client("ab"), server("x")]].concat(),
    );
    assert_eq!(both.last(), Some(&Told::Lost("data both ways")));
    let address = run_made(
        &make,
        &[
            client(b"\x05\x01\0\x05\x01\0\x01\x01\x02\x03\x04\0\x50"),
            server(b"\x05\0\x05\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x50abcdef"),
        ],
    );
    assert_eq!(address[1..], [data("abcdef"), Told::End]);
}

#[test]
fn other_connections_than_bytestreams_are_lost() {
    let cases: [(&[u8], &[u8], &str); 4] = [
        (b"\x04\x01", b"", "no SOCKS5"),
        (b"\x05\x01\0", b"\x05\x02", "another authentication"),
        (b"\x05\x01\0\x05\x02\0\x03", b"", "a refused connection"),
        (b"\x05\x01\0", b"\x05\0\x05\0\0\x09", "no SOCKS5"),
    ];
    for (asked, answered, reason) in cases {
        let told = run("xmpp-bytestream", &[client(asked), server(answered)]);
        assert_eq!(told, [Told::Lost(reason)]);
    }
}
