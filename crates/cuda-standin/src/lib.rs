//! A stand-in for NVIDIA's driver: a shared library with its C functions, which interprets the PTX that NVRTC writes.
//!
//! It is a development tool. No other crate of the library depends on it: programs open it where they would open the driver, so that all
//! code above the driver is what runs on a GPU. It is stricter than a GPU: see `docs/cuda_standin.md`.
//!
//! | module | contains |
//! |---|---|
//! | `ptx` | PTX to decoded instructions |
//! | `instruction`, `rounding` | the instructions; floating point formats and rounding |
//! | `exec` | blocks, warps and lanes, and what each family of instructions computes |
//! | `memory`, `fault` | allocations of a device, and what a kernel does wrong |
//! | `state`, `driver` | contexts, streams and events; the C functions, of cuBLAS and NCCL too |
//! | `link` | connections between processes, by which NCCL's functions move bytes |
//! | `product` | products of matrices as cuBLAS computes them |

mod driver;
mod exec;
mod fault;
mod instruction;
#[cfg(target_os = "linux")]
mod link;
mod memory;
mod product;
mod ptx;
mod rounding;
mod settings;
mod state;

pub mod testing;
