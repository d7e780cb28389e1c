//! A tensor library with automatic differentiation, whose internals are layered as those of PyTorch.
//!
//! ```
//! use flambeau::prelude::*;
//! let x = Tensor::from([1.0f32, 2.0, 3.0]).with_requires_grad(true)?;
//! x.mul(&x)?.sum()?.backward()?;
//! let grad = x.grad().map(|g| g.to_vec::<f32>()).transpose()?;
//! assert_eq!(grad, Some(vec![2.0, 4.0, 6.0]));
//! # Ok::<(), Error>(())
//! ```
//!
//! `vmap` applies a function of one example to a batch:
//!
//! ```
//! use flambeau::prelude::*;
//! use flambeau::vmap::{Randomness, vmap};
//! let (w, x) = (Tensor::from([1.0f64, 2.0]), Tensor::from([[1.0f64, 0.0], [0.0, 1.0], [1.0, 1.0]]));
//! let score = |args: &[Tensor]| Ok(vec![args[0].dot(&args[1])?.tanh()?]);
//! let scores = vmap(score, &[w, x], &[None, Some(0)], &[Some(0)], Randomness::Error)?;
//! assert_eq!(scores[0].sizes(), &[3]);
//! # Ok::<(), Error>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`Tensor`] | the handle; operators are its methods |
//! | [`tensor`] | accessors, indices, conversions, printing |
//! | [`ops`] | every operator as a function of all its arguments |
//! | [`options`] | the options of methods, and the enums that they take |
//! | [`autograd`] | recording, backward, forward mode, hooks, custom functions, gradcheck |
//! | [`nn`] | modules, optimisers, data loading, checkpoints |
//! | [`distributed`] | process groups, collectives, training on several processes |
//! | [`vmap`](mod@vmap) | functions of one example applied to a batch, by the function of the same name |
//! | [`linalg`], [`fft`] | linear algebra and Fourier transforms, by the names of `torch.linalg` and `torch.fft` |
//! | [`sparse`] | sparse tensors: constructors, conversions, functions |
//! | [`profiler`] | what took how long, and how much memory |
//! | [`dispatch`], [`registry`], [`cpu_fallback`], [`layouts`] | what crates that add operators, kernels, devices or layouts use |
//! | [`opcheck`](mod@opcheck) | checks of an operator for the tests of its author |
//! | [`load_library`] | plug-ins, in C or Rust, that are loaded at run time |
//! | [`core`] | what a tensor is, before any operator exists |
//!
//! | feature | adds |
//! |---|---|
//! | `linalg` (default) | Factorizations and decompositions of matrices; without it their calls are errors, and it builds in less time |
//! | `fft` (default) | Fourier transforms, likewise |
//! | `serde` | `Serialize` and `Deserialize` for [`Tensor`], [`ScalarType`] and [`Device`] |
//! | `compile` | `compile(f)`: elementwise operators of a function as one loop of machine code |
//! | `ndarray` | views of an accessor's elements as arrays of the crate `ndarray`, and conversions in both directions |

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod fft;
pub mod linalg;
pub mod opcheck;

pub use flambeau_autograd as autograd;
pub use flambeau_capi::{load_library, loaded_libraries};
#[cfg(feature = "compile")]
pub use flambeau_compile::{self as compile, compile};
pub use flambeau_core as core;
#[cfg(feature = "cuda")]
pub use flambeau_cuda as cuda;
pub use flambeau_distributed as distributed;
pub use flambeau_ops::ops::{self, options};
pub use flambeau_ops::{cpu_fallback, dispatch, layouts, registry, tensor};

pub use flambeau_autograd::profiler;
pub use flambeau_autograd::{Autograd, enable_grad, inference_mode, no_grad};
pub use flambeau_core::{
    Complex, Device, Error, ErrorKind, Generator, Layout, MemoryFormat, Result, Scalar, ScalarType,
    TensorOptions, manual_seed,
};
pub use flambeau_ops::Tensor;
pub use flambeau_ops::parallel::{num_threads, set_num_threads};
pub use flambeau_sparse as sparse;
pub use flambeau_vmap::{self as vmap, vmap};

/// [`flambeau_nn`], with a `#[derive(Module)]` that names it as this crate does.
pub mod nn {
    pub use flambeau_derive::ModuleOfFlambeau as Module;
    pub use flambeau_nn::*;
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme_of_the_workspace {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/question_mark.md")]
mod question_mark {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
mod extending {}

/// What most programs use: `use flambeau::prelude::*;`.
pub mod prelude {
    pub use crate::nn::optim::Optimizer;
    pub use crate::nn::{Forward, Loss, Module, optim};
    pub use crate::tensor::index::{Ellipsis, NewAxis};
    pub use crate::{
        Autograd, Complex, Device, Error, ErrorKind, Result, Scalar, ScalarType, Tensor, TensorOptions,
        enable_grad, inference_mode, manual_seed, nn, no_grad, ops, options,
    };
}
