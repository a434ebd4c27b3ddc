//! Figures, and the files for Prometheus and Grafana that are made for them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringway_gateway::service::Reload;

use super::{Ended, GatewayStatus, text};

#[test]
fn every_figure_has_a_line_that_prometheus_reads() {
    let status = GatewayStatus {
        packets: 7,
        held: 3,
        reload: Some(Reload {
            at: 1,
            loaded: false,
            notes: Vec::new(),
        }),
        ..GatewayStatus::default()
    };
    let ended = [Ended {
        app: "bittorrent".to_owned(),
        action: "block",
        flows: 2,
        bytes: 900,
    }];
    let text = text(&status, &ended).unwrap();
    for line in [
        "ringway_gate_packets_total 7",
        "ringway_gate_held 3",
        "ringway_gate_reload_refused 1",
        "ringway_gate_enforcing 0",
        "ringway_gate_flows_ended_total{app=\"bittorrent\",action=\"block\"} 2",
        "ringway_gate_flows_ended_bytes_total{app=\"bittorrent\",action=\"block\"} 900",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

/// All figures, of a gateway that has something wrong.
fn figures() -> String {
    let status = GatewayStatus {
        packets: 7,
        queues: 1,
        queues_begun: 2,
        rules_not_looked_after: Some("no iptables".to_owned()),
        in_kernel: Some(Default::default()),
        terminated: Some(Default::default()),
        ..GatewayStatus::default()
    };
    let ended = [Ended {
        app: "bittorrent".to_owned(),
        action: "block",
        flows: 2,
        bytes: 900,
    }];
    text(&status, &ended).unwrap()
}

fn contrib(file: &str) -> PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("contrib").join(file)
}

/// Names of figures in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words
        .filter(|word| word.starts_with("ringway_gate_"))
        .collect()
}

/// What is asked for is there, and what is there is shown.
#[test]
fn rules_and_dashboard_know_every_figure() {
    let figures = figures();
    let lines = figures.lines().filter(|line| !line.starts_with('#'));
    let given: BTreeSet<&str> = lines.flat_map(names).collect();
    let rules = fs::read_to_string(contrib("prometheus/ringway.rules.yml")).unwrap();
    let board = fs::read_to_string(contrib("grafana/ringway-gate.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&board).unwrap();
    for (what, text) in [("rules", &rules), ("dashboard", &board)] {
        let unknown: Vec<_> = names(text).difference(&given).copied().collect();
        assert!(unknown.is_empty(), "the {what} ask for {unknown:?}");
    }
    let unseen: Vec<_> = given.difference(&names(&board)).copied().collect();
    assert!(unseen.is_empty(), "the dashboard does not show {unseen:?}");
}

/// A Prometheus that ends with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn not_tested(why: &str) {
    let text = format!("\n*** NOT TESTED: rules for Prometheus: {why} ***\n");
    // Past the harness, which swallows what a passing test prints.
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// Answers every request with the figures.
fn exporter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, figures) = (stream.unwrap(), figures());
            let mut request = [0; 4_096];
            // All requests get the same answer.
            if stream.read(&mut request).unwrap_or(0) == 0 {
                continue;
            }
            let kind = super::KIND;
            let kind = kind.to_str().unwrap();
            let length = figures.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{figures}"
            );
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    address
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn prometheus_takes_rules_and_figures() {
    let rules = contrib("prometheus/ringway.rules.yml")
        .canonicalize()
        .unwrap();
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output();
    let Ok(checked) = checked else {
        return not_tested("promtool is missing");
    };
    assert!(checked.status.success(), "{checked:?}");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\nscrape_configs:\n  \
         - job_name: ringway-gate\n    static_configs: [{{targets: [\"{}\"]}}]\n",
        rules.display().to_string(),
        exporter()
    );
    fs::write(&config, text).unwrap();
    // A port that was free a moment ago; another program that takes it makes the test fail.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let started = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        ))
        .arg(format!("--web.listen-address={port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        return not_tested("prometheus is missing");
    };
    let _running = Prometheus(child);
    let until = Instant::now() + Duration::from_secs(60);
    let has = |path: &str, words: &[&str]| {
        let answer = get(port, path).unwrap_or_default();
        words.iter().all(|word| answer.contains(word))
    };
    while !(has("/api/v1/query?query=ringway_gate_packets_total", &["\"7\""])
        && has(
            "/api/v1/query?query=ALERTS",
            &["RingwayGateQueueEnded", "RingwayGateRulesNotLookedAfter"],
        ))
    {
        let seen = get(port, "/api/v1/query?query=ALERTS");
        assert!(Instant::now() < until, "{seen:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
    let alerts = get(port, "/api/v1/query?query=ALERTS").unwrap();
    assert!(!alerts.contains("RingwayGateDown"), "{alerts}");
}
