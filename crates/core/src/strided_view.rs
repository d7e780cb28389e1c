//! A snapshot of a tensor at the beginning of a call: storage, geometry and type, which stay consistent whatever other threads do.

use crate::{Device, Geometry, ScalarType, Storage, TensorImpl};

/// One snapshot of an operand, from which a call takes sizes, strides and offset throughout.
///
/// Another thread may replace the geometry at any moment (`resize_`, `t_`, `as_strided_`), so that sizes and strides which are read
/// separately need not belong together. A geometry lives as long as its tensor, and storages never shrink (`TensorImpl` (2) and (3)):
/// the elements of a snapshot are always inside the storage. They are accessed under guards only: [`Guarded::ptr`].
///
/// [`Guarded::ptr`]: crate::storage_guards::Guarded::ptr
///
/// ```
/// use flambeau_core::{Device, Geometry, ScalarType, StridedView, TensorImpl};
/// let tensor = TensorImpl::empty_contiguous(&[2, 3], ScalarType::F32, Device::CPU)?;
/// let before = StridedView::of(&tensor);
/// tensor.set_geometry(Geometry::strided(&[3, 2], &[1, 3], 0)?)?;
/// assert_eq!((before.sizes(), tensor.geometry().sizes()), (&[2, 3][..], &[3, 2][..]));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct StridedView<'a> {
    storage: &'a Storage,
    geometry: &'a Geometry,
    dtype: ScalarType,
}

impl<'a> StridedView<'a> {
    /// The snapshot of a tensor as it is now.
    #[inline(always)]
    pub fn of(tensor: &'a TensorImpl) -> Self {
        StridedView { storage: tensor.storage(), geometry: tensor.geometry(), dtype: tensor.dtype() }
    }

    /// The snapshot of a tensor with a geometry that is, or was, its own.
    #[inline(always)]
    pub fn with_geometry(tensor: &'a TensorImpl, geometry: &'a Geometry) -> Self {
        StridedView { storage: tensor.storage(), geometry, dtype: tensor.dtype() }
    }

    /// The storage of the elements.
    #[inline(always)]
    pub fn storage(&self) -> &'a Storage {
        self.storage
    }

    /// Sizes, strides and offset.
    #[inline(always)]
    pub fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// The type of its elements.
    #[inline(always)]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// The device of its elements.
    #[inline]
    pub fn device(&self) -> Device {
        self.storage.device()
    }

    /// Sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &'a [i64] {
        self.geometry.sizes()
    }

    /// Strides in elements.
    #[inline]
    pub fn strides(&self) -> &'a [i64] {
        self.geometry.strides()
    }

    /// How many dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        self.geometry.dim()
    }

    /// How many elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.geometry.numel()
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.geometry.is_contiguous()
    }

    /// Bytes from the start of the storage to the first element. It wraps where the offset of a tensor without elements is so large.
    #[inline(always)]
    pub fn byte_offset(&self) -> usize {
        (self.geometry.storage_offset() as usize).wrapping_mul(self.dtype.size())
    }
}
