//! `bincount`, `histc` and `histogram`.

use crate::native::element_bits::Sortable;
use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::native::index::searchsorted::count_up_to;
use crate::native::reduce::bin_counts::BinCounts;
use crate::native::reduce::equal_bins::{BLOCK, BinFloat, EqualBins};
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, ensure, fallible};

/// A contiguous tensor of the elements, converted to `dtype`.
fn dense_as(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype && tensor.is_contiguous() {
        return Ok(tensor.clone());
    }
    copy::to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
}

/// f64, or f32 for narrower floats: the type in which bins are computed.
fn bin_type(dtype: ScalarType) -> ScalarType {
    if dtype == ScalarType::F64 { dtype } else { ScalarType::F32 }
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
    let numbers = dense_as(self_, ScalarType::I64)?;
    let Some(weights) = weights.filter(|_| numbers.numel() > 0) else {
        return with_slices(NAME, &[&numbers], &[], |s| {
            let numbers = s.read::<i64>(0)?;
            let count = bin_count(numbers, minlength)?;
            let made = BinCounts::new(count as usize, numbers.len());
            let mut counts = made.map_err(|e| e.in_operator(NAME))?;
            counts.add(numbers, |n| n as usize);
            Tensor::from_vec(counts.into_counts(), &[count])
        });
    };
    let result = if weights.dtype() == ScalarType::F32 { ScalarType::F32 } else { ScalarType::F64 };
    let weights = dense_as(weights, result)?;
    let sums = dispatch_all_types!(wide_floats, result, NAME, T => {
        with_slices(NAME, &[&numbers, &weights], &[], |s| {
            weighted_sums::<T>(s.read(0)?, s.read(1)?, minlength)
        })
    })?;
    sums.to(result)
}

/// The number of bins of [`bincount`].
fn bin_count(numbers: &[i64], minlength: i64) -> Result<i64> {
    let (signs, most) = with_processor_vectors(
        #[inline(always)]
        || numbers.iter().fold((0, -1), |(signs, most): (i64, i64), n| (signs | n, most.max(*n))),
    );
    ensure!(
        signs >= 0,
        InvalidArgument("bincount", "self"),
        "only supports 1-d non-negative integral inputs."
    );
    Ok(most.saturating_add(1).max(minlength))
}

/// The sums of the weights of each number. In f64, rounded once: a sum in f32 stops growing at 2^24.
fn weighted_sums<W: Pod + Into<f64>>(numbers: &[i64], weights: &[W], minlength: i64) -> Result<Tensor> {
    let count = bin_count(numbers, minlength)?;
    let mut sums = zeros("bincount", count, 0f64)?;
    numbers.iter().zip(weights).for_each(|(n, w)| sums[*n as usize] += (*w).into());
    Tensor::from_vec(sums, &[count])
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
    let x = dense_as(self_, bin_type(self_.dtype()))?;
    let counts = dispatch_all_types!(wide_floats, x.dtype(), NAME, T => {
        with_slices(NAME, &[&x], &[], |s| {
            count_in(s.read::<T>(0)?, &EqualBins::new(low, high, bins as usize), bins as usize)
        })
    })?;
    let counts = as_sums(counts).map_err(|e| e.in_operator(NAME))?;
    Tensor::from_vec(counts, &[bins])?.to(self_.dtype())
}

/// The counts of the elements in each of `count` bins.
fn count_in<F: BinFloat>(x: &[F], bins: &EqualBins<F>, count: usize) -> Result<Vec<i64>> {
    // The last one is of the elements that are in no bin.
    let mut counts = BinCounts::new(count + 1, x.len()).map_err(|e| e.in_operator("histc"))?;
    if bins.are_narrow() {
        let mut block = [0i32; BLOCK];
        for part in x.chunks(BLOCK) {
            let block = &mut block[..part.len()];
            with_processor_vectors(
                #[inline(always)]
                || bins.write_bins(part, block),
            );
            counts.add(block, |bin| bin as usize);
        }
    } else {
        counts.add(x, |x| bins.bin(x));
    }
    let mut counts = counts.into_counts();
    counts.truncate(count);
    Ok(counts)
}

/// Counts as sums of ones.
fn as_sums(counts: Vec<i64>) -> Result<Vec<f64>> {
    fallible::collect(counts.into_iter().map(|count| count as f64))
}

/// The number or weight of the elements between consecutive edges `bins`, of which the last is included; and the edges.
pub fn histogram_edges(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    histogram(self_, bins, weight, density, false)
}

/// [`histogram_edges`]; `evenly` says that edges have almost equal distances.
fn histogram(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
    evenly: bool,
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
    let wide = bin_type(self_.dtype());
    let (x, edges) = (dense_as(self_, wide)?, dense_as(bins, wide)?);
    let weight = weight.map(|weight| dense_as(weight, wide)).transpose()?;
    let reads = [&x, &edges, weight.as_ref().unwrap_or(&x)];
    let sums = dispatch_all_types!(wide_floats, wide, NAME, T => {
        with_slices(NAME, &reads, &[], |s| {
            let (x, edges) = (s.read::<T>(0)?, s.read::<T>(1)?);
            let weight = if weight.is_some() { Some(s.read::<T>(2)?) } else { None };
            let edges = Edges::new(edges, evenly);
            let mut sums = edges.sums(x, weight).map_err(|e| e.in_operator(NAME))?;
            if density {
                edges.divide(&mut sums);
            }
            Ok(sums)
        })
    })?;
    let count = sums.len() as i64;
    Ok((
        Tensor::from_vec(sums, &[count])?.to(self_.dtype())?,
        copy::clone(bins, Some(MemoryFormat::Contiguous))?,
    ))
}

/// Consecutive intervals, of which the last includes its end.
struct Edges<'a, F> {
    edges: &'a [F],
    /// Intervals of equal width, among which bins are looked for first.
    guess: Option<EqualBins<F>>,
}

impl<'a, F: BinFloat + Sortable> Edges<'a, F> {
    /// From at least two edges in ascending order.
    fn new(edges: &'a [F], evenly: bool) -> Self {
        let (low, high) = (edges[0].into(), edges[edges.len() - 1].into());
        let guess = evenly.then(|| EqualBins::new(low, high, edges.len() - 1));
        Edges { edges, guess: guess.filter(EqualBins::are_narrow) }
    }

    /// Makes a density of sums.
    fn divide(&self, sums: &mut [f64]) {
        let total: f64 = sums.iter().sum();
        for (sum, edge) in sums.iter_mut().zip(self.edges.windows(2)) {
            let width: f64 = edge[1].into() - edge[0].into();
            *sum /= total * width;
        }
    }

    /// The number of intervals.
    fn count(&self) -> usize {
        self.edges.len() - 1
    }

    /// The sum of the weights of the elements in each interval, or their number.
    fn sums(&self, x: &[F], weights: Option<&[F]>) -> Result<Vec<f64>> {
        let (count, mut found) = (self.count(), [0i64; BLOCK]);
        let Some(weights) = weights else {
            let mut counts = BinCounts::new(count + 1, x.len())?;
            for x in x.chunks(BLOCK) {
                self.find(x, &mut found[..x.len()]);
                counts.add(&found[..x.len()], |bin| bin as usize);
            }
            let mut counts = counts.into_counts();
            counts.truncate(count);
            return as_sums(counts);
        };
        let mut sums = fallible::filled(0f64, count + 1)?;
        for (x, weights) in x.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
            self.find(x, &mut found[..x.len()]);
            found.iter().zip(weights).for_each(|(bin, weight)| sums[*bin as usize] += (*weight).into());
        }
        sums.truncate(count);
        Ok(sums)
    }

    /// The interval of each element; their number if it is in none.
    fn find(&self, x: &[F], found: &mut [i64]) {
        let Some(guess) = &self.guess else {
            count_up_to(self.edges, x, found);
            return found.iter_mut().zip(x).for_each(|(found, x)| *found = self.bin(*found as usize, *x));
        };
        let mut bins = [0i32; BLOCK];
        let bins = &mut bins[..x.len()];
        with_processor_vectors(
            #[inline(always)]
            || guess.write_bins(x, bins),
        );
        for ((found, bin), x) in found.iter_mut().zip(bins).zip(x) {
            *found = self.near(*bin as usize, *x).unwrap_or_else(|| self.search(*x));
        }
    }

    /// The interval of an element, if it is `bin` or next to it.
    #[inline(always)]
    fn near(&self, bin: usize, x: F) -> Option<i64> {
        if bin >= self.count() {
            return None;
        }
        // Without a branch: which of the three it is, rounding decides.
        let above = usize::from(x >= self.edges[bin + 1]);
        let bin = (bin + above).wrapping_sub(usize::from(x < self.edges[bin]));
        let is_right = bin < self.count() && self.edges[bin] <= x && x < self.edges[bin + 1];
        is_right.then_some(bin as i64)
    }

    /// The interval of an element, by a binary search.
    fn search(&self, x: F) -> i64 {
        let is_outside = x < self.edges[0] || x > self.edges[self.count()];
        if is_outside {
            return self.count() as i64;
        }
        self.bin(self.edges.partition_point(|edge| *edge <= x), x)
    }

    /// The interval of an element, from the number of edges that are not greater.
    fn bin(&self, edges_before: usize, x: F) -> i64 {
        let (first, end) = (self.edges[0], self.edges[self.count()]);
        let bin = if x >= first && x <= end { edges_before.clamp(1, self.count()) - 1 } else { self.count() };
        bin as i64
    }
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
    histogram(self_, &edges, weight, density, true)
}
