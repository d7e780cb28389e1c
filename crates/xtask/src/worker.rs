//! One side of a comparison: a program that times workloads on request.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::root;

/// The times of one workload, in the format in which all sides print them.
#[derive(Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) median_ns: f64,
    pub(crate) min_ns: f64,
    pub(crate) check: [Option<f64>; 2],
}

/// A program that reads names of workloads and answers each with a line of JSON. It sleeps between requests, so that several workers can
/// alternate on one machine. The inputs of a workload are kept until another is requested.
pub(crate) struct Worker {
    name: String,
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts all workers, and waits until each answers, so that none is timed while another is still starting.
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

    /// Times a workload; `None` if this side does not have it.
    pub(crate) fn measure(&mut self, workload: &str) -> Result<Option<Measured>, Box<dyn Error>> {
        self.ask(workload)
    }

    /// The answer to a request; `None` where it is `null`.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &str) -> Result<Option<T>, Box<dyn Error>> {
        self.send(request);
        self.receive(request)
    }

    /// Sends a request. If the program has exited, the missing answer is reported by [`Worker::receive`].
    pub(crate) fn send(&mut self, request: &str) {
        if let Some(requests) = &mut self.child.stdin {
            writeln!(requests, "{request}").ok();
        }
    }

    /// The answer to the request that was sent, which an error calls by a name.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Box<dyn Error>> {
        for line in &mut self.answers {
            let line = line?;
            if line.starts_with('{') || line == "null" {
                return serde_json::from_str(&line).map_err(|error| format!("{line}: {error}").into());
            }
        }
        Err(format!("{} ended at {name}: {}", self.name, self.child.wait()?).into())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // `wait` closes its standard input, at which the program exits. Its exit status does not matter.
        self.child.wait().ok();
    }
}

/// The order in which the sides run: all, and then all in reverse, so that drift of the machine affects them alike.
pub(crate) fn both_orders(sides: usize) -> Vec<usize> {
    (0..sides).chain((0..sides).rev()).collect()
}

/// Our workloads.
pub(crate) fn ours() -> Command {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--package", "flambeau", "--bench", "workloads", "--"]);
    command
}

/// A progress bar for a number of workloads.
pub(crate) fn progress(workloads: usize) -> Result<ProgressBar, Box<dyn Error>> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}, {eta} left")?;
    Ok(ProgressBar::new(workloads as u64).with_style(style))
}

/// The output of a program.
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

    /// A side that has one workload, prints other lines than its answers too, and exits at the name `end`.
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
    fn all_workers_have_started_before_one_is_timed() {
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
