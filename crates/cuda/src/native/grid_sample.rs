//! `_grid_sample`, sums of pixels around the coordinates of a grid, and its transpose.

use super::sort::sorted_rows;
use super::{computing_type, dense, dense_as, empty, made, meta, name_of, program};
use crate::launch::{Arguments, Grid, guarded};
use flambeau_core::{DispatchKeySet, Result, ScalarType};
use flambeau_ops::native::nn::grid_sample;
use flambeau_ops::{Tensor, ops, register};

register!(ops::_GRID_SAMPLE, Cuda, sample);
register!(ops::_GRID_SAMPLE_TRANSPOSED, Cuda, sample_transposed);

const NAME: &str = "grid_sampler()";
const SOURCE: &str = include_str!("../kernels/grid_sample.cu");

/// The pixels of the samples of a grid, and their weights.
struct Table {
    pixels: Tensor,
    weights: Tensor,
    /// Samples of an image, pixels of one, and pixels of a sample.
    points: i64,
    size: i64,
    each: i64,
}

fn definitions(dtype: &str, flag: &str) -> String {
    format!("typedef {dtype} T;\n{flag}")
}

impl Table {
    fn new(
        grid: &Tensor,
        spatial: &[i64],
        orders: &[i64],
        [mode, padding, aligns_corners]: [i64; 3],
    ) -> Result<Self> {
        let grid = dense(grid)?;
        // The schema has linear interpolation first, the program the nearest pixel.
        let interpolation = match mode {
            0 => 1,
            1 => 0,
            other => other,
        };
        let along: i64 = if interpolation == 0 { 1 } else { 2 * interpolation };
        let each = along.pow(orders.len() as u32);
        let points: i64 = grid.sizes()[1..=spatial.len()].iter().product();
        let count = grid.sizes()[0] * points;
        let fresh = |dtype| empty(&[count * each], dtype, grid.device());
        let (pixels, weights) = (fresh(ScalarType::I64)?, fresh(computing_type(grid.dtype()))?);
        let padded = |values: &[i64], missing: i64| -> Vec<i64> {
            values.iter().copied().chain(std::iter::repeat(missing)).take(3).collect()
        };
        let orders_of: Vec<i64> = orders.iter().map(|order| (*order).clamp(0, 9)).collect();
        let numbers = [spatial.len() as i64, interpolation, padding, aligns_corners];
        let table = [padded(spatial, 1), padded(&orders_of, 0), numbers.to_vec()].concat();
        let table: Vec<u64> = table.into_iter().map(|value| value as u64).collect();
        let definitions = definitions(name_of(NAME, grid.dtype())?, "#define TABLE\n");
        guarded(NAME, &[&grid], &[&pixels, &weights], |gpu| {
            let function =
                gpu.function(&format!("grid {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(count).int(points).int(each).tensor(&grid);
            let arguments = arguments.tensor(&pixels).tensor(&weights).structure(&table);
            gpu.launch(function, Grid::of(count, 256), &arguments)
        })?;
        Ok(Table { pixels, weights, points, size: spatial.iter().product(), each })
    }

    /// The sums of pixels.
    fn gather(&self, input: &Tensor, output: &Tensor) -> Result<()> {
        let input = dense(input)?;
        let definitions = definitions(name_of(NAME, output.dtype())?, "");
        guarded(NAME, &[&input, &self.pixels, &self.weights], &[output], |gpu| {
            let function =
                gpu.function(&format!("grid {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(output.numel()).int(output.sizes()[1]).int(self.points);
            let arguments = arguments.int(self.size).int(self.each).tensor(&self.pixels);
            let arguments = arguments.tensor(&self.weights).tensor(&input).tensor(output);
            gpu.launch(function, Grid::of(output.numel(), 256), &arguments)
        })
    }

    /// The sums of samples.
    fn scatter(&self, grad: &Tensor, output: &Tensor) -> Result<()> {
        let grad = dense(grad)?;
        let (sorted, order) = sorted_rows(NAME, &self.pixels, false)?;
        let (count, channels) = (sorted.numel(), output.sizes()[1]);
        let definitions = definitions(name_of(NAME, output.dtype())?, "#define TRANSPOSED\n");
        guarded(NAME, &[&grad, &sorted, &order, &self.weights], &[output], |gpu| {
            let function =
                gpu.function(&format!("grid {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(count).int(channels).int(self.points).int(self.size);
            let arguments = arguments.int(self.each).tensor(&sorted).tensor(&order).tensor(&self.weights);
            gpu.launch(function, Grid::of(count * channels, 256), &arguments.tensor(&grad).tensor(output))
        })
    }
}

fn sample(
    _: DispatchKeySet,
    input: &Tensor,
    grid: &Tensor,
    orders: &[i64],
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let (without_values, of_grid) = (meta(input)?, meta(grid)?);
    let shape = grid_sample::_grid_sample(
        &without_values,
        &of_grid,
        orders,
        interpolation_mode,
        padding_mode,
        align_corners,
    )?;
    let output = made(&shape, input.device())?;
    if output.numel() > 0 {
        let how = [interpolation_mode, padding_mode, i64::from(align_corners)];
        Table::new(grid, &input.sizes()[2..], orders, how)?.gather(input, &output)?;
    }
    Ok(output)
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn sample_transposed(
    _: DispatchKeySet,
    grad_output: &Tensor,
    grid: &Tensor,
    input_size: &[i64],
    orders: &[i64],
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let (without_values, of_grid) = (meta(grad_output)?, meta(grid)?);
    let shape = grid_sample::_grid_sample_transposed(
        &without_values,
        &of_grid,
        input_size,
        orders,
        interpolation_mode,
        padding_mode,
        align_corners,
    )?;
    let output = made(&shape, grad_output.device())?;
    ops::zero_(&output)?;
    if output.numel() > 0 && grad_output.numel() > 0 {
        let how = [interpolation_mode, padding_mode, i64::from(align_corners)];
        let grad = dense_as(grad_output, output.dtype())?;
        Table::new(grid, &input_size[2..], orders, how)?.scatter(&grad, &output)?;
    }
    Ok(output)
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> [(String, String); 3] {
    ["", "#define TABLE\n", "#define TRANSPOSED\n"].map(|flag| {
        let definitions = definitions(dtype, flag);
        (format!("grid {definitions}"), program(&definitions, &[SOURCE]))
    })
}
