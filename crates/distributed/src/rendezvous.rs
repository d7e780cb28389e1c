//! What a launcher tells a process: the variables of `torchrun`, and those of MPI's launchers and Slurm.

use crate::store::{Store, TcpStore, TcpStoreOptions};
use flambeau_core::{Result, bail, ensure, error};
use std::str::FromStr;
use std::time::Duration;

/// The rank of a process and how it reaches the others. PyTorch's `env://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The number of this process among all.
    pub rank: usize,
    /// How many processes there are.
    pub world_size: usize,
    /// The number of this process among those of its machine.
    pub local_rank: usize,
    /// Where rank 0 serves the store.
    pub master_addr: String,
    /// The port of the store.
    pub master_port: u16,
    /// How often the launcher has restarted the job.
    pub restarts: usize,
    /// Whether the launcher serves the store, and rank 0 does not.
    pub store_of_launcher: bool,
}

/// The names of the rank: those of `torchrun`, Open MPI, MPICH and Slurm.
const RANK: &[&str] = &["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
/// The names of the number of ranks.
const WORLD_SIZE: &[&str] = &["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];
/// The names of the rank among those of one machine.
const LOCAL_RANK: &[&str] = &["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];

impl Environment {
    /// Reads the variables of this process.
    ///
    /// # Errors
    /// `InvalidArgument` naming a variable that is missing, or is no number.
    pub fn from_env() -> Result<Self> {
        Self::read(&|name| std::env::var(name).ok())
    }

    /// Reads variables from a function.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    ///
    /// ```
    /// use flambeau_distributed::Environment;
    /// let variables = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4"), ("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500")];
    /// let find = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
    /// let environment = Environment::read(&find)?;
    /// assert_eq!((environment.rank, environment.world_size, environment.local_rank), (3, 4, 0));
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let rank = required(variable, RANK)?;
        let world_size = required(variable, WORLD_SIZE)?;
        ensure!(
            rank < world_size,
            InvalidArgument("init_process_group", "rank"),
            "expected a rank below the number of ranks, {world_size}, but got {rank}"
        );
        Ok(Environment {
            rank,
            world_size,
            local_rank: optional(variable, LOCAL_RANK)?.unwrap_or(0),
            master_addr: required(variable, &["MASTER_ADDR"])?,
            master_port: required(variable, &["MASTER_PORT"])?,
            restarts: optional(variable, &["TORCHELASTIC_RESTART_COUNT"])?.unwrap_or(0),
            store_of_launcher: variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True"),
        })
    }

    /// The store of the job, which rank 0 serves unless the launcher does.
    ///
    /// # Errors
    /// `Io` where it cannot be reached in time.
    pub fn store(&self, timeout: Duration) -> Result<TcpStore> {
        let is_master = self.rank == 0 && !self.store_of_launcher;
        let store = TcpStore::new(
            &self.master_addr,
            self.master_port,
            &TcpStoreOptions { is_master, timeout, world_size: None },
        )?;
        store.check(&[])?;
        Ok(store)
    }
}

fn optional<T: FromStr>(variable: &dyn Fn(&str) -> Option<String>, names: &[&str]) -> Result<Option<T>> {
    let Some((name, value)) = names.iter().find_map(|name| Some((name, variable(name)?))) else {
        return Ok(None);
    };
    let parsed = value.trim().parse();
    let refused = |_| {
        error!(
            InvalidArgument("init_process_group", name),
            "expected {name} to be a number but got {value:?}"
        )
    };
    parsed.map(Some).map_err(refused)
}

fn required<T: FromStr>(variable: &dyn Fn(&str) -> Option<String>, names: &[&str]) -> Result<T> {
    match optional(variable, names)? {
        Some(value) => Ok(value),
        None => bail!(
            InvalidArgument("init_process_group", names[0]),
            "the environment variable {} is expected but not set; a launcher sets it: \
             `python -m flambeau.distributed.run`, torchrun, mpiexec (with MASTER_ADDR and MASTER_PORT) or srun",
            names.join(" or ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Environment> {
        Environment::read(&|name| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned()))
    }

    #[test]
    fn missing_and_wrong_variables_are_named() {
        let e = environment(&[("RANK", "0")]).unwrap_err();
        assert!(e.message().contains("WORLD_SIZE"), "{e}");
        let e = environment(&[("RANK", "one"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert!(e.message().contains("expected RANK to be a number but got \"one\""), "{e}");
        let e = environment(&[("RANK", "2"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert!(e.message().contains("below the number of ranks, 2, but got 2"), "{e}");
    }
}
