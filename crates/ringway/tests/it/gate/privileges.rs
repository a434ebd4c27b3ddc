//! What the running gateway may still do.

use std::fs;
use std::path::Path;

use super::border::Border;

/// `CAP_NET_ADMIN` and `CAP_NET_RAW` (capabilities(7)).
const NEEDED: u64 = 1 << 12 | 1 << 13;

/// `CAP_BPF`.
const FOR_KERNEL_PATH: u64 = 1 << 39;

#[test]
fn threads_keep_only_the_capabilities_they_need() {
    if let Some(border) = Border::new("privileges") {
        keeps(border, "user", NEEDED);
    }
}

#[test]
fn kernel_path_threads_keep_only_needed_capabilities() {
    if let Some(border) = super::kernel::border("privileges of the in-kernel path") {
        keeps(border, "kernel", NEEDED | FOR_KERNEL_PATH);
    }
}

/// Root owns nearly all files: without capabilities it could write them all the same.
#[test]
fn writes_and_system_calls_are_confined() {
    for path in ["user", "kernel"] {
        let border = match path {
            "user" => Border::new("confinement"),
            _ => super::kernel::border("confinement on the in-kernel path"),
        };
        let Some(mut border) = border else { return };
        let attack = Path::new("/etc/cron.d/ringway-confinement-test");
        let own = border.folder.path().join("state/own");
        let [tried, owned] = [attack, &own].map(|path| path.to_str().unwrap().to_owned());
        let words = [
            "--enforce",
            "--path",
            path,
            "--try-write",
            &tried,
            "--try-write",
            &owned,
        ];
        border.up("", &words);
        let pid = border.status()["pid"].as_u64().unwrap();
        let written = attack.exists();
        fs::remove_file(attack).ok();
        assert!(!written, "--path {path}: /etc can be written");
        assert!(
            own.exists(),
            "--path {path}: its own folder cannot be written"
        );
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        }
    }
}

#[test]
fn packet_threads_are_raised_and_scanner_threads_lowered() {
    let Some(mut border) = Border::new("priorities of threads") else {
        return;
    };
    let rules = border.file(
        "own.yar",
        "rule Own { strings: $a = \"own\" condition: $a }",
    );
    border.up("", &["--enforce", "--yara", rules.to_str().unwrap()]);
    let pid = border.status()["pid"].as_u64().unwrap();
    // What the test was begun with, the gateway and its threads begin with.
    let own = rustix::process::getpriority_process(None).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        let (name, fields) = stat.rsplit_once(") ").unwrap();
        let (_, name) = name.split_once('(').unwrap();
        // The nineteenth field, of which two are the number and the name (proc_pid_stat(5)).
        let nice: i32 = fields.split(' ').nth(16).unwrap().parse().unwrap();
        let kind = name.split_once('-').map_or(name, |(kind, _)| kind);
        let expected = match kind {
            // A nice value that somebody has given the gateway stays.
            "queue" if own == 0 => -10,
            "scan" => own.max(5),
            _ => own,
        };
        assert_eq!(nice, expected, "{name} of a gateway at {own}");
        seen.insert(match kind {
            "queue" | "scan" => kind.to_owned(),
            _ => "other".to_owned(),
        });
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

/// On this path every thread has these and no others.
fn keeps(mut border: Border, path: &str, needed: u64) {
    let classes = "[classes.slow]\nrate = \"1 Mbit/s\"\n\n[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"slow\"\n";
    border.up(classes, &["--enforce", "--path", path]);
    let pid = border.status()["pid"].as_u64().unwrap();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // Who may not give away what programs may get (CAP_SETPCAP) keeps that.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let may_give = u64::from_str_radix(own.unwrap().trim(), 16).unwrap() & (1 << 8) != 0;
    let mut count = 0;
    for thread in threads {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        for name in ["CapEff:", "CapPrm:", "CapBnd:"] {
            if name == "CapBnd:" && !may_give {
                continue;
            }
            let has = u64::from_str_radix(&field(name), 16).unwrap();
            assert_eq!(has, needed, "{name} {status}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        count += 1;
    }
    assert!(count >= 3, "{count} threads");
    // It can still put other rules and classes in force.
    let faster = border.file("faster.toml", &classes.replace("1 Mbit/s", "2 Mbit/s"));
    let applied = border.ask(&["apply", faster.to_str().unwrap()]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(border.traces().contains("7a11"), "{}", border.traces());
}
