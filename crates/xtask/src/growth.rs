//! `cargo xtask growth`: the time by the number of elements for one operator of each family, as a table and a chart, with the largest
//! jump of each.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Args;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::worker::{Measured, Worker, both_orders, ours, output, progress};
use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs only the families whose name matches this regular expression.
    #[arg(long, default_value = "")]
    filter: String,
    /// Threads, on both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// A Python that has torch: runs PyTorch too.
    #[arg(long, value_name = "PYTHON")]
    against: Option<String>,
    /// Seconds of samples for each size.
    #[arg(long, default_value = "0.03")]
    seconds: String,
    /// Writes the table and the chart into `docs/`.
    #[arg(long)]
    write: bool,
}

const TORCH: &str = "crates/flambeau/benches/workloads/torch_growth.py";
const WHO: [&str; 2] = ["Flambeau", "PyTorch"];

/// Nanoseconds by number of elements; the minimum of two runs.
type Curve = BTreeMap<u64, f64>;

/// The curves of each family, ours first.
type Curves = BTreeMap<String, Vec<Curve>>;

pub(crate) fn run(options: &Options) -> Outcome {
    let names = output(ours().args(["--growth", "--list", &filter(options)]))?;
    let sides = 1 + usize::from(options.against.is_some());
    let mut workers = Worker::start_all((0..sides).map(|side| command(options, side)))?;
    let bar = progress(names.lines().count())?;
    let mut curves = Curves::new();
    for name in names.lines() {
        bar.set_message(name.to_owned());
        for side in both_orders(sides) {
            if let Some(one) = workers[side].measure(name)? {
                add(&mut curves, sides, side, &one)?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    report(&curves);
    if options.write {
        write(&curves, options.threads)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command of a side; ours is the first.
fn command(options: &Options, side: usize) -> Command {
    let mut command = match (&options.against, side) {
        (Some(python), 1) => Command::new(python),
        _ => ours(),
    };
    command.arg(if side == 1 { TORCH } else { "--growth" });
    command.args(["--threads", &options.threads.to_string(), "--seconds", &options.seconds]);
    command
}

/// The regular expression of the names of the families' workloads.
fn filter(options: &Options) -> String {
    let families = if options.filter.is_empty() { ".*" } else { &options.filter };
    format!("[.]({families})[.]")
}

/// Adds the time of a workload such as `growth.add.1024` to its curve.
fn add(curves: &mut Curves, sides: usize, side: usize, one: &Measured) -> Result<(), Box<dyn Error>> {
    let parts: Vec<&str> = one.name.split('.').collect();
    let [_, family, elements] = parts[..] else {
        return Err(format!("{}: expected three parts", one.name).into());
    };
    let of_family = curves.entry(family.to_owned()).or_insert_with(|| vec![Curve::new(); sides]);
    let time = of_family[side].entry(elements.parse()?).or_insert(f64::INFINITY);
    *time = time.min(one.min_ns);
    Ok(())
}

/// The work of a family for a number of elements. Time should be proportional to this, and not to the number of elements.
fn work(family: &str, elements: u64) -> f64 {
    let n = elements as f64;
    match family {
        "matmul" => n.sqrt().floor().powi(3),
        "attention" => (n / 256.0).floor().powi(2),
        "sort" => n * n.log2().max(1.0),
        "transpose" => n.sqrt().floor() * (n / n.sqrt().floor()).floor(),
        "conv2d" => (n / 16.0).sqrt().floor().powi(2),
        "softmax" | "layer_norm" => (n / n.min(1024.0)).floor() * n.min(1024.0),
        "index_select" => (n / 64.0).floor(),
        _ => n,
    }
}

/// The largest increase of the time for a unit of work between neighbouring sizes: the factor, and both sizes.
fn steepest(family: &str, curve: &Curve) -> (f64, u64, u64) {
    let cost = |(elements, time): (&u64, &f64)| time / work(family, *elements);
    let steps = curve.iter().zip(curve.iter().skip(1));
    let ratios = steps.map(|(small, large)| (cost(large) / cost(small), *small.0, *large.0));
    ratios.fold((0.0, 0, 0), |most, step| if step.0 > most.0 { step } else { most })
}

fn report(curves: &Curves) {
    println!("the steepest step of time for a unit of work between neighbouring sizes");
    println!("{:14} {:>10} {:>24} {:>10} {:>24}", "family", WHO[0], "", WHO[1], "");
    for (family, sides) in curves {
        print!("{family:14}");
        for curve in sides {
            let (ratio, small, large) = steepest(family, curve);
            print!(" {ratio:>10.2} {:>24}", format!("{small} to {large}"));
        }
        println!();
    }
    for side in 0..curves.values().map(Vec::len).min().unwrap_or(0) {
        let all = curves.iter().map(|(family, sides)| (steepest(family, &sides[side]), family));
        let most = all.max_by(|a, b| a.0.0.total_cmp(&b.0.0));
        if let Some(((ratio, small, large), family)) = most {
            println!("steepest step {ratio:.2} ({}: {family}, {small} to {large} elements)", WHO[side]);
        }
    }
}

fn write(curves: &Curves, threads: usize) -> Result<(), Box<dyn Error>> {
    let docs = root().join("docs");
    let mut table = String::from("family\telements\tFlambeau ns\tPyTorch ns\n");
    for (family, sides) in curves {
        for elements in sides[0].keys() {
            let times =
                sides.iter().map(|curve| curve.get(elements).map_or(String::new(), |t| format!("{t:.1}")));
            table += &format!("{family}\t{elements}\t{}\n", times.collect::<Vec<_>>().join("\t"));
        }
    }
    std::fs::write(docs.join(format!("growth_{threads}.tsv")), table)?;
    draw(curves, &docs.join(format!("growth_{threads}.svg")))
}

const COLUMNS: usize = 3;
const WIDTH: u32 = 330;
const HEIGHT: u32 = 230;

fn draw(curves: &Curves, path: &Path) -> Result<(), Box<dyn Error>> {
    let lines = curves.len().div_ceil(COLUMNS);
    let size = (WIDTH * COLUMNS as u32, HEIGHT * lines as u32);
    let page = SVGBackend::new(path, size).into_drawing_area();
    page.fill(&WHITE)?;
    for (area, (family, sides)) in page.split_evenly((lines, COLUMNS)).iter().zip(curves) {
        chart(area, family, sides)?;
    }
    page.present()?;
    Ok(())
}

/// A chart with logarithmic axes, in which a power law is a straight line.
fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    family: &str,
    sides: &[Curve],
) -> Result<(), Box<dyn Error>> {
    let times = || sides.iter().flat_map(Curve::values).copied();
    let (min, max) = (times().fold(f64::INFINITY, f64::min), times().fold(1.0, f64::max));
    let first = sides.iter().flat_map(Curve::keys).min().copied().unwrap_or(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(format!("{family}: time by elements"), ("sans-serif", 14))
        .x_label_area_size(24)
        .y_label_area_size(52)
        .build_cartesian_2d((first..1.2e7).log_scale(), (min / 1.5..max * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(5)
        .y_labels(5)
        .x_label_formatter(&|x| format!("1e{}", x.log10().round()))
        .y_label_formatter(&|ns| time(*ns))
        .draw()?;
    let colours = [RGBColor(200, 60, 20), RGBColor(120, 120, 120)];
    for ((curve, colour), who) in sides.iter().zip(colours).zip(WHO) {
        let points = curve.iter().map(|(elements, time)| (*elements as f64, *time));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(who)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

fn time(ns: f64) -> String {
    match ns {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.0} us", n / 1e3),
        n => format!("{:.0} ms", n / 1e6),
    }
}
