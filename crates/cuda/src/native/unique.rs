//! `unique` and `unique_consecutive`, of elements or of slices: where sorted ones differ from those before them, a run begins.

use super::scatter::flat_nonzero;
use super::sort::{run_starts, sorted_rows};
use super::{dense, empty};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, ensure, shape};
use flambeau_ops::{Tensor, ops, register};

register!(ops::_UNIQUE2, Cuda, unique2);
register!(ops::UNIQUE_CONSECUTIVE, Cuda, unique_consecutive);
register!(ops::UNIQUE_DIM, Cuda, unique_dim);
register!(ops::UNIQUE_DIM_CONSECUTIVE, Cuda, unique_dim_consecutive);

const ONE: Scalar = Scalar::Int(1);

type Triple = (Tensor, Tensor, Tensor);

fn unique2(
    _: DispatchKeySet,
    self_: &Tensor,
    _: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<Triple> {
    let (values, order) = sorted_rows("_unique2", &ops::view(&dense(self_)?, &[self_.numel()])?, false)?;
    of_elements(self_, &values, Some(&order), [return_inverse, return_counts])
}

fn unique_consecutive(
    _: DispatchKeySet,
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<Triple> {
    if let Some(dim) = dim {
        ensure!(
            self_.dim() > 0,
            Index("unique_consecutive", "dim"),
            "Dimension specified as {dim} but tensor has no dimensions"
        );
        let (values, inverse, counts) = of_slices("unique_consecutive", self_, dim, false)?;
        let inverse = if return_inverse { inverse } else { no_integers(self_)? };
        return Ok((values, inverse, if return_counts { counts } else { no_integers(self_)? }));
    }
    let flat = ops::view(&dense(self_)?, &[self_.numel()])?;
    of_elements(self_, &flat, None, [return_inverse, return_counts])
}

fn unique_dim(_: DispatchKeySet, self_: &Tensor, dim: i64, _: bool, _: bool, _: bool) -> Result<Triple> {
    of_slices("unique_dim", self_, dim, true)
}

fn unique_dim_consecutive(_: DispatchKeySet, self_: &Tensor, dim: i64, _: bool, _: bool) -> Result<Triple> {
    of_slices("unique_dim_consecutive", self_, dim, false)
}

fn no_integers(like: &Tensor) -> Result<Tensor> {
    empty(&[0], ScalarType::I64, like.device())
}

/// The first elements of runs, the number of the run of each element of `self_`, and the lengths of runs.
fn of_elements(
    self_: &Tensor,
    values: &Tensor,
    order: Option<&Tensor>,
    [return_inverse, return_counts]: [bool; 2],
) -> Result<Triple> {
    let starts = dense(&run_starts(values)?)?;
    let firsts = flat_nonzero("unique", &starts)?;
    let inverse = match return_inverse {
        true => ops::view(&run_numbers(&starts, order)?, self_.sizes())?,
        false => no_integers(self_)?,
    };
    let counts = if return_counts { lengths(&firsts, values.numel())? } else { no_integers(self_)? };
    Ok((ops::index_select(values, 0, &firsts)?, inverse, counts))
}

/// The number of the run of each element, in the order before the sort.
fn run_numbers(starts: &Tensor, order: Option<&Tensor>) -> Result<Tensor> {
    let numbers = ops::sub_scalar(&ops::cumsum(starts, 0, Some(ScalarType::I64))?, ONE, ONE)?;
    match order {
        Some(order) => ops::scatter_src(&numbers, 0, order, &numbers),
        None => Ok(numbers),
    }
}

/// The lengths of the runs that begin at `firsts`, of `count` elements.
fn lengths(firsts: &Tensor, count: i64) -> Result<Tensor> {
    let runs = firsts.numel();
    if runs == 0 {
        return no_integers(firsts);
    }
    let end = ops::full(&[1], Scalar::Int(count), Some(ScalarType::I64), None, Some(firsts.device()), None)?;
    let ends = ops::cat(&[ops::narrow(firsts, 0, 1, runs - 1)?, end], 0)?;
    ops::sub_tensor(&ends, firsts, ONE)
}

/// The first slices of runs along a dimension, the numbers of the runs, and their lengths.
fn of_slices(name: &'static str, self_: &Tensor, dim: i64, sort: bool) -> Result<Triple> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|error| error.in_operator(name))?;
    let count = self_.sizes().get(d).copied().unwrap_or(1);
    let empty_dims = self_.sizes().iter().filter(|size| **size == 0).count();
    ensure!(
        empty_dims == 0 || (count == 0 && empty_dims == 1),
        InvalidArgument(name, "self"),
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    let slices = if self_.dim() == 0 { self_.clone() } else { ops::movedim_int(self_, d as i64, 0)? };
    if count == 0 {
        return Ok((ops::clone(self_, None)?, no_integers(self_)?, no_integers(self_)?));
    }
    let rows = ops::reshape(&dense(&slices)?, &[count, -1])?;
    let order = if sort { Some(lexicographic_order(name, &rows)?) } else { None };
    let sorted = match &order {
        Some(order) => ops::index_select(&rows, 0, order)?,
        None => rows,
    };
    let starts = slice_starts(&sorted)?;
    let firsts = flat_nonzero(name, &starts)?;
    let chosen_positions = match &order {
        Some(order) => ops::index_select(order, 0, &firsts)?,
        None => firsts.clone(),
    };
    let inverse = run_numbers(&starts, order.as_ref())?;
    let chosen = match self_.dim() {
        0 => ops::reshape(&slices, &[1])?,
        _ => ops::movedim_int(&ops::index_select(&dense(&slices)?, 0, &chosen_positions)?, 0, d as i64)?,
    };
    Ok((chosen, inverse, lengths(&firsts, count)?))
}

/// The order of rows by their first elements, then their second, and so on: stable sorts, by the last elements first.
fn lexicographic_order(name: &'static str, rows: &Tensor) -> Result<Tensor> {
    let (count, width) = (rows.sizes()[0], rows.sizes()[1]);
    let mut order = ops::arange(Scalar::Int(count), Some(ScalarType::I64), None, Some(rows.device()), None)?;
    for column in (0..width).rev() {
        let keys = ops::index_select(&ops::select_int(rows, 1, column)?, 0, &order)?;
        let (_, positions) = sorted_rows(name, &dense(&keys)?, false)?;
        order = ops::index_select(&order, 0, &positions)?;
    }
    Ok(order)
}

/// Whether each row differs from the one before it, as a dense vector.
fn slice_starts(rows: &Tensor) -> Result<Tensor> {
    let count = rows.sizes()[0];
    let first = ops::ones(&[1], Some(ScalarType::Bool), None, Some(rows.device()), None)?;
    if count < 2 {
        return Ok(first);
    }
    let (above, below) = (ops::narrow(rows, 0, 0, count - 1)?, ops::narrow(rows, 0, 1, count - 1)?);
    dense(&ops::cat(&[first, ops::any_dim(&ops::ne_tensor(&above, &below)?, 1, false)?], 0)?)
}
