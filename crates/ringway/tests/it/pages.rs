//! Help, completions, man pages and the reference page, all from one definition.

use std::path::Path;

use super::run;

/// All commands that `--help` shows, such as `ringway ring init`, by walking through it.
fn commands(path: &[&str]) -> Vec<String> {
    let help = run(&[path, &["--help"]].concat());
    assert_eq!(help.code, Some(0), "{}", help.stderr);
    let mut found = Vec::new();
    let after = help
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    for line in after.take_while(|line| !line.is_empty()) {
        // Continued descriptions are indented further.
        let Some(name) = line
            .strip_prefix("  ")
            .filter(|line| !line.starts_with(' '))
        else {
            continue;
        };
        let name = name.split(' ').next().unwrap_or_default();
        found.push([&["ringway"], path, &[name]].concat().join(" "));
        found.extend(commands(&[path, &[name]].concat()));
    }
    found
}

fn reference() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    std::fs::read_to_string(page).unwrap()
}

#[test]
fn the_reference_page_is_what_the_program_says() {
    let page = run(&["man", "--markdown"]).stdout;
    assert!(
        page == reference(),
        "write it anew: `ringway man --markdown > docs/reference/cli.md`"
    );
}

#[test]
fn reference_page_has_every_command_of_help() {
    let (page, commands) = (reference(), commands(&[]));
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        assert!(
            page.contains(&format!("## `{command}`")),
            "{command} is missing"
        );
    }
}

#[test]
fn completions_and_man_pages_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).stdout;
        assert!(
            script.contains("COMPLETE") && script.contains("ringway"),
            "{shell}: {script}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(&["man", "--dir", folder.path().to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for page in ["ringway.1", "ringway-send.1", "ringway-ring-init.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(run(&["man"]).stdout.contains(".TH ringway"));
}

#[test]
fn version_is_the_workspaces_and_names_the_commit() {
    let version = run(&["--version"]).stdout;
    let expected = format!("ringway {} (", env!("CARGO_PKG_VERSION"));
    let commit = version.strip_prefix(&expected);
    let commit = commit.and_then(|rest| rest.strip_suffix(")\n"));
    let commit = commit.unwrap_or_else(|| panic!("{version}"));
    // Without a repository, as in a tar of the source, there is none to name.
    if commit != "commit unknown" {
        let (hash, date) = commit.split_once(' ').unwrap();
        assert!(hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(date.len() == 10 && date.starts_with("20"), "{date}");
    }
}
