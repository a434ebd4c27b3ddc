//! Which rules are complete, and that windows find of them what the whole file shows.

use data_encoding::BASE64_NOPAD;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::super::{Rules, compile_sources};
use super::{AROUND, NEAR, Rest, is_complete, parts, rest, rule};
use crate::limits::{SCAN_OVERLAP, SCAN_TIMEOUT};

/// None if it is no rule.
fn compile(rule: &str) -> Option<Rules> {
    let rules = compile_sources(&[("own".into(), rule.to_owned())]).ok()?;
    Some(rules.within(SCAN_TIMEOUT))
}

fn complete(text: &str, overlap: usize) -> bool {
    compile(text).unwrap_or_else(|| panic!("{text}"));
    let parts = parts::read(text).unwrap();
    parts
        .iter()
        .filter_map(rule)
        .all(|rule| is_complete(rule, overlap))
}

#[test]
fn conditions_of_one_match_are_complete() {
    let complete = |condition: &str| {
        let strings = "strings: $_a = \"one\" $_b = { 01 02 ?? } $_c = /x[0-9]{1,4}/";
        let rule = format!("rule r {{ {strings} condition: {condition} }}");
        complete(&rule, SCAN_OVERLAP)
    };
    for yes in [
        "$_a",
        "($_a)",
        "false",
        "any of them",
        "1 of them",
        "1 of ($_a, $_b)",
        "any of ($_*)",
        "$_a or $_b",
        "$_a or ($_b or any of them) or false",
        "$_a at 0",
        "$_a at 5000",
        "$_a at 1KB or $_b",
        "$_a in (0..1024)",
        "$_a in (7..5000)",
    ] {
        assert!(complete(yes), "{yes}");
    }
    for no in [
        "true",
        "$_a and $_b",
        "$_a and $_a",
        "not $_a",
        "$_a or not $_b",
        "$_a or ($_b and $_c)",
        "all of them",
        "none of them",
        "0 of them",
        "2 of them",
        "1 of them and $_a",
        "50% of them",
        "any of them at 0",
        "any of them in (0..9)",
        "#_a > 0",
        "#_a in (0..9) == 1",
        "@_a == 0",
        "!_a == 3",
        "$_a at 5001",
        "$_a at 1 + 1",
        "$_a at filesize - 3",
        "$_a at @_b",
        "$_a in (0..5001)",
        "$_a in (0..filesize)",
        "filesize < 10",
        "$_a or filesize < 10",
        "uint16(0) == 0x5a4d",
        "for any of them : ( $ )",
        "for all i in (1..2) : ( $_a )",
        "defined $_a",
        "\"a\" == \"a\"",
    ] {
        assert!(!complete(no), "{no}");
    }
    assert_eq!(NEAR, 5_000);
}

#[test]
fn unbounded_patterns_are_not_complete() {
    let complete = |pattern: &str, overlap: usize| {
        let rule = format!("rule r {{ strings: $a = {pattern} condition: $a }}");
        complete(&rule, overlap)
    };
    for (pattern, length) in [
        ("\"abcdef\"", 6),
        ("\"abcdef\" nocase fullword", 6),
        ("\"a\\x00\\n\\\"ef\" private", 6),
        ("\"abcdef\" xor", 6),
        ("\"abcdef\" wide", 12),
        ("\"abcdef\" wide ascii xor(1-9)", 12),
        ("\"abcdef\" base64", 16),
        ("\"abcdef\" wide base64", 28),
        ("\"abcdef\" base64wide", 32),
        ("\"abcdef\" base64 base64wide", 32),
        ("\"abcdef\" wide base64wide", 56),
        ("{ 01 ?? ~03 4? }", 4),
        ("{ 01 [4] 02 }", 6),
        ("{ 01 [-4] 02 [2-300] 03 }", 307),
        ("{ 01 ( 02 03 | 04 ( 05 | 06 07 08 ) ) 09 }", 6),
        ("{ 01 ( 02 [1-20] 03 | 04 ) 09 }", 24),
        ("/abcdef/", 6),
        ("/abcdef/ wide", 12),
        ("/ab?c{2,5}(de|f)/i", 9),
        ("/ab?c{2,5}(de|f)/ nocase wide fullword", 18),
        ("/a.\\w\\d[^x]\\x00/s", 6),
        ("/\\bab\\b/", 2),
        ("/abé/", 4),
        ("/ab(c|)/", 3),
        ("/ab[k-s]/i", 3),
    ] {
        let least = length + 2 * AROUND;
        assert!(complete(pattern, least), "{pattern}");
        assert!(!complete(pattern, least - 1), "{pattern}");
    }
    for pattern in [
        "{ 01 02 [-] 03 04 }",
        "{ 01 02 [3-] 03 04 }",
        "{ 01 02 [1-5000] 03 04 }",
        "{ 01 02 ( 03 | 04 [-180] 05 ) [-4000] 06 }",
        "/abc.*def/",
        "/abc+/",
        "/abc{2,}/",
        "/abc.{0,4090}def/",
        "/^abc/",
        "/abc$/",
        "/abc|^def/",
        "/(abc|def$)/ nocase",
        "/abc\\B/",
        "/\\Babc/",
        "/(^|a)bc/",
        "/abc(d$)?/",
    ] {
        assert!(!complete(pattern, SCAN_OVERLAP), "{pattern}");
    }
    let long = format!("\"{}\"", "a".repeat(SCAN_OVERLAP - 2 * AROUND + 1));
    assert!(!complete(&long, SCAN_OVERLAP));
    // One that its condition does not ask of counts as well.
    let rule = "rule r { strings: $a = \"a1\" $_b = /b1.*/ condition: $a }";
    assert!(!super::tests::complete(rule, SCAN_OVERLAP));
}

#[test]
fn tags_and_flags_count() {
    let strings = "strings: $a = \"one\" condition: $a";
    for (head, expected) in [
        ("rule r", true),
        ("rule r : other", true),
        ("private rule r", true),
        ("rule r : whole", false),
        ("rule r : other whole", false),
        ("global rule r", false),
        ("global private rule r", false),
    ] {
        let rule = format!("{head} {{ {strings} }}");
        assert_eq!(complete(&rule, SCAN_OVERLAP), expected, "{head}");
    }
}

#[test]
fn complete_rules_stay_only_if_named() {
    let one = "rule one { strings: $x = \"one\" condition: $x }";
    let size = "rule size { condition: filesize > 3 }";
    let names = "rule names { condition: one and filesize > 3 }";
    let global = "global rule all { condition: filesize > 3 }";
    let rest = |texts: &[&str]| rest(texts, SCAN_OVERLAP);
    let these = |texts: &[&str]| Rest::These(texts.iter().map(|&text| text.to_owned()).collect());
    assert_eq!(rest(&[]), Rest::All);
    assert_eq!(rest(&[one]), Rest::Nothing);
    assert_eq!(rest(&[one, "", "import \"math\""]), Rest::Nothing);
    assert_eq!(rest(&[size]), Rest::All);
    assert_eq!(rest(&[one, size]), these(&["\n", size]));
    let (both, left) = (format!("{one}{size}"), format!("\n{size}"));
    assert_eq!(rest(&[&both]), these(&[&left]));
    let (both, left) = (
        format!("/* ü */{size}{one}//\n"),
        format!("/* ü */{size}\n//\n"),
    );
    assert_eq!(rest(&[&both]), these(&[&left]));
    let both = format!("private {one} {names}");
    assert_eq!(rest(&[&both]), Rest::All);
    // Not in another file: it has names of its own.
    assert_eq!(rest(&[one, size, one]), these(&["\n", size, "\n"]));
    assert_eq!(rest(&[&format!("{one} // one\n")]), Rest::Nothing);
    let names_itself = "rule one { strings: $one = \"one\" condition: $one }";
    assert_eq!(rest(&[names_itself]), Rest::Nothing);
    for set in ["one", "on*", "o *", "on /* */ *"] {
        let set = format!("{one} rule set {{ condition: any of ({set}) }}");
        assert_eq!(rest(&[&set]), Rest::All, "{set}");
    }
    assert_eq!(rest(&[one, global]), Rest::All);
    let most = |sizes: usize| [vec![one], vec![size; sizes]].concat();
    let few = [vec!["\n"], vec![size; 15]].concat();
    assert_eq!(rest(&most(15)), these(&few));
    assert_eq!(rest(&most(16)), Rest::All);
    assert_eq!(rest(&[one, "rule"]), Rest::All);
    for text in [&both, &left] {
        assert!(compile(text).is_some(), "{text}");
    }
}

/// Windows that end at these positions, each with the end of the one before.
fn windows<'a>(
    text: &'a [u8],
    ends: &'a [usize],
    overlap: usize,
) -> impl Iterator<Item = (usize, &'a [u8])> + 'a {
    let mut before = 0;
    let ends = ends.iter().copied().chain([text.len()]);
    ends.map(move |end| {
        let from = usize::saturating_sub(before, overlap);
        before = end;
        (from, &text[from..end])
    })
}

fn of_the_whole(rules: &Rules, text: &[u8]) -> bool {
    rules.ask_whole(text).unwrap().is_some()
}

fn of_a_window(rules: &Rules, text: &[u8], ends: &[usize], overlap: usize) -> bool {
    windows(text, ends, overlap)
        .any(|(from, bytes)| rules.ask_window(from, bytes).unwrap().is_some())
}

const WORDS: [&str; 4] = ["abba", "a b", "aab-", "bab"];

fn pattern() -> impl Strategy<Value = String> {
    let text = (
        select(&WORDS[..]),
        select(vec![
            "",
            "nocase",
            "wide",
            "wide ascii",
            "fullword",
            "fullword wide",
            "wide ascii fullword nocase",
            "xor",
            "xor fullword",
            "base64",
            "base64wide",
            "wide base64",
            "base64 base64wide",
        ]),
    );
    let hex = select(vec![
        "61",
        "62",
        "??",
        "~61",
        "6?",
        "[1-3]",
        "[2]",
        "[0-9]",
        "[-]",
        "( 61 | 62 ?? 61 )",
    ]);
    let letters = select(vec![
        "a",
        "b",
        "ab",
        "[ab]",
        ".",
        "\\w",
        "a{1,3}",
        "b?",
        "(ab|b)",
        "\\b",
        "\\B",
        " ",
        "^",
        "$",
        "a+",
        ".{0,9}",
        "[^a]{2,4}",
    ]);
    let more = select(vec!["", "i", "s", " wide", " fullword", " wide fullword"]);
    prop_oneof![
        text.prop_map(|(word, more)| format!("\"{word}\" {more}")),
        vec(hex, 1..5).prop_map(|hex| format!("{{ 61 {} 62 }}", hex.join(" "))),
        (vec(letters, 1..5), more).prop_map(|(it, more)| format!("/{}/{more}", it.concat())),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => select(vec!["$a", "$b", "any of them", "1 of ($a*)", "false"]).prop_map(str::to_owned),
        2 => (0..200_u32).prop_map(|at| format!("$a at {at}")),
        2 => (0..200_u32, 200..300_u32).prop_map(|(from, to)| format!("$b in ({from}..{to})")),
        1 => select(vec!["not $a", "#a > 1", "all of them", "2 of them"]).prop_map(str::to_owned),
    ];
    let words = select(vec![" or ", " or ", " and "]);
    (vec((part, words), 0..3), select(vec!["$a", "$b"])).prop_map(|(parts, last)| {
        let parts = parts
            .into_iter()
            .map(|(part, word)| format!("{part}{word}"));
        format!("{}{last}", parts.collect::<String>())
    })
}

/// Letters, and words as the modifiers know them.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let letters = vec(select(b"abaabb -\0\n".to_vec()), 1..12);
    let wide = |text: &[u8]| text.iter().flat_map(|&byte| [byte, 0]).collect::<Vec<_>>();
    let word = (select(&WORDS[..]), 0..8_u8, 0..3_usize).prop_map(move |(word, how, before)| {
        let mut text = word.as_bytes().to_vec();
        if how & 1 > 0 {
            text = wide(&text);
        }
        if how & 2 > 0 {
            let text = [&b"xyz"[..before], &text, b"xyz"].concat();
            let coded = BASE64_NOPAD.encode(&text).into_bytes();
            return if how & 4 > 0 { wide(&coded) } else { coded };
        }
        if how & 4 > 0 {
            text.iter_mut().for_each(|byte| *byte ^= 0x20);
        }
        text
    });
    let piece = prop_oneof![3 => letters, 1 => word];
    vec(piece, 1..40).prop_map(|pieces| {
        let mut text = pieces.concat();
        text.truncate(300);
        text
    })
}

#[test]
fn complete_rules_find_the_same_in_windows() {
    let overlap = 2 * AROUND + 14;
    let rule = (pattern(), pattern(), condition()).prop_map(|(a, b, condition)| {
        format!(
            "rule r {{ strings: $a = {a} $_a2 = {a} $b = {b} $_b = {b} condition: {condition} }}"
        )
    });
    let ends = vec(1..70_usize, 0..30);
    let texts = vec((text(), ends), 30);
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (mut complete, mut held) = (0, 0);
    for _ in 0..800 {
        let rule = rule.new_tree(&mut runner).unwrap().current();
        // Some of what is made is no rule.
        let Some(rules) = compile(&rule) else {
            continue;
        };
        if !super::tests::complete(&rule, overlap) {
            continue;
        }
        complete += 1;
        for (text, lengths) in texts.new_tree(&mut runner).unwrap().current() {
            let mut ends = Vec::new();
            for length in lengths {
                let end = ends.last().copied().unwrap_or_default() + length;
                if end < text.len() {
                    ends.push(end);
                }
            }
            if of_the_whole(&rules, &text) {
                held += 1;
                let found = of_a_window(&rules, &text, &ends, overlap);
                assert!(
                    found,
                    "{rule}\n{:?}\n{ends:?}",
                    text.escape_ascii().to_string()
                );
            }
        }
    }
    assert!(complete > 40 && held > 800, "{complete} {held}");
}

#[test]
fn the_longest_match_is_found_wherever_it_lies() {
    let word = "abcdefgh";
    let wide = |text: &[u8]| text.iter().flat_map(|&byte| [byte, 0]).collect::<Vec<_>>();
    let coded = |text: &[u8]| BASE64_NOPAD.encode(text).into_bytes();
    let both = [&b"xx"[..], &wide(word.as_bytes()), b"x"].concat();
    // An edge of a word on either side, of what is no word: each has to be seen.
    let edges = format!("/\\b-{word}-\\b/");
    let dashed = format!("-{word}-").into_bytes();
    let text = |modifiers| format!("\"{word}\" {modifiers}");
    for (pattern, match_, around) in [
        (text("fullword"), word.as_bytes().to_vec(), b"."),
        (text("wide fullword"), wide(word.as_bytes()), b"."),
        (text("base64"), coded(word.as_bytes()), b"A"),
        (text("base64"), coded(format!("x{word}x").as_bytes()), b"A"),
        (
            text("base64wide"),
            wide(&coded(format!("xx{word}").as_bytes())),
            b"A",
        ),
        (text("wide base64wide"), wide(&coded(&both)), b"A"),
        (edges.clone(), dashed.clone(), b"x"),
        (format!("{edges} wide"), wide(&dashed), b"x"),
    ] {
        let rule = format!("rule r {{ strings: $a = {pattern} condition: $a }}");
        let least = (0..SCAN_OVERLAP)
            .find(|&overlap| complete(&rule, overlap))
            .unwrap();
        let rules = compile(&rule).unwrap();
        let around = match pattern.contains("wide") {
            true => wide(&[around[0]; 64]),
            false => vec![around[0]; 128],
        };
        let text = [&around[..], &match_, &around].concat();
        assert!(of_the_whole(&rules, &text), "{pattern}");
        for end in 1..text.len() {
            let found = of_a_window(&rules, &text, &[end], least);
            assert!(found, "{pattern} {end}");
        }
    }
}
