//! What a border takes, what this machine lacks of it, and what mends that.

use std::io::ErrorKind;
use std::path::Path;

use ringway_gateway::linux::namespaces::{Refused, Step};
use ringway_gateway::linux::tool::{IP, Tool, ToolError};

use super::hosts::INSIDE;
use super::message::Stop;

/// Where the kernel's settings are.
const SETTINGS: &str = "/proc/sys";
/// The chain in which the packet filter is tried.
const TRIAL: &str = "RINGWAY-DEMO";
const TC: Tool = Tool {
    name: "tc",
    package: "iproute2",
};
const IPTABLES: Tool = Tool {
    name: "iptables",
    package: "iptables",
};

/// What a rule of the gateway takes of the packet filter: the words of such a rule, and the modules
/// that have it.
const RULES: [(&str, &str); 5] = [
    ("-m conntrack --ctstate NEW", "nf_conntrack xt_conntrack"),
    ("-m mark --mark 1 -j MARK --set-mark 2", "xt_mark"),
    (
        "-m connmark --mark 1 -j CONNMARK --save-mark",
        "xt_connmark",
    ),
    ("-j CLASSIFY --set-class 1:1", "xt_CLASSIFY"),
    ("-j NFQUEUE --queue-num 1", "xt_NFQUEUE nfnetlink_queue"),
];

/// Why the system grants no namespaces, and what mends it.
pub(super) fn explain(refused: &Refused) -> String {
    let setting = |name: &str| std::fs::read_to_string(Path::new(SETTINGS).join(name)).ok();
    cause(refused, &setting)
}

/// The same, with the kernel's settings by their names.
fn cause(refused: &Refused, setting: &dyn Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| setting(name).is_some_and(|found| found.trim() == value);
    let without = "or run `sudo ringway demo`";
    let limit = match refused.step {
        Step::User | Step::Root => "max_user_namespaces",
        Step::Network => "max_net_namespaces",
        Step::Mounts | Step::Interfaces => "max_mnt_namespaces",
    };
    let unprivileged = "kernel/unprivileged_userns_clone";
    let apparmor = "kernel/apparmor_restrict_unprivileged_userns";
    if is(&format!("user/{limit}"), "0") || refused.error.kind() == ErrorKind::StorageFull {
        let name = format!("user.{limit}");
        return format!(
            "{name} allows no more namespaces: `sudo sysctl {name}=10000` mends it, {without}"
        );
    }
    if is(unprivileged, "0") {
        return format!(
            "kernel.unprivileged_userns_clone is 0, so that only root may make namespaces: \
             `sudo sysctl kernel.unprivileged_userns_clone=1` mends it, {without}"
        );
    }
    // AppArmor grants the namespace itself, and then nothing in it.
    if is(apparmor, "1") {
        return format!(
            "AppArmor restricts unprivileged user namespaces: \
             `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` mends it, {without}"
        );
    }
    if refused.error.kind() == ErrorKind::InvalidInput {
        return format!("this kernel has no user namespaces ({refused}): run `sudo ringway demo`");
    }
    format!("{refused}: a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN for it")
}

/// The tools are there.
pub(super) fn tools() -> Result<(), Stop> {
    for (tool, argument) in [(IP, "-V"), (TC, "-V"), (IPTABLES, "--version")] {
        tool.run(&[argument], "").map_err(|error| match error {
            ToolError::Missing(_, package) => Stop::Missing(format!(
                "{error}: `sudo apt-get install {package}` mends it"
            )),
            other => Stop::Missing(other.to_string()),
        })?;
    }
    Ok(())
}

/// The kernel can do what the gateway's rules and classes say; tried in this process's own network,
/// and taken out again.
pub(super) fn kernel() -> Result<(), Stop> {
    let filter = |words: &str| {
        let words = ["-t", "mangle"].into_iter().chain(words.split_whitespace());
        IPTABLES.run(&words.collect::<Vec<_>>(), "")
    };
    let lacks = |what: &str, modules: &str, error: ToolError| {
        Stop::Missing(format!(
            "the kernel lacks {what} ({error}): `sudo modprobe -a {modules}` mends it where they \
             are modules"
        ))
    };
    let table = "the packet filter's table mangle";
    filter(&format!("-N {TRIAL}")).map_err(|error| lacks(table, "nf_tables nft_compat", error))?;
    for (words, modules) in RULES {
        let rule = format!("the packet filter's `{words}`");
        filter(&format!("-A {TRIAL} {words}")).map_err(|error| lacks(&rule, modules, error))?;
    }
    let removed = filter(&format!("-F {TRIAL}")).and_then(|_| filter(&format!("-X {TRIAL}")));
    removed.map_err(|error| Stop::Failed(error.to_string()))?;
    let shaper = |verb| {
        TC.run(
            &["qdisc", verb, "dev", INSIDE, "root", "handle", "1:", "htb"],
            "",
        )
    };
    shaper("add").map_err(|error| lacks("classes of bandwidth (HTB)", "sch_htb", error))?;
    let removed = shaper("del");
    removed
        .map(drop)
        .map_err(|error| Stop::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn each_refusal_names_its_mend() {
        let refused = |step, number| Refused {
            step,
            error: Error::from_raw_os_error(number),
        };
        let (eperm, einval, enospc) = (1, 22, 28);
        for (step, number, name, value, mend) in [
            (
                Step::User,
                enospc,
                "user/max_user_namespaces",
                "0",
                "user.max_user_namespaces=10000",
            ),
            (
                Step::Network,
                enospc,
                "",
                "",
                "user.max_net_namespaces=10000",
            ),
            (
                Step::User,
                eperm,
                "kernel/unprivileged_userns_clone",
                "0",
                "kernel.unprivileged_userns_clone=1",
            ),
            (
                Step::Root,
                eperm,
                "kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (Step::User, einval, "", "", "sudo ringway demo"),
            (Step::Interfaces, eperm, "", "", "CAP_SYS_ADMIN"),
        ] {
            let setting = |asked: &str| (asked == name).then(|| format!("{value}\n"));
            let reason = cause(&refused(step, number), &setting);
            assert!(reason.contains(mend), "{reason}");
            assert!(!reason.contains('\n'), "{reason}");
        }
    }
}
