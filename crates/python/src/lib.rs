//! Flambeau in Python: the extension module `flambeau._flambeau` of the package `flambeau`.
//!
//! A call selects an overload by the types of its arguments, converts them, and calls one function of `flambeau_ops::ops`. A tensor
//! refers to its Python object weakly, so that `p.grad is p.grad`; a tensor that Python never saw has a null pointer there. If the object
//! is deallocated first, its class and attributes remain with the tensor (`tensor/attribute_store.rs`).
//!
//! | module | holds |
//! |---|---|
//! | `tensor` | the class `Tensor`, and the identity of tensors and Python objects |
//! | `arguments` | tables of overloads, and the parser that reads arguments by them |
//! | `binding` | the macro that declares a name with its overloads |
//! | `call` | entry points of functions and methods, the interpreter's lock, results |
//! | `cycles` | which references Python's cyclic garbage collector visits |
//! | `types`, `return_types` | dtypes, devices, generators; results with names |
//! | `autograd` | gradients, hooks, modes |
//! | `numpy`, `dlpack`, `buffer`, `foreign` | exchange with other libraries, without a copy |
//! | `overrides` | classes that override operators, `__flambeau_function__` |
//! | `dispatch` | operators by their schemas, kernels in Python, and the key `Python` of classes and modes |
//! | `compile` | functions whose elementwise operators become one loop, by the feature `compile` |
//! | `vmap` | functions of one example applied to a batch |
//! | `plugins` | libraries that are loaded at run time, the C interface |
//! | `profiler` | what took how long |
//! | `storage`, `shared_memory` | the bytes below tensors, and those that other processes see |
//! | `serialization` | files: tensors and plain values, also those that PyTorch wrote |
//! | `sparse` | sparse tensors |
//! | `cuda` | NVIDIA GPUs |
//! | `distributed` | process groups, gradients averaged over ranks |
//! | `settings` | seeds, threads, default types |
//! | `errors`, `objects` | errors as exceptions; objects whose allocation may fail |
//! | `generated` | for every operator the overloads behind its name |

mod arguments;
mod autograd;
mod binding;
mod buffer;
mod call;
#[cfg(feature = "compile")]
mod compile;
mod cuda;
mod cycles;
mod dispatch;
mod distributed;
mod dlpack;
mod errors;
mod foreign;
#[expect(unsafe_code, reason = "entry points from C are made where their signatures are")]
mod generated;
mod numpy;
mod objects;
mod overrides;
mod plugins;
mod profiler;
mod return_types;
mod serialization;
mod settings;
#[cfg(target_os = "linux")]
mod shared_memory;
mod sparse;
mod storage;
mod tensor;
mod types;
mod vmap;

use flambeau_core::allocator::WithReserve;
use pyo3::prelude::*;

/// Infallible allocations of Rust are served from a reserve when memory runs out: see [`WithReserve`].
#[global_allocator]
static GLOBAL: WithReserve = WithReserve;

/// Touches as much of the calling thread's stack as operators need: with limited address space it may be unable to grow later, which
/// would be a SIGSEGV.
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
    vmap::install(module)?;
    #[cfg(feature = "compile")]
    compile::install(module)?;
    cuda::install(module)?;
    distributed::install(module)?;
    numpy::install(module)?;
    overrides::install(module)?;
    dispatch::install(module)?;
    plugins::install(module)?;
    profiler::install(module)?;
    dlpack::install(module)?;
    buffer::install(module)?;
    storage::install(module)?;
    serialization::install(module)?;
    sparse::install(module)?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(call::panic_detached, module)?)?;
    generated::BINDINGS.iter().try_for_each(|bindings| call::install(module, bindings))
}
