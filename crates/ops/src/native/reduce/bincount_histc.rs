//! `bincount`, `histc` and `histogram`.

use crate::native::factory::copy;
use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, ensure, fallible};

/// The elements in row-major order, converted to `dtype`.
fn flat<T: flambeau_core::Element>(tensor: &Tensor, dtype: ScalarType) -> Result<Vec<T>> {
    copy::to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))?.to_vec()
}

/// A zero for each of `count` bins.
fn zeros<T: Clone>(name: &str, count: i64, zero: T) -> Result<Vec<T>> {
    fallible::filled(zero, count as usize).map_err(|e| e.in_operator(name))
}

/// Checks the arguments of [`bincount`], but not that elements are not negative.
pub fn check_bincount(self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<()> {
    const NAME: &str = "bincount";
    ensure!(minlength >= 0, InvalidArgument(NAME, "minlength"), "minlength should be >= 0");
    let whole = self_.dim() == 1 && self_.dtype().is_integral(false);
    ensure!(whole, InvalidArgument(NAME, "self"), "only supports 1-d non-negative integral inputs.");
    if let Some(weights) = weights {
        ensure!(
            weights.sizes() == self_.sizes(),
            Shape(NAME, "weights"),
            "weights should be 1-d and have the same length as input"
        );
    }
    Ok(())
}

/// The number of occurrences of each integer from 0 on, or the sum of their weights.
pub fn bincount(self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    const NAME: &str = "bincount";
    check_bincount(self_, weights, minlength)?;
    let numbers = flat::<i64>(self_, ScalarType::I64)?;
    let min = numbers.iter().min().copied().unwrap_or(0);
    ensure!(min >= 0, InvalidArgument(NAME, "self"), "only supports 1-d non-negative integral inputs.");
    let count = numbers.iter().max().map_or(0, |max| max.saturating_add(1)).max(minlength);
    let Some(weights) = weights.filter(|_| !numbers.is_empty()) else {
        let mut bins = zeros(NAME, count, 0i64)?;
        numbers.iter().for_each(|n| bins[*n as usize] += 1);
        return Tensor::from_vec(bins, &[count]);
    };
    // In f64, rounded once: a sum in f32 stops growing at 2^24.
    let mut bins = zeros(NAME, count, 0f64)?;
    let each = flat::<f64>(weights, ScalarType::F64)?;
    numbers.iter().zip(each).for_each(|(n, w)| bins[*n as usize] += w);
    let result = if weights.dtype() == ScalarType::F32 { ScalarType::F32 } else { ScalarType::F64 };
    Tensor::from_vec(bins, &[count])?.to(result)
}

/// The bounds of a histogram: those given or, if they are equal, the minimum and maximum of the elements, or bounds around these if
/// they are equal, too.
pub fn range_of(name: &str, self_: &Tensor, given: Option<(f64, f64)>) -> Result<(f64, f64)> {
    let (mut low, mut high) = match given {
        Some(range) if range.0 != range.1 || name == "histogram" => range,
        Some(range) if self_.numel() == 0 => range,
        None if self_.numel() == 0 => (0.0, 1.0),
        _ => (self_.min()?.item_scalar()?.to_f64(), self_.max()?.item_scalar()?.to_f64()),
    };
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
        if name == "histogram" {
            (low, high) = (low + 0.5, high - 0.5);
        }
    }
    ensure!(
        low.is_finite() && high.is_finite(),
        InvalidArgument(name),
        "range of [{low}, {high}] is not finite"
    );
    ensure!(low <= high, InvalidArgument(name, "max"), "max must be larger than min");
    Ok((low, high))
}

/// The number of elements in each of `bins` intervals of equal width; elements outside the range, and NaN, are not counted.
pub fn histc(self_: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    const NAME: &str = "histc";
    ensure!(bins > 0, InvalidArgument(NAME, "bins"), "bins must be > 0");
    ensure!(
        self_.dtype().is_floating_point(),
        NotImplemented,
        operator = "histc",
        argument = "self",
        "\"histogram_cpu\" not implemented for '{}'",
        self_.dtype()
    );
    ensure!(min.to_f64() <= max.to_f64(), InvalidArgument(NAME, "max"), "max must be larger than min");
    let (low, high) = range_of(NAME, self_, Some((min.to_f64(), max.to_f64())))?;
    let mut counts = zeros(NAME, bins, 0f64)?;
    let last = bins - 1;
    // Computed in the elements' type, as PyTorch does: the rounding decides to which bin an element at an edge belongs.
    let bin = |x: f64| match self_.dtype() {
        ScalarType::F64 => ((x - low) * bins as f64 / (high - low)) as i64,
        _ => ((x as f32 - low as f32) * bins as f32 / (high as f32 - low as f32)) as i64,
    };
    for x in flat::<f64>(self_, ScalarType::F64)?.into_iter().filter(|x| (low..=high).contains(x)) {
        counts[bin(x).clamp(0, last) as usize] += 1.0;
    }
    Tensor::from_vec(counts, &[bins])?.to(self_.dtype())
}

/// The number or weight of the elements between consecutive edges `bins`, of which the last is included; and the edges.
pub fn histogram_edges(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "histogram";
    ensure!(
        bins.dim() == 1 && bins.numel() > 1,
        Shape(NAME, "bins"),
        "bins tensor should have one dimension and at least two edges"
    );
    ensure!(
        bins.dtype() == self_.dtype(),
        Dtype(NAME, "bins"),
        "input tensor and bins tensors should have the same dtype"
    );
    ensure!(
        matches!(self_.dtype(), ScalarType::F16 | ScalarType::BF16 | ScalarType::F32 | ScalarType::F64),
        NotImplemented(NAME, "self"),
        "\"histogram_cpu\" not implemented for '{}'",
        self_.dtype()
    );
    if let Some(weight) = weight {
        ensure!(
            weight.sizes() == self_.sizes() && weight.dtype() == self_.dtype(),
            Shape(NAME, "weight"),
            "if weight tensor is provided it should have the same shape and dtype as the input tensor"
        );
    }
    let edges = flat::<f64>(bins, ScalarType::F64)?;
    let weights = match weight {
        Some(weight) => flat::<f64>(weight, ScalarType::F64)?,
        None => fallible::filled(1.0, self_.numel() as usize).map_err(|e| e.in_operator(NAME))?,
    };
    let mut sums = zeros(NAME, edges.len() as i64 - 1, 0f64)?;
    let (first, end) = (edges[0], edges[edges.len() - 1]);
    for (x, w) in flat::<f64>(self_, ScalarType::F64)?.into_iter().zip(weights) {
        if (first..=end).contains(&x) {
            let bin = edges.partition_point(|edge| *edge <= x) - 1;
            sums[bin.min(edges.len() - 2)] += w;
        }
    }
    if density {
        let total: f64 = sums.iter().sum();
        sums.iter_mut().zip(edges.windows(2)).for_each(|(sum, edge)| *sum /= total * (edge[1] - edge[0]));
    }
    let count = sums.len() as i64;
    Ok((
        Tensor::from_vec(sums, &[count])?.to(self_.dtype())?,
        copy::clone(bins, Some(MemoryFormat::Contiguous))?,
    ))
}

/// The edges of `bins` intervals of equal width of `range`, or of the range of the elements.
pub fn edges_of_count(self_: &Tensor, bins: i64, range: Option<&[f64]>) -> Result<Tensor> {
    const NAME: &str = "histogram";
    ensure!(bins > 0, InvalidArgument(NAME, "bins"), "bins must be > 0, but got {bins} for dimension 0");
    ensure!(
        range.is_none_or(|r| r.len() == 2),
        InvalidArgument(NAME, "range"),
        "range should have 2 elements"
    );
    ensure!(bins < 1 << 40, OutOfMemory(NAME, "bins"), "{bins} bins");
    let (low, high) = range_of(NAME, self_, range.map(|r| (r[0], r[1])))?;
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    ops::linspace(Scalar::Float(low), Scalar::Float(high), bins + 1, dtype, None, device, None)
}

/// [`histogram_edges`] for `bins` intervals of equal width of `range`, or of the range of the elements.
pub fn histogram_count(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    ensure!(
        matches!(self_.dtype(), ScalarType::F32 | ScalarType::F64),
        NotImplemented("histogram", "self"),
        "\"histogramdd\" not implemented for '{}'",
        self_.dtype()
    );
    let edges = edges_of_count(self_, bins, range)?;
    histogram_edges(self_, &edges, weight, density)
}
