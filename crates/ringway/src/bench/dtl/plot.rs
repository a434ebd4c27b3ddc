//! The paper's figures 6 and 7, and the worth of priorities, as SVG.

use std::path::Path;

use plotters::prelude::*;

use super::case::{Case, Series};
use super::plan::{PRIORITIES, Task};
use super::runs::Outcomes;
use crate::bench::figure::median;
use crate::failure::Failure;

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
