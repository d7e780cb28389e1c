//! Tensors: counted references.

use crate::abi::{FbDevice, FbTensor};
use crate::elements::Element;
use crate::error::{Error, ErrorKind, Result, taken};
use crate::table::member;
use std::ptr;

/// A reference to a tensor.
pub struct Tensor(*mut FbTensor);

// SAFETY: the library's handles are counted atomically and may be used on any thread.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Drop for Tensor {
    fn drop(&mut self) {
        let release = || -> Result<()> {
            let release = member!(tensor_release);
            // SAFETY: the handle is ours, and not used after.
            unsafe { release(self.0) };
            Ok(())
        };
        // A plug-in that was never started has no tensor.
        let _ = release();
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        let retain = || -> Result<*mut FbTensor> {
            let retain = member!(tensor_retain);
            // SAFETY: the handle is alive.
            Ok(unsafe { retain(self.0) })
        };
        // A plug-in that was never started has no tensor to clone.
        Tensor(retain().unwrap_or(self.0))
    }
}

impl Tensor {
    /// A reference of its own to a borrowed handle.
    ///
    /// # Safety
    /// - The handle is alive.
    pub(crate) unsafe fn retained(handle: *mut FbTensor) -> Result<Self> {
        let retain = member!(tensor_retain);
        // SAFETY: as above.
        let handle = unsafe { retain(handle) };
        if handle.is_null() {
            Err(Error::new(ErrorKind::InvalidArgument, "expected a tensor"))
        } else {
            Ok(Tensor(handle))
        }
    }

    /// The handle, borrowed.
    pub(crate) fn handle(&self) -> *mut FbTensor {
        self.0
    }

    /// A tensor on the CPU whose elements have any values, row-major, with elements of type `T`.
    ///
    /// # Errors
    /// Those of the library.
    pub fn empty<T: Element>(sizes: &[i64]) -> Result<Self> {
        Self::empty_of(sizes, T::TYPE)
    }

    /// The same for a type by its number.
    ///
    /// # Errors
    /// Those of the library.
    pub fn empty_of(sizes: &[i64], dtype: i32) -> Result<Self> {
        let empty = member!(tensor_empty);
        let mut out = ptr::null_mut();
        let on = FbDevice { kind: 0, index: -1 };
        // SAFETY: lists, and memory for the result.
        unsafe { taken(empty(sizes.as_ptr(), sizes.len(), dtype, on, &raw mut out)) }?;
        Ok(Tensor(out))
    }

    /// A tensor on the CPU of these elements.
    ///
    /// # Errors
    /// `Shape` where there are more or fewer than the sizes say.
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[i64]) -> Result<Self> {
        let made = Self::empty::<T>(sizes)?;
        {
            let mut written = made.write::<T>()?;
            if written.len() != elements.len() {
                let message = format!(
                    "expected {} elements for sizes {sizes:?} but got {}",
                    written.len(),
                    elements.len()
                );
                return Err(Error::new(ErrorKind::Shape, message));
            }
            written.copy_from_slice(elements);
        }
        Ok(made)
    }

    /// Its sizes and its strides, of one moment: another thread may resize it.
    ///
    /// # Errors
    /// `NotImplemented` where the library is older than 1.1.
    pub fn geometry(&self) -> Result<(Vec<i64>, Vec<i64>)> {
        let geometry = member!(tensor_geometry);
        let (mut sizes, mut strides) = (ptr::null(), ptr::null());
        // SAFETY: the handle is alive, and there is memory for both lists.
        let count = unsafe { geometry(self.0, &raw mut sizes, &raw mut strides) };
        let list = |first: *const i64| match count {
            0 => vec![],
            // SAFETY: both lists have so many numbers, and live as long as the tensor.
            _ => unsafe { std::slice::from_raw_parts(first, count) }.to_vec(),
        };
        Ok((list(sizes), list(strides)))
    }

    /// Its sizes.
    ///
    /// # Errors
    /// As for [`geometry`](Self::geometry).
    pub fn sizes(&self) -> Result<Vec<i64>> {
        self.geometry().map(|(sizes, _)| sizes)
    }

    /// Its strides, in elements.
    ///
    /// # Errors
    /// As for [`geometry`](Self::geometry).
    pub fn strides(&self) -> Result<Vec<i64>> {
        self.geometry().map(|(_, strides)| strides)
    }

    /// How many elements it has.
    ///
    /// # Errors
    /// None where a library has loaded this plug-in; so below.
    pub fn numel(&self) -> Result<i64> {
        let numel = member!(tensor_numel);
        // SAFETY: the handle is alive.
        Ok(unsafe { numel(self.0) })
    }

    /// The number of the type of its elements.
    ///
    /// # Errors
    /// As for [`numel`](Self::numel).
    pub fn dtype(&self) -> Result<i32> {
        let dtype = member!(tensor_dtype);
        // SAFETY: the handle is alive.
        Ok(unsafe { dtype(self.0) })
    }

    /// Whether its elements lie in row-major order without gaps.
    ///
    /// # Errors
    /// As for [`numel`](Self::numel).
    pub fn is_contiguous(&self) -> Result<bool> {
        let is_contiguous = member!(tensor_is_contiguous);
        // SAFETY: the handle is alive.
        Ok(unsafe { is_contiguous(self.0) } != 0)
    }

    /// Its elements in row-major order, from a dense copy if it is not dense itself.
    ///
    /// # Errors
    /// `Dtype` where its elements are not of type `T`; those of copying.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(self.contiguous()?.read::<T>()?.to_vec())
    }

    /// The same tensor, or a dense copy of it.
    ///
    /// # Errors
    /// Those of the operator `contiguous`.
    pub fn contiguous(&self) -> Result<Tensor> {
        let results = crate::find("contiguous")?.call(&[self.into(), crate::Value::MemoryFormat(0)])?;
        results.first().map_or_else(
            || Err(Error::new(ErrorKind::Internal, "no result")),
            |value| value.tensor().cloned(),
        )
    }
}
