//! `cargo xtask miri` and `cargo xtask loom`: what a plain test run cannot see of pointers and races.

use std::process::{Command, ExitCode, Stdio};

use crate::{Outcome, root};

/// What Miri runs: all of core, and those tests of ops that work on pointers themselves.
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
        "view_in_place::",
    ],
];

pub(crate) fn miri() -> Outcome {
    let has_miri =
        cargo(&["+nightly", "miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_miri.is_ok_and(|status| status.success()) {
        println!("miri: skipped, since there is no nightly toolchain with it");
        println!("  rustup toolchain install nightly --component miri,rust-src");
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
    let mut command = cargo(&["test", "--package", "flambeau-core", "--release", "--test", "loom"]);
    // A folder of its own, so that the flag does not rebuild everything else.
    command.env("RUSTFLAGS", "--cfg loom").arg("--target-dir").arg(root().join("target/loom"));
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}
