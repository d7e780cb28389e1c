//! Derivative formulas that are too long for a line of `derivatives.yaml`, whose formulas may call them.

mod attention;
mod complex;
mod fourier;
mod join_and_index;
mod linear_algebra;
mod losses;
mod matrix_functions;
mod norm_backward;
mod norm_double_backward;
mod pointwise;
mod products;
mod recurrent;
mod reductions;
mod scatter_reduce;
mod sparse;
mod spectral;
mod tangents;

pub use attention::{tiled_attention_bias_backward, tiled_attention_double_backward};
pub use complex::{
    acosh_slope, angle_backward, angle_tangent, conjugate, div_conj, mul_conj, polar_backward, sgn_backward,
};
pub use fourier::{fft_c2r_backward, fft_r2c_backward};
pub use join_and_index::{
    cat_backward, constant_pad_backward, embedding_double_backward, index_backward, masked_select_backward,
    repeat_backward, roll_backward, split_backward, split_with_sizes_backward, take_backward,
    unbind_backward,
};
pub use linear_algebra::{
    cholesky_backward, det_backward, inv_backward, ldl_solve_backward, lu_factor_backward, lu_solve_backward,
    lu_unpack_backward, qr_backward, slogdet_backward, solve_backward, solve_triangular_backward,
};
pub use losses::{
    binary_cross_entropy_double_backward, binary_cross_entropy_double_backward_target,
    binary_cross_entropy_target_backward, binary_cross_entropy_with_logits_backward,
    binary_cross_entropy_with_logits_target_backward, kl_div_backward, multi_margin_losses_curvature,
    multi_margin_losses_double_backward, multilabel_margin_loss_double_backward, reduced_grad,
};
pub use matrix_functions::{matrix_sqrth_backward, polar_decomposition_backward, sylvester_backward};
pub use norm_backward::{
    batch_norm_backward, batch_norm_mean_tangent, batch_norm_rstd_tangent, group_norm_backward,
    group_norm_mean_tangent, group_norm_rstd_tangent, layer_norm_backward, layer_norm_mean_tangent,
    layer_norm_rstd_tangent, rms_norm_backward,
};
pub use norm_double_backward::{
    batch_norm_double_backward, group_norm_double_backward, layer_norm_double_backward,
    rms_norm_double_backward,
};
pub use pointwise::{clamp_backward, logit_backward, prelu_double_backward, sinc_slope};
pub use products::{mm_in_layout, sum_of_rows};
pub use recurrent::{gru_cell_backward, lstm_cell_backward};
pub use reductions::{
    aminmax_backward, cummaxmin_backward, cumprod_backward, cumsum_backward, evenly_distribute_backward,
    extreme_backward, linear_recurrence_backward, logcumsumexp_backward, logcumsumexp_tangent, mean_backward,
    norm_backward, prod_backward, restored_dims, std_backward, std_mean_backward, sum_backward, var_backward,
    var_mean_backward,
};
pub use scatter_reduce::{scatter_reduce_backward, scatter_source_backward};
pub use sparse::{
    coo_coalesced_backward, csr_add_backward, csr_matmul_first_backward, csr_matmul_second_backward,
    csr_select_backward, csr_solve_backward, csr_transposed_backward, csr_transposed_mm,
    segment_softmax_backward,
};
pub use spectral::{
    eig_backward, eigh_backward, householder_product_backward, lstsq_backward, matrix_exp_backward,
    ormqr_backward, pinv_backward, svd_backward,
};
pub use tangents::{along_channels, as_strided_tangent, scaled, scaled_along_channels, selected_tangent};

pub use crate::graph::gradients::sum_to_size;

use crate::factory::{self, zeros};
use crate::variable::as_strided::scatter_strided;
use flambeau_core::{Device, DimVec, Geometry, Result, Scalar, shape};
use flambeau_ops::{Tensor, ops};

/// The gradient of a copy to another device: a copy back to the device of the source.
pub fn on_device(grad: &Tensor, device: Device) -> Result<Tensor> {
    factory::on_device(grad, device)
}

/// `tensor * factor`, or the tensor itself for 1.
pub fn maybe_multiply(tensor: &Tensor, factor: Scalar) -> Result<Tensor> {
    if factor == Scalar::Int(1) {
        return Ok(tensor.clone());
    }
    ops::mul_tensor(tensor, &Tensor::wrapped_number(factor)?)
}

/// [`maybe_multiply`] with the conjugate of the factor: the gradient of a multiple.
pub fn maybe_multiply_conj(grad: &Tensor, factor: Scalar) -> Result<Tensor> {
    if factor == Scalar::Int(1) {
        return Ok(grad.clone());
    }
    maybe_multiply(grad, factor.conj())
}

/// The factor by which `native_dropout` multiplies the elements that it retains.
///
/// # Errors
/// None. All formulas return a `Result`.
pub fn dropout_scale(p: f64, train: Option<bool>) -> Result<f64> {
    Ok(match train {
        Some(false) => 1.0,
        _ if p == 1.0 => 0.0,
        _ => 1.0 / (1.0 - p),
    })
}

/// The gradient of `permute`: the inverse permutation.
pub fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut inverse = DimVec::from_elem(0, dims.len());
    for (index, dim) in dims.iter().enumerate() {
        inverse[shape::wrap_dim(*dim, dims.len())?] = index as i64;
    }
    ops::permute(grad, &inverse)
}

/// The gradient of `select` of a tensor of `sizes`: zeros except at the index.
pub fn select_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    let made = zeros(sizes, grad)?;
    ops::copy_(&ops::select_int(&made, dim, index)?, grad, false)?;
    Ok(made)
}

/// The gradient of `slice`: zeros between the elements that were taken.
pub fn slice_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let made = zeros(sizes, grad)?;
    ops::copy_(&ops::slice_tensor(&made, dim, start, end, step)?, grad, false)?;
    Ok(made)
}

/// The gradient of `as_strided`, from the geometry of its argument and from what it was called with: a tensor of another layout has no
/// geometry of its own.
pub fn as_strided_backward(
    grad: &Tensor,
    base_sizes: &[i64],
    base_strides: &[i64],
    base_offset: i64,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let base = Geometry::strided(base_sizes, base_strides, base_offset)?;
    let view = Geometry::strided(size, stride, storage_offset.unwrap_or(base_offset))?;
    scatter_strided(grad, &base, &view)
}

/// The sizes of each tensor.
pub fn sizes_of(tensors: &[Tensor]) -> Vec<DimVec> {
    tensors.iter().map(|tensor| DimVec::from_slice(tensor.sizes())).collect()
}
