//! Tensors and arrays of the `ndarray` crate: views of an accessor's elements, and tensors of an array's.
//!
//! A view of a tensor's elements lives as long as the accessor, whose guard keeps others from writing them. A tensor of an array's
//! elements owns them, and takes those of an owned array without a copy. It cannot be made of elements that are only borrowed: tensors
//! have no lifetime, and their clones stay where they like.
#![expect(unsafe_code, reason = "makes views of elements behind a guard")]

use super::Tensor;
use super::accessor::{TensorAccessor, TensorAccessorMut};
use ::ndarray::{
    Array, ArrayD, ArrayView, ArrayViewMut, Dim, Dimension, IntoDimension, IxDyn, ShapeBuilder, StrideShape,
};
use flambeau_core::{DimVec, Element, Error, Result, ensure, error, fallible, shape};

impl<T: Element, const N: usize> TensorAccessor<T, N> {
    /// The elements as a view of an array, which lives as long as this.
    ///
    /// # Errors
    /// `Overflow` for sizes without elements whose product, but for zeros, is past 2^63: there is no such array.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let a = t.accessor::<f32, 2>()?;
    /// assert_eq!(a.as_array()?.column(1).sum(), 6.0);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn as_array(&self) -> Result<ArrayView<'_, T, <[usize; N] as IntoDimension>::Dim>>
    where
        [usize; N]: IntoDimension,
    {
        let (first, sizes, strides) = self.parts();
        // SAFETY: all indices below the sizes reach elements that are valid and guarded as long as `self` lives.
        Ok(unsafe { ArrayView::from_shape_ptr(strided(sizes, strides)?, first) })
    }
}

impl<T: Element, const N: usize> TensorAccessorMut<T, N> {
    /// The elements as a view of an array that can be written, which lives as long as this.
    ///
    /// # Errors
    /// As [`TensorAccessor::as_array`].
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// t.accessor_mut::<f32, 2>()?.as_array_mut()?.row_mut(0).fill(0.0);
    /// assert_eq!(t.to_vec::<f32>()?, [0.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn as_array_mut(&mut self) -> Result<ArrayViewMut<'_, T, <[usize; N] as IntoDimension>::Dim>>
    where
        [usize; N]: IntoDimension,
    {
        let (first, sizes, strides) = self.parts();
        // SAFETY: all indices below the sizes reach elements, each another one, that are valid and nobody else's as long as `self` is
        // borrowed.
        Ok(unsafe { ArrayViewMut::from_shape_ptr(strided(sizes, strides)?, first) })
    }
}

/// Sizes and strides as `ndarray` has them; strides of a tensor without elements, which may be any, as zeros.
fn strided<const N: usize>(
    sizes: [usize; N],
    strides: [usize; N],
) -> Result<StrideShape<<[usize; N] as IntoDimension>::Dim>>
where
    [usize; N]: IntoDimension,
{
    let reached =
        sizes.iter().filter(|size| **size > 0).try_fold(1isize, |n, size| n.checked_mul(*size as isize));
    ensure!(reached.is_some(), Overflow("as_array", "self"), "sizes {sizes:?} are past those of an array");
    let strides = if sizes.contains(&0) { [0; N] } else { strides };
    Ok(Dim(sizes).strides(Dim(strides)))
}

/// The array's elements, which are not copied unless a stride is negative.
///
/// Fails with `OutOfMemory`.
///
/// ```
/// use flambeau_ops::Tensor;
/// use ndarray::array;
/// let t = Tensor::try_from(array![[1.0f32, 2.0], [3.0, 4.0]].reversed_axes())?;
/// assert_eq!(t.strides(), &[1, 2]);
/// assert_eq!(t.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), flambeau_ops::Error>(())
/// ```
impl<T: Element, D: Dimension> TryFrom<Array<T, D>> for Tensor {
    type Error = Error;

    fn try_from(array: Array<T, D>) -> Result<Tensor> {
        if array.is_empty() || array.strides().iter().any(|stride| *stride < 0) {
            return Tensor::try_from(array.view());
        }
        let (sizes, strides) = (shape::sizes(array.shape())?, signed(array.strides()));
        let (elements, first) = array.into_raw_vec_and_offset();
        let count = elements.len() as i64;
        let all = Tensor::from_vec(elements, &[count])?;
        all.alias_as(&sizes, &strides, first.unwrap_or(0) as i64)
    }
}

fn signed(strides: &[isize]) -> DimVec {
    strides.iter().map(|&stride| stride as i64).collect()
}

/// A copy of the view's elements.
///
/// Fails with `OutOfMemory`.
impl<T: Element, D: Dimension> TryFrom<ArrayView<'_, T, D>> for Tensor {
    type Error = Error;

    fn try_from(view: ArrayView<'_, T, D>) -> Result<Tensor> {
        Tensor::from_vec(fallible::collect(view.iter().copied())?, &shape::sizes(view.shape())?)
    }
}

/// A copy of the tensor's elements, which must have the array's type.
impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;

    fn try_from(tensor: &Tensor) -> Result<ArrayD<T>> {
        let sizes: Vec<usize> = tensor.sizes().iter().map(|&size| size as usize).collect();
        let made = ArrayD::from_shape_vec(IxDyn(&sizes), tensor.to_vec()?);
        made.map_err(|e| error!(Shape("to_array", "self"), "{e}"))
    }
}
