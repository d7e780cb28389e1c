//! An instruction set that computes nothing: its vectors write down the operations of a formula, from which a device's source text is
//! printed.
//!
//! Each operation of a [`TracedLane`] appends a node to the tape of the thread. So one call of a formula, with a node for each argument,
//! gives its expression; [`trace`] returns it as a [`Tape`].
//!
//! - Numbers given as arguments ([`Number::scalar`](super::Number::scalar)) are not in the nodes but beside them, so that formulas that
//!   differ only in such a number have equal nodes.
//! - What a mask holds is unknown: [`any`](super::Mask::any) answers true and [`all`](super::Mask::all) false, which is right wherever code
//!   chooses between a short algorithm and `select`. A loop that ends by a mask grows until the tape is full, and cannot be traced.
//! - A complex number is two inputs, its parts, and so is a result: [`Tape::output`] and [`Tape::imaginary`].
//! - Functions that take lanes one by one out of memory cannot be traced either: [`Tape::fault`] says why.
//! - A mathematical function is one node, which the device computes as it does. [`Tape::portable`] replaces it by what it consists of.
#![expect(unsafe_code, reason = "implements loads and stores, which access nothing here")]

mod lane;
mod portable;
mod tape;

pub use lane::{TracedBits, TracedLane, TracedMask};
pub use tape::{Node, NodeId, Tape, TracedType, trace};

use super::isa::{CpuCapability, Isa};
use super::lanes::{Lanes, Vector};
use super::scalar::native_lanes;
use flambeau_core::Complex;
use half::{bf16, f16};

/// The instruction set of [`TracedLane`]s.
#[derive(Clone, Copy, Debug)]
pub struct Traced;

impl Isa for Traced {
    const CAPABILITY: CpuCapability = CpuCapability::Default;
}

native_lanes!(Traced: i64 => TracedLane<i64>, f32 => TracedLane<f32>, f64 => TracedLane<f64>);

/// The element type by which formulas of a type are traced: integers and bool by i64, half precision by f32, in which it is computed.
/// Whoever prints the expression knows the type that is meant.
pub trait TraceAs {
    /// That type.
    type As: flambeau_core::Element;
}

macro_rules! trace_as {
    ($($element:ty => $as:ty),*) => {$(
        impl TraceAs for $element {
            type As = $as;
        }
    )*};
}

trace_as! {
    bool => i64, u8 => i64, i8 => i64, i16 => i64, i32 => i64, i64 => i64,
    f16 => f32, bf16 => f32, f32 => f32, f64 => f64,
    Complex<f32> => Complex<f32>, Complex<f64> => Complex<f64>
}

#[cfg(test)]
mod tests;
