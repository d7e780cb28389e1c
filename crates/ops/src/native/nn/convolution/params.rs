//! What a convolution is, as numbers: sizes, strides, padding; checked once.

use crate::Tensor;
use flambeau_core::{DimVec, Result, bail, ensure};

/// Elements of one side, so that numbers of bytes and of products fit in 63 bits.
const MOST_ELEMENTS: i64 = 1 << 56;

/// The lists of a call, as long as the tensors have spatial dimensions.
pub(super) struct Parameters {
    pub(super) stride: DimVec,
    pub(super) padding: DimVec,
    pub(super) dilation: DimVec,
    pub(super) output_padding: DimVec,
    pub(super) transposed: bool,
    pub(super) groups: i64,
}

/// What is passed on as it came: stride, padding, dilation, whether transposed, output padding, groups.
pub(super) type Given<'a> = (&'a [i64], &'a [i64], &'a [i64], bool, &'a [i64], i64);

impl Parameters {
    pub(super) fn new(
        (stride, padding, dilation, transposed, output_padding, groups): Given<'_>,
        spatial: usize,
    ) -> Result<Self> {
        let made = Self {
            stride: expanded("stride", stride, spatial)?,
            padding: expanded("padding", padding, spatial)?,
            dilation: expanded("dilation", dilation, spatial)?,
            output_padding: expanded("output_padding", output_padding, spatial)?,
            transposed,
            groups,
        };
        ensure!(made.stride.iter().all(|s| *s > 0), InvalidArgument, "non-positive stride is not supported");
        ensure!(made.padding.iter().all(|p| *p >= 0), InvalidArgument, "negative padding is not supported");
        ensure!(
            made.dilation.iter().all(|d| *d > 0),
            InvalidArgument,
            "dilation should be greater than zero"
        );
        ensure!(
            made.output_padding.iter().all(|p| *p >= 0),
            InvalidArgument,
            "negative output_padding is not supported"
        );
        ensure!(groups > 0, InvalidArgument, "expected groups to be positive but got {groups}");
        Ok(made)
    }

    /// The sizes of the result.
    pub(super) fn output_sizes(&self, input: &[i64], weight: &[i64]) -> Result<DimVec> {
        let channels = if self.transposed { weight[1].checked_mul(self.groups) } else { Some(weight[0]) };
        let mut sizes = DimVec::from_slice(&[input[0], channels.unwrap_or(i64::MAX)]);
        for d in 0..self.stride.len() {
            let Some(size) = self.output_size(d, input[d + 2], weight[d + 2]) else {
                bail!(Overflow, "the sizes {input:?} and {weight:?} lead past 63 bits");
            };
            sizes.push(size);
        }
        ensure!(
            sizes[2..].iter().all(|size| *size >= if self.transposed { 1 } else { 0 }),
            Shape,
            "Given input size per channel: {:?}. Calculated output size per channel: {:?}. Output size is too small",
            &input[2..],
            &sizes[2..]
        );
        for side in [input, &sizes] {
            let padded = |(size, padding): (&i64, &i64)| padding.checked_mul(2)?.checked_add(*size);
            let pixels = side[2..].iter().zip(&self.padding).map(padded);
            ensure_countable("padded sides", side, side[..2].iter().copied().map(Some).chain(pixels))?;
        }
        ensure_countable("weights", weight, weight.iter().copied().map(Some))?;
        Ok(sizes)
    }

    fn output_size(&self, d: usize, input: i64, kernel: i64) -> Option<i64> {
        let reach = self.dilation[d].checked_mul(kernel - 1)?;
        let pads = self.padding[d].checked_mul(2)?;
        if self.transposed {
            let steps = (input - 1).checked_mul(self.stride[d])?;
            steps.checked_sub(pads)?.checked_add(reach)?.checked_add(self.output_padding[d])?.checked_add(1)
        } else {
            Some((input.checked_add(pads)?.checked_sub(reach)? - 1).div_euclid(self.stride[d]) + 1)
        }
    }

    /// Refuses tensors that do not go together, as PyTorch's `check_shape_forward` does.
    pub(super) fn check(&self, input: &Tensor, weight: &Tensor, bias: Option<&[i64]>) -> Result<()> {
        let (x, w, groups) = (input.sizes(), weight.sizes(), self.groups);
        ensure!(
            x.len() == w.len(),
            Shape,
            "Expected {}-dimensional input for {}-dimensional weight {w:?}, but got {}-dimensional input of size {x:?} \
             instead",
            w.len(),
            w.len(),
            x.len()
        );
        ensure!(
            w[0] >= groups,
            Shape,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {w:?} \
             instead"
        );
        ensure!(
            w[0] % groups == 0,
            Shape,
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size \
             {w:?} instead"
        );
        let (expected, filters) = if self.transposed {
            (Some(w[0]), w[1].checked_mul(groups))
        } else {
            (w[1].checked_mul(groups), Some(w[0]))
        };
        ensure!(
            expected == Some(x[1]),
            Shape,
            "Given groups={groups}, weight of size {w:?}, expected input{x:?} to have {} channels, but got {} channels \
             instead",
            expected.unwrap_or(i64::MAX),
            x[1]
        );
        if let Some(bias) = bias {
            ensure!(
                bias.len() == 1 && Some(bias[0]) == filters,
                Shape,
                "Given weight of size {w:?}, expected bias to be 1-dimensional with {} elements, but got bias of size \
                 {bias:?} instead",
                filters.unwrap_or(i64::MAX)
            );
        }
        self.check_kernel(x, w)
    }

    fn check_kernel(&self, x: &[i64], w: &[i64]) -> Result<()> {
        ensure!(
            w[2..].iter().all(|k| *k > 0),
            Shape,
            "expected a kernel without sizes of zero but got {w:?}"
        );
        let padded = |d: usize| x[d + 2].saturating_add(self.padding[d].saturating_mul(2));
        let reach = |d: usize| self.dilation[d].saturating_mul(w[d + 2] - 1).saturating_add(1);
        let fits = self.transposed || (0..self.stride.len()).all(|d| padded(d) >= reach(d));
        let list = |f: &dyn Fn(usize) -> i64| {
            (0..self.stride.len()).map(|d| f(d).to_string()).collect::<Vec<_>>().join(" x ")
        };
        ensure!(
            fits,
            Shape,
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual \
             input size",
            list(&padded),
            list(&reach)
        );
        Ok(())
    }
}

/// Refuses sizes of which kernels could not count the elements, even where there are none.
fn ensure_countable(what: &str, given: &[i64], mut sizes: impl Iterator<Item = Option<i64>>) -> Result<()> {
    let within = |product: i64, size: Option<i64>| {
        product.checked_mul(size?.max(1)).filter(|product| *product <= MOST_ELEMENTS)
    };
    ensure!(
        sizes.try_fold(1, within).is_some(),
        Overflow,
        "expected {what} of at most {MOST_ELEMENTS} elements but got sizes {given:?}"
    );
    Ok(())
}

fn expanded(name: &str, values: &[i64], spatial: usize) -> Result<DimVec> {
    match values {
        [one] => Ok(DimVec::from_elem(*one, spatial)),
        values if values.len() == spatial => Ok(DimVec::from_slice(values)),
        values => bail!(
            InvalidArgument,
            "expected {name} to be a single integer value or a list of {spatial} values to match the convolution dimensions, \
             but got {name}={values:?}"
        ),
    }
}

/// Sizes or steps of the spatial dimensions, with `missing` for the first where there are fewer than three.
pub(super) fn spatial(values: &[i64], missing: usize) -> [usize; 3] {
    std::array::from_fn(|d| (d + values.len()).checked_sub(3).map_or(missing, |place| values[place] as usize))
}

/// A convolution over three dimensions, planes, rows and columns, which is not transposed: its counterpart stands for one
/// that is. Of fewer dimensions the first ones have one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Of the input, in one group.
    pub(super) channels: usize,
    /// Channels of the output, in one group.
    pub(super) filters: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) dilation: [usize; 3],
}

impl Conv {
    /// From the checked sizes of the larger side, the weight and the smaller side.
    pub(super) fn new(p: &Parameters, input: &[i64], weight: &[i64], output: &[i64]) -> Self {
        Self {
            images: input[0] as usize,
            groups: p.groups as usize,
            channels: weight[1] as usize,
            filters: (weight[0] / p.groups) as usize,
            input: spatial(&input[2..], 1),
            output: spatial(&output[2..], 1),
            kernel: spatial(&weight[2..], 1),
            stride: spatial(&p.stride, 1),
            padding: spatial(&p.padding, 0),
            dilation: spatial(&p.dilation, 1),
        }
    }

    /// Pixels of one output channel.
    pub(super) fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// Places in the kernel.
    pub(super) fn places(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Products summed for one element of the output.
    pub(super) fn depth(&self) -> usize {
        self.channels * self.places()
    }

    /// Whether an output pixel is made of the input pixel at its place alone, and no input pixel is left over.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3] && self.input == self.output
    }

    /// The convolution of the output's gradient, with weights turned around in every dimension, that gives the input's
    /// gradient: where strides are 1, the padding stays inside the kernel's reach, and no input pixel is left over, as
    /// `output_padding` does.
    pub(super) fn flipped(&self) -> Option<Self> {
        let reach = |d: usize| self.dilation[d] * (self.kernel[d] - 1);
        let inside = (0..3).all(|d| {
            self.padding[d] <= reach(d) && self.input[d] + 2 * self.padding[d] == self.output[d] + reach(d)
        });
        (inside && self.stride == [1; 3]).then(|| Self {
            channels: self.filters,
            filters: self.channels,
            input: self.output,
            output: self.input,
            padding: [0, 1, 2].map(|d| reach(d) - self.padding[d]),
            ..*self
        })
    }
}
