//! Reductions against a plain f64 reference: every type, every layout, every choice of dimensions.

use crate::support::*;
use flambeau_core::{Complex, Device, Geometry, MemoryFormat, Result, Scalar, ScalarType, TensorImpl};
use flambeau_ops::vectorized::{CpuCapability, cpu_capability};
use flambeau_ops::{Tensor, native, ops, parallel};

type Reduce = fn(&Tensor, &[i64]) -> Result<Tensor>;
type Reference = fn(&[f64]) -> f64;
/// What the error is measured by: usually the sum of magnitudes.
type Scale = fn(&[f64]) -> f64;

fn magnitudes(x: &[f64]) -> f64 {
    total(x.iter().map(|x| x.abs()))
}
fn exact(_: &[f64]) -> f64 {
    0.0
}
fn mean(x: &[f64]) -> f64 {
    total(x.iter().copied()) / x.len() as f64
}
fn variance(x: &[f64]) -> f64 {
    let m = mean(x);
    total(x.iter().map(|x| (x - m) * (x - m))) / (x.len() as f64 - 1.0).max(0.0)
}
fn product(x: &[f64]) -> f64 {
    x.iter().product()
}
fn log_sum_exp(x: &[f64]) -> f64 {
    total(x.iter().map(|x| x.exp())).ln()
}

struct Row {
    name: &'static str,
    op: Reduce,
    reference: Reference,
    scale: Scale,
    floats_only: bool,
}

const fn row(name: &'static str, op: Reduce, reference: Reference, scale: Scale, floats_only: bool) -> Row {
    Row { name, op, reference, scale, floats_only }
}

const ROWS: &[Row] = &[
    row(
        "sum",
        |t, d| ops::sum_dim_intlist(t, Some(d), false, None),
        |x| total(x.iter().copied()),
        magnitudes,
        false,
    ),
    row(
        "sum in f64",
        |t, d| ops::sum_dim_intlist(t, Some(d), true, Some(ScalarType::F64)),
        |x| total(x.iter().copied()),
        magnitudes,
        false,
    ),
    row(
        "nansum",
        |t, d| ops::nansum(t, Some(d), false, None),
        |x| total(x.iter().copied()),
        magnitudes,
        false,
    ),
    row(
        "mean",
        |t, d| ops::mean_dim(t, Some(d), false, None),
        mean,
        |x| magnitudes(x) / x.len() as f64,
        true,
    ),
    row("amax", |t, d| ops::amax(t, d, false), |x| x.iter().copied().fold(f64::MIN, f64::max), exact, false),
    row("amin", |t, d| ops::amin(t, d, true), |x| x.iter().copied().fold(f64::MAX, f64::min), exact, false),
    row(
        "any",
        |t, d| ops::any_dims(t, Some(d), false),
        |x| f64::from(x.iter().any(|x| *x != 0.0)),
        exact,
        false,
    ),
    row(
        "all",
        |t, d| ops::all_dims(t, Some(d), false),
        |x| f64::from(x.iter().all(|x| *x != 0.0)),
        exact,
        false,
    ),
    row(
        "count_nonzero",
        ops::count_nonzero_dim_intlist,
        |x| x.iter().filter(|x| **x != 0.0).count() as f64,
        exact,
        false,
    ),
    row(
        "var",
        |t, d| ops::var_correction(t, Some(d), None, false),
        variance,
        |x| 8.0 * variance(x) + 1e-16,
        true,
    ),
    row(
        "std",
        |t, d| ops::std_correction(t, Some(d), None, false),
        |x| variance(x).sqrt(),
        |x| 8.0 * variance(x).sqrt() + 1.0,
        true,
    ),
    row(
        "norm 2",
        |t, d| ops::linalg_vector_norm(t, Scalar::Int(2), Some(d), false, None),
        |x| total(x.iter().map(|x| x * x)).sqrt(),
        |x| total(x.iter().map(|x| x * x)).sqrt(),
        true,
    ),
    row(
        "norm 1",
        |t, d| ops::norm_scalaropt_dim(t, Some(Scalar::Int(1)), d, false),
        magnitudes,
        magnitudes,
        true,
    ),
    row(
        "norm 3",
        |t, d| ops::linalg_vector_norm(t, Scalar::Int(3), Some(d), false, None),
        |x| total(x.iter().map(|x| x.abs().powi(3))).cbrt(),
        |x| 4.0 * magnitudes(x),
        true,
    ),
    row(
        "norm inf",
        |t, d| ops::linalg_vector_norm(t, scalar(f64::INFINITY), Some(d), false, None),
        |x| x.iter().fold(0.0, |a, x| a.max(x.abs())),
        exact,
        true,
    ),
    row(
        "norm -inf",
        |t, d| ops::linalg_vector_norm(t, scalar(f64::NEG_INFINITY), Some(d), false, None),
        |x| x.iter().fold(f64::MAX, |a, x| a.min(x.abs())),
        exact,
        true,
    ),
    row(
        "norm 0",
        |t, d| ops::linalg_vector_norm(t, scalar(0.0), Some(d), false, None),
        |x| x.iter().filter(|x| **x != 0.0).count() as f64,
        exact,
        true,
    ),
    row("logsumexp", ops_logsumexp, log_sum_exp, |x| 4.0 + log_sum_exp(x).abs(), true),
];

fn ops_logsumexp(t: &Tensor, d: &[i64]) -> Result<Tensor> {
    ops::logsumexp(t, d, false)
}

const SHAPES: &[(&[i64], &[&[usize]])] = &[
    (&[], &[&[]]),
    (&[1], &[&[], &[0]]),
    (&[37], &[&[], &[0]]),
    (&[3, 70], &[&[], &[0], &[1], &[0, 1]]),
    (&[64, 5], &[&[0]]),
    (&[65, 5], &[&[0]]),
    (&[5, 1, 19], &[&[0], &[1], &[2], &[0, 2], &[]]),
    (&[4, 9, 33], &[&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[]]),
    // Short rows: several strips, dimensions on both sides of a kept one, and blocks of few short rows.
    (&[66, 3], &[&[0], &[1]]),
    (&[70, 4], &[&[0], &[1]]),
    (&[140, 7], &[&[0], &[1]]),
    (&[65, 8], &[&[0], &[1]]),
    (&[130, 3, 2], &[&[0, 2], &[1], &[2], &[1, 2]]),
    (&[40, 3, 5], &[&[0, 2], &[1]]),
    (&[2, 33, 4], &[&[0], &[0, 2], &[1]]),
    (&[90, 17, 3], &[&[1]]),
    // Rows of many columns: so few that they are folded in their results, and more.
    (&[2, 1100], &[&[0]]),
    (&[7, 130], &[&[0]]),
    (&[20, 130], &[&[0]]),
];

#[test]
fn every_reduction_agrees_with_the_reference() {
    for dtype in ScalarType::COMPUTING.into_iter().filter(|dtype| !dtype.is_complex()) {
        for row in ROWS.iter().filter(|row| dtype.is_floating_point() || !row.floats_only) {
            for (sizes, choices) in SHAPES {
                for (layout, tensor) in layouts(sizes, dtype, 7) {
                    choices.iter().for_each(|dims| check(row, &tensor, layout, dims));
                }
            }
        }
    }
}

fn check(row: &Row, tensor: &Tensor, layout: &str, dims: &[usize]) {
    let what = format!("{} of {tensor:?} ({layout}) along {dims:?}", row.name);
    // An empty list of `any.dims` reduces nothing, so all are named.
    let named: Vec<i64> = if dims.is_empty() {
        (0..tensor.dim() as i64).collect()
    } else {
        dims.iter().map(|d| *d as i64).collect()
    };
    let got = (row.op)(tensor, &named).unwrap_or_else(|e| panic!("{what}: {e}"));
    let input_rows = rows_of(&values(tensor), tensor.sizes(), dims);
    let want: Vec<f64> = input_rows.iter().map(|values| (row.reference)(values)).collect();
    // Errors of the accumulating type grow with the logarithm of the length; the result is rounded once more.
    let (computed, stored) = (epsilon(tensor.dtype()).min(2f64.powi(-24)), epsilon(got.dtype()));
    // Half of the distance of subnormal numbers.
    let subnormal = if got.dtype() == ScalarType::F16 { 2f64.powi(-25) } else { 0.0 };
    let bound = |i: usize| {
        let growth = 4.0 + (input_rows[i].len() as f64).log2();
        computed * growth * (row.scale)(&input_rows[i])
            + stored * want[i].abs()
            + f64::MIN_POSITIVE * 2f64.powi(30)
            + subnormal
    };
    let bound = |i: usize| if got.dtype().is_floating_point() { bound(i) } else { 0.0 };
    assert_close(&values(&got), &want, bound, &what);
}

#[test]
fn lines_longer_than_a_chunk_are_cut() {
    for (sizes, dims) in [
        (&[200_001i64][..], &[0usize][..]),
        (&[4200, 2], &[0]),
        (&[70_000, 3], &[0]),
        (&[3, 70_000], &[1]),
        (&[70_000, 20], &[0]),
        (&[3000, 1100], &[0]),
    ] {
        for dtype in [ScalarType::F32, ScalarType::BF16] {
            for row in ROWS.iter().filter(|row| dtype.is_floating_point() || !row.floats_only) {
                let tensor = sample(sizes, dtype, 3);
                check(row, &tensor, "long", dims);
                if sizes.len() == 2 {
                    let transposed = ops::transpose_int(&tensor, 0, 1).unwrap();
                    check(row, &transposed, "long, transposed", &[1 - dims[0]]);
                }
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let tensor = sample(&[257, 1300], ScalarType::F32, 11);
    let long = sample(&[333_333], ScalarType::F32, 12);
    let short_rows = sample(&[40_000, 3, 2], ScalarType::F32, 13);
    let run = |threads: usize| {
        parallel::set_num_threads(threads);
        let mut all = vec![];
        for row in ROWS {
            for dims in [&[1i64][..], &[2], &[1, 2], &[0, 2]] {
                all.extend(values(&(row.op)(&short_rows, dims).unwrap()).into_iter().map(f64::to_bits));
            }
            for dims in [&[0i64][..], &[1], &[0, 1]] {
                all.extend(values(&(row.op)(&tensor, dims).unwrap()).into_iter().map(f64::to_bits));
            }
            all.extend(values(&(row.op)(&long, &[0]).unwrap()).into_iter().map(f64::to_bits));
        }
        all
    };
    let one = run(1);
    assert!((2..6).all(|threads| run(threads) == one));
}

#[test]
fn sums_of_many_ones_are_exact() {
    let ones = ops::full(&[20_000_000], Scalar::Int(1), Some(ScalarType::F32), None, None, None).unwrap();
    assert_eq!(values(&ops::sum(&ones, None).unwrap()), [2e7]);
    assert_eq!(values(&ops::mean(&ones, None).unwrap()), [1.0]);
    let columns = ops::view(&ones, &[1_250_000, 16]).unwrap();
    assert_eq!(values(&ops::sum_dim_intlist(&columns, Some(&[0]), false, None).unwrap()), [1.25e6; 16]);
    let tenths = ops::full(&[10_000_000], scalar(0.1), Some(ScalarType::F32), None, None, None).unwrap();
    let want = f64::from(0.1f32) * 1e7;
    let got = values(&ops::sum(&tenths, None).unwrap())[0];
    // Each lane of four vectors adds its part of a block in a row, whose partial sums are half of it on average; then come pairs.
    let lanes = match cpu_capability() {
        CpuCapability::Default => 1.0,
        CpuCapability::Neon => 4.0,
        CpuCapability::Avx2 => 8.0,
        CpuCapability::Avx512 => 16.0,
    };
    let (in_a_row, levels) = (4096.0 / (4.0 * lanes), 14.0 + f64::log2(lanes));
    let bound = (in_a_row / 2.0 + levels) * epsilon(ScalarType::F32) * want;
    assert!((got - want).abs() <= bound, "{got} {want}");
}

fn first_extreme(elements: &[f64], largest: bool) -> usize {
    if let Some(nan) = elements.iter().position(|x| x.is_nan()) {
        return nan;
    }
    let better = |a: f64, b: f64| if largest { b > a } else { b < a };
    (0..elements.len()).fold(0, |best, i| if better(elements[best], elements[i]) { i } else { best })
}

#[test]
fn extremes_come_with_the_first_index() {
    for dtype in ScalarType::COMPUTING.into_iter().filter(|dtype| !dtype.is_complex()) {
        let long: &[&[i64]] = if dtype == ScalarType::F32 { &[&[9000, 3], &[2, 70_000]] } else { &[] };
        for sizes in [&[37i64][..], &[5, 70], &[70, 5], &[20, 9, 3]].iter().chain(long).copied() {
            for (layout, tensor) in layouts(sizes, dtype, 5) {
                for dim in 0..sizes.len() {
                    for largest in [true, false] {
                        let op = if largest { ops::max_dim } else { ops::min_dim };
                        let (found, found_at) = op(&tensor, dim as i64, false).unwrap();
                        let input_rows = rows_of(&values(&tensor), sizes, &[dim]);
                        let want: Vec<i64> =
                            input_rows.iter().map(|l| first_extreme(l, largest) as i64).collect();
                        let what = format!("{layout} {dtype} {sizes:?} {dim}");
                        assert_eq!(ints(&found_at), want, "{what}");
                        let at: Vec<f64> =
                            input_rows.iter().zip(&want).map(|(l, i)| l[*i as usize]).collect();
                        assert_eq!(values(&found), at, "{what}");
                        if dtype != ScalarType::Bool {
                            let arg = if largest { ops::argmax } else { ops::argmin };
                            assert_eq!(ints(&arg(&tensor, Some(dim as i64), true).unwrap()), want, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn argmax_of_all_counts_in_row_major_order() {
    for (layout, tensor) in layouts(&[7, 11, 3], ScalarType::I8, 4) {
        let want = first_extreme(&values(&tensor), true) as i64;
        assert_eq!(ints(&ops::argmax(&tensor, None, false).unwrap()), [want], "{layout}");
        assert_eq!(ops::argmin(&tensor, None, true).unwrap().sizes(), &[1, 1, 1]);
    }
}

#[test]
fn nan_is_found_at_every_index() {
    for n in [1usize, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 5000] {
        for at in [0, n / 2, n - 1] {
            let mut data: Vec<f32> = (0..n).map(|i| i as f32).collect();
            data[at] = f32::NAN;
            let t = Tensor::from_vec(data, &[n as i64]).unwrap();
            for op in [ops::amax, ops::amin] {
                assert!(values(&op(&t, &[0], false).unwrap())[0].is_nan(), "{n} {at}");
            }
            assert_eq!(ints(&ops::argmax(&t, None, false).unwrap()), [at as i64]);
            let (value, index) = ops::min_dim(&t, 0, false).unwrap();
            assert!(values(&value)[0].is_nan() && ints(&index) == [at as i64]);
            let sum: f64 = (0..n).filter(|i| *i != at).map(|i| i as f64).sum();
            assert_eq!(values(&ops::nansum(&t, Some(&[0]), false, None).unwrap()), [sum]);
            assert!(
                values(&ops::linalg_vector_norm(&t, scalar(f64::INFINITY), None, false, None).unwrap())[0]
                    .is_nan()
            );
        }
    }
}

#[test]
fn nan_is_found_in_every_short_row() {
    for n in (1..=34usize).step_by(3) {
        // Every third of 70 rows has a NaN, each at another index.
        let nan_at = |row: usize| row.is_multiple_of(3).then_some(row % n);
        let element = |i: usize| if nan_at(i / n) == Some(i % n) { f32::NAN } else { (i % 11) as f32 };
        let t = Tensor::from_vec((0..70 * n).map(element).collect(), &[70, n as i64]).unwrap();
        let across = ops::contiguous(&ops::t(&t).unwrap(), MemoryFormat::Contiguous).unwrap();
        for (t, dim) in [(&t, 1i64), (&across, 0), (&ops::t(&across).unwrap(), 1)] {
            let of_all = [
                ops::amax(t, &[dim], false),
                ops::max_dim(t, dim, false).map(|(max, _)| max),
                ops::logsumexp(t, &[dim], false),
                ops::var_correction(t, Some(&[dim]), Some(Scalar::Int(0)), false),
                ops::sum_dim_intlist(t, Some(&[dim]), false, None),
                ops::softmax_int(t, dim, None).and_then(|all| ops::amin(&all, &[dim], false)),
                ops::cumsum(t, dim, None).and_then(|all| ops::select_int(&all, dim, -1)),
            ];
            for (which, found) in of_all.into_iter().enumerate() {
                for (row, value) in values(&found.unwrap()).iter().enumerate() {
                    assert_eq!(value.is_nan(), nan_at(row).is_some(), "{which}: {value} in row {row} of {n}");
                }
            }
            for (row, index) in ints(&ops::argmin(t, Some(dim), false).unwrap()).iter().enumerate() {
                let expected = nan_at(row).unwrap_or(*index as usize);
                assert_eq!(*index as usize, expected, "row {row} of {n}");
            }
        }
    }
}

#[test]
fn nothing_has_a_sum_but_no_extreme() {
    let empty = sample(&[0, 3], ScalarType::F32, 1);
    assert_eq!(values(&ops::sum(&empty, None).unwrap()), [0.0]);
    assert_eq!(values(&ops::prod(&empty, None).unwrap()), [1.0]);
    assert!(values(&ops::mean(&empty, None).unwrap())[0].is_nan());
    assert_eq!(values(&ops::sum_dim_intlist(&empty, Some(&[0]), false, None).unwrap()), [0.0; 3]);
    assert_eq!(ops::sum_dim_intlist(&empty, Some(&[1]), false, None).unwrap().sizes(), &[0]);
    assert_eq!(values(&ops::any(&empty).unwrap()), [0.0]);
    assert_eq!(values(&ops::all(&empty).unwrap()), [1.0]);
    assert!(
        values(&ops::var_correction(&empty, Some(&[0]), None, false).unwrap()).iter().all(|x| x.is_nan())
    );
    assert_eq!(values(&ops::logsumexp(&empty, &[0], false).unwrap()), [f64::NEG_INFINITY; 3]);
    assert!(
        ops::amax(&empty, &[0], false)
            .unwrap_err()
            .message()
            .contains("Expected reduction dim 0 to have non-zero size")
    );
    assert_eq!(ops::amax(&empty, &[1], false).unwrap().numel(), 0);
    assert!(ops::max(&empty).is_err() && ops::argmin(&empty, None, false).is_err());
    assert!(ops::max_dim(&empty, 0, false).is_err() && ops::aminmax(&empty, None, false).is_err());
    assert!(ops::linalg_vector_norm(&empty, scalar(f64::INFINITY), None, false, None).is_err());
}

/// Beside a dimension of no elements, sizes and strides may be any numbers, as those of another library's arrays are.
#[test]
fn nothing_has_a_sum_whatever_its_strides() {
    let empty = |sizes: &[i64]| ops::zeros(sizes, Some(ScalarType::F32), None, None, None).unwrap();
    for sizes in [[0, 1 << 61, 1], [1 << 61, 0, 1], [0, 1 << 31, 1 << 31], [1 << 31, 1 << 31, 0]] {
        let t = empty(&sizes);
        assert_eq!(ops::sum(&t, None).unwrap().to_vec::<f32>().unwrap(), [0.0], "{sizes:?}");
        let at = sizes.iter().position(|size| *size == 0).unwrap() as i64;
        let others: Vec<i64> = (0..3).filter(|d| *d != at).collect();
        assert_eq!(ops::sum_dim_intlist(&t, Some(&others), false, None).unwrap().sizes(), [0], "{sizes:?}");
        assert_eq!(ops::mean_dim(&t, Some(&others), true, None).unwrap().numel(), 0, "{sizes:?}");
    }
    let strided = ops::as_strided(&empty(&[0]), &[4, 0], &[i64::MAX, 1], None).unwrap();
    assert_eq!(ops::sum(&strided, None).unwrap().to_vec::<f32>().unwrap(), [0.0]);
}

#[test]
fn types_and_arguments_are_checked() {
    let t = sample(&[2, 3], ScalarType::I32, 1);
    assert!(ops::mean(&t, None).unwrap_err().message().contains("could not infer output dtype"));
    assert!(ops::var(&t, true).is_err() && ops::norm_scalar(&t, Scalar::Int(2)).is_err());
    assert!(ops::sum_dim_intlist(&t, Some(&[2]), false, None).is_err());
    assert!(ops::sum_dim_intlist(&t, Some(&[1, -1]), false, None).is_err());
    assert!(ops::argmax(&cast(&t, ScalarType::Bool), None, false).is_err());
    assert_eq!(ops::sum(&t, None).unwrap().dtype(), ScalarType::I64);
    assert_eq!(ops::sum(&cast(&t, ScalarType::Bool), None).unwrap().dtype(), ScalarType::I64);
    assert_eq!(ops::any(&cast(&t, ScalarType::U8)).unwrap().dtype(), ScalarType::U8);
    assert_eq!(ops::mean(&t, Some(ScalarType::F16)).unwrap().dtype(), ScalarType::F16);
    assert_eq!(ops::logsumexp(&t, &[0], true).unwrap().dtype(), ScalarType::F32);
    let shape = meta(&[4, 5, 6], ScalarType::F32);
    assert_eq!(ops::sum_dim_intlist(&shape, Some(&[1]), true, None).unwrap().sizes(), &[4, 1, 6]);
    assert_eq!(ops::max_dim(&shape, -1, false).unwrap().1.dtype(), ScalarType::I64);
    assert_eq!(ops::std_mean_correction(&shape, Some(&[0]), None, false).unwrap().0.sizes(), &[5, 6]);
}

#[test]
fn spreads_keep_nan() {
    for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let t = Tensor::from([[1.0f32, special, 2.0], [3.0, 4.0, 5.0]]);
        let all = ops::var_correction(&t, None, None, false).unwrap();
        assert!(all.item::<f32>().unwrap().is_nan(), "var with {special}");
        let rows = ops::std_correction(&t, Some(&[1]), None, false).unwrap().to_vec::<f32>().unwrap();
        assert!(rows[0].is_nan() && rows[1] == 1.0, "std with {special}: {rows:?}");
    }
}

#[test]
fn out_takes_any_layout_and_may_share_memory() {
    let t = sample(&[6, 40], ScalarType::F32, 2);
    let want = values(&ops::sum_dim_intlist(&t, Some(&[1]), false, None).unwrap());
    let wide = ops::full(&[6, 2], Scalar::Int(9), Some(ScalarType::F64), None, None, None).unwrap();
    let column = flambeau_ops::native::shape::view::select(&wide, 1, 1).unwrap();
    ops::sum_intlist_out(&t, Some(&[1]), false, None, &column).unwrap();
    // The sum is computed in the type of `out`.
    let in_doubles = ops::sum_dim_intlist(&t, Some(&[1]), false, Some(ScalarType::F64)).unwrap();
    assert_eq!(values(&column), values(&in_doubles));
    assert_eq!(values(&wide)[0], 9.0);
    let inside = flambeau_ops::native::shape::view::select(&t, 1, 0).unwrap();
    ops::sum_intlist_out(&t, Some(&[1]), false, None, &inside).unwrap();
    assert_eq!(values(&inside), want);
}

#[test]
fn zeros_of_either_sign_are_false_and_nan_is_true() {
    let rows = vec![0.0, -0.0, 0.0, f32::NAN, -0.0, 0.0, f32::NAN, 1.0, -2.0];
    let rows = Tensor::from_vec(rows, &[3, 3]).unwrap();
    for dtype in [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64] {
        let t = rows.to(dtype).unwrap();
        for t in
            [t.clone(), ops::contiguous(&ops::t(&t).unwrap(), MemoryFormat::Contiguous).unwrap().t().unwrap()]
        {
            assert_eq!(values(&ops::any_dims(&t, Some(&[1]), false).unwrap()), [0.0, 1.0, 1.0]);
            assert_eq!(values(&ops::all_dims(&t, Some(&[1]), false).unwrap()), [0.0, 0.0, 1.0]);
            assert_eq!(values(&ops::any_dims(&t, None, false).unwrap()), [1.0]);
            assert_eq!(values(&ops::all_dims(&t, None, false).unwrap()), [0.0]);
        }
    }
}

#[test]
fn products_and_pairs() {
    let t = sample(&[6, 5], ScalarType::F64, 2);
    for (dim, dims) in [(0, &[0usize][..]), (1, &[1])] {
        let want: Vec<f64> = rows_of(&values(&t), &[6, 5], dims).iter().map(|l| product(l)).collect();
        let got = values(&ops::prod_dim_int(&t, dim, false, None).unwrap());
        assert_close(&got, &want, |i| 1e-15 * want[i].abs(), "prod");
    }
    let (min, max) = ops::aminmax(&t, Some(1), false).unwrap();
    assert_eq!(values(&min), values(&ops::amin(&t, &[1], false).unwrap()));
    assert_eq!(values(&max), values(&ops::amax(&t, &[1], false).unwrap()));
    let (var, mean) = ops::var_mean_correction(&t, Some(&[0]), Some(Scalar::Int(0)), true).unwrap();
    let sizes = [var.sizes().to_vec(), mean.sizes().to_vec()];
    assert_eq!(sizes, [[1, 5], [1, 5]]);
    let bits = sample(&[100], ScalarType::I32, 9);
    let product: i64 = values(&bits).iter().map(|x| *x as i64).fold(1, i64::wrapping_mul);
    assert_eq!(ints(&ops::prod(&bits, None).unwrap()), [product]);
}

/// Both extremes at once are those of each fold, whichever loop takes them.
#[test]
fn both_extremes_are_those_of_each() {
    for dtype in ScalarType::COMPUTING.into_iter().filter(|dtype| !dtype.is_complex()) {
        for sizes in [&[2i64, 1100][..], &[20, 90], &[1100, 20], &[3, 9000], &[150, 40], &[90, 17, 3]] {
            for (layout, tensor) in layouts(sizes, dtype, 6) {
                for dim in 0..sizes.len() as i64 {
                    let (min, max) = ops::aminmax(&tensor, Some(dim), false).unwrap();
                    let what = format!("{layout} {dtype} {sizes:?} {dim}");
                    assert_eq!(values(&min), values(&ops::amin(&tensor, &[dim], false).unwrap()), "{what}");
                    assert_eq!(values(&max), values(&ops::amax(&tensor, &[dim], false).unwrap()), "{what}");
                }
            }
        }
    }
}

/// Columns that are not dense have the sums of dense ones, to the bit.
#[test]
fn spaced_columns_have_the_sums_of_dense_ones() {
    for rows in [2i64, 3, 8, 9, 32] {
        for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::BF16] {
            let wide = sample(&[rows, 3000], dtype, 15);
            let spaced = native::shape::view::slice(&wide, 1, Some(1), None, 2).unwrap();
            let dense = ops::clone(&spaced, Some(MemoryFormat::Contiguous)).unwrap();
            for op in [ops::sum_dim_intlist, ops::mean_dim] {
                let [spaced, dense] =
                    [&spaced, &dense].map(|t| values(&op(t, Some(&[0]), false, None).unwrap()));
                assert_eq!(spaced, dense, "{rows} {dtype}");
            }
        }
    }
}

#[test]
fn any_of_no_dimension_is_whether_each_element_differs_from_zero() {
    for dtype in ScalarType::COMPUTING.into_iter().filter(|dtype| !dtype.is_complex()) {
        for (layout, tensor) in layouts(&[70, 3, 4], dtype, 8) {
            let want: Vec<f64> = values(&tensor).iter().map(|x| f64::from(*x != 0.0)).collect();
            for op in [ops::any_dims, ops::all_dims] {
                let got = op(&tensor, Some(&[]), false).unwrap();
                assert_eq!(values(&got), want, "{layout} {dtype}");
            }
        }
    }
}

/// Unsigned integers are folded as i64, whichever loop takes them.
#[test]
fn extremes_of_unsigned_integers() {
    for dtype in [ScalarType::U16, ScalarType::U32] {
        for sizes in [[1i64, 3], [3, 5000], [5000, 3], [70, 70]] {
            let numbers: Vec<i64> = (0..sizes[0] * sizes[1]).map(|i| i * 7919 % 60_000).collect();
            let wide = Tensor::from_vec(numbers, &sizes).unwrap();
            let t = wide.to(dtype).unwrap();
            for dim in [None, Some(0), Some(1)] {
                let (min, max) = ops::aminmax(&t, dim, false).unwrap();
                let expected = ops::aminmax(&wide, dim, false).unwrap();
                let found = [min, max].map(|t| ints(&t.to(ScalarType::I64).unwrap()));
                assert_eq!(found, [ints(&expected.0), ints(&expected.1)], "{sizes:?} {dim:?} {dtype}");
            }
        }
    }
}

#[test]
fn log_sum_exp_takes_infinities() {
    let inf = f64::INFINITY;
    for (data, want) in [
        (vec![-inf, -inf], -inf),
        (vec![inf, 1.0], inf),
        (vec![inf, -inf], inf),
        (vec![1000.0, 1000.0], 1000.0 + 2f64.ln()),
        (vec![-1000.0, -inf], -1000.0),
        (vec![f64::NAN, 0.0], f64::NAN),
    ] {
        let t = Tensor::from_vec(data, &[2]).unwrap();
        let got = values(&ops::logsumexp(&t, &[0], false).unwrap())[0];
        assert!(got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() < 1e-12, "{got} {want}");
    }
}

#[test]
fn sizes_of_nothing_may_multiply_to_any_number() {
    for sizes in [[1i64 << 62, i64::MAX, 0, 3], [0, 3, 1 << 62, i64::MAX], [i64::MAX, 0, i64::MAX, 2]] {
        let geometry = Geometry::strided(&sizes, &[1, 2, 4, 1], 0).unwrap();
        let impl_ = TensorImpl::empty(geometry, ScalarType::F32, Device::CPU).unwrap();
        let nothing = Tensor::from_impl(impl_);
        // Results or errors: what counts is that each is one.
        let _ = ops::neg(&nothing).map(|t| assert_eq!(t.numel(), 0));
        let _ = nothing.to(ScalarType::F64).map(|t| assert_eq!(t.sizes(), sizes));
        let _ = ops::add_tensor(&nothing, &nothing, 1.into());
        let _ = (nothing.to_vec::<f32>(), nothing.accessor::<f32, 4>().map(drop));
        assert_eq!(nothing.sum().unwrap().item::<f32>().unwrap(), 0.0);
        assert!(!format!("{nothing}").is_empty());
    }
}

#[test]
fn integrals_by_the_trapezoidal_rule() {
    let y = Tensor::from([-1e38f32, -1e38, 3e38]);
    // Of halves of the distance, so that the areas do not overflow.
    let areas = ops::cumulative_trapezoid_dx(&y, Scalar::Float(3.0), -1).unwrap();
    assert!(areas.to_vec::<f32>().unwrap().iter().all(|area| area.is_finite()));
    let x = Tensor::from([0i64, 2, 3]);
    let areas = ops::cumulative_trapezoid_x(&Tensor::from([1i64, 3, 4]), &x, 0).unwrap();
    assert_eq!(areas.to_vec::<f32>().unwrap(), [4.0, 7.5]);
    for dx in [Scalar::Bool(true), Scalar::Complex(1.0, 1.0)] {
        assert!(ops::trapezoid_dx(&y, dx, -1).unwrap_err().message().contains("real number"));
        assert!(ops::cumulative_trapezoid_dx(&y, dx, -1).unwrap_err().message().contains("real number"));
    }
}

/// Integers whose sums do not fit in their own dtype.
#[test]
fn integrals_of_small_integers_do_not_overflow() {
    let y = Tensor::from([252u8, 251, 3]);
    let area = |dx| ops::trapezoid_dx(&y, Scalar::Int(dx), -1).unwrap().to_vec::<f32>().unwrap();
    assert_eq!((area(1), area(-2)), (vec![378.5], vec![-757.0]));
}

#[test]
fn slopes_at_coordinates_have_the_promoted_type_and_are_rounded_once() {
    let slopes = |x: &Tensor, at: &Tensor| {
        ops::gradient_tensorarray(x, std::slice::from_ref(at), &[0], 1).unwrap().remove(0)
    };
    let half = |t: &Tensor| cast(t, ScalarType::F16);
    let (x, at) = (Tensor::from([1.0f64, 2.0, 4.5, 3.0]), Tensor::from([1.0f64, 2.25, 3.0, 7.0]));
    assert_eq!(slopes(&cast(&x, ScalarType::I16), &half(&at)).dtype(), ScalarType::F16);
    assert_eq!(slopes(&cast(&x, ScalarType::I16), &cast(&at, ScalarType::I8)).dtype(), ScalarType::F32);
    assert_eq!(slopes(&half(&x), &cast(&at, ScalarType::I8)).dtype(), ScalarType::F32);
    let (x, at) = (half(&sample(&[40], ScalarType::F64, 3)), half(&cast(&arange(40), ScalarType::F64)));
    let at = ops::mul_tensor(&at, &at).unwrap();
    let wide = slopes(&cast(&x, ScalarType::F32), &cast(&at, ScalarType::F32));
    assert_eq!(values(&slopes(&x, &at)), values(&half(&wide)));
}

/// The numbers 0 to `n`.
fn arange(n: i64) -> Tensor {
    Tensor::from_vec((0..n).collect::<Vec<i64>>(), &[n]).unwrap()
}

#[test]
fn hashes_of_integers_are_exclusive_ors_in_every_layout() {
    use ScalarType::{Bool, I8, I16, I32, I64, U8};
    for dtype in [Bool, U8, I8, I16, I32, I64] {
        for (sizes, choices) in [
            (&[90i64, 17, 3][..], &[&[0usize][..], &[1], &[2], &[0, 2], &[0, 1, 2]][..]),
            (&[2, 70_000], &[&[0], &[1], &[0, 1]]),
        ] {
            for (layout, tensor) in layouts(sizes, dtype, 5) {
                for dims in choices {
                    let named: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
                    let hash = ops::hash_tensor(&tensor, &named, false, 0).unwrap();
                    let of_row = |row: &Vec<f64>| row.iter().fold(0, |hash, x| hash ^ *x as i64 as u64);
                    let want: Vec<u64> = rows_of(&values(&tensor), sizes, dims).iter().map(of_row).collect();
                    assert_eq!(hash.to_vec::<u64>().unwrap(), want, "{dtype} {layout} {sizes:?} {dims:?}");
                }
            }
        }
    }
}

#[test]
fn hashes_are_row_major() {
    let x = sample(&[3, 4, 5], ScalarType::F32, 1);
    let transposed = ops::transpose_int(&x, 0, 2).unwrap();
    let (hash, same) =
        (ops::hash_tensor(&transposed, &[1], true, 0).unwrap(), ops::hash_tensor(&x, &[1], true, 0).unwrap());
    assert_eq!(hash.strides(), [3, 3, 1]);
    let same = ops::contiguous(&ops::transpose_int(&same, 0, 2).unwrap(), MemoryFormat::Contiguous).unwrap();
    assert!(hash.to_vec::<u64>().unwrap() == same.to_vec::<u64>().unwrap());
}

#[test]
fn histograms_count_between_two_edges_or_more_also_in_half_precision() {
    let count = |x: &Tensor, edges: &Tensor| Ok(ops::histogram_bins_tensor(x, edges, None, false)?.0);
    let (ones, edges) =
        (Tensor::from_vec(vec![1.0f64; 1000], &[1000]).unwrap(), Tensor::from([1.0f64, 2.0, 3.0]));
    for dtype in [ScalarType::F16, ScalarType::BF16, ScalarType::F32] {
        let counts: Result<Tensor> = count(&cast(&ones, dtype), &cast(&edges, dtype));
        assert_eq!(values(&counts.unwrap()), [1000.0, 0.0], "{dtype}");
    }
    let one: Result<Tensor> = count(&ones, &Tensor::from([1.0f64]));
    assert!(one.unwrap_err().message().contains("at least two edges"));
    let half = cast(&ones, ScalarType::F16);
    assert!(
        ops::histogram_bin_ct(&half, 3, None, None, false).unwrap_err().message().contains("not implemented")
    );
}

#[test]
fn means_and_sums_without_nan_have_types_that_hold_them() {
    let x = Tensor::from([1i32, 2]);
    let sum = ops::nansum(&x, None, false, Some(ScalarType::Complex64)).unwrap();
    assert_eq!(sum.to_vec::<Complex<f32>>().unwrap(), [Complex::new(3.0, 0.0)]);
    let error = ops::nanmean(&Tensor::from([1.0f32]), None, false, Some(ScalarType::I64)).unwrap_err();
    assert!(error.message().contains("floating point or complex"), "{error}");
}
