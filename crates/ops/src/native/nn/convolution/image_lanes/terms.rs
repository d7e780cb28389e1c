//! Tables of what is summed: for each result the rows of the tile and the weights, for each kernel position the pairs of rows.

use super::super::params::Conv;
use super::LANES;
use crate::scratch;

/// A term of a sum: the offset of a row in the tile of the first group, and the index of its weight for the first channel.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) weight: u32,
    pub(super) row: u32,
}

/// A pixel of the results: the offset of its row for the first channel, and where its terms end.
pub(super) struct Pixel {
    pub(super) row: usize,
    pub(super) end: usize,
}

/// The terms of all results of a group, and the steps from those of one group and of one channel to the next.
pub(super) struct Terms {
    pub(super) terms: Vec<Term>,
    pub(super) pixels: Vec<Pixel>,
    pub(super) groups: usize,
    /// Channels of results of one group.
    pub(super) channels: usize,
    pub(super) source_group: usize,
    pub(super) result_channel: usize,
    pub(super) weight_group: usize,
    pub(super) weight_channel: usize,
}

/// All indices of these sizes, in row-major order.
fn positions([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [z, y, x])))
}

/// The element of the input that a kernel position multiplies for an element of the output, along one dimension.
fn read(conv: &Conv, d: usize, output: usize, k: usize) -> Option<usize> {
    let input = (output * conv.stride[d] + k * conv.dilation[d]).checked_sub(conv.padding[d])?;
    (input < conv.input[d]).then_some(input)
}

/// The element of the output for which a kernel position multiplies an element of the input, along one dimension.
fn reader(conv: &Conv, d: usize, input: usize, k: usize) -> Option<usize> {
    let ahead = (input + conv.padding[d]).checked_sub(k * conv.dilation[d])?;
    let output = ahead / conv.stride[d];
    (output * conv.stride[d] == ahead && output < conv.output[d]).then_some(output)
}

/// The offset in a tile of a pixel of the first channel, given the steps of channels, planes, rows and pixels.
fn offset([_, plane, row, pixel]: [usize; 4], [z, y, x]: [usize; 3]) -> usize {
    (z * plane + y * row + x * pixel) * LANES
}

impl Terms {
    /// Those of the output.
    pub(super) fn of_output(conv: &Conv, source: [usize; 4], result: [usize; 4]) -> Self {
        let steps = Terms {
            channels: conv.filters,
            source_group: conv.channels * source[0] * LANES,
            weight_channel: conv.depth(),
            ..Self::empty(conv, result)
        };
        let sources = (conv.channels, conv.kernel_numel());
        steps.with_pixels(conv, sources, source, (conv.output, result), read)
    }

    /// Those of the input gradient.
    pub(super) fn of_input_gradient(conv: &Conv, source: [usize; 4], result: [usize; 4]) -> Self {
        let steps = Terms {
            channels: conv.channels,
            source_group: conv.filters * source[0] * LANES,
            weight_channel: conv.kernel_numel(),
            ..Self::empty(conv, result)
        };
        steps.with_pixels(conv, (conv.filters, conv.depth()), source, (conv.input, result), reader)
    }

    fn empty(conv: &Conv, result: [usize; 4]) -> Self {
        Terms {
            terms: Vec::new(),
            pixels: Vec::new(),
            groups: conv.groups,
            channels: 0,
            source_group: 0,
            result_channel: result[0] * LANES,
            weight_group: conv.filters * conv.depth(),
            weight_channel: 0,
        }
    }

    /// With the terms of results of `sizes`: those of the first of `sources` channels, and the same of the others, whose weights are
    /// `weight_step` apart.
    fn with_pixels(
        mut self,
        conv: &Conv,
        (sources, weight_step): (usize, usize),
        source: [usize; 4],
        (sizes, result): ([usize; 3], [usize; 4]),
        along: fn(&Conv, usize, usize, usize) -> Option<usize>,
    ) -> Self {
        for at in positions(sizes) {
            let start = self.terms.len();
            for (weight, k) in positions(conv.kernel).enumerate() {
                let element = |d: usize| along(conv, d, at[d], k[d]);
                if let (Some(z), Some(y), Some(x)) = (element(0), element(1), element(2)) {
                    let row = offset(source, [z, y, x]) as u32;
                    scratch::push(&mut self.terms, Term { weight: weight as u32, row });
                }
            }
            let end = self.terms.len();
            for channel in 1..sources {
                let (weight, row) = ((channel * weight_step) as u32, (channel * source[0] * LANES) as u32);
                for i in start..end {
                    let first = self.terms[i];
                    let term = Term { weight: first.weight + weight, row: first.row + row };
                    scratch::push(&mut self.terms, term);
                }
            }
            let pixel = Pixel { row: offset(result, at), end: self.terms.len() };
            scratch::push(&mut self.pixels, pixel);
        }
        self
    }
}

/// For each kernel position the rows of output gradients and inputs whose products its weights sum, for the first channels, and the
/// steps to those of the next.
pub(super) struct Pairs {
    pub(super) pairs: Vec<[u32; 2]>,
    /// Where those of each kernel position end.
    pub(super) ends: Vec<usize>,
    pub(super) groups: usize,
    /// Filters and input channels of one group.
    pub(super) filters: usize,
    pub(super) channels: usize,
    pub(super) gradient_channel: usize,
    pub(super) input_channel: usize,
}

impl Pairs {
    pub(super) fn new(conv: &Conv, gradient: [usize; 4], input: [usize; 4]) -> Self {
        let (mut pairs, mut ends) = (Vec::new(), Vec::new());
        for k in positions(conv.kernel) {
            for at in positions(conv.output) {
                let element = |d: usize| read(conv, d, at[d], k[d]);
                if let (Some(z), Some(y), Some(x)) = (element(0), element(1), element(2)) {
                    let pair = [offset(gradient, at) as u32, offset(input, [z, y, x]) as u32];
                    scratch::push(&mut pairs, pair);
                }
            }
            scratch::push(&mut ends, pairs.len());
        }
        Pairs {
            pairs,
            ends,
            groups: conv.groups,
            filters: conv.filters,
            channels: conv.channels,
            gradient_channel: gradient[0] * LANES,
            input_channel: input[0] * LANES,
        }
    }
}
