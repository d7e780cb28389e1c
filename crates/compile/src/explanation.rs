//! What became of a function, in words.

use crate::graph::Call;
use crate::plan::{Plan, Step};
use std::fmt;
use std::time::Duration;

/// A loop that computes several operators.
#[derive(Clone, Debug)]
pub struct FusedLoop {
    /// The operators, in order.
    pub operators: Vec<&'static str>,
    /// The sizes of the tensors that it computes.
    pub sizes: Vec<i64>,
    /// How many tensors it reads.
    pub inputs: usize,
    /// How many it writes.
    pub outputs: usize,
}

/// What [`Compiled::explain`](crate::Compiled::explain) says.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Why calls run the function as it is written; `None` where they run what was compiled.
    pub reason: Option<String>,
    /// The compiled loops of the function itself.
    pub loops: Vec<FusedLoop>,
    /// The operators that run by themselves, and why each is not a part of a loop.
    pub calls: Vec<(&'static str, String)>,
    /// The compiled loops of its gradient, if it has one.
    pub gradient_loops: Vec<FusedLoop>,
    /// The operators of its gradient that run by themselves.
    pub gradient_calls: Vec<(&'static str, String)>,
    /// The number of the plan, as [`Plans::call_planned`](crate::Plans::call_planned) gives it.
    pub plan: Option<u64>,
    /// How long it took to compile.
    pub time: Duration,
}

impl Explanation {
    /// Whether calls run what was compiled.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.reason.is_none()
    }
}

/// The loops and the calls of a plan.
pub(crate) fn parts_of(plan: &Plan) -> (Vec<FusedLoop>, Vec<(&'static str, String)>) {
    let (mut loops, mut calls) = (Vec::new(), Vec::new());
    for step in &plan.steps {
        match step {
            Step::Fused(fused) => loops.push(FusedLoop {
                operators: fused.operators.clone(),
                sizes: fused.sizes.clone(),
                inputs: fused.reads(),
                outputs: fused.outputs.len(),
            }),
            Step::Call(Call { operator, why, .. }) => calls.push((operator.name(), why.clone())),
        }
    }
    (loops, calls)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.reason {
            return writeln!(f, "runs as written: {reason}");
        }
        writeln!(f, "compiled in {:.1} ms", self.time.as_secs_f64() * 1e3)?;
        print_parts(f, "", &self.loops, &self.calls)?;
        print_parts(f, "gradient: ", &self.gradient_loops, &self.gradient_calls)
    }
}

fn print_parts(
    f: &mut fmt::Formatter<'_>,
    of: &str,
    loops: &[FusedLoop],
    calls: &[(&'static str, String)],
) -> fmt::Result {
    for made in loops {
        let operators = made.operators.join(", ");
        let FusedLoop { sizes, inputs, outputs, .. } = made;
        writeln!(f, "{of}one loop over {sizes:?}, {inputs} tensors to {outputs}: {operators}")?;
    }
    calls.iter().try_for_each(|(name, why)| writeln!(f, "{of}{name} by itself: {why}"))
}
