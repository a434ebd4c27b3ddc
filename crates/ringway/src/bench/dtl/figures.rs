//! From runs to figures, each beside what it is measured against.

use super::case::{Case, Contender};
use super::plan::Task;
use super::runs::Outcomes;
use crate::bench::figure::Figure;

/// The values of all runs of a case.
fn values(runs: &Outcomes, of: &Task, name: &str) -> Vec<f64> {
    let task = |run| Task { run, ..of.clone() };
    let outcomes = (1..).map_while(|run| runs.get(&task(run).to_string()));
    outcomes
        .filter_map(|outcome| outcome.values.get(name).copied())
        .collect()
}

/// Everything that the tasks say, in their order.
pub(super) fn figures(tasks: &[Task], runs: &Outcomes) -> Vec<Figure> {
    let firsts = tasks.iter().filter(|task| task.run == 1);
    firsts.flat_map(|task| of(task, runs)).collect()
}

/// The figures of one case in one cell.
fn of(task: &Task, runs: &Outcomes) -> Vec<Figure> {
    let Task {
        cell,
        contender,
        case,
        ..
    } = task;
    let name = format!("{cell} {contender} {case}");
    let own = |value| values(runs, task, value);
    let other = |contender, case, value| {
        let other = Task {
            contender,
            case,
            ..task.clone()
        };
        values(runs, &other, value)
    };
    let figure = |metric, unit, value| {
        let values = own(value);
        (!values.is_empty()).then(|| Figure::new("dtl", name.clone(), metric, unit, &values))
    };
    let against = |figure: Option<Figure>, name: &str, values: Vec<f64>| {
        figure.map(|figure| figure.against(name, &values))
    };
    let aim = |figure, aim: f64| against(figure, "aim", vec![aim]);
    let shown = match case {
        Case::Alone => vec![
            against(
                figure("throughput", "Mbit/s", "rate"),
                "noq-cubic",
                other(Contender::Noq, Case::Alone, "rate"),
            ),
            aim(
                figure("queueing delay, median", "ms", "queueing"),
                (cell.rtt_ms as f64 / 8.0).max(3.0),
            ),
            aim(figure("packets lost", "", "loss"), 0.001),
        ],
        Case::Tcp(_) => vec![figure("throughput of TCP", "Mbit/s", "tcp")],
        Case::Beside(control) => vec![
            against(
                figure("throughput of TCP", "Mbit/s", "tcp"),
                "TCP alone",
                other(Contender::Kernel, Case::Tcp(control), "tcp"),
            ),
            aim(figure("back after TCP", "s", "back"), 2.0),
        ],
        Case::Late(_) | Case::Equal => vec![
            aim(figure("Jain's index", "", "jain"), 0.99),
            figure("throughput", "Mbit/s", "rate"),
        ],
        Case::Worth(_) => vec![against(
            figure("share ÷ one CUBIC's", "", "share"),
            "kernel CUBICs",
            other(Contender::Kernel, *case, "share"),
        )],
        Case::Figure6 => vec![
            figure("share at 0 ÷ TCP's", "", "share-0"),
            figure("share at 1 ÷ TCP's", "", "share-1"),
            figure("share at 2 ÷ TCP's", "", "share-2"),
            figure("from 0 to 1", "s", "to-1"),
            figure("from 1 to 2", "s", "to-2"),
        ],
        Case::Figure7 => vec![
            aim(figure("Jain of five at 0", "", "jain-all-0"), 0.99),
            aim(figure("Jain of four at 1", "", "jain-four-1"), 0.99),
            figure("share of 0 beside them", "", "scavenger-beside"),
            aim(figure("two at 2 ÷ two at 1", "", "two-of-one"), 2.0),
        ],
    };
    shown.into_iter().flatten().collect()
}
