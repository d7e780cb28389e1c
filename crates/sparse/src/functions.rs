//! Operators that only sparse tensors have, or that have further arguments for them: PyTorch's `torch.sparse`.

use crate::convert::{as_layout_of, coo_of};
use crate::csr::{Csr, with_csr_values};
use crate::dense::{add, cast, joined, long, product, reshape, rows, scaled, slice, zeros};
use crate::parts::{Compressed, Coo, is_sparse};
use flambeau_core::{DimVec, Geometry, Layout, Result, Scalar, ScalarType, bail, ensure, shape};
use flambeau_ops::tensor::sparse::SparseParts;
use flambeau_ops::{Tensor, ops};

/// How the terms of an element of a product are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The maximum.
    Amax,
    /// The minimum.
    Amin,
}

impl Reduction {
    /// The reduction of this name.
    ///
    /// # Errors
    /// `InvalidArgument` for another name than `sum`, `mean`, `amax` and `amin`.
    pub fn named(name: &str) -> Result<Reduction> {
        match name {
            "sum" => Ok(Reduction::Sum),
            "mean" => Ok(Reduction::Mean),
            "amax" => Ok(Reduction::Amax),
            "amin" => Ok(Reduction::Amin),
            _ => bail!(
                InvalidArgument("sparse.mm", "reduce"),
                "expected sum, mean, amax or amin but got {name:?}"
            ),
        }
    }
}

/// The product of a sparse and a strided matrix, whose terms `self[i][k] * mat2[k][j]`, over the elements of row `i`, are combined by
/// `reduce`. Rows without elements are 0.
///
/// # Errors
/// `Shape` for matrices that cannot be multiplied.
///
/// ```
/// use flambeau_core::Layout;
/// use flambeau_ops::Tensor;
/// use flambeau_sparse::{Reduction, mm_reduce, to_sparse};
/// let a = to_sparse(&Tensor::from([[1.0f32, 2.0], [0.0, 3.0]]), Layout::SparseCsr, None, None)?;
/// let y = mm_reduce(&a, &Tensor::from([[1.0f32], [5.0]]), Reduction::Amax)?;
/// assert_eq!(y.to_vec::<f32>()?, [10.0, 15.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn mm_reduce(a: &Tensor, b: &Tensor, reduce: Reduction) -> Result<Tensor> {
    const NAME: &str = "sparse.mm";
    ensure!(
        is_sparse(a) && !is_sparse(b),
        InvalidArgument(NAME),
        "expected a sparse and a strided matrix but got layouts {} and {}",
        a.layout(),
        b.layout()
    );
    let matrix = Csr::of(NAME, a)?;
    let extreme = match reduce {
        Reduction::Sum => return matrix.times(NAME, b),
        Reduction::Mean => {
            let counts = ops::clamp(&matrix.counts()?, Some(Scalar::Int(1)), None)?;
            let counts = cast(&ops::unsqueeze(&counts, 1)?, b.dtype())?;
            return ops::div_tensor(&matrix.times(NAME, b)?, &counts);
        }
        Reduction::Amax => "amax",
        Reduction::Amin => "amin",
    };
    ensure!(
        b.dim() == 2 && b.sizes()[0] == matrix.columns && b.dtype() == a.dtype(),
        Shape(NAME),
        "expected a matrix of {} with {} rows but got {}",
        a.dtype(),
        matrix.columns,
        b.signature()
    );
    let terms = matrix.terms(b)?;
    let index = ops::expand(&ops::unsqueeze(&matrix.row_indices()?, 1)?, terms.sizes(), false)?;
    let sums = zeros(&[matrix.rows, b.sizes()[1]], b)?;
    ops::scatter_reduce_two(&sums, 0, &index, &terms, extreme, false)
}

/// `beta self + alpha (mat1 @ mat2)` at the elements of the sparse tensor `self`, with which the product is not computed elsewhere.
///
/// # Errors
/// `Shape` for sizes that do not match.
pub fn sampled_addmm(
    tensor: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    const NAME: &str = "sparse.sampled_addmm";
    let sizes = tensor.sizes();
    ensure!(is_sparse(tensor), InvalidArgument(NAME, "input"), "expected a sparse tensor");
    let dims = sizes.len();
    let (x, y) = (mat1.sizes(), mat2.sizes());
    let fits = dims >= 2
        && x.len() == dims
        && y.len() == dims
        && x[..dims - 1] == sizes[..dims - 1]
        && y[..dims - 2] == sizes[..dims - 2]
        && (y[dims - 1], y[dims - 2]) == (sizes[dims - 1], x[dims - 1]);
    ensure!(
        fits && !is_sparse(mat1) && !is_sparse(mat2),
        Shape(NAME),
        "expected strided matrices whose product has sizes {sizes:?} but got {} and {}",
        mat1.signature(),
        mat2.signature()
    );
    let pattern = Csr::block_diagonal(NAME, tensor)?;
    let stacked = |t: &Tensor| reshape(t, &[product(&t.sizes()[..dims - 1])?, t.sizes()[dims - 1]]);
    let (a, b) = (stacked(mat1)?, stacked(&ops::transpose_int(mat2, -1, -2)?)?);
    let sampled = ops::_csr_sampled_mm(&pattern.crow, &pattern.col, &a, &b)?;
    let values = add(&scaled(&pattern.values, beta)?, &scaled(&sampled, alpha)?)?;
    with_csr_values(tensor, &values)
}

/// The sum of all elements: a strided tensor without dimensions.
///
/// # Errors
/// Those of the sum of values.
pub fn sum(tensor: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    ops::sum(&crate::raw_values(tensor)?, dtype)
}

/// The sum along dimensions, all of them if none are given. It is sparse, unless no sparse dimension is left.
///
/// # Errors
/// `Index` for a dimension that does not exist.
pub fn sum_dim(tensor: &Tensor, dim: &[i64], keepdim: bool, dtype: Option<ScalarType>) -> Result<Tensor> {
    if dim.is_empty() && !keepdim {
        return sum(tensor, dtype);
    }
    // A tensor without dimensions has one by which it can be named.
    let mut is_summed = vec![dim.is_empty(); tensor.dim().max(1)];
    for dim in dim {
        let at = shape::wrap_dim(*dim, tensor.dim()).map_err(|e| e.in_operator("sparse.sum"))?;
        ensure!(
            !std::mem::replace(&mut is_summed[at], true),
            InvalidArgument("sparse.sum", "dim"),
            "dim {at} appears multiple times in the list of dims"
        );
    }
    let coo = coo_of(tensor)?;
    let sparse_dim = coo.sparse_dim();
    let dense: Vec<i64> =
        (sparse_dim..tensor.dim()).filter(|d| is_summed[*d]).map(|d| (d - sparse_dim) as i64 + 1).collect();
    let values = match dense.is_empty() {
        true => dtype.map_or_else(|| summed_type(&coo.values), |dtype| cast(&coo.values, dtype))?,
        false => ops::sum_dim_intlist(&coo.values, Some(&dense), keepdim, dtype)?,
    };
    let left: Vec<usize> = (0..sparse_dim).filter(|d| !is_summed[*d]).collect();
    if left.is_empty() {
        // A type that was requested is that of the result too, even if sums of its integers are of another.
        let total = ops::sum_dim_intlist(&values, Some(&[0]), false, Some(values.dtype()))?;
        let ones = vec![1; if keepdim { sparse_dim } else { 0 }];
        return reshape(&total, &joined(&[&ones, total.sizes()]));
    }
    let kept: Vec<i64> = left.iter().map(|d| *d as i64).collect();
    let mut indices = ops::index_select(&coo.indices, 0, &long(&kept, coo.indices.device())?)?;
    let mut sizes: DimVec = left.iter().map(|d| coo.sizes[*d]).collect();
    if keepdim {
        let zero = ops::zeros(&[1, coo.nnz()], Some(ScalarType::I64), None, Some(indices.device()), None)?;
        let row = |d: usize| if is_summed[d] { Ok(zero.clone()) } else { ops::unsqueeze(&coo.row(d)?, 0) };
        indices = ops::cat(&(0..sparse_dim).map(row).collect::<Result<Vec<_>>>()?, 0)?;
        sizes = (0..sparse_dim).map(|d| if is_summed[d] { 1 } else { coo.sizes[d] }).collect();
    }
    sizes.extend_from_slice(&values.sizes()[1..]);
    let made = Coo { indices, values, sizes, is_coalesced: false }.coalesced()?;
    if keepdim { as_layout_of(&made, tensor) } else { made.into_tensor() }
}

/// Integers in the type in which they are summed.
fn summed_type(values: &Tensor) -> Result<Tensor> {
    if values.dtype().is_integral(true) { cast(values, ScalarType::I64) } else { Ok(values.clone()) }
}

/// `softmax` along a dimension of the stored elements: all others count as minus infinity.
///
/// # Errors
/// `Index` for a dimension that does not exist.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_sparse::{softmax, to_dense, to_sparse_coo};
/// let x = to_sparse_coo(&Tensor::from([[0.0f32, 1.0], [2.0, 2.0]]), None)?;
/// assert_eq!(to_dense(&softmax(&x, 1, None)?)?.to_vec::<f32>()?, [0.0, 1.0, 0.5, 0.5]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn softmax(tensor: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<Tensor> {
    normalized(tensor, dim, dtype, false)
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// As [`softmax`].
pub fn log_softmax(tensor: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<Tensor> {
    normalized(tensor, dim, dtype, true)
}

fn normalized(tensor: &Tensor, dim: i64, dtype: Option<ScalarType>, is_log: bool) -> Result<Tensor> {
    let name = if is_log { "sparse.log_softmax" } else { "sparse.softmax" };
    let dim = shape::wrap_dim(dim, tensor.dim()).map_err(|e| e.in_operator(name))?;
    if let Some(made) = normalized_segments(tensor, dim, dtype, is_log)? {
        return Ok(made);
    }
    let mut coo = coo_of(tensor).map_err(|e| e.in_operator(name))?.coalesced()?;
    if let Some(dtype) = dtype {
        coo.values = cast(&coo.values, dtype)?;
    }
    let sparse_dim = coo.sparse_dim();
    let values = match dim.checked_sub(sparse_dim) {
        Some(dense) if is_log => ops::log_softmax_int(&coo.values, dense as i64 + 1, None)?,
        Some(dense) => ops::softmax_int(&coo.values, dense as i64 + 1, None)?,
        None => normalized_groups(&coo, dim, is_log)?,
    };
    as_layout_of(&coo.with_values(values), tensor)
}

/// The softmax of each compressed row or column: its elements are adjacent, and keep their positions.
fn normalized_segments(
    tensor: &Tensor,
    dim: usize,
    dtype: Option<ScalarType>,
    is_log: bool,
) -> Result<Option<Tensor>> {
    let plain_dim = match tensor.layout() {
        Layout::SparseCsr => 1,
        Layout::SparseCsc => 0,
        _ => return Ok(None),
    };
    let mut of = Compressed::of(tensor)?;
    if of.batch_dim() > 0 || dim != plain_dim {
        return Ok(None);
    }
    if let Some(dtype) = dtype {
        of.values = cast(&of.values, dtype)?;
    }
    of.values = ops::_segment_softmax(&of.values, &of.compressed, is_log)?;
    of.into_tensor().map(Some)
}

/// Values normalized in the groups of elements that differ in sparse dimension `dim` alone.
fn normalized_groups(coo: &Coo, dim: usize, is_log: bool) -> Result<Tensor> {
    let others: Vec<i64> = (0..coo.sparse_dim()).filter(|d| *d != dim).map(|d| d as i64).collect();
    let sizes: Vec<i64> = others.iter().map(|d| coo.sizes[*d as usize]).collect();
    let indices = ops::index_select(&coo.indices, 0, &long(&others, coo.indices.device())?)?;
    let (order, starts, _) = ops::_coo_order(&indices, &sizes)?;
    let made = ops::_segment_softmax(&rows(&coo.values, &order)?, &starts, is_log)?;
    let positions = crate::dense::arange(order.numel(), order.device())?;
    let rank_of = ops::index_put(&order, &[Some(order.clone())], &positions, false)?;
    rows(&made, &rank_of)
}

/// A sparse matrix with the rows of `diagonals` on the diagonals at `offsets`. Element `j` of a row is in column `j`.
///
/// # Errors
/// `Shape` for sizes that do not match, `InvalidArgument` for equal offsets.
pub fn spdiags(diagonals: &Tensor, offsets: &Tensor, size: &[i64], layout: Option<Layout>) -> Result<Tensor> {
    const NAME: &str = "sparse.spdiags";
    let diagonals = if diagonals.dim() == 1 { ops::unsqueeze(diagonals, 0)? } else { diagonals.clone() };
    let list = cast(&reshape(offsets, &[-1])?, ScalarType::I64)?.to_vec::<i64>()?;
    let [row_count, column_count] = size else {
        bail!(Shape(NAME, "shape"), "output shape must be 2d but got {size:?}")
    };
    ensure!(
        diagonals.dim() == 2 && diagonals.sizes()[0] == list.len() as i64,
        Shape(NAME, "diagonals"),
        "number of diagonals ({:?}) does not match the number of offsets ({})",
        diagonals.sizes(),
        list.len()
    );
    let mut sorted = list.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.windows(2).all(|pair| pair[0] < pair[1]),
        InvalidArgument(NAME, "offsets"),
        "offset tensor contains duplicate values"
    );
    let width = diagonals.sizes()[1];
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    for (number, offset) in list.iter().enumerate() {
        let start = (*offset).max(0);
        let end = width.min(*column_count).min(row_count.saturating_add(*offset));
        if end <= start {
            continue;
        }
        let columns = slice(&crate::dense::arange(end, diagonals.device())?, 0, start, end)?;
        let row = ops::sub_scalar(&columns, Scalar::Int(*offset), Scalar::Int(1))?;
        indices.push(ops::stack(&[row, columns], 0)?);
        values.push(slice(&ops::select_int(&diagonals, 0, number as i64)?, 0, start, end)?);
    }
    let made = match indices.is_empty() {
        true => crate::sparse_coo_empty(size, &diagonals)?,
        false => {
            let (indices, values) = (ops::cat(&indices, 1)?, ops::cat(&values, 0)?);
            Coo { indices, values, sizes: size.into(), is_coalesced: false }.coalesced()?.into_tensor()?
        }
    };
    crate::to_sparse(&made, layout.unwrap_or(Layout::SparseCoo), None, None)
}

/// Gives a tensor of layout `SparseCoo` other sizes in place. Its elements must be inside of them, and the numbers of sparse and dense
/// dimensions change only if there are no elements.
///
/// # Errors
/// `InvalidArgument` where elements would be outside.
pub fn sparse_resize_<'a>(
    tensor: &'a Tensor,
    size: &[i64],
    sparse_dim: i64,
    dense_dim: i64,
) -> Result<&'a Tensor> {
    const NAME: &str = "sparse_resize_";
    let coo = Coo::of(tensor).map_err(|e| e.in_operator(NAME))?;
    ensure!(
        sparse_dim >= 0 && dense_dim >= 0 && sparse_dim.checked_add(dense_dim) == Some(size.len() as i64),
        InvalidArgument(NAME, "size"),
        "expected {sparse_dim} + {dense_dim} sizes but got {size:?}"
    );
    let geometry = Geometry::contiguous(size)?;
    let dense = &size[sparse_dim as usize..];
    let parts = if coo.nnz() == 0 {
        let indices = ops::zeros(&[sparse_dim, 0], Some(ScalarType::I64), None, Some(tensor.device()), None)?;
        let values = zeros(&joined(&[&[0], dense]), &coo.values)?;
        tensor.replacement_parts(SparseParts::Coo { indices, values, is_coalesced: true })?
    } else {
        ensure!(
            sparse_dim as usize == coo.sparse_dim() && dense == coo.dense_sizes(),
            InvalidArgument(NAME, "size"),
            "a tensor with elements keeps its dense sizes and its number of sparse dimensions: expected {} and {:?}",
            coo.sparse_dim(),
            coo.dense_sizes()
        );
        crate::parts::check_coordinates("size", &coo.indices, &size[..sparse_dim as usize])?;
        SparseParts::Coo { indices: coo.indices, values: coo.values, is_coalesced: coo.is_coalesced }
    };
    tensor.impl_().set_geometry(geometry)?;
    tensor.replace_sparse_parts(parts)?;
    Ok(tensor)
}
