//! Second derivatives of normalizations. The first derivatives are written with operators, and the engine differentiates these.

use super::reductions::restored_dims;
use crate::grad_mode::{enable_grad, is_grad_enabled};
use crate::graph::gradients::sum_to_size;
use crate::tensor::Autograd;
use crate::variable::meta::requires_grad;
use crate::{alias, engine};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, bail, shape};
use flambeau_ops::{Tensor, ops};

pub(super) const ONE: Scalar = Scalar::Int(1);

/// The gradients of `grad_out`, `input` and `weight`.
pub(super) type ThreeGradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The gradients of the inputs of `f` from those of its outputs, which are gradients of input, weight and bias. `f` is called with
/// aliases, so that the history of the inputs does not change. If the calling pass is recorded, so is this one.
fn differentiated(
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    grads: [Option<&Tensor>; 3],
    f: impl FnOnce(&Tensor, &Tensor, Option<&Tensor>) -> Result<[Tensor; 3]>,
) -> Result<ThreeGradients> {
    let recorded = is_grad_enabled();
    let _recording = enable_grad();
    let leaf = |input: &Tensor| -> Result<Tensor> {
        if recorded && requires_grad(input) {
            return ops::alias(input);
        }
        let leaf = alias::alias(input)?;
        leaf.requires_grad_(true)?;
        Ok(leaf)
    };
    let mut leaves = vec![leaf(grad_out)?, leaf(input)?];
    leaves.extend(weight.map(leaf).transpose()?);
    let outputs = f(&leaves[0], &leaves[1], leaves.get(2))?;
    let with_grad =
        outputs.into_iter().zip(grads).filter_map(|(output, grad)| Some((output, Some(grad?.clone()))));
    let (outputs, grads): (Vec<_>, Vec<_>) = with_grad.unzip();
    let mut found = engine::grad(&outputs, &leaves, &grads, None, recorded, true)?.into_iter();
    let mut next = || found.next().flatten();
    Ok((next(), next(), next()))
}

/// Converts half precision to f32, in which the kernels compute too.
pub(super) fn upcast(tensor: &Tensor) -> Result<Tensor> {
    let dtype = if tensor.dtype().is_reduced_floating_point() { ScalarType::F32 } else { tensor.dtype() };
    ops::to_dtype(tensor, dtype, false, false, None)
}

/// Which elements are normalized together, and which of them share a weight.
struct Normalization {
    /// The sizes to which the input is reshaped.
    sizes: DimVec,
    /// The dimensions over which the statistics are computed.
    dims: DimVec,
    /// The sizes with which the weight broadcasts over the input.
    weight: DimVec,
    /// Whether the mean is subtracted.
    centred: bool,
}

impl Normalization {
    /// Statistics over the last dimensions.
    fn of_last(input: &Tensor, shape: &[i64], centred: bool) -> Self {
        let dims = (1..=shape.len() as i64).map(|d| -d).collect();
        Normalization {
            sizes: DimVec::from_slice(input.sizes()),
            dims,
            weight: DimVec::from_slice(shape),
            centred,
        }
    }

    /// The gradients of input, weight and bias, as differentiable functions of the arguments. The deviations and `rstd` are computed
    /// again from the input; the epsilon that the forward pass has added follows from the `rstd` that it saved.
    fn backward(
        &self,
        grad: &Tensor,
        input: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
    ) -> Result<[Tensor; 3]> {
        let viewed = |t: &Tensor| upcast(&ops::reshape(t, &self.sizes)?);
        let (grad, x) = (&viewed(grad)?, &viewed(input)?);
        let mean = |t: &Tensor| ops::mean_dim(t, Some(&self.dims), true, None);
        let deviation = &if self.centred { ops::sub_tensor(x, &mean(x)?, ONE)? } else { x.clone() };
        let square = mean(&ops::mul_tensor(deviation, deviation)?)?;
        // Without its history, through which the input would be differentiated twice.
        let rstd = &ops::detach(rstd)?;
        let found = restored_dims(&upcast(rstd)?, &self.sizes, &self.dims, false)?;
        let found = ops::reciprocal(&ops::square(&found)?)?;
        let epsilon = ops::sub_tensor(&found, &ops::detach(&square)?, ONE)?;
        let scale = ops::rsqrt(&ops::add_tensor(&square, &epsilon, ONE)?)?;
        let normal = &ops::mul_tensor(deviation, &scale)?;

        let slope = match weight {
            Some(weight) => &ops::mul_tensor(grad, &ops::reshape(weight, &self.weight)?)?,
            None => grad,
        };
        let tilt = ops::mul_tensor(normal, &mean(&ops::mul_tensor(slope, normal)?)?)?;
        let level = if self.centred { ops::sub_tensor(slope, &mean(slope)?, ONE)? } else { slope.clone() };
        let grad_input = ops::mul_tensor(&ops::sub_tensor(&level, &tilt, ONE)?, &scale)?;
        self.gathered(grad_input, &ops::mul_tensor(grad, normal)?, grad, input, weight)
    }

    /// The same with given statistics, which do not depend on the input.
    fn fixed_backward(
        &self,
        grad: &Tensor,
        input: &Tensor,
        [mean, scale]: [&Tensor; 2],
        weight: Option<&Tensor>,
    ) -> Result<[Tensor; 3]> {
        let across = |t: &Tensor| ops::reshape(t, &self.weight);
        let normal = ops::mul_tensor(&ops::sub_tensor(input, &across(mean)?, ONE)?, &across(scale)?)?;
        let slope = ops::mul_tensor(grad, &across(scale)?)?;
        let slope = weight.map_or_else(|| Ok(slope.clone()), |w| ops::mul_tensor(&slope, &across(w)?))?;
        self.gathered(slope, &ops::mul_tensor(grad, &normal)?, grad, input, weight)
    }

    /// The gradients of `grad_out`, `input` and `weight`, from those of the results of [`backward`](Self::backward).
    fn twice(
        &self,
        grads: [Option<&Tensor>; 3],
        [grad_out, input, rstd]: [&Tensor; 3],
        weight: Option<&Tensor>,
    ) -> Result<ThreeGradients> {
        differentiated(grad_out, input, weight, grads, |grad, input, weight| {
            self.backward(grad, input, rstd, weight)
        })
    }

    /// The results reshaped to the sizes of the arguments; those of weight and bias are summed over the dimensions of broadcasting.
    fn gathered(
        &self,
        grad_input: Tensor,
        product: &Tensor,
        grad: &Tensor,
        input: &Tensor,
        weight: Option<&Tensor>,
    ) -> Result<[Tensor; 3]> {
        let parameter = |t: &Tensor| {
            let flat = shape::numel(&self.weight)?;
            let sizes = weight.map_or_else(|| DimVec::from_slice(&[flat]), |w| DimVec::from_slice(w.sizes()));
            ops::reshape(&sum_to_size(t, &self.weight)?, &sizes)
        };
        Ok([ops::reshape(&grad_input, input.sizes())?, parameter(product)?, parameter(grad)?])
    }
}

/// The derivative of the backward pass of layer normalization.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn layer_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_bias: Option<&Tensor>,
    grad_out: &Tensor,
    input: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    normalized_shape: &[i64],
) -> Result<ThreeGradients> {
    let form = Normalization::of_last(input, normalized_shape, true);
    form.twice([grad_input, grad_weight, grad_bias], [grad_out, input, rstd], weight)
}

/// The derivative of the backward pass of root mean square normalization.
pub fn rms_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_out: &Tensor,
    input: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    normalized_shape: &[i64],
) -> Result<ThreeGradients> {
    let form = Normalization::of_last(input, normalized_shape, false);
    form.twice([grad_input, grad_weight, None], [grad_out, input, rstd], weight)
}

/// The derivative of the backward pass of group normalization, with `n` by `group` groups.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn group_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_bias: Option<&Tensor>,
    grad_out: &Tensor,
    input: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    area: i64,
    group: i64,
) -> Result<ThreeGradients> {
    let form = Normalization {
        sizes: DimVec::from_slice(&[n, group, c / group, area]),
        dims: DimVec::from_slice(&[2, 3]),
        weight: DimVec::from_slice(&[1, group, c / group, 1]),
        centred: true,
    };
    form.twice([grad_input, grad_weight, grad_bias], [grad_out, input, rstd], weight)
}

/// The derivative of the backward pass of batch normalization, which uses the statistics of the batch in training and the running ones
/// otherwise.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn batch_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_bias: Option<&Tensor>,
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
) -> Result<ThreeGradients> {
    let mut across = DimVec::from_elem(1, input.dim());
    across[1] = input.sizes()[1];
    let form = Normalization {
        sizes: DimVec::from_slice(input.sizes()),
        dims: (0..input.dim() as i64).filter(|d| *d != 1).collect(),
        weight: across,
        centred: true,
    };
    let grads = [grad_input, grad_weight, grad_bias];
    match (train, save_invstd, running_mean, running_var) {
        (true, Some(invstd), ..) => form.twice(grads, [grad_out, input, invstd], weight),
        (false, _, Some(mean), Some(var)) => {
            let scale = ops::rsqrt(&ops::add_scalar(var, Scalar::Float(eps), ONE)?)?;
            differentiated(grad_out, input, weight, grads, |grad, input, weight| {
                form.fixed_backward(grad, input, [mean, &scale], weight)
            })
        }
        _ => bail!(InvalidArgument, "batch_norm: expected the statistics that the forward pass used"),
    }
}
