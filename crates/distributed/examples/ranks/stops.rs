//! A rank that is stopped in a call: the others get errors that name it when the timeout has passed.

use crate::job::{self, Job};
use flambeau_core::{Result, ScalarType, ensure};
use flambeau_distributed::{ProcessGroup, ReduceOp};
use flambeau_ops::Tensor;
use std::process::Command;
use std::time::{Duration, Instant};

const CALL: &str = "FLAMBEAU_RANKS_CALL";
/// The calls, and the counts of elements: a small tensor fits into the buffers of connections, and a large one does not.
const CALLS: [(&str, i64); 6] = [
    ("all_reduce", 10),
    ("all_reduce", 4_000_000),
    ("all_gather", 1000),
    ("reduce_scatter", 4_000_000),
    ("barrier", 0),
    ("recv", 10),
];
const COUNT: &str = "FLAMBEAU_RANKS_COUNT";
const TIMEOUT: f64 = 1.0;
/// How long the rank is stopped, in seconds: longer than the others wait.
const STOPPED: f64 = 5.0;
/// Which rank it is, of three.
const VICTIM: usize = 1;

pub(crate) fn run(quick: bool) -> Result<String> {
    let calls = if quick { &CALLS[..2] } else { &CALLS[..] };
    let mut named = 0;
    for (call, count) in calls {
        let reports = Job::new("stops", 3).set(CALL, call).set(COUNT, count).run()?;
        for rank in [0, 2] {
            let text = &reports[rank];
            let names = text.contains("rank 1") || text.contains("ranks [1]");
            ensure!(names, Internal, "{call}: rank {rank} does not name the rank that is stopped: {text}");
            named += 1;
        }
    }
    Ok(format!("{named} errors name the rank that SIGSTOP has stopped, in {} calls", calls.len()))
}

pub(crate) fn rank() -> Result<()> {
    let group = job::group(job::options(TIMEOUT))?;
    group.barrier()?.wait()?;
    let (call, count) = (job::setting(CALL)?, job::number(COUNT)?);
    if group.rank() == VICTIM {
        stop()?;
        // It learns that the others have given up.
        let outcome = start(&group, &call, count);
        return job::report(VICTIM, if outcome.is_err() { "an error" } else { "no error" });
    }
    let begin = Instant::now();
    let outcome = start(&group, &call, count);
    let elapsed = begin.elapsed();
    let Err(e) = outcome else {
        return Err(flambeau_core::error!(Internal, "{call}: no error although a rank is stopped"));
    };
    ensure!(elapsed < Duration::from_secs_f64(STOPPED), Internal, "{call}: an error after {elapsed:?} only");
    job::report(group.rank(), e.message())?;
    // The group ends when all have reported.
    std::thread::sleep(Duration::from_secs_f64(STOPPED - 1.0));
    Ok(())
}

/// Stops this process for some seconds: another one wakes it.
fn stop() -> Result<()> {
    let own = std::process::id();
    let script = format!("kill -STOP {own}; sleep {STOPPED}; kill -CONT {own}");
    let mut child = Command::new("sh").args(["-c", &script]).spawn()?;
    child.wait()?;
    Ok(())
}

fn start(group: &ProcessGroup, call: &str, count: i64) -> Result<()> {
    let tensor = || Tensor::zeros(&[count], ScalarType::F32);
    let list = || (0..group.size()).map(|_| tensor()).collect::<Result<Vec<Tensor>>>();
    let work = match call {
        "all_reduce" => group.all_reduce(&tensor()?, ReduceOp::Sum),
        "all_gather" => group.all_gather(&list()?, &tensor()?),
        "reduce_scatter" => group.reduce_scatter(&tensor()?, &list()?, ReduceOp::Sum),
        "recv" if group.rank() != VICTIM => group.recv(&tensor()?, Some(VICTIM), 0),
        _ => group.barrier(),
    };
    work?.wait()
}
