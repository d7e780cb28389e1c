//! Images sampled at the coordinates of a grid.
//!
//! A sample is a weighted sum of the pixels around its coordinates, and each weight is a product of one weight for each
//! dimension. So sampling and its derivative with respect to the grid are the same sum, with the weights of each dimension
//! differentiated as often as `orders` says, and the derivative with respect to the image is the transposed sum. The operators
//! for these two sums are each other's derivatives, to any order.

mod affine_grid;
mod blocks;
mod images;
mod interpolation;
mod lanes;

pub use affine_grid::affine_grid_generator;

use crate::loops::converter;
use crate::loops::reduce::computing_type;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, ops, scratch};
use blocks::table;
use bytemuck::Pod;
use flambeau_core::{DimVec, Element, MemoryFormat, Result, ScalarType, bail, ensure, shape};
use images::Points;
use interpolation::{NO_PIXEL, Pass, Real, Sampling, WeightedPixel};
use lanes::Channels;
use smallvec::SmallVec;

const NAME: &str = "grid_sampler()";

fn check_grid(input: &Tensor, grid: &Tensor, sizes: &[i64], dims: usize) -> Result<()> {
    ensure!(
        input.device() == grid.device(),
        Device(NAME, "grid"),
        "expected input and grid to be on same device, but input is on {} and grid is on {}",
        input.device(),
        grid.device()
    );
    ensure!(
        input.dtype() == grid.dtype() && input.is_floating_point(),
        Dtype(NAME, "grid"),
        "expected input and grid to have same floating point dtype, but input has {} and grid has {}",
        input.dtype(),
        grid.dtype()
    );
    ensure!(
        (2..=blocks::DIMS).contains(&dims),
        InvalidArgument(NAME, "orders"),
        "expected an order for each of two or three spatial dimensions, but got {dims}"
    );
    ensure!(
        sizes.len() == dims + 2 && grid.dim() == dims + 2,
        Shape(NAME, "grid"),
        "expected {}D input and grid with same number of dimensions, but got input with sizes {sizes:?} and grid with \
         sizes {:?}",
        dims + 2,
        grid.sizes()
    );
    ensure!(
        sizes[0] == grid.sizes()[0],
        Shape(NAME, "grid"),
        "expected grid and input to have same batch size, but got input with sizes {sizes:?} and grid with sizes {:?}",
        grid.sizes()
    );
    ensure!(
        grid.sizes()[dims + 1] == dims as i64,
        Shape(NAME, "grid"),
        "expected grid to have size {dims} in last dimension, but got grid with sizes {:?}",
        grid.sizes()
    );
    let pixels = sizes[2..].iter().try_fold(1i64, |product, size| product.checked_mul(*size));
    ensure!(
        pixels.is_some_and(|pixels| pixels < i64::from(NO_PIXEL)),
        NotImplemented(NAME, "input"),
        "images of more than 2^32 - 2 pixels are not implemented, but input has sizes {sizes:?}"
    );
    ensure!(
        sizes[2..].iter().all(|size| *size > 0),
        Shape(NAME, "input"),
        "expected input to have non-empty spatial dimensions, but input has sizes {sizes:?}"
    );
    Ok(())
}

/// Contiguous, and of the type in which samples are computed.
fn converted(tensor: &Tensor) -> Result<Tensor> {
    let computed = computing_type(tensor.dtype());
    if tensor.dtype() == computed && tensor.is_contiguous() {
        return alias(tensor);
    }
    let dtype = Some(computed);
    crate::native::factory::copy::to_copy(
        tensor,
        dtype,
        None,
        None,
        None,
        false,
        Some(MemoryFormat::Contiguous),
    )
}

/// An alias of a tensor of the type in which samples are computed, whatever its strides, or else [`converted`].
fn readable(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() == computing_type(tensor.dtype()) { alias(tensor) } else { converted(tensor) }
}

/// Images that are read where they are, if their pixels have offsets in 32 bits, or else [`converted`].
fn readable_images(images: &Tensor) -> Result<Tensor> {
    if images::spans_few(images) { readable(images) } else { converted(images) }
}

/// Large images, or those whose channels are in lanes: the table of the weights of an image first, then its channels.
struct Images<'a> {
    how: &'a Sampling,
    sizes: &'a [usize],
    pass: Pass,
    batch: usize,
    channels: usize,
}

impl<'a> Images<'a> {
    fn new(how: &'a Sampling, [grid, to]: [&Tensor; 2], sizes: &'a [usize], transposed: bool) -> Self {
        let points = shape::product(&grid.sizes()[1..=sizes.len()]) as usize;
        let pass = Pass { pixels: sizes.iter().product(), points, each: how.pixels_per_sample(), transposed };
        Images { how, sizes, pass, batch: grid.sizes()[0] as usize, channels: to.sizes()[1] as usize }
    }

    /// Calls `body` with the number of each image from `first` on, its weights and its part of `to`.
    fn each<B, N: Element + Real>(
        &self,
        grid: &[N],
        first: usize,
        to: &mut [B],
        image: usize,
        body: impl Fn(usize, &mut [WeightedPixel<N>], &mut [B]),
    ) {
        let mut weights = scratch::filled((NO_PIXEL, N::narrow(0.0)), self.pass.points * self.pass.each);
        let coordinates = grid.len() / self.batch;
        for (to, n) in to.chunks_exact_mut(image).zip(first..) {
            table(self.how, &grid[n * coordinates..][..coordinates], self.sizes, &mut weights);
            body(n, &mut weights, to);
        }
    }

    /// One image after another, of contiguous elements.
    fn sequential<N: Element + Real>(&self, [grid, from, to]: [&Tensor; 3]) -> Result<()> {
        with_slices(NAME, &[grid, from], &[to], |s| {
            let (grid, from, to) = (s.read::<N>(0)?, s.read::<N>(1)?, s.write::<N>(0)?);
            let (image, own) = (to.len() / self.batch, from.len() / self.batch);
            scratch::catch(|| {
                self.each(grid, 0, to, image, |n, weights, to| {
                    self.pass.run(weights, &from[n * own..][..own], to);
                });
                Ok(())
            })
        })
    }

    /// Images of each thread's own, whose channels are in lanes, from elements of any strides and of the size of `B`.
    fn in_lanes<B: Pod + Send + Sync, N: Element + Real>(
        &self,
        [grid, from, to]: [&Tensor; 3],
    ) -> Result<()> {
        let (dtype, computed) = (from.dtype(), grid.dtype());
        let convert = match dtype == computed {
            true => None,
            false => Some([converter(dtype, computed)?, converter(computed, dtype)?]),
        };
        let points = Points::new(from, 1, 2, self.sizes.len())?;
        let grain = GRAIN / (self.pass.points * self.pass.each * self.channels);
        with_slices(NAME, &[grid, from], &[to], |s| {
            let (grid, from, to) = (s.read::<N>(0)?, s.read::<B>(1)?, s.write::<B>(0)?);
            let image = to.len() / self.batch;
            scratch::catch(|| {
                fill_chunks(to, image, grain, |range, part| {
                    self.each(grid, range.start / image, part, image, |n, weights, to| {
                        let (elements, offsets) = (&from[n * points.image..], &points.offsets[..]);
                        lanes::run(
                            &self.pass,
                            weights,
                            &Channels { elements, step: points.channel, offsets, convert },
                            to,
                        );
                    });
                });
                Ok(())
            })
        })
    }
}

fn not_implemented<T>(dtype: ScalarType) -> Result<T> {
    bail!(
        NotImplemented,
        operator = "grid_sampler",
        argument = "input",
        "\"grid_sampler\" not implemented for '{dtype}'"
    )
}

/// Computes `output` from `from`, in f32 or f64.
fn run(how: &Sampling, [grid, from, output]: [&Tensor; 3], spatial: &[i64], transposed: bool) -> Result<()> {
    let count = |sizes: &[i64]| shape::product(sizes) as usize;
    let (pixels, points) = (count(spatial), count(&grid.sizes()[1..=spatial.len()]));
    let channels = output.sizes()[1] as usize;
    let sizes: SmallVec<[usize; 3]> = spatial.iter().map(|size| *size as usize).collect();
    let computes = from.numel() > 0 && grid.numel() > 0;
    if computes && lanes::suit(pixels, points, channels) {
        let tensors = [&converted(grid)?, &alias(from)?, output];
        let images = Images::new(how, [grid, output], &sizes, transposed);
        let sampled = match from.dtype() {
            ScalarType::F64 => images.in_lanes::<f64, f64>(tensors),
            ScalarType::F32 => images.in_lanes::<f32, f32>(tensors),
            ScalarType::F16 | ScalarType::BF16 => images.in_lanes::<u16, f32>(tensors),
            other => not_implemented(other),
        };
        return sampled.map_err(|e| e.in_operator(NAME));
    }
    let whole_images = images::suit(how, pixels, points, channels);
    let (grid, from) = if whole_images {
        (readable(grid)?, readable_images(from)?)
    } else {
        (converted(grid)?, converted(from)?)
    };
    let direct = from.dtype() == output.dtype();
    let wide =
        if direct { output.clone() } else { TensorSpec::like(&from, output.sizes()).allocate(NAME)? };
    if transposed || !computes {
        crate::native::factory::copy::zero_(&wide)?;
    }
    let tensors = [&grid, &from, &wide];
    if computes {
        let images = Images::new(how, [&grid, &wide], &sizes, transposed);
        let sampled = match from.dtype() {
            ScalarType::F64 if whole_images => images::run::<f64>(how, tensors, transposed),
            ScalarType::F32 if whole_images => images::run::<f32>(how, tensors, transposed),
            ScalarType::F64 => images.sequential::<f64>(tensors),
            ScalarType::F32 => images.sequential::<f32>(tensors),
            other => not_implemented(other),
        };
        sampled.map_err(|e| e.in_operator(NAME))?;
    }
    if direct { Ok(()) } else { ops::copy_(output, &wide, false) }
}

/// The samples of `input` at the coordinates of `grid`, differentiated `orders[d]` times along dimension `d`.
pub fn _grid_sample(
    input: &Tensor,
    grid: &Tensor,
    orders: &[i64],
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let (dims, how) = (orders.len(), Sampling::new(interpolation_mode, padding_mode, align_corners, orders)?);
    check_grid(input, grid, input.sizes(), dims)?;
    let sizes: DimVec = input.sizes()[..2].iter().chain(&grid.sizes()[1..=dims]).copied().collect();
    let output = TensorSpec::like(input, &sizes).allocate(NAME)?;
    if !output.device().is_meta() && output.numel() > 0 {
        run(&how, [grid, input, &output], &input.sizes()[2..], false)?;
    }
    Ok(output)
}

/// The transpose of [`_grid_sample`]: the gradient of its input, given that of its result.
pub fn _grid_sample_transposed(
    grad_output: &Tensor,
    grid: &Tensor,
    input_size: &[i64],
    orders: &[i64],
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let (dims, how) = (orders.len(), Sampling::new(interpolation_mode, padding_mode, align_corners, orders)?);
    check_grid(grad_output, grid, input_size, dims)?;
    let sizes: DimVec = input_size[..2].iter().chain(&grid.sizes()[1..=dims]).copied().collect();
    ensure!(
        grad_output.sizes() == sizes.as_slice(),
        Shape(NAME, "grad_output"),
        "expected `grad_output` of sizes {sizes:?} but got {:?}",
        grad_output.sizes()
    );
    let output = TensorSpec::like(grad_output, input_size).allocate(NAME)?;
    if !output.device().is_meta() && output.numel() > 0 {
        run(&how, [grid, grad_output, &output], &input_size[2..], true)?;
    }
    Ok(output)
}

/// [`_grid_sample_grid_backward`] by one loop over the points; `None` if these tensors have no such loop.
fn grid_gradient(how: &Sampling, tensors: [&Tensor; 3]) -> Result<Option<Tensor>> {
    let (dims, dtype) = (how.orders.len(), tensors[1].dtype());
    // Aliases, whose sizes no other thread changes.
    let [grad, input, grid] = [alias(tensors[0])?, alias(tensors[1])?, alias(tensors[2])?];
    check_grid(&input, &grid, input.sizes(), dims)?;
    let sizes: DimVec = input.sizes()[..2].iter().chain(&grid.sizes()[1..=dims]).copied().collect();
    if grad.dtype() != dtype || grad.sizes() != sizes.as_slice() || grad.numel() == 0 {
        return Ok(None);
    }
    let operands = [&readable(&grad)?, &readable_images(&input)?, &readable(&grid)?];
    let made = TensorSpec::like(operands[2], grid.sizes()).allocate(NAME)?;
    let [grad, input, grid] = operands;
    match made.dtype() {
        ScalarType::F64 => images::grid_gradient::<f64>(how, [grad, input, grid, &made])?,
        ScalarType::F32 => images::grid_gradient::<f32>(how, [grad, input, grid, &made])?,
        _ => return Ok(None),
    }
    Ok(Some(as_dtype(&made, dtype)?))
}

/// The gradient of [`_grid_sample`] with respect to the grid: along each dimension, the samples differentiated once more.
pub fn _grid_sample_grid_backward(
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    orders: &[i64],
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    if dispatches_to_cpu(grad.key_set() | input.key_set() | grid.key_set()) {
        let how = Sampling::new(interpolation_mode, padding_mode, align_corners, orders)?;
        if images::has_loop(&how)
            && let Some(gradient) = grid_gradient(&how, [grad, input, grid])?
        {
            return Ok(gradient);
        }
    }
    let along = |d: usize| -> Result<Tensor> {
        let mut orders = DimVec::from_slice(orders);
        orders[d] = orders[d].saturating_add(1);
        let slopes =
            ops::_grid_sample(input, grid, &orders, interpolation_mode, padding_mode, align_corners)?;
        grad.mul(&slopes)?.sum_dim(1)
    };
    ops::stack(&(0..orders.len()).rev().map(along).collect::<Result<Vec<_>>>()?, -1)
}

/// The gradients of input and grid that `mask` selects; the others have no elements.
fn backward(
    [grad, input, grid]: [&Tensor; 3],
    orders: &[i64],
    (interpolation, padding, align): (i64, i64, bool),
    mask: [bool; 2],
) -> Result<(Tensor, Tensor)> {
    let none = || TensorSpec::like(input, &[0]).allocate(NAME);
    let for_input = if mask[0] {
        ops::_grid_sample_transposed(grad, grid, input.sizes(), orders, interpolation, padding, align)?
    } else {
        none()?
    };
    let for_grid = if mask[1] {
        ops::_grid_sample_grid_backward(grad, input, grid, orders, interpolation, padding, align)?
    } else {
        none()?
    };
    Ok((for_input, for_grid))
}

macro_rules! samplers {
    ($($dims:literal $forward:ident $backward:ident;)*) => {$(
        #[doc = concat!("Samples of images over ", $dims, " dimensions.")]
        pub fn $forward(
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
        ) -> Result<Tensor> {
            ops::_grid_sample(input, grid, &[0; $dims], interpolation_mode, padding_mode, align_corners)
        }

        #[doc = concat!("The gradients of [`", stringify!($forward), "`].")]
        pub fn $backward(
            grad_output: &Tensor,
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
            output_mask: [bool; 2],
        ) -> Result<(Tensor, Tensor)> {
            let how = (interpolation_mode, padding_mode, align_corners);
            backward([grad_output, input, grid], &[0; $dims], how, output_mask)
        }
    )*};
}

samplers! {
    2 grid_sampler_2d grid_sampler_2d_backward;
    3 grid_sampler_3d grid_sampler_3d_backward;
}

/// Samples of images over two or three dimensions.
pub fn grid_sampler(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let sampler = if input.dim() == 5 { ops::grid_sampler_3d } else { ops::grid_sampler_2d };
    sampler(input, grid, interpolation_mode, padding_mode, align_corners)
}
