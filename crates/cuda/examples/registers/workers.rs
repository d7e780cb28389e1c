//! Compilations by several processes, since those of one process run one after the other. A process reads programs and writes what their
//! kernels need. Several programs are compiled as one, which takes little longer than one of them.

use crate::AnyError;
use crate::register_table::Name;
use flambeau_cuda::testing;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The argument of a process that compiles.
pub(crate) const ARGUMENT: &str = "--worker";
/// How many programs are compiled as one.
const BATCH: usize = 16;

/// A program to be compiled for an architecture.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) name: &'a Name,
    pub(crate) source: &'a str,
    pub(crate) capability: (i32, i32),
}

impl Job<'_> {
    /// By what its result is known: the compiler, the architecture, and the source by two numbers.
    pub(crate) fn key(&self, compiler: &str) -> String {
        let number = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, self.source).hash(&mut hasher);
            hasher.finish()
        };
        let (major, minor) = self.capability;
        format!("{compiler}:sm_{major}{minor}:{:016x}{:016x}", number(0), number(1))
    }
}

/// What a kernel needs, or what the compiler says.
type Answer = Result<(u32, u32), String>;

/// Compiles all, and tells `done` of each. Returns what does not compile.
pub(crate) fn compile(
    jobs: &[Job<'_>],
    mut done: impl FnMut(&Job<'_>, (u32, u32)) -> std::io::Result<()>,
) -> Result<Vec<String>, AnyError> {
    let batches: Vec<&[Job<'_>]> =
        jobs.chunk_by(|a, b| a.capability == b.capability).flat_map(|same| same.chunks(BATCH)).collect();
    let next = AtomicUsize::new(0);
    let (sender, answers) = channel::<(Job<'_>, Answer)>();
    let count = std::thread::available_parallelism()?.get().min(batches.len());
    std::thread::scope(|scope| {
        let run = |sender| Worker::start().and_then(|mut worker| worker.run(&batches, &next, &sender));
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(move || run(sender).map_err(|error| error.to_string()))
            })
            .collect();
        drop(sender);
        let (start, mut faults) = (Instant::now(), Vec::new());
        for (finished, (job, answer)) in (1..).zip(answers) {
            match answer {
                Ok(need) => done(&job, need)?,
                Err(text) => {
                    let Job { name: (name, types), capability, .. } = job;
                    faults.push(format!("{name} of {types} for {capability:?}: {text}"));
                }
            }
            progress(finished, jobs.len(), start.elapsed());
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(faults)
    })
}

/// How far the work is, and how long the rest will take, on a terminal or in a log.
fn progress(finished: usize, all: usize, since: Duration) {
    if !finished.is_multiple_of(100) && finished != all {
        return;
    }
    let rest = since.mul_f64((all - finished) as f64 / finished as f64).as_secs();
    let bar = "#".repeat(30 * finished / all);
    eprintln!("[{bar:<30}] {finished} of {all} kernels, {} min {} s to go", rest / 60, rest % 60);
}

/// A program with the kernels of several, each in a namespace and with its number in its name; `None` for one that cannot be a part of it.
fn joined(jobs: &[Job<'_>]) -> Option<String> {
    let prelude = testing::prelude();
    let mut all = prelude.clone();
    for (i, job) in jobs.iter().enumerate() {
        let own = job.source.strip_prefix(&prelude)?.replace(" kernel(", &format!(" kernel_{i}("));
        write!(all, "namespace program_{i} {{\n{own}\n}}\n").ok()?;
        // The next program may define it otherwise.
        for name in own.lines().filter_map(|line| line.strip_prefix("#define ")) {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            writeln!(all, "#undef {}", &name[..end]).ok()?;
        }
    }
    Some(all)
}

/// A process that compiles.
struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends by itself if its input does; after a failure it may wait for the rest of a program.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kernels by their names, and what each needs.
type Kernels = Vec<(String, (u32, u32))>;

impl Worker {
    fn start() -> Result<Self, AnyError> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process has no input or output".into());
        };
        Ok(Worker { process, input, output: BufReader::new(output) })
    }

    /// Compiles what comes next until there is no more.
    fn run<'a>(
        &mut self,
        batches: &[&[Job<'a>]],
        next: &AtomicUsize,
        sender: &Sender<(Job<'a>, Answer)>,
    ) -> Result<(), AnyError> {
        loop {
            let Some(jobs) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            for (job, answer) in jobs.iter().zip(self.answers(jobs)?) {
                // The one who receives has stopped after a failure, which it reports.
                if sender.send((*job, answer)).is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// What the kernels need, compiled as one program if they can be, or else each by itself.
    fn answers(&mut self, jobs: &[Job<'_>]) -> Result<Vec<Answer>, AnyError> {
        let [first, ..] = jobs else { return Ok(Vec::new()) };
        if let Some(source) = joined(jobs)
            && let Ok(kernels) = self.compile(&source, first.capability)?
        {
            let named = |i: usize| {
                let name = format!("kernel_{i}");
                kernels.iter().find(|(kernel, _)| *kernel == name).map(|(_, need)| Ok(*need))
            };
            if let Some(all) = (0..jobs.len()).map(named).collect() {
                return Ok(all);
            }
        }
        let alone = |job: &Job<'_>| {
            let kernels = self.compile(job.source, job.capability)?;
            Ok(kernels.and_then(|kernels| match kernels[..] {
                [(_, need)] => Ok(need),
                _ => Err(format!("expected a program with one kernel but got {}", kernels.len())),
            }))
        };
        jobs.iter().map(alone).collect()
    }

    fn compile(
        &mut self,
        source: &str,
        (major, minor): (i32, i32),
    ) -> Result<Result<Kernels, String>, AnyError> {
        write!(self.input, "{major} {minor} {}\n{source}", source.len())?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some(("ok", kernels)) => kernels.split(' ').map(kernel).collect::<Result<_, _>>().map(Ok),
            Some(("error", text)) => Ok(Err(text.to_owned())),
            _ => Err(format!("a process that compiles ended: {line:?}").into()),
        }
    }
}

/// A kernel of an answer: `name:registers:bytes`.
fn kernel(text: &str) -> Result<(String, (u32, u32)), AnyError> {
    let [name, registers, bytes] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("expected a kernel but got {text:?}").into());
    };
    Ok((name.to_owned(), (registers.parse()?, bytes.parse()?)))
}

/// Compiles the programs of the standard input until it ends.
pub(crate) fn serve() -> Result<(), AnyError> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let numbers: Vec<usize> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [major, minor, bytes] = numbers[..] else { return Err("expected three numbers".into()) };
        let mut source = vec![0; bytes];
        input.read_exact(&mut source)?;
        let capability = (i32::try_from(major)?, i32::try_from(minor)?);
        match testing::resources(&String::from_utf8(source)?, capability) {
            Ok(kernels) => {
                let kernel = |(name, (registers, bytes))| format!("{name}:{registers}:{bytes}");
                writeln!(output, "ok {}", kernels.into_iter().map(kernel).collect::<Vec<_>>().join(" "))?;
            }
            Err(error) => writeln!(output, "error {}", error.to_string().replace('\n', " "))?,
        }
        output.flush()?;
        line.clear();
    }
    Ok(())
}
