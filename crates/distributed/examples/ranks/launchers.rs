//! One program under several launchers and engines: the same bits under ours, under MPI's with both engines, and by Slurm's variables.

use crate::job::{self, Folder, Job};
use crate::model;
use flambeau_core::{Result, ensure, error};
use std::net::TcpListener;
use std::process::Command;

/// The path of MPI's launcher. The library is given by the variable of the engine.
const MPIEXEC: &str = "FLAMBEAU_MPIEXEC";
const ENGINE: &str = "FLAMBEAU_DISTRIBUTED_ENGINE";

pub(crate) fn run(_: bool) -> Result<String> {
    let expected = Job::new("launchers", 1).run()?.remove(0);
    let mut same = Vec::new();
    for size in [2, 4] {
        let reports = Job::new("launchers", size).run()?;
        ensure!(
            reports.iter().all(|report| *report == expected),
            Internal,
            "{size} ranks have other bits than one"
        );
        same.push(format!("ours on {size} ranks"));
    }
    slurm(&expected)?;
    same.push("Slurm's variables".to_owned());
    let Ok(mpiexec) = job::setting(MPIEXEC) else {
        return Ok(format!(
            "the same bits: {}; without {MPIEXEC} nothing of MPI was tested",
            same.join(", ")
        ));
    };
    for (engine, sizes) in [("tcp", &[2][..]), ("mpi", &[2, 4])] {
        for size in sizes {
            under_mpiexec(&mpiexec, engine, *size, &expected)?;
            same.push(format!("mpiexec on {size} ranks with the engine {engine}"));
        }
    }
    Ok(format!("the same bits: {}", same.join(", ")))
}

pub(crate) fn rank() -> Result<()> {
    let group = job::group(job::options(60.0))?;
    let bits = model::train(&group, None)?;
    job::report(group.rank(), &bits)
}

fn free_port() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string())
}

fn compare(folder: &Folder, size: usize, expected: &str, what: &str) -> Result<()> {
    for rank in 0..size {
        ensure!(folder.report(rank)? == expected, Internal, "{what}: rank {rank} has other bits");
    }
    Ok(())
}

/// Starts two ranks with the variables that Slurm sets.
fn slurm(expected: &str) -> Result<()> {
    let (folder, job, port) = (Folder::new("slurm")?, Job::new("launchers", 2), free_port()?);
    let mut children = Vec::new();
    for rank in 0..2 {
        let mut command = job.command(&folder)?;
        command
            .env("SLURM_PROCID", rank.to_string())
            .env("SLURM_NTASKS", "2")
            .env("SLURM_LOCALID", rank.to_string());
        children.push(command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port).spawn()?);
    }
    for mut child in children {
        let status = child.wait()?;
        ensure!(status.success(), Internal, "Slurm's variables: {status}");
    }
    compare(&folder, 2, expected, "Slurm's variables")
}

fn under_mpiexec(mpiexec: &str, engine: &str, size: usize, expected: &str) -> Result<()> {
    let (folder, what) =
        (Folder::new(&format!("mpi-{engine}-{size}"))?, format!("mpiexec with the engine {engine}"));
    let rank = Job::new("launchers", size).set(ENGINE, engine).command(&folder)?;
    let mut command = Command::new(mpiexec);
    command.args(["-n", &size.to_string()]).arg(rank.get_program());
    command.envs(rank.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", free_port()?);
    let output = command.output().map_err(|e| error!(Io, "{mpiexec}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), Internal, "{what}: {}: {text}", output.status);
    compare(&folder, size, expected, &what)
}
