//! Counts instructions by running this program again and stepping it, which is exact and needs no tool; or under callgrind.
//!
//! The loop runs between two stops that the child makes itself. It is counted with calls and without any, so that in the
//! difference all that is not a call cancels.

use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Calls before anything is counted: tables, lists of free memory and locks are then as they stay.
const WARM_UP: usize = 200;
/// A step takes two changes of process, tens of microseconds on a virtual machine; and the count is exact.
const COUNTED: usize = 1;
/// Under callgrind the calls are quick, and their mean says whether the one that is counted is like all others.
const COUNTED_BY_CALLGRIND: usize = 2000;

/// By what the child says that the loop begins and ends. Not `SIGSTOP`, which anybody may send to any process.
const STOP: Signal = Signal::SIGUSR1;

/// Who counts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Counter {
    Steps,
    Callgrind,
}

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Instructions of one call.
pub(crate) fn count(name: &str, counter: Counter) -> Result<f64, Failure> {
    let calls = if counter == Counter::Steps { COUNTED } else { COUNTED_BY_CALLGRIND };
    let total =
        |name, calls| if counter == Counter::Steps { steps(name, calls) } else { by_callgrind(name, calls) };
    let (without, with) = (total(name, 0)?, total(name, calls)?);
    Ok((with as f64 - without as f64) / calls as f64)
}

/// This program as the one that is counted.
fn arguments(name: &str, calls: usize) -> [String; 4] {
    ["--run".to_owned(), name.to_owned(), "--calls".to_owned(), calls.to_string()]
}

/// The same instructions on every machine: no vectors, one thread, and the C library's plainest copies.
fn settle(command: &mut Command) -> &mut Command {
    let plain = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-ERMS,-FSRM,-RTM";
    command
        .env("FLAMBEAU_CPU_CAPABILITY", "default")
        .env("FLAMBEAU_NUM_THREADS", "1")
        .env("GLIBC_TUNABLES", plain)
}

/// The body of the program that is counted.
pub(crate) fn be_counted(mut call: crate::calls::Call, calls: usize, stop: bool) -> Result<(), Failure> {
    (0..WARM_UP).try_for_each(|_| call())?;
    if stop {
        ptrace::traceme()?;
        raise(STOP)?;
    }
    (0..calls).try_for_each(|_| call())?;
    if stop {
        raise(STOP)?;
    }
    Ok(())
}

/// Instructions between the two stops.
fn steps(name: &str, calls: usize) -> Result<u64, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments(name, calls)).arg("--stop").stdin(Stdio::null());
    let mut child = settle(&mut command).spawn()?;
    let counted = between_stops(&child);
    // Killed even where it was counted: all that it has left to do is to end.
    let _ = child.kill();
    child.wait()?;
    counted
}

fn between_stops(child: &Child) -> Result<u64, Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let mut steps = 0;
    let mut counting = false;
    loop {
        match waitpid(pid, None)? {
            WaitStatus::Stopped(_, STOP) if counting => return Ok(steps),
            WaitStatus::Stopped(_, STOP) => counting = true,
            WaitStatus::Stopped(_, Signal::SIGTRAP) => steps += 1,
            WaitStatus::Stopped(..) => {} // Someone else's signal, which is not passed on: no instruction has run.
            other => return Err(format!("expected a step but got {other:?}").into()),
        }
        ptrace::step(pid, None)?;
    }
}

/// Instructions of the whole program.
fn by_callgrind(name: &str, calls: usize) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe()?);
    let output = settle(command.args(arguments(name, calls))).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, number)) if output.status.success() => Ok(number.trim().parse()?),
        _ => Err(format!("callgrind: {}\n{text}", output.status).into()),
    }
}
