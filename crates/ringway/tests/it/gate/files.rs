//! Files of a real web server, fetched by curl over one connection.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use ringway_testbed::{Nginx, Running, TestbedError, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use super::beside::{
    BRIEFLY, Job, SLOW, Tested, all, comes_at, refused, slowed, stays_blocked, up_to_shape,
    without, wrong,
};
use super::border::{Border, DEADLINE, SERVER, file_of, skipped};
use super::both::{Compared, GatePath, on_both};
use super::malware;
use super::scans::SCAN;
use crate::random_bytes;

const NAMES: &str =
    "[[rule]]\nname = \"no-programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
/// Long enough for many thousand segments.
const FILM: usize = 40 << 20;
/// What eight packets carry: after so many the classifier looks no more.
const LOOKED_AT: u64 = 8 * 1_460;

fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A border with nginx behind it. `None`: something is missing here, and stderr says so.
fn border(test: &str, files: &Path, path: GatePath) -> Option<(Border, Nginx)> {
    let border = Border::on(test, path)?;
    if !there("curl") {
        return skipped(test, "curl");
    }
    fs::write(files.join("film.bin"), random_bytes("film", FILM)).unwrap();
    fs::write(files.join("note.txt"), "a note").unwrap();
    fs::write(files.join("game.exe"), "a program").unwrap();
    // nginx drops root's rights.
    let folder = files.display();
    let location = format!(
        "root {folder};\n location /hidden {{ alias {folder}/game.exe;\n\
         add_header Content-Disposition 'attachment; filename=\"game.exe\"'; }}"
    );
    let listen: SocketAddr = format!("{SERVER}:80").parse().unwrap();
    let run = |program| border.server.command(program);
    let Some(nginx) = Nginx::serve_by(run, listen, &location).unwrap() else {
        return skipped(test, "nginx");
    };
    wait_until(DEADLINE, || {
        let tried = border
            .server
            .enter(|| std::net::TcpStream::connect(listen))?;
        tried.map_err(|error| TestbedError(error.to_string()))
    })
    .unwrap();
    Some((border, nginx))
}

/// Fetches files over one connection; gives curl's exit code.
pub(super) fn fetch(border: &Border, into: &Path, names: &[&str]) -> Option<i32> {
    let mut command = border.client.command("curl");
    command.args(["--silent", "--max-time", "60"]);
    for (number, name) in names.iter().enumerate() {
        command.arg("--output").arg(into.join(number.to_string()));
        command.arg(format!("http://{SERVER}/{name}"));
    }
    command.status().unwrap().code()
}

#[test]
fn next_file_is_judged_after_an_offloaded_one() -> Tested {
    all(vec![on_both("files of one connection", |path| {
        named("files of one connection", path, &[])
    })])
}

#[test]
fn connection_marks_of_the_host_change_no_verdict() -> Tested {
    // As hosts with several ways out do.
    let restored = "iptables -t mangle -A PREROUTING -j CONNMARK --restore-mark";
    all(vec![on_both("marks given back", move |path| {
        named("marks given back", path, &[restored])
    })])
}

fn named(test: &str, path: GatePath, of_the_host: &[&str]) -> Compared {
    let Some((mut border, _nginx, _folder)) = web(test, path)? else {
        return Ok(None);
    };
    for rule in of_the_host {
        let words: Vec<&str> = rule.split(' ').collect();
        border.gateway.check(&words)?;
    }
    border.up(NAMES, &["--enforce"]);
    let into = tempfile::tempdir()?;
    let got = |number: &str| fs::read(into.path().join(number)).unwrap_or_default();
    for (number, last) in ["game.exe", "hidden"].into_iter().enumerate() {
        let code = fetch(&border, into.path(), &["film.bin", "note.txt", last]);
        assert_ne!(code, Some(0), "{last}: {}", border.status());
        assert!(got("0") == random_bytes("film", FILM), "{last}");
        assert_eq!(got("1"), b"a note", "{last}");
        assert!(got("2").is_empty(), "{last}");
        border.audit_when(|events| {
            let named = |event: &&Value| file_of(event)["filename"] == "game.exe";
            events.iter().filter(named).count() > number
        });
    }
    let seen = border.status()["packets"].as_u64();
    assert!(seen.is_some_and(|seen| seen < 500), "{}", border.status());
    border.seen()
}

/// A border with nginx behind it, and the folder that nginx gives. `None`: something is missing
/// here.
pub(super) fn web(test: &str, path: GatePath) -> Tested<Option<(Border, Nginx, TempDir)>> {
    let folder = tempfile::tempdir()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open)?;
    Ok(border(test, folder.path(), path).map(|(border, nginx)| (border, nginx, folder)))
}

/// A file comes as fast as its class lets it.
pub(super) fn shaped(path: GatePath) -> Compared {
    let Some((mut border, _nginx, _folder)) = web("a shaped download", path)? else {
        return Ok(None);
    };
    up_to_shape(&mut border, &slowed("http"));
    let mut curl = border.client.command("curl");
    curl.args(["--silent", "--max-time", "300", "--output", "/dev/null"]);
    let mut curl = curl.arg(format!("http://{SERVER}/film.bin")).spawn()?;
    let outcome = comes_at(SLOW, &border, String::new);
    let seen = border.seen();
    // It is still at it.
    curl.kill()?;
    curl.wait()?;
    outcome?;
    seen
}

/// curl asks for this file again and again, under this policy, and never gets more than so many
/// bytes of it.
fn blocked(
    name: &'static str,
    (rule, policy): (&'static str, &'static str),
    most: u64,
) -> Job<'static> {
    let test = format!("curl asks again for {name}");
    on_both(test.clone(), move |path| {
        let Some((mut border, _nginx, _folder)) = web(&test, path)? else {
            return Ok(None);
        };
        border.up(policy, &BRIEFLY);
        let into = border.folder.path().join("taken");
        let mut curl = border.client.command("curl");
        curl.args(["--silent", "--retry", "1000", "--retry-delay", "2"]);
        curl.args(["--retry-all-errors", "--connect-timeout", "2"]);
        curl.arg("--output").arg(&into);
        curl.arg(format!("http://{SERVER}/{name}"));
        let _curl = Running::start(curl, &border.folder.path().join("curl.log"))?;
        let came = || {
            let bytes = fs::metadata(&into).map_or(0, |file| file.len());
            (bytes > most).then(|| format!("{bytes} bytes"))
        };
        let of_web = |event: &Value| event["dest_port"] == 80;
        stays_blocked(|| refused(&border, of_web), came, || Ok(()))?;
        border.audit_when(|events| {
            events
                .iter()
                .any(|event| event["ringway"]["rule"] == rule && of_web(event))
        });
        border.seen_again()
    })
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    let web = "[[rule]]\nname = \"no-web\"\napp = \"http\"\naction = \"block\"\n";
    vec![
        // What is asked for by HTTP may still turn out to be Gnutella's, say: the beginning of an
        // answer passes.
        blocked("film.bin", ("no-web", web), LOOKED_AT),
        blocked("game.exe", ("no-programs", NAMES), 0),
    ]
}

#[test]
fn files_of_nginx_are_scanned_and_written_down() -> Tested {
    all(vec![on_both("files of nginx, scanned", scanned)])
}

fn scanned(path: GatePath) -> Compared {
    let test = "files of nginx, scanned";
    let Some((mut border, _nginx, folder)) = web(test, path)? else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd");
    };
    let spoilt = malware::files();
    for (number, (_, bytes)) in spoilt.iter().enumerate() {
        fs::write(folder.path().join(format!("spoilt{number}.bin")), bytes)?;
    }
    let clean = random_bytes("nginx", 300_000);
    fs::write(folder.path().join("clean.bin"), &clean)?;
    let socket = clamd.socket();
    border.up(SCAN, &["--enforce", "--clamd", &socket.to_string_lossy()]);
    let into = tempfile::tempdir()?;
    let got = |name: &str| -> Vec<u8> {
        fetch(&border, into.path(), &[name]);
        fs::read(into.path().join("0")).unwrap_or_default()
    };
    if got("clean.bin") != clean {
        return wrong(format!("the clean file: {}", border.status()));
    }
    for (number, (found, bytes)) in spoilt.iter().enumerate() {
        fs::remove_file(into.path().join("0")).ok();
        if got(&format!("spoilt{number}.bin")).len() >= bytes.len() {
            return wrong(format!("all of file {number} with {found} arrived"));
        }
    }
    border.audit_when(|events| {
        let of = |name: String| {
            let mut events = events.iter();
            events.find(|event| file_of(event)["filename"] == name.as_str())
        };
        let whole = of("clean.bin".to_owned());
        let mut spoilt = spoilt.iter().enumerate();
        whole.is_some_and(|event| file_of(event)["sha256"].is_string())
            && spoilt.all(|(number, (found, _))| {
                let told = of(format!("spoilt{number}.bin"));
                let told = told.and_then(|event| event["ringway"]["found"].as_str());
                told.is_some_and(|told| told.contains(found))
            })
    });
    border.seen()
}
