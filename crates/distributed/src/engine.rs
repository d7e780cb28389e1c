//! Engines: what moves messages between the ranks of a job. They are chosen by name, and other crates can register theirs.
//!
//! An engine moves bytes, or tensors from device to device, and the collectives are made of messages above it. So every engine gives the
//! same bits and the same errors, and an engine is small. (PyTorch's backends implement the collectives themselves, each with sums of its own.)

mod connect;
mod fault_injection;
mod mpi;
#[cfg(feature = "cuda")]
mod nccl;
mod stream;
mod tcp;

pub use crate::transport::{Communicator, Engine, Inbox, Members, Message, SendHook};
pub(crate) use fault_injection::FaultInjection;
pub use mpi::is_available as is_mpi_available;
pub(crate) use mpi::{NAME as MPI, World};
#[cfg(feature = "cuda")]
pub use nccl::is_available as is_nccl_available;

use crate::store::Store;
use flambeau_core::{Result, bail, ensure};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::time::Duration;

/// What an engine connects.
pub struct Setup<'a> {
    /// The store by which the ranks find each other.
    pub store: &'a dyn Store,
    /// The number of this process.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// The address of this process, by which the others reach it.
    pub host: IpAddr,
    /// How long connecting may take.
    pub timeout: Duration,
    /// Where messages that arrive go.
    pub inbox: Inbox,
}

/// Makes an engine.
pub type Connect = fn(&Setup<'_>) -> Result<Box<dyn Engine>>;

/// The engines of this crate.
const OWN: &[(&str, Connect)] = &[
    ("tcp", tcp::connect),
    (mpi::NAME, mpi::connect),
    #[cfg(feature = "cuda")]
    (nccl::NAME, nccl::connect),
];

static OTHERS: Mutex<Vec<(String, Connect)>> = Mutex::new(Vec::new());

/// Adds an engine, which groups choose by its name.
///
/// # Errors
/// `InvalidArgument` if there is one of that name.
pub fn register_engine(name: &str, connect: Connect) -> Result<()> {
    let mut others = OTHERS.lock();
    ensure!(
        find(name, &others).is_none(),
        InvalidArgument("register_engine", "name"),
        "expected a name that no engine has but got {name:?}"
    );
    others.push((name.to_owned(), connect));
    Ok(())
}

fn find(name: &str, others: &[(String, Connect)]) -> Option<Connect> {
    let own = OWN.iter().find(|(own, _)| *own == name).map(|(_, connect)| *connect);
    own.or_else(|| others.iter().find(|(other, _)| other == name).map(|(_, connect)| *connect))
}

/// The names of all engines.
pub fn engines() -> Vec<String> {
    let others = OTHERS.lock();
    OWN.iter()
        .map(|(name, _)| (*name).to_owned())
        .chain(others.iter().map(|(name, _)| name.clone()))
        .collect()
}

/// Connects the engine of a name.
pub(crate) fn connect(name: &str, setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let found = find(name, &OTHERS.lock());
    match found {
        Some(connect) => connect(setup),
        None => bail!(
            InvalidArgument("init_process_group", "backend"),
            "expected an engine of {:?} but got {name:?}",
            engines()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_engine_of_a_name_is_an_error() {
        let e = register_engine("tcp", tcp::connect).unwrap_err();
        assert!(e.message().contains("no engine has but got \"tcp\""), "{e}");
        register_engine("tcp again", tcp::connect).unwrap();
        assert!(engines().contains(&"tcp again".to_owned()));
    }
}
