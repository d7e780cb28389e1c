//! The types in which losses of classes compare scores, and their conversions to and from f64, in which they are added up.

use std::ops::{Add, Sub};

/// The type in which scores are compared.
pub(super) trait Score:
    Copy + Send + Sync + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Into<f64>
{
    const ZERO: Self;
    const ONE: Self;
    fn from_f64(x: f64) -> Self;
}

impl Score for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}

impl Score for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
}
