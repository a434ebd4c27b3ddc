//! Who scans files: YARA rules in this process, and clamd beside it.

use std::path::PathBuf;

use ringway_gateway::linux::desk::ScanDesk;
use ringway_gateway::scan::{Chain, Clamd, Scanner, Start, Takes, YaraRules};

use crate::cli::UpArgs;
use ringway_terminal::Failure;

/// The scanners that were asked for. Each window goes to all of them, the rules first.
#[derive(Clone, Debug)]
pub(super) struct Scanners {
    rules: Option<YaraRules>,
    clamd: Option<String>,
    takes: Option<Takes>,
    threads: u16,
}

impl Scanners {
    /// Reads the rules, and says so if clamd does not answer now; it may come later, and until then
    /// the policy's `failure` decides.
    pub(super) fn new(args: &UpArgs) -> Result<Self, Failure> {
        let rules = rules(&args.yara)?;
        if let Some(rules) = &rules {
            tracing::info!(rules = rules.count(), "YARA rules are compiled");
        }
        let takes = args.clamd.as_deref().and_then(takes);
        Ok(Self {
            rules,
            clamd: args.clamd.clone(),
            takes,
            threads: args.scanners,
        })
    }

    /// Somebody scans.
    pub(super) fn are_there(&self) -> bool {
        self.rules.is_some() || self.clamd.is_some()
    }

    /// The threads of one queue: each has a connection of its own to clamd for each file.
    pub(super) fn start(&self) -> Result<ScanDesk, Failure> {
        let threads = if self.are_there() { self.threads } else { 0 };
        let starts = (0..threads).map(|_| {
            let scanners = self.clone();
            let start: Start = Box::new(move || scanners.chain());
            start
        });
        ScanDesk::start(starts.collect())
            .map_err(|error| Failure::failed(format_args!("the scanners did not start: {error}")))
    }

    fn chain(&self) -> Box<dyn Scanner> {
        let mut scanners: Vec<Box<dyn Scanner>> = Vec::new();
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

/// The rules of `--yara`, if there are any.
pub(super) fn rules(paths: &[PathBuf]) -> Result<Option<YaraRules>, Failure> {
    if paths.is_empty() {
        return Ok(None);
    }
    let rules = YaraRules::load(paths).map_err(|error| {
        Failure::usage(format_args!(
            "the rules of --yara cannot be used: {error}; `ringway gate check --yara` tells every fault"
        ))
    })?;
    Ok(Some(rules))
}
