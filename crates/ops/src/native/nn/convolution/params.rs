//! The parameters of a convolution: as given, checked and expanded, and together with the sizes of its operands.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, bail, ensure};

/// The most elements that input, weight or output may have, so that counts of bytes and of multiply-adds fit in 63 bits.
const MAX_ELEMENTS: i64 = 1 << 56;

/// The parameters as the caller gives them: lists of one value for all spatial dimensions, or of one for each.
#[derive(Clone, Copy)]
pub(super) struct ConvArgs<'a> {
    pub(super) stride: &'a [i64],
    pub(super) padding: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) transposed: bool,
    pub(super) output_padding: &'a [i64],
    pub(super) groups: i64,
}

impl ConvArgs<'_> {
    /// Checked, for a convolution with this weight.
    pub(super) fn params(&self, weight: &Tensor) -> Result<ConvParams> {
        ensure!(
            weight.dim() >= 3,
            Shape,
            operator = "convolution",
            argument = "weight",
            "weight should have at least three dimensions"
        );
        ensure!(
            weight.dim() <= 5,
            NotImplemented("convolution", "weight"),
            "more than three spatial dimensions are not implemented"
        );
        ConvParams::new(self, weight.dim() - 2)
    }

    /// Calls [`ops::convolution`], for complex numbers three times.
    pub(super) fn convolve(&self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        if input.is_complex() && weight.is_complex() && bias.is_none_or(Tensor::is_complex) {
            return self.convolve_complex(input, weight, bias);
        }
        self.convolve_real(input, weight, bias)
    }

    /// Convolutions of the real parts, of the imaginary parts, and of their sums, which have the products of both kinds of parts in them.
    fn convolve_complex(&self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let one = Scalar::Int(1);
        let parts = |tensor: &Tensor| -> Result<[Tensor; 3]> {
            let (re, im) = (ops::real(tensor)?, ops::imag(tensor)?);
            let sum = ops::add_tensor(&re, &im, one)?;
            Ok([re, im, sum])
        };
        let ([input_re, input_im, input_sum], [weight_re, weight_im, weight_sum]) =
            (parts(input)?, parts(weight)?);
        let bias = bias.map(parts).transpose()?;
        let re = self.convolve_real(&input_re, &weight_re, bias.as_ref().map(|[re, _, _]| re))?;
        let im = self.convolve_real(&input_im, &weight_im, None)?;
        let sum = self.convolve_real(&input_sum, &weight_sum, bias.as_ref().map(|[_, _, sum]| sum))?;
        let mixed = ops::sub_tensor(&ops::sub_tensor(&sum, &re, one)?, &im, one)?;
        ops::complex(&ops::sub_tensor(&re, &im, one)?, &mixed)
    }

    fn convolve_real(&self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let &ConvArgs { stride, padding, dilation, transposed, output_padding, groups } = self;
        ops::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    }

    /// Calls [`ops::convolution_backward`] of a convolution without a bias.
    pub(super) fn convolve_backward(
        &self,
        grad_output: &Tensor,
        input: &Tensor,
        weight: &Tensor,
        output_mask: [bool; 3],
    ) -> Result<(Tensor, Tensor, Tensor)> {
        ops::convolution_backward(
            grad_output,
            input,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
            output_mask,
        )
    }
}

/// Checked parameters, with one value for each spatial dimension. PyTorch's `ConvParams`.
pub(super) struct ConvParams {
    pub(super) stride: DimVec,
    pub(super) padding: DimVec,
    pub(super) dilation: DimVec,
    pub(super) output_padding: DimVec,
    pub(super) transposed: bool,
    pub(super) groups: i64,
}

impl ConvParams {
    fn new(args: &ConvArgs<'_>, spatial: usize) -> Result<Self> {
        let &ConvArgs { stride, padding, dilation, transposed, output_padding, groups } = args;
        let params = Self {
            stride: expanded("stride", stride, spatial)?,
            padding: expanded("padding", padding, spatial)?,
            dilation: expanded("dilation", dilation, spatial)?,
            output_padding: expanded("output_padding", output_padding, spatial)?,
            transposed,
            groups,
        };
        ensure!(
            params.stride.iter().all(|s| *s > 0),
            InvalidArgument,
            operator = "convolution",
            argument = "stride",
            "non-positive stride is not supported"
        );
        ensure!(
            params.padding.iter().all(|p| *p >= 0),
            InvalidArgument,
            operator = "convolution",
            argument = "padding",
            "negative padding is not supported"
        );
        ensure!(
            params.dilation.iter().all(|d| *d > 0),
            InvalidArgument,
            operator = "convolution",
            argument = "dilation",
            "dilation should be greater than zero"
        );
        ensure!(
            params.output_padding.iter().all(|p| *p >= 0),
            InvalidArgument,
            operator = "convolution",
            argument = "output_padding",
            "negative output_padding is not supported"
        );
        let largest = params.stride.iter().zip(&params.dilation).map(|(s, d)| *s.max(d));
        ensure!(
            !transposed || params.output_padding.iter().zip(largest).all(|(p, largest)| *p < largest),
            InvalidArgument,
            operator = "convolution",
            argument = "output_padding",
            "output padding must be smaller than either stride or dilation, but got output_padding {:?}, stride {:?}, \
             dilation {:?}",
            params.output_padding,
            params.stride,
            params.dilation
        );
        ensure!(
            groups > 0,
            InvalidArgument,
            operator = "convolution",
            argument = "groups",
            "expected groups to be positive but got {groups}"
        );
        Ok(params)
    }

    /// The sizes of the result.
    pub(super) fn output_sizes(&self, input: &[i64], weight: &[i64]) -> Result<DimVec> {
        let channels = if self.transposed { weight[1].checked_mul(self.groups) } else { Some(weight[0]) };
        let mut sizes = DimVec::from_slice(&[input[0], channels.unwrap_or(i64::MAX)]);
        for d in 0..self.stride.len() {
            let Some(size) = self.output_size(d, input[d + 2], weight[d + 2]) else {
                bail!(
                    Overflow,
                    operator = "convolution",
                    argument = "input",
                    "the output sizes for {input:?} and {weight:?} do not fit in 63 bits"
                );
            };
            sizes.push(size);
        }
        ensure!(
            sizes[2..].iter().all(|size| *size >= if self.transposed { 1 } else { 0 }),
            Shape,
            operator = "convolution",
            argument = "input",
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

    /// The convolution of these operands, or the one whose input gradient they are.
    pub(super) fn conv(&self, input: &Tensor, weight: &Tensor, output: &Tensor) -> Conv {
        let (input, output) = if self.transposed { (output, input) } else { (input, output) };
        Conv::new(self, input.sizes(), weight.sizes(), output.sizes())
    }

    /// Checks that the sizes of input, weight and bias match, as PyTorch's `check_shape_forward` does.
    pub(super) fn check(&self, input: &Tensor, weight: &Tensor, bias: Option<&[i64]>) -> Result<()> {
        let (x, w, groups) = (input.sizes(), weight.sizes(), self.groups);
        ensure!(
            x.len() == w.len(),
            Shape,
            operator = "convolution",
            argument = "input",
            "Expected {}-dimensional input for {}-dimensional weight {w:?}, but got {}-dimensional input of size {x:?} \
             instead",
            w.len(),
            w.len(),
            x.len()
        );
        ensure!(
            w[0] >= groups,
            Shape,
            operator = "convolution",
            argument = "weight",
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {w:?} \
             instead"
        );
        ensure!(
            w[0] % groups == 0,
            Shape,
            operator = "convolution",
            argument = "weight",
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
            operator = "convolution",
            argument = "input",
            "Given groups={groups}, weight of size {w:?}, expected input{x:?} to have {} channels, but got {} channels \
             instead",
            expected.unwrap_or(i64::MAX),
            x[1]
        );
        if let Some(bias) = bias {
            ensure!(
                bias.len() == 1 && Some(bias[0]) == filters,
                Shape,
                operator = "convolution",
                argument = "bias",
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
            operator = "convolution",
            argument = "weight",
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
            operator = "convolution",
            argument = "input",
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual \
             input size",
            list(&padded),
            list(&reach)
        );
        Ok(())
    }
}

/// Checks that element counts stay below [`MAX_ELEMENTS`], with empty dimensions counted as one: kernels multiply sizes
/// unchecked.
fn ensure_countable(what: &str, given: &[i64], mut sizes: impl Iterator<Item = Option<i64>>) -> Result<()> {
    let within = |product: i64, size: Option<i64>| {
        product.checked_mul(size?.max(1)).filter(|product| *product <= MAX_ELEMENTS)
    };
    ensure!(
        sizes.try_fold(1, within).is_some(),
        Overflow,
        operator = "convolution",
        "expected {what} of at most {MAX_ELEMENTS} elements but got sizes {given:?}"
    );
    Ok(())
}

fn expanded(name: &str, values: &[i64], spatial: usize) -> Result<DimVec> {
    match values {
        [one] => Ok(DimVec::from_elem(*one, spatial)),
        values if values.len() == spatial => Ok(DimVec::from_slice(values)),
        values => bail!(
            InvalidArgument,
            operator = "convolution",
            argument = name,
            "expected {name} to be a single integer value or a list of {spatial} values to match the convolution dimensions, \
             but got {name}={values:?}"
        ),
    }
}

/// Values of three spatial dimensions: where `values` has fewer, the leading ones are `missing`.
pub(super) fn spatial(values: &[i64], missing: usize) -> [usize; 3] {
    std::array::from_fn(|d| (d + values.len()).checked_sub(3).map_or(missing, |index| values[index] as usize))
}

/// The sizes of a convolution over three dimensions: planes, rows and columns. With fewer dimensions the leading ones have size
/// 1. It is never transposed: a transposed convolution is described by the convolution whose input gradient it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Input channels of one group.
    pub(super) channels: usize,
    /// Output channels of one group.
    pub(super) filters: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) dilation: [usize; 3],
}

impl Conv {
    /// `input` and `output` are those of the convolution that is not transposed.
    pub(super) fn new(p: &ConvParams, input: &[i64], weight: &[i64], output: &[i64]) -> Self {
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

    /// The convolution of one group.
    pub(super) fn of_group(&self) -> Self {
        Self { groups: 1, ..*self }
    }

    /// Multiply-adds of one group.
    pub(super) fn work_of_group(&self) -> usize {
        self.images.saturating_mul(self.filters).saturating_mul(self.depth()).saturating_mul(self.pixels())
    }

    /// Pixels of one output channel.
    pub(super) fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// Kernel positions: weights of one filter for one channel.
    pub(super) fn kernel_numel(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Products that are summed for one element of the output.
    pub(super) fn depth(&self) -> usize {
        self.channels * self.kernel_numel()
    }

    /// Whether each output pixel depends on the input pixel at the same position only, and input and output have the same sizes.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3] && self.input == self.output
    }

    /// The convolution of the output gradient with the flipped kernel that computes the input gradient. It exists where strides
    /// are 1, the padding is no wider than the kernel's extent, and every input pixel is read (some are not with
    /// `output_padding`).
    pub(super) fn flipped(&self) -> Option<Self> {
        let reach = |d: usize| self.dilation[d] * (self.kernel[d] - 1);
        let exists = (0..3).all(|d| {
            self.padding[d] <= reach(d) && self.input[d] + 2 * self.padding[d] == self.output[d] + reach(d)
        });
        (exists && self.stride == [1; 3]).then(|| Self {
            channels: self.filters,
            filters: self.channels,
            input: self.output,
            output: self.input,
            padding: [0, 1, 2].map(|d| reach(d) - self.padding[d]),
            ..*self
        })
    }
}
