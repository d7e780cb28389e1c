//! Flambeau in Python: the module `flambeau._flambeau`, which the package `flambeau` shows.
//!
//! | module | holds |
//! |---|---|
//! | [`tensor`] | the class `Tensor`, and how a tensor finds its Python object again |
//! | [`arguments`] | tables of overloads, and the parser that reads arguments by them |
//! | [`call`] | entry points of functions and methods, the interpreter's lock, results |
//! | [`cycles`] | what Python's collector of cycles is shown |
//! | [`types`], [`return_types`] | dtypes, devices, generators; results with names |
//! | [`autograd`] | gradients, hooks, modes |
//! | [`numpy`], [`dlpack`], [`buffer`], [`foreign`] | exchange with other libraries, without a copy |
//! | [`overrides`] | classes that answer for calls with their objects |
//! | [`profiler`] | what took how long |
//! | [`storage`], `shared_memory` | the bytes below tensors, and those that other processes see |
//! | [`serialization`] | files: tensors and plain values, also those that PyTorch wrote |
//! | [`settings`] | seeds, threads, default types |
//! | [`errors`], [`objects`] | errors as exceptions; objects that there may be no memory for |
//! | `generated` | for every operator the overloads behind its name |

mod arguments;
mod autograd;
mod buffer;
mod call;
mod cycles;
mod dlpack;
mod errors;
mod foreign;
#[expect(unsafe_code, reason = "entry points from C are made where their signatures are")]
mod generated;
mod numpy;
mod objects;
mod overrides;
mod profiler;
mod return_types;
mod serialization;
mod settings;
#[cfg(target_os = "linux")]
mod shared_memory;
mod storage;
mod tensor;
mod types;

use flambeau_core::allocator::WithReserve;
use pyo3::prelude::*;

/// What Rust cannot fail to get comes out of a reserve where memory runs out: see [`WithReserve`].
#[global_allocator]
static GLOBAL: WithReserve = WithReserve;

/// Has the calling thread's stack as long as operators need it: where address space is limited it may not grow later, which is a
/// signal.
#[inline(never)]
fn lengthen_stack() {
    std::hint::black_box(&mut [0u8; 512 << 10]);
}

#[pymodule]
fn _flambeau(module: &Bound<'_, PyModule>) -> PyResult<()> {
    lengthen_stack();
    call::release_lock_while_waiting();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<tensor::PyTensor>()?;
    errors::install(module)?;
    tensor::install(module)?;
    types::install(module)?;
    autograd::install(module)?;
    settings::install(module)?;
    numpy::install(module)?;
    overrides::install(module)?;
    profiler::install(module)?;
    dlpack::install(module)?;
    buffer::install(module)?;
    storage::install(module)?;
    serialization::install(module)?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(call::panic_detached, module)?)?;
    generated::BINDINGS.iter().try_for_each(|bindings| call::install(module, bindings))
}
