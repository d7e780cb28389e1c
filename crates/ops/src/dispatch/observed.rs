//! The tensor arguments of a call, as a profiler records them.

use crate::Tensor;
use flambeau_core::profiler::Input;

/// The kernel of an operator that records the call for a profiler, with the tensors among its arguments, and passes it on:
/// `observed!(CUBE: CubeFn, [self_], self_)` among the kernels of `CUBE`.
#[macro_export]
macro_rules! observed {
    ($operator:ident: $function:ty, [$($tensor:ident),*] $(, $argument:ident)*) => {
        $crate::dispatch::Kernel::new(
            $crate::dispatch::DispatchKey::Profiler,
            (|keys, $($argument),*| {
                let (keys, kernel, _open) = $operator.observe(keys, &[$($tensor.into()),*])?;
                kernel(keys, $($argument),*)
            }) as $function,
        )
    };
}
/// An argument that holds tensors.
#[derive(Clone, Copy)]
pub enum Observed<'a> {
    /// `Tensor`, or `Tensor?` that is given.
    Tensor(&'a Tensor),
    /// `Tensor?` that is not given.
    None,
    /// `Tensor[]`.
    Tensors(&'a [Tensor]),
    /// `Tensor?[]`.
    OptionalTensors(&'a [Option<Tensor>]),
}

impl<'a> From<&'a Tensor> for Observed<'a> {
    #[inline]
    fn from(tensor: &'a Tensor) -> Self {
        Observed::Tensor(tensor)
    }
}

impl<'a> From<Option<&'a Tensor>> for Observed<'a> {
    #[inline]
    fn from(tensor: Option<&'a Tensor>) -> Self {
        tensor.map_or(Observed::None, Observed::Tensor)
    }
}

impl<'a> From<&'a [Tensor]> for Observed<'a> {
    #[inline]
    fn from(tensors: &'a [Tensor]) -> Self {
        Observed::Tensors(tensors)
    }
}

impl<'a> From<&'a [Option<Tensor>]> for Observed<'a> {
    #[inline]
    fn from(tensors: &'a [Option<Tensor>]) -> Self {
        Observed::OptionalTensors(tensors)
    }
}

/// Sizes and types of all tensors among the arguments.
pub(super) fn inputs(observed: &[Observed<'_>]) -> Vec<Input> {
    let mut inputs = Vec::new();
    let mut add = |tensor: &Tensor| {
        inputs.push(Input { sizes: tensor.sizes().to_vec(), dtype: tensor.dtype() });
    };
    for argument in observed {
        match argument {
            Observed::Tensor(tensor) => add(tensor),
            Observed::None => {}
            Observed::Tensors(tensors) => tensors.iter().for_each(&mut add),
            Observed::OptionalTensors(tensors) => tensors.iter().flatten().for_each(&mut add),
        }
    }
    inputs
}
