//! `compile(f)`: elementwise operators of a function that follow one another are computed by one loop of machine code, which is made while
//! the program runs, with the same bits as without it.
//!
//! The function runs once on tensors without elements. Its operators are written into a graph; for an elementwise one, its CPU kernel is
//! called with tensors of the device `meta`, and gives the expression of its formula, as it does for GPUs. Expressions that follow one
//! another become one program, and Cranelift makes machine code of it. Other operators run as they do otherwise, between the loops.
//!
//! A module uses modules of the rows above it in this table, and none of its own row or below.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `graph` | what a function does: loops, calls of operators, and the tensors between them |
//! | | `functions` | the mathematical functions of the vectors, as machine code calls them |
//! | 2 | `traced_loops`, `program` | the loops that a kernel runs, written down; expressions of several loops as one |
//! | 3 | `formula`, `fusion` | which formulas can be lowered; which loops become one |
//! | | `lower` | a program as Cranelift's instructions |
//! | 4 | `capture` | the graph of a function |
//! | | `kernel` | machine code, and its calls on rows of elements |
//! | 5 | `plan` | the steps of a graph, and how they run |
//! | 6 | `gradient`, `planned` | the backward pass; a function with its plan |
//! | | `explanation` | what is said of a plan |
//! | 7 | `compiled` | [`compile`] |

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod capture;
mod compiled;
mod explanation;
mod formula;
mod functions;
mod fusion;
mod gradient;
mod graph;
mod kernel;
mod lower;
mod plan;
mod planned;
mod program;
mod traced_loops;

pub use capture::{is_capturing, record};
pub use compiled::{Compiled, Plans, compile};
pub use explanation::{Explanation, FusedLoop};
pub use planned::FunctionOf;
