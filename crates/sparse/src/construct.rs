//! Constructors of sparse tensors. All of them check their indices; there are no unchecked ones.

use crate::dense::{as_long, joined};
use crate::parts::{Compressed, Coo, check_coordinates};
use flambeau_core::{DimVec, Layout, Result, ScalarType, bail, ensure};
use flambeau_ops::{Tensor, ops};

/// A tensor of layout `SparseCoo`: `indices` of `[sparse_dim, nnz]` and values of `[nnz, *dense]`. Without `size` it is as large as the
/// indices require. `is_coalesced` says that indices are distinct and in ascending order, which is checked.
///
/// # Errors
/// `Shape` where indices, values and size do not match, `Index` for an index out of bounds, `Dtype` for indices that are not integers,
/// `InvalidArgument` for indices that are said to be coalesced and are not.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_sparse::{coalesce, sparse_coo_tensor, values};
/// let (indices, ones) = (Tensor::from([[0i64, 0], [1, 1]]), Tensor::from([2.0f32, 3.0]));
/// let sparse = sparse_coo_tensor(&indices, &ones, None, None)?;
/// assert_eq!(sparse.sizes(), [1, 2]);
/// assert_eq!(values(&coalesce(&sparse)?)?.to_vec::<f32>()?, [5.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn sparse_coo_tensor(
    indices: &Tensor,
    values: &Tensor,
    size: Option<&[i64]>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    const NAME: &str = "sparse_coo_tensor";
    let indices = index_tensor(NAME, "indices", indices)?;
    ensure!(
        indices.dim() == 2 && values.dim() >= 1 && values.sizes()[0] == indices.sizes()[1],
        Shape(NAME, "indices"),
        "expected indices of [sparse_dim, nnz] and values of [nnz, ..] but got sizes {:?} and {:?}",
        indices.sizes(),
        values.sizes()
    );
    let indices = as_long(&indices)?;
    let dense = &values.sizes()[1..];
    let sizes = match size {
        Some(size) => DimVec::from_slice(size),
        None => joined(&[&inferred(&indices)?, dense]),
    };
    let sparse_dim = indices.sizes()[0] as usize;
    ensure!(
        sizes.len() == sparse_dim + dense.len() && sizes[sparse_dim..] == *dense,
        Shape(NAME, "size"),
        "expected {sparse_dim} sparse sizes, followed by those of the values, {dense:?}, but got {sizes:?}"
    );
    check_coordinates("indices", &indices, &sizes[..sparse_dim])?;
    let mut coo = Coo { indices, values: values.clone(), sizes, is_coalesced: false };
    if is_coalesced == Some(true) || coo.nnz() < 2 {
        ensure!(
            is_coalesced != Some(true) || is_ascending(&coo.keys()?)?,
            InvalidArgument(NAME, "is_coalesced"),
            "expected distinct indices in ascending order, since is_coalesced is true"
        );
        coo.is_coalesced = is_coalesced != Some(false);
    }
    coo.into_tensor()
}

/// A tensor of layout `SparseCoo` without elements, whose dimensions are all sparse.
///
/// # Errors
/// `Shape` and `Overflow` for impossible sizes.
pub fn sparse_coo_empty(size: &[i64], values: &Tensor) -> Result<Tensor> {
    let indices =
        ops::zeros(&[size.len() as i64, 0], Some(ScalarType::I64), None, Some(values.device()), None)?;
    sparse_coo_tensor(&indices, &crate::dense::zeros(&[0], values)?, Some(size), Some(true))
}

fn index_tensor(name: &str, argument: &str, tensor: &Tensor) -> Result<Tensor> {
    ensure!(
        tensor.dtype().is_integral(false) && tensor.layout() == Layout::Strided,
        Dtype(name, argument),
        "expected a strided tensor of integers but got {} of layout {}",
        tensor.dtype(),
        tensor.layout()
    );
    ops::detach(tensor)
}

/// The smallest sizes for which indices are in bounds.
fn inferred(indices: &Tensor) -> Result<DimVec> {
    if indices.sizes()[1] == 0 {
        return Ok(DimVec::from_elem(0, indices.sizes()[0] as usize));
    }
    Ok(ops::amax(indices, &[1], false)?.to_vec::<i64>()?.iter().map(|last| last.saturating_add(1)).collect())
}

fn is_ascending(keys: &Tensor) -> Result<bool> {
    Ok(keys.to_vec::<i64>()?.is_sorted_by(|a, b| a < b))
}

/// A tensor of a compressed layout: pointers of `[*batch, rows + 1]`, plain indices of `[*batch, nnz]`, and values of
/// `[*batch, nnz, *block, *dense]`. Without `size` it has as many columns as the indices require.
///
/// # Errors
/// `Shape` where the parts and the size do not match, `Index` for an index out of bounds, `Dtype` for indices of other types than int32 and
/// int64, `InvalidArgument` for pointers that do not ascend from 0 to the number of values, and for indices that do not ascend in
/// each row.
pub fn sparse_compressed_tensor(
    layout: Layout,
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    size: Option<&[i64]>,
) -> Result<Tensor> {
    let name = constructor_name(layout)?;
    let [compressed, plain] = [compressed, plain].map(|tensor| index_tensor(name, "indices", tensor));
    let (compressed, plain) = (compressed?, plain?);
    let is_index = |t: &Tensor| matches!(t.dtype(), ScalarType::I32 | ScalarType::I64);
    ensure!(
        is_index(&compressed) && compressed.dtype() == plain.dtype(),
        Dtype(name, "indices"),
        "expected indices of one type, int32 or int64, but got {} and {}",
        compressed.dtype(),
        plain.dtype()
    );
    let mut made = Compressed { layout, compressed, plain, values: values.clone(), sizes: DimVec::new() };
    check_shapes(name, &made)?;
    made.sizes = match size {
        Some(size) => size.into(),
        None => sizes_of(&made)?,
    };
    check_sizes(name, &made)?;
    check_order(name, &made)?;
    made.into_tensor()
}

fn constructor_name(layout: Layout) -> Result<&'static str> {
    Ok(match layout {
        Layout::SparseCsr => "sparse_csr_tensor",
        Layout::SparseCsc => "sparse_csc_tensor",
        Layout::SparseBsr => "sparse_bsr_tensor",
        Layout::SparseBsc => "sparse_bsc_tensor",
        other => bail!(
            InvalidArgument("sparse_compressed_tensor", "layout"),
            "expected a compressed layout but got {other}"
        ),
    })
}

fn check_shapes(name: &str, of: &Compressed) -> Result<()> {
    let (compressed, plain, values) = (of.compressed.sizes(), of.plain.sizes(), of.values.sizes());
    let is_split = |n: usize| {
        plain.len() == n
            && values.len() >= n + if of.layout.is_blocked() { 2 } else { 0 }
            && compressed[..n - 1] == plain[..n - 1]
            && plain == &values[..n]
            && compressed[n - 1] >= 1
    };
    ensure!(
        !compressed.is_empty() && is_split(compressed.len()),
        Shape(name, "values"),
        "expected pointers of [*batch, n + 1], indices of [*batch, nnz] and values of [*batch, nnz, {}*dense] but got sizes \
         {compressed:?}, {plain:?} and {values:?}",
        if of.layout.is_blocked() { "*block, " } else { "" }
    );
    Ok(())
}

/// The numbers of compressed and of plain indices that a size allows, in blocks.
fn counts(of: &Compressed) -> [i64; 2] {
    let batch = of.batch_dim();
    let block = of.block_sizes().map(|size| size.max(1));
    let counts = [of.sizes[batch] / block[0], of.sizes[batch + 1] / block[1]];
    if of.layout.has_compressed_rows() { counts } else { [counts[1], counts[0]] }
}

/// The size for which no index is out of bounds.
fn sizes_of(of: &Compressed) -> Result<DimVec> {
    let batch = of.batch_dim();
    let majors = of.compressed.sizes()[batch] - 1;
    let minors = match of.plain.numel() {
        0 => 0,
        _ => ops::amax(&of.plain, &[], false)?.item_scalar()?.to_i64().saturating_add(1),
    };
    let [rows, columns] = if of.layout.has_compressed_rows() { [majors, minors] } else { [minors, majors] };
    let block = of.block_sizes();
    let dense = batch + 1 + if of.layout.is_blocked() { 2 } else { 0 };
    let matrix = [rows.saturating_mul(block[0]), columns.saturating_mul(block[1])];
    Ok(joined(&[&of.plain.sizes()[..batch], &matrix, &of.values.sizes()[dense..]]))
}

fn check_sizes(name: &str, of: &Compressed) -> Result<()> {
    let (batch, block) = (of.batch_dim(), of.block_sizes());
    let dense = &of.values.sizes()[batch + 1 + if of.layout.is_blocked() { 2 } else { 0 }..];
    let fits = of.sizes.len() == batch + 2 + dense.len()
        && of.sizes[..batch] == of.plain.sizes()[..batch]
        && of.sizes[batch + 2..] == *dense
        && (0..2).all(|d| block[d] > 0 && of.sizes[batch + d] % block[d] == 0)
        && counts(of)[0] == of.compressed.sizes()[batch] - 1;
    ensure!(
        fits,
        Shape(name, "size"),
        "expected a size of {} rows or columns of blocks of {block:?}, with dense sizes {dense:?}, but got {:?}",
        of.compressed.sizes()[batch] - 1,
        of.sizes
    );
    Ok(())
}

/// Checks pointers, and that indices ascend in each row and are in bounds.
fn check_order(name: &str, of: &Compressed) -> Result<()> {
    let (pointers, plain) = (as_long(&of.compressed)?.to_vec::<i64>()?, as_long(&of.plain)?.to_vec::<i64>()?);
    let [majors, minors] = counts(of);
    let nnz = of.nnz();
    let per_batch = |batch: usize, list: &[i64], each: i64| -> Vec<i64> {
        list.iter().skip(batch * each as usize).take(each as usize).copied().collect()
    };
    for batch in 0..pointers.len() / (majors as usize + 1) {
        let pointers = per_batch(batch, &pointers, majors + 1);
        let plain = per_batch(batch, &plain, nnz);
        ensure!(
            pointers.first() == Some(&0) && pointers.last() == Some(&nnz) && pointers.is_sorted(),
            InvalidArgument(name, "indices"),
            "expected pointers that ascend from 0 to {nnz}, the number of values"
        );
        if let Some(index) = plain.iter().find(|index| !(0..minors).contains(*index)) {
            bail!(Index(name, "indices"), "index {index} is out of bounds for {minors} rows or columns");
        }
        let ascends = |row: &[i64]| plain[row[0] as usize..row[1] as usize].is_sorted_by(|a, b| a < b);
        ensure!(
            pointers.windows(2).all(ascends),
            InvalidArgument(name, "indices"),
            "expected distinct indices in ascending order in each row or column"
        );
    }
    Ok(())
}

/// Checks the parts of a sparse tensor as its constructor does.
///
/// # Errors
/// Those of the constructors.
pub fn validate(tensor: &Tensor) -> Result<()> {
    if tensor.layout() == Layout::SparseCoo {
        let coo = Coo::of(tensor)?;
        let coalesced = Some(coo.is_coalesced).filter(|is_coalesced| *is_coalesced);
        sparse_coo_tensor(&coo.indices, &coo.values, Some(&coo.sizes), coalesced)?;
        return Ok(());
    }
    let of = Compressed::of(tensor)?;
    sparse_compressed_tensor(of.layout, &of.compressed, &of.plain, &of.values, Some(&of.sizes))?;
    Ok(())
}

macro_rules! compressed {
    ($($name:ident: $layout:ident, $doc:literal, $compressed:ident, $plain:ident;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// Those of [`sparse_compressed_tensor`].
        pub fn $name(
            $compressed: &Tensor,
            $plain: &Tensor,
            values: &Tensor,
            size: Option<&[i64]>,
        ) -> Result<Tensor> {
            sparse_compressed_tensor(Layout::$layout, $compressed, $plain, values, size)
        }
    )*};
}

compressed! {
    sparse_csr_tensor: SparseCsr, "A tensor of compressed rows.", crow_indices, col_indices;
    sparse_csc_tensor: SparseCsc, "A tensor of compressed columns.", ccol_indices, row_indices;
    sparse_bsr_tensor: SparseBsr, "A tensor of compressed rows of blocks.", crow_indices, col_indices;
    sparse_bsc_tensor: SparseBsc, "A tensor of compressed columns of blocks.", ccol_indices, row_indices;
}
