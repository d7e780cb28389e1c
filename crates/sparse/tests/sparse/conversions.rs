//! Constructors, parts, conversions between all layouts, printing.

use crate::matrices::{LAYOUTS, as_type, dense, holey, in_layout, longs, same};
use flambeau_core::{ErrorKind, Layout, ScalarType};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse as sparse;

#[test]
fn every_layout_converts_to_every_other() {
    for sizes in [[4i64, 6], [6, 3], [2, 3]] {
        let matrix = holey(&sizes, 1);
        for from in LAYOUTS {
            let one = in_layout(&matrix, from);
            assert!(one.layout() == from && same(&one, &matrix), "{from}");
            sparse::validate(&one).unwrap();
            for to in LAYOUTS {
                let other = in_layout(&one, to);
                assert!(other.layout() == to && same(&other, &matrix), "{from} {to}");
                sparse::validate(&other).unwrap();
            }
        }
    }
}

#[test]
fn batches_hybrids_and_empty_ones() {
    // The same number of elements in each matrix of a batch.
    let one = holey(&[4, 6], 2);
    let batch = ops::stack(&[one.clone(), ops::neg(&one).unwrap()], 0).unwrap();
    for layout in LAYOUTS {
        let made = in_layout(&batch, layout);
        assert!(same(&made, &batch), "{layout}");
        assert_eq!(sparse::dense_dim(&made), 0);
    }
    let hybrid = holey(&[4, 6, 2], 3);
    for layout in LAYOUTS {
        let block = layout.is_blocked().then_some([2, 3]);
        let made = sparse::to_sparse(&hybrid, layout, block, Some(1)).unwrap();
        assert!(same(&made, &hybrid) && sparse::dense_dim(&made) == 1, "{layout}");
    }
    for sizes in [[0i64, 0], [0, 3], [2, 0]] {
        let none = Tensor::zeros(&sizes, ScalarType::F64).unwrap();
        for layout in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc] {
            assert!(same(&in_layout(&none, layout), &none), "{layout} {sizes:?}");
        }
    }
    let uneven = ops::stack(&[one.clone(), ops::mul_scalar(&one, 0.into()).unwrap()], 0).unwrap();
    let error = sparse::to_sparse(&uneven, Layout::SparseCsr, None, None).unwrap_err();
    assert!(error.to_string().contains("same number"), "{error}");
}

#[test]
fn duplicates_mean_their_sum() {
    let indices = Tensor::from([[1i64, 0, 1, 0], [2, 1, 2, 0]]);
    let values = Tensor::from([1.0f64, 2.0, 3.0, 4.0]);
    let made = sparse::sparse_coo_tensor(&indices, &values, Some(&[2, 3]), None).unwrap();
    assert_eq!(dense(&made).to_vec::<f64>().unwrap(), [4.0, 2.0, 0.0, 0.0, 0.0, 4.0]);
    assert!(!sparse::is_coalesced(&made).unwrap() && sparse::indices(&made).is_err());
    let coalesced = sparse::coalesce(&made).unwrap();
    assert_eq!(sparse::values(&coalesced).unwrap().to_vec::<f64>().unwrap(), [4.0, 2.0, 4.0]);
    assert_eq!(sparse::indices(&coalesced).unwrap().to_vec::<i64>().unwrap(), [0, 0, 1, 0, 1, 2]);
    assert_eq!((sparse::nnz(&made).unwrap(), sparse::nnz(&coalesced).unwrap()), (4, 3));
    // Nonlinear functions are applied to sums.
    let squared = ops::square(&made).unwrap();
    assert_eq!(dense(&squared).to_vec::<f64>().unwrap(), [16.0, 4.0, 0.0, 0.0, 0.0, 16.0]);
}

#[test]
fn all_types() {
    for dtype in ScalarType::WORKING {
        if dtype.is_float8() || dtype == ScalarType::Complex32 || dtype.is_complex() {
            continue;
        }
        let matrix = as_type(&ops::abs(&holey(&[4, 6], 4)).unwrap(), dtype);
        if matches!(dtype, ScalarType::U16 | ScalarType::U32 | ScalarType::U64) {
            continue;
        }
        for layout in LAYOUTS {
            let made = in_layout(&matrix, layout);
            assert!(same(&made, &matrix) && made.dtype() == dtype, "{dtype} {layout}");
        }
    }
}

#[test]
fn huge_sizes_need_no_memory() {
    let indices = Tensor::from([[7i64 << 28, 1], [0, 1 << 29]]);
    let values = Tensor::from([1.0f32, 2.0]);
    let made = sparse::sparse_coo_tensor(&indices, &values, Some(&[1 << 31, 1 << 30]), None).unwrap();
    let sum = ops::add_tensor(&made, &made, 1.into()).unwrap();
    assert_eq!(sparse::values(&sum).unwrap().to_vec::<f32>().unwrap(), [4.0, 2.0]);
    assert_eq!(ops::sum(&made, None).unwrap().item::<f32>().unwrap(), 3.0);
    assert!(sparse::to_dense(&made).is_err());
}

#[test]
fn text() {
    let matrix = Tensor::from([[0.0f32, 1.0], [2.0, 0.0]]);
    assert_eq!(
        in_layout(&matrix, Layout::SparseCoo).to_string(),
        "tensor(indices=tensor([[0, 1],\n                       [1, 0]]),\n       values=tensor([1., 2.]),\n       \
         size=(2, 2), nnz=2, layout=torch.sparse_coo)"
    );
    assert_eq!(
        in_layout(&matrix, Layout::SparseCsr).to_string(),
        "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([1, 0]),\n       values=tensor([1., 2.]), \
         size=(2, 2), nnz=2, layout=torch.sparse_csr)"
    );
}

#[test]
fn operators_without_a_rule_name_layout_and_operator() {
    let made = in_layout(&holey(&[4, 6], 5), Layout::SparseCsr);
    for error in [ops::exp(&made).unwrap_err(), ops::cumsum(&made, 0, None).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotImplemented);
        assert!(error.to_string().contains("to_dense()") && error.to_string().contains("Sparse"), "{error}");
    }
    assert!(made.to_vec::<f64>().is_err() && made.item::<f64>().is_err());
    assert!(ops::view(&made, &[24]).is_err() && ops::add_scalar(&made, 1.into(), 1.into()).is_err());
}

#[test]
fn resizing() {
    let made = in_layout(&holey(&[4, 6], 6), Layout::SparseCoo);
    let before = dense(&made);
    sparse::sparse_resize_(&made, &[5, 7], 2, 0).unwrap();
    assert_eq!(made.sizes(), [5, 7]);
    let inside = ops::slice_tensor(&dense(&made), 0, None, Some(4), 1).unwrap();
    assert!(same(&ops::slice_tensor(&inside, 1, None, Some(6), 1).unwrap(), &before));
    assert!(sparse::sparse_resize_(&made, &[1, 1], 2, 0).is_err());
    assert!(sparse::sparse_resize_(&made, &[5, 7, 2], 2, 1).is_err());
}

#[test]
fn diagonals() {
    let diagonals = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let made = sparse::spdiags(&diagonals, &longs(&[0, 1]), &[3, 3], None).unwrap();
    assert_eq!(dense(&made).to_vec::<f32>().unwrap(), [1.0, 5.0, 0.0, 0.0, 2.0, 6.0, 0.0, 0.0, 3.0]);
    let below = sparse::spdiags(&diagonals, &longs(&[-2, 5]), &[4, 3], Some(Layout::SparseCsr)).unwrap();
    assert_eq!(dense(&below).to_vec::<f32>().unwrap()[6..], [1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    assert!(sparse::spdiags(&diagonals, &longs(&[1, 1]), &[3, 3], None).is_err());
}
