//! Which input places each output place looks at, along one dimension or both; checked once.

use flambeau_core::{DimVec, Result, ensure};
use std::ops::Range;

/// One output place's share of a dimension.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The input places, inside the input.
    pub(super) inside: Range<usize>,
    /// How many places count in a mean.
    pub(super) counted: i64,
}

/// How pooling goes along two dimensions.
pub(super) struct Pool {
    pub(super) kernel: [i64; 2],
    pub(super) stride: [i64; 2],
    pub(super) padding: [i64; 2],
    pub(super) dilation: [i64; 2],
    pub(super) input: [i64; 2],
    pub(super) output: [i64; 2],
}

/// The arguments as they come.
pub(super) struct Given<'a> {
    pub(super) kernel_size: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) padding: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) ceil_mode: bool,
}

fn pair(name: &str, argument: &str, values: &[i64]) -> Result<[i64; 2]> {
    ensure!(
        matches!(values.len(), 1 | 2),
        InvalidArgument,
        "{name}: {argument} must either be a single int, or a tuple of two ints"
    );
    Ok([values[0], values[values.len() - 1]])
}

impl Pool {
    /// Of an input of `sizes`, three or four dimensions.
    pub(super) fn new(name: &str, given: &Given<'_>, sizes: &[i64]) -> Result<Self> {
        let kernel = pair(name, "kernel_size", given.kernel_size)?;
        let stride = if given.stride.is_empty() { kernel } else { pair(name, "stride", given.stride)? };
        let padding = pair(name, "padding", given.padding)?;
        let dilation = pair(name, "dilation", given.dilation)?;
        let positive = |values: [i64; 2]| values.iter().all(|v| *v > 0);
        ensure!(
            positive(kernel),
            InvalidArgument,
            "{name}: kernel size should be greater than zero, but got kH: {} kW: {}",
            kernel[0],
            kernel[1]
        );
        ensure!(stride.iter().all(|s| *s != 0), InvalidArgument, "{name}: stride should not be zero");
        ensure!(
            positive(stride),
            InvalidArgument,
            "{name}: stride should be greater than zero, but got dH: {} dW: {}",
            stride[0],
            stride[1]
        );
        ensure!(
            positive(dilation),
            InvalidArgument,
            "{name}: dilation should be greater than zero, but got dilationH: {} dilationW: {}",
            dilation[0],
            dilation[1]
        );
        check_input(name, sizes)?;
        let input = [sizes[sizes.len() - 2], sizes[sizes.len() - 1]];
        let mut pool = Self { kernel, stride, padding, dilation, input, output: [0, 0] };
        for d in 0..2 {
            pool.output[d] = pool.output_size(name, d, given.ceil_mode)?;
        }
        Ok(pool)
    }

    fn output_size(&self, name: &str, d: usize, ceil_mode: bool) -> Result<i64> {
        let (k, s, p, i) = (self.kernel[d], self.stride[d], self.padding[d], self.input[d]);
        ensure!(p >= 0, InvalidArgument, "{name}: pad must be non-negative, but got pad: {p}");
        let reach = self.dilation[d].checked_mul(k - 1).and_then(|r| r.checked_add(1));
        let Some(reach) = reach else {
            flambeau_core::bail!(Overflow, "{name}: the reach of kernel size {k} does not fit in 63 bits")
        };
        ensure!(
            p <= reach / 2,
            InvalidArgument,
            "{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={}",
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
            Shape,
            "{name}: Given input size: {:?}. Calculated output size along dimension {d}: {size}. Output size is too small",
            self.input
        );
        Ok(size)
    }

    /// The places in the kernel along dimension `d` that any window has inside the input.
    pub(super) fn taps(&self, d: usize) -> Range<i64> {
        let furthest = (self.output[d] - 1).saturating_mul(self.stride[d]);
        let before = self.padding[d].saturating_sub(furthest).max(0);
        let first = before / self.dilation[d] + i64::from(before % self.dilation[d] != 0);
        let end = (self.input[d].saturating_add(self.padding[d]) - 1) / self.dilation[d] + 1;
        first..end.min(self.kernel[d])
    }

    /// The windows along dimension `d` of a mean; places in the padding count if `padded`.
    pub(super) fn windows(&self, d: usize, padded: bool) -> Vec<Window> {
        let (k, p, size) = (self.kernel[d], self.padding[d], self.input[d]);
        let window = |o: i64| {
            let start = o * self.stride[d] - p;
            let end = start.saturating_add(k).min(size.saturating_add(p));
            let inside = start.clamp(0, size) as usize..end.clamp(0, size) as usize;
            let counted = if padded { end - start } else { inside.len() as i64 };
            Window { inside, counted }
        };
        (0..self.output[d]).map(window).collect()
    }
}

/// Refuses inputs that are no images: only the number of images may be 0.
pub(super) fn check_input(name: &str, sizes: &[i64]) -> Result<()> {
    let inner = match sizes.len() {
        3 => sizes,
        4 => &sizes[1..],
        _ => &[0],
    };
    ensure!(
        inner.iter().all(|s| *s != 0),
        Shape,
        "{name}: Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{sizes:?}"
    );
    Ok(())
}

/// Windows that cut `input` places into `output` nearly equal ranges, which may share a place.
pub(super) fn adaptive(input: i64, output: i64) -> Vec<Window> {
    let bound = |o: i64| i128::from(o) * i128::from(input);
    let window = |o: i64| {
        let start = bound(o).div_euclid(i128::from(output)) as usize;
        let end = (bound(o + 1) + i128::from(output) - 1).div_euclid(i128::from(output)) as usize;
        Window { inside: start..end, counted: (end - start) as i64 }
    };
    (0..output).map(window).collect()
}

/// `sizes` with other heights and widths.
pub(super) fn resized(sizes: &[i64], [height, width]: [i64; 2]) -> DimVec {
    let mut sizes = DimVec::from_slice(sizes);
    let d = sizes.len();
    (sizes[d - 2], sizes[d - 1]) = (height, width);
    sizes
}
