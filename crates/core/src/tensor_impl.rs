//! The implementation of a tensor: its storage, geometry, dtype and keys, and what other crates attach to it.
//!
//! Invariants, cited elsewhere as `TensorImpl` (n):
//!
//! 1. Every size is at least 0, every stride at least 0, the product of the sizes is `numel`, below 2^63, and there are
//!    [`MAX_DIMS`] dimensions at most.
//! 2. Unless `numel` is 0, or the tensor was made [from parts](TensorImpl::from_parts), the elements are inside the storage:
//!    `(offset + extent + 1) * size(dtype) <= nbytes`. Storages grow but never shrink, so elements that were inside stay inside.
//! 3. Every geometry that a tensor has had lives as long as the `TensorImpl`: references to it stay valid when an in-place
//!    operator (`resize_`, `t_`) replaces it, which happens under the storage's exclusive lock.
//! 4. The scalar type, layout, device and storage never change.
#![expect(unsafe_code, reason = "geometries are replaced behind shared references")]

use crate::dispatch_key::creation_keys;
use crate::intrusive_ptr::{IntrusivePtr, IntrusiveTarget};
use crate::sizes_and_strides::{INLINE_DIMS, MAX_DIMS};
use crate::storage_guards::Exclusive;
use crate::{
    AutogradMeta, AutogradMetaBox, Device, DimVec, DispatchKey, DispatchKeySet, Layout, Result, ScalarType,
    SizesAndStrides, Storage, backend, ensure, shape,
};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Sizes, strides and offset of a tensor, and what is computed from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    sizes_and_strides: SizesAndStrides,
    storage_offset: i64,
    numel: i64,
    contiguous: bool,
}

impl Geometry {
    /// `sizes` in row-major order from the start of the storage.
    ///
    /// # Errors
    /// `Shape` for negative sizes and more than [`MAX_DIMS`], `Overflow` for too many elements.
    #[inline]
    pub fn contiguous(sizes: &[i64]) -> Result<Self> {
        if sizes.len() > INLINE_DIMS {
            return Self::with_many_dims(sizes, &shape::contiguous_strides(sizes), 0);
        }
        let numel = shape::numel(sizes)?;
        let mut sizes_and_strides = SizesAndStrides::SCALAR;
        sizes_and_strides.set_contiguous(sizes);
        Ok(Geometry { sizes_and_strides, storage_offset: 0, numel, contiguous: true })
    }

    /// Any sizes, strides and offset, all in elements.
    ///
    /// # Errors
    /// `Shape` or `InvalidArgument` for negative ones, `Shape` for more sizes than [`MAX_DIMS`], `Overflow` for too many elements.
    #[inline]
    pub fn strided(sizes: &[i64], strides: &[i64], storage_offset: i64) -> Result<Self> {
        if sizes.len() > INLINE_DIMS {
            return Self::with_many_dims(sizes, strides, storage_offset);
        }
        let numel = Self::check(sizes, strides, storage_offset)?;
        Ok(Self::checked(sizes, strides, storage_offset, numel))
    }

    /// The same with sizes on the heap. Every tensor of so many dimensions is made here, where their number is checked.
    #[cold]
    fn with_many_dims(sizes: &[i64], strides: &[i64], storage_offset: i64) -> Result<Self> {
        ensure!(
            sizes.len() <= MAX_DIMS,
            Shape,
            "expected at most {MAX_DIMS} dimensions but got {}",
            sizes.len()
        );
        let numel = Self::check(sizes, strides, storage_offset)?;
        Ok(Self::checked(sizes, strides, storage_offset, numel))
    }

    /// The number of elements, if sizes, strides and offset are valid.
    #[inline]
    fn check(sizes: &[i64], strides: &[i64], storage_offset: i64) -> Result<i64> {
        ensure!(
            sizes.len() == strides.len(),
            Shape,
            "expected as many strides as sizes but got sizes {sizes:?} and strides {strides:?}"
        );
        ensure!(
            storage_offset >= 0 && strides.iter().all(|s| *s >= 0),
            InvalidArgument,
            "expected strides and an offset of at least 0 but got strides {strides:?} and offset {storage_offset}"
        );
        shape::numel(sizes)
    }

    #[inline(always)]
    fn checked(sizes: &[i64], strides: &[i64], storage_offset: i64, numel: i64) -> Self {
        let mut made = Geometry::one_element();
        made.set(sizes, strides, storage_offset, numel);
        made
    }

    /// The geometry of a zero-dimensional tensor.
    #[inline(always)]
    fn one_element() -> Self {
        Geometry { sizes_and_strides: SizesAndStrides::SCALAR, storage_offset: 0, numel: 1, contiguous: true }
    }

    /// Overwrites [`one_element`](Self::one_element) by sizes, strides and offset that were checked.
    #[inline(always)]
    fn set(&mut self, sizes: &[i64], strides: &[i64], storage_offset: i64, numel: i64) {
        self.sizes_and_strides.set(sizes, strides);
        self.storage_offset = storage_offset;
        self.numel = numel;
        self.contiguous = shape::is_contiguous(sizes, strides);
    }

    /// The same by those of another geometry. Only existing dimensions are copied, one by one, since the other geometry may just have
    /// been written: `# Note: store forwarding` in the crate's documentation.
    #[inline(always)]
    fn copy_from(&mut self, other: &Geometry) {
        self.sizes_and_strides.set(other.sizes(), other.strides());
        self.storage_offset = other.storage_offset;
        self.numel = other.numel;
        self.contiguous = other.contiguous;
    }

    /// The same in row-major order.
    #[inline(always)]
    fn set_contiguous(&mut self, sizes: &[i64], storage_offset: i64, numel: i64) {
        self.sizes_and_strides.set_contiguous(sizes);
        self.storage_offset = storage_offset;
        self.numel = numel;
    }

    /// Sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        self.sizes_and_strides.sizes()
    }

    /// Strides in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.sizes_and_strides.strides()
    }

    /// How many dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        self.sizes_and_strides.dim()
    }

    /// The offset of the first element, in elements from the start of the storage.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        self.storage_offset
    }

    /// How many elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.numel
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// Bytes of storage that it needs, for elements of `dtype`.
    ///
    /// # Errors
    /// `Overflow` past 2^63.
    #[inline]
    pub fn nbytes(&self, dtype: ScalarType) -> Result<usize> {
        if self.contiguous {
            let last = (self.numel > 0).then(|| self.numel - 1);
            return bytes_to(last, self.storage_offset, dtype);
        }
        bytes_to(shape::extent(self.sizes(), self.strides())?, self.storage_offset, dtype)
    }
}

/// Bytes of storage up to and including the element that is `last` elements after the one at `storage_offset`; 0 for no elements.
#[inline]
fn bytes_to(last: Option<i64>, storage_offset: i64, dtype: ScalarType) -> Result<usize> {
    let Some(last) = last else { return Ok(0) };
    let bytes = last
        .checked_add(1)
        .and_then(|n| n.checked_add(storage_offset))
        .and_then(|n| n.checked_mul(dtype.size() as i64));
    match bytes {
        Some(bytes) => Ok(bytes as usize),
        None => crate::bail!(
            Overflow,
            "an element {last} behind number {storage_offset} of {dtype} lies past 2^63 bytes"
        ),
    }
}

/// Bytes of `numel` elements one after another.
#[inline]
fn contiguous_nbytes(numel: i64, dtype: ScalarType) -> Result<usize> {
    match numel.checked_mul(dtype.size() as i64) {
        Some(bytes) => Ok(bytes as usize),
        None => crate::bail!(Overflow, "{numel} elements of {dtype} take more bytes than fit in 63 bits"),
    }
}

/// The geometries that have replaced the first one.
struct Replacements {
    current: AtomicPtr<Geometry>,
    all: Mutex<Vec<Pinned>>,
}

/// A geometry with a fixed address, which other pointers may read until it is dropped. It is not a `Box`, because moving a `Box`, as
/// happens when a vector of them grows, asserts that no other pointer to its content is in use.
struct Pinned(NonNull<Geometry>);

// SAFETY: it owns the geometry, which never changes.
unsafe impl Send for Pinned {}

impl Pinned {
    fn new(geometry: Geometry) -> Self {
        Pinned(NonNull::from(Box::leak(Box::new(geometry))))
    }

    fn get(&self) -> &Geometry {
        // SAFETY: it lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was a box, and references to it end before: TensorImpl (3).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The object that a `Tensor` points at. PyTorch's `TensorImpl`.
pub struct TensorImpl {
    storage: Storage,
    geometry: Geometry,
    key_set: AtomicU64,
    dtype: ScalarType,
    layout: Layout,
    device: Device,
    wrapped_number: bool,
    replacements: RareCell<Replacements>,
    autograd_meta: OnceCell<AutogradMetaBox>,
    attached: RareCell<Attached>,
    python_object: AtomicPtr<()>,
}

impl IntrusiveTarget for TensorImpl {}

/// A cell that is empty in nearly all tensors. Every tensor is dropped, and of a `OnceCell<Box<T>>` that is a call of a function, while
/// here it is one branch as long as the cell is empty.
struct RareCell<T>(ManuallyDrop<OnceCell<Box<T>>>);

impl<T> RareCell<T> {
    #[inline]
    const fn new() -> Self {
        RareCell(ManuallyDrop::new(OnceCell::new()))
    }

    #[inline]
    fn get(&self) -> Option<&T> {
        self.0.get().map(|value| &**value)
    }

    fn get_or_init(&self, init: impl FnOnce() -> Box<T>) -> &T {
        self.0.get_or_init(init)
    }
}

impl<T> Drop for RareCell<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.get().is_some() {
            // SAFETY: (last) this is the destructor of the cell's owner.
            unsafe { drop_value(&mut self.0) };
        }
    }
}

/// Drops what a cell holds. A function of its own, so that the rest is inlined wherever a tensor is dropped.
///
/// # Safety
/// - (last) The cell is not used after.
#[cold]
#[inline(never)]
unsafe fn drop_value<T>(cell: &mut ManuallyDrop<OnceCell<Box<T>>>) {
    // SAFETY: (last).
    unsafe { ManuallyDrop::drop(cell) }
}

/// What crates other than autograd attach to a tensor, each once.
#[derive(Default)]
struct Attached {
    layout: OnceCell<Box<dyn Any + Send + Sync>>,
    front_end: OnceCell<Box<dyn Any + Send + Sync>>,
}

/// The arguments of [`TensorImpl::from_parts`], for a tensor that does not consist of strided elements of one storage.
pub struct Parts {
    /// How its elements are stored.
    pub layout: Layout,
    /// The device of its elements.
    pub device: Device,
    /// The type of its elements.
    pub dtype: ScalarType,
    /// Its sizes, which it reports like a strided tensor.
    pub sizes: DimVec,
    /// The keys of its layout, which choose kernels before the device's key does.
    pub keys: DispatchKeySet,
    /// The elements as the layout's kernels have them: indices and values, blocks and scales.
    pub elements: Box<dyn Any + Send + Sync>,
}

impl TensorImpl {
    /// A tensor of the elements of `storage` at the offsets of `geometry`.
    ///
    /// # Errors
    /// `InvalidArgument` if elements lie outside the storage.
    #[inline]
    pub fn new(storage: Storage, geometry: Geometry, dtype: ScalarType) -> Result<IntrusivePtr<TensorImpl>> {
        let needed = geometry.nbytes(dtype)?;
        ensure!(
            needed <= storage.nbytes(),
            InvalidArgument,
            "expected a storage of at least {needed} bytes for sizes {:?}, strides {:?} and offset {} but got {}",
            geometry.sizes(),
            geometry.strides(),
            geometry.storage_offset(),
            storage.nbytes()
        );
        let device = storage.device();
        Ok(Self::build(storage, device, |dst| *dst = geometry, dtype, false))
    }

    /// A tensor of another layout, without elements of its own: guards refuse its storage, and calls go to the kernels of its keys.
    ///
    /// # Errors
    /// `Shape` for negative sizes and more than [`MAX_DIMS`], `Overflow` for too many elements.
    ///
    /// ```
    /// use flambeau_core::tensor_impl::Parts;
    /// use flambeau_core::{Device, DispatchKey, Layout, ScalarType, TensorImpl};
    ///
    /// let sparse = TensorImpl::from_parts(Parts {
    ///     layout: Layout::SparseCoo,
    ///     device: Device::CPU,
    ///     dtype: ScalarType::F32,
    ///     sizes: [1000, 1000].as_slice().into(),
    ///     keys: DispatchKey::Sparse.into(),
    ///     elements: Box::new((vec![[3, 5]], vec![1.5f32])),
    /// })?;
    /// assert_eq!((sparse.geometry().numel(), sparse.storage().nbytes()), (1_000_000, 0));
    /// assert!(sparse.extension().is_some_and(|elements| elements.is::<(Vec<[i32; 2]>, Vec<f32>)>()));
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn from_parts(parts: Parts) -> Result<IntrusivePtr<TensorImpl>> {
        let geometry = Geometry::contiguous(&parts.sizes)?;
        Self::with_geometry(parts, geometry)
    }

    /// The same for a tensor that reports other strides than row-major ones: those of the strided tensor that it describes.
    ///
    /// # Errors
    /// As [`from_parts`](Self::from_parts), and for negative strides.
    pub fn from_strided_parts(parts: Parts, strides: &[i64]) -> Result<IntrusivePtr<TensorImpl>> {
        let geometry = Geometry::strided(&parts.sizes, strides, 0)?;
        Self::with_geometry(parts, geometry)
    }

    fn with_geometry(parts: Parts, geometry: Geometry) -> Result<IntrusivePtr<TensorImpl>> {
        let storage = Storage::without_bytes(backend::resolve(parts.device)?);
        let device = storage.device();
        let mut made = Self::build(storage, device, |dst| *dst = geometry, parts.dtype, false);
        made.add_keys(parts.keys);
        made.set_extension(parts.elements)?;
        match IntrusivePtr::get_mut(&mut made) {
            Some(made) => made.layout = parts.layout,
            None => crate::bail!(Internal, "a new tensor has another owner"),
        }
        Ok(made)
    }

    /// A tensor that has a geometry but no elements: guards refuse its storage, and calls go to the kernels of `keys`, which know what it
    /// stands for.
    ///
    /// # Errors
    /// The device's, where it has no crate.
    pub fn without_elements(
        geometry: Geometry,
        dtype: ScalarType,
        device: Device,
        keys: DispatchKeySet,
    ) -> Result<IntrusivePtr<TensorImpl>> {
        let storage = Storage::without_bytes(backend::resolve(device)?);
        let device = storage.device();
        let made = Self::build(storage, device, |dst| *dst = geometry, dtype, false);
        made.add_keys(keys);
        Ok(made)
    }

    /// Counts a write that no guard of this storage saw, since the elements are elsewhere.
    pub fn count_write(&self) {
        self.storage.advance_version();
    }

    /// The same storage with other sizes, strides and offset. The geometry is built where it stays, as in the functions below:
    /// `# Note: store forwarding` in the crate's documentation.
    ///
    /// # Errors
    /// Those of [`Geometry::strided`], and `InvalidArgument` if elements lie outside the storage.
    #[inline]
    pub fn alias(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<IntrusivePtr<TensorImpl>> {
        if sizes.len() > INLINE_DIMS {
            let geometry = Geometry::strided(sizes, strides, storage_offset)?;
            return Self::new(self.storage.clone(), geometry, self.dtype);
        }
        let numel = Geometry::check(sizes, strides, storage_offset)?;
        let needed = bytes_to(shape::extent(sizes, strides)?, storage_offset, self.dtype)?;
        ensure!(
            needed <= self.storage.nbytes(),
            InvalidArgument,
            "expected a storage of at least {needed} bytes for sizes {sizes:?}, strides {strides:?} and offset \
             {storage_offset} but got {}",
            self.storage.nbytes()
        );
        let geometry = |dst: &mut Geometry| dst.set(sizes, strides, storage_offset, numel);
        Ok(Self::build(self.storage.clone(), self.device, geometry, self.dtype, false))
    }

    /// The same elements in row-major order of `sizes`, if this tensor is contiguous, has as many elements, and the dimensions fit inline.
    #[inline]
    pub fn viewed_as(&self, sizes: &[i64]) -> Option<IntrusivePtr<TensorImpl>> {
        if sizes.len() > INLINE_DIMS {
            return None;
        }
        let (storage_offset, numel) = match self.geometry() {
            Geometry { contiguous: true, storage_offset, numel, .. } => (*storage_offset, *numel),
            _ => return None,
        };
        let product = sizes.iter().try_fold(
            1i64,
            |product, &size| {
                if size < 0 { None } else { product.checked_mul(size) }
            },
        );
        if product != Some(numel) {
            return None;
        }
        let geometry = |dst: &mut Geometry| dst.set_contiguous(sizes, storage_offset, numel);
        Some(Self::build(self.storage.clone(), self.device, geometry, self.dtype, false))
    }

    /// Another description of the same elements, to which nothing is attached.
    #[inline]
    pub fn shallow_copy(&self) -> IntrusivePtr<TensorImpl> {
        Self::build(
            self.storage.clone(),
            self.device,
            |dst| dst.copy_from(self.geometry()),
            self.dtype,
            false,
        )
    }

    /// The same elements with dimensions `a` and `b`, which exist, exchanged.
    #[inline]
    pub fn transposed(&self, a: usize, b: usize) -> IntrusivePtr<TensorImpl> {
        let geometry = |dst: &mut Geometry| {
            dst.copy_from(self.geometry());
            dst.sizes_and_strides.swap(a, b);
            dst.contiguous = shape::is_contiguous(dst.sizes(), dst.strides());
        };
        Self::build(self.storage.clone(), self.device, geometry, self.dtype, false)
    }

    /// `count` indices of dimension `dim`, every `step`-th from `start` on; `None` unless all of them exist.
    #[inline]
    pub fn sliced(&self, dim: usize, start: i64, count: i64, step: i64) -> Option<IntrusivePtr<TensorImpl>> {
        let g = self.geometry();
        let (size, stride) = (*g.sizes().get(dim)?, *g.strides().get(dim)?);
        let last = if count == 0 { 0 } else { (count - 1).checked_mul(step)?.checked_add(start)? + 1 };
        if start < 0 || start > size || count < 0 || step < 1 || last > size {
            return None;
        }
        let offset = g.storage_offset.saturating_add(start.saturating_mul(stride));
        let geometry = |dst: &mut Geometry| {
            dst.copy_from(g);
            dst.sizes_and_strides.set_dim(dim, count, stride.saturating_mul(step));
            dst.storage_offset = offset;
            dst.numel = if size == 0 { 0 } else { g.numel / size * count };
            dst.contiguous = shape::is_contiguous(dst.sizes(), dst.strides());
        };
        Some(Self::build(self.storage.clone(), self.device, geometry, self.dtype, false))
    }

    /// A tensor in new memory, uninitialised.
    ///
    /// # Errors
    /// `Overflow` for more bytes than fit in 63 bits, and the allocator's.
    #[inline]
    pub fn empty(geometry: Geometry, dtype: ScalarType, device: Device) -> Result<IntrusivePtr<TensorImpl>> {
        let storage = Storage::new(geometry.nbytes(dtype)?, device)?;
        let device = storage.device();
        Ok(Self::build(storage, device, |dst| *dst = geometry, dtype, false))
    }

    /// The same in row-major order: the most common tensor, whose geometry is built where it stays.
    ///
    /// # Errors
    /// `Shape` for negative sizes, and those of [`empty`](Self::empty).
    #[inline]
    pub fn empty_contiguous(
        sizes: &[i64],
        dtype: ScalarType,
        device: Device,
    ) -> Result<IntrusivePtr<TensorImpl>> {
        if !device.is_cpu() {
            return Self::empty_elsewhere(sizes, dtype, device);
        }
        let numel = shape::numel(sizes)?;
        let storage = Storage::new(contiguous_nbytes(numel, dtype)?, device)?;
        if sizes.len() > INLINE_DIMS {
            return Self::with_many_dims(storage, sizes, dtype);
        }
        // Nothing can unwind from here on, so the compiler can hold the arguments in registers.
        let geometry = |dst: &mut Geometry| dst.set_contiguous(sizes, 0, numel);
        Ok(Self::build(storage, device, geometry, dtype, false))
    }

    /// The same on another device, whose index may be known only after its storage is allocated.
    #[cold]
    #[inline(never)]
    fn empty_elsewhere(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<IntrusivePtr<TensorImpl>> {
        let nbytes = contiguous_nbytes(shape::numel(sizes)?, dtype)?;
        Self::with_many_dims(Storage::new(nbytes, device)?, sizes, dtype)
    }

    #[cold]
    fn with_many_dims(
        storage: Storage,
        sizes: &[i64],
        dtype: ScalarType,
    ) -> Result<IntrusivePtr<TensorImpl>> {
        let (geometry, device) = (Geometry::contiguous(sizes)?, storage.device());
        Ok(Self::build(storage, device, |dst| *dst = geometry, dtype, false))
    }

    /// A tensor of a number that was an argument, `2` in `x + 2`, which ranks below tensors in promotion.
    pub fn new_wrapped_number(storage: Storage, dtype: ScalarType) -> Result<IntrusivePtr<TensorImpl>> {
        ensure!(storage.nbytes() >= dtype.size(), Internal, "expected a storage that holds one {dtype}");
        let geometry = Geometry::contiguous(&[])?;
        let device = storage.device();
        Ok(Self::build(storage, device, |dst| *dst = geometry, dtype, true))
    }

    #[inline(always)]
    fn build(
        storage: Storage,
        device: Device,
        geometry: impl FnOnce(&mut Geometry),
        dtype: ScalarType,
        wrapped_number: bool,
    ) -> IntrusivePtr<TensorImpl> {
        let keys = DispatchKeySet::of(DispatchKey::dense(device.device_type())) | creation_keys();
        let make = move |ptr: *mut TensorImpl| {
            // SAFETY: the memory is fresh, and each field is written.
            unsafe {
                (&raw mut (*ptr).storage).write(storage);
                (&raw mut (*ptr).geometry).write(Geometry::one_element());
                geometry(&mut (*ptr).geometry);
                (&raw mut (*ptr).key_set).write(AtomicU64::new(keys.bits()));
                (&raw mut (*ptr).dtype).write(dtype);
                (&raw mut (*ptr).layout).write(Layout::Strided);
                (&raw mut (*ptr).device).write(device);
                (&raw mut (*ptr).wrapped_number).write(wrapped_number);
                (&raw mut (*ptr).replacements).write(RareCell::new());
                (&raw mut (*ptr).autograd_meta).write(OnceCell::new());
                (&raw mut (*ptr).attached).write(RareCell::new());
                (&raw mut (*ptr).python_object).write(AtomicPtr::new(std::ptr::null_mut()));
                // A pattern without `..`, so that a field that is not written above is a compile error.
                let TensorImpl {
                    storage: _,
                    geometry: _,
                    key_set: _,
                    dtype: _,
                    layout: _,
                    device: _,
                    wrapped_number: _,
                    replacements: _,
                    autograd_meta: _,
                    attached: _,
                    python_object: _,
                } = &*ptr;
            }
        };
        // SAFETY: `make` writes all of it.
        unsafe { IntrusivePtr::new_in_place(make) }
    }

    /// The current sizes, strides and offset. One reference is one consistent snapshot.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        match self.replacements.get() {
            None => &self.geometry,
            // SAFETY: `current` points at a geometry that `all` keeps until `self` is dropped: TensorImpl (3).
            Some(replacements) => unsafe { &*replacements.current.load(Ordering::Acquire) },
        }
    }

    /// Replaces the geometry for every handle of this tensor. It waits until no guard on the storage is held, since the geometry must not
    /// change under a guard. The storage must already be large enough. It is no write: the version does not advance, unless saved
    /// variables must be [invalidated](AutogradMeta::geometry_changed).
    ///
    /// # Errors
    /// - `InvalidArgument` if elements would lie outside the storage.
    /// - `Busy` if an accessor of this thread excludes it, or if this thread holds guards and has waited in vain.
    pub fn set_geometry(&self, geometry: Geometry) -> Result<()> {
        let _exclusive = Exclusive::acquire(&self.storage)?;
        ensure!(
            self.layout != Layout::Strided || geometry.nbytes(self.dtype)? <= self.storage.nbytes(),
            InvalidArgument,
            "expected a storage large enough for sizes {:?} but it has {} bytes",
            geometry.sizes(),
            self.storage.nbytes()
        );
        let replacements = self.replacements.get_or_init(|| {
            let first = Pinned::new(self.geometry.clone());
            let current = AtomicPtr::new(first.0.as_ptr());
            Box::new(Replacements { current, all: Mutex::new(vec![first]) })
        });
        let mut all = replacements.all.lock();
        if *self.geometry() != geometry && self.autograd_meta().is_some_and(AutogradMeta::geometry_changed) {
            self.storage.advance_version();
        }
        let index = match all.iter().position(|old| *old.get() == geometry) {
            Some(index) => index,
            None => {
                all.push(Pinned::new(geometry));
                all.len() - 1
            }
        };
        replacements.current.store(all[index].0.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// The geometry that it was made with.
    #[inline]
    pub fn first_geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Whether its geometry was ever [replaced](Self::set_geometry).
    #[inline]
    pub fn was_resized(&self) -> bool {
        self.replacements.get().is_some()
    }

    /// The storage of its elements.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The type of its elements.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// The device of its elements.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// How its elements are stored.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether it stands for a number given as an argument.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.wrapped_number
    }

    /// The keys by which calls on it are dispatched.
    #[inline]
    pub fn key_set(&self) -> DispatchKeySet {
        DispatchKeySet::from_bits(self.key_set.load(Ordering::Relaxed))
    }

    /// Adds keys for every handle of this tensor.
    #[inline]
    pub fn add_keys(&self, keys: DispatchKeySet) {
        self.key_set.fetch_or(keys.bits(), Ordering::Relaxed);
    }

    /// Removes keys for every handle of this tensor.
    #[inline]
    pub fn remove_keys(&self, keys: DispatchKeySet) {
        self.key_set.fetch_and(!keys.bits(), Ordering::Relaxed);
    }

    /// The metadata that the autograd crate has attached.
    #[inline]
    pub fn autograd_meta(&self) -> Option<&dyn AutogradMeta> {
        self.autograd_meta.get().map(|meta| &**meta)
    }

    /// The same, attached now if there is none yet.
    #[inline]
    pub fn autograd_meta_or_init(&self, init: impl FnOnce() -> AutogradMetaBox) -> &dyn AutogradMeta {
        &**self.autograd_meta.get_or_init(init)
    }

    /// Attaches metadata and keys to a tensor that has no other owner yet, without the atomic operations that a shared tensor needs.
    /// Replaces what was attached before.
    #[inline]
    pub fn attach(&mut self, meta: AutogradMetaBox, keys: DispatchKeySet) {
        self.autograd_meta = OnceCell::with_value(meta);
        *self.key_set.get_mut() |= keys.bits();
    }

    /// The elements as its layout stores them: sparse indices and values, a quantizer.
    pub fn extension(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.attached.get()?.layout.get().map(|extension| &**extension)
    }

    /// Sets the [`extension`](Self::extension), once.
    ///
    /// # Errors
    /// `Internal` if there is one already.
    pub fn set_extension(&self, extension: Box<dyn Any + Send + Sync>) -> Result<()> {
        let slot = &self.attached.get_or_init(Box::default).layout;
        ensure!(slot.set(extension).is_ok(), Internal, "this tensor has an extension already");
        Ok(())
    }

    /// What a front end stores with the tensor, apart from its [object](Self::python_object).
    pub fn front_end(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.attached.get()?.front_end.get().map(|data| &**data)
    }

    /// Sets the [`front_end`](Self::front_end) data, once.
    ///
    /// # Errors
    /// `Internal` if there is some already.
    pub fn set_front_end(&self, data: Box<dyn Any + Send + Sync>) -> Result<()> {
        let slot = &self.attached.get_or_init(Box::default).front_end;
        ensure!(slot.set(data).is_ok(), Internal, "a front end keeps something with this tensor already");
        Ok(())
    }

    /// The Python object of this tensor, or null. It is not owned: the object owns the tensor, and resets this pointer when it is
    /// deallocated. It is read and written under the interpreter's lock, so that other threads need no synchronisation.
    #[inline]
    pub fn python_object(&self) -> *mut () {
        self.python_object.load(Ordering::Relaxed)
    }

    /// Makes `object` the Python object of this tensor.
    ///
    /// # Safety
    /// - (object) It is null, or a Python object that owns this tensor and calls
    ///   [`forget_python_object`](Self::forget_python_object) before its memory is freed; the interpreter's lock is held.
    #[inline]
    pub unsafe fn set_python_object(&self, object: *mut ()) {
        self.python_object.store(object, Ordering::Relaxed);
    }

    /// Resets the Python object to null, if it is `object`.
    #[inline]
    pub fn forget_python_object(&self, object: *mut ()) {
        if self.python_object() == object {
            self.python_object.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
