//! The operators on the parts of sparse tensors: coordinates, compressed rows, values. The rules of sparse tensors call them.
//!
//! Indices out of range are faults, which the next wait reports. The number of elements of a pattern is waited for.

use super::scatter::flat_nonzero;
use super::sort::sorted_rows;
use super::{dense_as, empty, meta, name_of, program, to_device};
use crate::launch::{Argument, Arguments, Grid, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, bail, ensure, shape};
use flambeau_ops::native::sparse::{coo, csr_matmul, csr_mm as host_mm, csr_solve as host_solve, pointers};
use flambeau_ops::{Tensor, ops, register};

register!(ops::_COO_ORDER, Cuda, coo_order);
register!(ops::_SEGMENT_SUM, Cuda, segment_sum);
register!(ops::_CONVERT_INDICES_FROM_COO_TO_CSR, Cuda, coo_to_csr);
register!(ops::_CONVERT_INDICES_FROM_CSR_TO_COO, Cuda, csr_to_coo);
register!(ops::_CSR_TRANSPOSE, Cuda, csr_transpose);
register!(ops::_CSR_SELECT_ROWS, Cuda, csr_select_rows);
register!(ops::_CSR_MM, Cuda, csr_mm);
register!(ops::_CSR_SAMPLED_MM, Cuda, csr_sampled_mm);
register!(ops::_CSR_MATMUL_PATTERN, Cuda, csr_matmul_pattern);
register!(ops::_CSR_MATMUL_VALUES, Cuda, csr_matmul_values);
register!(ops::_CSR_SOLVE, Cuda, csr_solve);

const SOURCE: &str = include_str!("../kernels/sparse.cu");
const LONG: ScalarType = ScalarType::I64;
const ONE: Scalar = Scalar::Int(1);

/// A kernel of the program: its name in the source, the operator, and the type of values if there are any.
struct Kernel {
    flag: &'static str,
    operator: &'static str,
    dtype: Option<ScalarType>,
}

fn definitions(flag: &str, dtype: Option<&str>) -> String {
    let dtype = dtype.map_or(String::new(), |dtype| format!("typedef {dtype} T;\n"));
    format!("{dtype}#define {flag}\n")
}

impl Kernel {
    fn of_indices(flag: &'static str, operator: &'static str) -> Self {
        Kernel { flag, operator, dtype: None }
    }

    fn of_values(flag: &'static str, operator: &'static str, values: &Tensor) -> Self {
        Kernel { flag, operator, dtype: Some(values.dtype()) }
    }

    /// Launches a thread for each of the first of `numbers`. The arguments are numbers, then tensors; 0 stands for one that is not given.
    fn run(&self, numbers: &[i64], reads: &[Option<&Tensor>], out: &Tensor) -> Result<()> {
        let threads = numbers.first().copied().unwrap_or(0);
        if threads == 0 {
            return Ok(());
        }
        let dtype = self.dtype.map(|dtype| name_of(self.operator, dtype)).transpose()?;
        let definitions = definitions(self.flag, dtype);
        let given: Vec<&Tensor> = reads.iter().copied().flatten().collect();
        guarded(self.operator, &given, &[out], |gpu| {
            let function =
                gpu.function(&format!("sparse {definitions}"), || program(&definitions, &[SOURCE]))?;
            let fault = [gpu.faults.address, gpu.faults.number_of(self.operator) as u64];
            let mut arguments = numbers.iter().fold(Arguments::new(), |all, number| all.int(*number));
            for tensor in reads {
                arguments = arguments.word(tensor.map_or(0, crate::launch::address));
            }
            arguments = arguments.tensor(out);
            arguments.push(Argument::Struct64(&fault));
            gpu.launch(function, Grid::of(threads, 256), &arguments)
        })
    }

    /// The same into a new list of indices.
    fn indices(&self, numbers: &[i64], reads: &[Option<&Tensor>], count: i64) -> Result<Tensor> {
        let Some(like) = reads.iter().copied().flatten().next() else {
            bail!(Internal(self.operator), "cuda: a kernel of indices reads nothing")
        };
        let out = empty(&[count], LONG, like.device())?;
        self.run(numbers, reads, &out)?;
        Ok(out)
    }
}

/// Where each of `size` rows starts in an ascending list of rows, and where the last one ends.
fn pointers_of(operator: &'static str, list: &Tensor, size: i64) -> Result<Tensor> {
    let count = list.numel();
    let kernel = Kernel::of_indices("POINTERS", operator);
    kernel.indices(&[count.max(size + 1), size, count], &[Some(list)], size + 1)
}

/// The row of each of `count` positions.
fn rows_of(operator: &'static str, crow: &Tensor, count: i64) -> Result<Tensor> {
    let kernel = Kernel::of_indices("ROWS", operator);
    kernel.indices(&[count, crow.numel() - 1], &[Some(crow)], count)
}

fn of_width(indices: Tensor, out_int32: bool) -> Result<Tensor> {
    if out_int32 { dense_as(&indices, ScalarType::I32) } else { Ok(indices) }
}

fn coo_to_csr(_: DispatchKeySet, self_: &Tensor, size: i64, out_int32: bool) -> Result<Tensor> {
    pointers::convert_indices_from_coo_to_csr(&meta(self_)?, size, out_int32)?;
    let pointers = pointers_of("_convert_indices_from_coo_to_csr", &dense_as(self_, LONG)?, size)?;
    of_width(pointers, out_int32)
}

fn csr_to_coo(
    _: DispatchKeySet,
    crow_indices: &Tensor,
    col_indices: &Tensor,
    out_int32: bool,
    transpose: bool,
) -> Result<Tensor> {
    const NAME: &str = "_convert_indices_from_csr_to_coo";
    pointers::convert_indices_from_csr_to_coo(
        &meta(crow_indices)?,
        &meta(col_indices)?,
        out_int32,
        transpose,
    )?;
    ensure_pointers(NAME, crow_indices)?;
    let (crow, col) = (dense_as(crow_indices, LONG)?, dense_as(col_indices, LONG)?);
    let rows = rows_of(NAME, &crow, col.numel())?;
    of_width(ops::stack(&if transpose { [col, rows] } else { [rows, col] }, 0)?, out_int32)
}

/// Requires that there is a pointer, that of the end.
fn ensure_pointers(operator: &str, crow: &Tensor) -> Result<()> {
    ensure!(
        crow.numel() > 0,
        InvalidArgument(operator, "crow"),
        "expected a pointer for each row, and one for the end, but got none"
    );
    Ok(())
}

/// The number of elements of the rows, and whether the pointers ascend, are waited for.
fn csr_select_rows(_: DispatchKeySet, crow: &Tensor, index: &Tensor, count: i64) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_csr_select_rows";
    ensure_pointers(NAME, crow)?;
    let (crow, index) = (dense_as(crow, LONG)?, dense_as(index, LONG)?);
    let rows = crow.numel() - 1;
    let of = |start: i64| ops::index_select(&ops::narrow(&crow, 0, start, rows)?, 0, &index);
    let (begins, ends) = (of(0)?, of(1)?);
    let lengths = ops::sub_tensor(&ends, &begins, ONE)?;
    let pointers = ops::constant_pad_nd(&ops::cumsum(&lengths, 0, None)?, &[1, 0], Scalar::Int(0))?;
    // The smallest of all that must not be negative.
    let slack = ops::rsub_scalar(&ends, Scalar::Int(count), ONE)?;
    let signs = ops::cat(
        &[begins.clone(), lengths, slack, ops::zeros_like(&pointers, None, None, None, None, None)?],
        0,
    )?;
    ensure!(
        ops::min(&signs)?.item::<i64>()? >= 0,
        InvalidArgument(NAME, "crow"),
        "expected pointers that ascend from 0 to {count}, the number of indices"
    );
    let total = ops::select_int(&pointers, 0, -1)?.item::<i64>()?;
    let shifts = ops::sub_tensor(&begins, &ops::narrow(&pointers, 0, 0, index.numel())?, ONE)?;
    let own = ops::arange(Scalar::Int(total), Some(LONG), None, Some(crow.device()), None)?;
    let positions =
        ops::add_tensor(&own, &ops::index_select(&shifts, 0, &rows_of(NAME, &pointers, total)?)?, ONE)?;
    Ok((pointers, positions))
}

fn csr_transpose(
    _: DispatchKeySet,
    crow: &Tensor,
    col: &Tensor,
    columns: i64,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "_csr_transpose";
    pointers::csr_transpose(&meta(crow)?, &meta(col)?, columns)?;
    ensure_pointers(NAME, crow)?;
    let (crow, col) = (dense_as(crow, LONG)?, dense_as(col, LONG)?);
    // A stable sort by columns keeps the order of rows.
    let (sorted, order) = sorted_rows(NAME, &col, false)?;
    let rows = ops::index_select(&rows_of(NAME, &crow, col.numel())?, 0, &order)?;
    Ok((pointers_of(NAME, &sorted, columns)?, rows, order))
}

/// In an ascending list, whether each element is the first of its value.
fn firsts(sorted: &Tensor) -> Result<Tensor> {
    let count = sorted.numel();
    let flags = empty(&[count], ScalarType::Bool, sorted.device())?;
    if count > 0 {
        ops::fill__scalar(&ops::narrow(&flags, 0, 0, 1)?, Scalar::Bool(true))?;
        let others = |start| ops::narrow(sorted, 0, start, count - 1);
        ops::copy_(
            &ops::narrow(&flags, 0, 1, count - 1)?,
            &ops::ne_tensor(&others(1)?, &others(0)?)?,
            false,
        )?;
    }
    Ok(flags)
}

fn coo_order(_: DispatchKeySet, indices: &Tensor, size: &[i64]) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "_coo_order";
    coo::check_coordinates(NAME, indices, size)?;
    let indices = dense_as(indices, LONG)?;
    let count = indices.sizes()[1];
    let sizes = to_device(&Tensor::from_vec(size.to_vec(), &[size.len() as i64])?, indices.device())?;
    let kernel = Kernel::of_indices("KEYS", NAME);
    let keys = kernel.indices(&[count, size.len() as i64], &[Some(&sizes), Some(&indices)], count)?;
    let (sorted, order) = sorted_rows(NAME, &keys, false)?;
    let flags = firsts(&sorted)?;
    let end = ops::full(&[1], Scalar::Int(count), Some(LONG), None, Some(indices.device()), None)?;
    let starts = ops::cat(&[flat_nonzero(NAME, &flags)?, end], 0)?;
    let numbers = ops::sub_scalar(&ops::cumsum(&flags, 0, Some(LONG))?, ONE, ONE)?;
    let groups = ops::scatter_src(&numbers, 0, &order, &numbers)?;
    Ok((order, starts, groups))
}

fn segment_sum(
    _: DispatchKeySet,
    values: &Tensor,
    order: Option<&Tensor>,
    starts: &Tensor,
    groups: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "_segment_sum";
    let order = order.map(|order| dense_as(order, LONG)).transpose()?;
    let without_values = order.as_ref().map(meta).transpose()?;
    let shape = coo::segment_sum(&meta(values)?, without_values.as_ref(), &meta(starts)?, &meta(groups)?)?;
    let (starts, values) = (dense_as(starts, LONG)?, dense_as(values, values.dtype())?);
    let out = empty(shape.sizes(), values.dtype(), values.device())?;
    let (rows, width) = (values.sizes()[0], shape::numel(&out.sizes()[1..])?);
    let listed = order.as_ref().map_or(rows, Tensor::numel);
    let kernel = Kernel::of_values("SEGMENTS", NAME, &values);
    kernel.run(&[out.numel(), width, rows, listed], &[Some(&starts), order.as_ref(), Some(&values)], &out)?;
    Ok(out)
}

fn csr_mm(
    _: DispatchKeySet,
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    matrix: &Tensor,
) -> Result<Tensor> {
    let shape = host_mm::csr_mm(&meta(crow)?, &meta(col)?, &meta(values)?, &meta(matrix)?)?;
    let (crow, col) = (dense_as(crow, LONG)?, dense_as(col, LONG)?);
    let (values, matrix) = (dense_as(values, values.dtype())?, dense_as(matrix, matrix.dtype())?);
    let out = empty(shape.sizes(), values.dtype(), values.device())?;
    let numbers = [out.numel(), shape.sizes()[1], col.numel(), matrix.sizes()[0]];
    let kernel = Kernel::of_values("TIMES_DENSE", "_csr_mm", &values);
    kernel.run(&numbers, &[Some(&crow), Some(&col), Some(&values), Some(&matrix)], &out)?;
    Ok(out)
}

fn csr_sampled_mm(
    _: DispatchKeySet,
    crow: &Tensor,
    col: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "_csr_sampled_mm";
    host_mm::csr_sampled_mm(&meta(crow)?, &meta(col)?, &meta(mat1)?, &meta(mat2)?)?;
    let (crow, col) = (dense_as(crow, LONG)?, dense_as(col, LONG)?);
    let (a, b) = (dense_as(mat1, mat1.dtype())?, dense_as(mat2, mat2.dtype())?);
    let out = empty(col.sizes(), a.dtype(), a.device())?;
    let rows = rows_of(NAME, &crow, col.numel())?;
    let numbers = [col.numel(), a.sizes()[1], b.sizes()[0]];
    let kernel = Kernel::of_values("SAMPLED", NAME, &a);
    kernel.run(&numbers, &[Some(&rows), Some(&col), Some(&a), Some(&b)], &out)?;
    Ok(out)
}

/// All products of elements are listed by their positions in the result, of which the different ones are the pattern.
fn csr_matmul_pattern(
    _: DispatchKeySet,
    crow1: &Tensor,
    col1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    columns: i64,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_csr_matmul_pattern";
    let list = |list: &Tensor| {
        ensure!(
            list.dim() == 1 && list.dtype().is_integral(false),
            Dtype(NAME, "indices"),
            "expected a list of integers but got {}",
            list.signature()
        );
        dense_as(list, LONG)
    };
    let (crow1, col1, crow2, col2) = (list(crow1)?, list(col1)?, list(crow2)?, list(col2)?);
    ensure_pointers(NAME, &crow1)?;
    ensure_pointers(NAME, &crow2)?;
    let (rows, inner, elements) = (crow1.numel() - 1, crow2.numel() - 1, col1.numel());
    ensure!(
        rows.checked_mul(columns).is_some(),
        Overflow(NAME),
        "expected a matrix of fewer than 2^63 elements but got {rows} x {columns}"
    );
    let lengths =
        ops::sub_tensor(&ops::narrow(&crow2, 0, 1, inner)?, &ops::narrow(&crow2, 0, 0, inner)?, ONE)?;
    let ends = ops::cumsum(&ops::index_select(&lengths, 0, &col1)?, 0, None)?;
    let count = match elements {
        0 => 0,
        _ => ops::select_int(&ends, 0, elements - 1)?.item::<i64>()?,
    };
    let of_rows = rows_of(NAME, &crow1, elements)?;
    let reads = [Some(&ends), Some(&of_rows), Some(&col1), Some(&crow2), Some(&col2)];
    let numbers = [count, elements, inner, col2.numel(), columns];
    let keys = Kernel::of_indices("EXPAND", NAME).indices(&numbers, &reads, count)?;
    let (sorted, _) = sorted_rows(NAME, &keys, false)?;
    let positions = ops::index_select(&sorted, 0, &flat_nonzero(NAME, &firsts(&sorted)?)?)?;
    let width = Scalar::Int(columns.max(1));
    let (found, col) =
        (ops::div_scalar_mode(&positions, width, Some("floor"))?, ops::remainder_scalar(&positions, width)?);
    Ok((pointers_of(NAME, &found, rows)?, col))
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn csr_matmul_values(
    _: DispatchKeySet,
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    const NAME: &str = "_csr_matmul_values";
    csr_matmul::csr_matmul_values(
        &meta(crow1)?,
        &meta(col1)?,
        &meta(values1)?,
        &meta(crow2)?,
        &meta(col2)?,
        &meta(values2)?,
        &meta(crow)?,
        &meta(col)?,
        columns,
    )?;
    let list = |list: &Tensor| dense_as(list, LONG);
    let (crow1, col1, crow2, col2) = (list(crow1)?, list(col1)?, list(crow2)?, list(col2)?);
    let (crow, col) = (list(crow)?, list(col)?);
    let (a, b) = (dense_as(values1, values1.dtype())?, dense_as(values2, values2.dtype())?);
    let out = empty(col.sizes(), a.dtype(), a.device())?;
    ensure_pointers(NAME, &crow)?;
    let rows = rows_of(NAME, &crow, col.numel())?;
    let numbers = [col.numel(), col1.numel(), col2.numel(), crow2.numel() - 1];
    let reads = [&rows, &col, &crow1, &col1, &a, &crow2, &col2, &b].map(Some);
    Kernel::of_values("TIMES_SPARSE", NAME, &a).run(&numbers, &reads, &out)?;
    Ok(out)
}

fn csr_solve(
    _: DispatchKeySet,
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    rhs: &Tensor,
    upper: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    const NAME: &str = "_csr_solve";
    host_solve::csr_solve(&meta(crow)?, &meta(col)?, &meta(values)?, &meta(rhs)?, upper, unitriangular)?;
    let dtype = values.dtype();
    ensure!(
        matches!(dtype, ScalarType::F32 | ScalarType::F64),
        NotImplemented(NAME, "values"),
        "\"{NAME}\" not implemented for '{dtype}'"
    );
    let (crow, col, values) = (dense_as(crow, LONG)?, dense_as(col, LONG)?, dense_as(values, dtype)?);
    let out = empty(rhs.sizes(), dtype, rhs.device())?;
    ops::copy_(&out, rhs, false)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let numbers = [rhs.sizes()[1], rhs.sizes()[0], col.numel(), i64::from(upper), i64::from(unitriangular)];
    Kernel::of_values("SOLVE", NAME, &values).run(
        &numbers,
        &[Some(&crow), Some(&col), Some(&values)],
        &out,
    )?;
    Ok(out)
}

/// Every program of this module.
pub(super) fn programs() -> Vec<(String, String)> {
    let of_indices = ["POINTERS", "ROWS", "KEYS", "EXPAND"].map(|flag| definitions(flag, None));
    let of_values = ["SEGMENTS", "TIMES_DENSE", "SAMPLED", "TIMES_SPARSE"].iter().flat_map(|flag| {
        ["float", "double", "float16", "int64", "boolean"].map(|dtype| definitions(flag, Some(dtype)))
    });
    let solve = ["float", "double"].map(|dtype| definitions("SOLVE", Some(dtype)));
    let all = of_indices.into_iter().chain(of_values).chain(solve);
    all.map(|definitions| (format!("sparse {definitions}"), program(&definitions, &[SOURCE]))).collect()
}
