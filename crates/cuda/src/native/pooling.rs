//! Pooling over two and three dimensions, with windows of a size or as many as the result has, and its gradients.

use super::convolution::spatial;
use super::{dense, empty, name_of, program, structured};
use crate::launch::{Arguments, Grid, address, guarded};
use flambeau_core::{DispatchKeySet, Result};
use flambeau_ops::native::nn::pooling;
use flambeau_ops::{Tensor, ops, register};

const SOURCE: &str = include_str!("../kernels/pool.cu");

/// The windows of a pooling over the last `rank` dimensions.
struct Windows {
    name: &'static str,
    rank: usize,
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
    is_adaptive: bool,
    counts_padding: bool,
    divisor: i64,
}

impl Windows {
    /// As many windows as the result has elements.
    fn adaptive(name: &'static str, rank: usize) -> Self {
        let ones = [1; 3];
        Windows {
            name,
            rank,
            kernel: ones,
            stride: ones,
            padding: [0; 3],
            dilation: ones,
            is_adaptive: true,
            counts_padding: false,
            divisor: 0,
        }
    }

    fn new(name: &'static str, rank: usize, [kernel, stride, padding, dilation]: [&[i64]; 4]) -> Self {
        let stride = if stride.is_empty() { kernel } else { stride };
        Windows {
            kernel: spatial(kernel, rank, 1),
            stride: spatial(stride, rank, 1),
            padding: spatial(padding, rank, 0),
            dilation: spatial(dilation, rank, 1),
            is_adaptive: false,
            ..Windows::adaptive(name, rank)
        }
    }

    /// For a mean; a divisor of the caller replaces the number of elements.
    fn counting(self, counts_padding: bool, divisor: Option<i64>) -> Self {
        Windows { counts_padding, divisor: divisor.unwrap_or(0), ..self }
    }

    fn structure(&self, input: &[i64], output: &[i64]) -> Vec<u64> {
        let last = |sizes: &[i64]| spatial(&sizes[sizes.len() - self.rank..], self.rank, 1);
        let lists = [last(input), last(output), self.kernel, self.stride, self.padding, self.dilation];
        let numbers = [i64::from(self.is_adaptive), i64::from(self.counts_padding), self.divisor];
        lists.iter().flatten().chain(&numbers).map(|value| *value as u64).collect()
    }

    /// The result of each window into `values`, and the indices of maxima.
    fn forward(&self, input: &Tensor, values: &Tensor, indices: Option<&Tensor>) -> Result<()> {
        if values.numel() == 0 {
            return Ok(());
        }
        let from = dense(input)?;
        let fresh = |t: &Tensor| if t.is_contiguous() { Ok(t.clone()) } else { empty_like(t) };
        let (results, found) = (fresh(values)?, indices.map(fresh).transpose()?);
        let windows = self.structure(input.sizes(), values.sizes());
        let mut writes = vec![&results];
        writes.extend(&found);
        let definitions = definitions(name_of(self.name, input.dtype())?, false, indices.is_some());
        guarded(self.name, &[&from], &writes, |gpu| {
            let function =
                gpu.function(&format!("pool {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(results.numel()).tensor(&from).tensor(&results);
            let arguments = arguments.word(found.as_ref().map_or(0, address)).structure(&windows);
            gpu.launch(function, Grid::of(results.numel(), 256), &arguments)
        })?;
        store(values, &results)?;
        match (indices, &found) {
            (Some(indices), Some(found)) => store(indices, found),
            _ => Ok(()),
        }
    }

    /// The gradient of the input, by the indices of maxima or else of means.
    fn backward(&self, grad: &Tensor, indices: Option<&Tensor>, result: &Tensor) -> Result<()> {
        if result.numel() == 0 {
            return Ok(());
        }
        if grad.numel() == 0 {
            return ops::zero_(result);
        }
        let (from, found) = (dense(grad)?, indices.map(dense).transpose()?);
        let target = if result.is_contiguous() { result.clone() } else { empty_like(result)? };
        let windows = self.structure(result.sizes(), grad.sizes());
        let mut reads = vec![&from];
        reads.extend(&found);
        let definitions = definitions(name_of(self.name, grad.dtype())?, true, indices.is_some());
        guarded(self.name, &reads, &[&target], |gpu| {
            let function =
                gpu.function(&format!("pool {definitions}"), || program(&definitions, &[SOURCE]))?;
            let arguments = Arguments::new().int(target.numel()).tensor(&from);
            let arguments = arguments.word(found.as_ref().map_or(0, address)).tensor(&target);
            gpu.launch(function, Grid::of(target.numel(), 256), &arguments.structure(&windows))
        })?;
        store(result, &target)
    }
}

fn empty_like(tensor: &Tensor) -> Result<Tensor> {
    empty(tensor.sizes(), tensor.dtype(), tensor.device())
}

/// Copies a result to where it is requested, if it is not there.
fn store(to: &Tensor, from: &Tensor) -> Result<()> {
    if to.is_contiguous() { Ok(()) } else { ops::copy_(to, from, false) }
}

fn definitions(dtype: &str, is_backward: bool, is_maximum: bool) -> String {
    let flag = |is_set, text| if is_set { text } else { "" };
    let (backward, maximum) =
        (flag(is_backward, "#define BACKWARD\n"), flag(is_maximum, "#define MAXIMUM\n"));
    format!("typedef {dtype} T;\n{backward}{maximum}")
}

/// Registers the pooling operators of a number of dimensions.
macro_rules! pools {
    ($($rank:literal: $mean:ident $mean_out:ident $mean_meta:ident $mean_name:literal,
        $mean_backward:ident $mean_backward_out:ident $mean_backward_meta:ident $mean_backward_name:literal,
        $max:ident $max_meta:ident $max_name:literal,
        $max_backward:ident $max_backward_out:ident $max_backward_meta:ident $max_backward_name:literal,
        $near:ident $near_out:ident $near_meta:ident $near_name:literal,
        $near_backward:ident $near_backward_out:ident $near_backward_meta:ident $near_backward_name:literal,
        $far:ident $far_meta:ident $far_name:literal,
        $far_backward:ident $far_backward_out:ident $far_backward_meta:ident $far_backward_name:literal;)*) => {$(
    const _: () = {
        structured! {
            $mean $mean_out $mean_name pooling::$mean_meta, mean:
                (self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool,
                    count_include_pad: bool, divisor_override: Option<i64>) reads [self_];
            $mean_backward $mean_backward_out $mean_backward_name pooling::$mean_backward_meta, mean_backward:
                (grad_output: &Tensor, self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool,
                    count_include_pad: bool, divisor_override: Option<i64>) reads [grad_output, self_];
            $max_backward $max_backward_out $max_backward_name pooling::$max_backward_meta, max_backward:
                (grad_output: &Tensor, self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64],
                    dilation: &[i64], ceil_mode: bool, indices: &Tensor) reads [grad_output, self_, indices];
            $near $near_out $near_name pooling::$near_meta, adaptive_mean:
                (self_: &Tensor, output_size: &[i64]) reads [self_];
            $near_backward $near_backward_out $near_backward_name pooling::$near_backward_meta, adaptive_mean_backward:
                (grad_output: &Tensor, self_: &Tensor) reads [grad_output, self_];
            $far_backward $far_backward_out $far_backward_name pooling::$far_backward_meta, adaptive_max_backward:
                (grad_output: &Tensor, self_: &Tensor, indices: &Tensor) reads [grad_output, self_, indices];
        }

        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        fn mean(
            self_: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], _: bool, counts_padding: bool,
            divisor: Option<i64>, out: &Tensor,
        ) -> Result<()> {
            let windows = Windows::new($mean_name, $rank, [kernel, stride, padding, &[1]]);
            windows.counting(counts_padding, divisor).forward(self_, out, None)
        }

        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        fn mean_backward(
            grad: &Tensor, _: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], _: bool, counts_padding: bool,
            divisor: Option<i64>, out: &Tensor,
        ) -> Result<()> {
            let windows = Windows::new($mean_backward_name, $rank, [kernel, stride, padding, &[1]]);
            windows.counting(counts_padding, divisor).backward(grad, None, out)
        }

        fn max(
            _: DispatchKeySet, self_: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64],
            ceil_mode: bool,
        ) -> Result<(Tensor, Tensor)> {
            let (values, indices) = pooling::$max_meta(self_, kernel, stride, padding, dilation, ceil_mode)?;
            let (values, indices) = (values.allocate($max_name)?, indices.allocate($max_name)?);
            let windows = Windows::new($max_name, $rank, [kernel, stride, padding, dilation]);
            windows.forward(self_, &values, Some(&indices))?;
            Ok((values, indices))
        }
        register!(ops::$max, Cuda, max);

        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        fn max_backward(
            grad: &Tensor, _: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], _: bool,
            indices: &Tensor, out: &Tensor,
        ) -> Result<()> {
            let windows = Windows::new($max_backward_name, $rank, [kernel, stride, padding, dilation]);
            windows.backward(grad, Some(indices), out)
        }

        fn adaptive_mean(self_: &Tensor, _: &[i64], out: &Tensor) -> Result<()> {
            Windows::adaptive($near_name, $rank).forward(self_, out, None)
        }

        fn adaptive_mean_backward(grad: &Tensor, _: &Tensor, out: &Tensor) -> Result<()> {
            Windows::adaptive($near_backward_name, $rank).backward(grad, None, out)
        }

        fn adaptive_max(_: DispatchKeySet, self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
            let (values, indices) = pooling::$far_meta(self_, output_size)?;
            let (values, indices) = (values.allocate($far_name)?, indices.allocate($far_name)?);
            Windows::adaptive($far_name, $rank).forward(self_, &values, Some(&indices))?;
            Ok((values, indices))
        }
        register!(ops::$far, Cuda, adaptive_max);

        fn adaptive_max_backward(grad: &Tensor, _: &Tensor, indices: &Tensor, out: &Tensor) -> Result<()> {
            Windows::adaptive($far_backward_name, $rank).backward(grad, Some(indices), out)
        }
    };
    )*};
}

pools! {
    2: AVG_POOL2D AVG_POOL2D_OUT avg_pool2d_meta "avg_pool2d",
        AVG_POOL2D_BACKWARD AVG_POOL2D_BACKWARD_GRAD_INPUT avg_pool2d_backward_meta "avg_pool2d_backward",
        MAX_POOL2D_WITH_INDICES max_pool2d_with_indices_meta "max_pool2d_with_indices",
        MAX_POOL2D_WITH_INDICES_BACKWARD MAX_POOL2D_WITH_INDICES_BACKWARD_GRAD_INPUT
            max_pool2d_with_indices_backward_meta "max_pool2d_with_indices_backward",
        _ADAPTIVE_AVG_POOL2D _ADAPTIVE_AVG_POOL2D_OUT _adaptive_avg_pool2d_meta "adaptive_avg_pool2d",
        _ADAPTIVE_AVG_POOL2D_BACKWARD _ADAPTIVE_AVG_POOL2D_BACKWARD_OUT _adaptive_avg_pool2d_backward_meta
            "adaptive_avg_pool2d_backward",
        ADAPTIVE_MAX_POOL2D adaptive_max_pool2d_meta "adaptive_max_pool2d",
        ADAPTIVE_MAX_POOL2D_BACKWARD ADAPTIVE_MAX_POOL2D_BACKWARD_GRAD_INPUT adaptive_max_pool2d_backward_meta
            "adaptive_max_pool2d_backward";
    3: AVG_POOL3D AVG_POOL3D_OUT avg_pool3d_meta "avg_pool3d",
        AVG_POOL3D_BACKWARD AVG_POOL3D_BACKWARD_GRAD_INPUT avg_pool3d_backward_meta "avg_pool3d_backward",
        MAX_POOL3D_WITH_INDICES max_pool3d_with_indices_meta "max_pool3d_with_indices",
        MAX_POOL3D_WITH_INDICES_BACKWARD MAX_POOL3D_WITH_INDICES_BACKWARD_GRAD_INPUT
            max_pool3d_with_indices_backward_meta "max_pool3d_with_indices_backward",
        _ADAPTIVE_AVG_POOL3D _ADAPTIVE_AVG_POOL3D_OUT _adaptive_avg_pool3d_meta "adaptive_avg_pool3d",
        _ADAPTIVE_AVG_POOL3D_BACKWARD _ADAPTIVE_AVG_POOL3D_BACKWARD_OUT _adaptive_avg_pool3d_backward_meta
            "adaptive_avg_pool3d_backward",
        ADAPTIVE_MAX_POOL3D adaptive_max_pool3d_meta "adaptive_max_pool3d",
        ADAPTIVE_MAX_POOL3D_BACKWARD ADAPTIVE_MAX_POOL3D_BACKWARD_GRAD_INPUT adaptive_max_pool3d_backward_meta
            "adaptive_max_pool3d_backward";
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> [(String, String); 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(is_backward, is_maximum)| {
        let definitions = definitions(dtype, is_backward, is_maximum);
        (format!("pool {definitions}"), program(&definitions, &[SOURCE]))
    })
}
