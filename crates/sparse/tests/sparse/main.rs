//! Sparse tensors of every layout against strided ones, which compute the same by other code.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests that fail by panicking")]

mod conversions;
mod forged;
mod gradients;
mod in_place;
mod matrices;
mod operators;
mod products;
