//! Losses that are a formula of each element, then reduced; and their derivatives, which are formulas.

use super::{reduction_of, structured};
use flambeau_core::{DispatchKeySet, Result};
use flambeau_ops::native::nn::loss;
use flambeau_ops::ops::options::Reduction;
use flambeau_ops::{Tensor, ops, register};

structured! {
    MSE_LOSS MSE_LOSS_OUT "mse_loss" loss::mse_loss_meta, mse_loss:
        (self_: &Tensor, target: &Tensor, reduction: i64) reads [self_, target];
    SMOOTH_L1_LOSS SMOOTH_L1_LOSS_OUT "smooth_l1_loss" loss::smooth_l1_loss_meta, smooth_l1_loss:
        (self_: &Tensor, target: &Tensor, reduction: i64, beta: f64) reads [self_, target];
    HUBER_LOSS HUBER_LOSS_OUT "huber_loss" loss::huber_loss_meta, huber_loss:
        (self_: &Tensor, target: &Tensor, reduction: i64, delta: f64) reads [self_, target];
    BINARY_CROSS_ENTROPY BINARY_CROSS_ENTROPY_OUT "binary_cross_entropy" loss::binary_cross_entropy_meta, cross_entropy:
        (self_: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64) reads [self_, target];
    BINARY_CROSS_ENTROPY_WITH_LOGITS BINARY_CROSS_ENTROPY_WITH_LOGITS_OUT "binary_cross_entropy_with_logits"
        loss::binary_cross_entropy_with_logits_meta, cross_entropy_with_logits:
        (self_: &Tensor, target: &Tensor, weight: Option<&Tensor>, pos_weight: Option<&Tensor>, reduction: i64)
        reads [self_, target];
    KL_DIV KL_DIV_OUT "kl_div" loss::kl_div_meta, kl_div:
        (self_: &Tensor, target: &Tensor, reduction: i64, log_target: bool) reads [self_, target];
}

register!(ops::BINARY_CROSS_ENTROPY_BACKWARD, Cuda, cross_entropy_backward);

fn cross_entropy_backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let spec = loss::binary_cross_entropy_backward_meta(grad_output, self_, target, weight, reduction)?;
    let out = spec.allocate("binary_cross_entropy_backward")?;
    loss::binary_cross_entropy_backward(grad_output, self_, target, weight, reduction, &out)?;
    Ok(out)
}

/// Registers derivatives, which are formulas of the host.
macro_rules! derivatives {
    ($($operator:ident $name:literal $meta:path, $kernel:path: ($($arg:ident: $ty:ty),*);)*) => {$(
        const _: () = {
            fn kernel(
                _: DispatchKeySet,
                grad_output: &Tensor,
                self_: &Tensor,
                target: &Tensor,
                $($arg: $ty),*
            ) -> Result<Tensor> {
                let out = $meta(grad_output, self_, target, $($arg),*)?.allocate($name)?;
                $kernel(grad_output, self_, target, $($arg,)* &out)?;
                Ok(out)
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

derivatives! {
    MSE_LOSS_BACKWARD "mse_loss_backward" loss::mse_loss_backward_meta, loss::mse_loss_backward: (reduction: i64);
    SMOOTH_L1_LOSS_BACKWARD "smooth_l1_loss_backward" loss::smooth_l1_loss_backward_meta, loss::smooth_l1_loss_backward:
        (reduction: i64, beta: f64);
    HUBER_LOSS_BACKWARD "huber_loss_backward" loss::huber_loss_backward_meta, loss::huber_loss_backward:
        (reduction: i64, delta: f64);
}

/// The number by which schemas name the losses of all elements.
const NONE: i64 = Reduction::None.as_int();

/// Reduces the losses that `each` writes into a tensor of the sizes of all elements.
fn reduced(
    name: &str,
    reduction: i64,
    out: &Tensor,
    each: impl FnOnce(&Tensor) -> Result<()>,
    sizes: impl FnOnce() -> Result<Tensor>,
) -> Result<()> {
    let reduction = reduction_of(name, reduction)?;
    if reduction == Reduction::None {
        return each(out);
    }
    let all = sizes()?;
    each(&all)?;
    let number = match reduction {
        Reduction::Mean => ops::mean_dim(&all, None, false, None)?,
        _ => ops::sum_dim_intlist(&all, None, false, None)?,
    };
    ops::copy_(out, &number, false)
}

fn mse_loss(self_: &Tensor, target: &Tensor, reduction: i64, out: &Tensor) -> Result<()> {
    let all = || loss::mse_loss_meta(self_, target, NONE)?.allocate("mse_loss");
    reduced("mse_loss", reduction, out, |each| loss::mse_loss(self_, target, NONE, each), all)
}

fn smooth_l1_loss(self_: &Tensor, target: &Tensor, reduction: i64, beta: f64, out: &Tensor) -> Result<()> {
    let all = || loss::smooth_l1_loss_meta(self_, target, NONE, beta)?.allocate("smooth_l1_loss");
    reduced(
        "smooth_l1_loss",
        reduction,
        out,
        |each| loss::smooth_l1_loss(self_, target, NONE, beta, each),
        all,
    )
}

fn huber_loss(self_: &Tensor, target: &Tensor, reduction: i64, delta: f64, out: &Tensor) -> Result<()> {
    let all = || loss::huber_loss_meta(self_, target, NONE, delta)?.allocate("huber_loss");
    reduced("huber_loss", reduction, out, |each| loss::huber_loss(self_, target, NONE, delta, each), all)
}

fn cross_entropy(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    const NAME: &str = "binary_cross_entropy";
    let all = || loss::binary_cross_entropy_meta(self_, target, weight, NONE)?.allocate(NAME);
    reduced(NAME, reduction, out, |each| loss::binary_cross_entropy(self_, target, weight, NONE, each), all)
}

fn cross_entropy_with_logits(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
    out: &Tensor,
) -> Result<()> {
    const NAME: &str = "binary_cross_entropy_with_logits";
    let meta = loss::binary_cross_entropy_with_logits_meta;
    let all = || meta(self_, target, weight, pos_weight, NONE)?.allocate(NAME);
    let each =
        |each: &Tensor| loss::binary_cross_entropy_with_logits(self_, target, weight, pos_weight, NONE, each);
    reduced(NAME, reduction, out, each, all)
}

fn kl_div(self_: &Tensor, target: &Tensor, reduction: i64, log_target: bool, out: &Tensor) -> Result<()> {
    let all = || loss::kl_div_meta(self_, target, NONE, log_target)?.allocate("kl_div");
    reduced("kl_div", reduction, out, |each| loss::kl_div(self_, target, NONE, log_target, each), all)
}
