//! Tensors on NVIDIA GPUs. A program that mentions this crate (`use flambeau_cuda as _;`) has the devices `cuda:0`, `cuda:1` and so on.
//!
//! Nothing of CUDA is needed to build it: the driver and NVRTC, which compiles kernels for the device at hand, are opened at run time.
//! Without them the first use of a device is an error that says what is missing. `docs/cuda.md` is the guide for users.
//!
//! | module | contains |
//! |---|---|
//! | `library`, `driver`, `nvrtc`, `blas` | libraries that are opened at run time, and their functions |
//! | `gpu`, `memory`, `blocks`, `staging`, `pinned`, `fault` | devices: contexts, memory, copies, faults of kernels |
//! | `streams`, `order` | streams and events, and the order of uses of memory by several streams |
//! | `graph` | work that is captured once and launched many times |
//! | `print`, `programs`, `launch` | CUDA C++ of formulas; compiled programs; launches |
//! | `loops`, `math` | elementwise loops, which serve all formulas of `flambeau-ops`; their mathematical functions |
//! | `native`, `fallback` | kernels of other operators; operators without one |

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod blas;
mod blocks;
mod driver;
mod fallback;
mod fault;
mod gpu;
mod graph;
mod hooks;
mod launch;
mod library;
mod loops;
mod math;
mod memory;
mod native;
mod nvrtc;
mod order;
mod pinned;
mod print;
mod programs;
mod staging;
mod streams;
pub mod testing;

pub use gpu::waits;
pub use graph::{Graph, GraphPool, is_current_stream_capturing};
pub use hooks::{
    DeviceProperties, current_device, device_count, empty_cache, is_available, memory_stats, properties,
    reset_peak_memory_stats, set_current_device, synchronize,
};
pub use library::python_packages;
pub use math::{Math, math, set_math};
pub use pinned::{is_pinned, pin_memory};
pub use programs::compiled_programs;
pub use streams::{Event, Stream, StreamGuard, current_stream, hand_over, record_stream};
