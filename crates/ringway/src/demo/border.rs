//! Step 8: a client, a gateway and a server in namespaces of the demo's own: what the gateway does
//! with a BitTorrent transfer, a class of bandwidth and a file with a virus's signature.
//!
//! | module | does |
//! |---|---|
//! | `room` | the process in the namespaces, all of whose threads but two are the gateway's host |
//! | `requirements` | what a border takes, and what mends the lack of it |
//! | `hosts` | the three hosts and the lines between them |
//! | `gateway` | `gate up` as a process, and what is asked of it |
//! | `torrent`, `web` | what client and server speak |
//! | `message` | what the process tells the demo |

mod gateway;
mod hosts;
mod message;
mod requirements;
mod room;
mod torrent;
mod web;

use indicatif::HumanBytes;
use serde_json::json;
use tokio::time::timeout;

pub(crate) use room::run as run_room;

use self::message::{Said, Shown};
use super::report::{Check, Done, Report};
use super::stage::Stage;
use crate::limits::DEMO_BORDER;
use ringway_terminal::Failure;

/// The part of a class's rate that a download in it has at least on a busy machine, and at most:
/// headers are the class's as well, and it may have saved up a little.
const HELD: std::ops::RangeInclusive<f64> = 0.5..=1.05;

/// The whole step.
pub(super) async fn step(stage: &mut Stage, report: &mut Report) -> Result<(), Failure> {
    report.begin("a border in namespaces of its own");
    let result = border(stage, report).await;
    report.end("border", result)
}

async fn border(stage: &mut Stage, report: &mut Report) -> Result<Done, Failure> {
    let mut lines = stage.open_border()?;
    let mut last = None;
    let all = async {
        while let Some(said) = lines.next::<Said>().await? {
            match said {
                Said::Now { text } => report.go_on(&text),
                said => last = Some(said),
            }
        }
        Ok::<_, Failure>(())
    };
    let in_time = timeout(DEMO_BORDER, all).await;
    in_time.map_err(|_| Failure::failed("the demo's border did not end in time"))??;
    match last {
        Some(Said::Shown(shown)) => Ok(done(&shown)),
        Some(Said::Missing { reason }) => Ok(missing(reason)),
        Some(Said::Failed { reason }) => Err(Failure::failed(reason)),
        Some(Said::Now { .. }) | None => Err(Failure::failed(
            "the process with the demo's border ended without a result",
        )),
    }
}

/// This machine has no border to show.
fn missing(reason: String) -> Done {
    Done {
        text: format!("no border is shown here: {reason}"),
        shown: Vec::new(),
        details: json!({ "missing": reason }),
        checks: vec![Check::skipped(
            "a gateway at a border, in namespaces of the demo's own",
            "not possible here, see above",
        )],
    }
}

fn done(shown: &Shown) -> Done {
    let text = "a gateway between a client and a server, each in a network of its own: BitTorrent \
                blocked, a class held, a virus's signature stopped";
    Done {
        text: text.to_owned(),
        shown: vec![
            ("The gateway's policy".to_owned(), shown.policy.clone()),
            ("$ ringway gate top --once".to_owned(), shown.top.clone()),
            (
                format!("$ ringway gate why {}", shown.why.flow),
                shown.why.text.clone(),
            ),
        ],
        checks: checks(shown),
        details: json!(shown),
    }
}

fn checks(shown: &Shown) -> Vec<Check> {
    let Shown {
        torrent,
        class,
        files,
        why,
        ..
    } = shown;
    let part = class.measured / class.rate;
    vec![
        Check::new(
            "a BitTorrent transfer through the gateway is blocked",
            torrent.arrived < torrent.size,
            format!(
                "{} of {} arrived, all of it without the gateway",
                HumanBytes(torrent.arrived),
                HumanBytes(torrent.size)
            ),
        ),
        Check::new(
            "it stays blocked when its client connects again",
            torrent.again > 0 && torrent.arrived_again == 0,
            format!(
                "{} times in {:.1} s: {}",
                torrent.again,
                torrent.seconds,
                HumanBytes(torrent.arrived_again)
            ),
        ),
        Check::new(
            format!(
                "a download in a class of {} holds its rate",
                megabits(class.rate)
            ),
            HELD.contains(&part) && class.before > class.rate,
            format!(
                "{} over {:.1} s, {} without the gateway",
                megabits(class.measured),
                class.seconds,
                megabits(class.before)
            ),
        ),
        Check::new(
            "a file with the EICAR signature is stopped, a clean one arrives",
            files.clean_arrived && files.infected_arrived < files.infected,
            format!(
                "{}: {} of {} arrived; clean: {}",
                files.found,
                HumanBytes(files.infected_arrived),
                HumanBytes(files.infected),
                HumanBytes(files.clean)
            ),
        ),
        Check::new(
            "`gate why` names the rule that blocked the transfer",
            why.text.contains(&format!("block by {}", why.rule)),
            format!("{}, flow {}", why.rule, why.flow),
        ),
    ]
}

/// A rate for people.
fn megabits(bits: f64) -> String {
    format!("{:.1} Mbit/s", bits / 1e6)
}
