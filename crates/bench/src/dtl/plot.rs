//! The paper's figures 6 and 7, and the worth of priorities, as SVG.

use std::path::Path;

use plotters::prelude::*;

use super::case::{Case, Series};
use super::plan::{PRIORITIES, Task};
use super::runs::Outcomes;
use crate::figure::{Figure, median};
use crate::plot::Bars;
use ringway_terminal::Failure;

/// Lines over time or over priorities.
struct Lines<'a> {
    file: String,
    title: String,
    axes: [&'a str; 2],
    series: Vec<Series>,
}

/// Draws what has been measured: a file for each run of figures 6 and 7, and one for each cell.
pub(super) fn draw(tasks: &[Task], runs: &Outcomes, folder: &Path) -> Result<(), Failure> {
    let firsts = tasks.iter().filter(|task| task.run == 1);
    for task in firsts.clone() {
        let Some(outcome) = runs.get(&task.to_string()) else {
            continue;
        };
        if outcome.series.is_empty() {
            continue;
        }
        let lines = Lines {
            file: file(&format!(
                "dtl {} {} {}",
                task.case, task.contender, task.cell
            )),
            title: format!("{}: {} at {}", task.case, task.contender, task.cell),
            axes: ["seconds", "Mbit/s"],
            series: outcome.series.clone(),
        };
        lines.draw(folder)?;
    }
    let mut cells = Vec::new();
    firsts.for_each(|task| {
        if !cells.contains(&task.cell) {
            cells.push(task.cell);
        }
    });
    for cell in cells {
        let mut series: Vec<Series> = Vec::new();
        for task in tasks
            .iter()
            .filter(|task| task.cell == cell && task.run == 1)
        {
            let Case::Worth(priority) = task.case else {
                continue;
            };
            let shares: Vec<f64> = tasks
                .iter()
                .filter(|other| {
                    (other.cell, &other.contender, other.case)
                        == (task.cell, &task.contender, task.case)
                })
                .filter_map(|other| runs.get(&other.to_string())?.values.get("share").copied())
                .collect();
            if shares.is_empty() {
                continue;
            }
            let name = task.contender.to_string();
            let point = (priority, median(&shares));
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series {
                    name,
                    points: vec![point],
                }),
            }
        }
        if series.iter().any(|series| series.points.len() > 1) {
            series.push(Series {
                name: "N".to_owned(),
                points: PRIORITIES.map(|priority| (priority, priority)).to_vec(),
            });
            let lines = Lines {
                file: file(&format!("dtl worth {cell}")),
                title: format!("what N is worth at {cell}"),
                axes: ["priority", "share ÷ one CUBIC's"],
                series,
            };
            lines.draw(folder)?;
        }
    }
    Ok(())
}

/// Draws bars for whatever was measured: a file for each metric, with all cells, and beside each
/// bar what it is measured against.
pub(super) fn draw_figures(figures: &[Figure], folder: &Path) -> Result<(), Failure> {
    let mut metrics: Vec<&Figure> = Vec::new();
    for figure in figures {
        if !metrics.iter().any(|other| other.metric == figure.metric) {
            metrics.push(figure);
        }
    }
    metrics.into_iter().try_for_each(|first| {
        let bars = Bars {
            name: format!("dtl {}", first.metric).replace([' ', ',', '\'', '÷', ':'], "-"),
            title: first.metric.to_owned(),
            unit: first.unit,
            bars: bars(figures, first.metric),
        };
        bars.draw(folder)
    })
}

/// Names and lengths; what is not above nothing has no place on a logarithmic scale.
fn bars(figures: &[Figure], metric: &str) -> Vec<(String, f64)> {
    let measured = figures.iter().filter(|figure| figure.metric == metric);
    let both = measured.flat_map(|figure| {
        let baseline = figure.baseline.iter().zip(figure.baseline_value);
        let against = baseline.map(|(name, value)| (format!("{}: {name}", figure.case), value));
        std::iter::once((figure.case.clone(), figure.value)).chain(against)
    });
    both.filter(|(_, length)| *length > 0.0).collect()
}

/// A name without what folders are separated by.
fn file(name: &str) -> String {
    format!("{}.svg", name.replace(['/', ' '], "-"))
}

impl Lines<'_> {
    fn draw(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(&self.file);
        self.try_draw(&path).map_err(|error| {
            Failure::failed(format_args!(
                "the plot {} could not be made: {error}",
                path.display()
            ))
        })
    }

    fn try_draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let right = points().map(|point| point.0).fold(0.0, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
        let root = SVGBackend::new(path, (900, 420)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(self.axes[0])
            .y_desc(self.axes[1])
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            chart
                .draw_series(LineSeries::new(series.points.iter().copied(), &colour))?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_a_file_with_its_aim() {
        let figure = |case: &str, metric, unit, value: f64| {
            Figure::new("dtl", case, metric, unit, &[value]).against("aim", &[2.0])
        };
        let figures = [
            figure(
                "10/20/1bdp ringway beside-cubic",
                "back after TCP",
                "s",
                1.4,
            ),
            figure(
                "10/60/1bdp ringway beside-cubic",
                "back after TCP",
                "s",
                2.3,
            ),
            figure(
                "10/20/1bdp ringway weights",
                "farthest from 1 : 2 : 4",
                "",
                0.01,
            ),
            figure("10/20/1bdp ringway alone", "packets lost", "", 0.0),
        ];
        let back = bars(&figures, "back after TCP");
        let lengths: Vec<f64> = back.iter().map(|bar| bar.1).collect();
        assert_eq!(lengths, [1.4, 2.0, 2.3, 2.0]);
        assert_eq!(back[1].0, "10/20/1bdp ringway beside-cubic: aim");
        assert_eq!(bars(&figures, "packets lost").len(), 1);
        let folder = tempfile::tempdir().unwrap();
        draw_figures(&figures, folder.path()).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "dtl-back-after-TCP.svg",
            "dtl-farthest-from-1---2---4.svg",
            "dtl-packets-lost.svg",
        ];
        assert_eq!(names, expected);
    }
}
