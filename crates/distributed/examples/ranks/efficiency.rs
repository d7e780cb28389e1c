//! A picture of what the simulator says of 1 to 1,024 ranks, from a stated profile and stated networks: nothing in it is measured.

use flambeau_core::{Error, ErrorKind, Result};
use flambeau_distributed::simulate::{Network, Profile, Strategy, simulate};
use plotters::prelude::*;

/// The powers of two of ranks.
const LARGEST: u32 = 10;

const NETWORKS: [(&str, Network, RGBColor); 3] = [
    ("Ethernet of 10 Gb/s", Network::ETHERNET, RED),
    ("InfiniBand of 200 Gb/s", Network::INFINIBAND, BLUE),
    ("NVLink", Network::NVLINK, BLACK),
];

/// A model of a hundred million parameters of f32: 16 buckets of 25 MB, and a third of a second of computation.
fn profile() -> Profile {
    Profile { forward: 0.1, backward: vec![(0.2 / 16.0, 25e6); 16], optimizer: 0.02 }
}

/// The time of a step of one rank alone, in percent of that of a step of so many.
fn efficiency(network: Network, power: u32) -> f64 {
    let profile = profile();
    100.0 * simulate(&profile, network, 1 << power, Strategy::DataParallel).efficiency(&profile)
}

/// Draws the picture into a file.
///
/// # Errors
/// `Io` naming the file.
pub(crate) fn plot(file: &str) -> Result<()> {
    draw(file).map_err(|e| Error::new(ErrorKind::Io, format!("{file}: {e}")))?;
    println!("{file}: {} networks, 1 to {} ranks", NETWORKS.len(), 1 << LARGEST);
    Ok(())
}

fn draw(file: &str) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(file, (800, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(15)
        .caption("Simulated: efficiency of data parallel training", ("sans-serif", 20))
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0..LARGEST, 0.0..105.0)?;
    let font = ("sans-serif", 16);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).label_style(font).x_labels(LARGEST as usize + 1);
    mesh.x_label_formatter(&|power| (1 << power).to_string()).x_desc("ranks").y_desc("percent").draw()?;
    for (name, network, colour) in NETWORKS {
        let points = (0..=LARGEST).map(|power| (power, efficiency(network, power)));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::LowerLeft).label_font(font);
    legend.background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
