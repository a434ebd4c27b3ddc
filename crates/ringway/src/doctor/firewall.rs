//! Whether this machine's packet filter lets in what others send to our ports. It is read, never
//! changed.

mod rules;

use super::finding::Findings;
use super::ports::{self, Port};
use super::subject::Subject;
use super::{Check, Look, Looking, program};
use rules::{Fate, Ruleset};

pub(super) const CHECK: Check = Check {
    name: "firewall",
    look: Look::InTime(look),
};

/// Which program looks after the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    Ufw,
    Firewalld,
    /// None that is known.
    Administrator,
}

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        let ports = ports::wanted(subject);
        let ports: Vec<Port> = ports
            .into_iter()
            .filter(|port| !port.at.ip().is_loopback())
            .collect();
        // A leaf on its own is sent nothing that it has not asked for.
        if ports.is_empty() {
            return;
        }
        if !rustix::process::geteuid().is_root() {
            return findings.note("rules", "only root sees them", "sudo ringway doctor");
        }
        let Some(said) = program::run("nft", &["-j", "list", "ruleset"]).await else {
            return findings.note(
                "rules",
                "not looked at: `nft` is missing",
                "sudo apt install nftables, or ask from another member: `ringway ping`",
            );
        };
        let Some(rules) = Ruleset::parse(&said.text) else {
            return findings.note("rules", "not understood", "sudo nft list ruleset");
        };
        let keeper = keeper().await;
        for port in ports {
            one(&port, &rules, keeper, findings);
        }
    })
}

fn one(port: &Port, rules: &Ruleset, keeper: Keeper, findings: &mut Findings) {
    let (word, number) = (port.protocol.word(), port.at.port());
    let at = format!("{word} {number} ({})", port.what);
    match rules.fate(word, number, port.at.is_ipv4()) {
        Fate::Accepted => findings.ok(&at, "let in"),
        Fate::Unknown => findings.note(
            &at,
            "let in or not: it hangs on more than the port",
            "ask from another member: `ringway ping NAME`",
        ),
        Fate::Dropped(by) => {
            let seen = format!("dropped by {by}");
            findings.wrong(&at, &seen, &mend(keeper, &by, word, number));
        }
    }
}

async fn keeper() -> Keeper {
    let ufw = program::run("ufw", &["status"]).await;
    if ufw.is_some_and(|said| said.text.contains("Status: active")) {
        return Keeper::Ufw;
    }
    let firewalld = program::run("firewall-cmd", &["--state"]).await;
    if firewalld.is_some_and(|said| said.success) {
        return Keeper::Firewalld;
    }
    Keeper::Administrator
}

fn mend(keeper: Keeper, chain: &str, protocol: &str, port: u16) -> String {
    match keeper {
        Keeper::Ufw => format!("sudo ufw allow {port}/{protocol}"),
        Keeper::Firewalld => format!(
            "sudo firewall-cmd --permanent --add-port={port}/{protocol} && sudo firewall-cmd --reload"
        ),
        Keeper::Administrator => {
            format!(
                "sudo nft insert rule {chain} {protocol} dport {port} accept, and where your rules are kept"
            )
        }
    }
}
