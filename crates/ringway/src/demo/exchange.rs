//! Step 4: two files at two priorities at the same time, one priority changed while they run, both
//! compared by BLAKE3.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::HumanBytes;
use ringway_node::control::TransferStatus;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::found::{SENDER, upload_limit};
use super::report::{Check, Done, Report};
use super::stage::Stage;
use crate::cli::DemoArgs;
use crate::limits::{
    DEMO_POLL, DEMO_SETTLING, DEMO_SHARE_WINDOW, DEMO_TRANSFER_SECONDS, DEMO_TRANSFER_SLACK,
};
use crate::progress::{Progress, rate};
use ringway_terminal::Failure;

/// Who receives the first file, at priority 1 throughout.
pub(super) const FIRST_RECEIVER: &str = "oslo";

/// Who receives the second file.
pub(super) const SECOND_RECEIVER: &str = "lima";

/// The second file's priority at first.
const HIGH: &str = "4";

/// The second file's priority afterwards.
const LOW: &str = "0";

/// Bytes written or hashed at a time.
const CHUNK: usize = 1 << 20;

/// One file on its way.
#[derive(Debug)]
struct Shipment {
    path: PathBuf,
    receiver: &'static str,
    hash: String,
    id: String,
}

/// How the two shared the upload over one window.
#[derive(Clone, Copy, Debug)]
struct Shares {
    first: f64,
    second: f64,
}

impl Shares {
    /// The second's part of both, 0 to 1.
    fn of_second(self) -> f64 {
        let both = self.first + self.second;
        if both > 0.0 { self.second / both } else { 0.0 }
    }

    fn figure(self) -> String {
        format!(
            "{} beside {} ({:.0} %)",
            rate(self.second),
            rate(self.first),
            100.0 * self.of_second()
        )
    }
}

/// The whole step.
pub(super) async fn step(
    stage: &Stage,
    report: &mut Report,
    args: &DemoArgs,
) -> Result<(), Failure> {
    report.begin("making two files that cannot be compressed");
    let result = exchange(stage, report, args).await;
    report.end("transfers", result)
}

async fn exchange(stage: &Stage, report: &mut Report, args: &DemoArgs) -> Result<Done, Failure> {
    let mib = u64::from(args.size) << 20;
    let mut first = make(stage, "first.bin", mib, FIRST_RECEIVER).await?;
    let mut second = make(stage, "second.bin", mib / 2, SECOND_RECEIVER).await?;
    report.clear();
    let mut watch = Watch {
        stage,
        progress: Progress::new(report.output()),
        end: deadline(),
    };
    first.id = send(stage, &first, "1").await?;
    second.id = send(stage, &second, HIGH).await?;
    let before = watch.shares(&first, &second).await?;
    let _: TransferStatus = stage
        .program
        .call_one(&stage.member(SENDER)?.home, &["priority", &second.id, LOW])
        .await?;
    let after = watch.shares(&first, &second).await?;
    let finished = watch.until_done(&[&first, &second]).await;
    watch.progress.finish();
    let sent = finished?;
    let mut checks = vec![
        Check::new(
            format!("priority {HIGH} takes more than priority 1"),
            before.of_second() > 0.5,
            before.figure(),
        ),
        Check::new(
            format!("priority {HIGH} → {LOW} while it runs: its share falls"),
            after.of_second() < before.of_second(),
            after.figure(),
        ),
    ];
    for (shipment, sent) in [&first, &second].into_iter().zip(&sent) {
        checks.push(compare(stage, shipment, sent).await?);
    }
    let limit = HumanBytes(upload_limit(args));
    Ok(Done {
        shown: Vec::new(),
        text: format!(
            "{} to {FIRST_RECEIVER} and {} to {SECOND_RECEIVER} over QUIC ({SENDER}'s upload limited to {limit}/s so that they share it)",
            HumanBytes(mib),
            HumanBytes(mib / 2)
        ),
        checks,
        details: json!({
            "upload_limit": upload_limit(args),
            "share_at_high_priority": before.of_second(),
            "share_at_low_priority": after.of_second(),
            "high_priority": HIGH, "low_priority": LOW,
            "transfers": sent,
        }),
    })
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(DEMO_TRANSFER_SECONDS) + DEMO_TRANSFER_SLACK
}

/// Writes pseudo-random bytes: BLAKE3's output stream, seeded with the name, so that every run has
/// the same.
async fn make(
    stage: &Stage,
    name: &str,
    size: u64,
    receiver: &'static str,
) -> Result<Shipment, Failure> {
    let path = stage.folder().join(name);
    let failed = |error: std::io::Error| {
        Failure::failed(format_args!("writing `{}` failed: {error}", path.display()))
    };
    let mut random = blake3::Hasher::new().update(name.as_bytes()).finalize_xof();
    let mut file = tokio::fs::File::create(&path).await.map_err(failed)?;
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        random.fill(&mut chunk[..part]);
        file.write_all(&chunk[..part]).await.map_err(failed)?;
        left -= u64::try_from(part).unwrap_or(left);
    }
    file.flush().await.map_err(failed)?;
    let hash = hash(&path).await?;
    Ok(Shipment {
        path,
        receiver,
        hash,
        id: String::new(),
    })
}

/// The BLAKE3 of a file, read here and now.
async fn hash(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format_args!("reading `{}` failed: {error}", path.display()))
    };
    let mut file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk).await.map_err(failed)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            read => hasher.update(&chunk[..read]),
        };
    }
}

async fn send(stage: &Stage, shipment: &Shipment, priority: &str) -> Result<String, Failure> {
    let path = shipment.path.to_string_lossy();
    let arguments = [
        "send",
        &path,
        shipment.receiver,
        "--priority",
        priority,
        "--detach",
    ];
    let queued: TransferStatus = stage
        .program
        .call_one(&stage.member(SENDER)?.home, &arguments)
        .await?;
    Ok(queued.id)
}

/// Looks at the sender's transfers again and again, with a bar for the one that is first in line.
struct Watch<'a> {
    stage: &'a Stage,
    progress: Progress,
    end: Instant,
}

impl Watch<'_> {
    async fn look(&mut self, shipments: &[&Shipment]) -> Result<Vec<TransferStatus>, Failure> {
        let home = &self.stage.member(SENDER)?.home;
        let all: Vec<TransferStatus> = self.stage.program.call(home, &["transfers"]).await?;
        let mut found = Vec::new();
        for shipment in shipments {
            let transfer = all.iter().find(|transfer| transfer.id == shipment.id);
            let name = shipment.path.display();
            let transfer = transfer.ok_or_else(|| {
                Failure::failed(format_args!("the transfer of {name} is not listed"))
            })?;
            if matches!(transfer.state.as_str(), "failed" | "cancelled") {
                let reason = transfer.reason.as_deref().unwrap_or("no reason given");
                return Err(Failure::failed(format_args!(
                    "the transfer of {name} is {}: {reason}",
                    transfer.state
                )));
            }
            found.push(transfer.clone());
        }
        if let Some(shown) = found.iter().find(|transfer| transfer.state != "done") {
            self.progress.update(shown);
        }
        if Instant::now() > self.end {
            let states: Vec<String> = found
                .iter()
                .map(|t| format!("{}: {} at {} of {}", t.file, t.state, t.bytes, t.size))
                .collect();
            return Err(Failure::failed(format_args!(
                "the transfers did not end in time ({})",
                states.join(", ")
            )));
        }
        Ok(found)
    }

    /// Waits until both run and have settled, then measures how they share.
    async fn shares(&mut self, first: &Shipment, second: &Shipment) -> Result<Shares, Failure> {
        let both = [first, second];
        // A transfer that has not begun would make any share look right.
        while !self
            .look(&both)
            .await?
            .iter()
            .all(|transfer| transfer.bytes > 0)
        {
            tokio::time::sleep(DEMO_POLL).await;
        }
        self.pass(DEMO_SETTLING, &both).await?;
        let began = Instant::now();
        let start = self.look(&both).await?;
        self.pass(DEMO_SHARE_WINDOW, &both).await?;
        let end = self.look(&both).await?;
        let seconds = began.elapsed().as_secs_f64();
        let mut rates = start
            .iter()
            .zip(&end)
            .map(|(start, end)| per_second(end.bytes.saturating_sub(start.bytes), seconds));
        Ok(Shares {
            first: rates.next().unwrap_or(0.0),
            second: rates.next().unwrap_or(0.0),
        })
    }

    async fn pass(&mut self, time: Duration, shipments: &[&Shipment]) -> Result<(), Failure> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(DEMO_POLL.min(until.saturating_duration_since(Instant::now())))
                .await;
            self.look(shipments).await?;
        }
        Ok(())
    }

    async fn until_done(
        &mut self,
        shipments: &[&Shipment],
    ) -> Result<Vec<TransferStatus>, Failure> {
        loop {
            let found = self.look(shipments).await?;
            if found.iter().all(|transfer| transfer.state == "done") {
                return Ok(found);
            }
            tokio::time::sleep(DEMO_POLL).await;
        }
    }
}

/// Bytes a second; exact below 2^32 bytes, which is more than one window ever moves.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / seconds
}

/// Compares what arrived with what was sent, by hashes made here.
async fn compare(
    stage: &Stage,
    shipment: &Shipment,
    sent: &TransferStatus,
) -> Result<Check, Failure> {
    let home = &stage.member(shipment.receiver)?.home;
    let end = Instant::now() + DEMO_TRANSFER_SLACK;
    let received = loop {
        let all: Vec<TransferStatus> = stage.program.call(home, &["transfers"]).await?;
        match all.into_iter().find(|transfer| transfer.id == shipment.id) {
            Some(transfer) if transfer.state == "done" => break transfer,
            _ if Instant::now() > end => {
                return Err(Failure::failed(format_args!(
                    "{} does not list the file as received",
                    shipment.receiver
                )));
            }
            _ => tokio::time::sleep(DEMO_POLL).await,
        }
    };
    let arrived = hash(&received.path).await?;
    let announced = [&sent.blake3, &received.blake3]
        .into_iter()
        .all(|hash| hash.as_ref() == Some(&shipment.hash));
    let short = arrived.get(..16).unwrap_or(&arrived);
    Ok(Check::new(
        format!(
            "{} arrived at {} unchanged (BLAKE3)",
            sent.file, shipment.receiver
        ),
        arrived == shipment.hash && announced,
        format!(
            "{short}…, {} at {}",
            HumanBytes(sent.size),
            rate(sent.rate.unwrap_or(0.0))
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_part_of_both() {
        assert_eq!(
            Shares {
                first: 1.0,
                second: 3.0
            }
            .of_second(),
            0.75
        );
        assert_eq!(
            Shares {
                first: 0.0,
                second: 0.0
            }
            .of_second(),
            0.0
        );
    }
}
