//! `cargo xtask miri`, `loom` and `asan`: what a plain test run cannot see of pointers and races.

use std::process::{Command, ExitCode, Stdio};

use crate::{Outcome, root};

/// What Miri runs: all of core, those tests of ops that work on pointers themselves, and a few graphs.
const MIRI: &[&[&str]] = &[
    &["test", "--package", "flambeau-core"],
    &[
        "test",
        "--package",
        "flambeau-ops",
        "--test",
        "operators",
        "--",
        "accessor::",
        "memory::",
        "private::",
        "accumulate::few_and_many",
        "accumulate::shared_memory",
        "view_in_place::",
    ],
    &[
        "test",
        "--package",
        "flambeau-autograd",
        "--test",
        "contract",
        "--",
        "functions::saved",
        "functions::outputs",
    ],
];

/// Whether the nightly toolchain answers to this; says how to get it if not.
///
/// # Errors
/// Where it is not there and `CI` is set: what a change must pass has no gaps.
fn has(task: &str, probe: &[&str], install: &str) -> Result<bool, String> {
    let answer = cargo(probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answer.is_ok_and(|status| status.success()) {
        return Ok(true);
    }
    let missing = format!("{task}: there is no nightly toolchain for it\n  {install}");
    if std::env::var_os("CI").is_some() {
        return Err(missing);
    }
    println!("!! SKIPPED, AND NOTHING CHECKED: {missing}");
    Ok(false)
}

pub(crate) fn asan() -> Outcome {
    if !has("asan", &["+nightly", "--version"], "rustup toolchain install nightly")? {
        return Ok(ExitCode::SUCCESS);
    }
    let packages = ["core", "vectorized", "parallel", "gemm", "ops"].map(|name| format!("flambeau-{name}"));
    let mut command = cargo(&["+nightly", "test", "--no-fail-fast", "--tests"]);
    packages.iter().for_each(|name| _ = command.args(["--package", name]));
    // Naming the target keeps the flag from build scripts and procedural macros.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args(["--target", &target]).arg("--target-dir").arg(root().join("target/asan"));
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn miri() -> Outcome {
    if !has(
        "miri",
        &["+nightly", "miri", "--version"],
        "rustup toolchain install nightly --component miri,rust-src",
    )? {
        return Ok(ExitCode::SUCCESS);
    }
    for arguments in MIRI {
        let mut command = cargo(&["+nightly", "miri"]);
        command.args(*arguments);
        // The scalar path: Miri does not know most vector instructions.
        command.env("FLAMBEAU_CPU_CAPABILITY", "default").env("FLAMBEAU_NUM_THREADS", "1");
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance");
        println!("== cargo +nightly miri {}", arguments.join(" "));
        if !command.status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn loom() -> Outcome {
    for tests in [["flambeau-core", "--test", "loom"], ["flambeau-parallel", "--lib", "seats"]] {
        let mut command = cargo(&["test", "--release", "--package"]);
        command.args(tests);
        // A folder of its own, so that the flag does not rebuild everything else.
        command.env("RUSTFLAGS", "--cfg loom").arg("--target-dir").arg(root().join("target/loom"));
        if !command.status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}
