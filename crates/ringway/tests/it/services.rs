//! The daemons as services: units, files of options, `make install` and `ringway service`. Whole
//! packages in whole systems are tested by `make test-packages`.

mod person;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{not_tested, run};

/// Each service, and the most exposure that systemd may see in it, in tenths.
const SERVICES: [(&str, u32); 3] = [("node", 39), ("authority", 39), ("gate", 49)];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_ringway")
}

/// Everything that `make install` puts below `destination`, for packages of a distribution.
fn install(destination: &Path) {
    let output = Command::new(source().join("packaging/install.sh"))
        .env("DESTDIR", destination)
        .env("PREFIX", "/usr")
        .env("PROGRAM", program())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// systemd's analysis; none where there is no systemd.
fn analyze(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("systemd-analyze").args(arguments).output();
    if output.is_err() {
        not_tested("the services: systemd-analyze is missing");
    }
    output.ok()
}

#[test]
fn units_are_right_and_confined() {
    let folder = tempfile::tempdir().unwrap();
    for (service, most) in SERVICES {
        let name = format!("ringway-{service}.service");
        let unit = fs::read_to_string(source().join("packaging/systemd").join(&name)).unwrap();
        // Where the program is not installed, its place would be a fault.
        let unit = unit.replace("/usr/bin/ringway", "/bin/true");
        let path = folder.path().join(&name);
        fs::write(&path, unit).unwrap();
        let path = path.to_str().unwrap();
        let Some(verified) = analyze(&["verify", "--man=no", path]) else {
            return;
        };
        let said = text(&verified);
        let about_it = |line: &&str| line.contains(&name);
        assert_eq!(said.lines().find(about_it), None, "{said}");
        let threshold = format!("--threshold={most}");
        let Some(judged) = analyze(&["security", "--offline=true", "--no-pager", &threshold, path])
        else {
            return;
        };
        assert!(judged.status.success(), "{}", text(&judged));
    }
}

#[test]
fn whole_tree_is_installed_for_packagers() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    install(tree);
    for file in [
        "usr/share/man/man1/ringway-gate-up.1.gz",
        "usr/share/bash-completion/completions/ringway",
        "usr/share/fish/vendor_completions.d/ringway.fish",
        "usr/share/doc/ringway/docs/how-to/install.md",
        "usr/lib/systemd/system/ringway-gate.service",
        "usr/lib/systemd/user/ringway-node.service",
        "usr/lib/sysusers.d/ringway-node.conf",
        "usr/lib/tmpfiles.d/ringway-authority.conf",
        "etc/ringway/border.toml",
        "etc/logrotate.d/ringway-gate",
    ] {
        assert!(tree.join(file).is_file(), "{file}");
    }
    let mode = fs::metadata(tree.join("usr/bin/ringway"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o755);
    // What the administrator has changed stays at the next one.
    let options = tree.join("etc/ringway/node.toml");
    fs::write(&options, "# mine\n").unwrap();
    install(tree);
    assert_eq!(fs::read_to_string(options).unwrap(), "# mine\n");
}

#[test]
fn packaged_options_and_policy_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let etc = source().join("packaging/etc");
    let policy = etc.join("border.toml");
    let checked = run(&["gate", "check", policy.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    // As it is, and with all that is commented out.
    let gate = fs::read_to_string(etc.join("gate.toml")).unwrap();
    let gate = gate.replace("/etc/ringway/border.toml", policy.to_str().unwrap());
    let path = folder.path().join("gate.toml");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        run(&["gate", "check", "--config", path.to_str().unwrap()])
    };
    let bare = check(&gate);
    assert_eq!(bare.code, Some(2));
    assert!(bare.stderr.contains("--inside"), "{}", bare.stderr);
    let used = gate
        .replace("#inside", "inside")
        .replace("#outside", "outside");
    let used = check(&used);
    assert!(used.stdout.contains("observes lan0 <-> wan0"), "{used:?}");
    let rules = folder.path().join("rules");
    fs::create_dir(&rules).unwrap();
    fs::write(rules.join("own.yar"), "rule own { condition: false }\n").unwrap();
    let hashes = folder.path().join("bad-files.txt");
    fs::write(&hashes, format!("{}\n", "0a".repeat(32))).unwrap();
    // A policy of one's own and one that comes with the program exclude each other.
    let all = whole(&gate)
        .replace("preset = \"vpn\"\n", "")
        .replace("/etc/ringway/rules", rules.to_str().unwrap())
        .replace("/etc/ringway/bad-files.txt", hashes.to_str().unwrap());
    let all = check(&all);
    assert!(all.stdout.contains("enforces lan0 <-> wan0"), "{all:?}");
    for (file, command) in [
        ("node.toml", &["node"][..]),
        ("authority.toml", &["ring", "serve"]),
    ] {
        let options = folder.path().join(file);
        let home = folder.path().join("home");
        let set = whole(&fs::read_to_string(etc.join(file)).unwrap());
        fs::write(
            &options,
            set.replace("/var/lib/ringway", home.to_str().unwrap()),
        )
        .unwrap();
        let started = run(&[command, &["--config", options.to_str().unwrap()]].concat());
        // There is nothing to run, which is found out after the options were taken.
        let expected = if file == "node.toml" {
            "not a member's home"
        } else {
            "ring init"
        };
        assert!(started.stderr.contains(expected), "{}", started.stderr);
    }
}

/// The file with all that is commented out.
fn whole(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(set) if !set.starts_with(' ') => format!("{set}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn services_are_installed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let at = |words: &[&str]| run(&[&["service"], words, &["--root", root]].concat());
    for (name, service) in [
        ("member", "node"),
        ("authority", "authority"),
        ("gate", "gate"),
    ] {
        let unit = folder
            .path()
            .join(format!("etc/systemd/system/ringway-{service}.service"));
        let options = folder.path().join(format!("etc/ringway/{service}.toml"));
        let installed = at(&["install", name, "--program", "/opt/ringway/bin/ringway"]);
        assert_eq!(installed.code, Some(0), "{}", installed.stderr);
        let written = fs::read_to_string(&unit).unwrap();
        assert!(
            written.contains("ExecStart=/opt/ringway/bin/ringway "),
            "{written}"
        );
        // Again, for another program: the unit is ours, the options are the administrator's.
        fs::write(&options, "# mine\n").unwrap();
        let again = at(&[
            "install",
            name,
            "--program",
            "/usr/local/bin/ringway",
            "--json",
        ]);
        assert_eq!(
            again.objects().unwrap()[0]["kept"]
                .as_array()
                .unwrap()
                .len(),
            1 + usize::from(name == "gate")
        );
        assert_eq!(fs::read_to_string(&options).unwrap(), "# mine\n");
        assert_eq!(at(&["remove", name]).code, Some(0));
        assert!(!unit.exists() && options.exists());
        assert_eq!(at(&["remove", name]).code, Some(2));
    }
    // What others have written stays.
    let unit = folder
        .path()
        .join("etc/systemd/system/ringway-gate.service");
    fs::write(&unit, "[Service]\n").unwrap();
    let refused = at(&["install", "gate", "--program", "/usr/local/bin/ringway"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("move it away"),
        "{}",
        refused.stderr
    );
    let unseen = at(&["install", "member", "--program", "/home/anna/ringway"]);
    assert!(unseen.stderr.contains("sudo install"), "{}", unseen.stderr);
}
