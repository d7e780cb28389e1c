//! The kernels of Fourier transforms: complex to complex, real to complex, complex to real.

use super::arguments::{BY_N, BY_ROOT_N, NONE, ensure_length, wrapped_dims};
use crate::native::guarded_slices::with_slices;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use bytemuck::Pod;
use flambeau_core::{DimVec, Error, Result, ScalarType, bail, ensure, fallible, shape};
use flambeau_fft::{
    Direction, Float, OutOfMemory, Shape, complex_in_place, complex_to_complex, complex_to_real,
    real_to_complex,
};
use smallvec::SmallVec;

/// The factor of a normalization for so many elements.
pub fn factor(name: &str, normalization: i64, count: i64) -> Result<f64> {
    match normalization {
        NONE => Ok(1.0),
        BY_ROOT_N => Ok(1.0 / (count as f64).sqrt()),
        BY_N => Ok(1.0 / count as f64),
        _ => bail!(
            InvalidArgument(name, "normalization"),
            got = normalization,
            "expected a normalization of 0, 1 or 2, but got {got}"
        ),
    }
}

/// The dimensions of a transform from the front, the last of which is transformed first.
struct Dims {
    all: DimVec,
    /// The number of elements that are summed.
    count: i64,
}

impl Dims {
    fn new(name: &str, self_: &Tensor, dims: &[i64]) -> Result<Self> {
        let all = wrapped_dims(name, dims, self_.dim())?;
        let sizes: DimVec = all.iter().map(|dim| self_.sizes()[*dim as usize]).collect();
        sizes.iter().try_for_each(|size| ensure_length(name, *size))?;
        Ok(Dims { all, count: shape::numel(&sizes).map_err(|e| e.in_operator(name))? })
    }

    /// The dimension that is transformed first, and the others in their order.
    fn in_order(&self) -> Option<(usize, impl Iterator<Item = usize> + use<>)> {
        let mut dims = self.all.clone().into_iter().rev().map(|dim| dim as usize);
        dims.next().map(|first| (first, dims))
    }
}

/// The dimension that becomes complex or real.
fn last(name: &str, dims: &[i64]) -> Result<i64> {
    ensure!(!dims.is_empty(), InvalidArgument(name, "dim"), "must transform at least one axis");
    Ok(dims[dims.len() - 1])
}

fn with_size(self_: &Tensor, dim: i64, size: i64) -> DimVec {
    let mut sizes = DimVec::from_slice(self_.sizes());
    sizes[dim as usize] = size;
    sizes
}

/// Checks that elements are complex, or real, in single or double precision.
fn ensure_kind(name: &str, self_: &Tensor, complex: bool) -> Result<()> {
    let (dtype, kind) = (self_.dtype(), if complex { "complex" } else { "real floating point" });
    let fits = match complex {
        true => matches!(dtype, ScalarType::Complex64 | ScalarType::Complex128),
        false => matches!(dtype, ScalarType::F32 | ScalarType::F64),
    };
    ensure!(
        fits,
        Dtype(name, "self"),
        got = dtype,
        "expected a {kind} tensor of single or double precision, but got {got}"
    );
    Ok(())
}

/// Sizes and strides for the crate below. A tensor has no negative ones.
fn shape_of(tensor: &Tensor) -> Shape {
    let numbers =
        |values: &[i64]| values.iter().map(|value| *value as usize).collect::<SmallVec<[usize; 6]>>();
    Shape::strided(&numbers(tensor.sizes()), &numbers(tensor.strides()))
}

fn no_memory(name: &str) -> impl Fn(OutOfMemory) -> Error + Copy + '_ {
    move |error| fallible::no_memory(error.bytes).in_operator(name)
}

/// Calls `fill` with `out`, or with a row-major tensor that is copied to it.
fn fill_contiguous(name: &str, out: &Tensor, fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if out.is_contiguous() {
        return fill(out);
    }
    let made = TensorSpec::like(out, out.sizes()).allocate(name)?;
    fill(&made)?;
    ops::copy_(out, &made, false).map(drop)
}

/// Transforms the remaining dimensions of a row-major array in place.
fn transform_others<T: Float>(
    name: &str,
    array: &mut [[T; 2]],
    sizes: &[usize],
    dims: impl Iterator<Item = usize>,
    (direction, factor): (Direction, f64),
) -> Result<()> {
    let mut dims = dims.peekable();
    while let Some(dim) = dims.next() {
        // The last pass has the factor.
        let factor = if dims.peek().is_none() { factor } else { 1.0 };
        complex_in_place(array, sizes, dim, direction, factor).map_err(no_memory(name))?;
    }
    Ok(())
}

const C2C: &str = "_fft_c2c";
const R2C: &str = "_fft_r2c";
const C2R: &str = "_fft_c2r";

/// Shape and type of [`_fft_c2c`].
pub fn _fft_c2c_meta(self_: &Tensor, dim: &[i64], normalization: i64, _forward: bool) -> Result<TensorSpec> {
    ensure_kind(C2C, self_, true)?;
    factor(C2C, normalization, Dims::new(C2C, self_, dim)?.count)?;
    Ok(TensorSpec::like(self_, self_.sizes()).converted_to_out())
}

/// The transform of complex numbers along dimensions, the last one first.
pub fn _fft_c2c(self_: &Tensor, dim: &[i64], normalization: i64, forward: bool, out: &Tensor) -> Result<()> {
    let dims = Dims::new(C2C, self_, dim)?;
    let direction = if forward { Direction::Forward } else { Direction::Backward };
    let how = (direction, factor(C2C, normalization, dims.count)?);
    fill_contiguous(C2C, out, |out| match out.dtype() {
        ScalarType::Complex64 => c2c::<f32>(C2C, self_, &dims, how, out),
        _ => c2c::<f64>(C2C, self_, &dims, how, out),
    })
}

fn c2c<T: Float + Pod>(
    name: &str,
    self_: &Tensor,
    dims: &Dims,
    (direction, factor): (Direction, f64),
    out: &Tensor,
) -> Result<()> {
    let Some((first, others)) = dims.in_order() else { return ops::copy_(out, self_, false).map(drop) };
    let shape = shape_of(self_);
    let own = if dims.all.len() == 1 { factor } else { 1.0 };
    with_slices(name, &[self_], &[out], |s| {
        let array = s.write::<[T; 2]>(0)?;
        complex_to_complex(s.read::<[T; 2]>(0)?, &shape, array, first, direction, own)
            .map_err(no_memory(name))?;
        transform_others(name, array, shape.sizes(), others, (direction, factor))
    })
}

/// Shape and type of [`_fft_r2c`].
pub fn _fft_r2c_meta(self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool) -> Result<TensorSpec> {
    ensure_kind(R2C, self_, false)?;
    let dims = Dims::new(R2C, self_, dim)?;
    factor(R2C, normalization, dims.count)?;
    let last = last(R2C, &dims.all)?;
    let n = self_.sizes()[last as usize];
    let sizes = with_size(self_, last, if onesided { n / 2 + 1 } else { n });
    Ok(TensorSpec::like(self_, &sizes).with_dtype(self_.dtype().to_complex()).converted_to_out())
}

/// The transform of real numbers along dimensions, forwards: the last one first, of which the elements up to the middle are computed, or
/// all unless `onesided`.
pub fn _fft_r2c(self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool, out: &Tensor) -> Result<()> {
    let dims = Dims::new(R2C, self_, dim)?;
    let factor = factor(R2C, normalization, dims.count)?;
    fill_contiguous(R2C, out, |out| match out.dtype() {
        ScalarType::Complex64 => r2c::<f32>(self_, &dims, factor, onesided, out),
        _ => r2c::<f64>(self_, &dims, factor, onesided, out),
    })
}

fn r2c<T: Float + Pod>(self_: &Tensor, dims: &Dims, factor: f64, onesided: bool, out: &Tensor) -> Result<()> {
    let Some((first, others)) = dims.in_order() else { return Ok(()) };
    let own = if dims.all.len() == 1 { factor } else { 1.0 };
    with_slices(R2C, &[self_], &[out], |s| {
        let array = s.write::<[T; 2]>(0)?;
        real_to_complex(s.read::<T>(0)?, &shape_of(self_), array, first, !onesided, own)
            .map_err(no_memory(R2C))?;
        transform_others(R2C, array, shape_of(out).sizes(), others, (Direction::Forward, factor))
    })
}

/// Shape and type of [`_fft_c2r`].
pub fn _fft_c2r_meta(
    self_: &Tensor,
    dim: &[i64],
    normalization: i64,
    last_dim_size: i64,
) -> Result<TensorSpec> {
    ensure_kind(C2R, self_, true)?;
    let dims = Dims::new(C2R, self_, dim)?;
    factor(C2R, normalization, dims.count)?;
    ensure_length(C2R, last_dim_size)?;
    let last = last(C2R, &dims.all)?;
    ensure!(
        self_.sizes()[last as usize] == last_dim_size / 2 + 1,
        Shape(C2R, "self"),
        expected = last_dim_size / 2 + 1,
        got = self_.sizes()[last as usize],
        "expected dimension {last} of size {expected} for a result of size {last_dim_size}, but got {got}"
    );
    let spec = TensorSpec::like(self_, &with_size(self_, last, last_dim_size));
    Ok(spec.with_dtype(self_.dtype().to_real()).converted_to_out())
}

/// The transform, backwards, of the elements up to the middle of a transform of real numbers: the last dimension last.
pub fn _fft_c2r(
    self_: &Tensor,
    dim: &[i64],
    normalization: i64,
    last_dim_size: i64,
    out: &Tensor,
) -> Result<()> {
    let dims = Dims::new(C2R, self_, dim)?;
    let last = last(C2R, &dims.all)?;
    let others: DimVec = dims.all[..dims.all.len() - 1].into();
    let others = Dims::new(C2R, self_, &others)?;
    let factor = factor(C2R, normalization, others.count.saturating_mul(last_dim_size))?;
    fill_contiguous(C2R, out, |out| match out.dtype() {
        ScalarType::F32 => c2r::<f32>(self_, &others, last, factor, out),
        _ => c2r::<f64>(self_, &others, last, factor, out),
    })
}

fn c2r<T: Float + Pod>(self_: &Tensor, others: &Dims, last: i64, factor: f64, out: &Tensor) -> Result<()> {
    let mut half = self_.clone();
    if !others.all.is_empty() {
        half = TensorSpec::like(self_, self_.sizes()).allocate(C2R)?;
        c2c::<T>(C2R, self_, others, (Direction::Backward, 1.0), &half)?;
    }
    let n = out.sizes()[last as usize] as usize;
    with_slices(C2R, &[&half], &[out], |s| {
        complex_to_real(s.read::<[T; 2]>(0)?, &shape_of(&half), s.write::<T>(0)?, n, last as usize, factor)
            .map_err(no_memory(C2R))
    })
}
