//! QR factorizations, and products of Householder reflectors.

use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    batch_sizes, columns_of, columns_to_read, ensure_alike, ensure_float, for_each_matrix, matrix_sizes, new,
    new_columns, rows_of, with_sizes,
};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, bail, ensure};
use flambeau_linalg::{Matrix, MatrixMut, batch_length, householder_product_batch, multiply_by_q, qr_batch};

/// R and the vectors of the reflectors in one matrix, and `tau`: LAPACK's `geqrf`.
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "geqrf";
    let [rows, columns] = matrix_sizes(NAME, "input", self_)?;
    ensure_float(NAME, "input", self_)?;
    let (a, count) = (columns_of(NAME, self_)?, rows.min(columns));
    let tau = new(NAME, self_, &with_sizes(batch_sizes(self_), &[count]), self_.dtype())?;
    if tau.numel() > 0 && self_.device().is_cpu() {
        let [rows, columns, count] = [rows, columns, count].map(|size| size as usize);
        dispatch_all_types!(wide_floats_and_complex, self_.dtype(), NAME, T => with_slices(NAME, &[], &[&a, &tau], |s| {
            let length = batch_length(&[rows, columns]);
            let items = s.write::<T>(0)?.chunks_mut(length * rows * columns);
            let items = items.zip(s.write::<T>(1)?.chunks_mut(length * count));
            for_each_matrix(items, length * rows * columns * count, |(a, tau)| qr_batch(a, [rows, columns], tau));
            Ok(())
        }))?;
    }
    Ok((a, tau))
}

/// Checks the vectors and `tau` of reflectors, and returns the sizes of the matrix and the number of reflectors.
fn check_reflectors(name: &str, input: &Tensor, tau: &Tensor) -> Result<[i64; 3]> {
    let [rows, columns] = matrix_sizes(name, "input", input)?;
    ensure_float(name, "input", input)?;
    ensure_alike(name, input, "tau", tau)?;
    let count = tau.sizes().last().copied().unwrap_or(0);
    ensure!(
        tau.dim() + 1 == input.dim() && tau.sizes()[..tau.dim() - 1] == *batch_sizes(input),
        Shape(name, "tau"),
        "Expected tau to have one dimension less than input, and the same batch dimensions, but got tau of sizes {:?} \
         and input of {:?}",
        tau.sizes(),
        input.sizes()
    );
    ensure!(
        columns >= count && rows >= count,
        Shape(name, "tau"),
        "the two last sizes of input must be greater than or equal to tau.shape[-1], but got {:?} and {count}",
        input.sizes()
    );
    Ok([rows, columns, count])
}

/// The first columns of the product of reflectors: LAPACK's `orgqr`.
pub fn linalg_householder_product(input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    const NAME: &str = "linalg.householder_product";
    let [rows, columns, _] = check_reflectors(NAME, input, tau)?;
    ensure!(
        rows >= columns,
        Shape(NAME, "input"),
        "input.shape[-2] must be greater than or equal to input.shape[-1]"
    );
    let q = columns_of(NAME, input)?;
    form_product(NAME, &q, [rows as usize, columns as usize], &dense(tau)?)?;
    Ok(q)
}

/// Overwrites column-major matrices, which hold the vectors of reflectors, with the first columns of their products.
fn form_product(name: &str, q: &Tensor, [rows, columns]: [usize; 2], tau: &Tensor) -> Result<()> {
    let count = tau.sizes().last().map_or(0, |count| *count as usize);
    if q.numel() > 0 && q.device().is_cpu() {
        dispatch_all_types!(wide_floats_and_complex, q.dtype(), name, T => with_slices(name, &[tau], &[q], |s| {
            let (tau, length) = (s.read::<T>(0)?, batch_length(&[rows, columns]));
            let items = s.write::<T>(0)?.chunks_mut(length * rows * columns).enumerate();
            for_each_matrix(items, length * rows * columns * count, |(at, q)| {
                let first = at * length * count;
                let tau = &tau[first..first + q.len() / (rows * columns) * count];
                householder_product_batch(q, [rows, columns], tau, count);
            });
            Ok(())
        }))?;
    }
    Ok(())
}

/// As [`linalg_householder_product`].
pub fn orgqr(self_: &Tensor, input2: &Tensor) -> Result<Tensor> {
    ops::linalg_householder_product(self_, input2)
}

fn dense(tensor: &Tensor) -> Result<Tensor> {
    ops::contiguous(tensor, MemoryFormat::Contiguous)
}

/// The product of `other` and the square Q of reflectors, or its conjugate transpose: LAPACK's `ormqr`.
pub fn ormqr(
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    const NAME: &str = "ormqr";
    let [rows, columns, count] = check_reflectors(NAME, self_, input2)?;
    ensure!(
        count == rows.min(columns),
        Shape(NAME, "input2"),
        "tau.shape[-1] must be equal to min(other.shape[{}], input.shape[-1]), which is {}, but got {count}",
        if left { -2 } else { -1 },
        rows.min(columns)
    );
    ensure_alike(NAME, self_, "other", input3)?;
    let [m, n] = matrix_sizes(NAME, "other", input3)?;
    ensure!(
        if left { m } else { n } == rows && batch_sizes(self_) == batch_sizes(input3),
        Shape(NAME, "other"),
        expected = rows,
        got = if left { m } else { n },
        "other.shape[{}] must be equal to input.shape[-2], with the same batch dimensions, but got {got} and {expected}",
        if left { -2 } else { -1 }
    );
    let (vectors, tau) = (columns_to_read(NAME, self_)?, dense(input2)?);
    // `c Q` is computed as the transpose of a product from the left, where rows are adjacent.
    let c = if left { columns_of(NAME, input3)? } else { rows_of(NAME, input3)? };
    if c.numel() > 0 && count > 0 && c.device().is_cpu() {
        let [rows, columns, count] = [rows, columns, count].map(|size| size as usize);
        let other = if left { n } else { m } as usize;
        dispatch_all_types!(wide_floats_and_complex, c.dtype(), NAME, T => with_slices(NAME, &[&vectors, &tau], &[&c], |s| {
            let (vectors, tau) = (s.read::<T>(0)?, s.read::<T>(1)?);
            let items = s.write::<T>(0)?.chunks_exact_mut(rows * other).enumerate();
            for_each_matrix(items, rows * other * count, |(at, c)| {
                let vectors = &vectors[at * rows * columns..(at + 1) * rows * columns];
                let tau = &tau[at * count..(at + 1) * count];
                let c = MatrixMut::new(c, rows, other, rows);
                let c = if left { c } else { c.transposed() };
                multiply_by_q(Matrix::new(vectors, rows, columns, rows), tau, [!left, transpose], c);
            });
            Ok(())
        }))?;
    }
    Ok(c)
}

/// Q and R. With `mode` "reduced" both have as many columns and rows as the smaller size of `a`, with "complete" Q is square, and with
/// "r" Q has no elements.
pub fn linalg_qr(a: &Tensor, mode: &str) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "linalg.qr";
    let complete = match mode {
        "reduced" | "r" => false,
        "complete" => true,
        _ => bail!(
            InvalidArgument(NAME, "mode"),
            "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ),
    };
    let [rows, columns] = matrix_sizes(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (factors, tau) = geqrf(a)?;
    let height = if complete { rows } else { rows.min(columns) };
    let r = ops::triu(&ops::narrow(&factors, -2, 0, height.min(rows))?, 0)?;
    if mode == "r" {
        return Ok((new(NAME, a, &[0], a.dtype())?, r));
    }
    let q = if columns == height {
        // R is a copy, so that the vectors may be overwritten.
        factors
    } else {
        let q = new_columns(NAME, a, &with_sizes(batch_sizes(a), &[rows, height]), a.dtype())?;
        let shared = columns.min(height);
        ops::fill__scalar(&q, Scalar::Int(0))?;
        ops::copy_(&ops::narrow(&q, -1, 0, shared)?, &ops::narrow(&factors, -1, 0, shared)?, false)?;
        q
    };
    form_product(NAME, &q, [rows as usize, height as usize], &tau)?;
    Ok((q, r))
}

/// [`linalg_qr`], reduced where `some`.
pub fn qr(self_: &Tensor, some: bool) -> Result<(Tensor, Tensor)> {
    ops::linalg_qr(self_, if some { "reduced" } else { "complete" })
}
