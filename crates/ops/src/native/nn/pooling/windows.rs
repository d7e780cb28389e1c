//! The parameters of pooling, checked, and the window of the input for each output.
//!
//! Pooling over two dimensions is treated as pooling over three of which the first has size 1.

use flambeau_core::{DimVec, Result, bail, ensure, fallible};
use std::ops::Range;

/// The window of one output along a dimension.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The indices of the window that are inside the input.
    pub(super) inside: Range<usize>,
    /// The number of elements by which a mean divides.
    pub(super) counted: i64,
}

/// The name of an operator, for error messages, and its number of spatial dimensions, two or three.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) dims: usize,
}

/// Checked parameters and spatial sizes, along planes, rows and columns.
pub(super) struct Pool {
    pub(super) kernel: [i64; 3],
    pub(super) stride: [i64; 3],
    pub(super) padding: [i64; 3],
    pub(super) dilation: [i64; 3],
    pub(super) input: [i64; 3],
    pub(super) output: [i64; 3],
}

/// The parameters as the caller gives them.
pub(super) struct PoolArgs<'a> {
    pub(super) kernel_size: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) padding: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) ceil_mode: bool,
}

impl Kind {
    /// One value for each of three dimensions, from one value for all or one for each; `missing` for the planes of two
    /// dimensions.
    fn expanded(self, argument: &str, values: &[i64], missing: i64) -> Result<[i64; 3]> {
        ensure!(
            values.len() == 1 || values.len() == self.dims,
            InvalidArgument(self.name, argument),
            "{argument} must either be a single int, or a tuple of {} ints",
            if self.dims == 2 { "two" } else { "three" }
        );
        Ok(std::array::from_fn(|d| match (d + self.dims).checked_sub(3) {
            Some(dim) => values[dim.min(values.len() - 1)],
            None => missing,
        }))
    }

    /// The spatial sizes of an input that [`check_input`](Self::check_input) accepts.
    pub(super) fn spatial(self, sizes: &[i64]) -> [i64; 3] {
        let own = &sizes[sizes.len() - self.dims..];
        std::array::from_fn(|d| (d + self.dims).checked_sub(3).map_or(1, |dim| own[dim]))
    }

    /// Checks the rank of an input, and that no dimension but the batch is empty.
    pub(super) fn check_input(self, sizes: &[i64]) -> Result<()> {
        let inner = match sizes.len().checked_sub(self.dims) {
            Some(1) => sizes,
            Some(2) => &sizes[1..],
            _ => &[0],
        };
        ensure!(
            inner.iter().all(|s| *s != 0),
            Shape(self.name, "self"),
            "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got:{sizes:?}",
            self.dims + 1,
            self.dims + 2
        );
        Ok(())
    }

    /// `sizes` with the spatial sizes replaced.
    pub(super) fn resized(self, sizes: &[i64], output: [i64; 3]) -> DimVec {
        let mut sizes = DimVec::from_slice(sizes);
        let first = sizes.len() - self.dims;
        sizes[first..].copy_from_slice(&output[3 - self.dims..]);
        sizes
    }

    /// `kH: 2 kW: 3`.
    fn listed(self, prefix: &str, values: [i64; 3]) -> String {
        let parts = ["T", "H", "W"].iter().zip(values).skip(3 - self.dims);
        parts.map(|(letter, value)| format!("{prefix}{letter}: {value}")).collect::<Vec<_>>().join(" ")
    }

    fn ensure_positive(self, what: &str, prefix: &str, values: [i64; 3]) -> Result<()> {
        ensure!(
            values.iter().all(|v| *v > 0),
            InvalidArgument(self.name, what),
            "{what} should be greater than zero, but got {}",
            self.listed(prefix, values)
        );
        Ok(())
    }
}

impl Pool {
    /// For an input of `sizes`, batched or unbatched.
    pub(super) fn new(kind: Kind, given: &PoolArgs<'_>, sizes: &[i64]) -> Result<Self> {
        let kernel = kind.expanded("kernel_size", given.kernel_size, 1)?;
        let stride = if given.stride.is_empty() { kernel } else { kind.expanded("stride", given.stride, 1)? };
        let padding = kind.expanded("padding", given.padding, 0)?;
        let dilation = kind.expanded("dilation", given.dilation, 1)?;
        kind.ensure_positive("kernel size", "k", kernel)?;
        ensure!(
            stride.iter().all(|s| *s != 0),
            InvalidArgument(kind.name, "stride"),
            "stride should not be zero"
        );
        kind.ensure_positive("stride", "d", stride)?;
        kind.ensure_positive("dilation", "dilation", dilation)?;
        kind.check_input(sizes)?;
        let input = kind.spatial(sizes);
        let mut pool = Self { kernel, stride, padding, dilation, input, output: [1; 3] };
        for d in 3 - kind.dims..3 {
            pool.output[d] = pool.output_size(kind, d, given.ceil_mode)?;
        }
        Ok(pool)
    }

    fn output_size(&self, kind: Kind, d: usize, ceil_mode: bool) -> Result<i64> {
        let (k, s, p, i, name) = (self.kernel[d], self.stride[d], self.padding[d], self.input[d], kind.name);
        ensure!(p >= 0, InvalidArgument(name, "padding"), "pad must be non-negative, but got pad: {p}");
        let reach = self.dilation[d].checked_mul(k - 1).and_then(|r| r.checked_add(1));
        let Some(reach) = reach else {
            bail!(Overflow(name, "kernel_size"), "the reach of kernel size {k} does not fit in 63 bits")
        };
        ensure!(
            p <= reach / 2,
            InvalidArgument(name, "padding"),
            "pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={}",
            self.dilation[d]
        );
        let last = i.saturating_add(2 * p).saturating_sub(reach);
        let mut size = if ceil_mode { last.saturating_add(s - 1) } else { last }.div_euclid(s) + 1;
        // The last window must begin inside the input or the padding before it.
        if ceil_mode && (size - 1).saturating_mul(s) >= i.saturating_add(p) {
            size -= 1;
        }
        ensure!(
            size >= 1,
            Shape(name, "self"),
            "Given input size: {:?}. Calculated output size along dimension {}: {size}. Output size is too small",
            &self.input[3 - kind.dims..],
            d + kind.dims - 3
        );
        Ok(size)
    }

    /// Rows and columns exchanged.
    pub(super) fn exchanged(&self) -> Self {
        let [kernel, stride, padding] = [self.kernel, self.stride, self.padding].map(|[z, y, x]| [z, x, y]);
        let [dilation, input, output] = [self.dilation, self.input, self.output].map(|[z, y, x]| [z, x, y]);
        Self { kernel, stride, padding, dilation, input, output }
    }

    /// The kernel positions along dimension `d` that are inside the input for at least one output.
    pub(super) fn kernel_range(&self, d: usize) -> Range<i64> {
        let furthest = (self.output[d] - 1).saturating_mul(self.stride[d]);
        let before = self.padding[d].saturating_sub(furthest).max(0);
        let first = before / self.dilation[d] + i64::from(before % self.dilation[d] != 0);
        let end = (self.input[d].saturating_add(self.padding[d]) - 1) / self.dilation[d] + 1;
        first..end.min(self.kernel[d])
    }

    /// The number of kernel positions in range over all dimensions.
    pub(super) fn kernel_numel(&self) -> i64 {
        let along = |d: usize| (self.kernel_range(d).end - self.kernel_range(d).start).max(0);
        (0..3).fold(1, |count: i64, d| count.saturating_mul(along(d)))
    }

    /// The windows along dimension `d` of a mean; the padding counts if `padded`.
    pub(super) fn windows(&self, d: usize, padded: bool) -> Result<Vec<Window>> {
        let (k, p, size) = (self.kernel[d], self.padding[d], self.input[d]);
        let window = |o: i64| {
            let start = o * self.stride[d] - p;
            let end = start.saturating_add(k).min(size.saturating_add(p));
            let inside = start.clamp(0, size) as usize..end.clamp(0, size) as usize;
            let counted = if padded { end - start } else { inside.len() as i64 };
            Window { inside, counted }
        };
        fallible::collect((0..self.output[d]).map(window))
    }
}

/// Windows that divide `input` indices into `output` ranges of nearly equal length, which may overlap by an index.
pub(super) fn adaptive(input: i64, output: i64) -> Result<Vec<Window>> {
    let bound = |o: i64| i128::from(o) * i128::from(input);
    let window = |o: i64| {
        let start = bound(o).div_euclid(i128::from(output)) as usize;
        let end = (bound(o + 1) + i128::from(output) - 1).div_euclid(i128::from(output)) as usize;
        Window { inside: start..end, counted: (end - start) as i64 }
    };
    fallible::collect((0..output).map(window))
}
