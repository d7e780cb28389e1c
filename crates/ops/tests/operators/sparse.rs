//! Leaf operators of sparse tensors: forged indices are errors of every operator that reads by them, under Miri too, and bits do not depend
//! on the number of threads.

use flambeau_core::{ErrorKind, Result, ScalarType};
use flambeau_ops::parallel::set_num_threads;
use flambeau_ops::{Tensor, ops};

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap()
}

/// Numbers between -1 and 1 that follow each other without a pattern.
fn numbers(sizes: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    Tensor::from_vec((0..sizes.iter().product::<i64>()).map(|_| next()).collect(), sizes).unwrap()
}

type Call = fn(&Tensor, &Tensor) -> Result<()>;

/// Each operator with a pattern of two rows and two columns.
const OF_PATTERNS: &[(&str, Call)] = &[
    ("to coordinates", |crow, col| ops::_convert_indices_from_csr_to_coo(crow, col, false, false).map(drop)),
    ("transpose", |crow, col| ops::_csr_transpose(crow, col, 2).map(drop)),
    ("transposed", |crow, col| ops::_csr_transposed(crow, col, &numbers(&[2], 1), 2).map(drop)),
    ("sum, first", |crow, col| sum([crow, col], [&longs(&[0, 1, 2]), &longs(&[1, 0])])),
    ("sum, second", |crow, col| sum([&longs(&[0, 1, 2]), &longs(&[0, 0])], [crow, col])),
    ("mm", |crow, col| {
        let values = numbers(&[2], 1);
        ops::_csr_mm(crow, col, &values, &numbers(&[2, 1], 2))?;
        ops::_csr_mm(crow, col, &values, &numbers(&[2, 70], 2)).map(drop)
    }),
    ("sampled", |crow, col| {
        ops::_csr_sampled_mm(crow, col, &numbers(&[2, 3], 1), &numbers(&[2, 3], 2)).map(drop)
    }),
    ("product, first", |crow, col| factors([crow, col], [&longs(&[0, 1, 2]), &longs(&[0, 1])])),
    ("product, second", |crow, col| factors([&longs(&[0, 1, 2]), &longs(&[0, 1])], [crow, col])),
    ("pattern, first", |crow, col| {
        ops::_csr_matmul_pattern(crow, col, &longs(&[0, 1, 2]), &longs(&[0, 1]), 2).map(drop)
    }),
    ("pattern, second", |crow, col| {
        ops::_csr_matmul_pattern(&longs(&[0, 1, 2]), &longs(&[0, 1]), crow, col, 2).map(drop)
    }),
    ("values, first", |crow, col| product([crow, col], [&longs(&[0, 1, 2]), &longs(&[0, 1])], 2)),
    ("values, second", |crow, col| product([&longs(&[0, 1, 2]), &longs(&[0, 1])], [crow, col], 2)),
    ("values, many columns", |crow, col| {
        product([crow, col], [&longs(&[0, 1, 2]), &longs(&[0, 1])], 1 << 40)
    }),
    ("solve", |crow, col| {
        ops::_csr_solve(crow, col, &numbers(&[2], 1), &numbers(&[2, 1], 2), false, false).map(drop)
    }),
];

/// The product at the positions of the first pattern.
fn product([crow1, col1]: [&Tensor; 2], [crow2, col2]: [&Tensor; 2], columns: i64) -> Result<()> {
    let (a, b) = (numbers(&[2], 1), numbers(&[2], 2));
    ops::_csr_matmul_values(crow1, col1, &a, crow2, col2, &b, crow1, col1, columns).map(drop)
}

/// The product of two patterns.
fn factors([crow1, col1]: [&Tensor; 2], [crow2, col2]: [&Tensor; 2]) -> Result<()> {
    ops::_csr_matmul(crow1, col1, &numbers(&[2], 1), crow2, col2, &numbers(&[2], 2), 2).map(drop)
}

/// The sum of two patterns.
fn sum([crow1, col1]: [&Tensor; 2], [crow2, col2]: [&Tensor; 2]) -> Result<()> {
    ops::_csr_add(crow1, col1, &numbers(&[2], 1), crow2, col2, &numbers(&[2], 2), 2).map(drop)
}

const FORGED_ROWS: &[&[i64]] = &[
    &[0, 1, 1],
    &[0, 1, 3],
    &[1, 1, 2],
    &[0, 3, 2],
    &[0, -1, 2],
    &[0, i64::MIN, 2],
    &[0, i64::MAX, 2],
    &[0, 1, i64::MAX],
    &[],
];
const FORGED_COLUMNS: &[&[i64]] =
    &[&[0, 2], &[-1, 0], &[i64::MIN, 0], &[0, i64::MAX], &[1 << 62, 0], &[0, 1, 1], &[0]];
const FORGED_NARROW_COLUMNS: &[&[i32]] =
    &[&[0, 2], &[-1, 0], &[i32::MIN, 0], &[0, i32::MAX], &[1 << 30, 0], &[0, 1, 1], &[0]];

#[test]
fn forged_patterns_are_errors() {
    let (crow, col) = (longs(&[0, 1, 2]), longs(&[0, 1]));
    let kinds = [ErrorKind::Index, ErrorKind::InvalidArgument, ErrorKind::Shape];
    for (name, call) in OF_PATTERNS {
        call(&crow, &col).unwrap();
        for forged in FORGED_ROWS {
            let error = call(&longs(forged), &col).expect_err(&format!("{name} with pointers {forged:?}"));
            assert!(kinds.contains(&error.kind()), "{name} {forged:?}: {error}");
        }
        for forged in FORGED_COLUMNS {
            // A pattern does not say how many columns there are: what uses the coordinates checks them.
            if *name == "to coordinates" && forged.len() == col.numel() as usize {
                continue;
            }
            let error = call(&crow, &longs(forged)).expect_err(&format!("{name} with columns {forged:?}"));
            assert!(kinds.contains(&error.kind()), "{name} {forged:?}: {error}");
        }
        for forged in FORGED_NARROW_COLUMNS {
            if *name == "to coordinates" && forged.len() == col.numel() as usize {
                continue;
            }
            let forged = Tensor::from_vec(forged.to_vec(), &[forged.len() as i64]).unwrap();
            let error = call(&crow, &forged).expect_err(&format!("{name} with columns of int32, {forged:?}"));
            assert!(kinds.contains(&error.kind()), "{name} {forged:?}: {error}");
        }
    }
}

/// Columns of int32 are read as they are, and give the same bits.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn the_type_of_indices_changes_no_value() -> Result<()> {
    let n = 1003;
    let (crow, col) = pattern(n, 3);
    let narrow = |indices: &Tensor| indices.to(ScalarType::I32);
    let (narrow_crow, narrow_col) = (narrow(&crow)?, narrow(&col)?);
    for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::F16, ScalarType::I16] {
        let values = ops::mul_scalar(&numbers(&[col.numel()], 1), 50.into())?.to(dtype)?;
        for width in [0, 1, 5, 70] {
            let dense = ops::mul_scalar(&numbers(&[n, width], 2), 50.into())?.to(dtype)?;
            let expected = ops::_csr_mm(&crow, &col, &values, &dense)?;
            let found = ops::_csr_mm(&narrow_crow, &narrow_col, &values, &dense)?;
            assert!(ops::equal(&found, &expected)?, "{dtype}, {width} columns");
        }
        // Values of more dimensions are moved by their order.
        for values in [values.clone(), ops::stack(&[values.clone(), values], 1)?] {
            let (pointers, rows, expected) = ops::_csr_transposed(&crow, &col, &values, n)?;
            let found = ops::_csr_transposed(&narrow_crow, &narrow_col, &values, n)?;
            assert_eq!([found.0.dtype(), found.1.dtype()], [ScalarType::I32; 2]);
            assert!(ops::equal(&found.0, &narrow(&pointers)?)? && ops::equal(&found.1, &narrow(&rows)?)?);
            assert!(ops::equal(&found.2, &expected)?, "{dtype}");
        }
    }
    Ok(())
}

#[test]
fn forged_lists_are_errors() {
    let values = numbers(&[3, 2], 1);
    let groups = longs(&[0, 0, 1]);
    for order in [&[0i64, 1, 3][..], &[0, -1, 2], &[i64::MIN, 0, 1], &[0, 1, i64::MAX], &[0, 1]] {
        for width in [values.clone(), numbers(&[3], 2)] {
            let made = ops::_segment_sum(&width, Some(&longs(order)), &longs(&[0, 2, 3]), &groups);
            assert!(made.is_err(), "{order:?}");
        }
    }
    for starts in [&[0i64, 2, 4][..], &[0, 3, 2], &[1, 2, 3], &[0, -1, 3], &[0, i64::MAX, 3], &[]] {
        assert!(ops::_segment_sum(&values, None, &longs(starts), &groups).is_err(), "{starts:?}");
        assert!(ops::_segment_softmax(&values, &longs(starts), false).is_err(), "{starts:?}");
    }
    for (crow, index) in
        [([0i64, 2, 3], 2i64), ([0, 2, 3], -1), ([0, 4, 3], 0), ([0, -1, 3], 1), ([0, i64::MIN, 3], 1)]
    {
        let (crow, index) = (longs(&crow), longs(&[index]));
        assert!(ops::_csr_select_rows(&crow, &index, 3).is_err(), "{crow:?} {index}");
        let (col, values) = (longs(&[0, 1, 0]), numbers(&[3], 1));
        assert!(ops::_csr_select(&crow, &col, &values, &index).is_err(), "{crow:?} {index}");
    }
    // Columns that do not ascend in a row.
    for forged in [[1i64, 0], [1, 1]] {
        assert!(sum([&longs(&[0, 2]), &longs(&forged)], [&longs(&[0, 2]), &longs(&[0, 1])]).is_err());
        assert!(sum([&longs(&[0, 2]), &longs(&[0, 1])], [&longs(&[0, 2]), &longs(&forged)]).is_err());
    }
    for rows in [[0i64, 3], [-1, 0], [1, 1], [2, 0], [i64::MAX, 0]] {
        let [param, mean, square] = [1, 2, 3].map(|seed| numbers(&[3, 2], seed));
        let step = ops::_sparse_adam_(
            &param,
            &mean,
            &square,
            &longs(&rows),
            &numbers(&[2, 2], 4),
            0.1,
            0.9,
            0.99,
            1e-8,
            0.0,
            1.0,
        );
        assert!(step.is_err(), "{rows:?}");
        assert_eq!(param.to_vec::<f32>().unwrap(), numbers(&[3, 2], 1).to_vec::<f32>().unwrap());
    }
    for indices in [[[0i64, 1], [0, 2]], [[0, -1], [0, 1]], [[0, i64::MAX], [0, 1]]] {
        let indices = Tensor::from(indices);
        assert_eq!(ops::_coo_order(&indices, &[2, 2]).unwrap_err().kind(), ErrorKind::Index);
        let made = ops::_coo_coalesced(&indices, &numbers(&[2], 1), &[2, 2]);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Index);
    }
    assert_eq!(
        ops::_coo_order(&Tensor::from([[0i64], [0]]), &[1 << 40, 1 << 40]).unwrap_err().kind(),
        ErrorKind::Overflow
    );
    for size in [-1, i64::MAX, i64::MIN] {
        assert!(ops::_convert_indices_from_coo_to_csr(&longs(&[0]), size, false).is_err());
        assert!(ops::_csr_transpose(&longs(&[0, 1]), &longs(&[0]), size).is_err());
        assert!(ops::_csr_transposed(&longs(&[0, 1]), &longs(&[0]), &numbers(&[1], 1), size).is_err());
    }
}

/// A pattern of `n` rows and columns with 12 elements in most rows, one row without elements, and one with 9000.
fn pattern(n: i64, seed: i64) -> (Tensor, Tensor) {
    let (mut crow, mut col) = (vec![0], vec![]);
    for row in 0..n {
        let count = match row {
            3 => 0,
            7 => 9000,
            _ => 12,
        };
        // Steps that are coprime to the number of columns give distinct columns.
        let mut columns: Vec<i64> = (0..count).map(|k| (row * 31 + seed + k * 7) % n).collect();
        columns.sort_unstable();
        col.extend(columns);
        crow.push(col.len() as i64);
    }
    (longs(&crow), longs(&col))
}

/// The results of all operators, large enough for several threads.
fn all_results() -> Result<Vec<Tensor>> {
    let n = 10_007;
    let ((crow, col), (crow2, col2)) = (pattern(n, 0), pattern(n, 5));
    let (values, count) = (numbers(&[col.numel()], 1), col.numel());
    let mut all = vec![];
    for width in [1, 9, 70] {
        all.push(ops::_csr_mm(&crow, &col, &values, &numbers(&[n, width], 2))?);
    }
    all.push(ops::_csr_sampled_mm(&crow, &col, &numbers(&[n, 20], 3), &numbers(&[n, 20], 4))?);
    all.push(ops::_segment_softmax(&values, &crow, false)?);
    all.push(ops::_segment_softmax(&numbers(&[count, 3], 5), &crow, true)?);
    let (pointers, rows, order) = ops::_csr_transpose(&crow, &col, n)?;
    all.push(ops::_segment_sum(&numbers(&[count, 2], 6), Some(&order), &pointers, &order)?);
    all.extend([pointers, rows, order]);
    let indices = ops::stack(&[col.clone(), ops::flip(&col, &[0])?], 0)?;
    let (order, starts, groups) = ops::_coo_order(&indices, &[n, n])?;
    let (distinct, sums) = ops::_coo_coalesced(&indices, &values, &[n, n])?;
    all.extend([distinct, sums]);
    all.extend([order, starts, groups]);
    let (crow3, col3) = ops::_csr_matmul_pattern(&crow, &col, &crow2, &col2, n)?;
    let product = |columns: i64| {
        ops::_csr_matmul_values(&crow, &col, &values, &crow2, &col2, &values, &crow3, &col3, columns)
    };
    // Sums of all columns, and a search for each where they would take too much memory.
    let (made, searched) = (product(n)?, product(1 << 40)?);
    assert!(ops::equal(&made, &searched)?);
    let (crow4, col4, product) = ops::_csr_matmul(&crow, &col, &values, &crow2, &col2, &values, n)?;
    assert!(ops::equal(&crow3, &crow4)? && ops::equal(&col3, &col4)? && ops::equal(&made, &product)?);
    all.extend([made, product, crow3, col3]);
    let index =
        ops::remainder_scalar(&ops::mul_scalar(&longs(&(0..n).collect::<Vec<_>>()), 17.into())?, n.into())?;
    let (pointers, positions) = ops::_csr_select_rows(&crow, &index, count)?;
    all.extend([pointers, positions]);
    let (pointers, columns, selected) = ops::_csr_select(&crow, &col, &values, &index)?;
    all.extend([pointers, columns, selected]);
    let (pointers, rows, transposed) = ops::_csr_transposed(&crow, &col, &values, n)?;
    all.extend([pointers, rows, transposed]);
    let others = numbers(&[col2.numel()], 8);
    let (pointers, columns, sum) = ops::_csr_add(&crow, &col, &values, &crow2, &col2, &others, n)?;
    all.extend([pointers, columns, sum]);
    let [param, mean, square] = [1, 2, 3].map(|seed| numbers(&[n, 10], seed));
    let square = ops::mul_tensor(&square, &square)?;
    let rows = longs(&(0..n).step_by(2).collect::<Vec<_>>());
    let grad = numbers(&[rows.numel(), 10], 7);
    ops::_sparse_adam_(&param, &mean, &square, &rows, &grad, 0.1, 0.9, 0.99, 1e-8, 0.01, 3.0)?;
    all.extend([param, mean, square]);
    Ok(all)
}

#[test]
#[cfg_attr(miri, ignore = "large results take hours")]
fn bits_do_not_depend_on_threads() {
    let results = [1, 2, 3, 7].map(|threads| {
        set_num_threads(threads);
        all_results().unwrap()
    });
    for other in &results[1..] {
        for (number, (one, two)) in results[0].iter().zip(other).enumerate() {
            assert!(ops::equal(one, two).unwrap(), "result {number}");
        }
    }
}

/// A name, the sizes of a tensor, and the indices in each dimension.
type Coordinates = (&'static str, Vec<i64>, Vec<Vec<i64>>);

/// Coordinates in every kind of order that the sort sees.
fn coordinate_lists() -> Vec<Coordinates> {
    let mut state = 88_172_645_463_325_252u64;
    let mut below = move |bound: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 1) as i64 % bound
    };
    let mut draw = |count: usize, size: &[i64]| -> Vec<Vec<i64>> {
        size.iter().map(|size| (0..count).map(|_| below(*size)).collect()).collect()
    };
    let mut lists = vec![
        ("none", vec![5, 7], vec![vec![], vec![]]),
        ("few", vec![5, 7], draw(40, &[5, 7])),
        ("many of few", vec![3, 2], draw(20_000, &[3, 2])),
        ("parts", vec![1000, 1000], draw(50_000, &[1000, 1000])),
        ("three dimensions", vec![30, 40, 50], draw(30_000, &[30, 40, 50])),
        ("in one part", vec![1 << 20, 1 << 20], draw(9000, &[2, 1 << 9])),
        ("keys of 62 bits", vec![1 << 31, 1 << 31], draw(9000, &[1 << 31, 1 << 31])),
        ("one", vec![4, 4], vec![vec![3; 9000], vec![2; 9000]]),
        ("dimension of size 1", vec![1, 1000, 1], draw(5000, &[1, 1000, 1])),
    ];
    let mut sorted: Vec<(i64, i64)> =
        draw(30_000, &[100, 100])[0].iter().map(|x| (*x, x * 7 % 100)).collect();
    sorted.sort_unstable();
    lists.push(("sorted, long groups", vec![100, 100], {
        let (rows, columns) = sorted.into_iter().unzip();
        vec![rows, columns]
    }));
    lists
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn equal_coordinates_are_summed_in_their_order() -> Result<()> {
    for (name, size, lists) in coordinate_lists() {
        let count = lists[0].len();
        let indices = Tensor::from_vec(lists.concat(), &[size.len() as i64, count as i64])?;
        // Sums of small whole numbers are exact in any order.
        let values: Vec<f64> = (0..count).map(|at| (at % 13) as f64 - 6.0).collect();
        let mut expected = std::collections::BTreeMap::<Vec<i64>, f64>::new();
        for at in 0..count {
            *expected.entry(lists.iter().map(|list| list[at]).collect()).or_default() += values[at];
        }
        for width in [1, 3] {
            let rows: Vec<f64> =
                values.iter().flat_map(|x| (0..width).map(move |at| x * (at + 1) as f64)).collect();
            let sizes = if width == 1 { vec![count as i64] } else { vec![count as i64, width] };
            let (coordinates, sums) = ops::_coo_coalesced(&indices, &Tensor::from_vec(rows, &sizes)?, &size)?;
            assert_eq!(coordinates.sizes(), [size.len() as i64, expected.len() as i64], "{name}");
            let keys: Vec<i64> =
                (0..size.len()).flat_map(|dim| expected.keys().map(move |key| key[dim])).collect();
            assert_eq!(coordinates.to_vec::<i64>()?, keys, "{name}");
            let all: Vec<f64> =
                expected.values().flat_map(|x| (0..width).map(move |at| x * (at + 1) as f64)).collect();
            assert_eq!(sums.to_vec::<f64>()?, all, "{name}, {width}");
        }
        let (order, starts, groups) = ops::_coo_order(&indices, &size)?;
        assert_eq!(starts.numel(), expected.len() as i64 + 1, "{name}");
        let (order, groups) = (order.to_vec::<i64>()?, groups.to_vec::<i64>()?);
        let keys: Vec<(Vec<i64>, i64)> =
            order.iter().map(|at| (lists.iter().map(|list| list[*at as usize]).collect(), *at)).collect();
        assert!(keys.is_sorted(), "{name}: equal ones keep their order");
        assert!(order.iter().map(|at| groups[*at as usize]).is_sorted(), "{name}");
    }
    Ok(())
}

#[test]
fn a_tensor_without_sparse_dimensions_has_one_sum() -> Result<()> {
    let (coordinates, sums) =
        ops::_coo_coalesced(&Tensor::from_vec(Vec::<i64>::new(), &[0, 3])?, &numbers(&[3, 2], 1), &[])?;
    assert_eq!((coordinates.sizes(), sums.sizes()), (&[0, 1][..], &[1, 2][..]));
    Ok(())
}

/// Elements of each size, in matrices whose rows are empty, short and long.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_transpose_moves_each_element_with_its_row() -> Result<()> {
    use flambeau_core::ScalarType::{Bool, Complex64, Complex128, F16, F32, F64, I8};
    let (crow, col) = pattern(300, 5);
    let (rows, columns) = (crow.to_vec::<i64>()?, col.to_vec::<i64>()?);
    let mut expected: Vec<(i64, i64, i64)> = (0..300usize)
        .flat_map(|row| (rows[row]..rows[row + 1]).map(move |at| (row as i64, at)))
        .map(|(row, at)| (columns[at as usize], row, at))
        .collect();
    expected.sort_unstable();
    for dtype in [Bool, I8, F16, F32, F64, Complex64, Complex128] {
        let values = numbers(&[columns.len() as i64], 3).to(dtype)?;
        let (_, out_rows, out) = ops::_csr_transposed(&crow, &col, &values, 300)?;
        assert_eq!(out_rows.to_vec::<i64>()?, expected.iter().map(|(_, row, _)| *row).collect::<Vec<_>>());
        let order = longs(&expected.iter().map(|(.., at)| *at).collect::<Vec<_>>());
        assert!(ops::equal(&out, &ops::index_select(&values, 0, &order)?)?, "{dtype}");
    }
    Ok(())
}
