//! Images resized. Every interpolation is separable, so dimensions are resized one after another: by copying elements, or by
//! weighted sums of two or four neighbours.

mod dense;
mod sums;

use super::padding::{reflected, replicated};
use crate::loops::reduce::computing_type;
use crate::native::element_bits::Numeric;
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::{Tensor, ops, scratch};
use bytemuck::Pod;
use dense::Dimension;
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, fallible};
use smallvec::{SmallVec, smallvec};
use sums::{Passes, Sums};

/// The interpolation. The numbers are those of `_resample`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    Replication,
    Reflection,
}

/// The interpolations in the order of their numbers.
const KINDS: [Kind; 6] =
    [Kind::Nearest, Kind::NearestExact, Kind::Linear, Kind::Cubic, Kind::Replication, Kind::Reflection];

/// The largest number of elements of a channel of the output that one table describes.
const MAX_PLANE: i64 = 1 << 14;

impl Kind {
    /// Whether each output element is a copy of an input element; then any type is supported.
    fn copies_elements(self) -> bool {
        !matches!(self, Kind::Linear | Kind::Cubic)
    }
}

/// The parameters of a resizing: the number of spatial dimensions and the interpolation.
#[derive(Clone, Copy)]
struct Resizing {
    name: &'static str,
    dims: usize,
    kind: Kind,
    align_corners: bool,
}

/// The neighbours of one output element, and their interpolation weights.
type Neighbors = SmallVec<[(i64, f64); 4]>;

/// The scale of each dimension, if it is not the ratio of the sizes.
type Scales = SmallVec<[Option<f64>; 3]>;

impl Resizing {
    /// The output sizes for an overload that takes sizes or scale factors.
    fn output_sizes(
        &self,
        input: &Tensor,
        output_size: Option<&[i64]>,
        factors: Option<&[f64]>,
    ) -> Result<Vec<i64>> {
        let own = &input.sizes()[input.sizes().len().saturating_sub(self.dims)..];
        match (output_size, factors) {
            (Some(sizes), None) => Ok(sizes.to_vec()),
            (None, Some(factors)) => {
                ensure!(
                    factors.len() == self.dims && own.len() == self.dims,
                    InvalidArgument(self.name, "scale_factors"),
                    "expected {} scale factors but got {}",
                    self.dims,
                    factors.len()
                );
                Ok(own.iter().zip(factors).map(|(size, factor)| (*size as f64 * factor) as i64).collect())
            }
            _ => bail!(
                InvalidArgument(self.name, "output_size"),
                "Must specify exactly one of output_size and scale_factors"
            ),
        }
    }

    fn resized(&self, input: &Tensor, sizes: &[i64], scales: &[Option<f64>]) -> Result<Tensor> {
        let name = self.name;
        ensure!(
            sizes.len() == self.dims,
            InvalidArgument(name, "output_size"),
            "It is expected output_size equals to {}, but got size {}",
            self.dims,
            sizes.len()
        );
        ensure!(
            input.dim() == self.dims + 2,
            Shape(name, "self"),
            "Non-empty {}D data tensor expected but got a tensor with sizes {:?}",
            self.dims + 2,
            input.sizes()
        );
        let own = &input.sizes()[2..];
        let usable = own.iter().chain(sizes).all(|s| (1..1 << 31).contains(s));
        ensure!(
            usable,
            InvalidArgument(name, "output_size"),
            "Input and output sizes should be greater than 0, but got input {own:?} output {sizes:?}"
        );
        ensure!(
            self.kind.copies_elements() || input.dtype().is_floating_point(),
            NotImplemented,
            operator = name,
            argument = "self",
            "\"{name}\" not implemented for '{}'",
            input.dtype()
        );
        if input.numel() > 0 && dispatches_to_cpu(input.key_set()) {
            // An alias, whose sizes no other thread changes.
            return self.resized_dense(&alias(input)?, sizes, scales);
        }
        let scales: SmallVec<[f64; 3]> = scales.iter().map(|scale| scale.unwrap_or(0.0)).collect();
        ops::_resample(input, sizes, self.kind as i64, self.align_corners, &scales)
    }

    /// [`resized`](Self::resized) composed of operators of any device, along the last dimensions.
    fn composed(&self, input: &Tensor, sizes: &[i64], scales: &[Option<f64>]) -> Result<Tensor> {
        let dtype = input.dtype();
        let mut output =
            if self.kind.copies_elements() { input.clone() } else { input.to(computing_type(dtype))? };
        let first = input.dim() - self.dims;
        for (d, size) in sizes.iter().enumerate() {
            output = self.along(&output, (first + d) as i64, *size, scales[d])?;
        }
        ops::clone(&output.to(dtype)?, Some(input.suggest_memory_format()))
    }

    /// The transpose of [`composed`](Self::composed).
    fn composed_transposed(&self, grad: &Tensor, sizes: &[i64], scales: &[Option<f64>]) -> Result<Tensor> {
        let dtype = grad.dtype();
        let (mut sum, first) = (grad.to(computing_type(dtype))?, grad.dim() - self.dims);
        for (d, size) in sizes.iter().enumerate().rev() {
            sum = self.along_transposed(&sum, first + d, *size, scales[d])?;
        }
        sum.to(dtype)
    }

    fn along_transposed(&self, grad: &Tensor, dim: usize, n: i64, scale: Option<f64>) -> Result<Tensor> {
        let (size, double) = (grad.sizes()[dim], grad.dtype() == ScalarType::F64);
        let all = fallible::collect((0..size).map(|index| self.neighbors(index, n, size, scale, double)))?;
        let mut sizes = DimVec::from_slice(grad.sizes());
        sizes[dim] = n;
        let sum = ops::zeros(&sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
        // In the order of the outputs, as the kernel adds.
        let each = all.first().map_or(0, |neighbors| neighbors.len()) as i64;
        let index_of = |indices: Vec<i64>| {
            let count = indices.len() as i64;
            Tensor::from_vec(indices, &[count])?.to(grad.device())
        };
        let outputs = index_of(fallible::collect((0..size * each).map(|at| at / each))?)?;
        let inputs = index_of(fallible::collect(all.iter().flatten().map(|(index, _)| *index))?)?;
        let mut parts = grad.index_select(dim as i64, &outputs)?;
        if !self.kind.copies_elements() {
            let mut along = DimVec::from_elem(1, grad.dim());
            along[dim] = size * each;
            let weights = fallible::collect(all.iter().flatten().map(|(_, weight)| *weight))?;
            let weights = Tensor::from_vec(weights, &along)?.to(grad.dtype())?.to(grad.device())?;
            parts = parts.mul(&weights)?;
        }
        sum.index_add(dim as i64, &inputs, &parts)
    }

    /// The sums along each dimension from `own` to `sizes`, or their transposes.
    fn passes<N: Numeric>(
        &self,
        [own, sizes]: [&[i64]; 2],
        scales: &[Option<f64>],
        transposed: bool,
    ) -> Result<Passes<N>> {
        let mut sums = SmallVec::new();
        for (d, (from, to)) in own.iter().zip(sizes).enumerate() {
            let (table, each) = self.table([*from, *to], scales[d], size_of::<N>() == size_of::<f64>())?;
            let made = scratch::catch(|| {
                let make = if transposed { Sums::transposed } else { Sums::new };
                Ok(make(*from as usize, &table, each))
            });
            sums.push(made?);
        }
        Ok(Passes::new(if transposed { sizes } else { own }, sums, transposed))
    }

    /// The transposed sums of `grad`, which is floating point, on the CPU.
    fn transposed_sums<N: Pod + Numeric>(
        &self,
        grad: &Tensor,
        sizes: &[i64],
        scales: &[Option<f64>],
    ) -> Result<Tensor> {
        let (name, computed) = (self.name, computing_type(grad.dtype()));
        let (leading, made) = grad.sizes().split_at(grad.dim() - self.dims);
        let all: DimVec = leading.iter().chain(sizes).copied().collect();
        // Before the tables, so that sizes beyond memory are refused first.
        let out = TensorSpec::like(grad, &all).allocate(name)?;
        let passes = self.passes::<N>([sizes, made], scales, true)?;
        if passes.suit_lanes() {
            sums::in_lanes(name, [grad, &out], &passes, (self.dims, computed))?;
            return Ok(out);
        }
        let x = ops::clone(&grad.to(computed)?, Some(MemoryFormat::Contiguous))?;
        let sum = if grad.dtype() == computed { out } else { TensorSpec::like(&x, &all).allocate(name)? };
        sums::by_dimension(name, [&x, &sum], &passes)?;
        sum.to(grad.dtype())
    }

    /// Small images of any strides, or in half precision, resized with one in each lane; `None` for others.
    fn resized_in_lanes<N: Pod + Numeric>(
        &self,
        x: &Tensor,
        sizes: &[i64],
        scales: &[Option<f64>],
    ) -> Result<Option<Tensor>> {
        let (leading, own) = x.sizes().split_at(x.dim() - self.dims);
        let pixels = |sizes: &[i64]| sizes.iter().fold(1, |all: i64, size| all.saturating_mul(*size));
        if pixels(own).max(pixels(sizes)) > MAX_PLANE {
            return Ok(None);
        }
        let passes = self.passes::<N>([own, sizes], scales, false)?;
        if !passes.suit_lanes() {
            return Ok(None);
        }
        let all: DimVec = leading.iter().chain(sizes).copied().collect();
        let out = TensorSpec::like(x, &all).allocate(self.name)?;
        sums::in_lanes(self.name, [x, &out], &passes, (self.dims, computing_type(x.dtype())))?;
        Ok(Some(out))
    }

    /// [`resized`](Self::resized) without operators that record, trace or run elsewhere: each dimension in one pass.
    fn resized_dense(&self, input: &Tensor, sizes: &[i64], scales: &[Option<f64>]) -> Result<Tensor> {
        let (name, dtype, first) = (self.name, input.dtype(), input.dim() - self.dims);
        let format = if first == 2 { input.suggest_memory_format() } else { MemoryFormat::Contiguous };
        let computes = !self.kind.copies_elements();
        let is_direct = dtype == computing_type(dtype) && input.is_contiguous();
        if computes && format == MemoryFormat::Contiguous && !is_direct {
            let made = match dtype {
                ScalarType::F64 => self.resized_in_lanes::<f64>(input, sizes, scales)?,
                _ => self.resized_in_lanes::<f32>(input, sizes, scales)?,
            };
            if let Some(made) = made {
                return Ok(made);
            }
        }
        let computed =
            if self.kind.copies_elements() { input.clone() } else { input.to(computing_type(dtype))? };
        let mut x =
            if computed.is_contiguous_as(format) { computed } else { ops::clone(&computed, Some(format))? };
        let plane = sizes.iter().fold(1, |plane: i64, size| plane.saturating_mul(*size));
        if self.kind.copies_elements() && plane <= MAX_PLANE {
            return self.copied_plane(&x, sizes, scales, format);
        }
        for (d, size) in sizes.iter().enumerate() {
            let mut output = DimVec::from_slice(x.sizes());
            output[first + d] = *size;
            let channels = if format == MemoryFormat::Contiguous { 1 } else { output[1] };
            let inner = (output[first + d + 1..].iter().product::<i64>() * channels) as usize;
            let dimension = Dimension { from: x.sizes()[first + d] as usize, to: *size as usize, inner };
            let y = TensorSpec::like(&x, &output).with_format(format).allocate(name)?;
            self.along_dense([&x, &y], dimension, scales[d])?;
            x = y;
        }
        x.to(dtype)
    }

    /// Resizes one dimension of a dense tensor.
    fn along_dense(&self, [x, y]: [&Tensor; 2], dimension: Dimension, scale: Option<f64>) -> Result<()> {
        let double = x.dtype() == ScalarType::F64;
        let (from, to) = (dimension.from as i64, dimension.to as i64);
        let (table, each) = self.table([from, to], scale, double)?;
        match x.dtype() {
            _ if self.kind.copies_elements() => {
                let reads = fallible::collect(table.iter().map(|(at, _)| *at))?;
                dense::copied(self.name, x, y, dimension, &reads)
            }
            ScalarType::F64 => dense::weighted::<f64>(self.name, [x, y], dimension, &table, each),
            _ => dense::weighted::<f32>(self.name, [x, y], dimension, &table, each),
        }
    }

    /// What each index of a dimension reads, of `to` that are resized from `from`, and the weights: a number of neighbours that all have.
    fn table(
        &self,
        [from, to]: [i64; 2],
        scale: Option<f64>,
        double: bool,
    ) -> Result<(Vec<(usize, f64)>, usize)> {
        let (mut each, mut table) = (1, fallible::with_capacity(to as usize)?);
        for index in 0..to {
            let neighbors = self.neighbors(index, from, to, scale, double);
            each = neighbors.len();
            table.extend(neighbors.into_iter().map(|(at, weight)| (at as usize, weight)));
        }
        Ok((table, each))
    }

    /// Copies the elements of all dimensions in one pass.
    fn copied_plane(
        &self,
        x: &Tensor,
        sizes: &[i64],
        scales: &[Option<f64>],
        format: MemoryFormat,
    ) -> Result<Tensor> {
        let first = x.dim() - self.dims;
        let (own, mut output) = (&x.sizes()[first..], DimVec::from_slice(x.sizes()));
        let mut reads = vec![0];
        for (d, size) in sizes.iter().enumerate() {
            let source = |index| self.neighbors(index, own[d], *size, scales[d], false)[0].0 as usize;
            let along = fallible::collect((0..*size).map(source))?;
            let outer = reads.iter().map(|at| at * own[d] as usize);
            reads = fallible::collect(outer.flat_map(|outer| along.iter().map(move |at| outer + at)))?;
            output[first + d] = *size;
        }
        let inner = if format == MemoryFormat::Contiguous { 1 } else { output[1] as usize };
        let dimension = Dimension { from: own.iter().product::<i64>() as usize, to: reads.len(), inner };
        let y = TensorSpec::like(x, &output).with_format(format).allocate(self.name)?;
        dense::copied(self.name, x, &y, dimension, &reads)?;
        Ok(y)
    }

    /// Resizes one dimension.
    fn along(&self, x: &Tensor, dim: i64, size: i64, scale: Option<f64>) -> Result<Tensor> {
        let n = x.size(dim)?;
        let double = x.dtype() == ScalarType::F64;
        let all = fallible::collect((0..size).map(|index| self.neighbors(index, n, size, scale, double)))?;
        let column = |k: usize| -> Result<Tensor> {
            let indices = fallible::collect(all.iter().map(|neighbors| neighbors[k].0))?;
            x.index_select(dim, &Tensor::from_vec(indices, &[size])?.to(x.device())?)
        };
        if self.kind.copies_elements() {
            return column(0);
        }
        let mut sizes = vec![1; x.dim()];
        sizes[dim as usize] = size;
        let mut sum: Option<Tensor> = None;
        for k in 0..all[0].len() {
            let weights = fallible::collect(all.iter().map(|neighbors| neighbors[k].1))?;
            let weights = Tensor::from_vec(weights, &sizes)?.to(x.dtype())?.to(x.device())?;
            let part = column(k)?.mul(&weights)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        sum.map_or_else(|| Ok(x.clone()), Ok)
    }

    /// The neighbours of output element `index`. Scales are rounded to f32 where PyTorch rounds them.
    fn neighbors(&self, index: i64, n: i64, size: i64, scale: Option<f64>, double: bool) -> Neighbors {
        let rounded = |x: f64| if double { x } else { f64::from(x as f32) };
        let given = scale.filter(|s| *s > 0.0).map(|s| 1.0 / s);
        let last = n - 1;
        if matches!(self.kind, Kind::Replication | Kind::Reflection) {
            let index = index - scale.map_or(0, |before| before as i64);
            let source = if self.kind == Kind::Reflection { reflected } else { replicated };
            return smallvec![(source(index, n).clamp(0, last), 1.0)];
        }
        if self.kind.copies_elements() {
            let step = given.unwrap_or(n as f64 / size as f64) as f32;
            // The exact one samples at the centre of the output element, the other one at its beginning.
            let middle = if self.kind == Kind::NearestExact { 0.5 } else { 0.0 };
            let source = (((index as f32 + middle) * step) as i64).min(last);
            return smallvec![(source, 1.0)];
        }
        let step = match self.align_corners {
            true if size > 1 => last as f64 / (size - 1) as f64,
            true => 0.0,
            false => given.unwrap_or(n as f64 / size as f64),
        };
        let step = rounded(step);
        let source = if self.align_corners { step * index as f64 } else { step * (index as f64 + 0.5) - 0.5 };
        let source = rounded(source);
        match self.kind {
            Kind::Cubic => {
                let first = source.floor();
                let weights = cubic(rounded(source - first));
                (-1..3)
                    .zip(weights)
                    .map(|(k, w)| ((first as i64).saturating_add(k).clamp(0, last), w))
                    .collect()
            }
            _ => {
                let source = source.max(0.0);
                let first = (source as i64).min(last);
                let weight = rounded(source - first as f64).clamp(0.0, 1.0);
                smallvec![(first, 1.0 - weight), ((first + 1).min(last), weight)]
            }
        }
    }
}

/// What `_resample` or its transpose computes: the interpolation, the scales, and sizes of images, which must be positive.
fn checked<'a>(
    name: &'static str,
    mode: i64,
    align_corners: bool,
    scales: &[f64],
    [x, sizes]: [&'a [i64]; 2],
) -> Result<(Resizing, Scales, &'a [i64])> {
    let kind = usize::try_from(mode).ok().and_then(|mode| KINDS.get(mode).copied());
    let Some(kind) = kind else {
        bail!(InvalidArgument(name, "mode"), "expected a mode from 0 to {} but got {mode}", KINDS.len() - 1)
    };
    let dims = scales.len();
    ensure!(
        (1..=3).contains(&dims) && sizes.len() >= dims && x.len() >= dims,
        InvalidArgument(name, "scales"),
        "expected a scale for each of one to three last dimensions, but got {dims} of sizes {sizes:?} and {x:?}"
    );
    let (own, sizes) = (&x[x.len() - dims..], &sizes[sizes.len() - dims..]);
    ensure!(
        own.iter().chain(sizes).all(|s| (1..1 << 31).contains(s)),
        InvalidArgument(name, "size"),
        "Input and output sizes should be greater than 0, but got input {own:?} output {sizes:?}"
    );
    // Paddings: as many elements as a dimension can have, so that no index overflows.
    let pads = matches!(kind, Kind::Replication | Kind::Reflection);
    ensure!(
        !pads || scales.iter().all(|before| before.abs() < (1_u64 << 31) as f64),
        InvalidArgument(name, "scales"),
        "expected paddings below 2^31 but got {scales:?}"
    );
    let scales = scales.iter().map(|scale| Some(*scale)).collect();
    Ok((Resizing { name, dims, kind, align_corners }, scales, sizes))
}

/// The last dimensions, one for each of `scales`, resized to `size` by the interpolation `mode`.
pub fn _resample(
    self_: &Tensor,
    size: &[i64],
    mode: i64,
    align_corners: bool,
    scales: &[f64],
) -> Result<Tensor> {
    let (how, scales, sizes) = checked("_resample", mode, align_corners, scales, [self_.sizes(), size])?;
    ensure!(
        how.kind.copies_elements() || self_.dtype().is_floating_point(),
        NotImplemented,
        operator = "_resample",
        argument = "self",
        "\"_resample\" not implemented for '{}'",
        self_.dtype()
    );
    if self_.numel() > 0 && dispatches_to_cpu(self_.key_set()) {
        // An alias, whose sizes no other thread changes.
        return how.resized_dense(&alias(self_)?, sizes, &scales);
    }
    how.composed(self_, sizes, &scales)
}

/// The transpose of [`_resample`]: the gradient of its input, whose sizes end with those of `input_size`.
pub fn _resample_transposed(
    grad_output: &Tensor,
    input_size: &[i64],
    mode: i64,
    align_corners: bool,
    scales: &[f64],
) -> Result<Tensor> {
    const NAME: &str = "_resample_transposed";
    let (how, scales, sizes) = checked(NAME, mode, align_corners, scales, [grad_output.sizes(), input_size])?;
    let dtype = grad_output.dtype();
    ensure!(
        dtype.is_floating_point() || (how.kind.copies_elements() && dtype.is_complex()),
        NotImplemented,
        operator = NAME,
        argument = "grad_output",
        "\"{NAME}\" not implemented for '{dtype}'"
    );
    if grad_output.numel() > 0 && dispatches_to_cpu(grad_output.key_set()) {
        match computing_type(grad_output.dtype()) {
            ScalarType::F32 => return how.transposed_sums::<f32>(&alias(grad_output)?, sizes, &scales),
            ScalarType::F64 => return how.transposed_sums::<f64>(&alias(grad_output)?, sizes, &scales),
            _ => {}
        }
    }
    how.composed_transposed(grad_output, sizes, &scales)
}

/// The weights of four neighbours at `t` between the middle two: Keys, "Cubic convolution interpolation" (1981), a = -3/4.
fn cubic(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

macro_rules! upsamples {
    ($($name:ident $vec:ident $kind:ident $dims:literal ($($scale:ident),*) ($($corners:ident)?);)*) => {$(
        /// Resized to `output_size`; the scales, if given, determine the positions of output elements instead of the sizes.
        pub fn $name(self_: &Tensor, output_size: &[i64] $(, $corners: bool)? $(, $scale: Option<f64>)*) -> Result<Tensor> {
            let align_corners = [$($corners,)? false][0];
            let how = Resizing { name: stringify!($name), dims: $dims, kind: Kind::$kind, align_corners };
            how.resized(self_, output_size, &[$($scale),*])
        }

        /// The same to a size or by scale factors.
        pub fn $vec(
            input: &Tensor,
            output_size: Option<&[i64]>
            $(, $corners: bool)?,
            scale_factors: Option<&[f64]>,
        ) -> Result<Tensor> {
            let align_corners = [$($corners,)? false][0];
            let how = Resizing { name: stringify!($name), dims: $dims, kind: Kind::$kind, align_corners };
            let sizes = how.output_sizes(input, output_size, scale_factors)?;
            let mut scales = (0..$dims).map(|d| scale_factors.and_then(|f| f.get(d).copied()));
            ops::$name(input, &sizes $(, $corners)? $(, { let $scale = scales.next().flatten(); $scale })*)
        }
    )*};
}

upsamples! {
    upsample_nearest1d upsample_nearest1d_vec Nearest 1 (scales) ();
    upsample_nearest2d upsample_nearest2d_vec Nearest 2 (scales_h, scales_w) ();
    upsample_nearest3d upsample_nearest3d_vec Nearest 3 (scales_d, scales_h, scales_w) ();
    _upsample_nearest_exact1d _upsample_nearest_exact1d_vec NearestExact 1 (scales) ();
    _upsample_nearest_exact2d _upsample_nearest_exact2d_vec NearestExact 2 (scales_h, scales_w) ();
    _upsample_nearest_exact3d _upsample_nearest_exact3d_vec NearestExact 3 (scales_d, scales_h, scales_w) ();
    upsample_linear1d upsample_linear1d_vec Linear 1 (scales) (align_corners);
    upsample_bilinear2d upsample_bilinear2d_vec Linear 2 (scales_h, scales_w) (align_corners);
    upsample_trilinear3d upsample_trilinear3d_vec Linear 3 (scales_d, scales_h, scales_w) (align_corners);
    upsample_bicubic2d upsample_bicubic2d_vec Cubic 2 (scales_h, scales_w) (align_corners);
}
