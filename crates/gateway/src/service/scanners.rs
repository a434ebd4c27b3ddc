//! What scans files: YARA rules and lists of hashes in this process, and clamd beside it.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::ServiceError;
use crate::linux::scanner_pool::ScannerPool;
use crate::scan::{Chain, Clamd, HashLists, Hashes, Scanner, Start, Takes, YaraRules};

/// Which scanners there are.
#[derive(Clone, Debug, Default)]
pub struct ScannerConfig {
    /// Files and folders of YARA rules.
    pub yara: Vec<PathBuf>,
    /// Lists of hashes of files.
    pub hashes: Vec<PathBuf>,
    /// Where clamd answers: a socket's path, or an address and a port.
    pub clamd: Option<String>,
    /// Threads for each queue, 1 to 64.
    pub threads: u16,
}

/// The scanners that were asked for. Each window goes to all of them, the hashes first, then the
/// rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanners {
    hashes: Option<Arc<HashLists>>,
    rules: Option<YaraRules>,
    clamd: Option<String>,
    takes: Option<Takes>,
    threads: u16,
}

impl Scanners {
    /// Reads the rules, and says so if clamd does not answer now; it may come later, and until then
    /// the policy's `failure` decides.
    pub(super) fn new(config: &ScannerConfig) -> Result<Self, ServiceError> {
        let hashes = load_hashes(&config.hashes)?;
        let rules = load_yara(&config.yara)?;
        if let Some(rules) = &rules {
            tracing::info!(rules = rules.count(), "YARA rules are compiled");
        }
        let takes = config.clamd.as_deref().and_then(takes);
        Ok(Self {
            hashes,
            rules,
            clamd: config.clamd.clone(),
            takes,
            threads: config.threads,
        })
    }

    /// Files are scanned.
    pub(super) fn are_there(&self) -> bool {
        self.hashes.is_some() || self.rules.is_some() || self.clamd.is_some()
    }

    /// The threads of one queue: each has a connection of its own to clamd for each file.
    pub(super) fn start(&self) -> Result<ScannerPool, ServiceError> {
        let threads = if self.are_there() { self.threads } else { 0 };
        let starts = (0..threads).map(|_| {
            let scanners = self.clone();
            let start: Start = Box::new(move || scanners.chain());
            start
        });
        ScannerPool::start(starts.collect()).map_err(|error| {
            ServiceError::failed(format_args!("the scanners did not start: {error}"))
        })
    }

    fn chain(&self) -> Box<dyn Scanner> {
        let mut scanners: Vec<Box<dyn Scanner>> = Vec::new();
        if let Some(hashes) = &self.hashes {
            scanners.push(Box::new(Hashes::new(Arc::clone(hashes))));
        }
        if let Some(rules) = &self.rules {
            scanners.push(Box::new(rules.scanner()));
        }
        if let Some(address) = &self.clamd {
            scanners.push(Box::new(Clamd::new(address, self.takes)));
        }
        Box::new(Chain::new(scanners))
    }
}

/// What clamd takes; says so if it does not answer.
fn takes(address: &str) -> Option<Takes> {
    let clamd = Clamd::new(address, None);
    match clamd.ping().and_then(|()| clamd.takes()) {
        Ok(Some(takes)) => {
            tracing::info!(
                address,
                bytes = takes.stream,
                descriptors = takes.descriptors,
                "clamd takes so many bytes at once: of longer files it sees one such part after another"
            );
            Some(takes)
        }
        Ok(None) => {
            tracing::warn!(
                address,
                "clamd takes no streams of 1 MiB: raise its StreamMaxLength, or no file counts as scanned"
            );
            None
        }
        Err(error) => {
            tracing::warn!(address, %error, "clamd does not answer");
            None
        }
    }
}

/// The hashes of these lists; `None` without any.
///
/// # Errors
/// One cannot be read, or is wrong.
pub fn load_hashes(files: &[PathBuf]) -> Result<Option<Arc<HashLists>>, ServiceError> {
    if files.is_empty() {
        return Ok(None);
    }
    let lists = HashLists::read(files).map_err(|(file, faults)| {
        let lines = faults.iter().map(|fault| match fault.line {
            0 => format!("{}: {}", file.display(), fault.reason),
            line => format!("{}:{line}: {}", file.display(), fault.reason),
        });
        let lines: Vec<String> = lines.collect();
        ServiceError::usage(format_args!("{}", lines.join("; ")))
    })?;
    tracing::info!(hashes = lists.len(), "lists of hashes are read");
    Ok(Some(Arc::new(lists)))
}

/// The YARA rules of these files and folders; `None` without any.
///
/// # Errors
/// They cannot be read or compiled.
pub fn load_yara(paths: &[PathBuf]) -> Result<Option<YaraRules>, ServiceError> {
    if paths.is_empty() {
        return Ok(None);
    }
    let rules = YaraRules::load(paths).map_err(|error| {
        ServiceError::usage(format_args!(
            "the rules of --yara cannot be used: {error}; `ringway gate check --yara` tells every fault"
        ))
    })?;
    Ok(Some(rules))
}
