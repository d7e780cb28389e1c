//! Pointwise operators against formulas in f64, in every layout and variant.
#![allow(clippy::manual_clamp, reason = "the formula as PyTorch states it")]
#![allow(clippy::type_complexity, reason = "tables of cases")]

mod activations;
mod choices;
mod factories;
mod floats;
mod harness;
mod integers;
mod promotion;
mod random;
mod reference;
