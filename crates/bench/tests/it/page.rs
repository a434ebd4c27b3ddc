//! `docs/benchmarks.md` is what the runs in `benches/results` give.

use std::path::Path;

use super::run;

#[test]
fn benchmarks_match_the_recorded_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = |name: &str| root.join(name).display().to_string();
    let (results, spec) = (path("benches/results"), path("benches/report.toml"));
    let page = path("docs/benchmarks.md");
    let from = ["--results", &results, "--spec", &spec, "--page", &page];
    let outcome = run(&[&["report", "--check"], &from[..]].concat());
    assert_eq!(
        outcome.code,
        Some(0),
        "`make report` makes it again: {}",
        outcome.stderr
    );
    let text = std::fs::read_to_string(&page).unwrap();
    // Some eighteen sections of twenty lines.
    assert!(text.lines().count() <= 400, "longer than 400 lines");
}
