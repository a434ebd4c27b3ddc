//! `ringway-bench overlay --real`: rings of many real routers on loopback.

use serde_json::Value;

use super::run;

/// The figures of `ringway-bench overlay --real --quick` with this many routers, and what else is
/// asked for.
fn real_ring(routers: &str, more: &[&str]) -> Vec<Value> {
    let own = [
        "--json",
        "overlay",
        "--real",
        "--quick",
        "--members",
        routers,
    ];
    let done = run(&[&own[..], more].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let lines = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The value of this metric in the first case that begins so.
fn value(figures: &[Value], case: &str, metric: &str) -> Option<f64> {
    let of_case = |figure: &&Value| figure["case"].as_str().is_some_and(|c| c.starts_with(case));
    let mut figures = figures.iter().filter(of_case);
    let figure = figures.find(|figure| figure["metric"] == metric);
    figure.and_then(|figure| figure["value"].as_f64())
}

/// While every router answers, none fails.
#[test]
fn most_lookups_survive_a_silent_router() {
    let plots = tempfile::tempdir().unwrap();
    let folder = plots.path().to_str().unwrap();
    let lookups = ["--only-lookups", "--lookups", "30", "--malicious", "12.5"];
    let figures = real_ring("8", &[&lookups[..], &["--plots", folder]].concat());
    assert!(plots.path().join("overlay-lookup-time.svg").exists());
    let value = |case: &str, metric: &str| value(&figures, case, metric);
    let all = "8 members, ringway";
    assert_eq!(value(all, "lookup_success"), Some(1.0), "{figures:?}");
    assert_eq!(value(all, "wrong_accepted"), Some(0.0), "{figures:?}");
    assert!(
        value(all, "messages_mean").is_some_and(|n| n > 0.0),
        "{figures:?}"
    );
    assert!(
        value(all, "idle_traffic").is_some_and(|n| n > 0.0),
        "{figures:?}"
    );
    let silent = value("8 members 12 % silent, ringway", "lookup_success");
    assert!(silent.is_some_and(|share| share > 0.5), "{figures:?}");
    assert!(
        figures
            .iter()
            .all(|figure| figure["schema"] == "ringway.bench/1")
    );
}

#[test]
fn real_routers_carry_messages() {
    let figures = real_ring("16", &[]);
    let value = |metric: &str| value(&figures, "16 routers", metric);
    assert_eq!(value("pings_unanswered"), Some(0.0), "{figures:?}");
    assert!(value("packets_least").unwrap() > 0.0, "{figures:?}");
    // How fast, and how many are answered too late, depends on what else the machine does.
    assert!(value("token_hops").unwrap() > 0.0, "{figures:?}");
    assert!(value("token_hops_lost").is_some(), "{figures:?}");
    for metric in [
        "packets_processor_time_per_message",
        "revocation_known_after_command",
    ] {
        assert!(value(metric).unwrap() > 0.0, "{metric}: {figures:?}");
    }
}
