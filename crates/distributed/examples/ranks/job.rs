//! Jobs of this program: it starts itself once for each rank, and the ranks report by files.

use flambeau_core::{Result, bail, error};
use flambeau_distributed::{Environment, ProcessGroup, ProcessGroupOptions, launch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The variable with the name of the part that a rank runs.
pub(crate) const PART: &str = "FLAMBEAU_RANKS_PART";
/// The variable with the folder in which ranks report.
const FOLDER: &str = "FLAMBEAU_RANKS_FOLDER";

/// A folder that is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("flambeau-ranks-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What a rank has reported.
    pub(crate) fn report(&self, rank: usize) -> Result<String> {
        let path = self.0.join(format!("report{rank}"));
        fs::read_to_string(&path).map_err(|_| error!(Io, "rank {rank} has reported nothing"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is of no harm.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A job of this program.
pub(crate) struct Job<'a> {
    pub(crate) part: &'a str,
    pub(crate) size: usize,
    pub(crate) restarts: usize,
    /// Variables of the ranks.
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(part: &'a str, size: usize) -> Self {
        Job { part, size, restarts: 0, settings: vec![] }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    pub(crate) fn restarts(mut self, restarts: usize) -> Self {
        self.restarts = restarts;
        self
    }

    /// The command of a rank, without the variables that a launcher sets.
    pub(crate) fn command(&self, folder: &Folder) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(PART, self.part).env(FOLDER, folder.path());
        command.env("FLAMBEAU_NUM_THREADS", "1");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Runs it, and returns what the ranks have reported.
    pub(crate) fn run(&self) -> Result<Vec<String>> {
        let folder = Folder::new(self.part)?;
        self.run_in(&folder)?;
        (0..self.size).map(|rank| folder.report(rank)).collect()
    }

    /// The same in a folder that stays.
    pub(crate) fn run_in(&self, folder: &Folder) -> Result<()> {
        self.command(folder)?;
        launch(self.size, self.restarts, &|| self.command(folder).unwrap_or_else(|_| Command::new("false")))
    }
}

/// The folder of this rank's job.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(PathBuf::from(setting(FOLDER)?))
}

/// Reports to the launcher.
pub(crate) fn report(rank: usize, text: &str) -> Result<()> {
    fs::write(folder()?.join(format!("report{rank}")), text)?;
    Ok(())
}

/// A variable of this rank.
pub(crate) fn setting(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| error!(InvalidArgument, "expected the variable {name} but it is not set"))
}

/// A number of this rank.
pub(crate) fn number<T: std::str::FromStr>(name: &str) -> Result<T> {
    let text = setting(name)?;
    text.parse().map_err(|_| error!(InvalidArgument, "expected a number in {name} but got {text:?}"))
}

pub(crate) fn options(timeout: f64) -> ProcessGroupOptions {
    ProcessGroupOptions { timeout: Duration::from_secs_f64(timeout), ..Default::default() }
}

/// The group of this job.
pub(crate) fn group(options: ProcessGroupOptions) -> Result<ProcessGroup> {
    ProcessGroup::with_options(options)
}

/// How often the launcher has restarted this job.
pub(crate) fn attempt() -> Result<usize> {
    Ok(Environment::from_env()?.restarts)
}

/// Sends a signal to this process, which goes on until it arrives.
pub(crate) fn signal_self(name: &str) -> Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(std::process::id().to_string()).status()?;
    if !status.success() {
        bail!(Io, "kill -{name}: {status}");
    }
    Ok(())
}

/// Ends this process at once, as the system does that has no memory left.
pub(crate) fn die() {
    if signal_self("KILL").is_err() {
        std::process::abort();
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Sums of the numbers that the ranks have reported, by their positions.
pub(crate) fn sums(reports: &[String]) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for report in reports {
        for (i, word) in report.split_whitespace().enumerate() {
            let value: u64 = word.parse().unwrap_or(0);
            match sums.get_mut(i) {
                Some(sum) => *sum += value,
                None => sums.push(value),
            }
        }
    }
    sums
}
