//! Policies: what they decide, and which are refused.

use std::collections::BTreeSet;

use ringway_gateway::Confidence;
use ringway_gateway::L4;
use ringway_gateway::limits::MAX_CLASSES;
use ringway_gateway::policy::{
    Action, Decision, FlowFacts, Found, Item, Moment, Over, Per, Period, Plan, Policy, PolicyError,
    Quota,
};

use super::at;

const APPLICATIONS: [&str; 6] = ["bittorrent", "edonkey", "http", "tls", "irc", "msnftp"];

fn applications() -> BTreeSet<String> {
    APPLICATIONS.map(str::to_owned).into()
}

fn policy(text: &str) -> Policy {
    Policy::parse(text, &applications()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn faults(text: &str) -> Vec<PolicyError> {
    Policy::parse(text, &applications()).unwrap_err()
}

fn flow<'a>(found: Option<&'a str>) -> FlowFacts<'a> {
    FlowFacts {
        l4: L4::Tcp,
        client: at("10.0.0.5:50000"),
        server: at("192.0.2.9:6881"),
        found: found.map(|application| Found {
            application,
            confidence: Confidence::Certain,
            host: None,
            member: None,
            infohash: None,
        }),
        at: Moment::default(),
    }
}

fn plan(policy: &Policy, flow: &FlowFacts<'_>) -> Plan {
    match policy.decide(flow) {
        Decision::Settled(plan) => plan,
        Decision::NotYet => panic!("undecided"),
    }
}

fn rule(name: &str, conditions: &str, action: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{conditions}\naction = \"{action}\"\n")
}

#[test]
fn the_example_passes_its_own_tests() {
    let text = include_str!("../../../../examples/policies/office.toml");
    let mut known = applications();
    known.extend(["dcc"].map(str::to_owned));
    let policy = Policy::parse(text, &known).unwrap();
    let outcomes = policy.try_all();
    assert_eq!(outcomes.len(), 9);
    for outcome in outcomes {
        assert!(outcome.passed, "{outcome:?}");
    }
}

#[test]
fn a_failing_test_says_what_happened_instead() {
    let text = rule("sharing", "app = \"p2p\"", "block")
        + "[[test]]\nname = \"t\"\napp = \"http\"\nclient = \"10.0.0.1:1\"\nserver = \"10.0.0.2:80\"\nexpect = \"block\"\n";
    let outcome = policy(&text).try_all().remove(0);
    assert!(!outcome.passed);
    assert_eq!(
        (outcome.got.as_str(), outcome.line),
        ("allow by default", 5)
    );
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(
        &(rule(
            "one",
            "app = \"bittorrent\"\nserver = \"192.0.2.0/24\"",
            "allow",
        ) + &rule("all", "app = \"bittorrent\"", "block")),
    );
    let decided = plan(&policy, &flow(Some("bittorrent")));
    assert_eq!(policy.name_of(&decided.ruling), "one");
    let elsewhere = FlowFacts {
        server: at("198.51.100.1:6881"),
        ..flow(Some("bittorrent"))
    };
    assert_eq!(plan(&policy, &elsewhere).ruling.action, Action::Block);
}

#[test]
fn flow_waits_for_classifier_only_when_decisive() {
    let policy = policy(
        &(rule("web", "port = [80, 443]", "allow") + &rule("all", "app = \"bittorrent\"", "block")),
    );
    assert_eq!(policy.decide(&flow(None)), Decision::NotYet);
    let web = FlowFacts {
        server: at("192.0.2.9:443"),
        ..flow(None)
    };
    assert_eq!(plan(&policy, &web).ruling.action, Action::Allow);
}

#[test]
fn guess_decides_nothing_unless_requested() {
    let guessed = |text: &str| {
        let mut flow = flow(Some("bittorrent"));
        flow.found = flow.found.map(|found| Found {
            confidence: Confidence::Guess,
            ..found
        });
        plan(&policy(text), &flow).ruling.action
    };
    assert_eq!(
        guessed(&rule("a", "app = \"bittorrent\"", "block")),
        Action::Allow
    );
    assert_eq!(
        guessed(&rule(
            "a",
            "app = \"bittorrent\"\nconfidence = \"guess\"",
            "block"
        )),
        Action::Block
    );
}

#[test]
fn content_rules_leave_the_rest_to_later_rules() {
    let policy = policy(
        &(rule("programs", "app = \"http\"\nfile_name = \"*.exe\"", "block")
            + &rule("words", "app = \"irc\"\nkeyword = \"secret\"", "block")
            + &rule("files", "app = \"http\"", "scan")),
    );
    let web = flow(Some("http"));
    let decided = plan(&policy, &web);
    assert_eq!(
        (decided.ruling.action, decided.content.as_slice()),
        (Action::Scan, [0].as_slice())
    );
    let file = |name| {
        Item::File(ringway_gateway::policy::File {
            name: Some(name),
            ..Default::default()
        })
    };
    assert_eq!(
        policy.judge(&decided, &web, &file("a.EXE")).action,
        Action::Block
    );
    assert_eq!(
        policy.judge(&decided, &web, &file("a.txt")).action,
        Action::Scan
    );
    let chat = flow(Some("irc"));
    let decided = plan(&policy, &chat);
    assert_eq!(
        policy
            .judge(&decided, &chat, &Item::Message("a SECRET"))
            .action,
        Action::Block
    );
    assert_eq!(
        policy
            .judge(&decided, &chat, &Item::Message("nothing"))
            .action,
        Action::Allow
    );
    assert_eq!(policy.decide(&flow(None)), Decision::NotYet);
}

#[test]
fn all_faults_are_reported_with_their_lines() {
    let text = "[gateway]\ndefault = \"scan\"\n[[rule]]\nname = \"a\"\napp = \"bittorent\"\naction = \"block\"\n\
                [[rule]]\nname = \"b\"\ndirection = \"outbound\"\naction = \"block\"\n";
    let told: Vec<(usize, String)> = faults(text)
        .into_iter()
        .map(|error| (error.line, error.reason))
        .collect();
    let wanted = [
        (2, "default cannot be"),
        (5, "no application `bittorent`"),
        (9, "needs `inside`"),
    ];
    assert_eq!(told.len(), wanted.len(), "{told:?}");
    for ((line, reason), (at, part)) in told.iter().zip(wanted) {
        assert!(*line == at && reason.contains(part), "{line}: {reason}");
    }
}

/// Of one rule, of several keys, of what is no form and of what is.
#[test]
fn all_faults_of_a_file_have_their_lines() {
    let text = "[gateway]\nfailure = \"shut\"\n\
                [classes.slow]\nrate = \"2 Mbit/s\"\nceiling = \"1 Mbit/s\"\n\
                [[rule]]\nname = \"a\"\ncolour = 1\nport = 70000\n\
                client = \"10.0.0.1/8\"\napp = [\n  \"bittorent\",\n]\naction = \"block\"\n\
                [[rule]]\nname = \"b\"\naction = \"burn\"\n\
                [[rule]]\nname = \"c\"\nclass = \"slow\"\ntime = \"noon\"\naction = \"shape\"\n\
                [[test]]\nname = \"t\"\nclient = \"here\"\nserver = \"there\"\nexpect = \"block\"\nrule = \"b\"\n";
    let told: Vec<(usize, String)> = faults(text)
        .into_iter()
        .map(|error| (error.line, error.reason))
        .collect();
    let wanted = [
        (2, "`shut` cannot stand here"),
        (5, "its ceiling is below"),
        (8, "there is no key `colour`"),
        (9, "no port"),
        (10, "bits behind its prefix"),
        (11, "no application `bittorent`"),
        (17, "`burn` cannot stand here"),
        (21, "no span of the week"),
        (25, "`here` is no address"),
        (26, "`there` is no address"),
    ];
    assert_eq!(told.len(), wanted.len(), "{told:#?}");
    for ((line, reason), (at, part)) in told.iter().zip(wanted) {
        assert!(
            *line == at && reason.contains(part),
            "{line}: {reason}, not {at}: {part}"
        );
    }
    // Two slips of the pen; what follows from the first is not told again and again.
    let text = "[[rule]]\nname = \"a\n[[rule]]\nname = = \"b\"\n";
    let lines: Vec<usize> = faults(text).iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 4]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let cases = [
        (rule("a", "colour = 1", "block"), "there is no key"),
        (rule("a", "", "burn"), "cannot stand here"),
        (rule("default", "", "block"), "cannot be named"),
        (
            rule("a", "l4 = \"tcp\"", "allow") + &rule("a", "", "block"),
            "already, in line 1",
        ),
        (rule("a", "", "shape"), "needs a `class`"),
        (rule("a", "class = \"x\"", "shape"), "no [classes.x]"),
        (rule("a", "port = 70000", "block"), "no port"),
        (
            rule("a", "client = \"10.0.0.1/8\"", "block"),
            "bits behind its prefix",
        ),
        (rule("a", "client = \"guests\"", "block"), "no network"),
        (rule("a", "app = []", "block"), "empty list"),
        (
            rule("a", "confidence = \"certain\"", "block"),
            "needs `app`",
        ),
        (rule("a", "when = \"1\"", "block"), "true or false"),
        (rule("a", "app = \"tls\"", "scan"), "cannot be read"),
        (
            rule("a", "app = \"bittorrent\"\nfile_name = \"*.iso\"", "block"),
            "cannot be read",
        ),
        (rule("a", "time = \"noon\"", "block"), "no span of the week"),
        (
            rule("a", "file_size = \"big\"", "block"),
            "no span of sizes",
        ),
        ("[classes.x]\nrate = \"5\"\n".to_owned(), "no rate"),
        (
            "[classes.x]\nrate = \"1 Mbit/s\"\n".to_owned()
                + &rule(
                    "a",
                    "app = \"http\"\nclass = \"x\"\nfile_name = \"*.iso\"",
                    "shape",
                ),
            "for what it carries",
        ),
        ("[[rule]\n".to_owned(), ""),
    ];
    for (text, part) in cases {
        let errors = faults(&text);
        assert!(
            errors.iter().any(|error| error.reason.contains(part)),
            "{text}: {errors:?}"
        );
        assert!(
            errors.iter().all(|error| error.line > 0),
            "{text}: {errors:?}"
        );
    }
}

#[test]
fn rules_that_are_never_reached_are_refused() {
    let pairs = [
        ("app = \"p2p\"", "app = \"edonkey\"\nport = 4662"),
        ("", "app = \"http\""),
        (
            "server = \"10.0.0.0/8\"",
            "server = [\"10.1.0.0/16\", \"10.2.0.1\"]\napp = \"tls\"",
        ),
        ("time = \"Mon-Fri\"", "time = \"Tue 08:00-09:00\""),
        (
            "app = \"bittorrent\"",
            "app = \"bittorrent\"\nconfidence = \"certain\"",
        ),
        ("keyword = \"a\"", "keyword = \"ab\"\napp = \"irc\""),
    ];
    for (first, second) in pairs {
        let errors = faults(&(rule("first", first, "allow") + &rule("second", second, "block")));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors[0].reason.contains("`second` is never reached"),
            "{errors:?}"
        );
        // The other way round the second rule has something left to decide.
        policy(&(rule("second", second, "block") + &rule("first", first, "allow")));
    }
}

const CLASSES: &str = "[classes.fast]\nrate = \"9 Mbit/s\"\n[classes.slow]\nrate = \"1 Mbit/s\"\n";

#[test]
fn quotas_are_read_with_what_is_above() {
    let keys = "class = \"fast\"\nquota = \"5GiB/day\"\nover = \"slow\"";
    let soft = policy(&(CLASSES.to_owned() + &rule("a", keys, "shape")));
    let quota = Quota {
        bytes: 5 << 30,
        period: Period::Day,
        per: Per::Host,
        over: Over::Class(1),
    };
    assert_eq!(
        (soft.quota_of("a"), soft.quota_of("b")),
        (Some(quota), None)
    );
    let keys = "app = \"bittorrent\"\nquota = \"1 TB/month\"\nper = \"member\"\nover = \"block\"";
    let hard = policy(&rule("a", keys, "allow"));
    let quota = hard.quota_of("a").unwrap();
    assert_eq!((quota.per, quota.over), (Per::Member, Over::Block));
    // Flows have to be known for the rule's: none passes unasked.
    assert!(hard.touches("bittorrent"));
    let ruling = plan(&hard, &flow(Some("bittorrent"))).ruling;
    assert_eq!((ruling.action, ruling.over), (Action::Allow, false));
    let above = ruling.above(quota.over);
    assert_eq!(
        (above.action, above.over, hard.name_of(&above)),
        (Action::Block, true, "a")
    );
    // The class above the quota keeps its slot under the next policy.
    let next = "[classes.new]\nrate = \"2 Mbit/s\"\n".to_owned() + CLASSES;
    let keys = "quota = \"5GiB/day\"\nover = \"slow\"";
    let next = policy(&(next + &rule("a", keys, "allow"))).after(&soft);
    assert_eq!(next.quota_of("a").unwrap().over, Over::Class(1));
}

#[test]
fn wrong_quotas_are_refused_at_their_keys() {
    let cases = [
        ("quota = \"5GiB\"\nover = \"slow\"", "allow", 7, "no quota"),
        (
            "quota = \"0/day\"\nover = \"slow\"",
            "allow",
            7,
            "nothing through",
        ),
        ("quota = \"5GiB/day\"", "allow", 7, "needs `over`"),
        ("over = \"slow\"", "allow", 7, "`over`: it needs a `quota`"),
        ("per = \"host\"", "allow", 7, "`per`: it needs a `quota`"),
        (
            "quota = \"5GiB/day\"\nper = \"group\"\nover = \"slow\"",
            "allow",
            8,
            "cannot stand here",
        ),
        (
            "quota = \"5GiB/day\"\nover = \"slower\"",
            "allow",
            8,
            "no [classes.slower]",
        ),
        (
            "class = \"slow\"\nquota = \"5GiB/day\"\nover = \"slow\"",
            "shape",
            9,
            "below the quota",
        ),
        (
            "quota = \"5GiB/day\"\nover = \"slow\"",
            "block",
            7,
            "needs no `quota`",
        ),
        (
            "app = \"http\"\nfile_name = \"*.exe\"\nquota = \"5GiB/day\"\nover = \"block\"",
            "allow",
            9,
            "what flows carry",
        ),
    ];
    for (keys, action, line, part) in cases {
        let told = faults(&(CLASSES.to_owned() + &rule("a", keys, action)));
        let [fault] = told.as_slice() else {
            panic!("{keys}: {told:#?}");
        };
        assert!(
            fault.line == line && fault.reason.contains(part),
            "{keys}: {fault:?}"
        );
    }
    let named = "[classes.block]\nrate = \"1 Mbit/s\"\n".to_owned();
    let told = faults(&(named + &rule("a", "quota = \"5GiB/day\"\nover = \"block\"", "allow")));
    assert!(told[0].reason.contains("another name"), "{told:?}");
}

/// Flows that an earlier policy has put into a class go on in it.
#[test]
fn next_policy_keeps_earlier_classes_in_their_slots() {
    let text = |names: &[&str], rate: &str| {
        let classes = names
            .iter()
            .map(|name| format!("[classes.{name}]\nrate = \"{rate}\"\n"));
        let uses = names.iter().map(|name| {
            rule(
                name,
                &format!("class = \"{name}\"\nmember = \"{name}\""),
                "shape",
            )
        });
        classes.chain(uses).collect::<String>()
    };
    let seen = |policy: &Policy| {
        let classes = policy.classes().iter();
        classes
            .map(|class| (class.name.clone(), class.rate))
            .collect::<Vec<_>>()
    };
    let own = |policy: &Policy, member: &str| {
        let facts = FlowFacts {
            found: Some(Found {
                application: "ringway",
                confidence: Confidence::Certain,
                host: None,
                member: Some(member),
                infohash: None,
            }),
            ..flow(None)
        };
        let Decision::Settled(plan) = policy.decide(&facts) else {
            panic!("{member}");
        };
        policy.classes()[plan.ruling.class.unwrap()].name.clone()
    };
    // In the order of the file, not of their names.
    let first = policy(&text(&["b", "a"], "1 Mbit/s"));
    let class = |name: &str, rate: u64| (name.to_owned(), rate * 1_000_000);
    assert_eq!(seen(&first), [class("b", 1), class("a", 1)]);
    let second = policy(&text(&["0", "a", "c"], "2 Mbit/s")).after(&first);
    let expected = [class("b", 1), class("a", 2), class("0", 2), class("c", 2)];
    assert_eq!(seen(&second), expected);
    for name in ["0", "a", "c"] {
        assert_eq!(own(&second, name), name);
    }
    // All slots are taken: what no rule asks for any more gives way.
    let many: Vec<String> = (0..MAX_CLASSES)
        .map(|number| format!("m{number}"))
        .collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many[MAX_CLASSES - 1] = "a";
    let third = policy(&text(&many, "3 Mbit/s")).after(&second);
    assert_eq!(third.classes().len(), MAX_CLASSES);
    assert_eq!(third.classes()[1].name, "a");
    for name in many {
        assert_eq!(own(&third, name), name);
    }
}
