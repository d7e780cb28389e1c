//! Pointwise operators against formulas in f64, in every layout and variant.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activations;
mod choices;
mod factories;
mod floats;
mod harness;
mod integers;
mod promotion;
mod random;
mod reference;
