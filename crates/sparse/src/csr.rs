//! Matrices in compressed rows, which products are computed with, from tensors of any sparse layout.

use crate::convert::{compress, coo_of};
use crate::dense::{add, as_long, joined, product, reshape, rows, scaled, zeros};
use crate::parts::{Compressed, Coo};
use flambeau_core::{Layout, Result, Scalar, ensure};
use flambeau_ops::{Tensor, ops};

/// A matrix in compressed rows.
#[derive(Clone, Debug)]
pub(crate) struct Csr {
    pub(crate) crow: Tensor,
    pub(crate) col: Tensor,
    pub(crate) values: Tensor,
    pub(crate) rows: i64,
    pub(crate) columns: i64,
}

impl Csr {
    /// A sparse matrix of any layout, without dense dimensions.
    pub(crate) fn of(name: &str, tensor: &Tensor) -> Result<Csr> {
        ensure!(
            tensor.dim() == 2 && crate::dense_dim(tensor) == 0,
            Shape(name),
            "expected a sparse matrix without dense dimensions but got sizes {:?} with {} dense dimensions",
            tensor.sizes(),
            crate::dense_dim(tensor)
        );
        let (rows, columns) = (tensor.sizes()[0], tensor.sizes()[1]);
        match tensor.layout() {
            Layout::SparseCsr => {
                let Compressed { compressed, plain, values, .. } = Compressed::of(tensor)?;
                Ok(Csr { crow: compressed, col: plain, values, rows, columns })
            }
            Layout::SparseCsc => {
                let Compressed { compressed, plain, values, .. } = Compressed::of(tensor)?;
                Csr { crow: compressed, col: plain, values, rows: columns, columns: rows }.transposed()
            }
            _ => Csr::of_coordinates(&coo_of(tensor)?.coalesced()?),
        }
    }

    /// The matrices of a batch, `[b, m, n]`, as blocks on the diagonal of one of `[b m, b n]`.
    pub(crate) fn block_diagonal(name: &str, tensor: &Tensor) -> Result<Csr> {
        ensure!(
            tensor.dim() >= 2 && crate::dense_dim(tensor) == 0,
            Shape(name),
            "expected a batch of sparse matrices without dense dimensions but got sizes {:?}",
            tensor.sizes()
        );
        if tensor.dim() == 2 {
            return Csr::of(name, tensor);
        }
        let coo = coo_of(tensor)?.coalesced()?;
        crate::parts::check_coordinates("indices", &coo.indices, coo.sparse_sizes())?;
        let last = coo.sizes.len() - 2;
        let (batch_sizes, matrix) = coo.sizes.split_at(last);
        let batch = crate::dense::raveled(
            &ops::slice_tensor(&coo.indices, 0, None, Some(last as i64), 1)?,
            batch_sizes,
        )?;
        let part = |d: usize| add(&scaled(&batch, matrix[d].into())?, &coo.row(last + d)?);
        let all = |size: i64| product(&joined(&[batch_sizes, &[size]]));
        let sizes = [all(matrix[0])?, all(matrix[1])?];
        let diagonal = Coo {
            indices: ops::stack(&[part(0)?, part(1)?], 0)?,
            values: coo.values.clone(),
            sizes: sizes.as_slice().into(),
            is_coalesced: true,
        };
        Csr::of_coordinates(&diagonal)
    }

    fn of_coordinates(coo: &Coo) -> Result<Csr> {
        let (rows, columns) = (coo.sizes[0], coo.sizes[1]);
        let crow = ops::_convert_indices_from_coo_to_csr(&coo.row(0)?, rows, false)?;
        Ok(Csr { crow, col: coo.row(1)?, values: coo.values.clone(), rows, columns })
    }

    pub(crate) fn transposed(&self) -> Result<Csr> {
        let (crow, col, values) = ops::_csr_transposed(&self.crow, &self.col, &self.values, self.columns)?;
        Ok(Csr { crow, col, values, rows: self.columns, columns: self.rows })
    }

    /// The row of each element.
    pub(crate) fn row_indices(&self) -> Result<Tensor> {
        let pair = ops::_convert_indices_from_csr_to_coo(&self.crow, &self.col, false, false)?;
        ops::select_int(&pair, 0, 0)
    }

    /// The rows of a dense matrix that belong to the elements, times the elements.
    pub(crate) fn terms(&self, dense: &Tensor) -> Result<Tensor> {
        let weights = ops::unsqueeze(&self.values, 1)?;
        ops::mul_tensor(&weights, &rows(dense, &as_long(&self.col)?)?)
    }

    /// The product with a dense matrix.
    pub(crate) fn times(&self, name: &str, dense: &Tensor) -> Result<Tensor> {
        ensure!(
            dense.dim() == 2 && dense.sizes()[0] == self.columns,
            Shape(name),
            "mat1 and mat2 shapes cannot be multiplied ({}x{} and {:?})",
            self.rows,
            self.columns,
            dense.sizes()
        );
        ensure!(
            dense.dtype() == self.values.dtype(),
            Dtype(name),
            "expected matrices of one type but got {} and {}",
            self.values.dtype(),
            dense.dtype()
        );
        if !dense.is_complex() {
            return ops::_csr_mm(&self.crow, &self.col, &self.values, dense).map_err(|e| e.in_operator(name));
        }
        let sums = zeros(&[self.rows, dense.sizes()[1]], dense)?;
        ops::index_add(&sums, 0, &self.row_indices()?, &self.terms(dense)?, Scalar::Int(1))
    }

    /// The product with another sparse matrix.
    pub(crate) fn times_sparse(&self, name: &str, other: &Csr) -> Result<Csr> {
        ensure!(
            self.columns == other.rows,
            Shape(name),
            "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
            self.rows,
            self.columns,
            other.rows,
            other.columns
        );
        ensure!(
            self.values.dtype() == other.values.dtype(),
            Dtype(name),
            "expected matrices of one type but got {} and {}",
            self.values.dtype(),
            other.values.dtype()
        );
        let columns = other.columns;
        let (crow, col, values) = ops::_csr_matmul(
            &self.crow,
            &self.col,
            &self.values,
            &other.crow,
            &other.col,
            &other.values,
            columns,
        )?;
        Ok(Csr { crow, col, values, rows: self.rows, columns })
    }

    /// As coordinates.
    pub(crate) fn coordinates(&self) -> Result<Coo> {
        let indices = ops::_convert_indices_from_csr_to_coo(&self.crow, &self.col, false, false)?;
        let sizes = [self.rows, self.columns].as_slice().into();
        Ok(Coo { indices, values: self.values.clone(), sizes, is_coalesced: true })
    }

    /// A tensor of the given sparse layout.
    pub(crate) fn into_tensor(self, layout: Layout, block: Option<[i64; 2]>) -> Result<Tensor> {
        match layout {
            Layout::SparseCoo => self.coordinates()?.into_tensor(),
            Layout::SparseCsr => {
                let sizes = [self.rows, self.columns].as_slice().into();
                let (compressed, plain) = (self.crow, self.col);
                Compressed { layout, compressed, plain, values: self.values, sizes }.into_tensor()
            }
            _ => compress(&self.coordinates()?, layout, block),
        }
    }

    /// How many elements each row has.
    pub(crate) fn counts(&self) -> Result<Tensor> {
        let count = self.crow.numel();
        let crow = as_long(&self.crow)?;
        let (ends, starts) =
            (crate::dense::slice(&crow, 0, 1, count)?, crate::dense::slice(&crow, 0, 0, count - 1)?);
        ops::sub_tensor(&ends, &starts, Scalar::Int(1))
    }
}

/// Values of a tensor in the order in which [`Csr`] has them: the same pattern with coalesced coordinates.
pub(crate) fn with_csr_values(tensor: &Tensor, values: &Tensor) -> Result<Tensor> {
    let parts = match tensor.layout() {
        Layout::SparseCsr => tensor.sparse_parts(),
        _ => None,
    };
    match parts {
        Some(parts) => {
            let values = reshape(values, parts.values().sizes())?;
            Tensor::from_sparse_parts(tensor.layout(), tensor.sizes(), parts.with_values(values))
        }
        None => {
            let coo = coo_of(tensor)?.coalesced()?;
            crate::convert::as_layout_of(&coo.with_values(values.clone()), tensor)
        }
    }
}

/// The same batch of matrices with other sizes in front: `[b m, n]` as `[*batch, m, n]`.
pub(crate) fn unstacked(matrix: &Tensor, batch: &[i64], rows: i64) -> Result<Tensor> {
    reshape(matrix, &joined(&[batch, &[rows, matrix.sizes()[1]]]))
}
