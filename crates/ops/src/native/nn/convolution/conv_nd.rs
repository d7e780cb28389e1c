//! Convolutions by the number of their dimensions: of a batch or of one image, with padding by number or by name.

use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, bail, ensure};

/// Calls `f` with a batch of one where `input` is not a batch.
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
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        spatial + 1,
        spatial + 2,
        input.sizes()
    );
    if dim == spatial + 2 {
        return f(input);
    }
    let one = ops::view(input, &[&[1], input.sizes()].concat())?;
    let made = f(&one)?;
    ops::view(&made, &made.sizes()[1..])
}

macro_rules! convolutions {
    ($($spatial:literal $name:literal $plain:ident $by_name:ident $transposed_name:literal $transposed:ident;)*) => {$(
        #[doc = concat!("A convolution over ", $spatial, " dimensions, of a batch or of one.")]
        pub fn $plain(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            batched($name, $spatial, input, |input| {
                ops::convolution(input, weight, bias, stride, padding, dilation, false, &[0; $spatial], groups)
            })
        }

        #[doc = concat!("[`", $name, "`](crate::ops::", $name, ") with padding by name.")]
        pub fn $by_name(
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
                ops::convolution(&input, weight, bias, stride, &padding, dilation, false, &[0; $spatial], groups)
            })
        }

        #[doc = concat!("The transposed convolution over ", $spatial, " dimensions, of a batch or of one.")]
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
            batched($transposed_name, $spatial, input, |input| {
                ops::convolution(input, weight, bias, stride, padding, dilation, true, output_padding, groups)
            })
        }
    )*};
}

convolutions! {
    1 "conv1d" conv1d conv1d_padding "conv_transpose1d" conv_transpose1d;
    2 "conv2d" conv2d conv2d_padding "conv_transpose2d" conv_transpose2d;
    3 "conv3d" conv3d conv3d_padding "conv_transpose3d" conv_transpose3d;
}

/// No padding, or as much as keeps the size; of an odd number of places the last is added to the input itself.
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
    // Less than one dilation, or one too large, is refused by the convolution itself.
    let step = |d: usize| dilation.get(d).or(dilation.last()).map_or(1, |step| (*step).max(1));
    let total = |d: usize| step(d).saturating_mul((weight.sizes()[d + 2] - 1).max(0));
    let odd: Vec<i64> = (0..spatial).rev().flat_map(|d| [0, total(d) % 2]).collect();
    let input =
        if odd.contains(&1) { ops::constant_pad_nd(input, &odd, Scalar::Int(0))? } else { input.clone() };
    Ok((input, (0..spatial).map(|d| total(d) / 2).collect()))
}
