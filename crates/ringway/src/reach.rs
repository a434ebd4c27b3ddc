//! `ringway ping`, `ringway path` and `ringway route`: the way to a member or a key.

use ringway_node::control::{PathStatus, PathsStatus, Pong, Request, RouteFound, RouteTarget};

use ringway_node::versions::LINK;

use crate::cli::{PathArgs, PingArgs, RouteArgs};
use crate::context::Context;
use crate::request;
use crate::status;
use ringway_terminal::Failure;
use ringway_terminal::Table;

/// Measures the way to a peer; fails if not one answer came.
pub(crate) async fn ping(context: &Context, args: PingArgs) -> Result<(), Failure> {
    let request = Request::Ping {
        peer: args.peer.clone(),
        count: args.count,
        through_ring: args.through_ring,
    };
    let mut client = request::ask(context, &request).await?;
    let (mut sent, mut times) = (0_u32, Vec::new());
    while let Some(pong) = request::next_pong(&mut client).await? {
        sent += 1;
        times.extend(pong.rtt_ms);
        context
            .output
            .either("ringway.pong/1", &pong, || pong_line(&pong))?;
    }
    if times.is_empty() {
        return Err(Failure::failed(format_args!(
            "{} did not answer {sent} pings: `ringway path {}` says which ways there are",
            args.peer, args.peer
        )));
    }
    context.output.note(&ping_summary(sent, &times));
    Ok(())
}

/// Digits of a router's id that are shown where its name is not known.
const SHOWN_ROUTER_DIGITS: usize = 8;

/// An address for people. That of a relay is two ids of 52 characters: the name of the router says
/// as much.
pub(crate) fn shown(address: &str, via: Option<&str>) -> String {
    match (address.strip_prefix("relay://"), via) {
        (Some(_), Some(name)) => format!("relay via {name}"),
        (Some(ids), None) => {
            let router: String = ids.chars().take(SHOWN_ROUTER_DIGITS).collect();
            format!("relay via {router}…")
        }
        (None, _) => address.to_owned(),
    }
}

fn pong_line(pong: &Pong) -> String {
    let address = pong.address.as_deref();
    let address = address.map(|address| shown(address, pong.via.as_deref()));
    let way = match pong.ways {
        Some(0) => "through the ring".to_owned(),
        Some(1) => "through the ring, first way".to_owned(),
        Some(ways) => format!("through the ring, way {ways}"),
        None => address.unwrap_or_else(|| "no address".to_owned()),
    };
    match pong.rtt_ms {
        Some(rtt) => format!("{}  {} ({way})  {rtt:.3} ms", pong.sequence, pong.peer),
        None => format!("{}  {} ({way})  no answer", pong.sequence, pong.peer),
    }
}

fn ping_summary(sent: u32, times: &[f64]) -> String {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let mean = times.iter().sum::<f64>() / times.iter().map(|_| 1.0).sum::<f64>();
    format!(
        "{} of {sent} answered, least {least:.3} ms, mean {mean:.3} ms, most {most:.3} ms",
        times.len()
    )
}

/// Shows every way to a peer; fails if none leads there.
pub(crate) async fn path(context: &Context, args: PathArgs) -> Result<(), Failure> {
    let found = request::paths(context, args.peer).await?;
    context
        .output
        .either("ringway.paths/1", &found, || paths_text(&found))?;
    match found.reason {
        Some(reason) if !found.linked => Err(Failure::failed(format_args!(
            "{reason}; `ringway doctor` looks for what stands in the way on this machine"
        ))),
        _ => Ok(()),
    }
}

fn paths_text(found: &PathsStatus) -> String {
    if found.paths.is_empty() {
        return format!("no way to {} is known", found.peer);
    }
    let earlier = found.link_version.filter(|version| *version < LINK);
    let earlier = earlier.map(|version| {
        format!(
            "\nThe link is of version {version}, this build's newest is {LINK}: `{}` has an earlier build.",
            found.peer
        )
    });
    let mut table = Table::new(&[
        "ADDRESS", "USED FOR", "COST", "RTT", "LOSS", "PROVEN", "WHY",
    ]);
    for path in &found.paths {
        table.row(&cells(path));
    }
    table.text() + &earlier.unwrap_or_default()
}

fn cells(path: &PathStatus) -> [String; 7] {
    let unknown = || "-".to_owned();
    let rtt = path.rtt_ms.map(|rtt| format!("{rtt:.1} ms"));
    let loss = path.loss.map(|loss| format!("{:.0} %", loss * 100.0));
    let proven = path.proven_s.map(|age| format!("{age:.0} s ago"));
    let metered = if path.metered { " metered" } else { "" };
    [
        shown(&path.address, path.via.as_deref()),
        path.used_for.clone().unwrap_or_default(),
        format!("{}{metered}", path.cost),
        rtt.unwrap_or_else(unknown),
        loss.unwrap_or_else(unknown),
        proven.unwrap_or_else(|| "never".to_owned()),
        path.reason.clone(),
    ]
}

/// Looks up the router responsible for a member or a key.
pub(crate) async fn route(context: &Context, args: RouteArgs) -> Result<(), Failure> {
    let target = match (args.peer, args.key) {
        (Some(peer), _) => RouteTarget::Peer(peer),
        (None, Some(text)) => RouteTarget::Text(text),
        (None, None) => return Err(Failure::usage("name a member, or a key with --key")),
    };
    let found = request::route(context, &Request::Route { target }).await?;
    context
        .output
        .either("ringway.route/1", &found, || route_text(&found))
}

fn route_text(found: &RouteFound) -> String {
    let hops: Vec<String> = found.hops.iter().map(status::router).collect();
    let way = if hops.is_empty() {
        "known here".to_owned()
    } else {
        hops.join(" → ")
    };
    let verified = if found.verified {
        "verified"
    } else {
        "not verified: routers contradict each other, or too few answered"
    };
    format!(
        "target  {}\nowner   {} {}, {verified}\nhops    {way}\ntime    {:.2} ms",
        found.target,
        status::router(&found.owner),
        found.owner.ring_key,
        found.elapsed_ms
    )
}

#[cfg(test)]
mod tests {
    use super::{cells, ping_summary, shown};
    use ringway_node::control::PathStatus;

    #[test]
    fn a_relay_is_shown_by_its_router() {
        let relay = format!("relay://{}/{}", "so77".repeat(13), "36l7".repeat(13));
        assert_eq!(shown(&relay, Some("oslo")), "relay via oslo");
        assert_eq!(shown(&relay, None), "relay via so77so77…");
        assert_eq!(shown("udp://192.0.2.1:4", None), "udp://192.0.2.1:4");
    }

    #[test]
    fn nothing_is_known_of_a_silent_path() {
        let path = PathStatus {
            address: "udp://192.0.2.1:4".to_owned(),
            via: None,
            used_for: None,
            advertised: true,
            cost: 10,
            metered: false,
            latency: "interactive".to_owned(),
            mtu: 1_200,
            rtt_ms: None,
            loss: None,
            proven_s: None,
            heard_s: None,
            validated_s: None,
            reason: "why".to_owned(),
            last_error: None,
        };
        let shown = ["udp://192.0.2.1:4", "", "10", "-", "-", "never", "why"];
        assert_eq!(cells(&path), shown);
    }

    #[test]
    fn lost_pings_do_not_count_into_the_mean() {
        let summary = ping_summary(4, &[1.0, 3.0]);
        assert_eq!(
            summary,
            "2 of 4 answered, least 1.000 ms, mean 2.000 ms, most 3.000 ms"
        );
    }
}
