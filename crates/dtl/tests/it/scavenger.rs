//! Priority 0: fills an idle link, keeps its queue, gives way, comes back, shares with its kind.

use ringway_dtl::{Config, LimitedBy, Mode};

use crate::link::{Link, Sim, jain};
use crate::{ms, secs};

#[test]
fn fills_an_idle_link_up_to_the_target() {
    let mut sim = Sim::new(Link::ten_megabit(400));
    let flow = sim.add(0.0);
    sim.run(secs(10));
    sim.longest_queue();
    let shares = sim.run(secs(60));
    assert!(shares[0] >= 0.97, "utilisation {}", shares[0]);
    let queue = sim.longest_queue();
    assert!(queue >= ms(90) && queue <= ms(115), "{queue:?}");
    assert_eq!(sim.loss(flow), 0.0);
    let report = sim.controller(flow).report();
    assert_eq!(
        (report.mode, report.limited_by),
        (Mode::Scavenger, LimitedBy::Yielding)
    );
    let base = report.base_delay.unwrap();
    assert!(base >= ms(20) && base <= ms(25), "{base:?}");
}

#[test]
fn fills_a_link_with_a_short_buffer() {
    let mut sim = Sim::new(Link::ten_megabit(20));
    sim.add(0.0);
    sim.run(secs(10));
    let shares = sim.run(secs(60));
    assert!(shares[0] >= 0.9, "utilisation {}", shares[0]);
}

#[test]
fn gives_way_to_reno_and_comes_back() {
    let mut sim = Sim::new(Link::ten_megabit(400));
    let scavenger = sim.add(0.0);
    sim.run(secs(20));
    let reno = sim.add_reno();
    sim.run(secs(10));
    let shares = sim.run(secs(60));
    assert!(
        shares[reno] >= 0.9 && shares[scavenger] <= 0.08,
        "{shares:?}"
    );
    sim.stop(reno);
    sim.run(secs(20));
    let shares = sim.run(secs(30));
    assert!(shares[scavenger] >= 0.95, "{shares:?}");
}

#[test]
fn late_comers_get_a_fair_share() {
    let mut sim = Sim::new(Link::ten_megabit(400));
    for _ in 0..3 {
        sim.add(0.0);
        sim.run(secs(20));
    }
    sim.run(secs(40));
    let shares = sim.run(secs(120));
    assert!(jain(&shares) >= 0.9, "{shares:?}");
    assert!(shares.iter().sum::<f64>() >= 0.95, "{shares:?}");
}

/// An outage, before it has found the path or as N flows: it goes on as what it was when it broke
/// off.
#[test]
fn an_outage_in_slow_start_is_over_soon() {
    let link = Link {
        rtt: ms(100),
        ..Link::ten_megabit(200)
    };
    for (priority, before) in [(0.0, ms(450)), (1.0, secs(20))] {
        let mut sim = Sim::new(link);
        let flow = sim.add_with(Config::default(), priority);
        sim.run(before);
        let now = sim.now();
        sim.controller(flow).on_congestion(now, true, false, now);
        sim.set_priority(flow, 0.0);
        sim.run(secs(4));
        let shares = sim.run(secs(2));
        assert!(shares[0] >= 0.9, "{priority}: {shares:?}");
    }
}

/// Whatever else it was: nothing came through for a while, and then the path is as it was.
#[test]
fn after_an_outage_its_window_is_soon_back() {
    for outages in [1, 5] {
        let link = Link {
            rtt: ms(100),
            ..Link::ten_megabit(200)
        };
        let mut sim = Sim::new(link);
        let flow = sim.add_with(Config::default(), 0.0);
        sim.run(secs(30));
        for _ in 0..outages {
            let now = sim.now();
            let controller = sim.controller(flow);
            controller.on_congestion(now, true, false, now);
            assert!(controller.window() < crate::link::PACKET);
            sim.run(ms(300));
        }
        sim.run(ms(2500));
        let shares = sim.run(secs(2));
        assert!(shares[0] >= 0.95, "{outages}: {shares:?}");
    }
}
