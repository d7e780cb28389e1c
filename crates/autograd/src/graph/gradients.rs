//! The gradients that nodes pass to one another, and the sizes, dtype and device that each must have.

use crate::factory;
use flambeau_core::{Device, DimVec, Result, Scalar, ScalarType, ensure, shape};
use flambeau_ops::{Tensor, ops};
use smallvec::SmallVec;

/// Gradients of a node's outputs, or of its inputs; `None` stands for zeros of the right shape.
pub type Gradients = SmallVec<[Option<Tensor>; 3]>;

/// Sizes, dtype and device of one output of an operator, which its gradient must have too.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputInfo {
    pub(crate) sizes: DimVec,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
}

impl OutputInfo {
    /// The metadata of `tensor`.
    #[inline]
    pub fn of(tensor: &Tensor) -> Self {
        OutputInfo {
            sizes: tensor.sizes().iter().copied().collect(),
            dtype: tensor.dtype(),
            device: tensor.device(),
        }
    }

    /// Appends the metadata of several tensors. Each is built in `list` and not moved there, so that its bytes are not loaded while
    /// they are still being stored: see `Note: store forwarding` in `flambeau_core`.
    #[inline(always)]
    pub(super) fn write_all(list: &mut SmallVec<[OutputInfo; 1]>, tensors: &[&Tensor]) {
        list.reserve(tensors.len());
        for tensor in tensors {
            list.push(OutputInfo { sizes: DimVec::new(), dtype: tensor.dtype(), device: tensor.device() });
            if let Some(info) = list.last_mut() {
                tensor.sizes().iter().for_each(|size| info.sizes.push(*size));
            }
        }
    }

    /// Whether a gradient has the sizes, dtype and device of the output.
    #[inline]
    pub(crate) fn fits(&self, grad: &Tensor) -> bool {
        shape::same(grad.sizes(), &self.sizes) && grad.dtype() == self.dtype && grad.device() == self.device
    }

    /// The sizes of the output.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// Zeros, for an output of which no gradient was computed.
    pub(crate) fn zeros(&self) -> Result<Tensor> {
        let made = factory::empty(&self.sizes, self.dtype, self.device)?;
        ops::fill__scalar(&made, Scalar::Int(0))?;
        Ok(made)
    }
}

/// The sum over the dimensions in which `sizes` was broadcast to the sizes of `tensor`.
///
/// # Errors
/// `Shape` where it does not broadcast to them.
pub fn sum_to_size(tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if tensor.sizes() == sizes {
        return Ok(tensor.clone());
    }
    let broadcasts =
        shape::broadcast(sizes, tensor.sizes()).is_ok_and(|all| all.as_slice() == tensor.sizes());
    ensure!(
        broadcasts,
        Shape,
        "size {sizes:?} is not expandable to size {:?}; cannot sum the one to the other",
        tensor.sizes()
    );
    let leading = tensor.dim() - sizes.len();
    let is_broadcast = |d: &usize| *d < leading || sizes[*d - leading] != tensor.sizes()[*d];
    let dims: DimVec = (0..tensor.dim()).filter(is_broadcast).map(|d| d as i64).collect();
    let summed = ops::sum_dim_intlist(tensor, Some(&dims), true, None)?;
    if leading == 0 { Ok(summed) } else { ops::reshape(&summed, sizes) }
}
