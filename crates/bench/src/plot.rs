//! A plot for every figure, as SVG.

use std::path::Path;

use plotters::prelude::*;

use ringway_terminal::Failure;

/// Bars with names, on a logarithmic scale.
#[derive(Debug)]
pub(super) struct Bars {
    /// Also the name of the file.
    pub(super) name: String,
    /// What stands above the plot.
    pub(super) title: String,
    /// What the bars' lengths mean.
    pub(super) unit: &'static str,
    /// Names and lengths; the lengths are above 0.
    pub(super) bars: Vec<(String, f64)>,
}

impl Bars {
    /// Writes `NAME.svg` into `folder`.
    pub(super) fn draw(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(format!("{}.svg", self.name));
        self.try_draw(&path).map_err(|error| {
            Failure::failed(format_args!(
                "the plot {} could not be made: {error}",
                path.display()
            ))
        })
    }

    fn try_draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        if self.bars.is_empty() {
            return Ok(());
        }
        let rows = i32::try_from(self.bars.len())?;
        let height = u32::try_from(rows)? * 26 + 120;
        // Room for the longest name, whose letters are some seven wide.
        let letters = self.bars.iter().map(|(name, _)| name.chars().count()).max();
        let label = u32::try_from(letters.unwrap_or(0))?
            .saturating_mul(7)
            .max(220);
        let size = (label.saturating_add(680), height);
        let root = SVGBackend::new(path, size).into_drawing_area();
        root.fill(&WHITE)?;
        let lengths = || self.bars.iter().map(|(_, length)| length.max(1e-6));
        let least = lengths().fold(f64::MAX, f64::min) / 2.0;
        let most = lengths().fold(0.0, f64::max) * 3.0;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(label)
            .build_cartesian_2d((least..most).log_scale(), (0..rows).into_segmented())?;
        let name = |row: &SegmentValue<i32>| match row {
            SegmentValue::CenterOf(row) => {
                let row = usize::try_from(rows - 1 - row).unwrap_or(usize::MAX);
                self.bars
                    .get(row)
                    .map_or(String::new(), |(name, _)| name.clone())
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc(self.unit)
            .y_labels(self.bars.len())
            .y_label_formatter(&name)
            .draw()?;
        let bars = (0..rows).rev().zip(&self.bars);
        chart.draw_series(bars.clone().map(|(row, (_, length))| {
            let (low, high) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
            let mut bar = Rectangle::new(
                [(least, low), (length.max(1e-6), high)],
                RGBColor(60, 110, 160).filled(),
            );
            bar.set_margin(4, 4, 0, 0);
            bar
        }))?;
        chart.draw_series(bars.map(|(row, (_, length))| {
            let place = (length.max(1e-6) * 1.05, SegmentValue::CenterOf(row));
            let size = ("sans-serif", 13).into_font();
            Text::new(format!("{length:.3}"), place, size)
        }))?;
        root.present()?;
        Ok(())
    }
}

/// Makes the folder for plots if it is not there, and finds out now whether files can be put there.
pub(super) fn writable(folder: &Path) -> Result<(), Failure> {
    let tried = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    tried.map(drop).map_err(|error| {
        Failure::usage(format_args!(
            "no plots can be put into `{}` (--plots): {error}",
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_names_its_bars() {
        let folder = tempfile::tempdir().unwrap();
        let bars = Bars {
            name: "figure".to_owned(),
            title: "title".to_owned(),
            unit: "seconds",
            bars: vec![("udp".to_owned(), 0.02), ("smtp".to_owned(), 20.0)],
        };
        bars.draw(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join("figure.svg")).unwrap();
        for part in ["udp", "smtp", "title", "seconds"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
