//! The `Tensor` handle, the dispatcher, `TensorIterator`, and the CPU kernels of all operators.
//!
//! A module uses modules of its own row of this table or the rows above; `cargo xtask tidy` checks that. Only the operators, [`ops`], are
//! used from every layer: composites call them, and so do kernels that copy an operand, since the operand may be on another device.
//!
//! | layer | module | contains |
//! |---|---|---|
//! | 1 | `append_list`, `dispatch_types`, [`scratch`] | lists that grow without locks; dispatch by dtype; buffers of kernels |
//! | 1 | `enums`, `int_list`, `method_options` | what methods, functions and kernels take for words, for lists, and by name |
//! | 2 | `tensor` | the handle [`Tensor`]: construction, indexing, printing, arithmetic |
//! | 3 | [`dispatch`] | operators, their kernels, and the selection of a kernel |
//! | 4 | `host_copies`, `snapshot`, [`structured`] | operands of a call: copies on the host, aliases, allocated outputs |
//! | 5 | [`tensor_iterator`] | the geometry of a call |
//! | 6 | [`loops`] | elementwise loops, reductions, row operators |
//! | 7 | [`native`] | the kernels, in folders by kind |
//! | 8 | [`ops`], methods of [`Tensor`] | the operators, generated from `native_functions.yaml` |
//! | 9 | [`registry`], [`cpu_fallback`], [`layouts`] | operators by name; operators that a device runs on the host; layouts of other crates |
//! | 9 | [`batched`] | tensors that hide a batch dimension, for `vmap` |

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod append_list;
pub mod batched;
pub mod cpu_fallback;
pub mod dispatch;
#[doc(hidden)]
pub mod dispatch_types;
mod enums;
mod host_copies;
mod int_list;
pub mod layouts;
pub mod loops;
mod method_options;
pub mod native;
#[path = "generated/mod.rs"]
pub mod ops;
pub mod registry;
pub mod scratch;
#[doc(hidden)]
pub mod snapshot;
pub mod structured;
pub mod tensor;
pub mod tensor_iterator;

pub use flambeau_gemm as gemm;
pub use flambeau_parallel as parallel;
pub use flambeau_vectorized as vectorized;

pub use flambeau_core::{Error, ErrorKind, Result};
pub use tensor::Tensor;
