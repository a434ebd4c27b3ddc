//! A gateway that is asked by a signal to load its policy again, or to open its files again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ringway_testbed::Process;
use serde_json::Value;

use super::beside::{Tested, until, wrong};
use super::border::Border;
use super::both::on_each;
use crate::not_tested;
use crate::supervised::{Supervisor, WATCHDOG_USEC};

const ONE: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const TWO: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n\
    [[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n";
const TEST_FAILS: &str = "[[test]]\nname = \"web\"\napp = \"http\"\nclient = \"10.0.0.1:1\"\n\
    server = \"10.0.0.2:80\"\nexpect = \"block\"\n";

/// Writes the policy, sends SIGHUP, and gives the status once it is as wanted.
fn reloaded(border: &mut Border, policy: &str, wanted: impl Fn(&Value) -> bool) -> Tested<Value> {
    border.file("policy.toml", policy);
    border.daemon().hang_up()?;
    let log = border.path("gateway.log");
    until(
        "it was not loaded again",
        || fs::read_to_string(&log).unwrap_or_default(),
        || wanted(&border.status()),
    )?;
    Ok(border.status())
}

fn notes(status: &Value) -> String {
    status["reload"]["notes"].to_string()
}

#[test]
fn hang_up_loads_the_policy_or_keeps_it() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a policy loaded again", path) else {
            return Ok(());
        };
        border.up(ONE, &["--enforce"]);
        if !border.status()["reload"].is_null() {
            return wrong("nothing was loaded again yet");
        }
        let status = reloaded(&mut border, TWO, |status| status["rules"] == 2)?;
        if status["reload"]["loaded"] != true || status["mode"] != "enforce" {
            return wrong(status.to_string());
        }
        for (policy, why) in [
            (
                format!("{ONE}colour = 1\n"),
                "policy.toml:5: there is no key",
            ),
            (format!("{ONE}{TEST_FAILS}"), "test `web` failed"),
        ] {
            let refused = |status: &Value| notes(status).contains(why);
            let status = reloaded(&mut border, &policy, refused)?;
            if status["reload"]["loaded"] != false || status["rules"] != 2 {
                return wrong(status.to_string());
            }
        }
        let log = border.daemon().log_text();
        if !log.contains("the policy was not loaded again: the one before stays") {
            return wrong(log);
        }
        let text =
            border
                .program()
                .run(["gate", "status", "--control", &border.path("gate.sock")])?;
        if !text.stdout.contains("REFUSED") {
            return wrong(text.stdout);
        }
        reloaded(&mut border, ONE, |status| status["rules"] == 1)?;
        if border.daemon().terminate()? != Some(0) || !border.traces().is_empty() {
            return wrong(border.traces());
        }
        Ok(())
    })
}

/// A signal for another purpose must not make a trial permanent.
#[test]
fn policy_on_trial_outlasts_a_hang_up() -> Tested {
    let Some(mut border) = Border::new("a policy on trial, and a signal") else {
        return Ok(());
    };
    border.up(ONE, &[]);
    let trial = border.file("trial.toml", TWO);
    let words = [
        "apply",
        trial.to_str().unwrap_or_default(),
        "--confirm",
        "1h",
    ];
    if border.ask(&words).code != Some(0) {
        return wrong("it was not applied");
    }
    let status = reloaded(&mut border, ONE, |status| {
        notes(status).contains("on trial")
    })?;
    if status["rules"] != 2 || status["reverts_in_s"].is_null() {
        return wrong(status.to_string());
    }
    border.ask(&["confirm"]);
    let status = reloaded(&mut border, ONE, |status| status["rules"] == 1)?;
    if !notes(&status).contains("trial.toml, which was applied meanwhile") {
        return wrong(status.to_string());
    }
    Ok(())
}

#[test]
fn signals_open_files_of_events_again() -> Tested {
    let Some(mut border) = Border::new("files of events opened again") else {
        return Ok(());
    };
    let eve = border.path("eve.json");
    border.up(ONE, &["--eve", &eve]);
    for signal in ["SIGUSR1", "SIGHUP"] {
        let moved = border.path(signal);
        fs::rename(&eve, &moved)?;
        match signal {
            "SIGHUP" => border.daemon().hang_up()?,
            _ => border.daemon().reopen()?,
        }
        let log = border.path("gateway.log");
        until(
            signal,
            || fs::read_to_string(&log).unwrap_or_default(),
            || fs::exists(&eve).unwrap_or_default(),
        )?;
    }
    Ok(())
}

/// It is confined by then, and has given its capabilities up.
#[test]
fn supervisor_follows_a_gateway() -> Tested {
    let Some(border) = Border::new("a gateway and its supervisor") else {
        return Ok(());
    };
    let socket = border.path("notify");
    let supervisor = Supervisor::at(Path::new(&socket));
    let mut command = border
        .program()
        .command(border.gate_up(ONE, &["--enforce"]));
    command
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", WATCHDOG_USEC);
    let log = border.path("gateway.log");
    let mut daemon = Process::start(command, Path::new(&log))?;
    let ready = supervisor.until("READY=1");
    if !ready.contains("STATUS=enforces ") {
        return wrong(ready);
    }
    supervisor.until("WATCHDOG=1");
    daemon.hang_up()?;
    supervisor.until_reloaded("STATUS=enforces ");
    border.file("policy.toml", "colour = 1\n");
    daemon.hang_up()?;
    supervisor.until_reloaded("STATUS=the policy was NOT loaded again");
    daemon.terminate()?;
    supervisor.until("STOPPING=1");
    Ok(())
}

/// The file that packages bring, by the real program, with a `systemctl` that sends what it is told
/// to send.
#[test]
fn logrotate_has_files_of_events_opened_again() -> Tested {
    let name = "EVE files by logrotate";
    if Command::new("logrotate").arg("--version").output().is_err() {
        not_tested(&format!(
            "{name}: logrotate is not installed (./setup.sh --tests)"
        ));
        return Ok(());
    }
    let Some(mut border) = Border::new(name) else {
        return Ok(());
    };
    let eve = border.path("eve.json");
    border.up(ONE, &["--eve", &eve]);
    fs::write(&eve, "{}\n")?;
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/logrotate/ringway-gate"
    );
    let shipped = fs::read_to_string(shipped)?;
    let rules = shipped.replace("/var/log/ringway-gate/eve.json", &eve);
    let rules = border.file("logrotate.conf", &rules);
    fs::set_permissions(&rules, Permissions::from_mode(0o644))?;
    let pid = border.daemon().id();
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = \"kill --kill-who=main --signal=SIGUSR1 ringway-gate.service\" ] &&\n\
         kill -USR1 {pid}\n"
    );
    let systemctl = border.file("systemctl", &script);
    fs::set_permissions(&systemctl, Permissions::from_mode(0o755))?;
    let path = format!(
        "{}:{}",
        border.folder.path().display(),
        std::env::var("PATH")?
    );
    let rotated = Command::new("logrotate")
        .args(["--force", "--state", &border.path("rotated")])
        .arg(&rules)
        .env("PATH", path)
        .output()?;
    if !rotated.status.success() || !fs::exists(border.path("eve.json.1"))? {
        return wrong(String::from_utf8_lossy(&rotated.stderr));
    }
    let log = border.path("gateway.log");
    until(
        "the file is not there again",
        || fs::read_to_string(&log).unwrap_or_default(),
        || fs::exists(&eve).unwrap_or_default(),
    )
}
