//! Mistakes on the command line: one line that names what is wrong, and exit code 2.

use std::fs;

use super::run;

#[test]
fn mistakes_get_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let below = file.join("plots");
    let below = below.to_str().unwrap();
    for (arguments, named) in [
        (["transport", "--only", "pigeon"], "udp, tcp"),
        (["transport", "--plots", below], "--plots"),
        (["overlay", "--members", "many"], "--members"),
    ] {
        let outcome = run(&arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.starts_with("ringway-bench: "),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains(named), "{}", outcome.stderr);
    }
}

#[test]
fn beside_program_without_cases_is_refused() {
    let outcome = run(&["transport", "--quick", "--beside", "/bin/true"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""));
    assert!(
        outcome.stderr.contains("lists no cases"),
        "{}",
        outcome.stderr
    );
}
