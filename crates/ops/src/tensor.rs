//! `Tensor`, the handle of a tensor: one pointer to a [`TensorImpl`], cheap to clone, shared between threads.

pub mod accessor;
pub mod arithmetic;
mod buffer_reuse;
mod compare;
pub mod construct;
mod convert;
pub mod display;
mod elements;
mod foreign;
pub mod index;
#[cfg(feature = "ndarray")]
mod ndarray;
mod offsets;
#[cfg(feature = "serde")]
mod serde;
pub mod sparse;

use flambeau_core::{
    Device, DispatchKeySet, Element, Geometry, IntrusivePtr, Layout, MemoryFormat, Result, Scalar,
    ScalarType, Storage, StridedView, TensorImpl, TensorOptions, ensure, shape,
};

/// An n-dimensional array whose clones share their elements.
///
/// Operators are methods (`a.add(&b)?`), generated from `native_functions.yaml`, and functions in [`ops`](crate::ops) that take
/// every argument.
#[derive(Clone)]
pub struct Tensor(IntrusivePtr<TensorImpl>);

impl Tensor {
    /// A handle on `impl_`.
    #[inline]
    pub fn from_impl(impl_: IntrusivePtr<TensorImpl>) -> Self {
        Tensor(impl_)
    }

    /// The tensor's implementation, which its handles share.
    #[inline]
    pub fn impl_(&self) -> &IntrusivePtr<TensorImpl> {
        &self.0
    }

    /// The implementation, mutable, if this is its only handle, as that of a new result is.
    #[inline]
    pub fn impl_mut(&mut self) -> Option<&mut TensorImpl> {
        IntrusivePtr::get_mut(&mut self.0)
    }

    /// Whether nobody else can reach the tensor or its elements: no handle, view, saved value or weak owner is left.
    #[inline]
    pub fn is_sole_owner(&self) -> bool {
        IntrusivePtr::is_unique(&self.0) && self.storage().is_unique()
    }

    /// A tensor without values in `sizes`, row-major: uninitialized memory.
    ///
    /// # Errors
    /// `Shape` or `Overflow` for impossible sizes, `OutOfMemory`.
    #[inline]
    pub(crate) fn empty_contiguous(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<Tensor> {
        check_working(dtype)?;
        Ok(Tensor(TensorImpl::empty_contiguous(sizes, dtype, device)?))
    }

    /// [`empty_contiguous`](Self::empty_contiguous) with strides.
    pub(crate) fn empty_with_strides(
        sizes: &[i64],
        strides: &[i64],
        dtype: ScalarType,
        device: Device,
    ) -> Result<Tensor> {
        check_working(dtype)?;
        Ok(Tensor(TensorImpl::empty(Geometry::strided(sizes, strides, 0)?, dtype, device)?))
    }

    /// A view of the same storage with other sizes, strides and offset.
    #[inline]
    pub(crate) fn alias_as(&self, sizes: &[i64], strides: &[i64], storage_offset: i64) -> Result<Tensor> {
        Ok(Tensor(self.0.alias(sizes, strides, storage_offset)?))
    }

    /// The values of `data`, in `sizes`, moved without a copy.
    ///
    /// # Errors
    /// `Shape` where `data` has another number of elements.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(t.sizes(), &[2, 2]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn from_vec<T: Element>(data: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
        let geometry = Geometry::contiguous(sizes)?;
        ensure!(
            geometry.numel() == data.len() as i64,
            Shape("from_vec", "data"),
            expected = geometry.numel(),
            got = data.len(),
            "expected {expected} elements for sizes {sizes:?} but got {got}"
        );
        Ok(Tensor(TensorImpl::new(Storage::from_vec(data), geometry, T::SCALAR_TYPE)?))
    }

    /// A zero-dimensional tensor for a number given as an argument: it ranks below other tensors in promotion.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn wrapped_number(value: Scalar) -> Result<Tensor> {
        let dtype = value.scalar_type();
        let storage = match value {
            Scalar::Bool(b) => Storage::from_bytes(&[b as u8])?,
            Scalar::Int(i) => Storage::from_bytes(&i.to_ne_bytes())?,
            Scalar::UInt(u) => Storage::from_bytes(&u.to_ne_bytes())?,
            Scalar::Complex(re, im) => Storage::from_bytes(bytemuck::bytes_of(&[re, im]))?,
            other => Storage::from_bytes(&other.to_f64().to_ne_bytes())?,
        };
        Ok(Tensor(TensorImpl::new_wrapped_number(storage, dtype)?))
    }

    /// Sizes, strides and offset: one consistent snapshot.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    /// Sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        self.geometry().sizes()
    }

    /// Strides in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.geometry().strides()
    }

    /// The size of one dimension; negative ones count from the back.
    ///
    /// # Errors
    /// `Index` out of range, and for every dimension of a zero-dimensional tensor.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let sizes = self.sizes();
        ensure!(!sizes.is_empty(), Index, "dimension {dim} specified for a tensor with no dimensions");
        Ok(sizes[shape::wrap_dim(dim, sizes.len())?])
    }

    /// How many dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        self.geometry().dim()
    }

    /// How many elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.geometry().numel()
    }

    /// The offset of the first element, in elements.
    pub fn storage_offset(&self) -> i64 {
        self.geometry().storage_offset()
    }

    /// The type of its elements.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.0.dtype()
    }

    /// [`dtype`](Self::dtype) by its name in PyTorch's C++.
    #[inline]
    pub fn scalar_type(&self) -> ScalarType {
        self.0.dtype()
    }

    /// The device of its elements.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device()
    }

    /// How its elements are stored.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.0.layout()
    }

    /// Its scalar type, layout and device.
    pub fn options(&self) -> TensorOptions {
        TensorOptions::from((self.dtype(), self.device())).layout(self.layout())
    }

    /// The bytes of its elements, shared with its views.
    #[inline]
    pub fn storage(&self) -> &Storage {
        self.0.storage()
    }

    /// What a call uses of an operand: the storage and the present geometry, read once.
    #[inline(always)]
    pub fn strided_view(&self) -> StridedView<'_> {
        StridedView::of(&self.0)
    }

    /// The present address of its first element, to be shown or compared. Kernels get addresses from the guards that they hold
    /// ([`Guarded::ptr`](flambeau_core::Guarded::ptr)), for the geometry that they have read.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        let view = self.strided_view();
        view.storage().data_ptr().wrapping_add(view.byte_offset())
    }

    /// How often elements of its storage were written in place. PyTorch's `_version`.
    #[inline]
    pub fn version(&self) -> u32 {
        self.storage().version()
    }

    /// The keys by which calls on it are dispatched.
    #[inline]
    pub fn key_set(&self) -> DispatchKeySet {
        self.0.key_set()
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.geometry().is_contiguous()
    }

    /// Whether the elements lie in the order of `format` without gaps.
    pub fn is_contiguous_as(&self, format: MemoryFormat) -> bool {
        shape::is_contiguous_as(self.sizes(), self.strides(), format)
    }

    /// The format whose order its strides follow: what a convolution's result should look like.
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d]
            .into_iter()
            .find(|f| shape::is_channels_last_strides(self.sizes(), self.strides(), *f))
            .unwrap_or(MemoryFormat::Contiguous)
    }

    /// f16, bf16, f32 or f64.
    pub fn is_floating_point(&self) -> bool {
        self.dtype().is_floating_point()
    }

    /// complex64 or complex128.
    pub fn is_complex(&self) -> bool {
        self.dtype().is_complex()
    }

    /// Bytes of one element.
    pub fn element_size(&self) -> usize {
        self.dtype().size()
    }

    /// Bytes that its elements would take without gaps.
    pub fn nbytes(&self) -> usize {
        (self.numel() as usize).saturating_mul(self.element_size())
    }

    /// Whether it stands for a number given as an argument, `2` in `x + 2`.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.0.is_wrapped_number()
    }

    /// What errors say of it: `Tensor([2, 3], float32, cpu)`.
    pub fn signature(&self) -> impl std::fmt::Display {
        std::fmt::from_fn(move |f| {
            write!(f, "Tensor({:?}, {}, {})", self.sizes(), self.dtype(), self.device())
        })
    }

    /// Whether both are handles of one tensor.
    #[inline]
    pub fn is_same(&self, other: &Tensor) -> bool {
        IntrusivePtr::ptr_eq(&self.0, &other.0)
    }
}

#[inline]
fn check_working(dtype: ScalarType) -> Result<()> {
    ensure!(dtype.is_working(), NotImplemented, "tensors of {dtype} are not implemented yet");
    Ok(())
}
