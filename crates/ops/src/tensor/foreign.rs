//! Tensors in memory that another library or program allocated.
#![expect(unsafe_code, reason = "takes foreign memory over")]

use super::Tensor;
use flambeau_core::{Device, Geometry, Result, ScalarType, Storage, TensorImpl, ensure};

impl Tensor {
    /// A tensor of foreign elements at `data`, not copied, with strides in elements or row-major ones. `deleter` is
    /// called once, when no tensor needs the memory any more, on whichever thread that happens; at once if this fails.
    ///
    /// # Errors
    /// `Shape`, `InvalidArgument` or `Overflow` for sizes and strides that no tensor has; `InvalidArgument` where `data` is
    /// null or not aligned for elements of `dtype`.
    ///
    /// # Safety
    /// - (valid) All bytes from `data` to the last element that sizes and strides reach are initialised, and may be read and
    ///   written on any thread until `deleter` has been called.
    /// - (quiet) Until then nobody writes to them but through this tensor and its views, and nobody reads them otherwise while
    ///   those are written.
    /// - (device) They are memory of `device`.
    ///
    /// ```
    /// use flambeau_core::{Device, ScalarType};
    /// use flambeau_ops::Tensor;
    /// let mut values = Box::new([1.0f32, 2.0, 3.0, 4.0]);
    /// let data = values.as_mut_ptr().cast();
    /// // SAFETY: the deleter owns the box, and nobody else has it.
    /// let t = unsafe {
    ///     Tensor::from_blob(data, &[2, 2], Some(&[1, 2]), ScalarType::F32, Device::CPU, Box::new(move || drop(values)))?
    /// };
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub unsafe fn from_blob(
        data: *mut u8,
        sizes: &[i64],
        strides: Option<&[i64]>,
        dtype: ScalarType,
        device: Device,
        deleter: Box<dyn FnOnce() + Send>,
    ) -> Result<Tensor> {
        let checked = check(data, sizes, strides, dtype).map_err(|e| e.in_operator("from_blob"));
        let nbytes = checked.as_ref().map_or(0, |(_, nbytes)| *nbytes);
        // SAFETY: (valid), (quiet), (device). Made even where the check failed, so that the deleter is called.
        let storage = unsafe { Storage::from_foreign(data, nbytes, device, deleter) };
        Ok(Tensor::from_impl(TensorImpl::new(storage, checked?.0, dtype)?))
    }
}

/// The geometry, and the bytes it reaches.
fn check(
    data: *const u8,
    sizes: &[i64],
    strides: Option<&[i64]>,
    dtype: ScalarType,
) -> Result<(Geometry, usize)> {
    ensure!(
        ScalarType::WORKING.contains(&dtype),
        NotImplemented,
        "tensors of {dtype} are not implemented yet"
    );
    let geometry = match strides {
        Some(strides) => Geometry::strided(sizes, strides, 0)?,
        None => Geometry::contiguous(sizes)?,
    };
    let nbytes = geometry.nbytes(dtype)?;
    ensure!(
        nbytes == 0 || (!data.is_null() && data.addr().is_multiple_of(dtype.to_real().size())),
        InvalidArgument,
        "expected a pointer that is aligned for elements of {dtype} but got {data:p}"
    );
    Ok((geometry, nbytes))
}
