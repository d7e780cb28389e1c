//! Fourier transforms: complex to complex along one dimension after the other, of which those from and to real numbers are made.
//!
//! A length is transformed by one pass for each of its factors. One with a large prime factor is transformed by a convolution of a power of
//! two instead (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970).

use super::{dense, empty, number_name_of, program, structured};
use crate::launch::{Arguments, Grid, guarded};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, shape};
use flambeau_ops::native::fft::transforms;
use flambeau_ops::{Tensor, ops};

structured! {
    _FFT_C2C _FFT_C2C_OUT "_fft_c2c" transforms::_fft_c2c_meta, c2c:
        (self_: &Tensor, dim: &[i64], normalization: i64, forward: bool) reads [self_];
    _FFT_R2C _FFT_R2C_OUT "_fft_r2c" transforms::_fft_r2c_meta, r2c:
        (self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool) reads [self_];
    _FFT_C2R _FFT_C2R_OUT "_fft_c2r" transforms::_fft_c2r_meta, c2r:
        (self_: &Tensor, dim: &[i64], normalization: i64, last_dim_size: i64) reads [self_];
}

const NAME: &str = "_fft_c2c";
const SOURCE: &str = include_str!("../kernels/fft.cu");
/// The largest prime factor that has a pass of its own, in which each result is a sum of so many elements.
const MAX_RADIX: i64 = 61;

fn c2c(self_: &Tensor, dim: &[i64], normalization: i64, forward: bool, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dims = from_the_front(self_, dim)?;
    let transformed = along_all(self_, &dims, forward)?;
    store(&transformed, normalization, count_of(self_.sizes(), &dims), out)
}

/// Where it is requested, only the elements up to the middle of the last dimension, which determine the others.
fn r2c(self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dims = from_the_front(self_, dim)?;
    let Some((last, others)) = dims.split_last() else { return Ok(()) };
    let complex = ops::_to_copy(self_, Some(out.dtype()), None, None, None, false, None)?;
    let mut transformed = along(&complex, *last, true)?;
    if onesided {
        transformed = ops::narrow(&transformed, *last, 0, self_.sizes()[*last as usize] / 2 + 1)?;
    }
    store(&along_all(&transformed, others, true)?, normalization, count_of(self_.sizes(), &dims), out)
}

fn c2r(self_: &Tensor, dim: &[i64], normalization: i64, last_dim_size: i64, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dims = from_the_front(self_, dim)?;
    let Some((last, others)) = dims.split_last() else { return Ok(()) };
    let half = along_all(self_, others, false)?;
    let known = half.sizes()[*last as usize];
    // The others are the conjugates of those from the second on, in descending order.
    let rest = ops::narrow(&half, *last, 1, last_dim_size - known)?;
    let mirrored = ops::_conj_physical(&ops::flip(&rest, &[*last])?)?;
    let transformed = along(&ops::cat(&[half, mirrored], *last)?, *last, false)?;
    store(&ops::real(&transformed)?, normalization, count_of(out.sizes(), &dims), out)
}

fn from_the_front(tensor: &Tensor, dim: &[i64]) -> Result<DimVec> {
    dim.iter().map(|dim| shape::wrap_dim(*dim, tensor.dim()).map(|dim| dim as i64)).collect()
}

/// How many elements each result sums.
fn count_of(sizes: &[i64], dims: &[i64]) -> i64 {
    dims.iter().map(|dim| sizes[*dim as usize]).product()
}

/// Writes results with the factor of their normalization.
fn store(transformed: &Tensor, normalization: i64, count: i64, out: &Tensor) -> Result<()> {
    let factor = transforms::factor(NAME, normalization, count)?;
    if factor == 1.0 {
        return ops::copy_(out, transformed, false);
    }
    ops::copy_(out, &ops::mul_scalar(transformed, Scalar::Float(factor))?, false)
}

fn along_all(self_: &Tensor, dims: &[i64], forward: bool) -> Result<Tensor> {
    dims.iter().rev().try_fold(self_.clone(), |transformed, dim| along(&transformed, *dim, forward))
}

/// The transform along one dimension.
fn along(self_: &Tensor, dim: i64, forward: bool) -> Result<Tensor> {
    let rows = dense(&ops::transpose_int(self_, dim, -1)?)?;
    let n = self_.sizes()[dim as usize];
    let (factors, rest) = factors(n);
    let transformed = match rest {
        _ if rows.numel() == 0 => rows,
        1 => passes(&rows, n, &factors, forward)?,
        _ => by_convolution(&rows, n, forward)?,
    };
    ops::transpose_int(&transformed, dim, -1)
}

/// The radices of passes, and what is left of `n` after them: 1, unless a prime factor is too large.
fn factors(n: i64) -> (Vec<i64>, i64) {
    let (mut rest, mut factors) = (n, Vec::new());
    for factor in std::iter::once(4).chain(2..=MAX_RADIX) {
        while rest > 1 && rest % factor == 0 {
            factors.push(factor);
            rest /= factor;
        }
    }
    (factors, rest)
}

/// Fills a new tensor by a kernel that is given its number of elements, and what `arguments` adds.
fn fill(flag: &str, sizes: &[i64], like: &Tensor, reads: &[&Tensor], numbers: &[i64]) -> Result<Tensor> {
    let out = empty(sizes, like.dtype(), like.device())?;
    let definitions = format!("typedef {} T;\n{flag}", number_name_of(NAME, like.dtype())?);
    guarded(NAME, reads, &[&out], |gpu| {
        let function = gpu.function(&format!("fft {definitions}"), || program(&definitions, &[SOURCE]))?;
        let mut arguments = Arguments::new().int(out.numel());
        for number in numbers {
            arguments = arguments.int(*number);
        }
        for tensor in reads.iter().copied().chain([&out]) {
            arguments = arguments.tensor(tensor);
        }
        gpu.launch(function, Grid::of(out.numel(), 256), &arguments)
    })?;
    Ok(out)
}

/// Transforms dense rows of `n` elements.
fn passes(rows: &Tensor, n: i64, factors: &[i64], forward: bool) -> Result<Tensor> {
    let (mut transformed, mut stride) = (rows.clone(), 1);
    if factors.is_empty() {
        return Ok(transformed);
    }
    let roots = fill("#define ROOTS\n", &[n], rows, &[], &[])?;
    for &radix in factors {
        let numbers = [n, radix, stride, i64::from(!forward)];
        transformed = fill("", rows.sizes(), rows, &[&transformed, &roots], &numbers)?;
        stride *= radix;
    }
    Ok(transformed)
}

/// Transforms dense rows of any length: as `j k = (j^2 + k^2 - (k - j)^2) / 2`, results are a convolution with a chirp, times that chirp.
fn by_convolution(rows: &Tensor, n: i64, forward: bool) -> Result<Tensor> {
    let chirp = fill("#define CHIRP\n", &[n], rows, &[], &[])?;
    let conjugate = ops::_conj_physical(&chirp)?;
    let (chirp, conjugate) = if forward { (chirp, conjugate) } else { (conjugate, chirp) };
    let length = ((2 * n - 1) as u64).next_power_of_two() as i64;
    let (factors, _) = factors(length);
    let mut sizes = rows.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = length;
    }
    let zeros = |sizes: &[i64]| ops::zeros(sizes, Some(rows.dtype()), None, Some(rows.device()), None);
    let (signal, filter) = (zeros(&sizes)?, zeros(&[length])?);
    ops::copy_(&ops::narrow(&signal, -1, 0, n)?, &ops::mul_tensor(rows, &chirp)?, false)?;
    ops::copy_(&ops::narrow(&filter, 0, 0, n)?, &conjugate, false)?;
    let mirrored = ops::flip(&ops::narrow(&conjugate, 0, 1, n - 1)?, &[0])?;
    ops::copy_(&ops::narrow(&filter, 0, length - n + 1, n - 1)?, &mirrored, false)?;
    let product = ops::mul_tensor(
        &passes(&signal, length, &factors, true)?,
        &passes(&filter, length, &factors, true)?,
    )?;
    let convolved = ops::narrow(&passes(&product, length, &factors, false)?, -1, 0, n)?;
    ops::mul_tensor(&ops::mul_scalar(&convolved, Scalar::Float(1.0 / length as f64))?, &chirp)
}

/// Every program of this module.
pub(super) fn programs() -> Vec<(String, String)> {
    let types = [ScalarType::Complex64, ScalarType::Complex128];
    let names = types.iter().filter_map(|dtype| number_name_of(NAME, *dtype).ok());
    let each = names.flat_map(|dtype| {
        ["", "#define ROOTS\n", "#define CHIRP\n"].map(|flag| {
            let definitions = format!("typedef {dtype} T;\n{flag}");
            (format!("fft {definitions}"), program(&definitions, &[SOURCE]))
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::factors;

    #[test]
    fn factors_multiply_to_the_length() {
        assert_eq!(factors(1), (vec![], 1));
        assert_eq!(factors(96), (vec![4, 4, 2, 3], 1));
        assert_eq!(factors(61), (vec![61], 1));
        assert_eq!(factors(2 * 67), (vec![2], 67));
        for n in 1..3000 {
            let (radices, rest) = factors(n);
            assert_eq!(radices.iter().product::<i64>() * rest, n);
        }
    }
}
