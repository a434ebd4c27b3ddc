//! `ringway ring publish`: the ring's records on a DNS server of the owner's own.

use std::path::{Path, PathBuf};

use ringway_node::authority::{
    Authority, DnsServer, KeptServer, Publication, PublishError, TsigKey,
};
use serde::Serialize;

use super::open;
use crate::cli::PublishArgs;
use crate::context::Context;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct ZoneObject<'a> {
    /// Where it was written, if it was.
    file: Option<&'a Path>,
    zone: &'a str,
}

#[derive(Serialize)]
struct PublishedObject<'a> {
    #[serde(flatten)]
    publication: &'a Publication,
    /// True if `ring serve` and `ring revoke` keep it current.
    kept: bool,
}

#[derive(Serialize)]
struct ForgottenObject {
    server: String,
}

/// Writes the zone, or updates a server.
pub(super) async fn run(context: &Context, args: &PublishArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir.clone())?;
    match (&args.to, &args.forget) {
        (Some(server), _) => update(context, &mut authority, server, args).await,
        (None, Some(server)) => forget(context, &mut authority, server),
        (None, None) => zone(context, &authority, args.zone_file.as_deref()),
    }
}

async fn update(
    context: &Context,
    authority: &mut Authority,
    server: &DnsServer,
    args: &PublishArgs,
) -> Result<(), Failure> {
    let key_file = key_file(authority, server, args)?;
    let key = TsigKey::read(&key_file).map_err(PublishError::from)?;
    if args.keep {
        // Before the work: a server that does not answer now is to be updated as soon as it does.
        authority.kept().keep(server, &key_file)?;
    }
    let kept = kept(authority, server)?;
    let publication = match &kept {
        Some(kept) if kept.key_file == key_file => authority.update_kept(kept).await,
        _ => authority.publish_to(server, &key).await,
    };
    let publication = publication.map_err(|error| unfinished(error, kept.is_some()))?;
    let object = PublishedObject {
        publication: &publication,
        kept: kept.is_some(),
    };
    context
        .output
        .either("ringway.published/1", &object, || in_words(&publication))?;
    if args.keep {
        context.output.note(&format!(
            "`ringway ring serve` and `ringway ring revoke` keep {server} current from now on; --forget ends that."
        ));
    }
    Ok(())
}

/// A server that is kept current will be, whatever has happened now.
fn unfinished(error: PublishError, kept: bool) -> Failure {
    if !kept {
        return error.into();
    }
    let usage = error.is_usage();
    let message = format!("{error}; it is kept current: `ringway ring serve` goes on trying");
    Failure::blame(usage, message)
}

fn in_words(publication: &Publication) -> String {
    let Publication {
        server,
        zone,
        records,
        written,
        removed,
        ..
    } = publication;
    let all = match records {
        1 => "the ring's one record".to_owned(),
        records => format!("all {records} records of the ring"),
    };
    match written + removed {
        0 => format!("{server} has {all} in the zone {zone} already"),
        _ => format!("{server} has {all} in the zone {zone}: {written} written, {removed} removed"),
    }
}

/// The one given, or the one that the server is kept current with.
fn key_file(
    authority: &Authority,
    server: &DnsServer,
    args: &PublishArgs,
) -> Result<PathBuf, Failure> {
    match &args.tsig_key {
        Some(path) => std::path::absolute(path).map_err(|error| {
            Failure::usage(format_args!(
                "--tsig-key `{}` has no absolute path: {error}",
                path.display()
            ))
        }),
        None => match kept(authority, server)? {
            Some(kept) => Ok(kept.key_file),
            None => Err(Failure::usage(format_args!(
                "{server} is not kept current: name the file with its key by --tsig-key"
            ))),
        },
    }
}

fn kept(authority: &Authority, server: &DnsServer) -> Result<Option<KeptServer>, Failure> {
    let servers = authority.kept().all()?;
    Ok(servers.into_iter().find(|kept| kept.server == *server))
}

fn forget(context: &Context, authority: &mut Authority, server: &DnsServer) -> Result<(), Failure> {
    if !authority.kept().forget(server)? {
        let kept = authority.kept().all()?;
        let names: Vec<String> = kept.iter().map(|kept| kept.server.to_string()).collect();
        let known = match names.as_slice() {
            [] => "no server is".to_owned(),
            names => format!("{} is", names.join(", ")),
        };
        return Err(Failure::usage(format_args!(
            "{server} is not kept current: {known}"
        )));
    }
    let server = server.to_string();
    let object = ForgottenObject { server };
    context
        .output
        .either("ringway.forgotten-server/1", &object, || {
            format!(
                "{} is kept current no longer; its records stay",
                object.server
            )
        })
}

/// Updates every server that is kept current. The change stands whatever comes of it, but the user
/// who asked for it must know where it is not known.
pub(super) async fn after_change(
    context: &Context,
    authority: &Authority,
    what: &str,
    before: &str,
) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for kept in authority.kept().all()? {
        match authority.update_kept(&kept).await {
            Ok(publication) => context.output.note(&in_words(&publication)),
            Err(error) => failures.push(format!("{} ({error})", kept.server)),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "{what}, but not where this DNS server says who is a member: {}; \
         until `ringway ring serve` or `ringway ring publish --to SERVER` has updated it, those who ask it still find {before}",
        failures.join(", ")
    )))
}

fn zone(context: &Context, authority: &Authority, file: Option<&Path>) -> Result<(), Failure> {
    let zone = authority.zone_file()?;
    if let Some(path) = file {
        write_whole(path, &zone)?;
        context
            .output
            .note(&format!("zone written to {}", path.display()));
    }
    let object = ZoneObject { file, zone: &zone };
    match file {
        Some(_) if !context.output.json() => Ok(()),
        _ => {
            let text = || zone.trim_end().to_owned();
            context.output.either("ringway.zone/1", &object, text)
        }
    }
}

/// A DNS server never sees half a zone: the file is written beside the old one and then renamed.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format_args!(
            "writing the zone file `{}` failed: {error}",
            path.display()
        ))
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    let mut file = builder
        .permissions(mode)
        .tempfile_in(folder)
        .map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    // On disk before it has the name, or a crash leaves an empty zone.
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
