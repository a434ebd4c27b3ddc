//! `ringway doctor --support`: one file for the one who helps, without keys, passwords, tokens,
//! invites or the content of any file.
//!
//! | file | does |
//! |---|---|
//! | `secrets` | knows what must not be in it, and takes it out of every text |
//! | `settings` | configurations without what may be secret |
//! | `names` | puts numbers in the place of names and addresses |
//! | `archive` | the tar file |

mod archive;
mod names;
mod secrets;
mod settings;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use ringway_node::control::{Client, Reply, Request};
use ringway_node::home;
use ringway_terminal::Failure;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use self::archive::Archive;
use self::names::Names;
use self::secrets::Secrets;
use super::finding::Finding;
use super::program;
use super::subject::Subject;
use crate::cli::VERSION;
use crate::context::Context;
use crate::gate;
use crate::limits::{DOCTOR_ANSWER, DOCTOR_LOG_LINES, DOCTOR_OUTPUT, DOCTOR_PEERS};

/// Options of services (`--config`).
const OPTIONS: [&str; 3] = ["node.toml", "authority.toml", "gate.toml"];

/// Services whose log is taken.
const UNITS: [&str; 3] = ["ringway-node", "ringway-authority", "ringway-gate"];

/// One file of the bundle.
#[derive(Debug)]
struct Piece {
    name: String,
    what: &'static str,
    text: String,
}

/// One file of the bundle, as it is listed.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    what: &'a str,
    bytes: usize,
}

/// What was written.
#[derive(Serialize)]
struct Written<'a> {
    file: &'a Path,
    anonymised: bool,
    pieces: Vec<Listed<'a>>,
}

/// Makes the bundle at `path`, which must not be there, and lists what is in it.
pub(super) async fn write(
    context: &Context,
    subject: &Subject,
    findings: &[Finding],
    bundle: Bundle<'_>,
) -> Result<(), Failure> {
    // What is secret is known before anything is taken in.
    let (mut secrets, settings) = configurations(subject);
    let mut pieces = vec![about(bundle.anonymise), answer(findings)?, machine().await];
    pieces.extend(settings);
    pieces.extend(of_member(subject).await);
    pieces.extend(of_gateway(subject, &mut secrets));
    pieces.extend(logs(subject).await);
    for piece in &mut pieces {
        piece.text = secrets.removed_from(&piece.text);
    }
    if bundle.anonymise {
        let mut names = Names::default();
        pieces.iter().for_each(|piece| names.learn(&piece.text));
        for piece in &mut pieces {
            piece.text = names.replaced_in(&piece.text);
        }
    }
    save(bundle.path, &pieces)?;
    list(context, bundle, &pieces)
}

/// Where the bundle goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundle<'a> {
    pub(super) path: &'a Path,
    pub(super) anonymise: bool,
}

/// A new file that only this user can read.
fn save(path: &Path, pieces: &[Piece]) -> Result<(), Failure> {
    let mut archive = Archive::default();
    for piece in pieces {
        archive.add(&piece.name, piece.text.as_bytes());
    }
    let mut file = home::create_secret(path).map_err(Failure::failed)?;
    let bytes = archive.finish();
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a bundle is none. That it stays is said by the error.
        let stays = fs::remove_file(path).map_or(", and it stays there", |()| "");
        Failure::failed(format_args!(
            "writing {} failed: {error}{stays}",
            path.display()
        ))
    })
}

fn list(context: &Context, bundle: Bundle<'_>, pieces: &[Piece]) -> Result<(), Failure> {
    let listed = pieces.iter().map(|piece| Listed {
        name: &piece.name,
        what: piece.what,
        bytes: piece.text.len(),
    });
    let written = Written {
        file: bundle.path,
        anonymised: bundle.anonymise,
        pieces: listed.collect(),
    };
    context.output.either("ringway.support/1", &written, || {
        let mut table = ringway_terminal::Table::new(&["FILE", "BYTES", "HOLDS"]);
        for piece in &written.pieces {
            table.row(&[piece.name, &piece.bytes.to_string(), piece.what]);
        }
        table.text()
    })?;
    // What people should know before they hand it on.
    let names = if bundle.anonymise {
        "Names and addresses are numbers in it."
    } else {
        "Names and addresses are in it: --anonymise makes numbers of them."
    };
    context.output.note(&format!(
        "{} is written, for you alone (mode 0600). {names} Look through it before you hand it on: tar -xOf {}",
        bundle.path.display(),
        bundle.path.display()
    ));
    Ok(())
}

fn about(anonymised: bool) -> Piece {
    let names = if anonymised {
        "Names and addresses were replaced by numbers, the same in every file."
    } else {
        "Names of members, files and hosts, and addresses, are as they were."
    };
    Piece {
        name: "about.txt".to_owned(),
        what: "what this is",
        text: format!(
            "Made by `ringway doctor --support`, {VERSION}.\n\
             Without keys, passwords, tokens, invites and the content of files: what may be one is \
             `{}`.\n{names}\n",
            secrets::REMOVED
        ),
    }
}

/// What `ringway doctor --json` says.
fn answer(findings: &[Finding]) -> Result<Piece, Failure> {
    let mut text = String::new();
    for found in findings {
        text.push_str(&serde_json::to_string(found).map_err(Failure::failed)?);
        text.push('\n');
    }
    Ok(Piece {
        name: "doctor.json".to_owned(),
        what: "what `ringway doctor` has found",
        text,
    })
}

/// The system, as far as it matters.
async fn machine() -> Piece {
    let uname = program::run("uname", &["-srvm"]).await.unwrap_or_default();
    let release = read("/etc/os-release".as_ref()).unwrap_or_default();
    Piece {
        name: "system.txt".to_owned(),
        what: "the version, the kernel and the distribution",
        text: format!("ringway {VERSION}\n{}{release}", uname.text),
    }
}

/// All configurations without what may be secret, and what is.
fn configurations(subject: &Subject) -> (Secrets, Vec<Piece>) {
    // What is left out of one may stand in another, or in what errors quote.
    let mut secrets = Secrets::of(subject);
    let mut pieces = Vec::new();
    let member = home::config_path(&subject.home);
    if let Some(text) = read(&member) {
        pieces.push(Piece {
            name: "ringway.toml".to_owned(),
            what: "the member's configuration",
            text: settings::of_member(&text, &mut secrets),
        });
    }
    for name in OPTIONS {
        if let Some(text) = read(&Path::new("/etc/ringway").join(name)) {
            pieces.push(Piece {
                name: format!("etc/{name}"),
                what: "options of a service",
                text: settings::of_service(&text, &mut secrets),
            });
        }
    }
    (secrets, pieces)
}

/// What the member's daemon says.
async fn of_member(subject: &Subject) -> Vec<Piece> {
    let Some(status) = subject.status() else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    let mut add = |name: String, what: &'static str, value: serde_json::Result<Value>| {
        if let Ok(value) = value {
            let text = format!("{value:#}\n");
            pieces.push(Piece { name, what, text });
        }
    };
    add(
        "status.json".to_owned(),
        "`ringway status`",
        serde_json::to_value(status),
    );
    // Their files' names are in it, and nothing of what is in them.
    let asked = async {
        let client = Client::request(&subject.socket, &Request::Transfers)
            .await
            .ok()?;
        client.all().await.ok()
    };
    let replies = timeout(DOCTOR_ANSWER, asked).await.ok().flatten();
    let transfers: Vec<_> = replies
        .unwrap_or_default()
        .into_iter()
        .filter_map(|reply| match reply {
            Reply::Transfer(transfer) => Some(transfer),
            _ => None,
        })
        .collect();
    add(
        "transfers.json".to_owned(),
        "`ringway transfers`",
        serde_json::to_value(transfers),
    );
    for (number, link) in status.links.iter().take(DOCTOR_PEERS).enumerate() {
        if let Some(paths) = subject.paths(&link.name).await {
            let name = format!("path-{}.json", number + 1);
            add(
                name,
                "`ringway path` to a linked member",
                serde_json::to_value(paths),
            );
        }
    }
    pieces
}

/// What the gateway says, what it needs, and its policy.
fn of_gateway(subject: &Subject, secrets: &mut Secrets) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let Some(status) = &subject.gateway else {
        return pieces;
    };
    if let Ok(value) = serde_json::to_value(status) {
        pieces.push(Piece {
            name: "gate-status.json".to_owned(),
            what: "`ringway gate status`",
            text: format!("{value:#}\n"),
        });
    }
    if let Some(text) = read(Path::new(&status.policy)) {
        pieces.push(Piece {
            name: "gate-policy.toml".to_owned(),
            what: "the policy at work",
            text: settings::of_service(&text, secrets),
        });
    }
    // To look for it the programs are loaded for a moment.
    if rustix::process::geteuid().is_root()
        && let Ok(value) = serde_json::to_value(gate::needs())
    {
        pieces.push(Piece {
            name: "gate-doctor.json".to_owned(),
            what: "`ringway gate doctor`",
            text: format!("{value:#}\n"),
        });
    }
    pieces
}

/// The last lines of the services' logs, where this user may read them.
async fn logs(subject: &Subject) -> Vec<Piece> {
    let lines = format!("--lines={DOCTOR_LOG_LINES}");
    let mut pieces = Vec::new();
    for unit in UNITS {
        // One person's member is a unit of theirs.
        let of_person = unit == UNITS[0] && !subject.is_service();
        let kind = if of_person { "--user-unit" } else { "--unit" };
        let named = format!("{kind}={unit}");
        let words = [
            "--no-pager",
            "--quiet",
            "--output=short-iso",
            &lines,
            &named,
        ];
        let said = program::run("journalctl", &words).await;
        let Some(said) = said.filter(|said| said.success && !said.text.trim().is_empty()) else {
            continue;
        };
        pieces.push(Piece {
            name: format!("log/{unit}.txt"),
            what: "the end of a service's log",
            text: said.text,
        });
    }
    pieces
}

/// The text of a file, as far as it is there, may be read, and is no longer than an answer.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok().filter(|_| path.is_file())?;
    file.take(DOCTOR_OUTPUT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Files of a member and an authority that hold secrets, besides those that a configuration names.
fn secret_files(subject: &Subject) -> Vec<PathBuf> {
    let home = |name: &str| subject.home.join(name);
    let mut files = vec![home("identity.key"), home("identity.next")];
    if let Some(authority) = &subject.authority {
        files.push(authority.folder.join("root.key"));
    }
    files.extend(super::permissions::passwords(subject));
    files
}
