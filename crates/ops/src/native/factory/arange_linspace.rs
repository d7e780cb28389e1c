//! `arange`, `linspace` and `logspace`.

use crate::{Tensor, dispatch_all_types, loops, ops};
use flambeau_core::{Device, Element, Layout, Result, Scalar, ScalarType, default_dtype, ensure};

/// The integers in `0..end`.
pub fn arange(
    end: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange_step(Scalar::Int(0), end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// Numbers in `start..end` with a step of 1.
pub fn arange_start(
    start: Scalar,
    end: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange_step(start, end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// Numbers in `start..end`: element i is `start + i * step`, computed in f64 or i64.
pub fn arange_step(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let floating = [start, end, step].iter().any(|s| s.is_floating_point());
    let dtype = dtype.unwrap_or_else(|| if floating { default_dtype() } else { ScalarType::I64 });
    let size = arange_size(start, end, step, dtype)?;
    let out = ops::empty_memory_format(&[size], Some(dtype), layout, device, pin_memory, None)?;
    if dtype.is_floating_point() {
        let (start, step) = (start.to_f64(), step.to_f64());
        dispatch_all_types!(floats, dtype, "arange", T => loops::generate_by_index::<T>("arange", &out, |i| {
            T::from_scalar(Scalar::Float(start + i as f64 * step))
        }))?;
    } else {
        // What i64 does not hold would saturate.
        for number in [start, end, step].into_iter().filter(|number| number.is_integral(false)) {
            number.check_range(ScalarType::I64).map_err(|e| e.in_operator("arange"))?;
        }
        let (start, step) = (start.to_i64(), step.to_i64());
        dispatch_all_types!(integers, dtype, "arange", T => loops::generate_by_index::<T>("arange", &out, |i| {
            T::from_scalar(Scalar::Int(start.wrapping_add(step.wrapping_mul(i as i64))))
        }))?;
    }
    Ok(out)
}

/// The number of elements of [`arange_step`]; for integers computed in integers, since f64 is not exact above 2^53.
fn arange_size(start: Scalar, end: Scalar, step: Scalar, dtype: ScalarType) -> Result<i64> {
    let (from, to) = (start.to_f64(), end.to_f64());
    ensure!(step.to_f64() != 0.0, InvalidArgument("arange", "step"), "step must be nonzero");
    ensure!(
        from.is_finite() && to.is_finite(),
        InvalidArgument("arange", "end"),
        "unsupported range: {start} -> {end}"
    );
    let upwards = step.to_f64() > 0.0;
    ensure!(
        if upwards { from <= to } else { from >= to },
        InvalidArgument("arange", "step"),
        "upper bound and lower bound inconsistent with step sign"
    );
    if dtype == ScalarType::I64 && ![start, end, step].iter().any(|s| s.is_floating_point()) {
        let (from, to, step) =
            (i128::from(start.to_i64()), i128::from(end.to_i64()), i128::from(step.to_i64()));
        let size = (to - from + step - step.signum()) / step;
        ensure!(size <= i128::from(i64::MAX), Overflow("arange"), "invalid size, possible overflow?");
        return Ok(size as i64);
    }
    let size = ((to - from) / step.to_f64()).ceil();
    ensure!(size >= 0.0 && size < i64::MAX as f64, Overflow("arange"), "invalid size, possible overflow?");
    Ok(size as i64)
}

/// `steps` numbers from `start` to `end`, both included. Each is computed from the nearer end, so that both ends are exact; for
/// integer types they are truncated.
pub fn linspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(steps >= 0, InvalidArgument("linspace", "steps"), "number of steps must be non-negative");
    let inferred = match start.is_complex() || end.is_complex() {
        true => default_dtype().to_complex(),
        false => default_dtype(),
    };
    let dtype = dtype.unwrap_or(inferred);
    ensure!(
        dtype.is_complex() || !inferred.is_complex(),
        Dtype("linspace", "dtype"),
        expected = inferred,
        got = dtype,
        "inferred dtype {expected} can't be safely cast to passed dtype {got}"
    );
    if dtype.is_complex() {
        let ((from_re, from_im), (to_re, to_im)) = (start.to_complex(), end.to_complex());
        let part = |from: f64, to: f64| {
            ops::linspace(from.into(), to.into(), steps, Some(dtype.to_real()), layout, device, pin_memory)
        };
        return ops::complex(&part(from_re, to_re)?, &part(from_im, to_im)?);
    }
    let out = ops::empty_memory_format(&[steps], Some(dtype), layout, device, pin_memory, None)?;
    dispatch_all_types!(numbers, dtype, "linspace", T => {
        start.check_range(dtype).and(end.check_range(dtype)).map_err(|e| e.in_operator("linspace"))?;
        let (from, to) = (T::from_scalar(start).to_scalar(), T::from_scalar(end).to_scalar());
        let point = spaced(from.to_f64(), to.to_f64(), steps as usize);
        loops::generate_by_index::<T>("linspace", &out, |i| match i {
            0 => T::from_scalar(from),
            i if i + 1 == steps as usize => T::from_scalar(to),
            i => T::from_scalar(Scalar::Float(point(i))),
        })
    })?;
    Ok(out)
}

/// Element i of `linspace`, computed from the nearer end.
fn spaced(from: f64, to: f64, steps: usize) -> impl Fn(usize) -> f64 + Sync {
    let step = (to - from) / (steps.max(2) - 1) as f64;
    move |i| if i < steps / 2 { from + step * i as f64 } else { to - step * (steps - 1 - i) as f64 }
}

/// The number in a tensor without dimensions.
fn end_of(name: &str, tensor: &Tensor) -> Result<Scalar> {
    ensure!(
        tensor.dim() == 0,
        Shape("linspace", name),
        "only supports 0-dimensional start and end tensors, but got `{name}` with {} dimension(s).",
        tensor.dim()
    );
    tensor.item_scalar()
}

/// [`linspace`] between two tensors.
pub fn linspace_tensor_tensor(
    start: &Tensor,
    end: &Tensor,
    steps: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    linspace(end_of("start", start)?, end_of("end", end)?, steps, dtype, layout, device, pin_memory)
}

/// [`linspace`] from a tensor to a number.
pub fn linspace_tensor_scalar(
    start: &Tensor,
    end: Scalar,
    steps: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    linspace(end_of("start", start)?, end, steps, dtype, layout, device, pin_memory)
}

/// [`linspace`] from a number to a tensor.
pub fn linspace_scalar_tensor(
    start: Scalar,
    end: &Tensor,
    steps: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    linspace(start, end_of("end", end)?, steps, dtype, layout, device, pin_memory)
}

/// `base` to the power of each element of [`linspace`] from `start` to `end`; for integer types both are truncated first.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn logspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(default_dtype);
    let whole = |number: Scalar| match dtype.is_integral(true) {
        true => Scalar::Int(number.to_i64()),
        false => number,
    };
    let exponents =
        ops::linspace(whole(start), whole(end), steps, Some(ScalarType::F64), layout, device, pin_memory)?;
    ops::pow_scalar(Scalar::Float(base), &exponents)?.to(dtype)
}

macro_rules! logspaces {
    ($($(#[$doc:meta])* $name:ident($start:ident: $from:ty, $end:ident: $to:ty) = $first:expr, $last:expr;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $name(
            $start: $from,
            $end: $to,
            steps: i64,
            base: f64,
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            logspace($first, $last, steps, base, dtype, layout, device, pin_memory)
        }
    )*};
}

logspaces! {
    /// [`logspace`] between two tensors without dimensions.
    logspace_tensor_tensor(start: &Tensor, end: &Tensor) = end_of("start", start)?, end_of("end", end)?;
    /// [`logspace`] from a tensor to a number.
    logspace_tensor_scalar(start: &Tensor, end: Scalar) = end_of("start", start)?, end;
    /// [`logspace`] from a number to a tensor.
    logspace_scalar_tensor(start: Scalar, end: &Tensor) = start, end_of("end", end)?;
}
