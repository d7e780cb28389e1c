//! Derivatives of views, joins, indexing and sorting, of both orders, against differences.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a call that fails, fails the test")]

use flambeau_autograd::{Autograd, gradcheck, gradgradcheck};
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

/// Distinct numbers, far enough apart that differences change no order.
fn x(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let values = (0..n).map(|i| ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0).collect();
    let made = Tensor::from_vec(values, sizes).unwrap();
    made.requires_grad_(true).unwrap();
    made
}

fn ix(values: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), sizes).unwrap()
}

fn mask(values: &[i64]) -> Tensor {
    let dtype = Some(ScalarType::Bool);
    ops::_to_copy(&ix(values, &[values.len() as i64]), dtype, None, None, None, false, None).unwrap()
}

/// Both orders; results are squared first, so that second derivatives are not zero.
fn check(name: &str, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    let squared = |x: &[Tensor]| f(x)?.iter().map(|y| ops::mul_tensor(y, y)).collect::<Result<Vec<_>>>();
    gradcheck(squared, inputs).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    gradgradcheck(squared, inputs).unwrap_or_else(|e| panic!("{name}, twice: {e:?}"));
}

#[test]
fn views() {
    let one = [x(&[3, 4])];
    check("squeeze", |a| Ok(vec![ops::squeeze(&ops::unsqueeze(&a[0], 1)?)?]), &one);
    check("squeeze.dim", |a| Ok(vec![ops::squeeze_dim(&ops::unsqueeze(&a[0], 1)?, 1)?]), &one);
    check("diagonal", |a| Ok(vec![ops::diagonal(&a[0], 1, 0, 1)?]), &one);
    check("unfold", |a| Ok(vec![ops::unfold(&a[0], 1, 3, 1)?]), &one);
    check("split", |a| ops::split_tensor(&a[0], 3, 1), &one);
    check("split, in part", |a| Ok(ops::split_tensor(&a[0], 3, 1)?[1..].to_vec()), &one);
    check("split_with_sizes", |a| ops::split_with_sizes(&a[0], &[1, 3], 1), &one);
    check("unbind", |a| Ok(ops::unbind_int(&a[0], 0)?[..2].to_vec()), &one);
    check("chunk", |a| ops::chunk(&a[0], 2, 1), &one);
    check("movedim", |a| Ok(vec![ops::movedim_int(&a[0], 0, 1)?]), &one);
    check("diag_embed", |a| Ok(vec![ops::diag_embed(&a[0], -1, 0, 2)?]), &one);
    let in_place = |x: &Tensor, f: &dyn Fn(&Tensor) -> Result<()>| {
        let made = ops::mul_tensor(x, x)?;
        f(&made)?;
        Ok(vec![ops::select_int(&made, 0, 1)?])
    };
    check("t_", |a| in_place(&a[0], &ops::t_), &one);
    check("transpose_", |a| in_place(&a[0], &|t| ops::transpose_(t, 0, -1)), &one);
    let two = [x(&[3, 4]), x(&[3])];
    check("select_scatter", |a| Ok(vec![ops::select_scatter(&a[0], &a[1], 1, 2)?]), &two);
    check("diagonal_scatter", |a| Ok(vec![ops::diagonal_scatter(&a[0], &a[1], 0, 0, 1)?]), &two);
    let wide = [x(&[3, 4]), x(&[3, 2])];
    check("slice_scatter", |a| Ok(vec![ops::slice_scatter(&a[0], &a[1], 1, Some(0), None, 2)?]), &wide);
}

#[test]
fn joins_and_arrangements() {
    let two = [x(&[2, 3]), x(&[2, 1])];
    check("cat", |a| Ok(vec![ops::cat(&[a[0].clone(), a[1].clone(), a[0].clone()], 1)?]), &two);
    let one = [x(&[2, 3])];
    check("stack", |a| Ok(vec![ops::stack(&[a[0].clone(), a[0].clone()], -1)?]), &one);
    check("repeat", |a| Ok(vec![ops::repeat(&a[0], &[2, 1, 3])?]), &one);
    check("flip", |a| Ok(vec![ops::flip(&a[0], &[0, 1])?]), &one);
    check("roll", |a| Ok(vec![ops::roll(&a[0], &[1, -2], &[0, 1])?]), &one);
    check("rot90", |a| Ok(vec![ops::rot90(&a[0], 1, &[0, 1])?]), &one);
    check("pad", |a| Ok(vec![ops::constant_pad_nd(&a[0], &[1, -1, 2, 0], Scalar::Int(3))?]), &one);
    let counts = ix(&[2, 0, 1], &[3]);
    check(
        "repeat_interleave",
        |a| Ok(vec![ops::repeat_interleave_self_tensor(&a[0], &counts, Some(1), None)?]),
        &one,
    );
}

#[test]
fn indices() {
    let index = ix(&[2, 0, 1, 0, 0, 2], &[2, 3]);
    let row = ix(&[2, 0, 2], &[3]);
    let one = [x(&[3, 4])];
    let lists = [Some(row.clone()), Some(ix(&[1, -1, 1], &[3]))];
    check("gather", |a| Ok(vec![ops::gather(&a[0], 0, &index, false)?]), &one);
    check("index_select", |a| Ok(vec![ops::index_select(&a[0], 1, &row)?]), &one);
    check("index", |a| Ok(vec![ops::index_tensor(&a[0], &lists)?]), &one);
    check("take", |a| Ok(vec![ops::take(&a[0], &index)?]), &one);
    check("index_fill", |a| Ok(vec![ops::index_fill_int_scalar(&a[0], 1, &row, Scalar::Int(2))?]), &one);
    check("masked_select", |a| Ok(vec![ops::masked_select(&a[0], &mask(&[1, 0, 0, 1]))?]), &one);
    check("embedding", |a| Ok(vec![ops::embedding(&a[0], &index, -1, false, false)?]), &one);
    let two = [x(&[3, 4]), x(&[2, 3])];
    let distinct = ix(&[2, 0, 1, 0, 1, 2], &[2, 3]);
    check("scatter", |a| Ok(vec![ops::scatter_src(&a[0], 0, &distinct, &a[1])?]), &two);
    check("scatter_add", |a| Ok(vec![ops::scatter_add(&a[0], 0, &index, &a[1])?]), &two);
    let slices = [x(&[3, 4]), x(&[3, 3])];
    check("index_add", |a| Ok(vec![ops::index_add(&a[0], 1, &row, &a[1], Scalar::Int(3))?]), &slices);
    check("index_copy", |a| Ok(vec![ops::index_copy(&a[0], 1, &ix(&[3, 0, 1], &[3]), &a[1])?]), &slices);
    let values = [x(&[3, 4]), x(&[3])];
    check("index_put, added", |a| Ok(vec![ops::index_put(&a[0], &lists, &a[1], true)?]), &values);
    let once = [Some(ix(&[2, 0, 1], &[3])), None];
    let rows = [x(&[3, 4]), x(&[3, 4])];
    check("index_put", |a| Ok(vec![ops::index_put(&a[0], &once, &a[1], false)?]), &rows);
    check("put", |a| Ok(vec![ops::put(&a[0], &row, &a[1], true)?]), &values);
    let some = [x(&[3, 4]), x(&[7])];
    check("masked_scatter", |a| Ok(vec![ops::masked_scatter(&a[0], &mask(&[1, 0, 0, 1]), &a[1])?]), &some);
}

#[test]
fn orders() {
    let one = [x(&[3, 4])];
    check("sort", |a| Ok(vec![ops::sort(&a[0], 1, true)?.0]), &one);
    check("sort.stable", |a| Ok(vec![ops::sort_stable(&a[0], Some(true), 0, false)?.0]), &one);
    check("topk", |a| Ok(vec![ops::topk(&a[0], 2, 1, true, true)?.0]), &one);
}
