//! Random permutations.

use crate::loops::Words64;
use crate::native::random::distributions::generator_or_default;
use crate::{Tensor, dispatch_all_types, loops, ops};
use flambeau_core::{
    Device, Element, Generator, Layout, Philox, Result, Scalar, ScalarType, ensure, fallible,
};

/// The numbers from 0 to below `n` in a random order.
pub fn randperm(
    n: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}

/// [`randperm`] from a generator.
pub fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(ScalarType::I64);
    ensure!(
        n >= 0,
        InvalidArgument("randperm", "n"),
        "Trying to create tensor with negative dimension {n}: [{n}]"
    );
    Scalar::Int(n).check_range(dtype).map_err(|e| e.in_operator("randperm"))?;
    let output = ops::empty_memory_format(&[n], Some(dtype), layout, device, pin_memory, None)?;
    if output.device().is_meta() {
        return Ok(output);
    }
    let mut order = fallible::collect(0..n).map_err(|e| e.in_operator("randperm"))?;
    shuffle(&mut order, generator_or_default(generator).reserve_words(n, 2)?);
    dispatch_all_types!(numbers, dtype, "randperm", T => {
        loops::generate_by_index::<T>("randperm", &output, |i| T::from_scalar(Scalar::Int(order[i])))
    })?;
    Ok(output)
}

/// The Fisher-Yates shuffle: swaps element `i` with a random one from `i` on.
fn shuffle(order: &mut [i64], philox: Philox) {
    let mut words = Words64::new(philox);
    for i in 0..order.len() {
        let left = (order.len() - i) as u128;
        order.swap(i, i + ((u128::from(words.next()) * left) >> 64) as usize);
    }
}
