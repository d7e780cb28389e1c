//! Products in every mix of layouts, and systems.

use crate::matrices::{LAYOUTS, dense, full, holey, in_layout, same};
use flambeau_core::Layout;
use flambeau_ops::parallel::set_num_threads;
use flambeau_ops::{Tensor, ops};
use flambeau_sparse::{self as sparse, Reduction};

#[test]
fn matrices_and_vectors() {
    let (a, b) = (holey(&[4, 6], 1), holey(&[6, 9], 2));
    let expected = ops::mm(&a, &b).unwrap();
    let vector = full(&[6], 3);
    for layout in LAYOUTS {
        let x = in_layout(&a, layout);
        assert!(same(&ops::mm(&x, &b).unwrap(), &expected), "{layout}");
        assert!(same(&ops::mv(&x, &vector).unwrap(), &ops::mv(&a, &vector).unwrap()), "{layout}");
        assert!(same(&ops::matmul(&x, &vector).unwrap(), &ops::mv(&a, &vector).unwrap()), "{layout}");
        let input = full(&[4, 9], 4);
        let sum = ops::addmm(&input, &x, &b, 2.into(), 3.into()).unwrap();
        assert!(same(&sum, &ops::addmm(&input, &a, &b, 2.into(), 3.into()).unwrap()), "{layout}");
        for other in LAYOUTS {
            let y = in_layout(&b, other);
            let product = ops::mm(&x, &y).unwrap();
            assert!(product.layout().is_sparse() && same(&product, &expected), "{layout} {other}");
            assert!(same(&ops::mm(&a, &y).unwrap(), &expected), "{other}");
        }
        let stacked = full(&[2, 3, 4], 5);
        let expected = ops::matmul(&stacked, &a).unwrap();
        assert!(same(&ops::matmul(&stacked, &x).unwrap(), &expected), "{layout}");
        let columns = full(&[2, 6, 3], 6);
        let expected = ops::matmul(&a, &columns).unwrap();
        assert!(same(&ops::matmul(&x, &columns).unwrap(), &expected), "{layout}");
        assert!(ops::mm(&x, &a).is_err() && ops::mm(&x, &vector).is_err());
    }
}

#[test]
fn batches() {
    let one = holey(&[4, 6], 7);
    let batch = ops::stack(&[one.clone(), ops::mul_scalar(&one, 2.into()).unwrap()], 0).unwrap();
    let (right, left) = (full(&[2, 6, 3], 8), full(&[2, 3, 4], 9));
    for layout in LAYOUTS {
        let x = in_layout(&batch, layout);
        assert!(same(&ops::bmm(&x, &right).unwrap(), &ops::bmm(&batch, &right).unwrap()), "{layout}");
        assert!(same(&ops::matmul(&left, &x).unwrap(), &ops::bmm(&left, &batch).unwrap()), "{layout}");
    }
}

#[test]
fn reductions_of_terms() {
    let (a, b) = (holey(&[4, 6], 10), holey(&[6, 5], 11));
    let terms = |i: i64, j: i64| -> Vec<f64> {
        let at = |t: &Tensor, i, j| {
            ops::select_int(&ops::select_int(t, 0, i).unwrap(), 0, j).unwrap().item::<f64>().unwrap()
        };
        (0..6).filter(|k| at(&a, i, *k) != 0.0).map(|k| at(&a, i, k) * at(&b, k, j)).collect()
    };
    type Fold = fn(&[f64]) -> f64;
    let folds: [(Reduction, Fold); 4] = [
        (Reduction::Sum, |x| x.iter().sum()),
        (Reduction::Mean, |x| x.iter().sum::<f64>() / x.len().max(1) as f64),
        (Reduction::Amax, |x| x.iter().copied().reduce(f64::max).unwrap_or(0.0)),
        (Reduction::Amin, |x| x.iter().copied().reduce(f64::min).unwrap_or(0.0)),
    ];
    for layout in LAYOUTS {
        // Blocks store zeros, which are terms.
        if layout.is_blocked() {
            continue;
        }
        for (reduce, fold) in folds {
            let found = sparse::mm_reduce(&in_layout(&a, layout), &b, reduce).unwrap();
            let expected: Vec<f64> = (0..20).map(|n| fold(&terms(n / 5, n % 5))).collect();
            assert_eq!(found.to_vec::<f64>().unwrap(), expected, "{layout} {reduce:?}");
        }
    }
}

#[test]
fn sampled_products() {
    let pattern = holey(&[4, 6], 12);
    let (x, y) = (full(&[4, 3], 13), full(&[3, 6], 14));
    let mask = ops::ne_scalar(&pattern, 0.into()).unwrap();
    let product = ops::mul_tensor(&ops::mm(&x, &y).unwrap(), &mask).unwrap();
    let expected =
        ops::add_tensor(&ops::mul_scalar(&product, 3.into()).unwrap(), &pattern, 2.into()).unwrap();
    for layout in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc] {
        let input = in_layout(&pattern, layout);
        let made = sparse::sampled_addmm(&input, &x, &y, 2.into(), 3.into()).unwrap();
        assert!(made.layout() == layout && same(&made, &expected), "{layout}");
    }
    let batch = ops::stack(&[pattern.clone(), pattern.clone()], 0).unwrap();
    let twice = |t: &Tensor| ops::stack(&[t.clone(), t.clone()], 0).unwrap();
    let input = in_layout(&batch, Layout::SparseCsr);
    let made = sparse::sampled_addmm(&input, &twice(&x), &twice(&y), 2.into(), 3.into()).unwrap();
    assert!(same(&made, &twice(&expected)));
}

#[test]
fn triangular_systems() {
    let matrix = ops::add_tensor(
        &holey(&[6, 6], 15),
        &Tensor::eye(6, flambeau_core::ScalarType::F64).unwrap(),
        8.into(),
    )
    .unwrap();
    let matrix = crate::matrices::as_type(&matrix, flambeau_core::ScalarType::F64);
    let b = full(&[6, 2], 16);
    for layout in LAYOUTS {
        let a = in_layout(&matrix, layout);
        for (upper, transpose, unit) in
            [(true, false, false), (false, false, true), (true, true, true), (false, true, false)]
        {
            let found = ops::triangular_solve(&b, &a, upper, transpose, unit).unwrap().0;
            let expected = ops::triangular_solve(&b, &matrix, upper, transpose, unit).unwrap().0;
            assert!(
                ops::allclose(&found, &expected, 1e-10, 1e-10, false).unwrap(),
                "{layout} {upper} {unit}"
            );
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let x = ops::mul_scalar(&holey(&[300, 200], 17), (1.0 / 3.0).into()).unwrap();
    let y = ops::div_scalar(&full(&[200, 70], 18), 7.into()).unwrap();
    let run = || {
        let csr = in_layout(&x, Layout::SparseCsr);
        let columns = in_layout(&ops::transpose_int(&x, 0, 1).unwrap(), Layout::SparseCsr);
        let sampled = sparse::sampled_addmm(
            &csr,
            &ops::mm(&x, &y).unwrap(),
            &ops::transpose_int(&y, 0, 1).unwrap(),
            1.into(),
            1.into(),
        );
        [ops::mm(&csr, &y).unwrap(), dense(&ops::mm(&csr, &columns).unwrap()), dense(&sampled.unwrap())]
            .map(|t| t.to_vec::<f64>().unwrap())
    };
    let expected = run();
    for threads in [1, 2, 3, 7] {
        set_num_threads(threads);
        assert_eq!(run(), expected, "{threads}");
    }
}
