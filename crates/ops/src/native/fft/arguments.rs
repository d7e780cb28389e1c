//! The arguments that the functions of `torch.fft` share: normalization, types, dimensions, lengths.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, ScalarType, bail, default_dtype, ensure, shape};

/// No factor.
pub(super) const NONE: i64 = 0;
/// The root of the number of elements divides the result.
pub(super) const BY_ROOT_N: i64 = 1;
/// The number of elements divides the result.
pub(super) const BY_N: i64 = 2;

/// The number of a normalization: the modes are named by the direction that has a factor.
pub(super) fn normalization(name: &str, norm: Option<&str>, forward: bool) -> Result<i64> {
    match norm {
        None | Some("backward") => Ok(if forward { NONE } else { BY_N }),
        Some("forward") => Ok(if forward { BY_N } else { NONE }),
        Some("ortho") => Ok(BY_ROOT_N),
        Some(other) => bail!(InvalidArgument(name, "norm"), "Invalid normalization mode: \"{other}\""),
    }
}

/// Converts integers to the default floating point type, and reals to complex numbers if `complex`.
pub(super) fn promoted(name: &str, self_: &Tensor, complex: bool) -> Result<Tensor> {
    let own = self_.dtype();
    let real = if own.is_integral(true) { default_dtype() } else { own };
    ensure!(
        own.is_complex() || matches!(real, ScalarType::F32 | ScalarType::F64),
        NotImplemented(name, "self"),
        got = real,
        "Unsupported dtype {got}"
    );
    let dtype = if complex { real.to_complex() } else { real };
    if dtype == own { Ok(self_.clone()) } else { ops::to_dtype(self_, dtype, false, false, None) }
}

/// The number of a dimension from the front. A tensor without dimensions has none, not even 0.
pub(super) fn wrapped(name: &str, dim: i64, rank: usize) -> Result<usize> {
    ensure!(
        rank > 0,
        Index(name, "dim"),
        got = dim,
        "Dimension specified as {got} but tensor has no dimensions"
    );
    shape::wrap_dim(dim, rank).map_err(|e| e.in_operator(name))
}

/// Several dimensions, no two of which are the same.
pub(super) fn wrapped_dims(name: &str, dims: &[i64], rank: usize) -> Result<DimVec> {
    let mut wrapped_dims = DimVec::new();
    for dim in dims {
        let dim = wrapped(name, *dim, rank)? as i64;
        ensure!(!wrapped_dims.contains(&dim), InvalidArgument(name, "dim"), "FFT dims must be unique");
        wrapped_dims.push(dim);
    }
    Ok(wrapped_dims)
}

/// Checks that a transform has elements.
pub(super) fn ensure_length(name: &str, n: i64) -> Result<()> {
    ensure!(n >= 1, InvalidArgument(name, "n"), got = n, "Invalid number of data points ({got}) specified");
    Ok(())
}

/// Cuts dimensions to other sizes, or appends zeros.
pub(super) fn resized(name: &str, input: &Tensor, dims: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let mut resized = input.clone();
    let mut padding = DimVec::from_elem(0, 2 * input.dim());
    for (dim, n) in dims.iter().zip(sizes) {
        ensure_length(name, *n)?;
        let size = input.sizes()[*dim as usize];
        if *n < size {
            resized = ops::slice_tensor(&resized, *dim, Some(0), Some(*n), 1)?;
        }
        // Pairs of numbers before and behind, from the last dimension on.
        padding[2 * (input.dim() - 1 - *dim as usize) + 1] = (n - size).max(0);
    }
    if padding.iter().all(|count| *count == 0) {
        return Ok(resized);
    }
    ops::constant_pad_nd(&resized, &padding, 0.into()).map_err(|e| e.in_operator(name))
}

/// The dimensions of a transform and their sizes before it.
pub(super) struct Axes {
    pub(super) dims: DimVec,
    pub(super) sizes: DimVec,
}

impl Axes {
    /// Without `dim` the last ones, as many as sizes are given, or all; without `s` the sizes of the input, as for a size of -1.
    pub(super) fn new(name: &str, input: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<Self> {
        let rank = input.dim();
        let given = dim.map(|dims| wrapped_dims(name, dims, rank)).transpose()?;
        if let Some(s) = s {
            ensure!(
                given.as_ref().is_none_or(|dims| dims.len() == s.len()),
                InvalidArgument(name, "s"),
                "When given, dim and shape arguments must have the same length"
            );
            ensure!(
                s.len() <= rank,
                InvalidArgument(name, "s"),
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                s.len()
            );
        }
        let count = s.map_or(rank, <[i64]>::len);
        let dims = given.unwrap_or_else(|| (rank - count..rank).map(|dim| dim as i64).collect());
        let own = |dim: i64| input.sizes()[dim as usize];
        let size = |(at, dim): (usize, &i64)| match s {
            Some(s) if s[at] != -1 => s[at],
            _ => own(*dim),
        };
        let sizes: DimVec = dims.iter().enumerate().map(size).collect();
        sizes.iter().try_for_each(|size| ensure_length(name, *size))?;
        Ok(Axes { dims, sizes })
    }

    /// Checks that there is a dimension, as transforms from and to real numbers require.
    pub(super) fn ensure_any(self, name: &str) -> Result<Self> {
        ensure!(
            !self.dims.is_empty(),
            InvalidArgument,
            operator = format_args!("fft.{name}"),
            argument = "dim",
            "{name} must transform at least one axis"
        );
        Ok(self)
    }

    /// For a transform to real numbers: the size of the last dimension after it, and the others, where the last is that of half of the
    /// elements.
    pub(super) fn with_real_output(
        mut self,
        name: &str,
        input: &Tensor,
        s: Option<&[i64]>,
    ) -> Result<(Self, i64)> {
        let (Some(dim), Some(size)) = (self.dims.last(), self.sizes.last_mut()) else {
            bail!(Internal(name), "there is no dimension");
        };
        let is_given = s.and_then(<[i64]>::last).is_some_and(|last| *last != -1);
        let n = if is_given { *size } else { 2 * (input.sizes()[*dim as usize] - 1) };
        ensure_length(name, n)?;
        *size = n / 2 + 1;
        Ok((self, n))
    }
}
