//! `ringway service …`: what systemd needs to run the daemons. The files are those of the packages
//! (`packaging/`), within the program, so that it can install its services wherever it stands.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringway_terminal::Failure;
use serde::Serialize;

use crate::acting::{Acting, another_owner};
use crate::cli::{STATE, ServiceCommand, ServiceInstallArgs, ServiceName, ServiceRemoveArgs};
use crate::context::{Context, SERVICE_AUTHORITY, SERVICE_HOME};
use crate::gate;

/// First line of what is written here: only such a file is replaced or removed.
const MARK: &str = "# Written by `ringway service install`, which replaces it; `ringway service remove` removes it.\n";

/// The program's place in the units as they stand in the source.
const PACKAGED_PROGRAM: &str = "/usr/bin/ringway";

/// Folders of which a service with `ProtectHome` and `PrivateTmp` sees nothing.
const UNSEEN: [&str; 4] = ["/home", "/root", "/run/user", "/tmp"];

/// A file of a service: where it goes below the root, and what is in it.
type Piece = (&'static str, &'static str);

/// What one service consists of.
struct Pieces {
    unit: &'static str,
    /// Replaced at each installation.
    ours: &'static [Piece],
    /// The administrator's, once they are there.
    theirs: &'static [Piece],
    /// What to do then.
    next: &'static [&'static str],
}

/// A piece that stands at the same place in the packages.
macro_rules! piece {
    ($place:literal, $source:literal) => {
        (
            $place,
            include_str!(concat!("../../../packaging/", $source)),
        )
    };
}

const USER_UNIT: &str = include_str!("../../../packaging/systemd/user/ringway-node.service");

const MEMBER: Pieces = Pieces {
    unit: "ringway-node.service",
    ours: &[
        piece!(
            "etc/systemd/system/ringway-node.service",
            "systemd/ringway-node.service"
        ),
        piece!(
            "etc/sysusers.d/ringway-node.conf",
            "sysusers.d/ringway-node.conf"
        ),
        piece!(
            "etc/tmpfiles.d/ringway-node.conf",
            "tmpfiles.d/ringway-node.conf"
        ),
    ],
    theirs: &[piece!("etc/ringway/node.toml", "etc/node.toml")],
    next: &["sudo ringway join < invite"],
};

const AUTHORITY: Pieces = Pieces {
    unit: "ringway-authority.service",
    ours: &[
        piece!(
            "etc/systemd/system/ringway-authority.service",
            "systemd/ringway-authority.service"
        ),
        piece!(
            "etc/sysusers.d/ringway-authority.conf",
            "sysusers.d/ringway-authority.conf"
        ),
        piece!(
            "etc/tmpfiles.d/ringway-authority.conf",
            "tmpfiles.d/ringway-authority.conf"
        ),
    ],
    theirs: &[piece!("etc/ringway/authority.toml", "etc/authority.toml")],
    next: &[
        "sudo ringway ring init DOMAIN --dns ADDR:53 --enrol ADDR:7410",
        "sudo ringway ring invite NAME --out invite",
    ],
};

const GATE: Pieces = Pieces {
    unit: "ringway-gate.service",
    ours: &[
        piece!(
            "etc/systemd/system/ringway-gate.service",
            "systemd/ringway-gate.service"
        ),
        piece!(
            "etc/tmpfiles.d/ringway-gate.conf",
            "tmpfiles.d/ringway-gate.conf"
        ),
    ],
    theirs: &[
        piece!("etc/ringway/gate.toml", "etc/gate.toml"),
        piece!("etc/ringway/border.toml", "etc/border.toml"),
    ],
    next: &[
        "name the interfaces in /etc/ringway/gate.toml",
        "sudo ringway gate check --config /etc/ringway/gate.toml",
        "sudo systemctl enable --now ringway-gate",
    ],
};

fn pieces(service: ServiceName) -> &'static Pieces {
    match service {
        ServiceName::Member => &MEMBER,
        ServiceName::Authority => &AUTHORITY,
        ServiceName::Gate => &GATE,
    }
}

#[derive(Serialize)]
struct Installed<'a> {
    unit: &'a str,
    /// Written now.
    files: Vec<PathBuf>,
    /// There before, and left alone.
    kept: Vec<PathBuf>,
    next: &'a [&'a str],
}

#[derive(Serialize)]
struct Removed<'a> {
    unit: &'a str,
    files: Vec<PathBuf>,
}

/// Runs one of them.
pub(crate) fn run(context: &Context, command: &ServiceCommand) -> Result<(), Failure> {
    match command {
        ServiceCommand::Install(args) if args.user => install_for_user(context, args),
        ServiceCommand::Install(args) => install(context, args),
        ServiceCommand::Remove(args) => remove(context, args),
    }
}

fn install(context: &Context, args: &ServiceInstallArgs) -> Result<(), Failure> {
    let pieces = pieces(args.service);
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    let program = program(args)?;
    if let Some(program) = program.to_str().filter(|program| is_unseen(program)) {
        return Err(Failure::usage(format_args!(
            "a service does not see {program}: `sudo install -m 0755 {program} /usr/local/bin/ringway`, and run that one"
        )));
    }
    for folder in ["usr/lib", "lib", "usr/local/lib"] {
        let packaged = root.join(folder).join("systemd/system").join(pieces.unit);
        if packaged.exists() {
            return Err(Failure::usage(format_args!(
                "{} is there, from a package or `make install`: nothing is to be done",
                packaged.display()
            )));
        }
    }
    let mut installed = Installed {
        unit: pieces.unit,
        files: Vec::new(),
        kept: Vec::new(),
        next: pieces.next,
    };
    // Before anything is written.
    for (place, _) in pieces.ours {
        check_ours(&root.join(place))?;
    }
    for (place, text) in pieces.ours {
        let text = text.replace(PACKAGED_PROGRAM, &program.to_string_lossy());
        installed
            .files
            .push(write(&root.join(place), &format!("{MARK}{text}"))?);
    }
    for (place, text) in pieces.theirs {
        let path = root.join(place);
        if path.exists() {
            installed.kept.push(path);
        } else {
            installed.files.push(write(&path, text)?);
        }
    }
    if args.root.is_none() {
        // Before its new folder is made.
        if args.service == ServiceName::Gate {
            gate::move_state(Path::new(STATE));
        }
        settle(pieces)?;
    }
    show(context, &installed)
}

/// Makes users and folders, and has systemd read its units.
fn settle(pieces: &Pieces) -> Result<(), Failure> {
    for (place, _) in pieces.ours {
        let file = format!("/{place}");
        match place.split('/').nth(1) {
            Some("sysusers.d") => tool("systemd-sysusers", &[&file])?,
            Some("tmpfiles.d") => tool("systemd-tmpfiles", &["--create", &file])?,
            _ => {}
        }
    }
    if is_booted() {
        tool("systemctl", &["daemon-reload"])?;
    }
    Ok(())
}

fn install_for_user(context: &Context, args: &ServiceInstallArgs) -> Result<(), Failure> {
    let path = user_unit(args.service)?;
    let program = program(args)?;
    check_ours(&path)?;
    let text = USER_UNIT.replace(PACKAGED_PROGRAM, &program.to_string_lossy());
    let written = write(&path, &format!("{MARK}{text}"))?;
    show(
        context,
        &Installed {
            unit: MEMBER.unit,
            files: vec![written],
            kept: Vec::new(),
            next: &[
                "ringway join < invite",
                "systemctl --user daemon-reload",
                "systemctl --user enable --now ringway-node",
                "loginctl enable-linger    # if it is to run while you are not logged in",
            ],
        },
    )
}

/// Where the unit of one user's member stands.
fn user_unit(service: ServiceName) -> Result<PathBuf, Failure> {
    if service != ServiceName::Member {
        return Err(Failure::usage(
            "only a member can be one user's: leave --user out",
        ));
    }
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = folder("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(folder("HOME")?).join(".config")));
    let config = config.ok_or_else(|| Failure::usage("no home folder: set HOME"))?;
    Ok(config.join("systemd/user").join(MEMBER.unit))
}

fn remove(context: &Context, args: &ServiceRemoveArgs) -> Result<(), Failure> {
    let pieces = pieces(args.service);
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    let places = if args.user {
        vec![user_unit(args.service)?]
    } else {
        pieces
            .ours
            .iter()
            .map(|(place, _)| root.join(place))
            .collect()
    };
    let there: Vec<PathBuf> = places.into_iter().filter(|path| path.exists()).collect();
    if there.is_empty() {
        return Err(Failure::usage(format_args!(
            "`ringway service install` has not written {} here",
            pieces.unit
        )));
    }
    // Before anything is stopped.
    for path in &there {
        check_ours(path)?;
    }
    let of_user: &[&str] = if args.user { &["--user"] } else { &[] };
    let systemctl = |words: &[&str]| tool("systemctl", &[of_user, words].concat());
    let runs = args.root.is_none() && is_booted();
    if runs {
        systemctl(&["disable", "--now", pieces.unit])?;
    }
    for path in &there {
        std::fs::remove_file(path).map_err(|error| refused("removing", path, &error))?;
    }
    if runs {
        systemctl(&["daemon-reload"])?;
    }
    let removed = Removed {
        unit: pieces.unit,
        files: there,
    };
    context
        .output
        .either("ringway.service.removed/1", &removed, || {
            let lines = removed
                .files
                .iter()
                .map(|path| format!("removed {}", path.display()));
            lines.collect::<Vec<_>>().join("\n")
        })
}

/// Starts the service whose folder `folder` is, also one that runs, if root asks for it; true if it
/// runs then.
///
/// # Errors
/// None of the service: what was done before stays done, and a note says what went wrong.
pub(crate) fn begin(context: &Context, folder: &Path) -> Result<bool, Failure> {
    let unit = match folder.to_str() {
        Some(SERVICE_HOME) => MEMBER.unit,
        Some(SERVICE_AUTHORITY) => AUTHORITY.unit,
        _ => return Ok(false),
    };
    if !is_booted() || another_owner(folder).is_none() {
        return Ok(false);
    }
    let _root = Acting::root()?;
    let begun = try_tool("systemctl", &["enable", "--quiet", unit])
        .and_then(|()| try_tool("systemctl", &["restart", unit]));
    match &begun {
        Ok(()) => context.output.note(&format!("{unit} runs.")),
        Err(error) => context.output.note(&format!(
            "{unit} does not run: {error}; `journalctl -u {unit}` says why"
        )),
    }
    Ok(begun.is_ok())
}

fn show(context: &Context, installed: &Installed<'_>) -> Result<(), Failure> {
    context.output.either("ringway.service/1", installed, || {
        let written = installed
            .files
            .iter()
            .map(|path| format!("wrote {}", path.display()));
        let kept = installed
            .kept
            .iter()
            .map(|path| format!("kept {}", path.display()));
        written.chain(kept).collect::<Vec<_>>().join("\n")
    })?;
    context.output.note("Next:");
    for step in installed.next {
        context.output.note(&format!("  {step}"));
    }
    Ok(())
}

/// The program that the service is to run.
fn program(args: &ServiceInstallArgs) -> Result<PathBuf, Failure> {
    let program = args.program.clone().map_or_else(std::env::current_exe, Ok);
    let program = program.and_then(std::path::absolute).map_err(|error| {
        Failure::failed(format_args!(
            "where this program stands is not known: {error}; name it by --program"
        ))
    })?;
    // systemd has rules of its own for quotes, blanks and percent signs.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    match program.to_str() {
        Some(text) if text.chars().all(plain) => Ok(program),
        _ => Err(Failure::usage(format_args!(
            "`{}` has characters that a unit cannot name: install the program elsewhere, such as in /usr/local/bin",
            program.display()
        ))),
    }
}

fn is_unseen(program: &str) -> bool {
    UNSEEN
        .iter()
        .any(|folder| Path::new(program).starts_with(folder))
}

/// True where systemd is the first process (sd_booted(3)).
fn is_booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Refuses a file that somebody else has written.
fn check_ours(path: &Path) -> Result<(), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK.trim_end()) => Err(Failure::usage(format_args!(
            "{} was not written by `ringway service install`: move it away first",
            path.display()
        ))),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(refused("reading", path, &error))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<PathBuf, Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text))
        .map_err(|error| refused("writing", path, &error))?;
    Ok(path.to_owned())
}

fn refused(action: &str, path: &Path, error: &io::Error) -> Failure {
    let mend = match error.kind() {
        io::ErrorKind::PermissionDenied => ": run it as root, or with --user",
        _ => "",
    };
    Failure::failed(format_args!(
        "{action} {} failed: {error}{mend}",
        path.display()
    ))
}

/// Runs a tool of systemd to its end.
fn tool(program: &str, words: &[&str]) -> Result<(), Failure> {
    try_tool(program, words).map_err(Failure::failed)
}

/// As [`tool`]; the error says which one failed, and why.
fn try_tool(program: &str, words: &[&str]) -> Result<(), String> {
    let failed = |reason: &dyn std::fmt::Display| {
        format!("`{program} {}` failed: {reason}", words.join(" "))
    };
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| failed(&error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr).trim_end()))
}
