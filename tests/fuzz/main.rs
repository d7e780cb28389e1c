//! Calls operators by name with hostile arguments, in child processes: `fuzz_calls SEED SECONDS`, and `fuzz_calls SEED only NUMBER`
//! repeats a call.
//!
//! A child that ends by a signal, a call that panics or has no answer in seconds, an error that is the library's own fault, and a
//! failed call that changed its operands are findings.

mod draw;

use draw::{Call, Rows, numbers};
use flambeau_tests::operands::{Operands, misplaced};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error>;

/// How long a call may take: most are small, and none that the limit of memory allows is larger than that.
const TIMEOUT: Duration = Duration::from_secs(20);
/// KiB of address space for a child.
const MEMORY: &str = "1572864";
/// The number of findings after which the program stops.
const MOST: usize = 60;

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["child", seed, from] => calls(seed.parse()?, from.parse()?),
        [seed, "only", number] => only(seed.parse()?, number.parse()?),
        [seed, seconds, calls] => {
            let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
            watch(seed, Limits { end, calls: calls.parse()? })
        }
        _ => Err("expected `SEED SECONDS CALLS` or `SEED only NUMBER`".into()),
    }
}

/// Where the last panic was, and its words.
static PANIC: Mutex<String> = Mutex::new(String::new());

fn listen_to_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string().replace('\n', " ");
    }));
}

/// The child: a line before each call, and one for each finding, until nobody listens.
fn calls(seed: u64, from: u64) -> Result<(), Fault> {
    listen_to_panics();
    let rows = Rows::read();
    for number in from.. {
        let call = Call::drawn(&rows, &mut numbers(seed, number));
        writeln!(stdout(), "{number} {}", call.op.name())?;
        let (finding, answered) = judge(&call);
        if answered {
            writeln!(stdout(), "ok")?;
        }
        if let Some(finding) = finding {
            writeln!(stdout(), "! {finding}")?;
        }
    }
    Ok(())
}

/// What is wrong with a call, and whether it gave results.
fn judge(call: &Call) -> (Option<String>, bool) {
    let before = Operands::of(&call.arguments);
    match catch_unwind(AssertUnwindSafe(|| call.op.call_boxed(&call.arguments))) {
        Err(_) => {
            let words = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
            (Some(format!("panic: {words}")), false)
        }
        Ok(Ok(_)) => (None, true),
        Ok(Err(error)) => {
            let changed = || before.changed().map(|what| format!("{what} though {error:?}"));
            (misplaced(&error).or_else(changed), false)
        }
    }
}

fn only(seed: u64, number: u64) -> Result<(), Fault> {
    listen_to_panics();
    let call = Call::drawn(&Rows::read(), &mut numbers(seed, number));
    writeln!(stdout(), "{}\n{}", call.op.schema(), call.words())?;
    let (finding, answered) = judge(&call);
    writeln!(
        stdout(),
        "{}",
        finding.unwrap_or_else(|| if answered { "results" } else { "an error" }.to_string())
    )?;
    Ok(())
}

/// What the parent has seen.
#[derive(Default)]
struct Seen {
    next: u64,
    calls: usize,
    answered: usize,
    /// By operator and the beginning of what is wrong, how often, and the first number.
    findings: BTreeMap<(String, String), (usize, u64, String)>,
}

impl Seen {
    fn finding(&mut self, name: &str, number: u64, words: &str) {
        let kind: String = words.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        let entry = (0, number, words.chars().take(400).collect());
        self.findings.entry((name.to_string(), kind)).or_insert(entry).0 += 1;
    }
}

/// When the program stops, if not by [`MOST`] findings.
struct Limits {
    end: Instant,
    calls: usize,
}

impl Limits {
    fn reached(&self, seen: &Seen) -> bool {
        Instant::now() > self.end || seen.calls >= self.calls || seen.findings.len() >= MOST
    }
}

/// Starts children until a limit is reached, each behind the call that ended the one before.
fn watch(seed: &str, limits: Limits) -> Result<(), Fault> {
    let mut seen = Seen::default();
    while !limits.reached(&seen) {
        watch_one(seed, &limits, &mut seen)?;
    }
    let mut out = stdout().lock();
    for ((name, _), (times, number, words)) in &seen.findings {
        writeln!(
            out,
            "{name}: {words}\n    {times} times; repeat: cargo xtask fuzz calls --seed {seed} --only {number}"
        )?;
    }
    let refused = seen.calls - seen.answered;
    writeln!(
        out,
        "Fuzz: seed {seed}, {} calls, {} answered, {refused} not, {} findings",
        seen.calls,
        seen.answered,
        seen.findings.len()
    )?;
    if seen.calls == 0 || seen.answered == 0 {
        return Err("nothing was called".into());
    }
    if seen.findings.is_empty() { Ok(()) } else { Err(format!("{} findings", seen.findings.len()).into()) }
}

fn watch_one(seed: &str, limits: &Limits, seen: &mut Seen) -> Result<(), Fault> {
    let limited = format!("ulimit -v {MEMORY}; ulimit -c 0; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(std::env::current_exe()?);
    command.args(["child", seed, &seen.next.to_string()]).env("FLAMBEAU_NUM_THREADS", "2");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = listen(child.stdout.take().ok_or("a child without an output")?);
    let mut name = String::new();
    let ended = loop {
        match lines.recv_timeout(TIMEOUT) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                seen.finding(&name, seen.next.saturating_sub(1), &format!("no answer in {TIMEOUT:?}"));
                break false;
            }
            Err(_) => break true,
            Ok(_) if limits.reached(seen) => break false,
            Ok(line) if line == "ok" => seen.answered += 1,
            Ok(line) => match (line.strip_prefix("! "), line.split_once(' ')) {
                (Some(words), _) => seen.finding(&name, seen.next.saturating_sub(1), words),
                (None, Some((number, op))) => {
                    (seen.next, name) = (number.parse::<u64>()? + 1, op.to_string());
                    seen.calls += 1;
                }
                _ => {}
            },
        }
    };
    if !ended {
        child.kill()?;
    }
    let status = child.wait()?;
    if ended {
        seen.finding(&name, seen.next.saturating_sub(1), &format!("the process ended: {status}"));
    }
    Ok(())
}

/// The lines of a child, as they come.
fn listen(output: std::process::ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let sent =
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
        // The parent has stopped to listen.
        sent.ok();
    });
    receiver
}
