//! Decided flows when a quota is used up, and when there is room in it again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::flow::TableBounds;
use crate::policy::{Action, Policy};
use crate::quota::{OverQuota, QuotaBook, Subject};
use crate::verdict::{Gateway, Mode, Offload, Settings, Verdict};
use crate::{LinkType, Packets, built_in_classifier};

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn policy(over: &str) -> Policy {
    let text = format!(
        "[classes.slow]\nrate = \"1 Mbit/s\"\n\
         [[rule]]\nname = \"downloads\"\nport = 80\naction = \"allow\"\n\
         quota = \"1 kB/month\"\nover = \"{over}\"\n"
    );
    Policy::parse(&text, &BTreeSet::new()).unwrap()
}

struct Border {
    gateway: Gateway,
    book: QuotaBook,
    over: OverQuota,
}

impl Border {
    fn new(over: &str, mode: Mode) -> Self {
        let policy = policy(over);
        let mut book = QuotaBook::new(TimeZone::UTC);
        book.set_policy(NOW, &policy);
        let settings = Settings {
            mode,
            ..Settings::default()
        };
        let mut gateway = Gateway::new(
            built_in_classifier(),
            TableBounds::default(),
            Arc::new(policy),
            settings,
        );
        let over = OverQuota::default();
        gateway.set_over_quota(over.clone());
        gateway.report_accounts();
        Self {
            gateway,
            book,
            over,
        }
    }

    fn charge(&mut self, now: Duration, bytes: u64) {
        let host = Subject::Host([10, 0, 0, 5].into());
        self.book.charge(now, "downloads", &host, bytes);
        self.over.set(self.book.poll_above().unwrap_or_default());
    }

    /// The verdict on the latest packet of a connection from this host and port.
    fn packet(&mut self, host: [u8; 4], port: u16) -> Verdict {
        let mut packets = Packets::new();
        let mut stream = packets.tcp((host, port).into(), ([192, 0, 2, 9], 80).into());
        stream.open();
        stream.client(b"GET / HTTP/1.1\r\n\r\n");
        let mut verdict = Verdict::ACCEPT;
        for (now, bytes) in packets.iter() {
            verdict = self
                .gateway
                .handle_packet(NOW.saturating_add(now), LinkType::RawIp, bytes);
        }
        verdict
    }

    fn action(&self) -> (Option<Action>, bool) {
        let flows = self.gateway.flows(10);
        let flow = flows.iter().find(|flow| flow.record.client_port == 50_001);
        let flow = flow.unwrap();
        (flow.action, flow.over_quota)
    }
}

const HOST: [u8; 4] = [10, 0, 0, 5];
const OTHER: [u8; 4] = [10, 0, 0, 6];

fn offload(verdict: Verdict) -> Option<Offload> {
    verdict.offload()
}

#[test]
fn decided_flow_goes_to_the_class_and_back() {
    let mut border = Border::new("slow", Mode::Enforce);
    assert_eq!(offload(border.packet(HOST, 50_001)), Some(Offload::Allowed));
    border.charge(NOW, 2_000);
    // Without a packet of it, at the next moment.
    border.gateway.handle_timeout(NOW);
    assert_eq!(border.action(), (Some(Action::Shape), true));
    assert_eq!(
        offload(border.packet(HOST, 50_002)),
        Some(Offload::Shaped(0))
    );
    assert_eq!(
        offload(border.packet(OTHER, 50_001)),
        Some(Offload::Allowed)
    );
    let views: Vec<_> = std::iter::from_fn(|| border.gateway.poll_account()).collect();
    let moved = views
        .iter()
        .rfind(|view| view.ends.client.port() == 50_001 && view.over_quota);
    assert_eq!(moved.unwrap().class.as_deref(), Some("slow"));
    let next = NOW + Duration::from_secs(40 * 86_400);
    border.book.handle_time(next);
    border.over.set(border.book.poll_above().unwrap());
    border.gateway.handle_timeout(next);
    let flows = border.gateway.flows(10);
    assert!(flows.iter().all(|flow| !flow.over_quota));
}

#[test]
fn decided_flow_is_reset() {
    let mut border = Border::new("block", Mode::Enforce);
    border.packet(HOST, 50_001);
    border.charge(NOW, 2_000);
    border.gateway.handle_timeout(NOW);
    assert_eq!(border.action(), (Some(Action::Block), true));
    assert!(border.gateway.poll_injection().is_none());
    assert!(!border.packet(HOST, 50_001).accepts());
    assert!(border.gateway.poll_injection().is_some());
    let event = std::iter::from_fn(|| border.gateway.poll_event())
        .last()
        .unwrap();
    assert!(event.alert.evidence.contains("quota"), "{event:?}");
    assert_eq!(event.alert.action, "blocked");
    assert!(!border.packet(HOST, 50_002).accepts());
    assert!(border.packet(OTHER, 50_003).accepts());
}

#[test]
fn observing_gateway_moves_nothing() {
    let mut border = Border::new("block", Mode::Observe);
    border.packet(HOST, 50_001);
    border.charge(NOW, 2_000);
    assert!(border.packet(HOST, 50_002).accepts());
    assert!(border.packet(HOST, 50_001).accepts());
    // What would have happened is shown.
    assert_eq!(border.action(), (Some(Action::Block), true));
}
