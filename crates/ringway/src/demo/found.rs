//! Steps 1 to 3: a ring is founded, members are enrolled and started, and the ring falls into
//! place.

use serde::Deserialize;
use serde_json::{Value, json};

use super::invariant::ring_holds;
use super::report::{Check, Done, Report};
use super::stage::{Member, Stage};
use crate::cli::DemoArgs;
use crate::limits::{DEMO_PORT_ATTEMPTS, DEMO_RING, DEMO_TRANSFER_SECONDS};
use crate::ports::{Ports, is_conflict};
use ringway_terminal::Failure;

/// The demo's domain; `.test` is reserved for such uses (RFC 6761 §6.2).
pub(super) const DOMAIN: &str = "demo.ringway.test";

/// The routers.
const ROUTERS: [&str; 5] = ["oslo", "lima", "cairo", "quito", "delhi"];

/// The leaves.
const LEAVES: [&str; 2] = ["alice", "bob"];

/// The leaf that sends files.
pub(super) const SENDER: &str = "alice";

#[derive(Deserialize)]
struct Invited {
    invite: String,
}

#[derive(Deserialize)]
struct Joined {
    member: String,
    ring_key: Option<String>,
}

/// The sender's upload limit in bytes a second: both files take a known time, long enough to watch
/// them share.
pub(super) fn upload_limit(args: &DemoArgs) -> u64 {
    let both = u64::from(args.size) * (1 << 20) * 3 / 2;
    both / DEMO_TRANSFER_SECONDS
}

/// All three steps; starts over with other ports if another program has taken one meanwhile.
pub(super) async fn steps(
    stage: &mut Stage,
    report: &mut Report,
    args: &DemoArgs,
) -> Result<(), Failure> {
    let mut ports = Ports::default();
    let mut attempt = 1;
    let founded = loop {
        report.begin("founding a ring, enrolling and starting its members");
        match found(stage, &mut ports, args).await {
            Err(failure) if is_conflict(&failure) && attempt < DEMO_PORT_ATTEMPTS => {
                attempt += 1;
                stage.clear().await?;
            }
            result => break result,
        }
    };
    report.end("members", founded)?;
    report.begin("waiting until the ring is in order");
    let settled = settle(stage).await;
    report.end("ring", settled)
}

async fn found(stage: &mut Stage, ports: &mut Ports, args: &DemoArgs) -> Result<Done, Failure> {
    stage.found(ports.next()?, ports.next()?).await?;
    let routers = ROUTERS
        .iter()
        .map(|&name| ports.next().map(|address| (name, Some(address), None)));
    let leaves = LEAVES
        .iter()
        .map(|&name| Ok((name, None, (name == SENDER).then(|| upload_limit(args)))));
    for planned in routers.chain(leaves).collect::<Vec<_>>() {
        let (name, listen, limit) = planned?;
        let mut member = Member::new(name, listen, stage.folder(), limit);
        join(stage, &mut member).await?;
        member.start(&stage.program).await?;
        stage.members.push(member);
    }
    let listed: Vec<Value> = stage
        .program
        .call(&stage.owner(), &["ring", "members"])
        .await?;
    let expected = ROUTERS.len() + LEAVES.len();
    let members: Vec<Value> = stage.members.iter().map(describe).collect();
    Ok(Done {
        shown: Vec::new(),
        text: format!(
            "ring {DOMAIN}: {} routers and {} leaves enrolled by invitation, a process each",
            ROUTERS.len(),
            LEAVES.len()
        ),
        checks: vec![Check::new(
            "members enrolled with certificates of the ring owner",
            listed.len() == expected,
            format!("{} of {expected}", listed.len()),
        )],
        details: json!({ "domain": DOMAIN, "members": members }),
    })
}

fn describe(member: &Member) -> Value {
    json!({
        "name": member.name,
        "member": member.id,
        "address": member.listen,
        "ring_key": member.ring_key,
        "upload_limit": member.upload_limit,
    })
}

async fn join(stage: &Stage, member: &mut Member) -> Result<(), Failure> {
    let role = if member.listen.is_some() {
        "router"
    } else {
        "leaf"
    };
    let invite = [
        "ring",
        "invite",
        member.name,
        "--role",
        role,
        "--expires",
        "1h",
    ];
    let invited: Invited = stage.program.call_one(&stage.owner(), &invite).await?;
    let listen = member.listen.map(|address| address.to_string());
    let mut arguments = vec!["join"];
    if let Some(listen) = &listen {
        arguments.extend(["--listen", listen]);
    }
    let joined: Vec<Joined> = stage
        .program
        .call_with_input(&member.home, &arguments, &invited.invite)
        .await?;
    for joined in joined {
        member.id = joined.member;
        member.ring_key = joined.ring_key;
    }
    Ok(())
}

async fn settle(stage: &Stage) -> Result<Done, Failure> {
    let started = tokio::time::Instant::now();
    let statuses = stage.wait_until(DEMO_RING, ring_holds).await?;
    let seconds = started.elapsed().as_secs_f64();
    let length = statuses
        .iter()
        .map(|status| status.successor_list_length)
        .max()
        .unwrap_or(0);
    Ok(Done {
        shown: Vec::new(),
        text: format!(
            "the ring is in order: every router knows its predecessor and {length} successors, every leaf its parents"
        ),
        checks: vec![Check::new(
            "ring invariant holds at every router",
            true,
            format!("after {seconds:.1} s"),
        )],
        details: json!({ "statuses": statuses }),
    })
}
