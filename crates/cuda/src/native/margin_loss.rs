//! `_multi_margin_losses` and its derivative, by operators.

use flambeau_ops::native::nn::loss;
use flambeau_ops::{ops, register};

register!(ops::_MULTI_MARGIN_LOSSES, Cuda, |_, self_, target, p, margin, weight| {
    loss::multi_margin_losses_by_operators(self_, target, p, margin, weight)
});
register!(ops::_MULTI_MARGIN_LOSSES_BACKWARD, Cuda, |_, grad_output, self_, target, p, margin, weight| {
    loss::multi_margin_losses_backward_by_operators(grad_output, self_, target, p, margin, weight)
});
