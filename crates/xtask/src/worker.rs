//! One side of a comparison: a program that has the workloads and times each when it is asked to.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use crate::root;

/// One workload's times, as every side prints them.
#[derive(Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) median_ns: f64,
    pub(crate) min_ns: f64,
    pub(crate) check: [Option<f64>; 2],
}

/// A program that reads names of workloads and answers each with a line of JSON. It waits in between, so several take turns on one
/// machine; the inputs of a workload stay until another is asked for.
pub(crate) struct Worker {
    name: String,
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts all, and waits until each answers: while one still loads itself, no other has the machine.
    pub(crate) fn start_all(commands: impl Iterator<Item = Command>) -> Result<Vec<Self>, Box<dyn Error>> {
        let workers = commands.map(|mut command| Self::start(&mut command));
        let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
        for worker in &mut workers {
            const NO_WORKLOAD: &str = "";
            worker.measure(NO_WORKLOAD)?;
        }
        Ok(workers)
    }

    fn start(command: &mut Command) -> Result<Self, Box<dyn Error>> {
        command.arg("--serve").current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = format!("{command:?}");
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let answers = child.stdout.take().ok_or("a program without an output")?;
        Ok(Self { name, child, answers: BufReader::new(answers).lines() })
    }

    /// Times a workload; none where this side has no such.
    pub(crate) fn measure(&mut self, workload: &str) -> Result<Option<Measured>, Box<dyn Error>> {
        if let Some(requests) = &mut self.child.stdin {
            // Where it has ended, the missing answer says so.
            writeln!(requests, "{workload}").ok();
        }
        for line in &mut self.answers {
            let line = line?;
            if line.starts_with('{') || line == "null" {
                return serde_json::from_str(&line).map_err(|error| format!("{line}: {error}").into());
            }
        }
        Err(format!("{} ended at {workload}: {}", self.name, self.child.wait()?).into())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // To wait closes its input, which is how it learns that nothing more is asked; how it ends is of no interest.
        self.child.wait().ok();
    }
}

/// The turns of so many sides, in both orders, so that neither always has the warmer or the busier machine.
pub(crate) fn there_and_back(sides: usize) -> Vec<usize> {
    (0..sides).chain((0..sides).rev()).collect()
}

/// Our workloads.
pub(crate) fn ours() -> Command {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--package", "flambeau", "--bench", "workloads", "--"]);
    command
}

/// A bar for so many workloads, which shows the one that runs.
pub(crate) fn progress(workloads: usize) -> Result<ProgressBar, Box<dyn Error>> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}, {eta} left")?;
    Ok(ProgressBar::new(workloads as u64).with_style(style))
}

/// What a program prints.
pub(crate) fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let name = format!("{command:?}");
    let command = command.current_dir(root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side that has one workload, says more than its answers, and ends at the name `end`.
    const SIDE: &str = r#"while read name; do case $name in
        known) echo "warming up"; echo '{"name": "known", "median_ns": 2.5, "min_ns": 2, "check": [1, null]}';;
        end) exit 3;;
        *) echo null;;
    esac; done"#;

    #[test]
    fn a_worker_answers_until_it_ends() {
        let mut worker = Worker::start(Command::new("sh").args(["-c", SIDE])).unwrap();
        for _ in 0..2 {
            let known = worker.measure("known").unwrap().unwrap();
            assert_eq!((known.median_ns, known.min_ns, known.check), (2.5, 2.0, [Some(1.0), None]));
            assert!(worker.measure("unknown").unwrap().is_none());
        }
        for _ in 0..2 {
            let error = worker.measure("end").err().unwrap().to_string();
            assert!(error.contains("ended at end: exit status: 3"), "{error}");
        }
    }

    #[test]
    fn all_have_loaded_before_one_is_asked() {
        let loads = |seconds: &str, program: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("sleep {seconds}; {program}")]);
            command
        };
        let started = std::time::Instant::now();
        let mut workers = Worker::start_all([loads("0", SIDE), loads("0.3", SIDE)].into_iter()).unwrap();
        assert!(started.elapsed().as_secs_f64() >= 0.3);
        assert!(workers[0].measure("known").unwrap().is_some());
        assert!(Worker::start_all([loads("0", "exit 3")].into_iter()).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Worker::start(&mut Command::new("no-such-python")).err().unwrap().to_string();
        assert!(error.contains("no-such-python"), "{error}");
    }
}
