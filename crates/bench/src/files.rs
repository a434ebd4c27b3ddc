//! `ringway-bench files`: many small files from one host to another, over an emulated line.
//!
//! Two routers and their ring's authority are hosts of their own on a switch. Beside `ringway send`
//! the same folder goes by rsync's daemon, through tar over one TCP connection, by croc, by
//! sendme, and through tar over Tailscale, in turns and over the same line. What arrives is
//! counted, and removed before the next run.

mod beside;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringway_terminal::{Failure, Output};
use ringway_testbed::{Host, Line, Network, Program, Ring, RingBuilder};
use tempfile::TempDir;

use super::figure::{Figure, show};
use crate::cli::FilesArgs;
use crate::program;

/// Members and the authority, in the order of their addresses.
const HOSTS: [&str; 3] = ["owner", "oslo", "lima"];
/// What is sent.
const FOLDER: &str = "files";
/// Files of each folder in it.
const IN_A_FOLDER: usize = 1_000;

/// Those that send, in the order of their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sender {
    /// `ringway send`.
    Ringway,
    /// `rsync -a` to a daemon of rsync.
    Rsync,
    /// tar into tar, over one TCP connection by socat.
    Tar,
    /// croc by a relay of its own, at the receiver.
    Croc,
    /// sendme without a relay.
    Sendme,
    /// tar into tar through Tailscale, with its control server for tests.
    Tailscale,
}

impl Sender {
    const ALL: [Sender; 6] = [
        Sender::Ringway,
        Sender::Rsync,
        Sender::Tar,
        Sender::Croc,
        Sender::Sendme,
        Sender::Tailscale,
    ];

    fn name(self) -> &'static str {
        match self {
            Sender::Ringway => "ringway",
            Sender::Rsync => "rsync",
            Sender::Tar => "tar",
            Sender::Croc => "croc",
            Sender::Sendme => "sendme",
            Sender::Tailscale => "tar over Tailscale",
        }
    }
}

/// What is sent how often.
struct Plan {
    files: usize,
    bytes: usize,
    round_trip: u64,
    runs: u32,
}

impl Plan {
    fn case(&self) -> String {
        let Plan {
            files,
            bytes,
            round_trip,
            ..
        } = self;
        format!("{files} files of {bytes} B at {round_trip} ms")
    }
}

/// The hosts, the ring, and the folder. The network goes last: what runs in it goes before.
struct Lab {
    ring: Ring,
    sent: PathBuf,
    folder: TempDir,
    hosts: Vec<Host>,
    _network: Network,
}

/// Runs the benchmark and shows its figures.
pub(super) fn run(output: Output, args: &FilesArgs) -> Result<(), Failure> {
    let plan = Plan {
        files: args
            .files
            .unwrap_or(if args.quick { 10_000 } else { 100_000 }),
        bytes: args.bytes,
        round_trip: args.round_trip,
        runs: args.runs.unwrap_or(if args.quick { 1 } else { 3 }).max(1),
    };
    let senders = match args.only.as_slice() {
        [] => Sender::ALL.to_vec(),
        only => only.to_vec(),
    };
    Network::available().map_err(Failure::failed)?;
    let senders = beside::found(output, senders);
    let lab = Lab::new(&plan)?;
    let mut seconds: Vec<(Sender, Vec<f64>)> = senders.iter().map(|s| (*s, Vec::new())).collect();
    for run in 1..=plan.runs {
        for (sender, runs) in &mut seconds {
            let took = match lab.measure(*sender, &plan) {
                Ok(took) => took.as_secs_f64(),
                // Others fail now and then, which must not cost the figures of the rest.
                Err(failure) if *sender != Sender::Ringway => {
                    let name = sender.name();
                    output.note(&format!("{name} {run} is left out: {}", failure.message()));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            output.note(&format!("{} {run}: {took:.1} s", sender.name()));
            runs.push(took);
        }
    }
    seconds.retain(|(_, runs)| !runs.is_empty());
    show(output, &figures(&plan, &seconds))
}

fn figures(plan: &Plan, seconds: &[(Sender, Vec<f64>)]) -> Vec<Figure> {
    let rsync = seconds.iter().find(|(sender, _)| *sender == Sender::Rsync);
    let of = |(sender, runs): &(Sender, Vec<f64>)| {
        let case = format!("{}: {}", sender.name(), plan.case());
        let figure = Figure::new("files", case, "time", "s", runs);
        match rsync {
            Some((_, beside)) if *sender != Sender::Rsync => figure.against("rsync", beside),
            _ => figure,
        }
    };
    seconds.iter().map(of).collect()
}

impl Lab {
    fn new(plan: &Plan) -> Result<Lab, Failure> {
        let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir();
        let folder = folder.map_err(Failure::failed)?;
        let sent = folder.path().join(FOLDER);
        make_files(&sent, plan).map_err(Failure::failed)?;
        let mut network = Network::new().map_err(Failure::failed)?;
        // A round trip crosses four cables.
        let line = Line::plain().delay_ms(plan.round_trip / 4);
        let switch = network.switch("switch").map_err(Failure::failed)?;
        let mut hosts = Vec::new();
        for (label, number) in HOSTS.iter().zip(1..) {
            let host = network.host(label).map_err(Failure::failed)?;
            let address = format!("10.77.0.{number}/24");
            let laid = network.attach(&host, &switch, &address, &line);
            laid.map_err(Failure::failed)?;
            hosts.push(host);
        }
        let program = Program::new(&program::ringway()?);
        let mut builder = RingBuilder::new(program);
        for host in &hosts {
            builder = match host.label() {
                "owner" => builder.authority_on(host),
                name => builder.router(name).on(host),
            };
        }
        let ring = builder.start().map_err(Failure::failed)?;
        ring.wait_until_settled().map_err(Failure::failed)?;
        Ok(Lab {
            ring,
            sent,
            folder,
            hosts,
            _network: network,
        })
    }

    fn host(&self, label: &str) -> Result<&Host, Failure> {
        let host = self.hosts.iter().find(|host| host.label() == label);
        host.ok_or_else(|| Failure::failed(format_args!("there is no host {label}")))
    }

    /// How long one takes. All files have arrived with their sizes, and are gone again.
    fn measure(&self, sender: Sender, plan: &Plan) -> Result<Duration, Failure> {
        let (took, arrived) = match sender {
            Sender::Ringway => self.ringway()?,
            Sender::Rsync => beside::rsync(self)?,
            Sender::Tar => beside::tar(self)?,
            Sender::Croc => beside::croc(self)?,
            Sender::Sendme => beside::sendme(self)?,
            Sender::Tailscale => beside::tailscale(self)?,
        };
        let expected = (plan.files, plan.files.saturating_mul(plan.bytes));
        let counted = count(&arrived).map_err(Failure::failed)?;
        if counted != expected {
            return Err(Failure::failed(format_args!(
                "{}: {} files with {} bytes have arrived, not {} with {}",
                sender.name(),
                counted.0,
                counted.1,
                expected.0,
                expected.1
            )));
        }
        std::fs::remove_dir_all(&arrived).map_err(Failure::failed)?;
        // What is still to be written or removed is no part of the next one's time.
        rustix::fs::sync();
        Ok(took)
    }

    fn ringway(&self) -> Result<(Duration, PathBuf), Failure> {
        let oslo = self.ring.member("oslo").map_err(Failure::failed)?;
        let sent = self.sent.to_string_lossy();
        let begin = Instant::now();
        let outcome = oslo.run(&["send", &sent, "lima"]);
        let outcome = outcome.map_err(Failure::failed)?;
        let took = begin.elapsed();
        if outcome.code != Some(0) {
            let said = outcome.stderr.lines().last().unwrap_or_default().to_owned();
            return Err(Failure::failed(format_args!("ringway send failed: {said}")));
        }
        let lima = self.ring.member("lima").map_err(Failure::failed)?;
        Ok((took, lima.home.join("inbox").join(FOLDER)))
    }
}

/// Files with content that no compression makes smaller, in folders of a thousand.
fn make_files(folder: &Path, plan: &Plan) -> std::io::Result<()> {
    let mut content = blake3::Hasher::new().update(b"files").finalize_xof();
    let mut buffer = vec![0; plan.bytes];
    for number in 0..plan.files {
        let inner = folder.join(format!("{:03}", number / IN_A_FOLDER));
        if number.is_multiple_of(IN_A_FOLDER) {
            std::fs::create_dir_all(&inner)?;
        }
        content.fill(&mut buffer);
        std::fs::write(inner.join(format!("{number:06}.dat")), &buffer)?;
    }
    Ok(())
}

/// Files in a folder and their bytes.
fn count(folder: &Path) -> std::io::Result<(usize, usize)> {
    let (mut files, mut bytes) = (0, 0_usize);
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
                bytes = bytes.saturating_add(size);
            }
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            files: 1_001,
            bytes: 3,
            round_trip: 20,
            runs: 1,
        };
        make_files(folder.path(), &plan).unwrap();
        assert_eq!(count(folder.path()).unwrap(), (1_001, 3_003));
        assert!(folder.path().join("001/001000.dat").exists());
    }

    #[test]
    fn others_are_the_baseline() {
        let plan = Plan {
            files: 10,
            bytes: 1,
            round_trip: 20,
            runs: 1,
        };
        let seconds = [(Sender::Ringway, vec![2.0]), (Sender::Rsync, vec![4.0])];
        let figures = figures(&plan, &seconds);
        assert_eq!(figures[0].case, "ringway: 10 files of 1 B at 20 ms");
        assert_eq!((figures[0].ratio, figures[1].ratio), (Some(0.5), None));
    }
}
