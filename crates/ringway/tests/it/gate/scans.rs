//! Files through a gateway that scans, with a real clamd.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use ringway_gateway::flow::Direction;
use ringway_gateway::scan::{Clamd as Clamav, Scanner as _, Takes};
use ringway_gateway::verdict::{FlowId, ScanJob, Scanned};
use ringway_testbed::{Clamd, Line};
use serde_json::Value;

use super::beside::{Job, Tested, all, until, without, wrong};
use super::border::{Border, DEADLINE, SERVER, file_of, skipped};
use super::both::{Compared, GatePath, on_both};
use crate::random_bytes;

const VIRUS: &[u8] = b"X5O!P%@AP[4-PZX54(P^)7CC)7}$RINGWAY-TEST-FILE!$H+H*";
pub(super) const SCAN: &str =
    "[[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";
/// After it a server that does not answer counts as out of reach. A SYN that is lost is sent again
/// after one, three and seven seconds.
const CONNECT: Duration = Duration::from_secs(10);
const WINDOW: usize = 32_768;

/// A border with a web server and a scanner. `None`: something is missing here, and stderr says so.
fn border(test: &str, path: GatePath) -> Option<(Border, Clamd)> {
    border_over(test, &Line::plain(), path)
}

/// The same with this line towards the server.
fn border_over(test: &str, line: &Line, path: GatePath) -> Option<(Border, Clamd)> {
    let border = Border::over(test, line)?.by(test, path)?;
    let Some(clamd) = Clamd::start("Ringway.Test", VIRUS).unwrap() else {
        return skipped(test, "clamd");
    };
    Some((border, clamd))
}

fn up(border: &mut Border, clamd: &Clamd, policy: &str) {
    border.up(
        policy,
        &["--enforce", "--clamd", clamd.socket().to_str().unwrap()],
    );
}

/// A web server that gives this file to everybody, with its length or without.
pub(super) fn serve(border: &Border, port: u16, body: Vec<u8>, length: bool) {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, port)))
        .unwrap()
        .unwrap();
    let body = Arc::new(body);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let body = Arc::clone(&body);
            std::thread::spawn(move || {
                let mut request = [0; 4_096];
                if stream.read(&mut request).unwrap_or(0) == 0 {
                    return;
                }
                let size = format!("Content-Length: {}\r\n", body.len());
                let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", if length { &size } else { "" });
                // A client whose connection was reset gets no more.
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(&body).ok();
                stay(&mut stream);
            });
        }
    });
}

/// Says that no more comes, and stays until the client goes: what a kernel still has to send for a
/// closed socket is the first that it gives up where it is short of anything.
pub(super) fn stay(stream: &mut TcpStream) {
    stream.shutdown(Shutdown::Write).ok();
    stream.read_exact(&mut [0]).ok();
}

/// Downloads a file; gives what arrived of its body.
pub(super) fn fetch(border: &Border, port: u16, name: &str) -> Vec<u8> {
    let stream = border
        .client
        .enter(|| TcpStream::connect_timeout(&format!("{SERVER}:{port}").parse().unwrap(), CONNECT))
        .unwrap();
    let Ok(mut stream) = stream else {
        return Vec::new();
    };
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("GET /{name} HTTP/1.1\r\nHost: {SERVER}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A reset is an answer too.
    stream.read_to_end(&mut bytes).ok();
    match bytes.windows(4).position(|part| part == b"\r\n\r\n") {
        Some(end) => bytes.split_off(end + 4),
        None => Vec::new(),
    }
}

/// What the audit has of so many files in which the test's virus was found: all of them were
/// stopped.
fn findings(border: &Border, count: usize) -> Vec<Value> {
    let is_finding = |event: &Value| event["ringway"]["found"].is_string();
    let mut events = border.audit_when(|events| {
        let found = events.iter().filter(|event| is_finding(event));
        found.count() == count
    });
    events.retain(is_finding);
    for event in &events {
        let found = event["ringway"]["found"].as_str().unwrap();
        assert!(found.contains("Ringway.Test"), "{event}");
        assert_eq!(event["ringway"]["action"], "blocked");
    }
    events
}

#[test]
fn clean_files_arrive_and_are_audited_with_hash() -> Tested {
    all(vec![on_both("clean files", clean)])
}

fn clean(path: GatePath) -> Compared {
    let Some((mut border, clamd)) = border("clean files", path) else {
        return Ok(None);
    };
    let body = random_bytes("clean", 5 << 20);
    serve(&border, 8_001, body.clone(), true);
    serve(&border, 8_002, body.clone(), false);
    up(&mut border, &clamd, SCAN);
    for port in [8_001, 8_002] {
        assert!(
            fetch(&border, port, "clean.bin") == body,
            "port {port}: {}",
            border.status()
        );
    }
    let events = border.audit_when(|events| {
        events
            .iter()
            .filter(|event| file_of(event)["sha256"].is_string())
            .count()
            == 2
    });
    let event = events
        .iter()
        .find(|event| file_of(event)["sha256"].is_string())
        .unwrap();
    assert_eq!(file_of(event)["filename"], "clean.bin");
    assert_eq!(file_of(event)["size"], 5 << 20);
    let status = border.status();
    assert_eq!(status["held"], 0, "{status}");
    assert!(status["scanned"].as_u64().unwrap() >= 2 * 160, "{status}");
    border.seen()
}

#[test]
fn virus_across_any_window_boundary_never_arrives_whole() -> Tested {
    all(vec![on_both(
        "a virus across boundaries",
        across_boundaries,
    )])
}

fn across_boundaries(path: GatePath) -> Compared {
    let Some((mut border, clamd)) = border("a virus", path) else {
        return Ok(None);
    };
    up(&mut border, &clamd, SCAN);
    let size = 4 * WINDOW + 100;
    let places = [
        0,
        WINDOW - 1,
        WINDOW - VIRUS.len() / 2,
        2 * WINDOW - 10,
        3 * WINDOW - VIRUS.len(),
        4 * WINDOW - 1,
        size - VIRUS.len(),
    ];
    for (number, place) in places.into_iter().enumerate() {
        let mut body = random_bytes("virus", size);
        body[place..place + VIRUS.len()].copy_from_slice(VIRUS);
        for (length, port) in [(true, 8_100), (false, 8_200)] {
            let port = port + u16::try_from(number).unwrap();
            serve(&border, port, body.clone(), length);
            let arrived = fetch(&border, port, "virus.bin");
            assert!(arrived.len() < size, "{place} {length}: all of it arrived");
        }
    }
    findings(&border, 2 * places.len());
    border.seen()
}

#[test]
fn a_virus_in_an_archive_is_found() -> Tested {
    all(vec![on_both("a virus in an archive", in_an_archive)])
}

fn in_an_archive(path: GatePath) -> Compared {
    let Some((mut border, clamd)) = border("a virus in an archive", path) else {
        return Ok(None);
    };
    let folder = border.path("");
    std::fs::write(border.folder.path().join("inner.txt"), VIRUS).unwrap();
    let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1] + '/a.zip', 'w', zipfile.ZIP_DEFLATED)\n\
                  z.write(sys.argv[1] + '/inner.txt', 'inner.txt')\nz.close()\n";
    border
        .gateway
        .check(&["/usr/bin/python3", "-c", script, &folder])
        .unwrap();
    let archive = std::fs::read(border.folder.path().join("a.zip")).unwrap();
    assert!(
        !archive.windows(VIRUS.len()).any(|part| part == VIRUS),
        "the archive is not packed"
    );
    serve(&border, 8_001, archive.clone(), true);
    up(&mut border, &clamd, SCAN);
    assert!(fetch(&border, 8_001, "a.zip").len() < archive.len());
    border.seen()
}

/// What is wrong with the scanner.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It takes connections, and does not answer.
    Hangs,
    /// It is killed while a file goes by.
    Killed,
    /// No program has ever listened at its socket.
    NeverThere,
}

/// A web server that gives the first half of a file, and the second one when it is told to.
fn serve_in_halves(border: &Border, port: u16, body: Vec<u8>) -> Sender<()> {
    let bound = border.server.enter(|| TcpListener::bind((SERVER, port)));
    let listener = bound.unwrap().unwrap();
    let (word, words) = channel();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let (first, second) = body.split_at(body.len() / 2);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.read(&mut [0; 4_096]).unwrap_or(0) == 0 {
            return;
        }
        // A client whose connection was reset gets no more.
        stream.write_all(&[head.as_bytes(), first].concat()).ok();
        words.recv().ok();
        stream.write_all(second).ok();
    });
    word
}

/// Downloads a file under this policy while the scanner is in trouble: gives how many bytes came
/// and which event says why.
fn fetched_in(
    trouble: Trouble,
    (failure, path): (&str, GatePath),
    body: &[u8],
) -> Option<(Vec<u8>, Value, Border)> {
    let (mut border, mut clamd) = border("a scanner in trouble", path)?;
    let policy = format!("{SCAN}failure = \"{failure}\"\n");
    let socket = match trouble {
        Trouble::NeverThere => border.path("nobody.sock"),
        Trouble::Hangs | Trouble::Killed => clamd.socket().to_str().unwrap().to_owned(),
    };
    border.up(&policy, &["--enforce", "--clamd", &socket]);
    let word = serve_in_halves(&border, 8_001, body.to_vec());
    let begun = Instant::now();
    let arrived = std::thread::scope(|scope| {
        let download = scope.spawn(|| fetch(&border, 8_001, "a.bin"));
        match trouble {
            Trouble::Hangs => clamd.hang().unwrap(),
            Trouble::Killed => {
                // Some windows have been scanned, and it has the beginning of a file.
                let scanned = || border.status()["scanned"].as_u64() > Some(0);
                until("nothing is scanned", String::new, scanned).unwrap();
                clamd.kill().unwrap();
            }
            Trouble::NeverThere => {}
        }
        word.send(()).unwrap();
        download.join().unwrap()
    });
    // A scanner has ten seconds for an answer.
    assert!(begun.elapsed() < 2 * DEADLINE, "{trouble:?}");
    let of_failure = |event: &&Value| {
        let told = event["ringway"]["evidence"].as_str();
        told.is_some_and(|told| told.starts_with("its contents cannot be read: clamd: "))
    };
    let events = border.audit_when(|events| events.iter().any(|event| of_failure(&event)));
    assert_eq!(border.status()["held"], 0, "{trouble:?}");
    let event = events.iter().find(of_failure).unwrap().clone();
    Some((arrived, event, border))
}

fn in_trouble(trouble: Trouble, failure: &'static str, action: &'static str) -> Job<'static> {
    on_both(format!("{trouble:?}, {failure}"), move |path| {
        let body = random_bytes("no scanner", 2_000_000);
        let Some((arrived, event, mut border)) = fetched_in(trouble, (failure, path), &body) else {
            return Ok(None);
        };
        let what = format!("{} bytes, {event}", arrived.len());
        let whole = arrived == body;
        assert!(whole == (failure == "open"), "{what}");
        assert!(body.starts_with(&arrived), "{what}");
        assert_eq!(event["ringway"]["action"], action, "{what}");
        assert_eq!(event["ringway"]["rule"], "scan", "{what}");
        border.seen()
    })
}

/// The audit says why.
#[test]
fn failed_scanner_leaves_the_decision_to_policy() -> Tested {
    let troubles = [Trouble::Hangs, Trouble::Killed, Trouble::NeverThere];
    let jobs = troubles.into_iter().flat_map(|trouble| {
        [
            in_trouble(trouble, "open", "allowed"),
            in_trouble(trouble, "closed", "blocked"),
        ]
    });
    all(jobs.collect())
}

#[test]
fn applied_policy_decides_without_a_scanner() -> Tested {
    all(vec![on_both("a scanner that hangs", applied)])
}

fn applied(path: GatePath) -> Compared {
    let Some((mut border, clamd)) = border("a scanner that hangs", path) else {
        return Ok(None);
    };
    let body = random_bytes("hung", 200_000);
    serve(&border, 8_001, body.clone(), true);
    let open = format!("{SCAN}failure = \"open\"\n");
    up(&mut border, &clamd, &open);
    assert!(fetch(&border, 8_001, "a.bin") == body);
    clamd.hang().unwrap();
    assert!(
        fetch(&border, 8_001, "b.bin") == body,
        "open: the file came late or not at all"
    );
    // What is scanned fails closed unless the rule says otherwise.
    let closed = border.file("closed.toml", SCAN);
    let outcome = border.ask(&["apply", closed.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        fetch(&border, 8_001, "c.bin").len() < body.len(),
        "closed: the file came unscanned"
    );
    border.seen()
}

#[test]
fn a_file_name_is_refused_and_others_come() -> Tested {
    all(vec![on_both("file names", named)])
}

fn named(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("file names", path) else {
        return Ok(None);
    };
    let body = random_bytes("names", 100_000);
    serve(&border, 8_001, body.clone(), true);
    let policy = "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\naudit = true\n";
    border.up(policy, &["--enforce"]);
    assert!(fetch(&border, 8_001, "notes.txt") == body);
    assert!(fetch(&border, 8_001, "Setup.exe").is_empty());
    let events = border.audit_when(|events| !events.is_empty());
    assert_eq!(file_of(events.last().unwrap())["filename"], "Setup.exe");
    border.seen()
}

#[test]
fn files_are_scanned_whole_over_lossy_reordering_line() -> Tested {
    all(vec![on_both("scans over a lossy line", over_a_lossy_line)])
}

fn over_a_lossy_line(path: GatePath) -> Compared {
    let line = Line::plain().delay_ms(5).loss(0.05).late(0.1, 7);
    let Some((mut border, clamd)) = border_over("scans over a lossy line", &line, path) else {
        return Ok(None);
    };
    let body = random_bytes("lossy", 1 << 20);
    serve(&border, 8_001, body.clone(), true);
    let mut spoilt = body.clone();
    spoilt[700_000..700_000 + VIRUS.len()].copy_from_slice(VIRUS);
    serve(&border, 8_002, spoilt, true);
    up(&mut border, &clamd, SCAN);
    assert!(
        fetch(&border, 8_001, "clean.bin") == body,
        "{}",
        border.status()
    );
    assert!(fetch(&border, 8_002, "spoilt.bin").len() < body.len());
    // It was stopped for what it is, and did not only come to a stand.
    for event in findings(&border, 1) {
        assert_eq!(file_of(&event)["filename"], "spoilt.bin");
    }
    assert_eq!(border.status()["held"], 0, "{}", border.status());
    border.seen()
}

/// clamd refuses streams that are longer than its configuration says.
#[test]
fn overlong_files_are_scanned_in_parts() -> Tested {
    let test = "a scanner with short streams";
    let Some(mut border) = Border::new(test) else {
        return Ok(());
    };
    let Some(clamd) = Clamd::taking("1M", &[("Ringway.Test", VIRUS)])? else {
        return without(test, "clamd").map(drop);
    };
    let clean = random_bytes("longer than a stream", 3_000_000);
    serve(&border, 8_001, clean.clone(), true);
    // Across the end of the first stream, and in the last.
    for (port, at) in [(8_002, (1 << 20) - 20), (8_003, 2_900_000)] {
        let mut spoilt = clean.clone();
        spoilt[at..at + VIRUS.len()].copy_from_slice(VIRUS);
        serve(&border, port, spoilt, true);
    }
    up(&mut border, &clamd, SCAN);
    if fetch(&border, 8_001, "clean.bin") != clean {
        return wrong("a clean file did not arrive");
    }
    for port in [8_002, 8_003] {
        let arrived = fetch(&border, port, "spoilt.bin");
        if arrived.len() >= clean.len() {
            return wrong(format!("a virus arrived from port {port}"));
        }
    }
    let socket = clamd.socket();
    let doctor = ["gate", "doctor", "--clamd", &socket.to_string_lossy()];
    let outcome = border.program().run(doctor)?;
    if !outcome
        .stdout
        .contains("by descriptor, up to 1048576 bytes")
    {
        return wrong(outcome.stdout);
    }
    Ok(())
}

/// Gives a scanner a file in pieces of a mebibyte; what it finds in it.
fn look(scanner: &mut Clamav, direction: Direction, file: &[u8], whole: bool) -> Scanned {
    let pieces = file.chunks(1 << 20);
    let count = pieces.len();
    for (place, piece) in pieces.enumerate() {
        let job = ScanJob {
            flow: FlowId::default(),
            direction,
            number: u32::try_from(place + 1).unwrap(),
            bytes: piece.to_vec(),
            repeated: 0,
            at: u64::try_from(place << 20).unwrap(),
            first: place == 0,
            last: whole && place + 1 == count,
            name: None,
        };
        match scanner.scan(&job) {
            Scanned::Clean => {}
            found => return found,
        }
    }
    Scanned::Clean
}

/// Where a descriptor cannot be handed over, or too much is gathered, the file is streamed.
#[test]
fn file_is_passed_by_descriptor_or_streamed() -> Tested {
    let Some(clamd) = Clamd::start("Ringway.Test", VIRUS)? else {
        return without("files by descriptor and by stream", "clamd").map(drop);
    };
    let socket = clamd.socket();
    let socket = socket.to_str().unwrap();
    let mut clean = vec![b'.'; 60 << 20];
    let mut spoilt = clean.clone();
    spoilt[700..700 + VIRUS.len()].copy_from_slice(VIRUS);
    let found = |scanned: &Scanned| matches!(scanned, Scanned::Found(name) if name.starts_with("Ringway.Test"));
    let takes = Clamav::new(socket, None).takes()?.unwrap();
    assert_eq!((takes.stream, takes.descriptors), (100 << 20, true));
    for descriptors in [true, false] {
        let mut scanner = Clamav::new(
            socket,
            Some(Takes {
                descriptors,
                ..takes
            }),
        );
        let scanned = look(&mut scanner, Direction::FromServer, &clean, true);
        assert_eq!(scanned, Scanned::Clean, "{descriptors}");
        let scanned = look(&mut scanner, Direction::FromServer, &spoilt, true);
        assert!(found(&scanned), "{descriptors}: {scanned:?}");
    }
    // One that is under way has gathered so much that the next one finds no room in its midst.
    let mut scanner = Clamav::new(socket, Some(takes));
    clean.resize(90 << 20, b'.');
    look(&mut scanner, Direction::FromClient, &clean, false);
    let scanned = look(&mut scanner, Direction::FromServer, &spoilt, true);
    assert!(found(&scanned), "{scanned:?}");
    Ok(())
}
