//! What generated kernels have in common: allocating outputs from their description, and operands that share memory.

use crate::Tensor;
use crate::snapshot::{Snapshot, ensure_unchanged};
use flambeau_core::{
    Access, Device, DimVec, ErrorKind, Geometry, Guarded, MemoryFormat, Result, ScalarType, Storage,
    StorageGuards, StridedView, bail, ensure, shape,
};
use smallvec::SmallVec;

/// The description of an output that a meta function returns: sizes, memory format, type, device.
///
/// ```
/// use flambeau_core::{Access, Device, ScalarType};
/// use flambeau_ops::structured::TensorSpec;
/// let out = TensorSpec::new(&[2, 3], ScalarType::F32, Device::META).allocate("example")?;
/// assert_eq!(out.sizes(), &[2, 3]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorSpec {
    sizes: DimVec,
    format: MemoryFormat,
    /// The strides of a new tensor, where no format gives them.
    strides: Option<DimVec>,
    dtype: ScalarType,
    device: Device,
    of_another_type: OfAnotherType,
}

/// What happens to an `out` of another type than the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfAnotherType {
    /// It is an error, as in most operators of PyTorch that do not go through a tensor iterator.
    Refused,
    /// The result is converted: `cat`.
    Converted,
    /// The result has the type of `out`: `cumsum`.
    Followed,
}

impl TensorSpec {
    /// A row-major output.
    pub fn new(sizes: &[i64], dtype: ScalarType, device: Device) -> Self {
        TensorSpec {
            sizes: DimVec::from_slice(sizes),
            format: MemoryFormat::Contiguous,
            strides: None,
            dtype,
            device,
            of_another_type: OfAnotherType::Refused,
        }
    }

    /// An output of other sizes but the type and device of `tensor`.
    pub fn like(tensor: &Tensor, sizes: &[i64]) -> Self {
        Self::new(sizes, tensor.dtype(), tensor.device())
    }

    /// With elements of `dtype`.
    pub fn with_dtype(self, dtype: ScalarType) -> Self {
        TensorSpec { dtype, ..self }
    }

    /// To be converted where `out` is of another type to which it can be cast.
    pub fn converted_to_out(self) -> Self {
        TensorSpec { of_another_type: OfAnotherType::Converted, ..self }
    }

    /// To be computed in the type of `out`, whatever that is.
    pub fn in_type_of_out(self) -> Self {
        TensorSpec { of_another_type: OfAnotherType::Followed, ..self }
    }

    /// With dimensions in the order of `format`.
    pub fn with_format(self, format: MemoryFormat) -> Self {
        TensorSpec { format, ..self }
    }

    /// With these strides for a new tensor; an `out` that is resized is row-major.
    pub fn with_strides(self, strides: DimVec) -> Self {
        TensorSpec { strides: Some(strides), ..self }
    }

    /// Its sizes.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// The type of its elements.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// A new tensor of this description, without values.
    ///
    /// # Errors
    /// As [`Geometry::contiguous`], and `OutOfMemory`; each names the operator.
    pub fn allocate(&self, name: &str) -> Result<Tensor> {
        if let Some(strides) = &self.strides {
            let made = Tensor::empty_with_strides(&self.sizes, strides, self.dtype, self.device);
            return made.map_err(|e| e.in_operator(name));
        }
        let made = match self.format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => {
                Tensor::empty_contiguous(&self.sizes, self.dtype, self.device)
            }
            format => shape::strides_for(&self.sizes, format).and_then(|strides| {
                Tensor::empty_with_strides(&self.sizes, &strides, self.dtype, self.device)
            }),
        };
        made.map_err(|e| e.in_operator(name))
    }

    /// The tensor that an `out=` call writes: `out` itself, or a new tensor to be copied into `out` where sizes or types differ or `out`
    /// shares memory with an input.
    ///
    /// # Errors
    /// `Dtype` where the result cannot be cast to `out`, `Device` where it is elsewhere, `Aliasing` where `out` overlaps itself or is
    /// read-only, `InvalidArgument` where it cannot be resized.
    pub fn for_out(&self, name: &str, out: &Tensor, inputs: &[&Tensor]) -> Result<Target> {
        ensure!(
            out.device() == self.device,
            Device(name, "out"),
            expected = self.device,
            got = out.device(),
            "expected `out` on {expected} but got {got}"
        );
        match self.of_another_type {
            OfAnotherType::Followed if out.dtype() != self.dtype => {
                return self.clone().with_dtype(out.dtype()).for_out(name, out, inputs);
            }
            OfAnotherType::Converted => ensure!(
                self.dtype.can_cast(out.dtype()),
                Dtype(name, "out"),
                expected = self.dtype,
                got = out.dtype(),
                "result type {expected} can't be cast to the desired output type {got}"
            ),
            _ => ensure!(
                self.dtype == out.dtype(),
                Dtype(name, "out"),
                expected = self.dtype,
                got = out.dtype(),
                "Expected out tensor to have dtype {expected}, but got {got} instead"
            ),
        }
        ensure_takes(out, &self.sizes, self.device).map_err(|e| e.in_operator(name))?;
        if out.sizes() != self.sizes.as_slice() {
            // Resized when the result is computed, so that a call that fails changes nothing.
            return Ok(Target { tensor: self.allocate(name)?, direct: false });
        }
        self.target(name, out, inputs)
    }

    /// The tensor that an in-place call writes; `self_` keeps its shape.
    ///
    /// # Errors
    /// `Shape` where the result has another shape, and those of [`for_out`](Self::for_out).
    pub fn for_in_place(&self, name: &str, self_: &Tensor, inputs: &[&Tensor]) -> Result<Target> {
        ensure!(
            self_.sizes() == self.sizes.as_slice(),
            Shape(name, "self"),
            expected = format_args!("{:?}", self.sizes),
            got = format_args!("{:?}", self_.sizes()),
            "output with shape {got} doesn't match the result shape {expected}"
        );
        ensure!(
            self.dtype.can_cast(self_.dtype()),
            Dtype(name, "self"),
            expected = self.dtype,
            got = self_.dtype(),
            "result type {expected} can't be cast to the desired output type {got}"
        );
        self.target(name, self_, inputs)
    }

    fn target(&self, name: &str, out: &Tensor, inputs: &[&Tensor]) -> Result<Target> {
        ensure_written_once(out).map_err(|e| e.in_operator(name))?;
        let direct =
            out.dtype() == self.dtype && !inputs.iter().any(|i| Storage::ptr_eq(i.storage(), out.storage()));
        let tensor = match direct {
            true if out.was_resized() => out.snapshot(),
            true => out.clone(),
            false => self.allocate(name)?,
        };
        Ok(Target { tensor, direct })
    }
}

/// The tensor that a structured kernel writes.
pub struct Target {
    tensor: Tensor,
    direct: bool,
}

impl Target {
    /// The tensor to fill.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Copies the values to `out` where the kernel has not written them there.
    pub fn finish(self, out: &Tensor) -> Result<()> {
        if self.direct { Ok(()) } else { resize_and_copy(&self.tensor, out) }
    }
}

/// Gives `out` the sizes of a result, growing its storage if need be.
///
/// # Errors
/// `OutOfMemory`, or `InvalidArgument` where the storage is not the library's own.
pub fn resize_out(out: &Tensor, sizes: &[i64]) -> Result<()> {
    resize(out, sizes, MemoryFormat::Contiguous)
}

/// Gives `tensor` other sizes, dense in the order of `format`; elements are not moved in memory.
///
/// # Errors
/// As [`resize_out`].
pub fn resize(tensor: &Tensor, sizes: &[i64], format: MemoryFormat) -> Result<()> {
    shape::numel(sizes)?;
    let strides = shape::strides_for(sizes, format)?;
    let geometry = Geometry::strided(sizes, &strides, tensor.storage_offset())?;
    let needed = geometry.nbytes(tensor.dtype())?;
    if needed > tensor.storage().nbytes() {
        tensor.storage().grow(needed)?;
    }
    tensor.impl_().set_geometry(geometry)
}

/// Refuses an `out` that cannot take a result of these sizes, before it is changed.
///
/// # Errors
/// `Device` where it is elsewhere, `Aliasing` where it may not be written, or overlaps itself, `InvalidArgument` where it would have to
/// grow and cannot.
pub(crate) fn ensure_takes(out: &Tensor, sizes: &[i64], device: Device) -> Result<()> {
    ensure!(
        out.device() == device,
        Device,
        argument = "out",
        expected = device,
        got = out.device(),
        "expected `out` on {expected} but got {got}"
    );
    let storage = out.storage();
    ensure!(
        !storage.is_read_only(),
        Aliasing,
        argument = "out",
        "expected memory that may be written but it is read-only"
    );
    if out.sizes() == sizes {
        return ensure_written_once(out);
    }
    let strides = shape::strides_for(sizes, MemoryFormat::Contiguous)?;
    let needed = Geometry::strided(sizes, &strides, out.storage_offset())?.nbytes(out.dtype())?;
    ensure!(
        needed <= storage.nbytes() || storage.is_resizable(),
        InvalidArgument,
        argument = "out",
        "Trying to resize storage that is not resizable: its memory is foreign, or shared with another library"
    );
    Ok(())
}

/// The last step of a call that writes an `out` which [takes](ensure_takes) the result: other sizes, then the values.
pub(crate) fn resize_and_copy(result: &Tensor, out: &Tensor) -> Result<()> {
    if out.sizes() != result.sizes() {
        resize_out(out, result.sizes())?;
    }
    crate::ops::copy_(out, result, false)
}

fn ensure_out(result: &Tensor, out: &Tensor) -> Result<()> {
    ensure!(
        result.dtype() == out.dtype(),
        Dtype,
        argument = "out",
        expected = result.dtype(),
        got = out.dtype(),
        "Expected out tensor to have dtype {expected}, but got {got} instead"
    );
    ensure_takes(out, result.sizes(), result.device())
}

/// Copies a result into `out`, resized to fit: what an `out=` sibling of an operator without a structured kernel does.
///
/// # Errors
/// `Dtype` where `out` is of another type, `Aliasing` where it overlaps itself, and those of [`resize_out`].
pub fn copy_to_out(result: &Tensor, out: &Tensor) -> Result<()> {
    copy_all_to_out(&[(result, out)])
}

/// [`copy_to_out`] for several results, none of which is copied unless all can be.
///
/// # Errors
/// Those of [`copy_to_out`].
pub fn copy_all_to_out(results: &[(&Tensor, &Tensor)]) -> Result<()> {
    results.iter().try_for_each(|(result, out)| ensure_out(result, out))?;
    results.iter().try_for_each(|(result, out)| resize_and_copy(result, out))
}

/// [`copy_to_out`] for a list of results.
///
/// # Errors
/// `InvalidArgument` where there are not as many `out`, and those of [`copy_to_out`].
pub fn copy_each_to_out(results: &[Tensor], out: &[Tensor]) -> Result<()> {
    ensure!(
        results.len() == out.len(),
        InvalidArgument,
        argument = "out",
        expected = results.len(),
        got = out.len(),
        "expected an out= argument of size {expected}, got size {got}"
    );
    copy_all_to_out(&results.iter().zip(out).collect::<Vec<_>>())
}

/// [`copy_to_out`] for an `out` of any type that the result can be cast to.
///
/// # Errors
/// `Dtype` where it cannot, and those of [`copy_to_out`].
pub fn convert_to_out(result: &Tensor, out: &Tensor) -> Result<()> {
    copy_to_out(&converted_for(result, out)?, out)
}

/// [`convert_to_out`] for several results, none of which is copied unless all can be.
///
/// # Errors
/// Those of [`convert_to_out`].
pub fn convert_all_to_out(results: &[(&Tensor, &Tensor)]) -> Result<()> {
    let converted: Vec<Tensor> =
        results.iter().map(|(result, out)| converted_for(result, out)).collect::<Result<_>>()?;
    copy_all_to_out(
        &converted.iter().zip(results).map(|(result, (_, out))| (result, *out)).collect::<Vec<_>>(),
    )
}

/// The result in the type of `out`.
fn converted_for(result: &Tensor, out: &Tensor) -> Result<Tensor> {
    ensure!(
        result.dtype().can_cast(out.dtype()),
        Dtype,
        argument = "out",
        expected = result.dtype(),
        got = out.dtype(),
        "result type {expected} can't be cast to the desired output type {got}"
    );
    if result.dtype() == out.dtype() {
        return Ok(result.clone());
    }
    crate::ops::_to_copy(result, Some(out.dtype()), None, None, None, false, None)
}

/// Copies a result into `self_`, whose shape is fixed: what an in-place sibling of an operator without a structured kernel does.
///
/// # Errors
/// `Dtype` where the result cannot be cast to `self_`, `Shape` where it has another shape.
pub fn copy_to_self(name: &str, result: &Tensor, self_: &Tensor) -> Result<()> {
    ensure!(
        result.sizes() == self_.sizes(),
        Shape(name, "self"),
        expected = format_args!("{:?}", result.sizes()),
        got = format_args!("{:?}", self_.sizes()),
        "output with shape {got} doesn't match the result shape {expected}"
    );
    ensure!(
        result.dtype().can_cast(self_.dtype()),
        Dtype(name, "self"),
        expected = result.dtype(),
        got = self_.dtype(),
        "result type {expected} can't be cast to the desired output type {got}"
    );
    crate::ops::copy_(self_, result, false)
}

/// Refuses a tensor of which two elements share memory.
pub(crate) fn ensure_written_once(out: &Tensor) -> Result<()> {
    ensure!(
        out.is_contiguous() || !shape::has_internal_overlap(out.sizes(), out.strides()),
        Aliasing,
        "expected an output of which every element has memory of its own but got sizes {:?} with strides {:?}",
        out.sizes(),
        out.strides()
    );
    Ok(())
}

/// Refuses operands on several devices, as kernels that compute shapes alone must: where one of them has values and another has
/// none, the result would have neither. Zero-dimensional CPU tensors may join a first one that has dimensions.
///
/// # Errors
/// `Device`, naming both.
pub fn ensure_same_device(name: &str, operands: &[&Tensor]) -> Result<()> {
    let Some((first, others)) = operands.split_first() else { return Ok(()) };
    let joins = |other: &Tensor| first.dim() > 0 && other.dim() == 0 && other.device().is_cpu();
    for other in others {
        ensure!(
            other.device() == first.device() || joins(other),
            Device(name),
            expected = first.device(),
            got = other.device(),
            "expected all tensors to be on the same device, but got at least two devices, {expected} and {got}"
        );
    }
    Ok(())
}

/// Calls `body` under shared guards on `reads` and exclusive ones on `writes`. Each operand has one geometry from the beginning
/// of the call to the end of `body`: a tensor that was ever given another geometry is refused, and must be passed as a
/// `snapshot`.
///
/// # Errors
/// `Busy` where this thread holds an accessor, or a geometry was changed; `Aliasing` where memory may not be written;
/// `Device` where the host may not touch it; and `body`'s own.
pub fn with_guards<R>(
    name: &str,
    reads: &[&Tensor],
    writes: &[&Tensor],
    body: impl for<'g> FnOnce(Guarded<'g>) -> Result<R>,
) -> Result<R> {
    let mut body = Some(body);
    let mut result = None;
    with_guards_dyn(name, reads, writes, &mut |guarded| result = body.take().map(|body| body(guarded)))?;
    match result {
        Some(result) => result,
        None => bail!(Internal(name), "the body of a guarded call did not run"),
    }
}

/// [`with_guards`] for a body that allocates [scratch memory](crate::scratch).
///
/// # Errors
/// Those of [`with_guards`], and `OutOfMemory`.
pub(crate) fn with_scratch<R>(
    name: &str,
    reads: &[&Tensor],
    writes: &[&Tensor],
    body: impl for<'g> FnOnce(Guarded<'g>) -> Result<R>,
) -> Result<R> {
    crate::scratch::catch(|| with_guards(name, reads, writes, body)).map_err(|e| match e.kind() {
        ErrorKind::OutOfMemory => e.in_operator(name),
        _ => e,
    })
}

/// [`with_guards`] without the type of the body, compiled once for hundreds of bodies.
fn with_guards_dyn(
    name: &str,
    reads: &[&Tensor],
    writes: &[&Tensor],
    body: &mut dyn FnMut(Guarded<'_>),
) -> Result<()> {
    let mut accesses: SmallVec<[(&Storage, Access); 6]> = SmallVec::new();
    // Two loops: a chained iterator checks for each element which part it is in.
    for read in reads {
        accesses.push((read.storage(), Access::Read));
    }
    for write in writes {
        accesses.push((write.storage(), Access::Write));
    }
    let guards = StorageGuards::acquire(&accesses).map_err(|e| e.in_operator(name))?;
    ensure_unchanged(reads).and_then(|()| ensure_unchanged(writes)).map_err(|e| e.in_operator(name))?;
    body(guards.guarded());
    Ok(())
}

/// Whether two tensors share memory without being the same view of it, judged by the ranges of bytes that they span.
///
/// # Errors
/// `Overflow` for strides that reach past 2^63.
pub(crate) fn overlaps_partially(a: StridedView<'_>, b: StridedView<'_>) -> Result<bool> {
    if !Storage::ptr_eq(a.storage(), b.storage()) || a.numel() == 0 || b.numel() == 0 {
        return Ok(false);
    }
    if a.geometry() == b.geometry() && a.dtype() == b.dtype() {
        return Ok(false);
    }
    let span = |t: StridedView<'_>| -> Result<(i64, i64)> {
        let size = t.dtype().size() as i64;
        let last = shape::extent(t.sizes(), t.strides())?.unwrap_or(0);
        let first = t.geometry().storage_offset();
        Ok((first * size, (first + last + 1) * size))
    };
    let ((a_start, a_end), (b_start, b_end)) = (span(a)?, span(b)?);
    Ok(a_start < b_end && b_start < a_end)
}

/// A copy of `tensor` in memory that nobody else has.
pub(crate) fn private_copy(tensor: &Tensor) -> Result<Tensor> {
    crate::ops::clone(tensor, Some(MemoryFormat::Preserve))
}
