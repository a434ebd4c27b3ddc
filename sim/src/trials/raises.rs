//! Up from priority 0 beside a TCP: how long it takes until a flow has its share, and what that
//! costs.

use ringway_dtl::Algorithm;

use super::changes::due;
use super::{Figure, Rival, Setting, TREMBLES, Trial};
use crate::bottleneck::{CoDel, Discipline, Jitter, Path};

/// The cells that are measured against the kernel's TCP.
pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "raise-10-20",
        play: |a, s| raises(a, s, Path::drop_tail(10.0, 20, 1.0)),
    },
    Trial {
        name: "raise-10-20-deep",
        play: |a, s| raises(a, s, Path::drop_tail(10.0, 20, 4.0)),
    },
    Trial {
        name: "raise-10-20-codel",
        play: |a, s| {
            let mut path = Path::drop_tail(10.0, 20, 10.0);
            path.discipline = Discipline::CoDel(CoDel::default());
            raises(a, s, path)
        },
    },
    Trial {
        name: "raise-10-60",
        play: |a, s| raises(a, s, Path::drop_tail(10.0, 60, 1.0)),
    },
    Trial {
        name: "raise-1-60",
        play: |a, s| raises(a, s, Path::drop_tail(1.0, 60, 1.0)),
    },
    Trial {
        name: "raise-100-20",
        play: |a, s| raises(a, s, Path::drop_tail(100.0, 20, 1.0)),
    },
    Trial {
        name: "raise-100-60",
        play: |a, s| raises(a, s, Path::drop_tail(100.0, 60, 1.0)),
    },
];

/// When the priority changes, and for how long what came of it is looked at.
const AT: f64 = 60.0;
const AFTER: f64 = 40.0;

/// Of one who met the TCP at once, and of one who had the path to himself first: to 1, and to 3.
fn raises(algorithm: Algorithm, seed: u64, path: Path) -> Vec<Figure> {
    let mut setting = Setting::on(path, algorithm);
    setting.path.ack_jitter = Jitter::Uniform(TREMBLES);
    let due = due(&setting);
    let mut figures = Vec::new();
    for (tcp_begins, known) in [(0.0, "met TCP at once"), (30.0, "had it to itself")] {
        for priority in [1.0, 3.0] {
            let mut run = setting.run(seed);
            let flow = run.ours(0.0);
            run.tcp(tcp_begins, Rival::Cubic);
            run.to(AT);
            run.sim.set_priority(flow, priority);
            run.to(AT + AFTER);
            let name = |what: &str| format!("{known}, 0 to {priority}: {what}");
            let share = priority / (priority + 1.0);
            // At three quarters of what is due beside one TCP.
            let there = run.back(flow, 0.75 * share, AT);
            let later = run.share(flow, AT + AFTER / 2.0, AT + AFTER);
            let soon = run.share(flow, AT + due, AT + due + 4.0);
            let lost = run.dropped(flow, AT, AT + due);
            let more = (lost - run.dropped(flow, AT + due, AT + AFTER)).max(0.0);
            figures.extend([
                Figure::at_most(name("s"), there, due),
                Figure::at_most(name("soon ÷ later, no more"), soon / later, 1.5),
                Figure::at_most(name("more drops, %"), more * 100.0, 2.0),
            ]);
        }
    }
    figures
}
