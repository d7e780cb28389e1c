//! Elementwise operators, reductions, shapes and selection, in every layout.

use crate::matrices::{LAYOUTS, as_type, dense, full, holey, in_layout, longs, same};
use flambeau_core::{Layout, ScalarType};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse as sparse;

#[test]
fn sums_and_products() {
    let (a, b, c) = (holey(&[4, 6], 1), holey(&[4, 6], 2), full(&[4, 6], 3));
    for layout in LAYOUTS {
        let (x, y) = (in_layout(&a, layout), in_layout(&b, layout));
        let check = |found: Tensor, expected: Tensor, what: &str| {
            assert!(
                found.layout() == layout && same(&found, &expected),
                "{layout} {what}\n{found}\n{expected}"
            );
        };
        check(ops::add_tensor(&x, &y, 3.into()).unwrap(), ops::add_tensor(&a, &b, 3.into()).unwrap(), "add");
        check(ops::sub_tensor(&x, &y, 2.into()).unwrap(), ops::sub_tensor(&a, &b, 2.into()).unwrap(), "sub");
        check(ops::mul_tensor(&x, &y).unwrap(), ops::mul_tensor(&a, &b).unwrap(), "mul");
        check(ops::mul_tensor(&x, &c).unwrap(), ops::mul_tensor(&a, &c).unwrap(), "mul strided");
        check(ops::mul_tensor(&c, &x).unwrap(), ops::mul_tensor(&a, &c).unwrap(), "strided mul");
        let row = full(&[6], 4);
        check(ops::mul_tensor(&x, &row).unwrap(), ops::mul_tensor(&a, &row).unwrap(), "mul row");
        check(ops::div_tensor(&x, &c).unwrap(), ops::div_tensor(&a, &c).unwrap(), "div");
        check(ops::mul_scalar(&x, 3.into()).unwrap(), ops::mul_scalar(&a, 3.into()).unwrap(), "number");
        check(ops::div_scalar(&x, 4.into()).unwrap(), ops::div_scalar(&a, 4.into()).unwrap(), "quotient");
        check(ops::pow_tensor_scalar(&x, 2.into()).unwrap(), ops::square(&a).unwrap(), "pow");
        let sum = ops::add_tensor(&c, &x, 2.into()).unwrap();
        assert!(sum.layout() == Layout::Strided && same(&sum, &ops::add_tensor(&c, &a, 2.into()).unwrap()));
        let difference = ops::sub_tensor(&x, &c, 2.into()).unwrap();
        assert!(same(&difference, &ops::sub_tensor(&a, &c, 2.into()).unwrap()));
        let written = ops::clone(&c, None).unwrap();
        ops::add__tensor(&written, &x, 3.into()).unwrap();
        assert!(same(&written, &ops::add_tensor(&c, &a, 3.into()).unwrap()), "{layout}");
        let own = ops::clone(&x, None).unwrap();
        ops::add__tensor(&own, &y, 1.into()).unwrap();
        ops::mul__scalar(&own, 2.into()).unwrap();
        let expected = ops::mul_scalar(&ops::add_tensor(&a, &b, 1.into()).unwrap(), 2.into()).unwrap();
        check(own.clone(), expected, "in place");
        ops::zero_(&own).unwrap();
        check(own, ops::zeros_like(&a, None, None, None, None, None).unwrap(), "zero");
        assert!(
            ops::div_tensor(&c, &x).is_err() && ops::add_tensor(&x, &full(&[4, 1], 1), 1.into()).is_err()
        );
    }
}

type Unary = fn(&Tensor) -> flambeau_core::Result<Tensor>;

#[test]
fn functions_that_are_zero_at_zero() {
    let functions: [Unary; 12] = [
        ops::abs,
        ops::sin,
        ops::tanh,
        ops::neg,
        ops::sign,
        ops::floor,
        ops::erf,
        ops::expm1,
        ops::atan,
        ops::relu,
        ops::trunc,
        ops::isnan,
    ];
    let a = ops::div_scalar(&holey(&[4, 6], 5), 8.into()).unwrap();
    for layout in LAYOUTS {
        for (number, function) in functions.iter().enumerate() {
            let found = function(&in_layout(&a, layout)).unwrap();
            assert!(found.layout() == layout && same(&found, &function(&a).unwrap()), "{layout} {number}");
        }
    }
    let uncoalesced = ops::cat(&[in_layout(&a, Layout::SparseCoo)], 0).unwrap();
    ops::sin_(&uncoalesced).unwrap();
    assert!(same(&uncoalesced, &ops::sin(&a).unwrap()));
}

#[test]
fn reductions() {
    let a = holey(&[4, 6], 6);
    for layout in LAYOUTS {
        let x = in_layout(&a, layout);
        assert!(same(&ops::sum(&x, None).unwrap(), &ops::sum(&a, None).unwrap()));
        for dim in [0, 1] {
            let found = sparse::sum_dim(&x, &[dim], false, None).unwrap();
            assert!(same(&found, &ops::sum_dim_intlist(&a, Some(&[dim]), false, None).unwrap()), "{layout}");
            if !layout.is_blocked() {
                let kept = ops::sum_dim_intlist(&x, Some(&[dim]), true, None).unwrap();
                assert!(
                    same(&kept, &ops::sum_dim_intlist(&a, Some(&[dim]), true, None).unwrap()),
                    "{layout}"
                );
            }
        }
        let norm = ops::norm_scalar(&x, 2.into()).unwrap();
        assert!(ops::allclose(&norm, &ops::norm_scalar(&a, 2.into()).unwrap(), 1e-12, 0.0, false).unwrap());
        assert!(ops::any(&x).unwrap().item::<bool>().unwrap());
        let equal = ops::equal(&x, &ops::clone(&x, None).unwrap()).unwrap();
        assert!(equal && !ops::equal(&x, &ops::neg(&x).unwrap()).unwrap(), "{layout}");
    }
    let hybrid = sparse::to_sparse_coo(&holey(&[3, 4, 2], 7), Some(2)).unwrap();
    for dims in [vec![0], vec![2], vec![0, 1], vec![1, 2], vec![0, 1, 2]] {
        let found = sparse::sum_dim(&hybrid, &dims, false, None).unwrap();
        let expected = ops::sum_dim_intlist(&dense(&hybrid), Some(&dims), false, None).unwrap();
        assert!(same(&found, &expected), "{dims:?}");
    }
}

#[test]
fn softmax_of_stored_elements() {
    let a = ops::div_scalar(&holey(&[4, 6], 8), 3.into()).unwrap();
    let hidden =
        ops::masked_fill_scalar(&a, &ops::eq_scalar(&a, 0.into()).unwrap(), f64::NEG_INFINITY.into())
            .unwrap();
    for layout in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc] {
        for dim in [0, 1, -1] {
            let found = dense(&sparse::softmax(&in_layout(&a, layout), dim, None).unwrap());
            let expected = ops::softmax_int(&hidden, dim, None).unwrap();
            let expected = ops::nan_to_num(&expected, Some(0.0), None, None).unwrap();
            assert!(ops::allclose(&found, &expected, 1e-12, 1e-12, false).unwrap(), "{layout} {dim}");
            let logs = sparse::log_softmax(&in_layout(&a, layout), dim, None).unwrap();
            let powers =
                sparse::raw_values(&sparse::softmax(&in_layout(&a, layout), dim, None).unwrap()).unwrap();
            let logs = ops::exp(&sparse::raw_values(&logs).unwrap()).unwrap();
            assert!(ops::allclose(&logs, &powers, 1e-12, 1e-12, false).unwrap(), "{layout} {dim}");
        }
    }
}

#[test]
fn shapes() {
    let (a, b) = (holey(&[4, 6], 9), holey(&[4, 6], 10));
    for layout in LAYOUTS {
        let (x, y) = (in_layout(&a, layout), in_layout(&b, layout));
        let transposed = ops::transpose_int(&x, 0, 1).unwrap();
        assert!(same(&transposed, &ops::transpose_int(&a, 0, 1).unwrap()), "{layout}");
        sparse::validate(&transposed).unwrap();
        assert!(same(&ops::t(&transposed).unwrap(), &a), "{layout}");
        for dim in [0, 1] {
            let joined = ops::cat(&[x.clone(), y.clone()], dim).unwrap();
            assert!(same(&joined, &ops::cat(&[a.clone(), b.clone()], dim).unwrap()), "{layout}");
        }
        let stacked = ops::stack(&[x.clone(), y.clone()], 1).unwrap();
        assert!(same(&stacked, &ops::stack(&[a.clone(), b.clone()], 1).unwrap()), "{layout}");
        assert!(same(&ops::squeeze_dim(&ops::unsqueeze(&x, 1).unwrap(), 1).unwrap(), &a), "{layout}");
        assert!(same(
            &ops::trace(&in_layout(&holey(&[6, 6], 11), layout)).unwrap(),
            &ops::trace(&holey(&[6, 6], 11)).unwrap()
        ));
    }
    let hybrid = sparse::to_sparse_coo(&holey(&[3, 4, 2, 2], 12), Some(2)).unwrap();
    let permuted = ops::permute(&hybrid, &[1, 0, 3, 2]).unwrap();
    assert!(same(&permuted, &ops::permute(&dense(&hybrid), &[1, 0, 3, 2]).unwrap()));
    let joined = ops::cat(&[hybrid.clone(), hybrid.clone()], 3).unwrap();
    assert!(same(&joined, &ops::cat(&[dense(&hybrid), dense(&hybrid)], 3).unwrap()));
    assert!(ops::permute(&hybrid, &[2, 0, 1, 3]).is_err());
}

#[test]
fn selection() {
    let a = holey(&[4, 6], 13);
    let index = longs(&[3, 0, 0, 2]);
    for layout in LAYOUTS {
        let x = in_layout(&a, layout);
        for dim in [0, 1] {
            if !layout.is_blocked() {
                let found = ops::index_select(&x, dim, &index).unwrap();
                assert!(
                    found.layout() == layout && same(&found, &ops::index_select(&a, dim, &index).unwrap()),
                    "{layout} {dim}"
                );
                sparse::validate(&found).unwrap();
                let part = ops::slice_tensor(&x, dim, Some(1), Some(-1), 2).unwrap();
                assert!(
                    same(&part, &ops::slice_tensor(&a, dim, Some(1), Some(-1), 2).unwrap()),
                    "{layout} {dim}"
                );
                let narrow = ops::narrow(&x, dim, 1, 2).unwrap();
                assert!(same(&narrow, &ops::narrow(&a, dim, 1, 2).unwrap()), "{layout} {dim}");
            }
            let one = ops::select_int(&x, dim, -1).unwrap();
            assert!(same(&one, &ops::select_int(&a, dim, -1).unwrap()), "{layout} {dim}");
        }
        assert!(ops::index_select(&x, 0, &longs(&[4])).is_err() && ops::select_int(&x, 0, 4).is_err());
    }
    let mask = Tensor::from([true, false, true, true]);
    let x = in_layout(&a, Layout::SparseCsr);
    let rows = ops::index_tensor(&x, &[Some(mask.clone())]).unwrap();
    assert!(same(&rows, &ops::index_tensor(&a, &[Some(mask)]).unwrap()));
    assert_eq!(ops::select_int(&ops::select_int(&x, 0, 1).unwrap(), 0, 2).unwrap().layout(), Layout::Strided);
}

#[test]
fn elements_at_a_mask() {
    let (a, mask) = (full(&[4, 6], 14), holey(&[4, 6], 15));
    let expected = ops::mul_tensor(&a, &ops::ne_scalar(&mask, 0.into()).unwrap()).unwrap();
    for layout in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc] {
        let found = sparse::sparse_mask(&a, &in_layout(&mask, layout)).unwrap();
        assert!(found.layout() == layout && same(&found, &expected), "{layout}");
        let of_sparse =
            sparse::sparse_mask(&in_layout(&a, Layout::SparseCoo), &in_layout(&mask, layout)).unwrap();
        assert!(same(&of_sparse, &expected), "{layout}");
    }
}

#[test]
fn results_keep_the_type_of_indices() {
    let as_ints = |values: &[i64]| as_type(&longs(values), ScalarType::I32);
    let values = Tensor::from([1.0f64, 2.0]);
    let x =
        sparse::sparse_csr_tensor(&as_ints(&[0, 1, 2]), &as_ints(&[1, 0]), &values, Some(&[2, 2])).unwrap();
    let factors = full(&[2, 2], 5);
    for made in [
        ops::add_tensor(&x, &x, 1.into()).unwrap(),
        ops::mul_tensor(&x, &x).unwrap(),
        ops::mul_tensor(&x, &factors).unwrap(),
    ] {
        assert_eq!(sparse::col_indices(&made).unwrap().dtype(), ScalarType::I32);
        assert_eq!(sparse::crow_indices(&made).unwrap().dtype(), ScalarType::I32);
        sparse::validate(&made).unwrap();
    }
}

#[test]
fn factors_that_broadcast() {
    let a = holey(&[3, 4, 2], 16);
    let hybrid = sparse::to_sparse_coo(&a, Some(2)).unwrap();
    for sizes in [&[2i64] as &[i64], &[1], &[1, 1, 1], &[4, 1], &[3, 1, 1], &[3, 1, 2], &[3, 4, 2]] {
        let factor = full(sizes, 17);
        let found = ops::mul_tensor(&hybrid, &factor).unwrap();
        assert!(same(&found, &ops::mul_tensor(&a, &factor).unwrap()), "{sizes:?}");
        let found = ops::div_tensor(&hybrid, &factor).unwrap();
        assert!(same(&found, &ops::div_tensor(&a, &factor).unwrap()), "{sizes:?}");
    }
    assert!(ops::mul_tensor(&hybrid, &full(&[3], 1)).is_err());
}

#[test]
fn means_and_norms() {
    let large =
        as_type(&ops::add_scalar(&full(&[64, 64], 18), 500.into(), 1.into()).unwrap(), ScalarType::F16);
    let x = in_layout(&large, Layout::SparseCsr);
    let mean = ops::mean(&x, None).unwrap();
    assert!(mean.dtype() == ScalarType::F16 && mean.to_string().contains("50"), "{mean}");
    let integers = in_layout(&as_type(&holey(&[4, 6], 1), ScalarType::I64), Layout::SparseCoo);
    assert!(ops::mean(&integers, None).is_err());
    let kept = ops::linalg_vector_norm(&x, 2.into(), None, true, Some(ScalarType::F64)).unwrap();
    assert!(kept.sizes() == [1, 1] && kept.dtype() == ScalarType::F64);
    let coo = in_layout(&holey(&[4, 6], 1), Layout::SparseCoo);
    assert!(sparse::sum_dim(&coo, &[0, -2], false, None).is_err());
    let total = sparse::sum_dim(&integers, &[0, 1], false, Some(ScalarType::I32)).unwrap();
    assert_eq!(total.dtype(), ScalarType::I32);
}

#[test]
fn what_is_added_to_a_product_does_not_enlarge_it() {
    let (x, y) = (in_layout(&holey(&[4, 6], 19), Layout::SparseCsr), full(&[6, 1], 20));
    let added = |input: &Tensor| ops::addmm(input, &x, &y, 1.into(), 1.into());
    assert!(
        added(&full(&[4, 3], 1)).is_err() && added(&as_type(&full(&[4, 1], 1), ScalarType::F32)).is_err()
    );
    let bias = full(&[1], 21);
    let expected = ops::add_tensor(&ops::mm(&x, &y).unwrap(), &bias, 1.into()).unwrap();
    assert!(same(&added(&bias).unwrap(), &expected));
}
