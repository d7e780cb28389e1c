//! The workloads by which the library is measured against others; `cargo xtask bench` runs them and compares.
//!
//! Rules: a call is repeated until a sample takes 200 us; samples are taken for half a second, at least 7 and at most 300. Inputs
//! are made outside the timed call, dropping the result is inside. Prints one JSON object a line.

mod data;
mod dispatch;
mod elementwise;
mod linalg;
mod measure;
mod reduce;

use flambeau_core::Result;
use flambeau_ops::Tensor;

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
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let filter = args.next().unwrap_or_default();
    let threads = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(0.5);
    flambeau_ops::parallel::set_num_threads(threads);
    let all = [dispatch::workloads(), elementwise::workloads(), reduce::workloads(), linalg::workloads()];
    for workload in all.into_iter().flatten().filter(|w| w.name.contains(&filter)) {
        let mut call = (workload.setup)()?;
        println!("{}", measure::measure(&workload.name, &mut call, seconds)?);
    }
    Ok(())
}
