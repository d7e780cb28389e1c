//! A group that is made and destroyed a thousand times in the same processes leaves no files, threads, sockets or memory.

use crate::job::{self, Job};
use flambeau_core::{Result, ScalarType, ensure, error};
use flambeau_distributed::{Environment, PrefixStore, ProcessGroup, ReduceOp, Store};
use flambeau_ops::Tensor;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COUNT: &str = "FLAMBEAU_RANKS_COUNT";

pub(crate) fn run(quick: bool) -> Result<String> {
    let count = if quick { 200 } else { 1000 };
    let reports = Job::new("restarts", 2).set(COUNT, count).run()?;
    Ok(format!("{count} groups made and destroyed; {}", reports.join("; ")))
}

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    files: usize,
    sockets: usize,
    threads: usize,
    shared_memory: usize,
    kilobytes: usize,
}

fn held() -> Result<Held> {
    let links: Vec<String> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let status = fs::read_to_string("/proc/self/status")?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    Ok(Held {
        files: links.len(),
        sockets: links.iter().filter(|link| link.starts_with("socket:")).count(),
        threads: fs::read_dir("/proc/self/task")?.count(),
        shared_memory: fs::read_dir("/dev/shm").map_or(0, Iterator::count),
        kilobytes: kilobytes.ok_or_else(|| error!(Io, "/proc/self/status has no VmRSS"))?,
    })
}

/// What is held once threads that are ending have ended: it waits while there are more than before.
fn settled(before: Option<Held>) -> Result<Held> {
    let begin = Instant::now();
    loop {
        let now = held()?;
        let is_settled =
            before.is_none_or(|before| now.threads <= before.threads && now.files <= before.files);
        if (is_settled && begin.elapsed() > Duration::from_millis(50))
            || begin.elapsed() > Duration::from_secs(3)
        {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How many groups are made before the first measurement, and how much memory may be retained after it: the cache of freed blocks.
const WARM: usize = 50;
const KILOBYTES: usize = 8 << 10;

pub(crate) fn rank() -> Result<()> {
    let environment = Environment::from_env()?;
    let store: Arc<dyn Store> = Arc::new(environment.store(Duration::from_secs(30))?);
    let count: usize = job::number(COUNT)?;
    let mut before = None;
    for number in 0..count {
        if number == WARM {
            before = Some(settled(None)?);
        }
        cycle(&store, &environment, number)?;
    }
    let before = before.ok_or_else(|| error!(Internal, "expected more than {WARM} groups"))?;
    let after = settled(Some(before))?;
    // The group before the first measurement may still have been ending then.
    let is_no_more = after.files <= before.files
        && after.sockets <= before.sockets
        && after.threads <= before.threads
        && after.shared_memory <= before.shared_memory;
    ensure!(
        is_no_more && after.kilobytes <= before.kilobytes + KILOBYTES,
        Internal,
        "after {WARM} groups {before:?}, after {count} {after:?}"
    );
    let Held { files, sockets, threads, shared_memory, .. } = after;
    let text = format!(
        "rank {}: {files} files, {sockets} sockets, {threads} threads, {shared_memory} in /dev/shm, no more than before, {} KiB more",
        environment.rank,
        after.kilobytes.saturating_sub(before.kilobytes)
    );
    job::report(environment.rank, &text)
}

/// Makes a group, uses it and a group of it, and destroys both.
fn cycle(store: &Arc<dyn Store>, environment: &Environment, number: usize) -> Result<()> {
    let own = PrefixStore::new(format!("restart{number}"), store.clone());
    let group =
        ProcessGroup::new(Arc::new(own), environment.rank, environment.world_size, job::options(30.0))?;
    let x = Tensor::ones(&[10_001], ScalarType::F32)?;
    group.all_reduce(&x, ReduceOp::Sum)?.wait()?;
    if let Some(part) = group.new_group(&[0, 1])? {
        part.barrier()?.wait()?;
    }
    let sum = x.sum()?.item::<f32>()?;
    ensure!(sum == 20_002.0, Internal, "restart {number}: expected the sum 20002 but got {sum}");
    Ok(())
}
