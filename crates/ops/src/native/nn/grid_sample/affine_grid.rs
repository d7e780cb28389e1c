//! The grid of an affine map.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ensure};

/// Images of so few pixels take less than a product for each of them.
const FEW_PIXELS: i64 = 64;

/// The grid of an affine map: `theta` of each image times the coordinates of the pixels of an image of `size`.
pub fn affine_grid_generator(theta: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    const NAME: &str = "affine_grid_generator";
    let dims = size.len().saturating_sub(2);
    ensure!(
        dims == 2 || dims == 3,
        InvalidArgument,
        operator = NAME,
        argument = "size",
        "{NAME} needs 4d (spatial) or 5d (volumetric) inputs."
    );
    let d = dims as i64;
    ensure!(
        theta.sizes() == [size[0], d, d + 1] && theta.is_floating_point(),
        Shape(NAME, "theta"),
        "expected a batch of affine matrices of shape {}x{dims}x{} for size {size:?}. Got {:?}.",
        size[0],
        dims + 1,
        theta.sizes()
    );
    ensure!(
        size.iter().all(|s| *s > 0),
        InvalidArgument(NAME, "size"),
        "expected non-zero, positive output size. Got {size:?}"
    );
    let base = base_grid(theta, &size[2..], align_corners)?;
    let coordinates = if base.sizes()[0] <= FEW_PIXELS {
        // One product of all matrices, whose rows are then those of the pixels.
        let rows = theta.reshape(&[size[0] * d, d + 1])?;
        let products = ops::mm(&rows, &base.transpose(0, 1)?)?.view(&[size[0], d, -1])?;
        ops::clone(&products.transpose(1, 2)?, Some(MemoryFormat::Contiguous))?
    } else {
        ops::bmm(&ops::expand(&base, &[size[0], -1, d + 1], false)?, &theta.transpose(1, 2)?)?
    };
    let sizes: DimVec = [size[0]].iter().chain(&size[2..]).chain([&d]).copied().collect();
    coordinates.view(&sizes)
}

/// The homogeneous coordinates of all pixels, innermost dimension first: `pixels x (dims + 1)`.
fn base_grid(like: &Tensor, spatial: &[i64], align_corners: bool) -> Result<Tensor> {
    let (dtype, device) = (Some(like.dtype()), Some(like.device()));
    let mut columns = vec![];
    for (d, size) in spatial.iter().enumerate().rev() {
        let inside = if align_corners { 1.0 } else { (*size - 1) as f64 / *size as f64 };
        let coordinates = match size {
            1 => ops::zeros(&[1], dtype, None, device, None)?,
            _ => ops::linspace(Scalar::Int(-1), Scalar::Int(1), *size, dtype, None, device, None)?
                .mul_scalar(inside)?,
        };
        let mut own = DimVec::from_elem(1, spatial.len());
        own[d] = *size;
        columns.push(ops::expand(&coordinates.view(&own)?, spatial, false)?);
    }
    columns.push(ops::ones(spatial, dtype, None, device, None)?);
    ops::stack(&columns, -1)?.reshape(&[-1, columns.len() as i64])
}
