//! What the kernel passes: if it asked about everything it would be right, and useless.

use std::fmt::Write;

use ringway_gateway::limits::{MAX_TRIAGE_BYTES, MAX_TRIAGE_STATES, TRIAGE_SCAN};
use ringway_gateway::policy::Policy;
use ringway_gateway::triage::{Begin, Judgement, Triage};
use ringway_gateway::{L4, SignatureSet};

use super::{applications, asked_at, block, borrowed, packets, recordings, watch};

fn judge(policy: &str, begin: Begin, payload: &[u8]) -> (bool, bool) {
    let length = u32::try_from(payload.len()).unwrap();
    let Judgement { ask, known } = block(policy).triage.judge(begin, payload, length);
    (ask, known)
}

const PASSES: (bool, bool) = (false, true);

const BROWSER: &str = "Host: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nReferer: http://www.example.org/a\r\nCookie: a=b\r\n\r\n";

#[test]
fn plain_http_passes_where_p2p_is_blocked() {
    for first in [
        "GET /index.html?a=b HTTP/1.1",
        "POST /form HTTP/1.1",
        "HEAD / HTTP/1.0",
        "CONNECT www.example.org:443 HTTP/1.1",
    ] {
        let head = format!("{first}\r\n{BROWSER}");
        assert!(head.len() <= TRIAGE_SCAN);
        assert_eq!(
            judge("p2p", Begin::Stream, head.as_bytes()),
            PASSES,
            "{first}"
        );
        assert_eq!(
            judge("p2p", Begin::Segment, head.as_bytes()),
            PASSES,
            "{first}"
        );
        let with_body = [head.as_bytes(), &[0x55; 4_000]].concat();
        assert_eq!(
            judge("p2p", Begin::Stream, &with_body),
            PASSES,
            "{first} and a body"
        );
        for cut in 1..head.len() {
            assert!(
                judge("p2p", Begin::Stream, &head.as_bytes()[..cut]).0,
                "cut at {cut} it may go on"
            );
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length: 4000\r\n\r\n";
    assert_eq!(
        judge("p2p", Begin::Stream, &[&answer[..], &[7; 1_300]].concat()),
        PASSES
    );
    let tracker =
        b"GET /announce?info_hash=aaaaaaaaaaaaaaaaaaaa&port=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(judge("p2p", Begin::Stream, tracker).0 && judge("p2p", Begin::Segment, tracker).0);
}

/// The client hello may name an application.
#[test]
fn tls_passes_except_its_client_hello() {
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[9; 500]].concat();
    assert!(
        judge("p2p", Begin::Stream, &hello).0,
        "a name of BitTorrent or IPFS may be in it"
    );
    assert_eq!(judge("directconnect", Begin::Stream, &hello), PASSES);
    let answer = [&[0x16, 3, 3, 0, 0x7a, 2, 0, 0, 0x76, 3, 3][..], &[9; 1_400]].concat();
    assert_eq!(judge("p2p", Begin::Stream, &answer), PASSES);
    let data = [&[0x17, 3, 3, 4, 0][..], &[0xa7; 1_024]].concat();
    assert!(!judge("p2p", Begin::Segment, &data).0);
}

#[test]
fn unmatched_opening_is_asked_only_as_unknown() {
    for begin in [Begin::Stream, Begin::Segment] {
        assert_eq!(
            judge("p2p", begin, b"SSH-2.0-OpenSSH_9.6\r\n"),
            (false, false)
        );
        assert_eq!(judge("p2p", begin, &[0x37; 1_448]), (false, false));
    }
    assert!(block("p2p").triage.needs_unknown() && !block("gnutella").triage.needs_unknown());
    assert!(!block("web").triage.needs_unknown() && block("unknown").triage.needs_unknown());
}

#[test]
fn few_segments_within_a_stream_are_asked_about() {
    let triage = &block("p2p").triage;
    let asked = (0..=u16::MAX).filter(|number| {
        let [high, low] = number.to_be_bytes();
        let payload = [&[high, low][..], &[0x9b, 0x31, 0xc4].repeat(400)].concat();
        triage.judge(Begin::Segment, &payload, 1_202).ask
    });
    // A masked message over WebSocket may begin so.
    assert!(asked.count() <= 256);
}

fn triage(policy: &str, set: &SignatureSet) -> Triage {
    Triage::new(set, &Policy::parse(policy, &applications()).unwrap()).unwrap()
}

#[test]
fn policies_that_care_about_everything_ask_about_everything() {
    let set = SignatureSet::built_in();
    for (policy, everything) in [
        ("", false),
        ("[gateway]\ndefault = \"block\"\n", true),
        ("[gateway]\ndefault = \"audit\"\n", true),
        (
            "[[rule]]\nname = \"a\"\naction = \"block\"\nport = 25\n",
            false,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"allow\"\nport = 25\n",
            false,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"allow\"\naudit = true\nport = 25\n",
            false,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"allow\"\naudit = true\ndirection = \"outbound\"\n[gateway]\ninside = \"10.0.0.0/8\"\n",
            true,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"audit\"\napp = \"irc\"\n",
            false,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"block\"\nhost = \"*.example\"\n",
            true,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"block\"\nwhen = \"app == 'irc'\"\n",
            true,
        ),
        (
            "[[rule]]\nname = \"a\"\naction = \"block\"\napp = \"irc\"\nwhen = \"host == 'a'\"\n",
            false,
        ),
    ] {
        let triage = triage(policy, &set);
        assert_eq!(triage.asks_everything(), everything, "{policy}");
        let asks = triage
            .judge(Begin::Stream, b"GET / HTTP/1.1\r\n\r\n", 18)
            .ask;
        assert_eq!(asks, everything, "{policy}");
    }
}

#[test]
fn names_on_few_ports_are_asked_about_there() {
    let sharing = block("p2p");
    let ports = sharing.triage.asking_ports(L4::Udp);
    assert_eq!(ports, [5353..=5353, 17_788..=17_788]);
    assert_eq!(block("dns").triage.asking_ports(L4::Tcp), [53..=53]);
    let end = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
    let asks = |l4, port| block("p2p").triage.asks_about(l4, end(port));
    assert!(asks(L4::Udp, 5353) && !asks(L4::Tcp, 5353) && !asks(L4::Udp, 5354));
}

#[test]
fn port_and_network_rules_ask_about_those_only() {
    let policy = "[[rule]]\nname = \"a\"\naction = \"block\"\nl4 = \"tcp\"\nport = [25, \"6881-6889\"]\n\
        [[rule]]\nname = \"b\"\naction = \"block\"\nnetwork = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n";
    let triage = triage(policy, &SignatureSet::built_in());
    for (l4, end, asks) in [
        (L4::Tcp, "10.0.0.1:25", true),
        (L4::Udp, "10.0.0.1:25", false),
        (L4::Tcp, "10.0.0.1:6885", true),
        (L4::Tcp, "10.0.0.1:6890", false),
        (L4::Udp, "192.0.2.9:1", true),
        (L4::Udp, "[2001:db8:7::]:1", true),
        (L4::Tcp, "[2001:db9::]:1", false),
    ] {
        assert_eq!(
            triage.asks_about(l4, end.parse().unwrap()),
            asks,
            "{l4:?} {end}"
        );
    }
}

fn literals(count: u32) -> SignatureSet {
    let mut text = String::new();
    for number in 0..count {
        let l4 = if number % 2 == 0 { "tcp" } else { "udp" };
        let bytes = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        let hex: String = bytes
            .iter()
            .chain(&bytes)
            .chain(&bytes)
            .map(|byte| format!("{byte:02x} "))
            .collect();
        write!(
            text,
            "[[signature]]\nname = \"own.{number}\"\napplication = \"irc\"\nl4 = \"{l4}\"\nconfidence = \"likely\"\n\
             [[signature.pattern]]\nhex = \"{hex}\"\nat = {}\n",
            number % 5
        )
        .unwrap();
    }
    SignatureSet::parse(&text).unwrap()
}

#[test]
fn the_table_stays_within_its_bounds() {
    let mut more = SignatureSet::built_in();
    more.extend(literals(200));
    let listed: Vec<String> = applications()
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    let all = listed.join(", ");
    let hidden: Vec<String> = listed
        .iter()
        .filter(|name| *name != "\"http\"" && *name != "\"telegram\"")
        .cloned()
        .collect();
    for (set, apps) in [
        (SignatureSet::built_in(), all.as_str()),
        (SignatureSet::built_in(), &hidden.join(", ")),
        (more.clone(), &all),
        (more, "\"p2p\", \"irc\""),
    ] {
        let triage = triage(
            &format!("[[rule]]\nname = \"a\"\naction = \"block\"\napp = [{apps}]\n"),
            &set,
        );
        let (states, bytes) = (triage.flags().len(), triage.table().len() * 2);
        println!(
            "{states} states, {} classes, {bytes} bytes",
            triage.class_count()
        );
        assert!(states <= MAX_TRIAGE_STATES && bytes <= MAX_TRIAGE_BYTES);
        assert_eq!(triage.table().len(), states * triage.class_count());
        assert!(
            triage
                .table()
                .iter()
                .all(|&next| usize::from(next) < states)
        );
        assert!(
            triage
                .classes()
                .iter()
                .all(|&class| usize::from(class) < triage.class_count())
        );
    }
}

#[test]
fn most_flows_of_recordings_pass() {
    // Where some are at hand only, those of the sharing programs and messengers themselves are most
    // of them.
    for (policy, most) in [
        ("gnutella", true),
        ("directconnect", true),
        ("p2p", false),
        ("chat", false),
    ] {
        let (mut passed, mut asked, mut named) = (0, 0, 0);
        for (_, file) in recordings() {
            for flow in watch(borrowed(&packets(&file)), false) {
                let begun = flow
                    .steps
                    .first()
                    .is_some_and(|step| step.tcp.is_none_or(|tcp| tcp.syn));
                if begun && flow.steps.iter().any(|step| !step.payload.is_empty()) {
                    let governed = block(policy);
                    let asks = asked_at(&governed.triage, &flow).is_some();
                    asked += usize::from(asks);
                    passed += usize::from(!asks);
                    named += usize::from(governed.policy.touches(&flow.concluded.0));
                }
            }
        }
        println!(
            "block {policy}: {passed} flows pass, {asked} are asked about, {named} of them are meant"
        );
        assert!(passed > asked || !most, "{policy}");
    }
}
