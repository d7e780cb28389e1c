//! `conv1d`, `conv2d`, `conv3d` and their transposed forms: batched or unbatched, with padding by size, `"same"` or `"valid"`.

use super::params::ConvArgs;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, bail, ensure};

/// Calls `f` with `input`, which is made a batch of one first if it is unbatched.
fn batched(
    name: &str,
    spatial: usize,
    input: &Tensor,
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let dim = input.dim();
    ensure!(
        dim == spatial + 1 || dim == spatial + 2,
        Shape,
        operator = name,
        argument = "input",
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        spatial + 1,
        spatial + 2,
        input.sizes()
    );
    if dim == spatial + 2 {
        return f(input);
    }
    let batch = ops::view(input, &[&[1], input.sizes()].concat())?;
    let output = f(&batch)?;
    ops::view(&output, &output.sizes()[1..])
}

macro_rules! convolutions {
    ($($spatial:literal $name:literal $plain:ident $named_padding:ident $transposed_name:literal $transposed:ident;)*) => {$(
        #[doc = concat!("A convolution over ", $spatial, " dimensions, batched or unbatched.")]
        pub fn $plain(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            let output_padding = &[0; $spatial];
            let args = ConvArgs { stride, padding, dilation, transposed: false, output_padding, groups };
            batched($name, $spatial, input, |input| args.convolve(input, weight, bias))
        }

        #[doc = concat!("[`", $name, "`](crate::ops::", $name, ") with padding `\"same\"` or `\"valid\"`.")]
        pub fn $named_padding(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &str,
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            batched($name, $spatial, input, |input| {
                let (input, padding) = padded(input, weight, stride, padding, dilation, $spatial)?;
                let output_padding = &[0; $spatial];
                let args =
                    ConvArgs { stride, padding: &padding, dilation, transposed: false, output_padding, groups };
                args.convolve(&input, weight, bias)
            })
        }

        #[doc = concat!("The transposed convolution over ", $spatial, " dimensions, batched or unbatched.")]
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $transposed(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            output_padding: &[i64],
            groups: i64,
            dilation: &[i64],
        ) -> Result<Tensor> {
            let args = ConvArgs { stride, padding, dilation, transposed: true, output_padding, groups };
            batched($transposed_name, $spatial, input, |input| args.convolve(input, weight, bias))
        }
    )*};
}

convolutions! {
    1 "conv1d" conv1d conv1d_padding "conv_transpose1d" conv_transpose1d;
    2 "conv2d" conv2d conv2d_padding "conv_transpose2d" conv_transpose2d;
    3 "conv3d" conv3d conv3d_padding "conv_transpose3d" conv_transpose3d;
}

/// The input and the symmetric padding for `"valid"` or `"same"`. Where `"same"` needs an odd number of elements, the last one is
/// padded in the input itself.
fn padded(
    input: &Tensor,
    weight: &Tensor,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    spatial: usize,
) -> Result<(Tensor, Vec<i64>)> {
    match padding {
        "valid" => return Ok((input.clone(), vec![0; spatial])),
        "same" => {}
        other => bail!(InvalidArgument, "Invalid padding string: '{other}'"),
    }
    ensure!(
        stride.iter().all(|s| *s == 1),
        InvalidArgument,
        "padding='same' is not supported for strided convolutions"
    );
    ensure!(
        weight.dim() == spatial + 2,
        Shape,
        "expected a weight of {} dimensions but got {}",
        spatial + 2,
        weight.dim()
    );
    // A dilation below one or too large gives any padding here: the convolution rejects it.
    let step = |d: usize| dilation.get(d).or(dilation.last()).map_or(1, |step| (*step).max(1));
    let total = |d: usize| step(d).saturating_mul((weight.sizes()[d + 2] - 1).max(0));
    let odd: Vec<i64> = (0..spatial).rev().flat_map(|d| [0, total(d) % 2]).collect();
    let input =
        if odd.contains(&1) { ops::constant_pad_nd(input, &odd, Scalar::Int(0))? } else { input.clone() };
    Ok((input, (0..spatial).map(|d| total(d) / 2).collect()))
}
