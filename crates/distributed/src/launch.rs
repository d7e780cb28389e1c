//! Starts the ranks of a job on this machine, watches them, and starts them again after a failure.

use flambeau_core::{Error, ErrorKind, Result, ensure, error};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often the ranks are looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long the other ranks may take to report the failure of one, before they are killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Runs a job of so many ranks: `command` makes the process of each, to which the variables of
/// [`Environment`](crate::Environment) are added. A job that fails is started again, at most `max_restarts` times.
///
/// # Errors
/// `Io` naming the rank that failed and how it ended.
///
/// ```no_run
/// use std::process::Command;
/// // The program starts itself: without the variable RANK it is the launcher, with it a rank.
/// if std::env::var_os("RANK").is_none() {
///     flambeau_distributed::launch(2, 0, &|| Command::new(std::env::current_exe().unwrap_or_default()))?;
/// }
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn launch(ranks: usize, max_restarts: usize, command: &dyn Fn() -> Command) -> Result<()> {
    ensure!(ranks > 0, InvalidArgument("launch", "ranks"), "expected at least one rank but got 0");
    let mut restart = 0;
    loop {
        match attempt(ranks, restart, command) {
            Err(e) if restart < max_restarts && e.kind() == ErrorKind::Io => {
                restart += 1;
                eprintln!("{e}; restart {restart} of {max_restarts}");
            }
            outcome => return outcome,
        }
    }
}

fn attempt(ranks: usize, restart: usize, command: &dyn Fn() -> Command) -> Result<()> {
    let mut job = Job(Vec::new());
    // The port is free now, and rank 0 takes it at once.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    for rank in 0..ranks {
        let mut command = command();
        let variables = [
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", ranks.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("LOCAL_WORLD_SIZE", ranks.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", port.to_string()),
            ("TORCHELASTIC_RESTART_COUNT", restart.to_string()),
        ];
        let started = command.envs(variables).spawn();
        job.0.push(started.map_err(|e| Error::from(e).context(format_args!("launch: rank {rank}")))?);
    }
    job.watch()
}

/// The processes of all ranks, which end with it.
struct Job(Vec<Child>);

impl Job {
    /// Waits until all ranks have ended, or one has failed.
    fn watch(&mut self) -> Result<()> {
        loop {
            let ended = self.ended()?;
            if let Some(first) =
                ended.iter().position(|status| status.is_some_and(|status| !status.success()))
            {
                return Err(self.failure(first));
            }
            if ended.iter().all(Option::is_some) {
                return Ok(());
            }
            thread::sleep(INTERVAL);
        }
    }

    fn ended(&mut self) -> Result<Vec<Option<ExitStatus>>> {
        self.0.iter_mut().map(|child| Ok(child.try_wait()?)).collect()
    }

    /// The failure of the rank that a signal ended, or else of the first that ended: the others fail because it is gone.
    fn failure(&mut self, first: usize) -> Error {
        let begin = Instant::now();
        let mut ended = vec![];
        while begin.elapsed() < PATIENCE {
            ended = match self.ended() {
                Ok(ended) => ended,
                Err(e) => return e,
            };
            if ended.iter().all(Option::is_some) {
                break;
            }
            thread::sleep(INTERVAL);
        }
        let killed = ended.iter().position(|status| status.is_some_and(|status| status.code().is_none()));
        let rank = killed.unwrap_or(first);
        match ended.get(rank).copied().flatten() {
            Some(status) => error!(Io, "rank {rank} ended with {status}"),
            None => error!(Io, "rank {rank} ended with an error"),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
