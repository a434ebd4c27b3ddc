//! From runs to figures, each beside what it is measured against.

use super::case::{Case, Contender};
use super::changes;
use super::plan::Task;
use super::runs::Outcomes;
use crate::figure::Figure;

/// The values of all runs of a case; of those that failed there are none.
fn values(runs: &Outcomes, of: &Task, name: &str) -> Vec<f64> {
    let task = of.to_string();
    let (case, _) = task.rsplit_once('#').unwrap_or((&task, ""));
    runs.iter()
        .filter(|(task, _)| {
            task.rsplit_once('#')
                .is_some_and(|(other, _)| other == case)
        })
        .filter_map(|(_, outcome)| outcome.values.get(name).copied())
        .collect()
}

/// Everything that the tasks say, in their order.
pub(super) fn figures(tasks: &[Task], runs: &Outcomes) -> Vec<Figure> {
    let firsts = tasks.iter().filter(|task| task.run == 1);
    firsts.flat_map(|task| of(task, runs)).collect()
}

/// The runs of one case in one cell.
struct Runs<'a> {
    task: &'a Task,
    runs: &'a Outcomes,
    name: String,
}

impl Runs<'_> {
    /// A value of the case, if it was measured.
    fn figure(&self, metric: &'static str, unit: &'static str, value: &str) -> Option<Figure> {
        let values = values(self.runs, self.task, value);
        (!values.is_empty()).then(|| Figure::new("dtl", self.name.clone(), metric, unit, &values))
    }

    /// The same value of another contender or case of the cell.
    fn other(&self, contender: Contender, case: Case, value: &str) -> Vec<f64> {
        let other = Task {
            contender,
            case,
            ..self.task.clone()
        };
        values(self.runs, &other, value)
    }

    fn of_kernel(&self, value: &str) -> Vec<f64> {
        self.other(Contender::Kernel, self.task.case, value)
    }
}

fn against(figure: Option<Figure>, name: &str, values: &[f64]) -> Option<Figure> {
    figure.map(|figure| figure.against(name, values))
}

fn aim(figure: Option<Figure>, aim: f64) -> Option<Figure> {
    against(figure, "aim", &[aim])
}

/// The figures of one case in one cell.
fn of(task: &Task, runs: &Outcomes) -> Vec<Figure> {
    let name = format!("{} {} {}", task.cell, task.contender, task.case);
    let case = Runs { task, runs, name };
    let within = changes::due(&task.cell);
    let shown = match task.case {
        Case::Alone => alone(&case),
        Case::Upload => {
            let (rate, upload) = (case.of_kernel("rate"), case.of_kernel("upload"));
            let own = case.figure("throughput beside an upload", "Mbit/s", "rate");
            let theirs = case.figure("throughput of the upload", "Mbit/s", "upload");
            vec![
                against(own, "kernel CUBIC", &rate),
                against(theirs, "beside a kernel CUBIC", &upload),
            ]
        }
        Case::Tcp(_) => vec![
            case.figure("throughput of TCP", "Mbit/s", "tcp"),
            case.figure("queueing delay, median", "ms", "queueing"),
            case.figure("segments that TCP sent again", "", "tcp-again"),
        ],
        Case::Beside(control) => {
            let of_alone = |value| case.other(Contender::Kernel, Case::Tcp(control), value);
            let (alone, again) = (of_alone("tcp"), of_alone("tcp-again"));
            let more = case.figure("segments that TCP sent again", "", "tcp-again");
            let tcp = case.figure("throughput of TCP", "Mbit/s", "tcp");
            let back = case.figure("back after TCP", "s", "back");
            vec![
                against(tcp, "TCP alone", &alone),
                aim(back, 2.0),
                case.figure("packets lost beside TCP", "", "loss"),
                against(more, "TCP alone", &again),
            ]
        }
        Case::Late(_) => vec![
            aim(case.figure("Jain's index", "", "jain"), 0.99),
            case.figure("throughput", "Mbit/s", "rate"),
            aim(case.figure("packets lost", "", "loss"), 0.001),
        ],
        Case::Equal => vec![
            aim(case.figure("Jain's index", "", "jain"), 0.99),
            case.figure("throughput", "Mbit/s", "rate"),
        ],
        Case::Worth(_) => {
            let share = case.figure("share ÷ one CUBIC's", "", "share");
            vec![against(share, "kernel CUBICs", &case.of_kernel("share"))]
        }
        Case::Weights | Case::Peers | Case::Apart => vec![
            aim(case.figure("farthest from 1 : 2 : 4", "", "off"), 0.05),
            case.figure("throughput", "Mbit/s", "rate"),
        ],
        Case::Change => change(&case, within),
        Case::Deadline => deadline(&case),
        Case::Figure6 => vec![
            case.figure("share at 0 ÷ TCP's", "", "share-0"),
            case.figure("share at 1 ÷ TCP's", "", "share-1"),
            case.figure("share at 2 ÷ TCP's", "", "share-2"),
            aim(case.figure("from 0 to 1", "s", "to-1"), within),
            aim(case.figure("from 1 to 2", "s", "to-2"), within),
        ],
        Case::Figure7 => figure_7(&case, within),
    };
    shown.into_iter().flatten().collect()
}

fn deadline(case: &Runs<'_>) -> Vec<Option<Figure>> {
    vec![
        aim(
            case.figure("arrival ÷ time until the deadline", "", "came"),
            1.0,
        ),
        aim(
            case.figure("CUBIC beside it until the raise ÷ alone", "", "tcp-kept"),
            0.98,
        ),
        case.figure("CUBIC beside it ÷ alone", "", "tcp-got"),
        case.figure("from the begin to the raise", "s", "raised"),
        case.figure("highest priority", "", "highest"),
    ]
}

fn figure_7(case: &Runs<'_>, within: f64) -> Vec<Option<Figure>> {
    vec![
        aim(case.figure("Jain of five at 0", "", "jain-all-0"), 0.99),
        aim(case.figure("Jain of four at 1", "", "jain-four-1"), 0.99),
        case.figure("share of 0 beside them", "", "scavenger-beside"),
        aim(case.figure("two at 2 ÷ two at 1", "", "two-of-one"), 2.0),
        aim(case.figure("Jain of two at 2", "", "jain-two-2"), 0.99),
        aim(case.figure("the last from 0 to 1", "s", "to-1"), within),
        aim(case.figure("the last from 1 to 2", "s", "to-2"), within),
    ]
}

fn alone(case: &Runs<'_>) -> Vec<Option<Figure>> {
    let noq = case.other(Contender::Noq, Case::Alone, "rate");
    let rate = case.figure("throughput", "Mbit/s", "rate");
    let queueing = case.figure("queueing delay, median", "ms", "queueing");
    vec![
        against(rate, "noq-cubic", &noq),
        aim(queueing, (case.task.cell.rtt_ms as f64 / 8.0).max(3.0)),
        aim(case.figure("packets lost", "", "loss"), 0.001),
    ]
}

/// What changes of a priority take and cost, each beside the time after it.
fn change(case: &Runs<'_>, within: f64) -> Vec<Option<Figure>> {
    let later = |name: &str| values(case.runs, case.task, name);
    vec![
        aim(case.figure("from 1 to 4", "s", "to-4"), within),
        against(
            case.figure("packets lost at 4 by then", "", "loss-to-4"),
            "later",
            &later("loss-at-4"),
        ),
        against(
            case.figure("longest silence at 4 by then", "s", "silence-to-4"),
            "later",
            &later("silence-at-4"),
        ),
        // What TCP has not grown into yet is free.
        case.figure("from 4 to 0, as TCP grows", "s", "to-0"),
        against(
            case.figure("packets lost at 0 by then", "", "loss-to-0"),
            "later",
            &later("loss-at-0"),
        ),
        aim(case.figure("from 0 to 1", "s", "to-1"), within),
        against(
            case.figure("packets lost at 1 by then", "", "loss-to-1"),
            "later",
            &later("loss-at-1"),
        ),
        against(
            case.figure("longest silence at 1 by then", "s", "silence-to-1"),
            "later",
            &later("silence-at-1"),
        ),
    ]
}
