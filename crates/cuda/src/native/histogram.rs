//! `bincount`, `histc` and `histogram`: the bin of each element, then sums by bin; `repeat_interleave`, by the sums of its counts.

use super::scatter::{Fold, fold_into};
use super::{dense, dense_as, empty};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, ensure};
use flambeau_ops::native::reduce::bincount_histc;
use flambeau_ops::{Tensor, ops, register};

register!(ops::BINCOUNT, Cuda, bincount);
register!(ops::HISTC, Cuda, histc);
register!(ops::HISTOGRAM_BINS_TENSOR, Cuda, histogram_edges);
register!(ops::HISTOGRAM_BIN_CT, Cuda, histogram_count);
register!(ops::REPEAT_INTERLEAVE_TENSOR, Cuda, repeat_interleave);

const ONE: Scalar = Scalar::Int(1);

/// The sum of `weights`, or the count, of the elements of each bin; bins below 0 are not counted.
fn sums_by_bin(name: &'static str, bins: &Tensor, weights: Option<&Tensor>, count: i64) -> Result<Tensor> {
    let dtype = weights.map_or(ScalarType::I64, Tensor::dtype);
    let sums = ops::zeros(&[count], Some(dtype), None, Some(bins.device()), None)?;
    let one = ops::ones(&[], Some(dtype), None, Some(bins.device()), None)?;
    fold_into(name, &sums, &dense(bins)?, weights.unwrap_or(&one), Fold::Add)?;
    Ok(sums)
}

fn bincount(_: DispatchKeySet, self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    const NAME: &str = "bincount";
    bincount_histc::check_bincount(self_, weights, minlength)?;
    let numbers = dense_as(self_, ScalarType::I64)?;
    if numbers.numel() == 0 {
        return ops::zeros(&[minlength], Some(ScalarType::I64), None, Some(self_.device()), None);
    }
    let min = ops::min(&numbers)?.item::<i64>()?;
    ensure!(min >= 0, InvalidArgument(NAME, "self"), "only supports 1-d non-negative integral inputs.");
    let count = ops::max(&numbers)?.item::<i64>()?.saturating_add(1).max(minlength);
    let Some(weights) = weights else { return sums_by_bin(NAME, &numbers, None, count) };
    let sums = sums_by_bin(NAME, &numbers, Some(&dense_as(weights, ScalarType::F64)?), count)?;
    let result = if weights.dtype() == ScalarType::F32 { ScalarType::F32 } else { ScalarType::F64 };
    dense_as(&sums, result)
}

/// Whether elements are in a range, both ends included.
fn is_inside(x: &Tensor, low: Scalar, high: Scalar) -> Result<Tensor> {
    ops::logical_and(&ops::ge_scalar(x, low)?, &ops::le_scalar(x, high)?)
}

fn histc(_: DispatchKeySet, self_: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    const NAME: &str = "histc";
    ensure!(bins > 0, InvalidArgument(NAME, "bins"), "bins must be > 0");
    ensure!(
        self_.dtype().is_floating_point(),
        NotImplemented(NAME, "self"),
        "\"histogram_cuda\" not implemented for '{}'",
        self_.dtype()
    );
    ensure!(min.to_f64() <= max.to_f64(), InvalidArgument(NAME, "max"), "max must be larger than min");
    let (low, high) = bincount_histc::range_of(NAME, self_, Some((min.to_f64(), max.to_f64())))?;
    // Computed in the elements' type, as on the host: the rounding decides to which bin an element at an edge belongs.
    let wide = if self_.dtype() == ScalarType::F64 { ScalarType::F64 } else { ScalarType::F32 };
    let x = ops::reshape(&dense_as(self_, wide)?, &[-1])?;
    let (low, high) =
        if wide == ScalarType::F32 { (f64::from(low as f32), f64::from(high as f32)) } else { (low, high) };
    let width = if wide == ScalarType::F32 { f64::from(high as f32 - low as f32) } else { high - low };
    let scaled = ops::mul_scalar(&ops::sub_scalar(&x, Scalar::Float(low), ONE)?, Scalar::Int(bins))?;
    let bin = ops::floor(&ops::div_scalar(&scaled, Scalar::Float(width))?)?;
    let bin =
        dense_as(&ops::clamp(&bin, Some(Scalar::Int(0)), Some(Scalar::Int(bins - 1)))?, ScalarType::I64)?;
    let outside = ops::logical_not(&is_inside(&x, Scalar::Float(low), Scalar::Float(high))?)?;
    let bin = ops::masked_fill_scalar(&bin, &outside, Scalar::Int(-1))?;
    dense_as(&sums_by_bin(NAME, &bin, None, bins)?, self_.dtype())
}

fn histogram_edges(
    _: DispatchKeySet,
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "histogram";
    ensure!(
        bins.dim() == 1 && bins.numel() > 0,
        Shape(NAME, "bins"),
        "bins tensor should have one dimension and at least one edge"
    );
    ensure!(
        bins.dtype() == self_.dtype(),
        Dtype(NAME, "bins"),
        "input tensor and bins tensors should have the same dtype"
    );
    ensure!(
        matches!(self_.dtype(), ScalarType::F32 | ScalarType::F64),
        NotImplemented(NAME, "self"),
        "\"histogram_cuda\" not implemented for '{}'",
        self_.dtype()
    );
    if let Some(weight) = weight {
        ensure!(
            weight.sizes() == self_.sizes() && weight.dtype() == self_.dtype(),
            Shape(NAME, "weight"),
            "if weight tensor is provided it should have the same shape and dtype as the input tensor"
        );
    }
    let (count, edges) = (bins.numel() - 1, dense(bins)?);
    let x = ops::reshape(&dense(self_)?, &[-1])?;
    let weights = match weight {
        Some(weight) => ops::reshape(&dense_as(weight, ScalarType::F64)?, &[-1])?,
        None => ops::ones(&[x.numel()], Some(ScalarType::F64), None, Some(x.device()), None)?,
    };
    let mut sums = ops::zeros(&[count], Some(ScalarType::F64), None, Some(x.device()), None)?;
    if count > 0 && x.numel() > 0 {
        let found = ops::searchsorted_tensor(&edges, &x, false, true, None, None)?;
        let bin = ops::clamp_max(&ops::sub_scalar(&found, ONE, ONE)?, Scalar::Int(count - 1))?;
        let (first, last) = (ops::select_int(&edges, 0, 0)?, ops::select_int(&edges, 0, count)?);
        let inside = ops::logical_and(&ops::ge_tensor(&x, &first)?, &ops::le_tensor(&x, &last)?)?;
        let bin = ops::masked_fill_scalar(&bin, &ops::logical_not(&inside)?, Scalar::Int(-1))?;
        sums = sums_by_bin(NAME, &bin, Some(&weights), count)?;
    }
    if density {
        let wide = dense_as(&edges, ScalarType::F64)?;
        let total = ops::sum_dim_intlist(&sums, None, false, None)?;
        sums = ops::div_tensor(&sums, &ops::mul_tensor(&ops::diff(&wide, 1, -1, None, None)?, &total)?)?;
    }
    Ok((dense_as(&sums, self_.dtype())?, ops::clone(&edges, None)?))
}

fn histogram_count(
    key: DispatchKeySet,
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let edges = bincount_histc::edges_of_count(self_, bins, range)?;
    histogram_edges(key, self_, &edges, weight, density)
}

/// The index of each count, as often as the count says: where the position falls among the sums of the counts.
fn repeat_interleave(_: DispatchKeySet, repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "repeat_interleave";
    ensure!(repeats.dim() == 1, Shape(NAME, "repeats"), "only accept 1D vector as repeat");
    ensure!(
        matches!(repeats.dtype(), ScalarType::I32 | ScalarType::I64),
        Dtype(NAME, "repeats"),
        "repeats has to be Long or Int tensor"
    );
    if repeats.numel() == 0 {
        return empty(&[0], repeats.dtype(), repeats.device());
    }
    let counts = dense_as(repeats, ScalarType::I64)?;
    let min = ops::min(&counts)?.item::<i64>()?;
    ensure!(min >= 0, InvalidArgument(NAME, "repeats"), "repeats can not be negative");
    let sums = ops::cumsum(&counts, 0, None)?;
    let total = ops::select_int(&sums, 0, counts.numel() - 1)?.item::<i64>()?;
    ensure!(
        output_size.is_none_or(|size| size == total),
        InvalidArgument(NAME, "output_size"),
        "allocated size does not match required size: expected output_size {total} but got {output_size:?}"
    );
    let positions =
        ops::arange(Scalar::Int(total), Some(ScalarType::I64), None, Some(repeats.device()), None)?;
    dense_as(&ops::searchsorted_tensor(&sums, &positions, false, true, None, None)?, repeats.dtype())
}
