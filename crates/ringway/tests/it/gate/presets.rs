//! Policies that come with the program, at borders of the kind that they are for.

use std::fs;
use std::path::PathBuf;

use ringway_testbed::{Host, Running, Torrent, Wire, need, serve_tracker};

use super::beside::{Tested, refused, until, until_open, wrong};
use super::border::{Border, SERVER};
use super::both::{GatePath, on_each};
use super::scans::{fetch, serve};
use crate::{not_tested, random_bytes};

const PROGRAMS: [&str; 5] = [
    "wireguard-go",
    "wg",
    "aria2c",
    "transmission-daemon",
    "transmission-create",
];
const PAGE: &[u8] = b"a page that comes through the tunnel";
const PORT: u16 = 8_080;
const SEED: u16 = 7_001;
const FETCH: u16 = 7_002;
const FILE: usize = 1 << 20;
/// One end of a tunnel, in a `/run` of its own: the sockets of WireGuard's programs have the
/// interface's name, which is the same on all hosts here. What configures it ends by itself.
const END: &str =
    "set -e; mount --make-rprivate /; mount -t tmpfs tmpfs /run; mkdir -p /run/wireguard
    (until wg setconf wg0 \"$1\" 2> /dev/null; do sleep 0.1; done
     ip address add \"$2\" dev wg0; ip link set wg0 up; eval \"$3\"; touch \"$1.up\") &
    exec wireguard-go -f wg0";

/// A key of WireGuard, and the public one that belongs to it.
fn keys(host: &Host) -> Tested<[String; 2]> {
    let both = host.check(&[
        "sh",
        "-c",
        "key=$(wg genkey); echo $key; echo $key | wg pubkey",
    ])?;
    let mut lines = both.lines().map(str::to_owned);
    match (lines.next(), lines.next()) {
        (Some(private), Some(public)) => Ok([private, public]),
        _ => wrong(both),
    }
}

/// A WireGuard server on the gateway, and the client that sends everything through it.
struct Tunnel {
    _ends: [Running; 2],
}

impl Tunnel {
    fn up(border: &Border) -> Tested<Tunnel> {
        let ([server, server_public], [client, client_public]) =
            (keys(&border.gateway)?, keys(&border.client)?);
        let server = format!(
            "[Interface]\nPrivateKey = {server}\nListenPort = 51820\n\
             [Peer]\nPublicKey = {client_public}\nAllowedIPs = 10.8.0.2/32\n"
        );
        let client = format!(
            "[Interface]\nPrivateKey = {client}\n[Peer]\nPublicKey = {server_public}\n\
             Endpoint = 10.66.0.1:51820\nAllowedIPs = 0.0.0.0/0\n"
        );
        let begin = |host: &Host, name: &str, text: &str, [address, then]: [&str; 2]| {
            let file = border.file(name, text);
            let mut command = host.command("unshare");
            command.args(["--mount", "sh", "-c", END, "sh"]);
            command.arg(&file).args([address, then]);
            let log = border.folder.path().join(format!("{name}.log"));
            let running = Running::start(command, &log)?;
            let up = PathBuf::from(format!("{}.up", file.display()));
            until("no tunnel", || running.log_text(), || up.exists())?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(running)
        };
        let ends = [
            begin(
                &border.gateway,
                "server.conf",
                &server,
                ["10.8.0.1/24", "true"],
            )?,
            begin(
                &border.client,
                "client.conf",
                &client,
                ["10.8.0.2/24", "ip route replace default dev wg0"],
            )?,
        ];
        Ok(Tunnel { _ends: ends })
    }
}

/// Starts the gateway by the preset alone; returns what it says at the start.
fn up(border: &mut Border, path: GatePath, more: &[&str]) -> serde_json::Value {
    let (state, control) = (border.path("state"), border.path("gate.sock"));
    let words = [
        "--json",
        "gate",
        "up",
        "--exit-with-stdin",
        "--preset",
        "vpn",
    ];
    let words = words
        .into_iter()
        .chain(["--inside", "wg0", "--state", &state]);
    let words = words.chain(["--control", &control, "--path", path.word()]);
    let words: Vec<String> = words
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect();
    let program = border.program();
    border.begin(&program, words);
    border.daemon().ready.clone()
}

/// A server's own clients use BitTorrent: observed first, then blocked, and pages come all the
/// time. The tunnel is made after the gateway has started.
#[test]
fn vpn_preset_observes_then_blocks_through_wireguard() -> Tested {
    not_tested("WireGuard of the kernel: its ends are wireguard-go here, in user space");
    on_each(|path| {
        let test = "the preset of a VPN server";
        if let Err(missing) = need(&PROGRAMS) {
            not_tested(&format!(
                "{test}: {missing} is not installed (./setup.sh --tests)"
            ));
            return Ok(());
        }
        let Some(mut border) = Border::on(test, path) else {
            return Ok(());
        };
        border.masquerade()?;
        let default = ["ip", "route", "add", "default", "via", SERVER];
        border.gateway.check(&default)?;
        let ready = up(&mut border, path, &[]);
        let said = [&ready["mode"], &ready["missing"][0], &ready["outside"][0]];
        if said != ["observe", "wg0", &border.outside] {
            return wrong(ready.to_string());
        }
        let _tunnel = Tunnel::up(&border)?;
        serve(&border, PORT, PAGE.to_vec(), true);
        until("no page comes", String::new, || {
            fetch(&border, PORT, "a") == PAGE
        })?;

        let bytes = random_bytes("torrent", FILE);
        let peer = format!("{SERVER}:{SEED}").parse()?;
        let tracker = serve_tracker(&border.client, "127.0.0.1:6969".parse()?, peer)?;
        let torrent = Torrent::make(border.folder.path(), &bytes, &[tracker])?;
        let _seed = torrent.aria2(&border.server, "seed", SEED, Wire::Plain)?;
        until_open(&border, peer.into())?;
        let observed = torrent.transmission(&border.client, "observed", FETCH, Wire::Plain)?;
        let whole = |name: &str| fs::read(torrent.file(name)).is_ok_and(|file| file == bytes);
        until(
            "observed, it is not whole",
            || observed.log_text(),
            || whole("observed"),
        )?;
        drop(observed);
        border.audit_when(|events| {
            events.iter().any(|event| {
                let decision = &event["ringway"];
                decision["policy"] == "block"
                    && decision["action"] == "allowed"
                    && decision["rule"] == "no-bittorrent"
                    && event["src_ip"] == "10.8.0.2"
            })
        });

        border.daemon().terminate()?;
        up(&mut border, path, &["--enforce"]);
        let blocked = torrent.transmission(&border.client, "blocked", FETCH, Wire::Plain)?;
        let to_seed = |event: &serde_json::Value| event["dest_port"] == SEED;
        until(
            "nothing is refused",
            || blocked.log_text(),
            || refused(&border, to_seed) > 0,
        )?;
        if fetch(&border, PORT, "b") != PAGE {
            return wrong("pages come no more");
        }
        match fs::read(torrent.file("blocked")) {
            Ok(file) if file == bytes => wrong("it came through"),
            _ => Ok(()),
        }
    })
}

/// Each is shown as a file that `gate check` takes, and listed.
#[test]
fn presets_are_shown_as_files_that_pass() -> Tested {
    let folder = tempfile::tempdir()?;
    let listed = crate::program().run(["--json", "gate", "preset"])?;
    let listed = listed.objects()?;
    for preset in &listed {
        let name = preset["name"].as_str().unwrap_or_default();
        let shown = crate::program().run(["gate", "preset", name])?;
        if Some(shown.stdout.as_str()) != preset["policy"].as_str() {
            return wrong(format!("`{name}` is shown otherwise: {}", shown.stdout));
        }
        let file = folder.path().join(format!("{name}.toml"));
        fs::write(&file, &shown.stdout)?;
        let checked = crate::program().run(["gate", "check", &file.to_string_lossy()])?;
        if checked.code != Some(0) || !checked.stdout.contains("tests passed") {
            return wrong(format!("{}{}", checked.stdout, checked.stderr));
        }
    }
    match listed.len() {
        3 => Ok(()),
        count => wrong(format!("{count} presets")),
    }
}

const PAGES: [&str; 2] = [
    include_str!("../../../../../docs/how-to/no-bittorrent-through-wireguard.md"),
    include_str!("../../../../../docs/how-to/your-first-border.md"),
];

/// The files of options that the how-tos show are taken, and what they promise of it is printed.
#[test]
fn pages_show_options_that_are_taken() -> Tested {
    let folder = tempfile::tempdir()?;
    for page in PAGES {
        let Some(options) = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
        else {
            return wrong("a page shows no file of options");
        };
        let file = folder.path().join("gate.toml");
        fs::write(&file, options)?;
        let words = ["gate", "check", "--config", &file.to_string_lossy()];
        let checked = crate::program().run(words)?;
        if checked.code != Some(0) {
            return wrong(checked.stderr);
        }
        // What is said of the second file is on the first page.
        let flowing = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for promise in [
            "preset/vpn: 2 rules, 5 tests passed",
            "it enforces wg0 <-> where the default routes lead",
        ] {
            if flowing.contains(promise) && !checked.stdout.contains(promise) {
                return wrong(format!("`{promise}` is not in {}", checked.stdout));
            }
        }
    }
    match PAGES[0].contains("2 rules, 5 tests passed") && PAGES[1].contains("observing, 3 rules") {
        true => Ok(()),
        false => wrong("a promise has changed"),
    }
}
