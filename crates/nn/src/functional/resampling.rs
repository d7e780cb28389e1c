//! Images in another size.

use super::{Size, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d};
use flambeau_core::{Result, bail};
use flambeau_ops::{Tensor, ops};

/// How [`interpolate`] finds an element between others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// The nearest, by PyTorch's older rule, which rounds positions down.
    #[default]
    Nearest,
    /// The nearest, by the centers of elements.
    NearestExact,
    /// By straight lines between neighbours, in each of one, two or three dimensions.
    Linear,
    /// By cubic polynomials, in two dimensions.
    Cubic,
    /// The mean of the area.
    Area,
}

/// How large the result of [`interpolate`] is.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputSize {
    /// These sizes.
    Sizes(Vec<i64>),
    /// So many times as large in each dimension.
    Factors(Vec<f64>),
}

impl<const N: usize> From<[i64; N]> for OutputSize {
    fn from(sizes: [i64; N]) -> Self {
        OutputSize::Sizes(sizes.to_vec())
    }
}

impl<const N: usize> From<[f64; N]> for OutputSize {
    fn from(factors: [f64; N]) -> Self {
        OutputSize::Factors(factors.to_vec())
    }
}

options! {
    /// Options of [`interpolate`].
    Interpolate {
        /// How elements between others are found.
        mode: Interpolation = Interpolation::Nearest,
        /// Whether the corners' centers stay the corners; for linear and cubic interpolation.
        align_corners: bool = false,
    }
}

/// `[n, c, ..]` with other spatial sizes, given or a multiple of what they are.
///
/// # Errors
/// `Shape` for sizes of another number than there are spatial dimensions, `NotImplemented` for a mode that these have not.
///
/// ```
/// use flambeau_nn::functional::{Interpolate, Interpolation, interpolate};
/// use flambeau_ops::Tensor;
/// let row = Tensor::from([[[0.0f64, 1.0]]]);
/// let linear = Interpolate::default().mode(Interpolation::Linear).align_corners(true);
/// assert_eq!(interpolate(&row, [3], linear)?.to_vec::<f64>()?, [0.0, 0.5, 1.0]);
/// assert_eq!(interpolate(&row, [2.0], Interpolate::default())?.to_vec::<f64>()?, [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn interpolate(input: &Tensor, size: impl Into<OutputSize>, options: Interpolate) -> Result<Tensor> {
    let size = size.into();
    let (sizes, factors) = match &size {
        OutputSize::Sizes(sizes) => (Some(&sizes[..]), None),
        OutputSize::Factors(factors) => (None, Some(&factors[..])),
    };
    let corners = options.align_corners;
    let picking = match (options.mode, input.dim()) {
        (Interpolation::Nearest, 3) => ops::upsample_nearest1d_vec,
        (Interpolation::Nearest, 4) => ops::upsample_nearest2d_vec,
        (Interpolation::Nearest, 5) => ops::upsample_nearest3d_vec,
        (Interpolation::NearestExact, 3) => ops::_upsample_nearest_exact1d_vec,
        (Interpolation::NearestExact, 4) => ops::_upsample_nearest_exact2d_vec,
        (Interpolation::NearestExact, 5) => ops::_upsample_nearest_exact3d_vec,
        (Interpolation::Linear, 3) => return ops::upsample_linear1d_vec(input, sizes, corners, factors),
        (Interpolation::Linear, 4) => return ops::upsample_bilinear2d_vec(input, sizes, corners, factors),
        (Interpolation::Linear, 5) => return ops::upsample_trilinear3d_vec(input, sizes, corners, factors),
        (Interpolation::Cubic, 4) => return ops::upsample_bicubic2d_vec(input, sizes, corners, factors),
        (Interpolation::Area, _) => return area(input, &size),
        (mode, dim) => {
            bail!(NotImplemented, "interpolate: {mode:?} is not implemented for an input of {dim} dimensions")
        }
    };
    picking(input, sizes, factors)
}

fn area(input: &Tensor, size: &OutputSize) -> Result<Tensor> {
    let sizes: Vec<i64> = match size {
        OutputSize::Sizes(sizes) => sizes.clone(),
        OutputSize::Factors(factors) => {
            input.sizes().iter().skip(2).zip(factors).map(|(size, by)| (*size as f64 * by) as i64).collect()
        }
    };
    match (input.dim(), &sizes[..]) {
        (3, &[l]) => adaptive_avg_pool1d(input, l),
        (4, &[h, w]) => adaptive_avg_pool2d(input, Size([h, w])),
        (5, &[d, h, w]) => adaptive_avg_pool3d(input, Size([d, h, w])),
        _ => bail!(
            Shape,
            "interpolate: expected a size for each spatial dimension of {:?} but got {sizes:?}",
            input.sizes()
        ),
    }
}
