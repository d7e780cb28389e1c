//! The loss by step, as a table and as a chart.

use flambeau::{Error, ErrorKind, Result};
use plotters::prelude::*;
use std::path::Path;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// After how many steps.
    pub(crate) step: u64,
    /// The mean training loss since the measurement before, in nats a character.
    pub(crate) train: f64,
    /// The held-out loss, in nats a character.
    pub(crate) held_out: f64,
}

/// Writes `loss.csv` and `loss.svg` into `folder`.
///
/// # Errors
/// `Io` naming what could not be written.
pub(crate) fn write(folder: &Path, points: &[Point], bigram: f64) -> Result<()> {
    let rows: String = points.iter().map(|p| format!("{},{},{}\n", p.step, p.train, p.held_out)).collect();
    let table = folder.join("loss.csv");
    std::fs::write(&table, format!("step,train,held_out\n{rows}"))
        .map_err(|e| Error::from(e).context(table.display()))?;
    let picture = folder.join("loss.svg");
    draw(&picture, points, bigram)
        .map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", picture.display())))
}

/// Losses on the picture reach over so much at least: an axis without length has no marks.
const SHORTEST: f64 = 0.1;

fn draw(path: &Path, points: &[Point], bigram: f64) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let Some(last) = points.last() else { return Ok(()) };
    let values = points.iter().flat_map(|p| [p.train, p.held_out]).chain([bigram]);
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    let area = SVGBackend::new(path, (800, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(15)
        .caption("Character GPT: loss by step", ("sans-serif", 20))
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0..last.step.max(1), low * 0.95..high.max(low + SHORTEST) * 1.02)?;
    let font = ("sans-serif", 16);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .label_style(font)
        .x_desc("step")
        .y_desc("loss, nats a character")
        .draw()?;
    type Line = (&'static str, RGBColor, fn(&Point) -> f64);
    let lines: [Line; 2] = [("training", BLUE, |p| p.train), ("held out", RED, |p| p.held_out)];
    for (name, colour, value) in lines {
        let line = LineSeries::new(points.iter().map(|p| (p.step, value(p))), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .draw_series(LineSeries::new([(0, bigram), (last.step.max(1), bigram)], BLACK))?
        .label("bigram model")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], BLACK));
    let mut legend = chart.configure_series_labels();
    legend.label_font(font).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
