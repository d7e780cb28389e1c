//! Images resized. Every interpolation is separable, so dimensions are resized one after another: by copying elements, or by
//! weighted sums of two or four neighbours.

mod dense;

use crate::loops::reduce::computing_type;
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use dense::Dimension;
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, fallible};
use smallvec::{SmallVec, smallvec};

/// The interpolation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
}

/// The largest number of elements of a channel of the output that one table describes.
const MAX_PLANE: i64 = 1 << 14;

impl Kind {
    /// Whether each output element is a copy of an input element; then any type is supported.
    fn copies_elements(self) -> bool {
        matches!(self, Kind::Nearest | Kind::NearestExact)
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
        let dtype = input.dtype();
        if input.numel() > 0 && dispatches_to_cpu(input.key_set()) {
            // An alias, whose sizes no other thread changes.
            return self.resized_dense(&alias(input)?, sizes, scales);
        }
        let mut output =
            if self.kind.copies_elements() { input.clone() } else { input.to(computing_type(dtype))? };
        for (d, size) in sizes.iter().enumerate() {
            output = self.along(&output, 2 + d as i64, *size, scales[d])?;
        }
        ops::clone(&output.to(dtype)?, Some(input.suggest_memory_format()))
    }

    /// [`resized`](Self::resized) without operators that record, trace or run elsewhere: each dimension in one pass.
    fn resized_dense(&self, input: &Tensor, sizes: &[i64], scales: &[Option<f64>]) -> Result<Tensor> {
        let (name, dtype, format) = (self.name, input.dtype(), input.suggest_memory_format());
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
            output[2 + d] = *size;
            let channels = if format == MemoryFormat::Contiguous { 1 } else { output[1] };
            let inner = (output[3 + d..].iter().product::<i64>() * channels) as usize;
            let dimension = Dimension { from: x.size(2 + d as i64)? as usize, to: *size as usize, inner };
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
        let (mut each, mut table) = (1, fallible::with_capacity(dimension.to)?);
        for index in 0..to {
            let neighbors = self.neighbors(index, from, to, scale, double);
            each = neighbors.len();
            table.extend(neighbors.into_iter().map(|(at, weight)| (at as usize, weight)));
        }
        match x.dtype() {
            _ if self.kind.copies_elements() => {
                let reads = fallible::collect(table.iter().map(|(at, _)| *at))?;
                dense::copied(self.name, x, y, dimension, &reads)
            }
            ScalarType::F64 => dense::weighted::<f64>(self.name, [x, y], dimension, &table, each),
            _ => dense::weighted::<f32>(self.name, [x, y], dimension, &table, each),
        }
    }

    /// Copies the elements of all dimensions in one pass.
    fn copied_plane(
        &self,
        x: &Tensor,
        sizes: &[i64],
        scales: &[Option<f64>],
        format: MemoryFormat,
    ) -> Result<Tensor> {
        let (own, mut output) = (&x.sizes()[2..], DimVec::from_slice(x.sizes()));
        let mut reads = vec![0];
        for (d, size) in sizes.iter().enumerate() {
            let source = |index| self.neighbors(index, own[d], *size, scales[d], false)[0].0 as usize;
            let along = fallible::collect((0..*size).map(source))?;
            let outer = reads.iter().map(|at| at * own[d] as usize);
            reads = fallible::collect(outer.flat_map(|outer| along.iter().map(move |at| outer + at)))?;
            output[2 + d] = *size;
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
