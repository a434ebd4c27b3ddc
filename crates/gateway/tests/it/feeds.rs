//! Rules that name lists in files, and lists of a million lines.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use ringway_gateway::feed::{Entries, FeedFolder, FeedKind, parse};
use ringway_gateway::policy::{Action, Decision, FlowFacts, Found, Moment, Policy, PolicyError};
use ringway_gateway::{Confidence, InfoHash, L4};

use super::at;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
const MILLION: usize = 1_000_000;

fn read(folder: &Path, text: &str) -> Result<Policy, Vec<PolicyError>> {
    let known: BTreeSet<String> = ["bittorrent", "http", "tls"].map(str::to_owned).into();
    Policy::parse_beside(text, &known, &FeedFolder::new(folder))
}

fn flow<'a>(host: Option<&'a str>, infohash: Option<&str>) -> FlowFacts<'a> {
    FlowFacts {
        l4: L4::Tcp,
        client: at("10.0.0.5:50000"),
        server: at("192.0.2.9:6881"),
        found: Some(Found {
            application: if host.is_some() { "tls" } else { "bittorrent" },
            confidence: Confidence::Certain,
            host,
            member: None,
            infohash: infohash.map(|hash| InfoHash::parse(hash).unwrap()),
        }),
        at: Moment::default(),
    }
}

fn rule(policy: &Policy, flow: &FlowFacts<'_>) -> (Action, String) {
    match policy.decide(flow) {
        Decision::Settled(plan) => (plan.ruling.action, policy.name_of(&plan.ruling).to_owned()),
        Decision::NotYet => panic!("it is named"),
    }
}

#[test]
fn rules_match_by_lists_in_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bogons.txt"), "203.0.113.0/24 ; x\r\n").unwrap();
    std::fs::write(folder.path().join("ads.txt"), "0.0.0.0 ads.example\n").unwrap();
    std::fs::write(
        folder.path().join("denied.txt"),
        format!("{HASH} # a film\n"),
    )
    .unwrap();
    let text = "[networks]\nbogons = \"file:bogons.txt\"\n\
        [[rule]]\nname = \"b\"\nnetwork = [\"bogons\", \"198.51.100.1\"]\naction = \"block\"\n\
        [[rule]]\nname = \"h\"\nhost = [\"*.other.example\", \"file:ads.txt\"]\naction = \"block\"\n\
        [[rule]]\nname = \"t\"\ninfohash = \"file:denied.txt\"\naction = \"block\"\n\
        [[test]]\nname = \"it\"\nclient = \"10.0.0.5:1\"\nserver = \"192.0.2.1:1\"\napp = \"bittorrent\"\n\
        infohash = \"0123456789abcdef0123456789abcdef01234567\"\nexpect = \"block\"\nrule = \"t\"\n";
    let policy = read(folder.path(), text).unwrap();
    assert!(policy.try_all().iter().all(|outcome| outcome.passed));
    let lists: Vec<usize> = policy
        .feeds()
        .iter()
        .map(|feed| feed.entries().len())
        .collect();
    assert_eq!(lists, [1, 1, 1]);
    assert!(policy.names_torrents());
    let of = |flow: &FlowFacts<'_>| rule(&policy, flow).1;
    assert_eq!(of(&flow(Some("x.ADS.example"), None)), "h");
    assert_eq!(of(&flow(Some("x.other.example"), None)), "h");
    assert_eq!(of(&flow(Some("example"), None)), "default");
    assert_eq!(of(&flow(None, Some(HASH))), "t");
    assert_eq!(of(&flow(None, Some(&HASH.replace('0', "1")))), "default");
    assert_eq!(of(&flow(None, None)), "default");
    let called = FlowFacts {
        server: at("203.0.113.200:80"),
        ..flow(None, None)
    };
    assert_eq!(of(&called), "b");
    // The kernel is told whom to ask about.
    assert_eq!(policy.concern().networks.len(), 2);
}

#[test]
fn faults_of_lists_stand_at_the_key() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad.txt"),
        "10.0.0.0/8\nx\n\n10.0.0.1/8\n",
    )
    .unwrap();
    let text = "[[rule]]\nname = \"a\"\naction = \"block\"\nserver = \"file:bad.txt\"\n\
        host = \"file:none.txt\"\ninfohash = [\"12\", \"34\"]\n\
        [[rule]]\nname = \"b\"\naction = \"block\"\napp = \"tls\"\ninfohash = \"file:bad.txt\"\n";
    let faults = read(folder.path(), text).unwrap_err();
    let told = |line: usize, reason: &str| {
        let mut faults = faults.iter();
        assert!(
            faults.any(|fault| fault.line == line && fault.reason.contains(reason)),
            "{line}: {reason} is not in {faults:?}"
        );
    };
    told(4, "bad.txt:2: `x` is no network");
    told(4, "bad.txt:4: `10.0.0.1/8` has bits");
    told(5, "none.txt: it cannot be read");
    told(6, "`12`");
    told(6, "`34`");
    told(11, "only flows of `bittorrent`");
    let nowhere = Policy::parse(text, &BTreeSet::new()).unwrap_err();
    assert!(
        nowhere
            .iter()
            .any(|fault| fault.reason.contains("no files here"))
    );
}

#[test]
fn same_list_in_two_rules_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "10.0.0.0/8\n").unwrap();
    let text = "[[rule]]\nname = \"a\"\nserver = \"file:a.txt\"\naction = \"block\"\n\
        [[rule]]\nname = \"b\"\nserver = \"file:a.txt\"\nport = 80\naction = \"allow\"\n";
    let faults = read(folder.path(), text).unwrap_err();
    assert!(faults[0].reason.contains("never reached"), "{faults:?}");
}

/// Load and look-ups of a million lines of each kind; the figures are written, not judged.
#[test]
fn lists_of_a_million_lines_are_matched() {
    let mut text = String::new();
    for number in 0..u32::try_from(MILLION).unwrap() {
        let address = std::net::Ipv4Addr::from_bits(number << 8);
        writeln!(text, "{address}/24").unwrap();
    }
    let set = told(FeedKind::Networks, &text);
    let Entries::Networks(networks) = &set else {
        panic!("networks");
    };
    looked(|number| networks.contains(std::net::Ipv4Addr::from_bits(number << 8 | 7).into()));
    assert!(!networks.contains("240.0.0.1".parse().unwrap()));

    text.clear();
    for number in 0..MILLION {
        writeln!(text, "host-{number}.example.org").unwrap();
    }
    let set = told(FeedKind::Hosts, &text);
    let Entries::Hosts(hosts) = &set else {
        panic!("hosts");
    };
    looked(|number| hosts.contains(&format!("www.host-{number}.example.org")));
    assert!(!hosts.contains("example.org"));

    text.clear();
    for number in 0..MILLION {
        writeln!(text, "{number:040x}").unwrap();
    }
    let set = told(FeedKind::Infohashes, &text);
    let Entries::Infohashes(keys) = &set else {
        panic!("infohashes");
    };
    looked(|number| {
        let mut bytes = [0; 20];
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        keys.contains(&InfoHash::new(bytes))
    });
}

#[expect(clippy::print_stderr, reason = "figures for those who look for them")]
fn told(kind: FeedKind, text: &str) -> Entries {
    let begun = Instant::now();
    let entries = parse(kind, text.as_bytes()).unwrap();
    eprintln!(
        "{}: {} lines read in {:?}, {} bytes of memory",
        kind.name(),
        entries.len(),
        begun.elapsed(),
        entries.memory()
    );
    assert_eq!(entries.len(), MILLION);
    entries
}

#[expect(clippy::print_stderr, reason = "figures for those who look for them")]
fn looked(has: impl Fn(u32) -> bool) {
    let begun = Instant::now();
    let most = u32::try_from(MILLION).unwrap();
    let found = (0..most).step_by(10).filter(|number| has(*number)).count();
    eprintln!("{found} look-ups in {:?}", begun.elapsed());
    assert_eq!(found, MILLION / 10);
}
