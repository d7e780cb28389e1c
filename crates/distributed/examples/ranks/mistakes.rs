//! Ranks that make different calls: each gets an error that names both calls, or the rank that is missing, and none waits forever.

use crate::job::{self, Job, sums};
use flambeau_core::{Result, ScalarType, ensure};
use flambeau_distributed::{Environment, PrefixStore, ProcessGroup, ProcessGroupOptions, ReduceOp, Store};
use flambeau_ops::Tensor;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that both ranks could make: its name, the count of elements and the dtype of its tensors, and its root.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    count: i64,
    dtype: ScalarType,
    root: usize,
    op: ReduceOp,
}

const NAMES: [&str; 9] = [
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "barrier",
];

/// How long a group waits. A mistake that is found by a message is found long before.
const TIMEOUT: f64 = 1.5;
/// How long until each rank has an error: the timeouts of two calls, and time for a machine that is busy.
const LIMIT: Duration = Duration::from_secs(8);

const DEBUG: &str = "FLAMBEAU_DISTRIBUTED_DEBUG";

/// Pairs of calls that must not meet.
fn pairs() -> Vec<(Call, Call)> {
    let call = |name| Call { name, count: 5000, dtype: ScalarType::F32, root: 0, op: ReduceOp::Sum };
    let mut pairs = Vec::new();
    for (i, first) in NAMES.iter().enumerate() {
        NAMES.iter().skip(i + 1).for_each(|second| pairs.push((call(*first), call(*second))));
    }
    for name in NAMES.iter().filter(|name| !["barrier", "all_to_all"].contains(name)) {
        pairs.push((call(*name), Call { count: 5001, ..call(*name) }));
        pairs.push((call(*name), Call { dtype: ScalarType::I32, ..call(*name) }));
    }
    for name in ["reduce", "broadcast", "gather", "scatter"] {
        pairs.push((call(name), Call { root: 1, ..call(name) }));
    }
    for name in ["all_reduce", "reduce", "reduce_scatter"] {
        pairs.push((call(name), Call { op: ReduceOp::Max, ..call(name) }));
    }
    pairs
}

pub(crate) fn run(quick: bool) -> Result<String> {
    let debug = sums(&Job::new("mistakes", 2).set(DEBUG, "1").run()?);
    let mut text = format!("{} pairs of different calls found at once with {DEBUG}", debug[0] / 2);
    if !quick {
        let plain = sums(&Job::new("mistakes", 2).set(DEBUG, "0").run()?);
        text += &format!("; without it {} at once and {} by the timeout", plain[0] / 2, plain[1] / 2);
    }
    Ok(text)
}

impl Call {
    fn start(&self, group: &ProcessGroup) -> Result<()> {
        let (size, is_root) = (group.size(), group.rank() == self.root);
        let tensor = || Tensor::zeros(&[self.count], self.dtype);
        let list = |length| (0..length).map(|_| tensor()).collect::<Result<Vec<Tensor>>>();
        let rooted = if is_root { size } else { 0 };
        let work = match self.name {
            "all_reduce" => group.all_reduce(&tensor()?, self.op),
            "reduce" => group.reduce(&tensor()?, self.root, self.op),
            "broadcast" => group.broadcast(&tensor()?, self.root),
            "all_gather" => group.all_gather(&list(size)?, &tensor()?),
            "gather" => group.gather(&tensor()?, &list(rooted)?, self.root),
            "scatter" => group.scatter(&tensor()?, &list(rooted)?, self.root),
            "reduce_scatter" => group.reduce_scatter(&tensor()?, &list(size)?, self.op),
            "all_to_all" => group.all_to_all(&list(size)?, &list(size)?),
            _ => group.barrier(),
        };
        work?.wait()
    }
}

pub(crate) fn rank() -> Result<()> {
    let environment = Environment::from_env()?;
    let store: Arc<dyn Store> = Arc::new(environment.store(Duration::from_secs(30))?);
    let (mut at_once, mut late) = (0u64, 0u64);
    for (number, (first, second)) in pairs().into_iter().enumerate() {
        let own = PrefixStore::new(format!("mistake{number}"), store.clone());
        let options = ProcessGroupOptions { timeout: Duration::from_secs_f64(TIMEOUT), ..Default::default() };
        let debug = options.debug;
        let group = ProcessGroup::new(Arc::new(own), environment.rank, 2, options)?;
        let begin = Instant::now();
        let call = if environment.rank == 0 { first } else { second };
        // A rank that only sends may learn of the mistake in its next call.
        let outcome = call.start(&group).and_then(|()| group.barrier()?.wait());
        let elapsed = begin.elapsed();
        let pair = format!("{} beside {}", first.name, second.name);
        let Err(e) = outcome else {
            return Err(flambeau_core::error!(Internal, "{pair}: rank {} got no error", environment.rank));
        };
        ensure!(elapsed < LIMIT, Internal, "{pair}: an error after {elapsed:?} only: {e}");
        let by_timeout = e.message().contains("timeout");
        ensure!(!(debug && by_timeout), Internal, "{pair}: found by the timeout only: {e}");
        let is_named = by_timeout || e.message().contains("another call");
        ensure!(is_named, Internal, "{pair}: the error does not name the calls: {e}");
        (at_once, late) = (at_once + u64::from(!by_timeout), late + u64::from(by_timeout));
        // Both have their errors before the group ends.
        store.add(&format!("done{number}"), 1)?;
        while store.add(&format!("done{number}"), 0)? < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    job::report(environment.rank, &format!("{at_once} {late}"))?;
    // Rank 0 has the store, and so ends last.
    if environment.rank == 0 {
        while store.add("left", 0)? == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    } else {
        // The answer may come too late.
        drop(store.add("left", 1));
    }
    Ok(())
}
