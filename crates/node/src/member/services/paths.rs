//! What `ringway path` shows: every way to a peer, and why it is or is not used; and what is asked
//! of paths.

use std::time::Duration;

use ringway_transport::{
    Address, AddressDescriptor, Advertised, LatencyClass, MemberId, PathReport, PathState, Protocol,
};

use tokio::sync::oneshot;

use crate::certificate::Certificate;
use crate::config::Config;
use crate::control::{PathStatus, PathsStatus};
use crate::link::{LinkVersion, Urgency};
use crate::member::core::{Core, UserRules};
use crate::member::handle::MemberHandle;
use crate::member::service::Service;
use crate::state::StateError;

/// What it is asked.
#[derive(Debug)]
pub(in crate::member) enum Command {
    /// For the ways to a peer.
    Ways {
        certificate: Box<Certificate>,
        reply: oneshot::Sender<Box<PathsStatus>>,
    },
    /// To try all that the link with this member may use.
    Race(MemberId),
    /// To follow what the user says now.
    Follow(UserRules),
}

impl MemberHandle {
    /// Every way to the peer that is known, or none when the member is stopping.
    pub(crate) async fn paths(&self, certificate: &Certificate) -> Option<PathsStatus> {
        let certificate = Box::new(certificate.clone());
        self.ask(|reply| Command::Ways { certificate, reply })
            .await
            .map(|paths| *paths)
    }

    /// Something that cannot wait hears nothing of this member: all paths to it are tried, and the
    /// first that answers is used.
    pub(crate) async fn race_paths(&self, member: MemberId) {
        self.tell(Command::Race(member)).await;
    }

    /// What this configuration says of paths, peers' addresses and passing on counts from now on.
    pub(crate) async fn configure(&self, config: &Config) {
        let rules = UserRules {
            paths: config.path_rules(),
            peers: config.peer.clone(),
            relay_rate: config.limits.relay,
        };
        self.tell(Command::Follow(rules)).await;
    }
}

/// Shows what the core knows of ways to a peer. It keeps nothing itself.
#[derive(Debug)]
pub(in crate::member) struct Paths;

impl Service for Paths {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<Paths, StateError> {
        Ok(Paths)
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        match command {
            Command::Ways { certificate, reply } => {
                let paths = Known { core }.paths_to(&certificate);
                core.reply(reply, Box::new(paths));
            }
            Command::Race(member) => {
                core.links.keep_working(core.now, &member, Urgency::AtOnce);
            }
            Command::Follow(rules) => {
                core.links.set_rules(core.now, &rules.paths);
                core.network.follow(rules);
            }
        }
    }
}

/// What is known of ways at one time.
struct Known<'a> {
    core: &'a Core,
}

impl Known<'_> {
    fn paths_to(&self, certificate: &Certificate) -> PathsStatus {
        let now = self.core.now;
        let member = certificate.member();
        let peer = self.core.links.up().find(|(id, _)| **id == member);
        let reports = peer.map(|(_, peer)| peer.path_reports(now));
        let advertised = self.core.validator.advertised(now, &member);
        let reports = reports.unwrap_or_default();
        let mut paths: Vec<PathStatus> = reports
            .iter()
            .map(|report| self.of_report(report, &advertised))
            .collect();
        let linked = self.core.links.is_up(&member);
        let known = |address: &Address| reports.iter().any(|report| report.address == *address);
        let others = advertised.iter().filter(|a| !known(&a.descriptor.address));
        paths.extend(others.map(|advertised| self.of_advertised(&member, advertised, linked)));
        let shown: Vec<String> = paths.iter().map(|path| path.address.clone()).collect();
        let configured = self
            .core
            .network
            .all_dial_addresses(certificate)
            .into_iter();
        let configured = configured.filter(|address| !shown.contains(&address.to_string()));
        paths.extend(configured.filter_map(|address| self.of_configured(address, linked)));
        let version = self.core.links.versions().of(&member).filter(|_| linked);
        PathsStatus {
            peer: certificate.name().to_string(),
            linked,
            reason: None,
            link_version: version.map(LinkVersion::number),
            other_version: self.core.other_version(&member),
            paths,
        }
    }

    /// An address of the configuration or the certificate that neither link nor HELLO has; none
    /// where there is a link and the address has not failed.
    fn of_configured(&self, address: Address, linked: bool) -> Option<PathStatus> {
        let last_error = self.core.network.last_error(&address).map(str::to_owned);
        if linked && last_error.is_none() {
            return None;
        }
        let rule = self.core.network.path_rules().of(&address);
        let descriptor = AddressDescriptor::observed(address);
        let address = &descriptor.address;
        let reason = match &last_error {
            Some(error) => error.clone(),
            None if self.core.network.carries(address) => "no answer yet".to_owned(),
            None if self.core.network.is_hidden() => {
                "this member hides its address: see `node.hide_address` in ringway.toml".to_owned()
            }
            None => no_transport(address),
        };
        Some(PathStatus {
            address: address.to_string(),
            via: self.core.directory.relay_name(address),
            used_for: None,
            advertised: false,
            cost: rule.and_then(|rule| rule.cost).unwrap_or(descriptor.cost),
            metered: rule.is_some_and(|rule| rule.metered),
            latency: latency(descriptor.latency).to_owned(),
            mtu: descriptor.mtu,
            rtt_ms: None,
            loss: None,
            proven_s: None,
            heard_s: None,
            validated_s: None,
            reason,
            last_error,
        })
    }

    /// An address that the link has no path for.
    fn of_advertised(
        &self,
        member: &MemberId,
        advertised: &Advertised,
        linked: bool,
    ) -> PathStatus {
        let descriptor = &advertised.descriptor;
        let rule = self.core.network.path_rules().of(&descriptor.address);
        let files = descriptor.protocol() == Protocol::Quic;
        let last_error = self.core.network.last_error(&descriptor.address);
        let last_error = last_error.map(str::to_owned);
        let reason = if !files && !self.core.carries(member, &descriptor.address) {
            no_transport(&descriptor.address)
        } else if let Some(again) = advertised.quota_used {
            PathState::QuotaUsed { again_in: again }.to_string()
        } else if advertised.usable && !linked {
            "was proven a while ago; there is no link now".to_owned()
        } else if files && advertised.usable {
            "proven; carries files, each over a connection of its own".to_owned()
        } else if advertised.usable {
            "proven; to be considered with the next message".to_owned()
        } else if let Some(error) = &last_error {
            error.clone()
        } else if advertised.validated.is_some() {
            "was proven; does not answer any more".to_owned()
        } else if advertised.unanswered == 0 {
            "not yet tested: the budget for tests is used up".to_owned()
        } else {
            unanswered(advertised.unanswered)
        };
        PathStatus {
            address: descriptor.address.to_string(),
            via: self.core.directory.relay_name(&descriptor.address),
            used_for: (files && advertised.usable && linked).then(|| "files".to_owned()),
            advertised: true,
            cost: rule.and_then(|rule| rule.cost).unwrap_or(descriptor.cost),
            metered: rule.is_some_and(|rule| rule.metered),
            latency: latency(descriptor.latency).to_owned(),
            mtu: descriptor.mtu,
            rtt_ms: None,
            loss: None,
            proven_s: seconds(advertised.validated),
            heard_s: None,
            validated_s: seconds(advertised.validated),
            reason,
            last_error,
        }
    }

    /// A path that the link knows.
    fn of_report(&self, report: &PathReport, advertised: &[Advertised]) -> PathStatus {
        let mut known = advertised
            .iter()
            .filter(|a| a.descriptor.address == report.address);
        let known = known.next();
        let messages = report.state == PathState::Active;
        let quic = report.address.protocol() == Protocol::Quic;
        let files = quic && known.is_some_and(|known| known.usable);
        let used_for = match (messages, files) {
            (true, true) => Some("messages, files"),
            (true, false) => Some("messages"),
            (false, true) => Some("files"),
            (false, false) => None,
        };
        let validated = known.and_then(|known| known.validated);
        // Either shows that it receives there, the latest counts.
        let proved = report.proved.into_iter().chain(validated).min();
        PathStatus {
            address: report.address.to_string(),
            via: self.core.directory.relay_name(&report.address),
            used_for: used_for.map(str::to_owned),
            advertised: report.advertised,
            cost: report.cost,
            metered: report.metered,
            latency: latency(report.latency).to_owned(),
            mtu: report.mtu,
            rtt_ms: report.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            loss: proved.map(|_| report.loss),
            proven_s: seconds(proved),
            heard_s: seconds(report.heard),
            validated_s: seconds(validated),
            reason: report.state.to_string(),
            last_error: self
                .core
                .network
                .last_error(&report.address)
                .map(str::to_owned),
        }
    }
}

fn no_transport(address: &Address) -> String {
    let scheme = address.protocol();
    format!("this member has no {scheme} transport: see `transports` in ringway.toml")
}

fn unanswered(pings: u32) -> String {
    match pings {
        1 => "has not answered a PING".to_owned(),
        pings => format!("has not answered {pings} PINGs"),
    }
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

fn latency(class: LatencyClass) -> &'static str {
    match class {
        LatencyClass::Interactive => "interactive",
        LatencyClass::Seconds => "seconds",
        LatencyClass::Minutes => "minutes",
    }
}
