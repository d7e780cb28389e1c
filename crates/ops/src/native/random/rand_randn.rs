//! `rand`, `randn`, `randint`, `normal` and their `_like` forms: new tensors of random numbers.

use crate::{Tensor, ops};
use flambeau_core::{Device, Generator, Layout, MemoryFormat, Result, Scalar, ScalarType, ensure, shape};

/// Defines operators that allocate a tensor and fill it, with a generator and without.
macro_rules! factories {
    ($($(#[$doc:meta])* fn $name:ident, $with_generator:ident($($arg:ident: $ty:ty),*) = $fill:expr, $dtype:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            $($arg: $ty,)*
            size: &[i64],
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            $with_generator($($arg,)* size, None, dtype, layout, device, pin_memory)
        }

        #[doc = concat!("[`", stringify!($name), "`] from a generator.")]
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $with_generator(
            $($arg: $ty,)*
            size: &[i64],
            generator: Option<&Generator>,
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            let output = ops::empty_memory_format(size, dtype.or($dtype), layout, device, pin_memory, None)?;
            let fill: fn(&Tensor, Option<&Generator>, ($($ty,)*)) -> Result<()> = $fill;
            fill(&output, generator, ($($arg,)*))?;
            Ok(output)
        }
    )*};
}

factories! {
    /// Uniform numbers from 0 to below 1.
    fn rand, rand_generator() = |output, generator, ()| ops::uniform_(output, 0.0, 1.0, generator), None;
    /// Normal numbers of mean 0 and standard deviation 1.
    fn randn, randn_generator() = |output, generator, ()| ops::normal_(output, 0.0, 1.0, generator), None;
    /// Integers from 0 to below `high`.
    fn randint, randint_generator(high: i64) =
        |output, generator, (high,)| ops::random__from(output, 0, Some(high), generator), Some(ScalarType::I64);
    /// Integers from `low` to below `high`.
    fn randint_low, randint_low_generator(low: i64, high: i64) =
        |output, generator, (low, high)| ops::random__from(output, low, Some(high), generator), Some(ScalarType::I64);
}

/// Uniform numbers in the sizes of another tensor.
pub fn rand_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let output = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::uniform_(&output, 0.0, 1.0, None)?;
    Ok(output)
}

/// Normal numbers in the sizes of another tensor.
pub fn randn_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let output = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::normal_(&output, 0.0, 1.0, None)?;
    Ok(output)
}

/// Defines operators that return integers from `low` to below `high` in the sizes of another tensor.
macro_rules! randints_like {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*; $($generator:ident)?) = $low:expr, $high:expr;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $name(
            self_: &Tensor,
            $($arg: $ty,)*
            $($generator: Option<&Generator>,)?
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
            memory_format: Option<MemoryFormat>,
        ) -> Result<Tensor> {
            let output = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
            let generator: [Option<&Generator>; 1] = [None $(.or($generator))?];
            ops::random__from(&output, $low, Some($high), generator[0])?;
            Ok(output)
        }
    )*};
}

randints_like! {
    /// Integers from 0 to below `high` in the sizes of another tensor.
    fn randint_like(high: i64;) = 0, high;
    /// [`randint_like`] from a generator.
    fn randint_like_generator(high: i64; generator) = 0, high;
    /// Integers from `low` to below `high` in the sizes of another tensor.
    fn randint_like_low(low: i64, high: i64;) = low, high;
    /// [`randint_like_low`] from a generator.
    fn randint_like_low_generator(low: i64, high: i64; generator) = low, high;
}

/// Normal numbers of one mean and one standard deviation.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn normal(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let output = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    ops::normal_(&output, mean, std, generator)?;
    Ok(output)
}

/// Normal numbers of mean 0 in the sizes of `like`.
fn centered_normal(like: &Tensor, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let output = ops::empty_like(like, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&output, 0.0, std, generator)?;
    Ok(output)
}

/// Normal numbers, each with its own mean.
pub fn normal_tensor_float(mean: &Tensor, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    // The result takes its memory format from the first operand, which is contiguous.
    ops::add_tensor(&centered_normal(mean, std, generator)?, mean, Scalar::Int(1))
}

/// Refuses standard deviations below 0.
fn check_std(std: &Tensor) -> Result<()> {
    let min_std =
        if std.numel() > 0 && !std.device().is_meta() { ops::min(std)?.item_scalar()?.to_f64() } else { 0.0 };
    ensure!(
        min_std >= 0.0,
        InvalidArgument,
        operator = "normal",
        argument = "std",
        "normal expects all elements of std >= 0.0"
    );
    Ok(())
}

/// Normal numbers, each with its own standard deviation.
pub fn normal_float_tensor(mean: f64, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let deviation = ops::mul_tensor(&centered_normal(std, 1.0, generator)?, std)?;
    ops::add_scalar(&deviation, Scalar::Float(mean), Scalar::Int(1))
}

/// Normal numbers in the type of `mean`, each with its own mean and standard deviation.
pub fn normal_tensor_tensor(mean: &Tensor, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let sizes = shape::broadcast(mean.sizes(), std.sizes()).map_err(|e| e.in_operator("normal"))?;
    let mean = ops::expand(mean, &sizes, false)?;
    let deviation = ops::mul_tensor(&centered_normal(&mean, 1.0, generator)?, std)?;
    let output = ops::add_tensor(&deviation, &mean, Scalar::Int(1))?;
    ops::_to_copy(&output, Some(mean.dtype()), None, None, None, false, None)
}
