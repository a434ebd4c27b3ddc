//! Suricata between client and server: another program that looks at what crosses a border and
//! drops what its rules name.

use std::fmt::Write as _;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::border::{Border, Side};
use ringway_terminal::Failure;

/// The queue that it reads.
pub(super) const QUEUE: &str = "7330";
/// The mark of connections that it wants to see no more.
pub(super) const ENOUGH: &str = "0x1/0x1";
const SURICATA: &str = "/usr/bin/suricata";
/// How long it may take to start.
const START: Duration = Duration::from_secs(60);
/// What it writes once it reads its queue.
const STARTED: &str = "Engine started";
/// What messages of applications like those that Ringway's rules name begin with, in its own form:
/// peer-to-peer and chat.
const BEGINNINGS: [(&str, &str); 20] = [
    ("tcp", "|13|BitTorrent protocol"),
    ("udp", "d1|3a|ad2|3a|id20|3a|"),
    ("udp", "d1|3a|rd2|3a|id20|3a|"),
    ("udp", "|00 00 04 17 27 10 19 80|"),
    ("udp", "BT-SEARCH"),
    ("tcp", "GNUTELLA CONNECT/"),
    ("tcp", "GNUTELLA/0."),
    ("tcp", "GIV "),
    ("tcp", "GET /uri-res/N2R?urn|3a|sha1|3a|"),
    ("tcp", "GET /.hash="),
    ("tcp", "GIVE "),
    ("tcp", "|24|Lock "),
    ("tcp", "|24|MyNick "),
    ("tcp", "HSUP "),
    ("tcp", "|13|/multistream/1.0.0"),
    ("tcp", "VER 1 MSNP"),
    ("tcp", "NICK "),
    ("tcp", "<stream|3a|stream"),
    ("tcp", "WA|06|"),
    ("udp", "|2e a7 d9 0b|"),
];

/// The running program; it ends with this.
#[derive(Debug)]
pub(super) struct Suricata {
    child: Child,
    folder: TempDir,
}

impl Suricata {
    /// Starts it in the gateway. `None`: it is not installed.
    pub(super) fn start(border: &Border) -> Result<Option<Self>, Failure> {
        let version = Command::new(SURICATA).arg("-V").output();
        if version.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(Failure::failed)?;
        let write = |name: &str, text: &str| -> Result<String, Failure> {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map_err(Failure::failed)?;
            Ok(path.display().to_string())
        };
        let configuration = write("suricata.yaml", &configuration(folder.path()))?;
        let rules = write("p2p.rules", &rules())?;
        let logs = folder.path().display().to_string();
        let mut command = border.command(Side::Gateway, SURICATA);
        let command = command
            .args(["-c", &configuration, "-S", &rules, "-l", &logs, "-q", QUEUE])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut suricata = Self {
            child: command.spawn().map_err(Failure::failed)?,
            folder,
        };
        let log = suricata.folder.path().join("suricata.log");
        let began = Instant::now();
        while began.elapsed() < START {
            let written = std::fs::read_to_string(&log).unwrap_or_default();
            if written.contains(STARTED) {
                return Ok(Some(suricata));
            }
            if !matches!(suricata.child.try_wait(), Ok(None)) {
                return Err(Failure::failed(format_args!("suricata ended: {written}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Failure::failed("suricata did not start"))
    }

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Suricata {
    fn drop(&mut self) {
        // It has ended by itself if this fails.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// As its documentation has it for a queue, with what makes it fast: it looks no further than a
/// megabyte into a stream, and leaves what it has seen enough of to the kernel, by a mark. It
/// writes down what it drops, and nothing else.
fn configuration(folder: &std::path::Path) -> String {
    let folder = folder.display();
    format!(
        "%YAML 1.1\n---\n\
         vars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    EXTERNAL_NET: \"any\"\n\
         default-log-dir: {folder}\n\
         classification-file: /etc/suricata/classification.config\n\
         reference-config-file: /etc/suricata/reference.config\n\
         runmode: workers\nmax-pending-packets: 4096\n\
         logging:\n  default-log-level: notice\n  outputs:\n  - file:\n      enabled: yes\n      filename: suricata.log\n\
         outputs:\n  - fast:\n      enabled: yes\n      filename: fast.log\n\
         nfq:\n  mode: accept\n  fail-open: yes\n  batchcount: 20\n  bypass-mark: 1\n  bypass-mask: 1\n\
         app-layer:\n  protocols:\n    http:\n      enabled: yes\n    tls:\n      enabled: yes\n\
         stream:\n  memcap: 256mb\n  inline: auto\n  bypass: yes\n  reassembly:\n    memcap: 512mb\n    depth: 1mb\n"
    )
}

fn rules() -> String {
    let mut text = String::new();
    for (number, (l4, beginning)) in BEGINNINGS.iter().enumerate() {
        // Writing into a text does not fail.
        writeln!(
            text,
            "drop {l4} any any -> any any (msg:\"r{number}\"; content:\"{beginning}\"; startswith; sid:{};)",
            number.saturating_add(1_000_001)
        )
        .ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_beginning_is_a_rule() {
        let rules = rules();
        assert_eq!(rules.lines().count(), BEGINNINGS.len());
        for line in rules.lines() {
            // A colon or a quote of its own would end what is looked for.
            let content = line
                .split("content:\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            assert!(
                content.is_some_and(|text| !text.contains([':', ';'])),
                "{line}"
            );
        }
    }
}
