//! What is sent by one command: files and folders, to one member or several.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;

use super::bundle::{self, Bundle, Kind};
use super::origin::Origin;
use super::record::{Direction, Phase, Record, TransferId};
use super::service::{TransferError, Transfers};
use super::to_send::ToSend;
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::control::TransferStatus;
use crate::limits::{BUNDLE_PATHS, QUEUED_SENDS};

/// What one command sends.
#[derive(Debug)]
pub(crate) struct SendAll {
    /// Where it stands, for its sender. Names come from there.
    pub(crate) paths: Vec<PathBuf>,
    /// The name of the only one, if it is not that of its path.
    pub(crate) name: Option<String>,
    pub(crate) form: Form,
    pub(crate) priority: Priority,
    /// Whether its receivers get nothing from each other.
    pub(crate) direct: bool,
}

/// Where the content is.
#[derive(Debug)]
pub(crate) enum Form {
    /// At the paths, which the daemon itself opens.
    AtPaths,
    /// In this file, which is the only one that is sent.
    File(File),
    /// In this file, behind a list of so many bytes.
    Bundle(File, u64),
}

impl Transfers {
    /// Queues what a command sends, for each of `peers`. All of it is on disk, and will survive a
    /// restart, when this returns; of what was handed over only that it was.
    pub(crate) fn send_all(
        &self,
        all: SendAll,
        peers: &[Certificate],
        own: &Certificate,
    ) -> Result<Vec<TransferStatus>, TransferError> {
        if peers.iter().any(|peer| peer.member() == own.member()) {
            return Err(TransferError::Oneself);
        }
        let bundle = described(&all)?;
        let distinct: BTreeSet<_> = peers.iter().map(Certificate::member).collect();
        let waiting = self.context().open_transfers(Direction::Send, None);
        if waiting.saturating_add(distinct.len()) > QUEUED_SENDS {
            return Err(TransferError::TooMany);
        }
        let (path, file) = named(&all);
        let (mut handed, mut size) = (None, 0);
        match all.form {
            Form::AtPaths if bundle.kind == Kind::File => {
                size = ToSend::at(&path).readable_size()?;
            }
            Form::AtPaths => {}
            Form::File(file) => {
                let file = ToSend {
                    path: &path,
                    handed: Some(file),
                };
                size = file.readable_size()?;
                handed = file.handed;
            }
            Form::Bundle(file, head) => {
                let list = bundle::read_list(&file, head);
                let list = list.map_err(|error| TransferError::Bundle(error.to_string()))?;
                size = list.size();
                handed = Some(file);
            }
        }
        let group = new_id()?;
        let bundle = Bundle {
            group: (distinct.len() > 1).then_some(group),
            direct: all.direct,
            ..bundle
        };
        let origin = Origin::new(handed);
        let mut started = Vec::new();
        let mut seen = BTreeSet::new();
        for peer in peers.iter().filter(|peer| seen.insert(peer.member())) {
            let record = Record {
                id: TransferId(new_id()?),
                direction: Direction::Send,
                peer: peer.member(),
                peer_serial: peer.serial(),
                peer_name: peer.name().to_string(),
                path: path.clone(),
                file: file.clone(),
                size,
                priority: all.priority,
                phase: Phase::Waiting,
                reason: None,
                hash: None,
                created: unix_seconds(),
                active: Duration::ZERO,
                moved: 0,
                offered: false,
                handed: origin.handed().is_some(),
                bundle: Some(bundle.clone()),
                ended: None,
                arrival: None,
            };
            started.push(self.begin_send(record, Arc::clone(&origin))?);
        }
        Ok(started)
    }
}

fn new_id() -> Result<[u8; 16], TransferError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(TransferError::Random)?;
    Ok(id)
}

/// What is sent, and whether it can be: that is better known now than later.
fn described(all: &SendAll) -> Result<Bundle, TransferError> {
    let described = |kind, packed, head| Bundle {
        kind,
        paths: all.paths.clone(),
        packed,
        head,
        entries: 0,
        group: None,
        direct: false,
    };
    if !(1..=BUNDLE_PATHS).contains(&all.paths.len()) {
        return Err(TransferError::TooManyPaths);
    }
    let kind_of = |folder: bool| match all.paths.as_slice() {
        [_] if folder => Kind::Folder,
        _ => Kind::Several,
    };
    match &all.form {
        Form::File(_) => Ok(described(Kind::File, false, 0)),
        Form::Bundle(file, head) => {
            let list = bundle::read_list(file, *head);
            let list = list.map_err(|error| TransferError::Bundle(error.to_string()))?;
            Ok(described(kind_of(list.is_one_folder()), true, *head))
        }
        Form::AtPaths => {
            let mut folder = false;
            for path in &all.paths {
                let metadata = std::fs::metadata(path).map_err(|source| TransferError::File {
                    path: path.clone(),
                    source,
                })?;
                folder = metadata.is_dir();
                if !folder && !metadata.is_file() {
                    return Err(TransferError::NotAFile(path.clone()));
                }
            }
            match (all.paths.len(), folder) {
                (1, false) => Ok(described(Kind::File, false, 0)),
                _ => Ok(described(kind_of(folder), false, 0)),
            }
        }
    }
}

/// The path that is shown, and the name that the receiver is given.
fn named(all: &SendAll) -> (PathBuf, String) {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    match all.paths.as_slice() {
        [path] => {
            let own = all.name.clone();
            (path.clone(), own.unwrap_or_else(|| name(path)))
        }
        [first, more @ ..] => {
            let folder = first.parent().unwrap_or(Path::new("/"));
            let more = more.len();
            let text = format!("{} and {more} more", name(first));
            (folder.to_owned(), text)
        }
        [] => (PathBuf::new(), String::new()),
    }
}
