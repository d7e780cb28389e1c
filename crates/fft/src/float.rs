//! The types of the parts of complex numbers: f32 and f64.

use crate::plan::Planned;
use crate::short::InLanes;
use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

/// A part of a complex number: f32 or f64.
pub trait Float:
    Planned
    + InLanes
    + Copy
    + Debug
    + PartialEq
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;
    /// One half.
    const HALF: Self;
    /// A number, rounded.
    fn from_f64(value: f64) -> Self;
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;
    fn from_f64(value: f64) -> Self {
        value
    }
}
