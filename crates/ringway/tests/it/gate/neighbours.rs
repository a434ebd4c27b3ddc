//! Programs that keep rules of their own on the gateway's machine: firewalls, containers, virtual
//! machines, VPNs. Each is the real one where it can be installed, in a room of its own on the
//! gateway.
//!
//! A neighbour is a script that knows `start`, `restart` and `stop`. What has to hold is the same
//! for all, with ours behind theirs and before them, and after theirs was restarted or reloaded,
//! which takes out or reorders rules: BitTorrent is blocked, pages pass, what they block is
//! blocked, and once the gateway has ended their rules are what they were, byte for byte.

mod room;

use std::path::Path;

use ringway_testbed::need;
use room::Room;

use super::beside::{Tested, until, wrong};
use super::border::{Border, SERVER};
use super::kernel::{ANYTHING, BLOCK, HELLO, answered, echo};
use super::scans::{fetch, serve};
use crate::not_tested;

/// Looks are so rare that rules come back only because their change is noticed.
const RARELY: [&str; 3] = ["--enforce", "--rules-look", "1h"];
const PAGE: &[u8] = b"a page that comes past both";
const PORT: u16 = 8_001;
/// What neighbours that filter are told to block: a port, or an address of the server.
const BLOCKED_PORT: u16 = 8_009;
const BLOCKED_ADDRESS: &str = "198.51.100.66";

/// A neighbour, and how it is treated.
struct Neighbour {
    name: &'static str,
    programs: &'static [&'static str],
    script: &'static str,
    /// It blocks connections to there.
    blocks: Option<&'static str>,
}

/// Where distributions put it.
const NETAVARK: [&str; 3] = [
    "/usr/lib/podman/netavark",
    "/usr/libexec/podman/netavark",
    "/usr/local/libexec/podman/netavark",
];
const PORT_BLOCKED: Option<&str> = Some("198.51.100.9:8009");

/// Its rules and everybody's, without counters and times.
fn rules(border: &Border) -> Tested<String> {
    let listed = border
        .gateway
        .check(&["nft", "--stateless", "list", "ruleset"])?;
    let lines = listed.lines().map(str::trim_end);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// The border with one neighbour on its gateway.
struct Street<'a> {
    neighbour: &'a Neighbour,
    border: Border,
    room: Room,
    /// The next port of the server at which there is no one yet.
    port: u16,
}

impl Street<'_> {
    fn tell(&self, word: &str) -> Tested {
        self.room.script(self.neighbour.script, word).map(drop)
    }

    fn up(&mut self) {
        self.border.up(BLOCK, &RARELY);
    }

    /// Ends the gateway; the others' rules have to be these then.
    fn end(&mut self, case: &str, before: &str) -> Tested {
        self.border.daemon().terminate()?;
        let after = rules(&self.border)?;
        match before == after {
            true => Ok(()),
            false => wrong(format!("{case}: rules were\n{before}\n\nand are\n{after}")),
        }
    }

    /// `gate doctor` finds those whose rules have names.
    fn is_known(&self) -> Tested {
        let looked = self.border.program().run(["--json", "gate", "doctor"])?;
        let name = format!("beside {}", self.neighbour.name);
        let found = looked.objects()?;
        let known = found.iter().any(|thing| thing["name"] == name.as_str());
        match known || ["nftables", "PPPoE"].contains(&self.neighbour.name) {
            true => Ok(()),
            false => wrong(format!("no `{name}` in {}", looked.stdout)),
        }
    }

    /// Our jumps are the first and the last of their chain.
    fn is_between_ours(&self) -> bool {
        let listed = self
            .border
            .gateway
            .check(&["iptables-save", "-t", "mangle"]);
        let listed = listed.unwrap_or_default();
        let of_hook = |line: &&str| line.starts_with("-A FORWARD ");
        let ends = (listed.lines().find(of_hook), listed.lines().rfind(of_hook));
        matches!(ends, (Some(first), Some(last))
            if first.ends_with("-j RINGWAY-MARK") && last.ends_with("-j RINGWAY-CROSSING"))
    }

    /// Pages pass, and BitTorrent does not, nor what the neighbour blocks.
    fn holds(&mut self, case: &str) -> Tested {
        let port = self.port;
        self.port += 1;
        let (border, neighbour) = (&self.border, self.neighbour);
        let state = || {
            let rules = border.gateway.check(&["iptables-save"]).unwrap_or_default();
            format!("{}, {case}: {}\n{rules}", neighbour.name, border.status())
        };
        until("our rules are not there", state, || self.is_between_ours())?;
        until("no page comes", state, || fetch(border, PORT, "a") == PAGE)?;
        // A port of its own each time: a new connection to a known one is refused by memory.
        let server = format!("{SERVER}:{port}");
        echo(border, &server)?;
        let tried = answered(border, &server, ANYTHING, true)
            .and_then(|()| answered(border, &server, HELLO, false))
            .and_then(|()| match neighbour.blocks {
                Some(blocked) => answered(border, blocked, ANYTHING, false),
                None => Ok(()),
            });
        tried.map_err(|error| format!("{error}\n{}", state()).into())
    }
}

fn lives_beside(neighbour: &Neighbour) -> Tested {
    let test = format!("beside {}", neighbour.name);
    if let Err(missing) = need(neighbour.programs) {
        not_tested(&format!(
            "{test}: {missing} is not installed (./setup.sh --tests)"
        ));
        return Ok(());
    }
    let Some(border) = Border::new(&test) else {
        return Ok(());
    };
    serve(&border, PORT, PAGE.to_vec(), true);
    border.with_addresses(&[BLOCKED_ADDRESS.parse()?]);
    echo(&border, &format!("{SERVER}:{BLOCKED_PORT}"))?;
    echo(&border, &format!("{BLOCKED_ADDRESS}:80"))?;
    let room = Room::new(&border)?;
    let mut street = Street {
        neighbour,
        border,
        room,
        port: 6_881,
    };

    // Theirs first, and restarted while ours stand.
    street.tell("start")?;
    street.tell("restart")?;
    street.is_known()?;
    let alone = rules(&street.border)?;
    street.up();
    street.holds("theirs first")?;
    street.tell("restart")?;
    street.holds("theirs restarted")?;
    street.end("theirs first", &alone)?;
    street.tell("stop")?;

    // Ours first, and theirs come and go.
    let left = rules(&street.border)?;
    street.up();
    street.tell("start")?;
    street.holds("ours first")?;
    street.tell("restart")?;
    street.holds("ours first, theirs restarted")?;
    street.tell("stop")?;
    street.end("ours first", &left)
}

#[test]
fn ufw_reloads_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "ufw",
        programs: &["ufw"],
        script: include_str!("neighbours/scripts/ufw.sh"),
        blocks: PORT_BLOCKED,
    })
}

#[test]
fn firewalld_reloads_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "firewalld",
        programs: &["firewalld", "firewall-cmd", "dbus-daemon"],
        script: include_str!("neighbours/scripts/firewalld.sh"),
        blocks: PORT_BLOCKED,
    })
}

#[test]
fn docker_restarts_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "docker",
        programs: &["dockerd", "docker"],
        script: include_str!("neighbours/scripts/docker.sh"),
        blocks: PORT_BLOCKED,
    })
}

/// Containers come and go: podman has no daemon, and `netavark` makes its rules.
#[test]
fn podman_networks_change_beside_the_gateway() -> Tested {
    let there = NETAVARK.iter().any(|path| Path::new(path).exists());
    if !there {
        not_tested("beside podman: netavark is not installed (./setup.sh --tests)");
        return Ok(());
    }
    lives_beside(&Neighbour {
        name: "podman",
        programs: &[],
        script: include_str!("neighbours/scripts/podman.sh"),
        blocks: None,
    })
}

#[test]
fn libvirt_restarts_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "libvirt",
        programs: &["libvirtd", "virsh", "dnsmasq"],
        script: include_str!("neighbours/scripts/libvirt.sh"),
        blocks: None,
    })
}

#[test]
fn fail2ban_reloads_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "fail2ban",
        programs: &["fail2ban-client"],
        script: include_str!("neighbours/scripts/fail2ban.sh"),
        blocks: Some("198.51.100.66:80"),
    })
}

/// By its rules: its program needs an account. The interface inside stands for `tailscale0`.
#[test]
fn rules_of_tailscale_come_and_go() -> Tested {
    not_tested("tailscaled: by the rules that it writes");
    lives_beside(&Neighbour {
        name: "tailscale",
        programs: &[],
        script: include_str!("neighbours/scripts/tailscale.sh"),
        blocks: None,
    })
}

/// A host whose rules are in `/etc/nftables.conf`, which begins with `flush ruleset`.
#[test]
fn nftables_ruleset_reloads_beside_the_gateway() -> Tested {
    lives_beside(&Neighbour {
        name: "nftables",
        programs: &["nft"],
        script: include_str!("neighbours/scripts/nftables.sh"),
        blocks: PORT_BLOCKED,
    })
}

/// By its rules: a dialled line's MSS has to be clamped, in the same chain as ours.
#[test]
fn clamped_mss_of_pppoe_stands_between_ours() -> Tested {
    not_tested("pppd: by the rule that is needed beside it, on a line of 1492 bytes");
    lives_beside(&Neighbour {
        name: "PPPoE",
        programs: &[],
        script: include_str!("neighbours/scripts/pppoe.sh"),
        blocks: None,
    })
}

/// Moves the network inside to an interface of this kind that lies on the one that there is, at
/// both ends. False: this kernel has none.
fn lies_on(border: &mut Border, kind: &str) -> Tested<bool> {
    let ends = [
        (&border.client, &border.client_interface, "10.66.0.2/24"),
        (&border.gateway, &border.inside, "10.66.0.1/24"),
    ];
    for (host, below, address) in ends {
        let made = match kind {
            "bond" => format!(
                "ip link add upper0 type bond mode active-backup && ip link set {below} down && \
                 ip link set {below} master upper0"
            ),
            kind => format!("ip link add link {below} name upper0 type {kind}"),
        };
        if host.run(&["sh", "-c", &made])?.code != Some(0) {
            return Ok(false);
        }
        let moved = format!(
            "ip address flush dev {below}; ip link set {below} up; ip address add {address} dev upper0; \
             ip link set upper0 up"
        );
        host.check(&["sh", "-c", &moved])?;
    }
    border.client.route("default", "10.66.0.1".parse()?)?;
    border.inside = "upper0".to_owned();
    Ok(true)
}

/// VLANs and bonds are interfaces like others; a macvlan stands for them where the kernel has
/// neither.
#[test]
fn vlans_and_bonds_are_borders_too() -> Tested {
    for kind in ["vlan id 7", "bond", "macvlan mode bridge"] {
        let test = format!("a border of kind `{kind}`");
        let Some(mut border) = Border::new(&test) else {
            return Ok(());
        };
        if !lies_on(&mut border, kind)? {
            not_tested(&format!("{test}: this kernel has none"));
            continue;
        }
        border.up(BLOCK, &RARELY);
        serve(&border, PORT, PAGE.to_vec(), true);
        let log = || format!("{kind}: {}", border.status());
        until("no page comes", log, || fetch(&border, PORT, "a") == PAGE)?;
        let server = format!("{SERVER}:6881");
        echo(&border, &server)?;
        answered(&border, &server, ANYTHING, true)?;
        answered(&border, &server, HELLO, false)?;
    }
    Ok(())
}
