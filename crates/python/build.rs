//! Linker options of the extension module.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    // Kernels of types of one size are often the same instructions, which LLD keeps once. Backtraces of other profiles keep their names.
    if variable("PROFILE") == "release" && links_by_lld() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}

/// Whether the toolchain includes LLD, which links this target unless a flag names another linker.
fn links_by_lld() -> bool {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    if variable("TARGET") != TARGET || flags.contains("link") {
        return false;
    }
    let Ok(output) = Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&sysroot).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
