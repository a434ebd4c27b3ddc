//! The in-kernel path where this machine cannot do all of it: `auto` does what it can, and `kernel`
//! says what is missing.

use std::os::unix::fs::PermissionsExt as _;

use ringway_gateway::linux::kernel::ingress::listed;
use ringway_testbed::Program;

use super::beside::{Tested, wrong};
use super::border::{Border, SERVER};
use super::kernel::{
    BLOCK, Bpffs, HELLO, answered, block_somebody, border, drivers, echo, hooks, refused_again,
    refused_at,
};
use crate::not_tested;

const AUTO: [&str; 3] = ["--enforce", "--path", "auto"];
/// There is no tc.
const NO_TC: &str = "for tc in /sbin/tc /usr/sbin/tc /bin/tc /usr/bin/tc; do\n[ ! -e $tc ] || mount --bind /dev/null $tc\ndone";
/// iptables does not know the match `bpf`.
const NO_MATCH: &str = "find /usr/lib /lib /usr/local/lib -name libxt_bpf.so | while read module; do\nmount --bind /dev/null $module\ndone";

/// The program on the gateway, for which something is done before it starts. `ip netns exec` gives
/// it a place of its own for that.
fn behind(border: &Border, before: &str, by: &str) -> Tested<Program> {
    let program = env!("CARGO_BIN_EXE_ringway");
    let script = format!("#!/bin/sh\nset -e\n{before}\nexec {by} {program} \"$@\"\n");
    let file = border.file("behind", &script);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700))?;
    Ok(Program::new(&file).on(&border.gateway))
}

/// The parts that the gateway does without, by its first line.
fn without(border: &mut Border) -> Vec<String> {
    let ready = &border.daemon().ready;
    assert_eq!(ready["path"], "kernel", "{ready}");
    let parts = ready["without"].as_array().into_iter().flatten();
    parts
        .map(|without| {
            assert!(without["why"].is_string(), "{without}");
            without["part"].to_string()
        })
        .collect()
}

/// A peer is blocked, and the kernel refuses new connections that match it.
fn refuses(border: &Border) -> Tested {
    let server = format!("{SERVER}:6881");
    echo(border, &server)?;
    refused_at(border, &server)
}

/// How many folders of ours there are; the kernel itself may have put something there.
fn pinned(bpffs: &Bpffs) -> Tested<usize> {
    let ours =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("ringway");
    Ok(std::fs::read_dir(&bpffs.0)?.flatten().filter(ours).count())
}

/// Nothing of it is left, also none of its folders.
fn ended(border: &mut Border, bpffs: &Bpffs) -> Tested {
    let ended = border.daemon().terminate()?;
    let left = [border.traces(), hooks(border)?].concat();
    let pinned = pinned(bpffs)?;
    match (ended, left.is_empty(), pinned) {
        (Some(0), true, 0) => Ok(()),
        _ => wrong(format!("{ended:?}, {pinned} folders, {left}")),
    }
}

#[test]
fn gate_down_removes_what_a_killed_gateway_left() -> Tested {
    for at in ["tc", "xdp"] {
        let Some(mut border) = border("gate down after a killed gateway") else {
            return Ok(());
        };
        let bpffs = Bpffs::mount(border.folder.path())?;
        let kernel = ["--enforce", "--path", "kernel", "--cache-at", at];
        border.up(BLOCK, &[&kernel[..], &["--bpffs", &bpffs.0]].concat());
        block_somebody(&border, at)?;
        border.daemon().kill()?;
        let left = |border: &Border| -> Tested<_> {
            let hooked = [hooks(border)?, drivers(border)?].concat();
            Ok((border.traces(), hooked.contains("refuse"), pinned(&bpffs)?))
        };
        let before = left(&border)?;
        let (inside, outside) = (border.inside.clone(), border.outside.clone());
        let down = ["gate", "down", "--bpffs", &bpffs.0, &inside, &outside];
        let ended = border.program().run(down)?;
        assert_eq!(ended.code, Some(0), "{at}: {}", ended.stderr);
        let after = left(&border)?;
        let was_there = !before.0.is_empty() && before.1 && before.2 == 1;
        if !was_there || after != (String::new(), false, 0) {
            return wrong(format!("{at}: {before:?}, then {after:?}"));
        }
    }
    Ok(())
}

#[test]
fn packet_filter_programs_replace_missing_tc() -> Tested {
    let Some(mut border) = border("the in-kernel path without tc") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    let program = behind(&border, NO_TC, "")?;
    // Of a start that comes to nothing nothing stays, whatever it was that was wrong.
    let kernel = ["--enforce", "--path", "kernel", "--bpffs", &bpffs.0];
    // Kernels from 6.6 on take no tc for it.
    let takes_tc = border.gateway.enter(|| listed("lo").is_err())?;
    let wrong_policy = ("[[rule]]\nname = 7\n", 2, "policy.toml:2");
    let without_tc = takes_tc.then_some((BLOCK, 1, "`tc` is not installed"));
    for (policy, code, why) in without_tc.into_iter().chain([wrong_policy]) {
        let refused = program.run(border.gate_up(policy, &kernel))?;
        let left = (border.traces(), pinned(&bpffs)?);
        let said = refused.stderr.contains(why);
        if refused.code != Some(code) || !said || left != (String::new(), 0) {
            return wrong(format!("--path kernel: {refused:?}, {left:?}"));
        }
    }
    border.up_by(
        &program,
        BLOCK,
        &[&AUTO[..], &["--bpffs", &bpffs.0]].concat(),
    );
    let missing: &[&str] = if takes_tc { &["\"cache-at-tc\""] } else { &[] };
    assert_eq!(without(&mut border), missing);
    refuses(&border)?;
    ended(&mut border, &bpffs)
}

/// Only classes take tc.
#[test]
fn user_space_does_without_tc() -> Tested {
    let Some(mut border) = Border::new("a gateway without tc") else {
        return Ok(());
    };
    let program = behind(&border, NO_TC, "")?;
    let classes = "[classes.slow]\nrate = \"1 Mbit/s\"\n\n[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"slow\"\n";
    let user = ["--enforce", "--path", "user"];
    let refused = program.run(border.gate_up(classes, &user))?;
    if refused.code != Some(1) || !refused.stderr.contains("package iproute2") {
        return wrong(format!("{refused:?}"));
    }
    border.up_by(&program, BLOCK, &[&user[..], &["--leave"]].concat());
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    answered(&border, &server, HELLO, false)?;
    border.daemon().terminate()?;
    let down = program.run(["gate", "down", &border.inside, &border.outside])?;
    match border.traces() {
        traces if down.code == Some(0) && traces.is_empty() => Ok(()),
        traces => wrong(format!("{down:?}, {traces}")),
    }
}

#[test]
fn tc_replaces_missing_packet_filter_match() -> Tested {
    let Some(mut border) = border("the in-kernel path without xt_bpf") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    let program = behind(&border, NO_MATCH, "")?;
    border.up_by(
        &program,
        BLOCK,
        &[&AUTO[..], &["--bpffs", &bpffs.0]].concat(),
    );
    let parts = ["\"cache-in-filter\"", "\"passing\""];
    assert_eq!(without(&mut border), parts);
    // Before the program is there calls are asked about.
    block_somebody(&border, "tc")?;
    refused_again(&border, &format!("{SERVER}:6881"))?;
    ended(&mut border, &bpffs)
}

/// A tunnel's packets have no Ethernet header.
/// At other interfaces it stays where it was.
#[test]
fn tunnel_cache_stands_in_the_packet_filter() -> Tested {
    let Some(mut border) = border("the in-kernel path at a tunnel") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    let add = ["ip", "tuntap", "add", "dev", "tunnel0", "mode", "tun"];
    let Ok(_) = border.gateway.check(&add) else {
        not_tested("the in-kernel path at a tunnel: there is no /dev/net/tun");
        return Ok(());
    };
    let outside = std::mem::replace(&mut border.outside, "tunnel0".to_owned());
    let more = [
        "--path",
        "kernel",
        "--outside",
        &outside,
        "--bpffs",
        &bpffs.0,
    ];
    border.up(BLOCK, &[&["--enforce"], more.as_slice()].concat());
    let cache = border.daemon().ready["cache"].clone();
    let places: Vec<(String, String)> = cache
        .as_array()
        .into_iter()
        .flatten()
        .map(|placed| (placed["interface"].to_string(), placed["at"].to_string()))
        .collect();
    let at = |interface: &str, at: &str| (format!("\"{interface}\""), format!("\"{at}\""));
    let expected = [
        at(&border.inside, "tc"),
        at("tunnel0", "filter"),
        at(&outside, "tc"),
    ];
    assert_eq!(places, expected, "{cache}");
    border.outside = outside;
    refuses(&border)?;
    ended(&mut border, &bpffs)
}

/// What the how-to's unit gives. Not all can be tried by it, and what was not tried is no reason to
/// do without.
#[test]
fn the_capabilities_that_are_named_are_enough() -> Tested {
    let test = "the in-kernel path by few capabilities";
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    let by = "setpriv --bounding-set=-all,+net_admin,+net_raw,+bpf,+perfmon";
    let bpffs = Bpffs::mount(border.folder.path())?;
    let program = behind(&border, "", by)?;
    let can = program.run(["--version"])?;
    if can.code != Some(0) {
        not_tested(&format!("{test}: {}", can.stderr));
        return Ok(());
    }
    for path in ["auto", "kernel"] {
        let more = ["--enforce", "--path", path, "--bpffs", &bpffs.0];
        border.up_by(&program, BLOCK, &more);
        assert_eq!(without(&mut border), [""; 0], "--path {path}");
        let rules = border.gateway.check(&["iptables-save", "-t", "mangle"])?;
        let asks = |program: &&str| rules.contains(*program);
        if !["/refuse_new", "/triage"].iter().all(asks) {
            return wrong(format!("--path {path}: {rules}"));
        }
        ended(&mut border, &bpffs)?;
    }
    Ok(())
}
