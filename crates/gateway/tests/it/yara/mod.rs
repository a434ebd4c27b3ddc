//! YARA rules, asked about files in windows as the gateway cuts them.

mod answers;

use std::path::PathBuf;

use ringway_gateway::flow::Direction;
use ringway_gateway::limits::{MAX_WHOLE, SCAN_OVERLAP};
use ringway_gateway::scan::{Scanner as _, Yara, YaraError, YaraRules};
use ringway_gateway::verdict::{FlowId, ScanJob, Scanned};
use tempfile::TempDir;

const EICAR: &[u8] = br"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*";
const WINDOW: usize = 32_768;

/// A scanner with these rules in a file, beside those that are always there.
fn scanner(rules: &str) -> Yara {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.yar"), rules).unwrap();
    YaraRules::load(&[folder.path().to_owned()])
        .unwrap()
        .scanner()
}

fn windows(file: &[u8]) -> Vec<ScanJob> {
    let count = file.len().div_ceil(WINDOW).max(1);
    (0..count)
        .map(|number| {
            let from = number * WINDOW;
            let repeated = from.min(SCAN_OVERLAP);
            let to = (from + WINDOW).min(file.len());
            ScanJob {
                flow: FlowId::default(),
                direction: Direction::FromServer,
                number: u32::try_from(number + 1).unwrap(),
                bytes: file[from - repeated..to].to_vec(),
                repeated,
                at: u64::try_from(from - repeated).unwrap(),
                first: number == 0,
                last: number + 1 == count,
                name: None,
            }
        })
        .collect()
}

/// The window that is not clean, from 1, and what was found in it.
fn found(scanner: &mut Yara, file: &[u8]) -> Option<(u32, String)> {
    for job in windows(file) {
        match scanner.scan(&job) {
            Scanned::Clean => {}
            Scanned::Found(name) => return Some((job.number, name)),
            Scanned::Failed(why) => panic!("{why}"),
        }
    }
    None
}

fn with(length: usize, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![b'.'; length];
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn the_test_file_is_found_wherever_it_lies() {
    let mut scanner = scanner("rule other { condition: false }");
    assert_eq!(found(&mut scanner, &vec![b'.'; 100_000]), None);
    for boundary in [WINDOW, 2 * WINDOW] {
        for before in 1..=EICAR.len() {
            let file = with(100_000, boundary - before, EICAR);
            let (_, name) = found(&mut scanner, &file).unwrap();
            assert_eq!(name, "EICAR_test_file", "{boundary} - {before}");
        }
    }
    // One that was left in the middle does not become part of the next.
    for job in windows(&with(100_000, 50, &EICAR[..40])).iter().take(1) {
        assert_eq!(scanner.scan(job), Scanned::Clean);
    }
    assert_eq!(found(&mut scanner, &with(100, 0, &EICAR[40..])), None);
}

#[test]
fn offsets_in_windows_are_those_in_files() {
    let mut scanner = scanner(
        "rule begins { strings: $a = \"MAGIC\" condition: $a at 0 }
         rule late { strings: $a = \"NEEDLE\" condition: $a at 70000 }",
    );
    assert_eq!(
        found(&mut scanner, &with(100_000, 0, b"MAGIC")).unwrap().1,
        "begins"
    );
    let start_of_a_window = 2 * WINDOW - SCAN_OVERLAP;
    for at in [1, start_of_a_window, 2 * WINDOW] {
        assert_eq!(
            found(&mut scanner, &with(100_000, at, b"MAGIC")),
            None,
            "{at}"
        );
    }
    assert_eq!(
        found(&mut scanner, &with(100_000, 70_000, b"NEEDLE")).unwrap(),
        (3, "late".to_owned())
    );
    assert_eq!(found(&mut scanner, &with(100_000, 70_001, b"NEEDLE")), None);
}

#[test]
fn whole_file_rules_wait_for_the_last_window() {
    let mut scanner = scanner(
        "rule program { strings: $a = \"NEEDLE\" condition: uint16(0) == 0x5a4d and filesize < 100001 and $a }
         rule unsigned : whole { strings: $m = \"MAGIC\" $s = \"signed\" condition: $m and not $s }",
    );
    let mut program = with(100_000, 10, b"NEEDLE");
    program[..2].copy_from_slice(b"MZ");
    assert_eq!(
        found(&mut scanner, &program).unwrap(),
        (4, "program".to_owned())
    );
    program.push(b'.');
    program.push(b'.');
    assert_eq!(
        found(&mut scanner, &program),
        None,
        "too large for the rule"
    );
    // The last of four windows says that it is signed; before that one no window does.
    let mut signed = with(100_000, 0, b"MAGIC");
    assert_eq!(
        found(&mut scanner, &signed).unwrap(),
        (4, "unsigned".to_owned())
    );
    signed[99_000..99_006].copy_from_slice(b"signed");
    assert_eq!(found(&mut scanner, &signed), None);
}

#[test]
fn oversized_file_is_scanned_in_windows() {
    let mut scanner = scanner("rule sized { condition: filesize > 0 }");
    assert_eq!(
        found(&mut scanner, &with(1_000, 0, b"")).unwrap().1,
        "sized"
    );
    let mut large = vec![b'.'; MAX_WHOLE + 1];
    assert_eq!(found(&mut scanner, &large), None);
    let at = MAX_WHOLE - EICAR.len();
    large[at..at + EICAR.len()].copy_from_slice(EICAR);
    assert_eq!(found(&mut scanner, &large).unwrap().1, "EICAR_test_file");
}

#[test]
fn pattern_reaches_four_thousand_bytes_around_its_text() {
    let mut scanner = scanner(
        "rule far { strings: $a = { 46 41 52 5F 54 45 58 54 [-] 41 57 41 59 } condition: $a and filesize > 0 }",
    );
    for (distance, is_found) in [(3_900, true), (4_100, false)] {
        let mut file = with(10_000, 100, b"FAR_TEXT");
        file[100 + distance..104 + distance].copy_from_slice(b"AWAY");
        assert_eq!(found(&mut scanner, &file).is_some(), is_found, "{distance}");
    }
}

#[test]
fn wrong_rules_are_refused_with_file_and_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("own.yar");
    for (rules, words) in [
        ("\nrule a { condition: nothing }", [":2:", "nothing"]),
        (
            "import \"pe\"\nrule a { condition: pe.is_pe }",
            [":1:", "pe"],
        ),
        ("include \"/etc/passwd\"", [":1:", "include"]),
        (
            "rule a { condition: true }\nrule a { condition: true }",
            [":2:", "already declared"],
        ),
    ] {
        std::fs::write(&file, rules).unwrap();
        let error = YaraRules::load(std::slice::from_ref(&file))
            .unwrap_err()
            .to_string();
        assert!(error.contains("own.yar"), "{error}");
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    let no_text = YaraRules::load(&[file]).unwrap_err().to_string();
    assert!(no_text.contains("own.yar: no text"), "{no_text}");
    let empty = TempDir::new().unwrap();
    let none = YaraRules::load(&[empty.path().to_owned()])
        .unwrap_err()
        .to_string();
    assert!(none.contains("no file ends in .yar"), "{none}");
    assert!(YaraRules::load(&[PathBuf::from("/does/not/exist")]).is_err());
}

#[test]
fn every_fault_of_every_file_is_told() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put(
        "a.yar",
        "rule one {\n condition: nothing }\nrule two {\n condition: naught }",
    );
    put("b.yar", "rule good { condition: true }");
    put(
        "c.yar",
        "rule bad {\n\n strings: $a = \"x\" condition: true }",
    );
    let paths = [folder.path().to_owned(), PathBuf::from("/does/not/exist")];
    let YaraError(faults) = YaraRules::check(&paths).unwrap_err();
    let places: Vec<_> = faults
        .iter()
        .map(|fault| {
            (
                fault.file.file_name().unwrap().to_str().unwrap(),
                fault.line,
            )
        })
        .collect();
    let expected = [
        ("a.yar", Some(2)),
        ("a.yar", Some(4)),
        ("c.yar", Some(3)),
        ("exist", None),
    ];
    assert_eq!(places, expected, "{faults:?}");
    assert!(faults.iter().all(|fault| fault.reason.lines().count() == 1));
    assert!(faults[1].reason.contains("naught"), "{faults:?}");
    put("a.yar", "");
    put("c.yar", "");
    assert_eq!(YaraRules::check(&paths[..1]).unwrap(), 2);
}

#[test]
fn faults_of_truncated_and_garbled_rules_name_lines() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("own.yar");
    let rule = "rule ä : t { meta: a = \"ü\" strings: $a = { 01 ?? [2-] ( 02 | 03 ) } $b = /é+/i condition: #a > 2 and\n not $b }";
    let ends = (0..rule.len()).filter(|&end| rule.is_char_boundary(end));
    for end in ends {
        for more in ["", "\n", "\u{fffd}", "\0", "\""] {
            let text = format!("{}{more}", &rule[..end]);
            std::fs::write(&file, &text).unwrap();
            if let Err(YaraError(faults)) = YaraRules::check(std::slice::from_ref(&file)) {
                let told = faults.iter().all(|fault| fault.line.is_some());
                assert!(told && !faults.is_empty(), "{text}: {faults:?}");
            }
        }
    }
}

#[test]
fn files_may_share_names_of_rules() {
    let folder = TempDir::new().unwrap();
    for (name, word) in [("a.yar", "ONE"), ("b.yara", "TWO"), ("c.txt", "(")] {
        let rule = format!("rule same {{ strings: $a = \"{word}\" condition: $a }}");
        std::fs::write(folder.path().join(name), rule).unwrap();
    }
    let rules = YaraRules::load(&[folder.path().to_owned()]).unwrap();
    assert_eq!(rules.count(), 3);
    let mut scanner = rules.scanner();
    for word in ["ONE", "TWO"] {
        assert_eq!(found(&mut scanner, word.as_bytes()).unwrap().1, "same");
    }
}
