//! `ringway gate swarms`: the torrents that flows named, and who inside was in them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
use jiff::Timestamp;
use ringway_gateway::InfoHash;
use ringway_gateway::accounting::FlowAccount;
use ringway_gateway::audit::FlowStore;
use ringway_gateway::policy::Action;
use ringway_terminal::{Failure, Table, visible};
use serde::Serialize;

use super::ask::{ask, unexpected};
use super::history::{Ended, open, since};
use super::message::{Reply, Request};
use crate::cli::SwarmsArgs;
use crate::context::Context;
use crate::limits::{MAX_SWARMS, SWARM_HOSTS};

/// A torrent, and what is known of it.
#[derive(Debug, Serialize)]
struct Swarm {
    infohash: InfoHash,
    /// What its author calls it, if that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Hosts of the own network, at most [`SWARM_HOSTS`].
    hosts: BTreeSet<IpAddr>,
    flows: u64,
    /// Flows that a rule blocked.
    blocked: u64,
    /// Of flows about this torrent alone.
    bytes: u64,
    first: String,
    last: String,
    #[serde(skip)]
    seen: RangeInclusive<Duration>,
}

/// A flow about a torrent.
#[derive(Debug, Serialize)]
struct Member<'a> {
    infohash: InfoHash,
    /// What the torrent's author calls it, if that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The host inside, with its port.
    host: SocketAddr,
    /// As which address and port the outside saw it; the same where nothing translates.
    outside: SocketAddr,
    /// The other end.
    peer: SocketAddr,
    protocol: u8,
    flow_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    /// Of all torrents that the flow is about.
    bytes: u64,
    /// How many those are.
    torrents: usize,
    began: String,
    /// Absent while it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

/// Shows torrents, or the flows about one.
pub(crate) async fn swarms(context: &Context, args: &SwarmsArgs) -> Result<(), Failure> {
    let now = now();
    let span = match args.at {
        Some(at) => at.saturating_sub(args.within)..=at.saturating_add(args.within),
        None => since(args.since).unwrap_or_default()..=now,
    };
    let live = live(context, args).await?;
    // A history without a gateway is told of; a gateway that has written nothing yet is none.
    let store = match open(&args.state) {
        Ok(store) => Some(store),
        Err(_) if live.is_some() => None,
        Err(failure) => return Err(failure),
    };
    let live = live.unwrap_or_default();
    let known: HashSet<u64> = live.iter().map(|flow| flow.flow_id).collect();
    let mut flows: Vec<(InfoHash, FlowAccount)> = Vec::new();
    let mut table = Swarms::default();
    let mut take = |hash: InfoHash, flow: FlowAccount| {
        let asked = args.infohash.is_none_or(|wanted| wanted == hash);
        let lived = flow.began <= *span.end() && last(&flow, now) >= *span.start();
        if !asked || !lived || !has_address(&flow, args.address) {
            return;
        }
        if args.infohash.is_some() {
            flows.push((hash, flow));
        } else {
            table.add(hash, &flow, now);
        }
    };
    if let Some(store) = &store {
        let searched = store.torrents(args.infohash, span.clone(), |hash, flow| {
            // The gateway has it as it stands now.
            if !known.contains(&flow.flow_id) {
                take(hash, flow);
            }
            Ok::<_, Ended>(())
        });
        searched.map_err(|Ended(why)| why)?;
    }
    let names = Names::of(&live, store);
    for flow in live {
        for hash in flow.torrents.clone() {
            take(hash, flow.clone());
        }
    }
    if args.infohash.is_some() {
        flows.sort_by_key(|(_, flow)| (last(flow, now), flow.flow_id));
        let over = flows.len().saturating_sub(args.most);
        return members(context, flows.get(over..).unwrap_or_default(), &names);
    }
    table.show(context, args.most, &names)
}

/// What torrents are called: as flows that live have shown it, and as it stands in the history.
struct Names {
    live: HashMap<InfoHash, String>,
    store: Option<FlowStore>,
}

impl Names {
    fn of(live: &[FlowAccount], store: Option<FlowStore>) -> Names {
        let names = live.iter().flat_map(|flow| &flow.torrent_names);
        let live = names.map(|named| (named.infohash, named.name.clone()));
        let live = live.collect();
        Names { live, store }
    }

    fn get(&self, hash: InfoHash) -> Result<Option<String>, Failure> {
        if let Some(name) = self.live.get(&hash) {
            return Ok(Some(name.clone()));
        }
        let name = self.store.as_ref().map(|store| store.torrent_name(hash));
        Ok(name.transpose().map_err(Failure::failed)?.flatten())
    }
}

/// The flows about torrents that live; `None`: no gateway answers.
async fn live(context: &Context, args: &SwarmsArgs) -> Result<Option<Vec<FlowAccount>>, Failure> {
    if !args.control.socket.exists() {
        return Ok(None);
    }
    match ask(context, &args.control.socket, &Request::Torrents).await {
        Ok(Reply::Torrents(flows)) => Ok(Some(flows)),
        Ok(other) => Err(unexpected(&other)),
        // It has ended, and left its socket.
        Err(_) => Ok(None),
    }
}

/// Torrents so far.
#[derive(Default)]
struct Swarms {
    known: BTreeMap<InfoHash, Swarm>,
    left_out: u64,
}

impl Swarms {
    fn add(&mut self, hash: InfoHash, flow: &FlowAccount, now: Duration) {
        if self.known.len() >= MAX_SWARMS && !self.known.contains_key(&hash) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let seen = flow.began..=last(flow, now);
        let swarm = self.known.entry(hash).or_insert_with(|| Swarm {
            infohash: hash,
            name: None,
            hosts: BTreeSet::new(),
            flows: 0,
            blocked: 0,
            bytes: 0,
            first: String::new(),
            last: String::new(),
            seen: seen.clone(),
        });
        swarm.flows = swarm.flows.saturating_add(1);
        let blocked = u64::from(flow.action == Some(Action::Block));
        swarm.blocked = swarm.blocked.saturating_add(blocked);
        if flow.torrents.len() == 1 {
            swarm.bytes = swarm.bytes.saturating_add(flow.total().bytes);
        }
        if swarm.hosts.len() < SWARM_HOSTS {
            swarm.hosts.insert(flow.host);
        }
        let (first, end) = (*swarm.seen.start(), *swarm.seen.end());
        swarm.seen = first.min(*seen.start())..=end.max(*seen.end());
    }

    fn show(self, context: &Context, most: usize, names: &Names) -> Result<(), Failure> {
        let mut swarms: Vec<Swarm> = self.known.into_values().collect();
        swarms.sort_by_key(|swarm| *swarm.seen.end());
        let over = swarms.len().saturating_sub(most);
        let output = context.output;
        let headings = [
            "INFOHASH", "HOSTS", "FLOWS", "BLOCKED", "BYTES", "FIRST", "LAST", "NAME",
        ];
        let mut table = Table::new(&headings);
        for mut swarm in swarms.drain(over..) {
            swarm.name = names.get(swarm.infohash)?;
            (swarm.first, swarm.last) = (text(*swarm.seen.start()), text(*swarm.seen.end()));
            if output.json() {
                output.object("ringway.gate.swarm/1", &swarm)?;
                continue;
            }
            table.row(&[
                swarm.infohash.to_string(),
                hosts(&swarm.hosts),
                swarm.flows.to_string(),
                swarm.blocked.to_string(),
                HumanBytes(swarm.bytes).to_string(),
                swarm.first,
                swarm.last,
                swarm.name.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        if self.left_out > 0 {
            let count = self.left_out;
            tracing::warn!(
                count,
                "flows of further torrents are left out: ask for less time (--since)"
            );
        }
        if output.json() {
            return Ok(());
        }
        output.line(table.text().trim_end())
    }
}

/// The first hosts, and how many more there are.
fn hosts(hosts: &BTreeSet<IpAddr>) -> String {
    let mut names: Vec<String> = hosts.iter().take(3).map(IpAddr::to_string).collect();
    if hosts.len() > 3 {
        names.push(format!("+{}", hosts.len().saturating_sub(3)));
    }
    names.join(" ")
}

/// Shows flows about a torrent.
fn members(
    context: &Context,
    flows: &[(InfoHash, FlowAccount)],
    names: &Names,
) -> Result<(), Failure> {
    let output = context.output;
    // All are about one.
    let hash = flows.first().map(|(hash, _)| *hash);
    let name = hash.map(|hash| names.get(hash)).transpose()?.flatten();
    let headings = [
        "HOST", "OUTSIDE", "PEER", "L4", "ACTION", "BYTES", "BEGAN", "ENDED",
    ];
    let mut table = Table::new(&headings);
    for (hash, flow) in flows {
        let member = Member {
            name: name.as_deref(),
            ..member(*hash, flow)
        };
        if output.json() {
            output.object("ringway.gate.swarm.flow/1", &member)?;
            continue;
        }
        let bytes = HumanBytes(member.bytes);
        table.row(&[
            member.host.to_string(),
            member.outside.to_string(),
            member.peer.to_string(),
            if member.protocol == 6 { "tcp" } else { "udp" }.to_owned(),
            member.action.map_or("-", Action::name).to_owned(),
            match member.torrents {
                0 | 1 => bytes.to_string(),
                count => format!("{bytes} of {count} torrents"),
            },
            member.began,
            member.ended.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    if output.json() {
        return Ok(());
    }
    if flows.is_empty() {
        return output.line("no flow about this torrent was seen then");
    }
    if let Some(name) = &name {
        output.line(&format!("name: {}", visible(name)))?;
    }
    output.line(table.text().trim_end())
}

fn member(infohash: InfoHash, flow: &FlowAccount) -> Member<'_> {
    let ends = flow.ends;
    let (host, peer) = if ends.server.ip() == flow.host {
        (ends.server, ends.client)
    } else {
        (ends.client, ends.server)
    };
    Member {
        infohash,
        name: None,
        host,
        outside: flow.outside.unwrap_or(host),
        peer,
        protocol: ends.protocol,
        flow_id: flow.flow_id,
        action: flow.action,
        rule: flow.rule.as_deref(),
        bytes: flow.total().bytes,
        torrents: flow.torrents.len(),
        began: text(flow.began),
        ended: flow.ended.map(text),
    }
}

/// One of its ends has this address, or the host has it outside.
fn has_address(flow: &FlowAccount, address: Option<IpAddr>) -> bool {
    address.is_none_or(|address| {
        let outside = flow.outside.map(|outside| outside.ip());
        let ends = [flow.ends.client.ip(), flow.ends.server.ip()];
        outside == Some(address) || ends.contains(&address)
    })
}

/// When it ended, or now while it lives.
fn last(flow: &FlowAccount, now: Duration) -> Duration {
    flow.ended.unwrap_or(now)
}

/// A time in UTC, to the second (RFC 3339).
fn text(time: Duration) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
