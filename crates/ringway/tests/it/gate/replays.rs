//! Captures through a policy that looks into files.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::beside::{Tested, wrong};
use crate::run;

const SCAN: &str = "[[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\n";
const RULES: &str = "rule Needle { strings: $a = \"a needle in the hay\" condition: $a }";
/// Bytes of a segment, as offloading hardware makes them.
const SEGMENT: usize = 32_000;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// A capture of one connection, written as it goes.
struct Capture<W> {
    out: W,
    micros: u64,
    /// What each side says next: the client's number and the server's.
    next: [u32; 2],
}

impl<W: Write> Capture<W> {
    /// Begins with the header of a file of IP packets (LINKTYPE_RAW), and a handshake.
    fn begin(mut out: W) -> std::io::Result<Self> {
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            out.write_all(&word.to_le_bytes())?;
        }
        let mut capture = Capture {
            out,
            micros: 0,
            next: [1_000, 9_000],
        };
        capture.say(0, SYN, b"")?;
        capture.say(1, SYN | ACK, b"")?;
        capture.say(0, ACK, b"")?;
        Ok(capture)
    }

    /// A segment of the client (0) or the server (1), a tenth of a millisecond after the one
    /// before.
    fn say(&mut self, side: usize, flags: u8, payload: &[u8]) -> std::io::Result<()> {
        self.micros += 100;
        let length = u32::try_from(40 + payload.len()).unwrap();
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        for word in [
            u32::try_from(seconds).unwrap(),
            u32::try_from(micros).unwrap(),
            length,
            length,
        ] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        let hosts = [[10, 0, 0, 2], [198, 51, 100, 9]];
        let ports = [[0xc0, 1], [0, 80]];
        let other = 1 - side;
        let short = u16::try_from(length).unwrap().to_be_bytes();
        let ip = [0x45, 0, short[0], short[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
        self.out.write_all(&ip)?;
        self.out.write_all(&hosts[side])?;
        self.out.write_all(&hosts[other])?;
        self.out.write_all(&ports[side])?;
        self.out.write_all(&ports[other])?;
        self.out.write_all(&self.next[side].to_be_bytes())?;
        let acknowledged = if flags & ACK == 0 {
            0
        } else {
            self.next[other]
        };
        self.out.write_all(&acknowledged.to_be_bytes())?;
        self.out.write_all(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0])?;
        self.out.write_all(payload)?;
        let taken = payload.len() + usize::from(flags & SYN != 0);
        self.next[side] = self.next[side].wrapping_add(u32::try_from(taken).unwrap());
        Ok(())
    }

    /// A download: what the server says, in segments that the client acknowledges.
    fn download(
        &mut self,
        length: usize,
        bytes: impl Iterator<Item = Vec<u8>>,
    ) -> std::io::Result<()> {
        self.say(0, ACK | PUSH, b"GET /file.bin HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        self.say(1, ACK | PUSH, head.as_bytes())?;
        for part in bytes {
            self.say(1, ACK, &part)?;
            self.say(0, ACK, b"")?;
        }
        Ok(())
    }
}

/// A field of `/proc/PID/status`, in kB.
fn memory(pid: u32, field: &str) -> Tested<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no such field")?.parse()?)
}

fn policy(folder: &Path) -> String {
    let path = folder.join("policy.toml");
    fs::write(&path, SCAN).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn memory_is_independent_of_the_captures_length() -> Tested {
    let folder = tempfile::tempdir()?;
    let mut replay = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args([
            "gate",
            "replay",
            "/dev/stdin",
            "--policy",
            &policy(folder.path()),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let stdin = replay.stdin.take().ok_or("no stdin")?;
    let mut capture = Capture::begin(BufWriter::new(stdin))?;
    let part = vec![0x2e; SEGMENT];
    let parts = |count| std::iter::repeat_n(part.clone(), count);
    // 16 MB, and then 160 MB of a file that goes on.
    capture.download(1 << 40, parts(500))?;
    let before = memory(replay.id(), "VmRSS:")?;
    for part in parts(5_000) {
        capture.say(1, ACK, &part)?;
        capture.say(0, ACK, b"")?;
    }
    let after = memory(replay.id(), "VmRSS:")?;
    drop(capture);
    if !replay.wait()?.success() {
        return wrong("the replay failed");
    }
    if after > before + 30_000 {
        return wrong(format!("{before} kB, and {after} kB later"));
    }
    Ok(())
}

#[test]
fn files_are_clean_unless_rules_say_otherwise() -> Tested {
    let folder = tempfile::tempdir()?;
    let (rules, file) = (
        folder.path().join("own.yar"),
        folder.path().join("one.pcap"),
    );
    fs::write(&rules, RULES)?;
    let mut body = vec![0x2e; 3 * SEGMENT];
    let needle = b"a needle in the hay";
    // Across a window's boundary, and in the last packet, which waits.
    for place in [SEGMENT + 700, body.len() - needle.len()] {
        body.fill(0x2e);
        body[place..place + needle.len()].copy_from_slice(needle);
        let mut capture = Capture::begin(BufWriter::new(fs::File::create(&file)?))?;
        capture.download(body.len(), body.chunks(SEGMENT).map(<[u8]>::to_vec))?;
        drop(capture);
        let policy = policy(folder.path());
        let file = file.to_str().ok_or("no text")?;
        let words = ["--json", "gate", "replay", file, "--policy", &policy];
        let rules = ["--yara", rules.to_str().ok_or("no text")?];
        for (more, action) in [([].as_slice(), "scan"), (&rules, "block")] {
            let outcome = run(&[words.as_slice(), more].concat());
            let flow = outcome.objects()?.remove(0);
            if flow["action"] != action || flow["rule"] != "scan" {
                return wrong(format!("{action}: {flow}"));
            }
        }
    }
    let outcome = run(&[
        "gate",
        "replay",
        "a.pcap",
        "--policy",
        &policy(folder.path()),
        "--yara",
        "/nowhere",
    ]);
    match outcome.code {
        Some(2) => Ok(()),
        _ => wrong(outcome.stderr),
    }
}
