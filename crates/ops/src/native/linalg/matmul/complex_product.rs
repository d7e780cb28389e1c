//! Products of complex matrices: four products of the matrices of their parts, `(a + ib)(c + id) = ac - bd + i(ad + bc)`.
//!
//! Each part of a result is the difference or sum of two sums of products, which are rounded separately: errors are bounded as those of the
//! real product, by the sum of the absolute values of the products. Three products would do, but have twice the error, and make NaN of
//! infinities.

use crate::native::shape::complex_views::view_as_real;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar};

/// `out = alpha * a b`, plus `beta` times an addend if there is one.
pub(super) fn scaled_product(
    name: &str,
    [a, b, out]: [&Tensor; 3],
    addend: Option<(&Tensor, Scalar)>,
    alpha: Scalar,
) -> Result<()> {
    let (left, right) = (parts(a)?, parts(b)?);
    let real = TensorSpec::like(out, out.sizes()).with_dtype(out.dtype().to_real());
    let product = |i: usize, j: usize| -> Result<Tensor> {
        let made = real.allocate(name)?;
        super::scaled_product(name, [&left[i], &right[j], &made], None, Scalar::Int(1))?;
        Ok(made)
    };
    let made = TensorSpec::like(out, out.sizes()).allocate(name)?;
    let [re, im] = parts(&made)?;
    ops::sub_out(&product(0, 0)?, &product(1, 1)?, Scalar::Int(1), &re)?;
    ops::add_out(&product(0, 1)?, &product(1, 0)?, Scalar::Int(1), &im)?;
    if alpha != Scalar::Int(1) {
        ops::mul__scalar(&made, alpha)?;
    }
    if let Some((addend, beta)) = addend {
        // An infinite addend times a real number stays infinite: `add_` multiplies part by part.
        ops::add__tensor(&made, addend, beta)?;
    }
    ops::copy_(out, &made, false)
}

/// The real and the imaginary parts.
fn parts(tensor: &Tensor) -> Result<[Tensor; 2]> {
    let both = view_as_real(tensor)?;
    Ok([ops::select_int(&both, -1, 0)?, ops::select_int(&both, -1, 1)?])
}
