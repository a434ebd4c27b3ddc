#![no_main]
//! A capture through the gateway with a policy that blocks, filters, scans and audits; scanners
//! answer at once, all three ways.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ringway_gateway::flow::TableBounds;
use ringway_gateway::policy::Policy;
use ringway_gateway::verdict::{Gateway, Mode, Scanned, Settings};
use ringway_gateway::{CaptureReader, built_in_classifier};

const POLICY: &str = r#"
[[rule]]
name = "words"
keyword = "secret"
action = "block"
[[rule]]
name = "names"
file_name = "*.exe"
action = "block"
[[rule]]
name = "files"
app = "http"
action = "scan"
audit_text = true
[[rule]]
name = "rest"
action = "audit"
"#;

/// One that lets the kernel carry the rest of files.
const NAMES: &str =
    "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";

static RULES: LazyLock<[Arc<Policy>; 2]> = LazyLock::new(|| {
    let known: BTreeSet<String> = ["http".to_owned()].into();
    [POLICY, NAMES]
        .map(|text| Arc::new(Policy::parse(text, &known).expect("the policy is in order")))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for policy in &*RULES {
        run(data, policy);
    }
});

fn run(data: &[u8], policy: &Arc<Policy>) {
    let settings = Settings {
        mode: Mode::Enforce,
        scan_window: 64,
        ..Settings::default()
    };
    let bounds = TableBounds::default();
    let mut gateway = Gateway::new(built_in_classifier(), bounds, Arc::clone(policy), settings);
    let Ok(mut reader) = CaptureReader::new("fuzz", data) else {
        return;
    };
    let mut token = 0;
    let mut now = Duration::ZERO;
    while let Ok(Some(packet)) = reader.next_packet() {
        token += 1;
        now = packet.timestamp;
        gateway.handle_queued(now, token, packet.link, packet.bytes);
        gateway.handle_timeout(now);
        while let Some(job) = gateway.poll_scan() {
            let scanned = match job.bytes.first() {
                Some(0) => Scanned::Found("x".to_owned()),
                Some(1) => Scanned::Failed("y".to_owned()),
                _ => Scanned::Clean,
            };
            gateway.handle_scanned(now, &job, &scanned);
        }
        while gateway.poll_injection().is_some() {}
        while gateway.poll_released().is_some() {}
        while gateway.poll_event().is_some() || gateway.poll_file_part().is_some() {}
    }
    gateway.finish(now);
}
