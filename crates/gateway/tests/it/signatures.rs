//! Signature files of the user's own.

use ringway_gateway::classify::Bounds;
use ringway_gateway::flow::TableBounds;
use ringway_gateway::{
    Classifier, Confidence, FlowRecord, LinkType, Packets, Pipeline, SignatureSet,
};

use crate::pair;

fn classify_with(text: &str, packets: &Packets) -> FlowRecord {
    let mut set = SignatureSet::built_in();
    set.extend(SignatureSet::parse(text).unwrap());
    let classifier = Classifier::new(&set, Bounds::default()).unwrap();
    let mut pipeline = Pipeline::new(classifier, TableBounds::default());
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    pipeline.finish();
    pipeline.poll_flow().unwrap()
}

fn conversation(client_says: &[u8], server_says: &[u8]) -> Packets {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client(client_says);
    stream.server(server_says);
    packets
}

fn signature(more: &str) -> String {
    format!(
        "[[signature]]\nname = \"mine\"\napplication = \"chat\"\nl4 = \"tcp\"\nconfidence = \"certain\"\n{more}"
    )
}

const AT_3: &str = "[[signature.pattern]]\ntext = \"HI\"\nat = 3\n";

#[test]
fn a_pattern_counts_at_its_place_only() {
    assert_eq!(
        classify_with(&signature(AT_3), &conversation(b"...HI", b"")).app,
        "chat"
    );
    assert_eq!(
        classify_with(&signature(AT_3), &conversation(b"..HI.", b"")).app,
        "unknown"
    );
    let anywhere = signature(&format!("anchor = \"anywhere\"\n{AT_3}"));
    assert_eq!(
        classify_with(&anywhere, &conversation(b"........HI.", b"")).app,
        "chat"
    );
}

#[test]
fn the_sender_matters_where_the_signature_says_so() {
    let from_server = signature(&format!("direction = \"server\"\n{AT_3}"));
    assert_eq!(
        classify_with(&from_server, &conversation(b"...HI", b"")).app,
        "unknown"
    );
    assert_eq!(
        classify_with(&from_server, &conversation(b"?", b"...HI")).app,
        "chat"
    );
}

#[test]
fn all_patterns_or_any_of_them() {
    let both = format!("{AT_3}[[signature.pattern]]\nhex = \"0a 0b\"\nat = 0\n");
    for (matching, says, app) in [
        ("all", b"\x0a\x0b.HI".as_slice(), "chat"),
        ("all", b"...HI", "unknown"),
        ("any", b"...HI", "chat"),
        ("any", b"\x0a\x0b...", "chat"),
    ] {
        let text = signature(&format!("match = \"{matching}\"\n{both}"));
        assert_eq!(
            classify_with(&text, &conversation(says, b"")).app,
            app,
            "{matching} {says:?}"
        );
    }
}

#[test]
fn usual_ports_raise_trust_and_required_ports_decide() {
    let packets = conversation(b"...HI", b"");
    let usual = signature(&format!("ports = [7000]\n{AT_3}"));
    assert_eq!(
        classify_with(&usual, &packets).confidence,
        Confidence::Certain
    );
    let other = signature(&format!("ports = [7001]\n{AT_3}"));
    assert_eq!(
        classify_with(&other, &packets).confidence,
        Confidence::Likely
    );
    let required = signature(&format!("only_ports = [7001]\n{AT_3}"));
    assert_eq!(classify_with(&required, &packets).app, "unknown");
}

#[test]
fn packet_anchor_matches_in_later_segments() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client(b"first");
    stream.client(b"...HI");
    assert_eq!(classify_with(&signature(AT_3), &packets).app, "unknown");
    let text = signature(&format!("anchor = \"packet\"\n{AT_3}"));
    assert_eq!(classify_with(&text, &packets).app, "chat");
}

/// Likely ones see eight packets, certain ones 32.
#[test]
fn certain_signatures_inspect_unnamed_flows_for_longer() {
    let (client, server) = pair();
    for (before, confidence, app) in [
        (7, "likely", "chat"),
        (8, "likely", "unknown"),
        (8, "certain", "chat"),
        (31, "certain", "chat"),
        (32, "certain", "unknown"),
    ] {
        let mut packets = Packets::new();
        for _ in 0..before {
            packets.udp(client, server, b"nothing");
        }
        packets.udp(client, server, b"...HI");
        let text = signature(AT_3).replace("tcp", "udp");
        let text = text.replace("\"certain\"", &format!("{confidence:?}"));
        assert_eq!(
            classify_with(&text, &packets).app,
            app,
            "{before} packets before"
        );
    }
}

#[test]
fn same_name_replaces_the_built_in_signature() {
    let text = signature("[[signature.pattern]]\ntext = \"GET \"\n")
        .replace("mine", "http.request")
        .replace("chat", "intranet");
    assert_eq!(
        classify_with(&text, &conversation(b"GET / HTTP/1.1\r\n\r\n", b"")).app,
        "intranet"
    );
}

#[test]
fn patterns_beyond_the_fast_automaton_still_match() {
    let mut text = String::new();
    for number in 0..400 {
        let entry = signature(&format!("[[signature.pattern]]\ntext = \"{number:050}\"\n"));
        text.push_str(&entry.replace("mine", &format!("mine.{number}")));
    }
    let says = format!("{:050}", 399);
    let flow = classify_with(&text, &conversation(says.as_bytes(), b""));
    assert_eq!(
        (flow.app.as_str(), flow.evidence.as_str()),
        ("chat", "mine.399: pattern at 0")
    );
}

#[test]
fn own_hosts_match_by_domain_suffix() {
    let mine = "[[signature]]\nname = \"mine\"\napplication = \"intranet\"\nconfidence = \"certain\"\n\
                refines = [\"http\"]\nhosts = [\"Corp.Example\"]\n";
    for (host, app) in [
        ("corp.example", "intranet"),
        ("wiki.CORP.example:8080", "intranet"),
        ("mycorp.example", "http"),
        ("corp.example.org", "http"),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let flow = classify_with(mine, &conversation(request.as_bytes(), b""));
        assert_eq!(flow.app, app, "{host}");
        if app == "intranet" {
            // The client chooses the name.
            assert_eq!(flow.confidence, Confidence::Likely);
            assert_eq!(
                flow.evidence,
                "mine: GET request, to a host of corp.example"
            );
        }
    }
}

const REFERENCE: &str = include_str!("../../../../docs/reference/classification.md");

#[test]
fn the_signature_file_in_the_reference_is_valid() {
    let (_, rest) = REFERENCE.split_once("```toml\n").unwrap();
    let set = SignatureSet::parse(rest.split_once("```").unwrap().0).unwrap();
    assert_eq!(set.signatures()[0].patterns[0].bytes, b"HELLO ");
}

#[test]
fn the_reference_names_every_built_in_signature() {
    for signature in SignatureSet::built_in().signatures() {
        assert!(
            REFERENCE.contains(&format!("`{}`", signature.name)),
            "{}",
            signature.name
        );
    }
}
