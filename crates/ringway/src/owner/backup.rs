//! `ringway ring backup`, `restore` and `promote`: the authority in one file, and back.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use ringway_node::authority::{
    Authority, Backup, BackupContents, BackupError, Lock, Opener, RestoreOptions, Sealed,
};
use ringway_terminal::Failure;
use serde::Serialize;

use super::{folder, open, passphrase, publish};
use crate::acting::Acting;
use crate::cli::{BackupArgs, PromoteArgs, RestoreArgs};
use crate::context::Context;

/// Standard input or output instead of a file.
const STREAM: &str = "-";

#[derive(Serialize)]
struct BackupObject<'a> {
    /// None if it went to stdout.
    file: Option<&'a Path>,
    #[serde(flatten)]
    contents: &'a BackupContents,
}

/// Makes a backup.
pub(super) fn back_up(context: &Context, args: &BackupArgs) -> Result<(), Failure> {
    let to_stdout = args.file.as_os_str() == STREAM;
    if to_stdout && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "a backup is no text: name a file, or send stdout to one",
        ));
    }
    // Before a passphrase is asked for. The file is made without replacing any all the same.
    if !to_stdout && args.file.symlink_metadata().is_ok() {
        return Err(exists(&args.file));
    }
    let mut authority = open(context, args.folder.dir.clone())?;
    let lock = match (&args.to[..], &args.passphrase_file) {
        ([], Some(file)) => Lock::passphrase(passphrase::of_file(file)?)?,
        ([], None) => Lock::passphrase(passphrase::ask_new()?)?,
        (keys, _) => Lock::Keys(keys.to_vec()),
    };
    let backup = authority.back_up()?;
    let contents = backup.contents()?;
    if to_stdout {
        backup.seal(&lock, io::stdout().lock()).map_err(written)?;
        context.output.note(&in_words(&contents));
        return Ok(());
    }
    write_file(&backup, &lock, &args.file)?;
    let object = BackupObject {
        file: Some(&args.file),
        contents: &contents,
    };
    context.output.either("ringway.backup/1", &object, || {
        format!("{}\n{}", args.file.display(), in_words(&contents))
    })?;
    for file in &contents.key_files {
        context.output.note(&format!(
            "{} is not in it: keep that key of a DNS server as well.",
            file.display()
        ));
    }
    Ok(())
}

/// The reader of stdout has gone, or the disk is full.
fn written(error: BackupError) -> Failure {
    match error {
        BackupError::Stream(error) => error.into(),
        error => error.into(),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format_args!(
        "`{}` is there already: name a file that is not there yet; nothing was changed",
        path.display()
    ))
}

/// Either the whole file stands there in the end, 0600 and on the disk, or none.
fn write_file(backup: &Backup, lock: &Lock, path: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format_args!("writing `{}` failed: {error}", path.display()))
    };
    // The file is root's if root has asked, and not of the user whose authority it is.
    let _root = Acting::root()?;
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".ringway-backup-")
        .tempfile_in(parent)
        .map_err(|error| failed(&error))?;
    backup
        .seal(lock, &mut file)
        .map_err(|error| failed(&error))?;
    // The name comes last: it stands for a whole file.
    let synced = file.flush().and_then(|()| file.as_file().sync_all());
    synced.map_err(|error| failed(&error))?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(exists(path));
        }
        Err(refused) => return Err(failed(&refused.error)),
    }
    let folder = File::open(parent).and_then(|folder| folder.sync_all());
    folder.map_err(|error| failed(&error))
}

/// Looks into a backup, or restores it.
pub(super) fn restore(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    let sealed = read(&args.file)?;
    let opener = match (&args.identity, &args.passphrase_file) {
        (Some(key), _) => Opener::key_file(key)?,
        (None, _) if !sealed.is_by_passphrase() => return Err(BackupError::NeedsKey.into()),
        (None, Some(file)) => Opener::passphrase(&passphrase::of_file(file)?),
        (None, None) => Opener::passphrase(&passphrase::ask()?),
    };
    let backup = sealed.open(&opener)?;
    // Nothing has been written so far.
    if args.check {
        let contents = backup.contents()?;
        return context
            .output
            .either("ringway.backup/1", &contents, || in_words(&contents));
    }
    let dir = folder(context, args.folder.dir.clone())?;
    let options = RestoreOptions {
        standby: args.standby,
        dns: args.dns.clone(),
        enrol: args.enrol.clone(),
    };
    let restored = Authority::restore(&dir, &backup, &options)?;
    let contents = &restored.contents;
    context.output.either("ringway.restored/1", &restored, || {
        let how = if restored.fed {
            "takes the place of an earlier backup"
        } else {
            "restored"
        };
        format!("{}\n{how} in {}", in_words(contents), dir.display())
    })?;
    notes(context, contents, restored.fed);
    Ok(())
}

/// What the owner has to know, and to do next.
fn notes(context: &Context, contents: &BackupContents, fed: bool) {
    for file in &contents.key_files {
        if !file.exists() {
            context.output.note(&format!(
                "{} is missing: a DNS server that is kept current needs this key. Put it there, or `ringway ring publish --forget HOST`.",
                file.display()
            ));
        }
    }
    if !fed {
        let made = date(contents.made);
        context.output.note(&format!(
            "It is a standby: let `ringway ring serve` run here for some minutes, then `ringway ring promote`. Members that joined or were revoked after {made} are not in it; those that run bring what they know to `ringway ring serve`."
        ));
    }
}

fn read(path: &PathBuf) -> Result<Sealed, Failure> {
    if path.as_os_str() == STREAM {
        return Ok(Sealed::read(io::stdin().lock())?);
    }
    let file = File::open(path).map_err(|error| {
        Failure::usage(format_args!("reading `{}` failed: {error}", path.display()))
    })?;
    Ok(Sealed::read(file)?)
}

fn in_words(contents: &BackupContents) -> String {
    let BackupContents {
        domain,
        made,
        program,
        statement,
        members,
        former,
        invites,
        ..
    } = contents;
    let newest = contents.newest.map_or_else(String::new, |issued| {
        format!(", the newest certificate of {}", date(issued))
    });
    format!(
        "backup of {domain}, made {} by ringway {program}\nstatement {statement}, {members} members, {former} former ones, {invites} open invites{newest}",
        date(*made)
    )
}

/// In UTC, as the library writes it.
fn date(seconds: u64) -> String {
    ringway_node::date_of(seconds)
}

/// Makes a standby the authority.
pub(super) async fn promote(context: &Context, args: &PromoteArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir.clone())?;
    let promoted = authority.promote()?;
    let recovered = &promoted.recovered;
    // Names first: the owner compares them with what is remembered.
    context.output.either("ringway.promoted/1", &promoted, || {
        format!(
            "this is the authority of {} from now on, in term {}, statement {}\nended since the backup: {}\njoined since the backup: {}",
            authority.ring().domain,
            promoted.term,
            recovered.statement,
            super::names(&recovered.ended),
            super::names(&recovered.members),
        )
    })?;
    context.output.note(
        "The authority before signs nothing more as soon as it is told. Members that joined after the backup, and were off, are taken in when they come back.",
    );
    publish::after_change(
        context,
        &authority,
        "this is the authority",
        "the one before",
    )
    .await
}
