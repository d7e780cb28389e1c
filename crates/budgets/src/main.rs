//! Instruction budgets: `cargo xtask budgets` counts the instructions of the smallest calls, so that overhead cannot creep back.
//!
//! The number of instructions is the same in every run and under any load, which is not true of times. A call that takes more than its
//! budget in `budgets.tsv` is an error; `--renew` writes the file anew, for a change that is worth its cost.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod budgets;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counting;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    budgets::main()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("skipped: budgets are counted by stepping a process of Linux on x86-64");
}
