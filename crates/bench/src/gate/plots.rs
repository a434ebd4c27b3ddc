//! The papers' figures of the gateway, of what has been measured: throughput and processor time of
//! the ladder (Figures 7 and 8), what the connection cache is worth (Figure 9), and transfers with
//! fast pass (Figure 10).

use std::path::Path;

use crate::figure::Figure;
use crate::plot::Bars;
use ringway_terminal::Failure;

/// A plot. Its bars are the figures of this metric and unit whose case begins or ends as it says.
struct Plot {
    name: &'static str,
    title: &'static str,
    metric: &'static str,
    unit: &'static str,
    /// Not said again at each bar.
    of: &'static str,
}

const PLOTS: [Plot; 8] = [
    Plot {
        name: "figure-7",
        title: "Files of 2 MB, 100 clients (kP2PADM, Figure 7)",
        metric: "throughput",
        unit: "Gbit/s",
        of: ", 100 clients, files of 2 MB",
    },
    Plot {
        name: "figure-7-pages",
        title: "Pages of 1 kB, 32 callers",
        metric: "connections",
        unit: "connections a second",
        of: ", 32 callers of pages of 1 kB",
    },
    Plot {
        name: "figure-8",
        title: "Processor time of the gateway's process, files of 2 MB (Figure 8)",
        metric: "processor_time",
        unit: "s/GB",
        of: ", 100 clients, files of 2 MB",
    },
    Plot {
        name: "figure-8-packets",
        title: "Processor time of a packet, clients and servers included",
        metric: "processor_time",
        unit: "µs",
        of: ", 32 callers of pages of 1 kB",
    },
    Plot {
        name: "figure-9",
        title: "Others beside a flood of reconnections to a blocked service (Figure 9)",
        metric: "throughput_of_others",
        unit: "Gbit/s",
        of: "64 callers, one attempt each 25 ms beside 8 clients of files of 2 MB, ",
    },
    Plot {
        name: "figure-9-drops",
        title: "New connections that match a blocked one, dropped",
        metric: "dropped",
        unit: "a second, one core sends",
        of: "reconnection flood, as fast as one core sends, ",
    },
    Plot {
        name: "figure-9-cost",
        title: "Processor time of a dropped SYN",
        metric: "processor_time",
        unit: "µs",
        of: "reconnection flood, 20000 SYNs/s, ",
    },
    Plot {
        name: "figure-10",
        title: "A file of 300 MB over a line with loss (Figure 10)",
        metric: "transfer_time",
        unit: "s",
        of: "300 MB, ",
    },
];

/// Draws those of which something was measured.
pub(super) fn draw(figures: &[Figure], folder: &Path) -> Result<(), Failure> {
    PLOTS.iter().try_for_each(|plot| {
        Bars {
            name: plot.name.to_owned(),
            title: plot.title.to_owned(),
            unit: plot.unit,
            bars: plot.bars(figures),
        }
        .draw(folder)
    })
}

impl Plot {
    /// Names and lengths; what is not above nothing has no place on this scale.
    fn bars(&self, figures: &[Figure]) -> Vec<(String, f64)> {
        // The processor time of a gateway is stated for each GB, and for each packet.
        let same_unit =
            |figure: &Figure| self.metric != "processor_time" || figure.unit.starts_with(self.unit);
        let measured = figures.iter().filter(|figure| figure.metric == self.metric);
        let measured = measured.filter(|figure| same_unit(figure) && figure.value > 0.0);
        let bars = measured.filter_map(|figure| {
            let case = figure.case.as_str();
            let name = case
                .strip_suffix(self.of)
                .or_else(|| case.strip_prefix(self.of))?;
            Some((name.to_owned(), figure.value))
        });
        bars.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::load::Kind;
    use crate::gate::{flood, pages, storm};

    fn figure(case: &str, metric: &'static str, unit: &'static str, value: f64) -> Figure {
        Figure::new("gate", case, metric, unit, &[value])
    }

    #[test]
    fn each_plot_has_its_own_figures() {
        let figures = [
            figure("a, 100 clients, files of 2 MB", "throughput", "Gbit/s", 1.0),
            figure(
                "a, 100 clients, files of 2 MB",
                "processor_time",
                "s/GB",
                0.5,
            ),
            figure(
                "a, 100 clients, files of 2 MB",
                "processor_time",
                "µs/packet",
                7.0,
            ),
            figure("a, 1 connection", "throughput", "Gbit/s", 2.0),
            figure("300 MB, 1 % lost, b", "transfer_time", "s", 3.0),
            figure("300 MB, 1 % lost, b", "throughput", "Mbit/s", 4.0),
            figure(
                "reconnection flood, as fast as one core sends, c",
                "dropped",
                "1/s",
                5.0,
            ),
            figure(
                "64 callers, one attempt each 25 ms beside 8 clients of files of 2 MB, d",
                "throughput_of_others",
                "Gbit/s",
                6.0,
            ),
            figure(
                "reconnection flood, 20000 SYNs/s, c",
                "processor_time",
                "µs",
                0.0,
            ),
        ];
        let drawn: Vec<_> = PLOTS
            .iter()
            .map(|plot| (plot.name, plot.bars(&figures)))
            .collect();
        let wanted: [(&str, &[(&str, f64)]); 8] = [
            ("figure-7", &[("a", 1.0)]),
            ("figure-7-pages", &[]),
            ("figure-8", &[("a", 0.5)]),
            ("figure-8-packets", &[]),
            ("figure-9", &[("d", 6.0)]),
            ("figure-9-drops", &[("c", 5.0)]),
            ("figure-9-cost", &[]),
            ("figure-10", &[("1 % lost, b", 3.0)]),
        ];
        for ((name, bars), (wanted_name, wanted)) in drawn.iter().zip(wanted) {
            let bars: Vec<(&str, f64)> = bars.iter().map(|(n, v)| (n.as_str(), *v)).collect();
            assert_eq!((*name, bars.as_slice()), (wanted_name, wanted));
        }
    }

    #[test]
    fn parts_call_their_cases_as_the_plots_do() {
        let flood = |pace: flood::Pace| format!("reconnection flood, {}, ", pace.name());
        let storm = format!(
            "{} callers, {}, ",
            storm::CALLERS,
            storm::Pace::Beside.name()
        );
        let pages = format!(", {} callers of pages of 1 kB", pages::CALLERS);
        let names = [
            format!(", {}", Kind::Files(100).name()),
            pages,
            storm,
            flood(flood::Pace::AtOnce),
            flood(flood::Pace::Steady),
        ];
        for name in names {
            assert!(PLOTS.iter().any(|plot| plot.of == name), "{name}");
        }
    }

    #[test]
    fn plots_are_files() {
        let folder = tempfile::tempdir().unwrap();
        let figures = [figure(
            "a, 100 clients, files of 2 MB",
            "throughput",
            "Gbit/s",
            1.0,
        )];
        draw(&figures, folder.path()).unwrap();
        assert!(folder.path().join("figure-7.svg").exists());
        assert!(
            !folder.path().join("figure-10.svg").exists(),
            "nothing was measured"
        );
    }
}
