//! Files of a real web server, fetched by curl over one connection.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use ringway_testbed::{Nginx, TestbedError, wait_until};

use super::beside::{Tested, comes_at};
use super::border::{Border, DEADLINE, SERVER, skipped};
use crate::random_bytes;

const NAMES: &str =
    "[[rule]]\nname = \"no-programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
/// Long enough for many thousand segments.
const FILM: usize = 40 << 20;

fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A border with nginx behind it. `None`: something is missing here, and stderr says so.
fn border(test: &str, files: &Path) -> Option<(Border, Nginx)> {
    let border = Border::new(test)?;
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
fn fetch(border: &Border, into: &Path, names: &[&str]) -> Option<i32> {
    let mut command = border.client.command("curl");
    command.args(["--silent", "--max-time", "60"]);
    for (number, name) in names.iter().enumerate() {
        command.arg("--output").arg(into.join(number.to_string()));
        command.arg(format!("http://{SERVER}/{name}"));
    }
    command.status().unwrap().code()
}

#[test]
fn the_next_file_of_a_connection_is_judged_though_the_first_was_left_to_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    // nginx reads as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let Some((mut border, _nginx)) = border("files of one connection", folder.path()) else {
        return;
    };
    border.up(NAMES, &["--enforce"]);
    let into = tempfile::tempdir().unwrap();
    let got = |number: &str| fs::read(into.path().join(number)).unwrap_or_default();
    for (number, last) in ["game.exe", "hidden"].into_iter().enumerate() {
        let code = fetch(&border, into.path(), &["film.bin", "note.txt", last]);
        assert_ne!(code, Some(0), "{last}: {}", border.status());
        assert!(got("0") == random_bytes("film", FILM), "{last}");
        assert_eq!(got("1"), b"a note", "{last}");
        assert!(got("2").is_empty(), "{last}");
        border.audit_when(|events| {
            let named = |event: &&serde_json::Value| event["fileinfo"]["filename"] == "game.exe";
            events.iter().filter(named).count() > number
        });
    }
    let seen = border.status()["packets"].as_u64();
    assert!(seen.is_some_and(|seen| seen < 500), "{}", border.status());
}

#[test]
fn a_shaped_download_by_curl_gets_the_rate_of_its_class() -> Tested {
    let folder = tempfile::tempdir()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open)?;
    let Some((mut border, _nginx)) = border("a shaped download", folder.path()) else {
        return Ok(());
    };
    border.up(
        "[classes.bulk]\nrate = \"16 Mbit/s\"\n[[rule]]\nname = \"slow-web\"\napp = \"http\"\n\
         action = \"shape\"\nclass = \"bulk\"\n",
        &["--enforce"],
    );
    let mut curl = border.client.command("curl");
    curl.args(["--silent", "--max-time", "60", "--output", "/dev/null"]);
    let mut curl = curl.arg(format!("http://{SERVER}/film.bin")).spawn()?;
    let outcome = comes_at(16e6, &border, String::new);
    // It is still at it.
    curl.kill()?;
    curl.wait()?;
    outcome
}
