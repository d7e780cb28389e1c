//! Counts instructions by running this program as a child process and single-stepping it, which is exact and needs no other tool; or
//! under callgrind.
//!
//! The child stops itself before and after a loop of calls. The loop is counted with calls and without any, and the difference is the
//! cost of the calls alone.

use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Calls before counting begins: afterwards tables, free lists and locks are in their steady state.
const WARM_UP: usize = 200;
/// One call suffices, since the count is exact, and a step takes two context switches, tens of microseconds on a virtual machine.
const COUNTED: usize = 1;
/// Under callgrind calls are fast, and the mean of many verifies that the one that is stepped is typical.
const COUNTED_BY_CALLGRIND: usize = 2000;

/// The signal by which the child announces that the loop begins and ends. Not `SIGSTOP`, which other processes may send.
const STOP: Signal = Signal::SIGUSR1;

/// How instructions are counted.
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

/// The arguments with which this program runs as the child.
fn arguments(name: &str, calls: usize) -> [String; 4] {
    ["--run".to_owned(), name.to_owned(), "--calls".to_owned(), calls.to_string()]
}

/// Makes the child execute the same instructions on every machine: no vectors, one thread, and the C library's baseline `memcpy`.
fn settle(command: &mut Command) -> &mut Command {
    let plain = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-ERMS,-FSRM,-RTM";
    command
        .env("FLAMBEAU_CPU_CAPABILITY", "default")
        .env("FLAMBEAU_NUM_THREADS", "1")
        .env("GLIBC_TUNABLES", plain)
}

/// The body of the child.
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
    // It is killed even after a successful count, since it has nothing left to do but to exit.
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
            WaitStatus::Stopped(..) => {} // Another signal, which is not delivered: no instruction was executed.
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
