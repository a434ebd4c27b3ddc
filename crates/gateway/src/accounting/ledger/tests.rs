//! The two sources of an account, in any order.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::super::account::{Asked, EndReason, Ends, FlowAccount, KernelFlow, Named};
use super::super::totals::Grouping;
use super::{Ledger, Side};
use crate::classify::{Confidence, Details};
use crate::flow::Count;
use crate::limits::ACCOUNT_SETTLES;
use crate::policy::Action;

const START: Duration = Duration::from_secs(1_000);
const CLIENT: &str = "10.0.0.2:50000";
const SERVER: &str = "192.0.2.7:443";

fn at(seconds: u64) -> Duration {
    START.saturating_add(Duration::from_secs(seconds))
}

fn sides(address: IpAddr) -> Side {
    match address.to_string().as_str() {
        text if text.starts_with("10.") => Side::Inside,
        "192.0.2.254" => Side::Local,
        _ => Side::Outside,
    }
}

fn ends(client: &str, server: &str) -> Ends {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    Ends {
        protocol: 6,
        client: address(client),
        server: address(server),
    }
}

fn count(packets: u64, bytes: u64) -> Count {
    Count { packets, bytes }
}

fn kernel(id: u32, ends: Ends, counts: [Count; 2]) -> KernelFlow {
    KernelFlow {
        id,
        ends,
        called: ends.server,
        answered_at: ends.client,
        zone: 0,
        mark: 0,
        counts: Some(counts),
        began: None,
        ended: None,
        is_closed: false,
    }
}

/// What the gateway says of a flow, which it has seen three packets of.
fn view(flow_id: u64, ends: Ends) -> FlowAccount {
    FlowAccount {
        flow_id,
        ends,
        asked: Asked::Yes,
        app: "tls".to_owned(),
        confidence: Some(Confidence::Certain),
        named: Named::Itself,
        answered: true,
        details: Details::default(),
        torrents: Vec::new(),
        torrent_names: Vec::new(),
        action: Some(Action::Allow),
        rule: Some("web".to_owned()),
        class: None,
        over_quota: false,
        host: ends.client.ip(),
        outside: None,
        to_server: count(2, 120),
        to_client: count(1, 60),
        before: [Count::default(); 2],
        exact: false,
        began: at(0),
        ended: None,
        reason: None,
        kernel: None,
    }
}

fn ledger() -> Ledger {
    Ledger::new(START, Duration::from_secs(60))
}

fn reports(ledger: &mut Ledger) -> Vec<FlowAccount> {
    std::iter::from_fn(|| ledger.poll_report()).collect()
}

const CARRIED: [Count; 2] = [
    Count {
        packets: 700,
        bytes: 40_000,
    },
    Count {
        packets: 1_736,
        bytes: 100_090_490,
    },
];

#[test]
fn decided_flows_have_the_kernels_bytes() {
    let ends = ends(CLIENT, SERVER);
    for first_decided in [true, false] {
        let mut ledger = ledger();
        let destroyed = KernelFlow {
            ended: Some(at(9)),
            ..kernel(4, ends, CARRIED)
        };
        // The two sources do not wait for each other.
        if first_decided {
            ledger.handle_gateway(at(0), view(1, ends), &mut sides);
            ledger.handle_kernel(at(9), &destroyed, false, &mut sides);
        } else {
            ledger.handle_kernel(at(9), &destroyed, false, &mut sides);
            ledger.handle_gateway(at(9), view(1, ends), &mut sides);
            assert_eq!(reports(&mut ledger), []);
            ledger.handle_timeout(at(9).saturating_add(ACCOUNT_SETTLES));
        }
        let [flow] = reports(&mut ledger).try_into().unwrap();
        assert_eq!((flow.flow_id, flow.app.as_str()), (1, "tls"));
        assert_eq!([flow.to_server, flow.to_client], CARRIED);
        assert!(flow.exact);
        assert_eq!(
            (flow.ended, flow.reason),
            (Some(at(9)), Some(EndReason::Timeout))
        );
        assert_eq!(ledger.live().count(), 0);
        assert_eq!(ledger.totals().total(), count(2_436, 100_130_490));
    }
}

#[test]
fn unasked_flows_are_reported_as_such() {
    let mut ledger = ledger();
    let unasked = KernelFlow {
        ended: Some(at(5)),
        ..kernel(9, ends(CLIENT, SERVER), CARRIED)
    };
    ledger.handle_kernel(at(5), &unasked, false, &mut sides);
    // To this machine itself, and between two hosts outside: nothing crosses.
    for (client, server) in [
        ("10.0.0.2:1", "192.0.2.254:22"),
        ("192.0.2.9:1", "192.0.2.8:2"),
    ] {
        let other = KernelFlow {
            ends: ends(client, server),
            ..unasked
        };
        ledger.handle_kernel(at(5), &other, false, &mut sides);
    }
    ledger.handle_timeout(at(6));
    let [flow] = reports(&mut ledger).try_into().unwrap();
    assert_eq!((flow.asked, flow.action), (Asked::No, None));
    assert_eq!(flow.host.to_string(), "10.0.0.2");
    let rows = ledger.rows(Grouping::App);
    assert_eq!(rows[0].name, "not asked");
    assert_eq!(rows[0].totals.total().bytes, 100_130_490);
}

#[test]
fn flows_before_the_start_are_told_apart() {
    let mut ledger = ledger();
    ledger.begin_look();
    ledger.handle_kernel(
        at(0),
        &kernel(3, ends(CLIENT, SERVER), CARRIED),
        true,
        &mut sides,
    );
    ledger.end_look(at(0));
    assert_eq!(ledger.live().next().unwrap().asked, Asked::Before);
    // Asked about after all, as where its contents are followed.
    ledger.handle_gateway(at(1), view(1, ends(SERVER, CLIENT)), &mut sides);
    let flow = ledger.live().next().unwrap();
    // The gateway took the other end for the client: counts follow.
    assert_eq!([flow.to_client, flow.to_server], CARRIED);
    assert_eq!(flow.asked, Asked::Yes);
}

#[test]
fn closed_connections_end_before_the_kernel_forgets_them() {
    let mut ledger = ledger();
    let ends = ends(CLIENT, SERVER);
    ledger.handle_gateway(at(0), view(1, ends), &mut sides);
    let closed = KernelFlow {
        is_closed: true,
        ..kernel(4, ends, CARRIED)
    };
    let event = KernelFlow {
        counts: None,
        ..closed
    };
    ledger.handle_kernel(at(3), &event, false, &mut sides);
    assert_eq!(reports(&mut ledger), []);
    ledger.handle_kernel(at(4), &closed, true, &mut sides);
    let [flow] = reports(&mut ledger).try_into().unwrap();
    assert_eq!(
        (flow.ended, flow.reason),
        (Some(at(4)), Some(EndReason::Closed))
    );
    // What comes later is no second flow, and its packets are counted.
    let late = KernelFlow {
        ended: Some(at(124)),
        ..kernel(4, ends, [count(701, 40_052), CARRIED[1]])
    };
    ledger.handle_gateway(
        at(60),
        FlowAccount {
            ended: Some(at(60)),
            ..view(1, ends)
        },
        &mut sides,
    );
    ledger.handle_kernel(at(124), &late, false, &mut sides);
    assert_eq!(reports(&mut ledger), []);
    let totals = ledger.totals();
    assert_eq!((totals.flows, totals.live), (1, 0));
    assert_eq!(totals.to_server, count(701, 40_052));
}

#[test]
fn ports_used_again_are_two_flows() {
    let mut ledger = ledger();
    let ends = ends(CLIENT, SERVER);
    ledger.handle_gateway(at(0), view(1, ends), &mut sides);
    let closed = KernelFlow {
        is_closed: true,
        ..kernel(4, ends, CARRIED)
    };
    ledger.handle_kernel(at(1), &closed, true, &mut sides);
    ledger.handle_gateway(at(2), view(2, ends), &mut sides);
    // The end of the first comes late.
    let end = KernelFlow {
        ended: Some(at(3)),
        ..closed
    };
    ledger.handle_kernel(at(3), &end, false, &mut sides);
    let second = KernelFlow {
        ended: Some(at(8)),
        ..kernel(5, ends, [count(3, 300), count(4, 400)])
    };
    ledger.handle_kernel(at(8), &second, false, &mut sides);
    let flows = reports(&mut ledger);
    let ids: Vec<u64> = flows.iter().map(|flow| flow.flow_id).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(flows[1].total(), count(7, 700));
}

#[test]
fn dropped_flows_keep_the_gateways_counts() {
    let mut ledger = ledger();
    let ends = ends(CLIENT, SERVER);
    let blocked = FlowAccount {
        action: Some(Action::Block),
        ..view(1, ends)
    };
    ledger.handle_gateway(at(0), blocked.clone(), &mut sides);
    assert!(ledger.wants_look());
    ledger.begin_look();
    ledger.end_look(at(0));
    assert_eq!((reports(&mut ledger).len(), ledger.wants_look()), (0, true));
    ledger.begin_look();
    ledger.end_look(at(1));
    let [flow] = reports(&mut ledger).try_into().unwrap();
    assert_eq!((flow.reason, flow.exact), (Some(EndReason::Dropped), false));
    assert_eq!(flow.total(), count(3, 180));
    // What its client tried since is no other flow, and is counted.
    let forgotten = FlowAccount {
        ended: Some(at(9)),
        to_server: count(5, 300),
        ..blocked
    };
    ledger.handle_gateway(at(9), forgotten, &mut sides);
    assert_eq!(reports(&mut ledger), []);
    assert_eq!(ledger.totals().total(), count(6, 360));
    assert_eq!(ledger.totals().flows, 1);
}

#[test]
fn long_flows_are_reported_while_they_live() {
    let mut ledger = ledger();
    let ends = ends(CLIENT, SERVER);
    ledger.handle_gateway(at(0), view(1, ends), &mut sides);
    let mut seen = Vec::new();
    for minute in 1..=3_u64 {
        ledger.begin_look();
        let counts = [count(minute, minute.saturating_mul(100)), count(0, 0)];
        ledger.handle_kernel(
            at(minute.saturating_mul(60)),
            &kernel(4, ends, counts),
            true,
            &mut sides,
        );
        ledger.end_look(at(minute.saturating_mul(60)));
        seen.extend(reports(&mut ledger));
    }
    let bytes: Vec<u64> = seen.iter().map(|flow| flow.to_server.bytes).collect();
    assert_eq!(bytes, [100, 200, 300]);
    assert!(seen.iter().all(|flow| flow.ended.is_none()));
}

#[test]
fn flows_that_two_looks_miss_are_lost() {
    let mut ledger = ledger();
    let ends = ends(CLIENT, SERVER);
    ledger.handle_gateway(at(0), view(1, ends), &mut sides);
    ledger.begin_look();
    ledger.handle_kernel(at(1), &kernel(4, ends, CARRIED), true, &mut sides);
    ledger.end_look(at(1));
    for second in [2, 3] {
        assert_eq!(ledger.live().count(), 1);
        ledger.begin_look();
        ledger.end_look(at(second));
    }
    let [flow] = reports(&mut ledger).try_into().unwrap();
    assert_eq!(flow.reason, Some(EndReason::Lost));
    assert_eq!([flow.to_server, flow.to_client], CARRIED);
}
