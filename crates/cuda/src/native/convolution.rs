//! `convolution` of one to three dimensions, transposed or not, and its gradients: by the columns of the image and a product of matrices.
//!
//! An image has `channels`, a map has `filters`, and a weight is `filters` by `channels / groups` by the kernel. A convolution makes a map
//! of an image. A transposed convolution makes an image of a map, as does the gradient of the input. So three functions serve all.

use super::products::{Batch, Product};
use super::{computing_type, dense, dense_as, empty, meta, name_of, program, structured};
use crate::launch::{Arguments, Grid, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar};
use flambeau_ops::native::nn::convolution;
use flambeau_ops::{Tensor, ops, register};

structured! {
    CONVOLUTION CONVOLUTION_OUT "convolution" convolution::convolution_meta, forward:
        (input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], dilation: &[i64],
            transposed: bool, output_padding: &[i64], groups: i64) reads [input, weight];
}

register!(ops::CONVOLUTION_BACKWARD, Cuda, backward);

const NAME: &str = "convolution";
const SOURCE: &str = include_str!("../kernels/im2col.cu");
/// Columns have at most about so many elements at a time; samples are computed in groups that fit.
const MAX_COLUMNS: i64 = 1 << 26;

/// The sizes of a convolution from image to map; lists are of three spatial dimensions, with ones in front.
struct Conv {
    channels: i64,
    filters: i64,
    groups: i64,
    image: [i64; 3],
    positions: [i64; 3],
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
}

/// Three values from one for each of the last dimensions, or from one for all of `rank`.
pub(super) fn spatial(values: &[i64], rank: usize, missing: i64) -> [i64; 3] {
    std::array::from_fn(|d| match (d + rank).checked_sub(3) {
        Some(own) => values.get(own).or(values.last()).copied().unwrap_or(missing),
        None => missing,
    })
}

fn product(values: &[i64]) -> i64 {
    values.iter().product()
}

impl Conv {
    fn new(
        image: &[i64],
        map: &[i64],
        weight: &[i64],
        [stride, padding, dilation]: [&[i64]; 3],
        groups: i64,
    ) -> Self {
        let rank = weight.len() - 2;
        let of = |values: &[i64], missing| spatial(values, rank, missing);
        Conv {
            channels: image[1],
            filters: map[1],
            groups,
            image: of(&image[2..], 1),
            positions: of(&map[2..], 1),
            kernel: of(&weight[2..], 1),
            stride: of(stride, 1),
            padding: of(padding, 0),
            dilation: of(dilation, 1),
        }
    }

    fn structure(&self) -> Vec<u64> {
        let lists = [self.image, self.positions, self.kernel, self.stride, self.padding, self.dilation];
        lists.iter().flatten().map(|value| *value as u64).collect()
    }

    /// Rows of the columns of a group, and columns of a sample.
    fn rows(&self) -> i64 {
        self.channels / self.groups * product(&self.kernel)
    }

    fn positions(&self) -> i64 {
        product(&self.positions)
    }

    /// The ranges of samples whose columns are computed at once.
    fn parts(&self, samples: i64) -> impl Iterator<Item = (i64, i64)> + use<> {
        let per_sample = (self.rows() * self.groups).saturating_mul(self.positions()).max(1);
        let step = (MAX_COLUMNS / per_sample).clamp(1, samples.max(1));
        (0..samples).step_by(step as usize).map(move |start| (start, step.min(samples - start)))
    }

    /// Fills `to` from `from`, of which one is an image and the other its columns.
    fn launch(&self, samples: i64, from: &Tensor, to: &Tensor, flag: &str) -> Result<()> {
        if to.numel() == 0 {
            return Ok(());
        }
        let dtype = name_of(NAME, to.dtype())?;
        let is_short = to.numel() <= i64::from(i32::MAX);
        let position = if is_short { "uint32" } else { "uint64" };
        let definitions = format!("typedef {dtype} T;\n#define POSITION {position}\n{flag}");
        let geometry = self.structure();
        guarded(NAME, &[from], &[to], |gpu| {
            let function =
                gpu.function(&format!("im2col {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(to.numel()).int(samples).int(self.channels).tensor(from);
            gpu.launch(function, Grid::of(to.numel(), 256), &arguments.tensor(to).structure(&geometry))
        })
    }

    /// The columns of samples of a dense image, as matrices of groups.
    fn columns(&self, samples: i64, image: &Tensor) -> Result<Tensor> {
        let columns = self.empty_columns(samples, image)?;
        self.launch(samples, image, &columns, "")?;
        Ok(columns)
    }

    fn empty_columns(&self, samples: i64, like: &Tensor) -> Result<Tensor> {
        empty(&[self.groups, self.rows(), samples * self.positions()], like.dtype(), like.device())
    }

    /// A map with its channels first, as matrices of groups.
    fn matrices(&self, map: &Tensor) -> Result<Tensor> {
        let samples = map.sizes()[0];
        let dense_map = dense(&ops::transpose_int(map, 0, 1)?)?;
        ops::view(&dense_map, &[self.groups, self.filters / self.groups, samples * self.positions()])
    }

    fn weights(&self, weight: &Tensor) -> Result<Tensor> {
        ops::view(&dense(weight)?, &[self.groups, self.filters / self.groups, self.rows()])
    }

    fn product(&self, sizes: [i64; 3], a: Batch, b: Batch, out: &Tensor, adds: bool) -> Result<()> {
        let [m, n, k] = sizes;
        let mut product = Product::new(NAME, [self.groups, m, n, k]);
        product.addend = adds.then(|| (Batch::of(out), 1.0));
        product.run(&a, &b, &Batch::of(out))
    }

    /// `map` = `weight` * `image`.
    fn to_map(&self, image: &Tensor, weight: &Tensor, map: &Tensor) -> Result<()> {
        let (image, weight) = (dense(image)?, self.weights(weight)?);
        for (start, samples) in self.parts(image.sizes()[0]) {
            let columns = self.columns(samples, &ops::narrow(&image, 0, start, samples)?)?;
            let (filters, width) = (self.filters / self.groups, samples * self.positions());
            let result = empty(&[self.groups, filters, width], map.dtype(), map.device())?;
            let sizes = [filters, width, self.rows()];
            self.product(sizes, Batch::of(&weight), Batch::of(&columns), &result, false)?;
            let part = ops::narrow(map, 0, start, samples)?;
            let mut sizes = part.sizes().to_vec();
            sizes.swap(0, 1);
            ops::copy_(&part, &ops::transpose_int(&ops::view(&result, &sizes)?, 0, 1)?, false)?;
        }
        Ok(())
    }

    /// The image that a map has by the transposed weight.
    fn to_image(&self, map: &Tensor, weight: &Tensor, image: &Tensor) -> Result<()> {
        let weight = self.weights(weight)?;
        for (start, samples) in self.parts(map.sizes()[0]) {
            let map = self.matrices(&ops::narrow(map, 0, start, samples)?)?;
            let columns = self.empty_columns(samples, &map)?;
            let sizes = [self.rows(), samples * self.positions(), self.filters / self.groups];
            self.product(sizes, Batch::of(&weight).transposed(), Batch::of(&map), &columns, false)?;
            let part = ops::narrow(image, 0, start, samples)?;
            let result = empty(part.sizes(), part.dtype(), part.device())?;
            self.launch(samples, &columns, &result, "#define TO_IMAGE\n")?;
            ops::copy_(&part, &result, false)?;
        }
        Ok(())
    }

    /// The gradient of the weight.
    fn to_weight(&self, map: &Tensor, image: &Tensor, weight: &Tensor) -> Result<()> {
        let image = dense(image)?;
        let filters = self.filters / self.groups;
        let result = ops::view(weight, &[self.groups, filters, self.rows()])?;
        let mut adds = false;
        for (start, samples) in self.parts(image.sizes()[0]) {
            let columns = self.columns(samples, &ops::narrow(&image, 0, start, samples)?)?;
            let map = self.matrices(&ops::narrow(map, 0, start, samples)?)?;
            let sizes = [filters, self.rows(), samples * self.positions()];
            self.product(sizes, Batch::of(&map), Batch::of(&columns).transposed(), &result, adds)?;
            adds = true;
        }
        if adds { Ok(()) } else { ops::zero_(weight) }
    }
}

/// A tensor in the type in which sums are computed.
fn wide(tensor: &Tensor) -> Result<Tensor> {
    dense_as(tensor, computing_type(tensor.dtype()))
}

/// `tensor`, or one without values to which it is converted afterwards.
fn target(tensor: &Tensor) -> Result<Tensor> {
    match computing_type(tensor.dtype()) {
        own if own == tensor.dtype() => Ok(tensor.clone()),
        other => empty(tensor.sizes(), other, tensor.device()),
    }
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn forward(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    _: &[i64],
    groups: i64,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, w, result) = (wide(input)?, wide(weight)?, target(out)?);
    let parameters = [stride, padding, dilation];
    if transposed {
        Conv::new(out.sizes(), x.sizes(), w.sizes(), parameters, groups).to_image(&x, &w, &result)?;
    } else {
        Conv::new(x.sizes(), out.sizes(), w.sizes(), parameters, groups).to_map(&x, &w, &result)?;
    }
    if let Some(bias) = bias {
        let mut sizes = vec![1; out.dim() - 1];
        sizes[0] = -1;
        let per_channel = ops::view(&wide(bias)?, &sizes)?;
        ops::add__tensor(&result, &per_channel, Scalar::Int(1))?;
    }
    if result.dtype() == out.dtype() { Ok(()) } else { ops::copy_(out, &result, false) }
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    // The host's kernel checks the arguments, and gives the sizes of the gradients.
    let shapes = convolution::convolution_backward(
        &meta(grad_output)?,
        &meta(input)?,
        &meta(weight)?,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )?;
    let (grad, x, w) = (wide(grad_output)?, wide(input)?, wide(weight)?);
    let parameters = [stride, padding, dilation];
    let conv = match transposed {
        false => Conv::new(x.sizes(), grad.sizes(), w.sizes(), parameters, groups),
        true => Conv::new(grad.sizes(), x.sizes(), w.sizes(), parameters, groups),
    };
    let (image, map) = if transposed { (&grad, &x) } else { (&x, &grad) };
    let fresh = |shape: &Tensor| empty(shape.sizes(), grad.dtype(), grad.device());
    let (of_input, of_weight) = (fresh(&shapes.0)?, fresh(&shapes.1)?);
    if output_mask[0] && of_input.numel() > 0 {
        ops::zero_(&of_input)?;
        match transposed {
            false => conv.to_image(map, &w, &of_input)?,
            true => conv.to_map(image, &w, &of_input)?,
        }
    }
    if output_mask[1] && of_weight.numel() > 0 {
        conv.to_weight(map, image, &of_weight)?;
    }
    let of_bias = match output_mask[2] {
        true => {
            let dims: Vec<i64> = (0..grad.dim() as i64).filter(|d| *d != 1).collect();
            ops::sum_dim_intlist(&grad, Some(&dims), false, None)?
        }
        false => fresh(&shapes.2)?,
    };
    let narrowed = |t: Tensor| dense_as(&t, input.dtype());
    Ok((narrowed(of_input)?, narrowed(of_weight)?, narrowed(of_bias)?))
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> [(String, String); 2] {
    ["", "#define TO_IMAGE\n"].map(|flag| {
        let definitions = format!("typedef {dtype} T;\n#define POSITION uint32\n{flag}");
        (format!("im2col {dtype} {flag}"), program(&definitions, &[SOURCE]))
    })
}
