//! Copies elements to Rust values: `to_vec`, `to_vec2`, `item`.
#![expect(unsafe_code, reason = "reads elements behind a guard")]

use super::Tensor;
use super::offsets::{Extents, Offsets, extents, split_row};
use flambeau_core::{
    Device, DimVec, DispatchKey, Element, ReadGuard, Result, Scalar, ScalarType, Storage, ensure, error,
    fallible, shape,
};

/// A tensor's elements, readable for as long as this lives.
///
/// Invariant: every offset that `sizes` and `strides` reach lies inside the guarded bytes, counted from `first`; `TensorImpl`
/// (2) says so of the geometry they come from, and storages never shrink.
pub(crate) struct Elements<T> {
    first: *const T,
    sizes: Extents,
    strides: Extents,
    contiguous: bool,
    _guard: ReadGuard,
}

impl<T: Element> Elements<T> {
    /// Guards the elements of `tensor`, which must be on the host.
    pub(crate) fn new(tensor: &Tensor) -> Result<Self> {
        Self::guarded_by(tensor, ReadGuard::acquire)
    }

    /// The same without waiting for a writer.
    pub(crate) fn try_new(tensor: &Tensor) -> Result<Self> {
        Self::guarded_by(tensor, ReadGuard::try_acquire)
    }

    fn guarded_by(tensor: &Tensor, acquire: fn(&Storage) -> Result<ReadGuard>) -> Result<Self> {
        tensor.expect_dtype(T::SCALAR_TYPE)?;
        tensor.expect_host()?;
        let view = tensor.strided_view();
        let (guard, geometry) = (acquire(view.storage())?, view.geometry());
        Ok(Elements {
            first: guard.data_ptr().cast::<T>().wrapping_add(geometry.storage_offset() as usize),
            sizes: extents(geometry.sizes()),
            strides: extents(geometry.strides()),
            contiguous: geometry.is_contiguous(),
            _guard: guard,
        })
    }

    /// The elements of `tensor` broadcast to `sizes`.
    pub(crate) fn broadcast(tensor: &Tensor, sizes: &[i64]) -> Result<Self> {
        shape::numel(sizes)?;
        let own = Self::new(tensor)?;
        let signed = |extents: &Extents| extents.iter().map(|&n| n as i64).collect::<DimVec>();
        let strides = shape::expand_strides(&signed(&own.sizes), &signed(&own.strides), sizes)?;
        // Broadcasting repeats elements, so the invariant holds.
        Ok(Elements { sizes: extents(sizes), strides: extents(&strides), contiguous: false, ..own })
    }

    /// Sizes, outermost first.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The element at `index`, one number per dimension, or `None` outside.
    pub(crate) fn get(&self, index: &[usize]) -> Option<T> {
        let inside =
            index.len() == self.sizes.len() && index.iter().zip(&self.sizes).all(|(i, size)| i < size);
        let offset = index.iter().zip(&self.strides).map(|(i, stride)| i * stride);
        // SAFETY: (inside) `index` is one of `sizes`, so the invariant speaks of its offset.
        inside.then(|| unsafe { read(self.first.add(offset.sum())) })
    }

    /// Every element, in logical order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let (outer, n) = split_row(&self.sizes, 1);
        let (outer_strides, stride) = split_row(&self.strides, 1);
        // A row of size 0 has no first element to point at.
        let rows = Offsets::new(outer, outer_strides).take(if n == 0 { 0 } else { usize::MAX });
        // SAFETY: (inside) rows and the steps within them stay inside `sizes`.
        rows.flat_map(move |row| (0..n).map(move |j| unsafe { read(self.first.add(row + j * stride)) }))
    }

    /// Every element, in logical order.
    pub(crate) fn to_vec(&self) -> Result<Vec<T>> {
        let n = self.sizes.iter().fold(1, |n: usize, size| n.wrapping_mul(*size));
        let mut values = fallible::with_capacity(n)?;
        if self.contiguous && T::SCALAR_TYPE != ScalarType::Bool && n > 0 {
            // SAFETY: the elements lie in a row from `first`, any bytes are a value of a type that is not bool, and `values` has
            // room; as bytes, since foreign memory may be less aligned than `T`.
            unsafe {
                let to = values.as_mut_ptr() as *mut u8;
                std::ptr::copy_nonoverlapping(self.first.cast(), to, n * size_of::<T>());
                values.set_len(n);
            }
        } else {
            values.extend(self.iter());
        }
        Ok(values)
    }
}

/// One element. A bool is read as a byte: uninitialized memory may hold others than 0 and 1.
///
/// # Safety
/// - (inside) `at` points at a guarded element, aligned or not.
#[inline(always)]
unsafe fn read<T: Element>(at: *const T) -> T {
    if T::SCALAR_TYPE == ScalarType::Bool {
        // SAFETY: (inside).
        T::from_scalar(Scalar::Bool(unsafe { at.cast::<u8>().read() } != 0))
    } else {
        // SAFETY: (inside); any bytes are a value of these types.
        unsafe { at.read_unaligned() }
    }
}

impl Tensor {
    pub(crate) fn expect_dtype(&self, dtype: ScalarType) -> Result<()> {
        ensure!(
            self.dtype() == dtype,
            Dtype,
            argument = "self",
            expected = dtype,
            got = self.dtype(),
            "expected a tensor of {expected} but got one of {got}; convert it first"
        );
        Ok(())
    }

    pub(crate) fn expect_host(&self) -> Result<()> {
        ensure!(
            !self.key_set().has(DispatchKey::Batched),
            NotImplemented,
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, \
             please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch \
             internals, please file a bug report."
        );
        ensure!(
            self.device().is_cpu(),
            Device,
            argument = "self",
            expected = Device::CPU,
            got = self.device(),
            "expected a tensor on the {expected} but got one on {got}"
        );
        Ok(())
    }

    /// A copy in the memory of the host; itself where it is on the host.
    pub(crate) fn on_host(&self) -> Result<Tensor> {
        if self.device().is_cpu() {
            return Ok(self.clone());
        }
        ensure!(
            !self.device().is_meta(),
            Device,
            argument = "self",
            got = self.device(),
            "a tensor on {got} has no values"
        );
        let host = Tensor::empty_contiguous(self.sizes(), self.dtype(), Device::CPU)?;
        crate::ops::copy_(&host, self, false)?;
        Ok(host)
    }

    /// The elements in logical order, whatever the strides.
    ///
    /// # Errors
    /// `Dtype` unless `T` is the tensor's own type, `Device` for a tensor without values, `Busy` where an accessor of this
    /// thread is writing them, `OutOfMemory`.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    /// assert_eq!(t.to_vec::<i64>()?, [1, 2, 3, 4, 5, 6]);
    /// assert!(t.to_vec::<f32>().is_err());
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let host = self.on_host()?;
        Elements::new(&host).and_then(|elements| elements.to_vec()).map_err(|e| e.in_operator("to_vec"))
    }

    /// The rows of a matrix.
    ///
    /// # Errors
    /// `Shape` unless there are two dimensions, and those of [`to_vec`](Self::to_vec).
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1.5f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(t.to_vec2::<f32>()?, [[1.5, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        let &[rows, columns] = self.sizes() else {
            flambeau_core::bail!(
                Shape("to_vec2", "self"),
                "expected 2 dimensions but got sizes {:?}",
                self.sizes()
            );
        };
        let mut values = self.to_vec::<T>()?.into_iter();
        let row = |_| fallible::collect(values.by_ref().take(columns as usize));
        fallible::try_collect((0..rows).map(row))
    }

    /// The value of a tensor of one element, as an element type or as a [`Scalar`]'s kind.
    ///
    /// # Errors
    /// `Shape` unless there is just one element, and those of [`to_vec`](Self::to_vec).
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Tensor::from(2.5f32).item::<f32>()?, 2.5);
    /// assert!(Tensor::from([1i64, 2]).item::<i64>().is_err());
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn item<T: Element>(&self) -> Result<T> {
        ensure!(
            self.numel() == 1,
            Shape("item", "self"),
            "expected one element but got sizes {:?}",
            self.sizes()
        );
        let elements = Elements::new(&self.on_host()?).map_err(|e| e.in_operator("item"))?;
        let first = elements.iter().next();
        first.ok_or_else(|| error!(Internal("item"), "one element was not there"))
    }

    /// The value of a tensor of one element, whatever its type.
    ///
    /// # Errors
    /// `Shape` unless there is just one element, `Device` and `Busy` as for [`to_vec`](Self::to_vec).
    ///
    /// ```
    /// use flambeau_core::Scalar;
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Tensor::from(7u8).item_scalar()?, Scalar::Int(7));
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn item_scalar(&self) -> Result<Scalar> {
        crate::dispatch_all_types!(stored, self.dtype(), "item", T => self.item::<T>().map(Element::to_scalar))
    }
}
