//! A rank that is killed at a point of the training: the launcher starts the job again, and it ends with the bits of an undisturbed one.

use crate::job::{self, Folder, Job};
use crate::model;
use flambeau_core::{Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Before which message the rank is killed, and which rank.
const MESSAGE: &str = "FLAMBEAU_RANKS_MESSAGE";
const VICTIM: &str = "FLAMBEAU_RANKS_VICTIM";
/// At which of the files that it writes the rank is killed, while the file has no name yet.
const FILE: &str = "FLAMBEAU_RANKS_FILE";

/// Points at messages, and while files are written.
const AT_MESSAGES: u64 = 16;
const AT_FILES: u64 = 4;
/// How often a job is run that was not killed.
const TRIES: usize = 20;

pub(crate) fn run(quick: bool) -> Result<String> {
    let undisturbed = Job::new("kills", 2).run()?;
    let expected = bits(&undisturbed[0]);
    let every = if quick { 4 } else { 1 };
    let (mut same, mut killed) = (0, 0);
    for point in (0..AT_MESSAGES + AT_FILES).step_by(every) {
        let job = Job::new("kills", 2).restarts(1);
        let victim = point / every as u64 % 2;
        let job = match point.checked_sub(AT_MESSAGES) {
            None => {
                let messages = messages(&undisturbed[victim as usize]);
                ensure!(messages > AT_MESSAGES, Internal, "expected more than {messages} messages");
                job.set(VICTIM, victim).set(MESSAGE, point * messages / AT_MESSAGES)
            }
            Some(file) => job.set(VICTIM, victim).set(FILE, file + 1),
        };
        let folder = disturbed(&job, point)?;
        killed += usize::from(folder.path().join("killed").exists());
        for rank in 0..2 {
            let found = folder.report(rank)?;
            ensure!(
                bits(&found) == expected,
                Internal,
                "point {point}: rank {rank} has other bits after the restart"
            );
        }
        same += 1;
    }
    Ok(format!(
        "{killed} SIGKILLs at points of a training, {same} restarts from the last checkpoint with the same bits"
    ))
}

/// Runs a job until it was killed: a file may have got its name before the rank has seen that it was written.
fn disturbed(job: &Job<'_>, point: u64) -> Result<Folder> {
    for _ in 0..TRIES {
        let folder = Folder::new(&format!("kills{point}"))?;
        job.run_in(&folder)?;
        if folder.path().join("killed").exists() {
            return Ok(folder);
        }
    }
    bail!(Internal, "point {point}: {TRIES} jobs ran without being killed")
}

fn messages(report: &str) -> u64 {
    report.lines().next().and_then(|line| line.parse().ok()).unwrap_or(0)
}

fn bits(report: &str) -> &str {
    report.split_once('\n').map_or("", |(_, bits)| bits)
}

pub(crate) fn rank() -> Result<()> {
    let folder = job::folder()?;
    let sent = Arc::new(AtomicU64::new(0));
    let is_first = job::attempt()? == 0;
    let victim: Option<usize> = job::number(VICTIM).ok().filter(|_| is_first);
    let (message, file): (Option<u64>, Option<u64>) = (job::number(MESSAGE).ok(), job::number(FILE).ok());
    let is_victim =
        victim.is_some_and(|victim| std::env::var("RANK").is_ok_and(|rank| rank == victim.to_string()));
    let (counted, marker) = (sent.clone(), folder.join("killed"));
    let mut options = job::options(60.0);
    options.before_send = Some(Arc::new(move |number, _, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        if is_victim && message == Some(number) {
            mark_and_die(&marker);
        }
    }));
    let checkpoints = folder.join("checkpoint");
    if let Some(file) = file.filter(|_| is_victim) {
        die_at_file(&checkpoints, &folder.join("killed"), file)?;
    }
    let group = job::group(options)?;
    let bits = model::train(&group, Some(&checkpoints))?;
    job::report(group.rank(), &format!("{}\n{bits}", sent.load(Ordering::Relaxed)))
}

fn mark_and_die(marker: &Path) {
    if fs::write(marker, "").is_err() {
        eprintln!("error: {} cannot be written", marker.display());
    }
    job::die();
}

/// Watches the folder of checkpoints, and kills this process when it sees the n-th temporary file.
fn die_at_file(folder: &Path, marker: &Path, n: u64) -> Result<()> {
    let (folder, marker) = (folder.to_owned(), marker.to_owned());
    let watch = move || {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let names = fs::read_dir(&folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            for name in names.filter(|name| name.ends_with(".tmp")) {
                if !seen.contains(&name) {
                    seen.push(name);
                }
            }
            if seen.len() as u64 >= n {
                mark_and_die(&marker);
            }
            thread::sleep(Duration::from_micros(50));
        }
    };
    thread::Builder::new().spawn(watch)?;
    Ok(())
}
