//! `cumsum`, `cumprod` and `logcumsumexp`, and the linear recurrence of the derivatives.

use super::complex_parts;
use crate::Tensor;
use crate::loops::reduce::computing_type;
use crate::loops::row_ops::{Scan, log_cumsum_exp_rows, scan_rows};
use crate::native::guarded_slices::{Slices, fill, with_slices};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{DimMask, result_type};
use bytemuck::Pod;
use flambeau_core::{Complex, MemoryFormat, Result, ScalarType, bail, ensure, shape};
use std::ops::{Add, Mul};

fn scan_meta(name: &str, self_: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<TensorSpec> {
    shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    let own = self_.dtype();
    let is_given = dtype.is_some();
    let dtype = dtype.unwrap_or(if own.is_integral(true) { ScalarType::I64 } else { own });
    ensure!(
        dtype != ScalarType::Bool,
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}_out_cpu\" not implemented for 'Bool'"
    );
    let spec = TensorSpec::like(self_, self_.sizes()).with_dtype(dtype);
    Ok(if is_given { spec } else { spec.in_type_of_out() })
}

macro_rules! scans {
    ($($name:literal $scan:ident: $kernel:ident $meta:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($kernel), "`].")]
        pub fn $meta(self_: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<TensorSpec> {
            scan_meta($name, self_, dim, dtype)
        }

        #[doc = concat!("`", $name, "` along a dimension.")]
        pub fn $kernel(self_: &Tensor, dim: i64, _dtype: Option<ScalarType>, out: &Tensor) -> Result<()> {
            if out.dtype().is_complex() {
                return scan_complex(self_, dim, out, Scan::$scan);
            }
            scan_rows(self_, out, DimMask::new(Some(&[dim]), self_.dim())?, Scan::$scan)
        }
    )*};
}

/// A scan of complex numbers: sums are those of the parts.
fn scan_complex(self_: &Tensor, dim: i64, out: &Tensor, scan: Scan) -> Result<()> {
    match scan {
        Scan::Product => complex_parts::cumulative_product(self_, dim, out),
        scan => complex_parts::fold_parts("cumsum", self_, Some(&[dim]), out, |parts, out, mask| {
            scan_rows(parts, out, mask, scan)
        }),
    }
}

scans! {
    "cumsum" Sum: cumsum cumsum_meta;
    "cumprod" Product: cumprod cumprod_meta;
}

/// `y[k] = input[k] + factor[k] * y[k - 1]` along a dimension or, its transpose, `y[k] = input[k] + factor[k + 1] * y[k + 1]`.
/// The first factor is not read, and 0 times infinity is 0. Half precision runs in f32.
pub fn linear_recurrence(factor: &Tensor, input: &Tensor, dim: i64, reverse: bool) -> Result<Tensor> {
    const NAME: &str = "_linear_recurrence";
    let dim = shape::wrap_dim(dim, input.dim()).map_err(|e| e.in_operator(NAME))?;
    let dtype = result_type([factor, input])?;
    ensure!(
        factor.sizes() == input.sizes(),
        Shape(NAME, "factor"),
        "expected `factor` of sizes {:?} but got {:?}",
        input.sizes(),
        factor.sizes()
    );
    ensure!(
        dtype.is_differentiable(),
        NotImplemented,
        operator = NAME,
        argument = "self",
        "\"{NAME}\" not implemented for '{dtype}'"
    );
    let kernel = computing_type(dtype);
    let made = TensorSpec::like(input, input.sizes()).with_dtype(kernel).allocate(NAME)?;
    if !made.device().is_meta() && made.numel() > 0 {
        let dense = |t: &Tensor| crate::ops::contiguous(&as_dtype(t, kernel)?, MemoryFormat::Contiguous);
        let (factor, input) = (dense(factor)?, dense(input)?);
        let width = shape::product(input.sizes().get(dim + 1..).unwrap_or_default());
        let rows = input.sizes().get(dim).copied().unwrap_or(1);
        let block = [rows as usize, width as usize];
        with_slices(NAME, &[&factor, &input], &[&made], |s| match kernel {
            ScalarType::F64 => recurrences::<f64>(s, block, reverse),
            ScalarType::Complex64 => recurrences::<Complex<f32>>(s, block, reverse),
            ScalarType::Complex128 => recurrences::<Complex<f64>>(s, block, reverse),
            ScalarType::F32 => recurrences::<f32>(s, block, reverse),
            other => bail!(NotImplemented(NAME, "self"), "\"{NAME}\" not implemented for '{other}'"),
        })?;
    }
    as_dtype(&made, dtype)
}

/// [`linear_recurrence`] of each column of each block of `rows * width` elements.
fn recurrences<T>(s: &Slices<'_>, [rows, width]: [usize; 2], reverse: bool) -> Result<()>
where
    T: Pod + PartialEq + Add<Output = T> + Mul<Output = T> + Send + Sync,
{
    let (factor, input, out) = (s.read::<T>(0)?, s.read::<T>(1)?, s.write::<T>(0)?);
    fill(out, rows * width, |range, part| {
        part.copy_from_slice(&input[range.clone()]);
        let blocks = part.chunks_exact_mut(rows * width).zip(factor[range].chunks_exact(rows * width));
        blocks.for_each(|(y, factor)| recurrence(y, factor, width, reverse));
    });
    Ok(())
}

/// To each row of `y` but the first one (in the direction) adds the row before, times the factor between the two.
fn recurrence<T>(y: &mut [T], factor: &[T], width: usize, reverse: bool)
where
    T: Pod + PartialEq + Add<Output = T> + Mul<Output = T>,
{
    if width == 1 {
        return recurrence_1d(y, factor, reverse);
    }
    let rows = y.len() / width;
    for row in 1..rows {
        let boundary = width * if reverse { rows - row } else { row };
        let (lower, upper) = y.split_at_mut(boundary);
        let (lower, upper) = (&mut lower[boundary - width..], &mut upper[..width]);
        let (done, next) = if reverse { (upper, lower) } else { (lower, upper) };
        let between = &factor[boundary..boundary + width];
        for ((to, from), factor) in next.iter_mut().zip(done.iter()).zip(between) {
            *to = *to + carried(*factor, *from);
        }
    }
}

/// [`recurrence`] for a width of 1, where the last element stays in a register.
fn recurrence_1d<T>(y: &mut [T], factor: &[T], reverse: bool)
where
    T: Pod + PartialEq + Add<Output = T> + Mul<Output = T>,
{
    let step = |last: T, (to, factor): (&mut T, &T)| {
        *to = *to + carried(*factor, last);
        *to
    };
    let between = &factor[1..];
    if let (true, [rest @ .., first]) = (reverse, &mut *y) {
        rest.iter_mut().zip(between).rev().fold(*first, step);
    } else if let [first, rest @ ..] = y {
        rest.iter_mut().zip(between).fold(*first, step);
    }
}

/// `factor * from`, where 0 times infinity is 0, since infinity is a product that overflowed. NaN is propagated.
#[inline(always)]
fn carried<T: Pod + PartialEq + Mul<Output = T>>(factor: T, from: T) -> T {
    #[expect(clippy::eq_op, reason = "NaN does not equal itself")]
    let is_number = from == from;
    if factor == T::zeroed() && is_number { T::zeroed() } else { factor * from }
}

/// Shape and type of [`logcumsumexp`].
pub fn logcumsumexp_meta(self_: &Tensor, dim: i64) -> Result<TensorSpec> {
    shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("logcumsumexp"))?;
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point(),
        NotImplemented,
        operator = "logcumsumexp",
        argument = "self",
        "\"logcumsumexp_out_cpu\" not implemented for '{dtype}'"
    );
    Ok(TensorSpec::like(self_, self_.sizes()))
}

/// The logarithm of the running sum of exponentials, computed in f64.
pub fn logcumsumexp(self_: &Tensor, dim: i64, out: &Tensor) -> Result<()> {
    let mask = DimMask::new(Some(&[dim]), self_.dim())?;
    log_cumsum_exp_rows(&as_dtype(self_, out.dtype())?, out, mask)
}
