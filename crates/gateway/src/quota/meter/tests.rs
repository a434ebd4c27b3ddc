//! Flows that are charged, moved, and moved back.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::{Above, QuotaMeter};
use crate::accounting::{Asked, EndReason, Ends, FlowAccount, KernelFlow, Named};
use crate::classify::Details;
use crate::flow::Count;
use crate::limits::QUOTA_RESETS;
use crate::policy::{Action, Policy};
use crate::quota::{QuotaBook, Subject};
use crate::verdict::{Mode, Offload};

const NOW: Duration = Duration::from_secs(1_800_000_000);
const HOST: [u8; 4] = [10, 0, 0, 2];

fn policy(over: &str) -> Policy {
    let text = format!(
        "[classes.fast]\nrate = \"9 Mbit/s\"\n[classes.slow]\nrate = \"1 Mbit/s\"\n\
         [[rule]]\nname = \"downloads\"\nport = 80\naction = \"shape\"\nclass = \"fast\"\n\
         quota = \"1 kB/month\"\nover = \"{over}\"\n"
    );
    Policy::parse(&text, &BTreeSet::new()).unwrap()
}

fn meter(over: &str) -> QuotaMeter {
    let mut meter = QuotaMeter::new(QuotaBook::new(TimeZone::UTC));
    meter.set_policy(NOW, &policy(over), Mode::Enforce);
    meter
}

fn kernel(id: u32, bytes: u64) -> KernelFlow {
    let ends = Ends {
        protocol: 6,
        client: SocketAddr::from((HOST, 50_000)),
        server: SocketAddr::from(([192, 0, 2, 7], 80)),
    };
    KernelFlow {
        id,
        ends,
        called: ends.server,
        answered_at: ends.client,
        zone: 0,
        mark: 0,
        counts: Some([
            Count {
                packets: 1,
                bytes: 0,
            },
            Count { packets: 1, bytes },
        ]),
        began: None,
        ended: None,
        is_closed: false,
    }
}

fn known(kernel: &KernelFlow) -> FlowAccount {
    let [to_server, to_client] = kernel.counts.unwrap();
    FlowAccount {
        flow_id: 7,
        ends: kernel.ends,
        asked: Asked::Yes,
        app: "http".to_owned(),
        confidence: None,
        named: Named::Itself,
        answered: true,
        details: Details::default(),
        torrents: Vec::new(),
        torrent_names: Vec::new(),
        action: Some(Action::Shape),
        rule: Some("downloads".to_owned()),
        class: Some("fast".to_owned()),
        over_quota: false,
        host: HOST.into(),
        outside: None,
        to_server,
        to_client,
        before: [Count::default(); 2],
        exact: true,
        began: NOW,
        ended: None,
        reason: None,
        kernel: None,
    }
}

fn ended(kernel: &KernelFlow) -> FlowAccount {
    FlowAccount {
        ended: Some(NOW),
        reason: Some(EndReason::Closed),
        kernel: Some(kernel.id),
        ..known(kernel)
    }
}

fn used(meter: &QuotaMeter) -> u64 {
    meter.book().rows().first().map_or(0, |row| row.used)
}

/// One look that shows this flow.
fn look(meter: &mut QuotaMeter, kernel: &KernelFlow, mark: Option<Offload>) -> Option<Offload> {
    meter.begin_look(NOW);
    let wanted = meter.handle_kernel(NOW, kernel, &known(kernel), mark, true);
    meter.end_look();
    wanted
}

#[test]
fn each_byte_is_charged_once() {
    let mut meter = meter("slow");
    let fast = Some(Offload::Shaped(0));
    assert_eq!(look(&mut meter, &kernel(1, 100), fast), None);
    look(&mut meter, &kernel(1, 150), fast);
    look(&mut meter, &kernel(1, 150), fast);
    meter.handle_report(NOW, &ended(&kernel(1, 170)));
    assert_eq!(used(&meter), 170);
    // The kernel still shows it for a while.
    meter.begin_look(NOW);
    meter.handle_kernel(NOW, &kernel(1, 175), &ended(&kernel(1, 175)), fast, true);
    meter.end_look();
    // One between the same ports, which no look has shown.
    meter.handle_report(NOW, &ended(&kernel(2, 30)));
    assert_eq!(used(&meter), 200);
}

/// What it carried before the gateway's start crossed at no known time.
#[test]
fn bytes_before_the_start_do_not_count() {
    let mut meter = meter("slow");
    let kernel = kernel(1, 5_000);
    let flow = FlowAccount {
        before: [
            Count::default(),
            Count {
                packets: 1,
                bytes: 4_900,
            },
        ],
        ..known(&kernel)
    };
    meter.begin_look(NOW);
    meter.handle_kernel(NOW, &kernel, &flow, None, true);
    assert_eq!(used(&meter), 100);
}

#[test]
fn running_flow_goes_to_the_class_and_back() {
    let mut meter = meter("slow");
    let slow = Some(Offload::Shaped(1));
    assert_eq!(
        look(&mut meter, &kernel(1, 1_000), Some(Offload::Shaped(0))),
        slow
    );
    assert_eq!(look(&mut meter, &kernel(1, 1_100), slow), None);
    // Whatever marks it by an older decision: the next look puts it back.
    let watched = Some(Offload::Watched);
    assert_eq!(
        look(&mut meter, &kernel(1, 1_200), watched),
        Some(Offload::WatchedIn(1))
    );
    assert_eq!(look(&mut meter, &kernel(1, 1_200), None), None);
    // While observing nothing is carried out; what is shaped goes free.
    meter.set_policy(NOW, &policy("slow"), Mode::Observe);
    assert_eq!(
        look(&mut meter, &kernel(1, 1_300), slow),
        Some(Offload::Allowed)
    );
    assert_eq!(
        look(&mut meter, &kernel(1, 1_300), Some(Offload::Allowed)),
        None
    );
    meter.set_policy(NOW, &policy("slow"), Mode::Enforce);
    assert_eq!(
        look(&mut meter, &kernel(1, 1_300), Some(Offload::Allowed)),
        slow
    );
    let month = NOW + Duration::from_secs(40 * 86_400);
    meter.begin_look(month);
    let flow = kernel(1, 1_300);
    let back = meter.handle_kernel(month, &flow, &known(&flow), slow, true);
    assert_eq!(back, Some(Offload::Shaped(0)));
}

#[test]
fn running_flow_is_reset_or_dropped() {
    let mut meter = meter("block");
    let fast = Some(Offload::Shaped(0));
    // Its queue resets it with its next packet.
    assert_eq!(
        look(&mut meter, &kernel(1, 1_000), fast),
        Some(Offload::Watched)
    );
    assert_eq!(
        look(&mut meter, &kernel(1, 1_000), Some(Offload::Blocked)),
        None
    );
    // What its ends send again is dropped, and does not count.
    look(&mut meter, &kernel(1, 9_000), Some(Offload::Blocked));
    assert_eq!(used(&meter), 1_000);
    // No queue knows another.
    meter.begin_look(NOW);
    let flow = kernel(2, 10);
    let wanted = meter.handle_kernel(NOW, &flow, &known(&flow), fast, false);
    assert_eq!(wanted, Some(Offload::Blocked));
    // A third is asked about and stays as it is.
    for _ in 0..QUOTA_RESETS {
        let wanted = look(&mut meter, &kernel(3, 10), fast);
        assert_eq!(wanted, Some(Offload::Watched));
    }
    assert_eq!(
        look(&mut meter, &kernel(3, 10), fast),
        Some(Offload::Blocked)
    );
}

#[test]
fn flow_outlives_the_gateway_that_counted_it() {
    let mut first = meter("slow");
    look(&mut first, &kernel(1, 800), Some(Offload::Shaped(0)));
    let shutdown = FlowAccount {
        reason: Some(EndReason::Shutdown),
        ..ended(&kernel(1, 900))
    };
    first.handle_report(NOW, &shutdown);
    let (counters, flows) = (first.book_mut().take_unsaved(), first.take_unsaved());
    assert_eq!(flows[0].kept.as_ref().unwrap().charged, 900);
    let mut book = QuotaBook::new(TimeZone::UTC);
    book.load(counters);
    let mut second = QuotaMeter::new(book);
    second.load(flows);
    second.set_policy(NOW, &policy("slow"), Mode::Enforce);
    // The next run was not asked about it, and does not know its rule.
    let unknown = |kernel: &KernelFlow| FlowAccount {
        asked: Asked::Before,
        rule: None,
        action: None,
        before: kernel.counts.unwrap(),
        ..known(kernel)
    };
    let flow = kernel(1, 1_100);
    second.begin_look(NOW);
    let mark = Some(Offload::Shaped(0));
    let wanted = second.handle_kernel(NOW, &flow, &unknown(&flow), mark, false);
    assert_eq!((wanted, used(&second)), (Some(Offload::Shaped(1)), 1_100));
    let kept = second.take_unsaved()[0].kept.clone().unwrap();
    assert_eq!(
        (kept.above, kept.subject),
        (Above::Shaped, Subject::Host(HOST.into()))
    );
    // One that is over meanwhile is forgotten.
    for _ in 0..3 {
        second.begin_look(NOW);
        second.end_look();
    }
    assert_eq!(second.take_unsaved()[0].kept, None);
}
