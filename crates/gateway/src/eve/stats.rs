//! The gateway's figures.

use std::time::Duration;

use serde::Serialize;

use super::header::{Common, Sensor};
use super::{EveKind, SCHEMA};

/// The gateway's figures at a moment. Serialises to one event `stats`.
///
/// `ours` is what stands under `ringway`: the gateway's status.
#[derive(Debug)]
pub struct StatsLog<'a, T> {
    /// The time since the Unix epoch.
    pub at: Duration,
    /// Who writes.
    pub sensor: &'a Sensor,
    /// Seconds since the start.
    pub uptime: u64,
    /// Packets that were queued for a verdict.
    pub packets: u64,
    /// Packets that were dropped of them.
    pub dropped: u64,
    /// Flows that are not over.
    pub flows: u64,
    /// Flows that were forgotten early because there were too many.
    pub evicted: u64,
    /// All figures, as they are called here.
    pub ours: &'a T,
}

#[derive(Serialize)]
struct Form<'a, T> {
    #[serde(flatten)]
    common: Common<'a>,
    stats: Stats,
    ringway: Ours<'a, T>,
}

#[derive(Serialize)]
struct Stats {
    uptime: u64,
    capture: Capture,
    decoder: Decoder,
    flow: Flow,
    ips: Ips,
}

#[derive(Serialize)]
struct Capture {
    kernel_packets: u64,
}

#[derive(Serialize)]
struct Decoder {
    pkts: u64,
}

#[derive(Serialize)]
struct Flow {
    active: u64,
    memcap: u64,
}

#[derive(Serialize)]
struct Ips {
    accepted: u64,
    blocked: u64,
}

#[derive(Serialize)]
struct Ours<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    status: &'a T,
}

impl<T: Serialize> Serialize for StatsLog<'_, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = Form {
            common: Common::new(self.at, EveKind::Stats.name(), self.sensor, None),
            stats: Stats {
                uptime: self.uptime,
                capture: Capture {
                    kernel_packets: self.packets,
                },
                decoder: Decoder { pkts: self.packets },
                flow: Flow {
                    active: self.flows,
                    memcap: self.evicted,
                },
                ips: Ips {
                    accepted: self.packets.saturating_sub(self.dropped),
                    blocked: self.dropped,
                },
            },
            ringway: Ours {
                schema: SCHEMA,
                status: self.ours,
            },
        };
        form.serialize(serializer)
    }
}
