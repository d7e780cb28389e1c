//! All checks that need a GPU: the operator table against the host, determinism, memory, faults, a GPT and a ResNet in training, and times.
//!
//! `device_check [PART]..` runs the parts that are named, or all: memory, pinned, large, faults, streams, graphs, products, steady, training,
//! images, speed, rows, complex, layouts, variants, gradients, portable, repeats. It prints what it counted, and fails if anything differs. With
//! `FLAMBEAU_CHECK_TIER=quick` the parts are small, for a device that is slow, and with `FLAMBEAU_CHECK_TYPES=all` beside that rows are still
//! compared in all types.

mod gradients;
mod graphs;
mod memory;
mod portable;
mod products;
mod rows;
mod speed;
mod streams;
mod training;
mod variants;

use flambeau::{Device, Result};
use std::process::ExitCode;
use std::time::Instant;

/// The device under test.
const DEVICE: Device = Device::cuda(0);

/// Whether the parts are small.
fn is_quick() -> bool {
    std::env::var("FLAMBEAU_CHECK_TIER").is_ok_and(|tier| tier == "quick")
}

/// Whether rows are compared in all types.
fn is_all_types() -> bool {
    !is_quick() || std::env::var("FLAMBEAU_CHECK_TYPES").is_ok_and(|types| types == "all")
}

/// A part: its name, and what it counts as faults.
type Part = (&'static str, fn() -> Result<usize>);

const PARTS: [Part; 18] = [
    ("memory", memory::stress),
    ("pinned", memory::pinned),
    ("large", memory::more_than_32_bits),
    ("faults", memory::index_faults),
    ("streams", streams::ordered),
    ("graphs", graphs::captured),
    ("products", products::exact),
    ("steady", training::steady),
    ("training", training::small_gpt),
    ("images", training::resnet),
    ("speed", speed::measure),
    ("rows", rows::against_the_host),
    ("complex", rows::of_complex_numbers),
    ("layouts", rows::layouts),
    ("variants", variants::of_rows),
    ("gradients", gradients::of_rows),
    ("portable", portable::of_rows),
    ("repeats", rows::repeated),
];

fn main() -> ExitCode {
    let requested: Vec<String> = std::env::args().skip(1).collect();
    match flambeau_cuda::properties(0) {
        Ok(properties) => println!("{properties:?}"),
        Err(error) => {
            println!("no device to check: {error}");
            return ExitCode::FAILURE;
        }
    }
    let mut failed = Vec::new();
    for (name, part) in PARTS {
        if !requested.is_empty() && !requested.iter().any(|other| other == name) {
            continue;
        }
        let start = Instant::now();
        let outcome = part();
        let seconds = start.elapsed().as_secs_f64();
        match &outcome {
            Ok(0) => println!("== {name}: all right, {seconds:.1} s"),
            Ok(count) => println!("== {name}: {count} FAULTS, {seconds:.1} s"),
            Err(error) => println!("== {name}: FAILED with {error}, {seconds:.1} s"),
        }
        if !matches!(outcome, Ok(0)) {
            failed.push(name);
        }
    }
    println!("{} programs compiled", flambeau_cuda::compiled_programs());
    println!(
        "{}",
        if failed.is_empty() { "PASSED".to_owned() } else { format!("FAILED: {}", failed.join(", ")) }
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
