//! The profiler in Python: starting and stopping it, named ranges, and what it saw as plain values.

use crate::errors::raise;
use flambeau_autograd::profiler::{
    self, Average, Event, Input, Kind, Open, Options, Profile, Profiler, SortBy,
};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;

/// The profiler that Python has started.
static RUNNING: Mutex<Option<Profiler>> = Mutex::new(None);

thread_local! {
    /// The named ranges that are open on this thread, innermost last. They belong to the thread, as modes do.
    static RANGES: RefCell<Vec<Option<Open>>> = const { RefCell::new(Vec::new()) };
}

#[pyfunction]
fn _start_profiler(record_shapes: bool, profile_memory: bool) -> PyResult<()> {
    let mut running = RUNNING.lock();
    let options = Options { shapes: record_shapes, memory: profile_memory };
    *running = Some(Profiler::start(options).map_err(raise)?);
    Ok(())
}

#[pyfunction]
fn _stop_profiler() -> PyResult<PyProfile> {
    let running = RUNNING.lock().take();
    let running = running.ok_or_else(|| PyRuntimeError::new_err("profiler: none is running"))?;
    Ok(PyProfile(running.stop()))
}

/// Begins a range, and says how many are open around it.
#[pyfunction]
fn _enter_range(name: String) -> usize {
    let open = profiler::record_function(name);
    RANGES.with_borrow_mut(|ranges| {
        ranges.push(open);
        ranges.len() - 1
    })
}

/// Ends the range around which so many are open, and those inside it that were left open.
#[pyfunction]
fn _leave_range(depth: usize) {
    let leave = |ranges: &mut Vec<Option<Open>>| {
        while ranges.len() > depth {
            ranges.pop();
        }
    };
    RANGES.with_borrow_mut(leave);
}

/// What a profiler saw. Times are in nanoseconds.
#[pyclass(frozen, name = "_Profile", module = "flambeau")]
struct PyProfile(Profile);

type Shapes = Option<Vec<Vec<i64>>>;

#[pymethods]
impl PyProfile {
    /// For each event: thread, name, kind, start, end, index of the enclosing event in the thread's list, shapes, number of the node,
    /// bytes.
    #[expect(clippy::type_complexity, reason = "read by one class in Python, which names the parts")]
    fn events(
        &self,
    ) -> Vec<(usize, String, &'static str, u64, u64, Option<usize>, Shapes, Option<u64>, i64)> {
        let start = self.0.start();
        let values = |thread: usize, event: &Event| {
            let shapes = event.inputs.as_deref().map(shapes);
            let name = event.name.clone().into_owned();
            let (begin, end) = (event.start.saturating_sub(start), event.end.saturating_sub(start));
            (thread, name, word(event.kind), begin, end, event.parent, shapes, event.sequence, event.bytes)
        };
        let threads = self.0.threads().iter();
        threads.flat_map(|log| log.events.iter().map(move |event| values(log.thread, event))).collect()
    }

    /// For each name: name, kind, shapes, how many, total time, time by itself, total bytes, bytes by itself.
    #[expect(clippy::type_complexity, reason = "read by one class in Python, which names the parts")]
    fn averages(&self, by_shapes: bool) -> Vec<(String, &'static str, Shapes, u64, u64, u64, i64, i64)> {
        let values = |of: &Average| {
            let shapes = of.inputs.as_deref().map(shapes);
            let (total, own) = (of.total_time, of.self_time);
            (of.name.clone(), word(of.kind), shapes, of.count, total, own, of.total_bytes, of.self_bytes)
        };
        self.0.key_averages(by_shapes).iter().map(values).collect()
    }

    fn table(&self, by_shapes: bool, sort_by: &str, rows: usize) -> PyResult<String> {
        let sort_by = match sort_by {
            "self_cpu_time_total" => SortBy::SelfTime,
            "cpu_time_total" => SortBy::TotalTime,
            "cpu_time" => SortBy::MeanTime,
            "count" => SortBy::Count,
            "self_cpu_memory_usage" => SortBy::SelfBytes,
            "cpu_memory_usage" => SortBy::TotalBytes,
            other => return Err(unknown(other)),
        };
        Ok(self.0.key_averages(by_shapes).table(sort_by, rows))
    }

    fn chrome_trace(&self) -> String {
        self.0.chrome_trace()
    }

    fn peak_bytes(&self) -> u64 {
        self.0.peak_bytes()
    }

    fn duration(&self) -> u64 {
        self.0.duration()
    }
}

#[cold]
fn unknown(sort_by: &str) -> PyErr {
    PyValueError::new_err(format!(
        "expected `sort_by` to be self_cpu_time_total, cpu_time_total, cpu_time, count, self_cpu_memory_usage or \
         cpu_memory_usage but got {sort_by:?}"
    ))
}

fn shapes(inputs: &[Input]) -> Vec<Vec<i64>> {
    inputs.iter().map(|input| input.sizes.clone()).collect()
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Operator => "operator",
        Kind::Backward => "backward",
        _ => "range",
    }
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyProfile>()?;
    module.add_function(wrap_pyfunction!(_start_profiler, module)?)?;
    module.add_function(wrap_pyfunction!(_stop_profiler, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_range, module)?)?;
    module.add_function(wrap_pyfunction!(_leave_range, module)?)
}
