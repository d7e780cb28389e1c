//! The workloads by which the library is measured against others; `cargo xtask bench` runs them and compares.
//!
//! Rules: a call is repeated until a sample takes 200 us; samples are taken for half a second, at least 7 and at most 300. Inputs
//! are made outside the timed call, dropping the result is inside. Prints one JSON object a line, or leaves a history for
//! criterion to compare the next run with.

mod data;
mod dispatch;
mod elementwise;
mod growth;
mod index;
mod linalg;
mod linear_algebra;
mod machine;
mod measure;
mod models;
mod nn;
mod reduce;
mod sparse;

use clap::Parser;
use criterion::Criterion;
use flambeau::{Result, Tensor};
use std::time::Duration;

/// A workload: its name, and a function that builds the inputs and returns the call to time.
struct Workload {
    name: String,
    setup: Setup,
}

type Call = Box<dyn FnMut() -> Result<Tensor>>;
type Setup = Box<dyn Fn() -> Result<Call>>;

impl Workload {
    fn new<C: FnMut() -> Result<Tensor> + 'static>(
        name: impl Into<String>,
        setup: impl Fn() -> Result<C> + 'static,
    ) -> Self {
        Workload { name: name.into(), setup: Box::new(move || setup().map(|call| Box::new(call) as Call)) }
    }

    /// An operator on one input.
    fn of(
        name: impl Into<String>,
        make: impl Fn() -> Result<Tensor> + 'static,
        op: fn(&Tensor) -> Result<Tensor>,
    ) -> Self {
        Workload::new(name, move || {
            let x = make()?;
            Ok(move || op(&x))
        })
    }
}

/// Times the workloads.
#[derive(Parser)]
struct Options {
    /// Regular expressions, all of which the names must match.
    filters: Vec<regex::Regex>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds of samples for each workload.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Lets criterion time them, which keeps a history and says what has changed.
    #[arg(long)]
    criterion: bool,
    /// Times operators at sizes from 1 to ten million instead.
    #[arg(long)]
    growth: bool,
    /// The table: `main`, `linalg` with Fourier transforms, decompositions and complex numbers, or `sparse`.
    #[arg(long, default_value = "main")]
    table: String,
    /// Prints the names of the workloads instead.
    #[arg(long)]
    list: bool,
    /// Times the workload that each line of the input names instead.
    #[arg(long)]
    serve: bool,
    /// Measures the machine instead.
    #[arg(long)]
    machine: bool,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.machine {
        println!("{}", machine::measure(options.threads));
        return Ok(());
    }
    flambeau::set_num_threads(options.threads);
    let mut criterion = Criterion::default().measurement_time(Duration::from_secs_f64(options.seconds));
    let families = [dispatch::workloads, elementwise::workloads, reduce::workloads, index::workloads];
    let more = [linalg::workloads, nn::workloads, models::workloads];
    let all: Vec<Workload> = match options.table.as_str() {
        _ if options.growth => growth::workloads(),
        "linalg" => linear_algebra::workloads(),
        "sparse" => sparse::workloads(),
        _ => families.into_iter().chain(more).flat_map(|family| family()).collect(),
    };
    if options.serve {
        return serve(&all, options.seconds);
    }
    for workload in all.into_iter().filter(|w| options.filters.iter().all(|filter| filter.is_match(&w.name)))
    {
        if options.list {
            println!("{}", workload.name);
            continue;
        }
        let mut call = (workload.setup)()?;
        if options.criterion {
            call()?;
            criterion.bench_function(&workload.name, |bencher| bencher.iter(&mut call));
        } else {
            println!("{}", measure::measure(&workload.name, &mut call, options.seconds)?);
        }
    }
    Ok(())
}

/// Answers each line of the input with the times of the workload of that name, or null; inputs stay until another is named.
fn serve(all: &[Workload], seconds: f64) -> Result<()> {
    let mut current: Option<(&Workload, Call)> = None;
    for name in std::io::stdin().lines() {
        let name = name?;
        if current.as_ref().is_none_or(|(workload, _)| workload.name != name) {
            current = None;
            if let Some(workload) = all.iter().find(|workload| workload.name == name) {
                current = Some((workload, (workload.setup)()?));
            }
        }
        match &mut current {
            Some((workload, call)) => println!("{}", measure::measure(&workload.name, call, seconds)?),
            None => println!("null"),
        }
    }
    Ok(())
}
