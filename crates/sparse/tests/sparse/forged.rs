//! Indices that are wrong, from the start or by a write afterwards, are errors of whatever reads by them.

use crate::matrices::{LAYOUTS, full, holey, in_layout, longs};
use flambeau_core::{ErrorKind, Layout};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse as sparse;

#[test]
fn constructors_check() {
    let values = Tensor::from([1.0f64, 2.0]);
    for indices in [[[0i64, 3], [0, 0]], [[0, -1], [0, 0]], [[0, 1], [0, 1 << 62]]] {
        let error = sparse::sparse_coo_tensor(&Tensor::from(indices), &values, Some(&[3, 3]), None);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Index, "{indices:?}");
    }
    let unsorted = Tensor::from([[1i64, 0], [0, 0]]);
    assert!(sparse::sparse_coo_tensor(&unsorted, &values, Some(&[3, 3]), Some(true)).is_err());
    let forged: [(&[i64], &[i64]); 8] = [
        (&[0, 1], &[0, 1]),
        (&[0, 1, 3], &[0, 1]),
        (&[1, 1, 2], &[0, 1]),
        (&[0, 3, 2], &[0, 1]),
        (&[0, -1, 2], &[0, 1]),
        (&[0, 1, 2], &[0, 2]),
        (&[0, 1, 2], &[0, -1]),
        (&[0, 2, 2], &[1, 0]),
    ];
    for (crow, col) in forged {
        let made = sparse::sparse_csr_tensor(&longs(crow), &longs(col), &values, Some(&[2, 2]));
        assert!(made.is_err(), "{crow:?} {col:?}");
    }
}

#[test]
fn writes_into_indices_are_found() {
    let matrix = holey(&[4, 6], 7);
    let vector = full(&[6, 2], 8);
    for layout in LAYOUTS {
        for bad in [1i64 << 40, -5, 100] {
            let made = in_layout(&matrix, layout);
            let index = match layout {
                Layout::SparseCoo => sparse::raw_indices(&made),
                Layout::SparseCsr | Layout::SparseBsr => sparse::col_indices(&made),
                _ => sparse::row_indices(&made),
            };
            ops::fill__scalar(&index.unwrap(), bad.into()).unwrap();
            assert!(sparse::to_dense(&made).is_err(), "{layout} {bad}");
            assert!(ops::mm(&made, &vector).is_err(), "{layout} {bad}");
            assert!(ops::mm(&full(&[2, 4], 9), &made).is_err(), "{layout} {bad}");
            assert!(sparse::validate(&made).is_err(), "{layout} {bad}");
        }
    }
    for bad in [1i64 << 40, -5] {
        let made = in_layout(&matrix, Layout::SparseCsr);
        ops::fill__scalar(&sparse::crow_indices(&made).unwrap(), bad.into()).unwrap();
        assert!(sparse::to_dense(&made).is_err() && ops::mm(&made, &vector).is_err());
        assert!(ops::mm(&made, &in_layout(&holey(&[6, 6], 1), Layout::SparseCsr)).is_err());
        assert!(ops::index_select(&made, 0, &longs(&[0, 1])).is_err());
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    use sparse::SparseParts;
    let parts = SparseParts::Coo {
        indices: Tensor::from([[5i64], [5]]),
        values: Tensor::from([1.0f64]),
        is_coalesced: true,
    };
    let forged = Tensor::from_sparse_parts(Layout::SparseCoo, &[2, 2], parts.clone()).unwrap();
    assert!(sparse::to_dense(&forged).is_err() && ops::mm(&forged, &full(&[2, 2], 1)).is_err());
    assert!(ops::mul_tensor(&forged, &forged).is_err());
    assert!(Tensor::from_sparse_parts(Layout::SparseCsr, &[2, 2], parts.clone()).is_err());
    assert!(Tensor::from([1.0f64]).replace_sparse_parts(parts).is_err());
}

#[test]
fn indices_of_blocks_do_not_wrap_around() {
    for layout in [Layout::SparseBsr, Layout::SparseBsc] {
        let made = sparse::to_sparse(&full(&[8, 8], 3), layout, Some([4, 4]), None).unwrap();
        let index = match layout {
            Layout::SparseBsr => sparse::col_indices(&made),
            _ => sparse::row_indices(&made),
        };
        // Times 4 it is 0 in 64 bits.
        ops::fill__scalar(&index.unwrap(), (1i64 << 62).into()).unwrap();
        assert_eq!(sparse::to_dense(&made).unwrap_err().kind(), ErrorKind::Index, "{layout}");
        assert!(sparse::to_sparse(&made, Layout::SparseCsr, None, None).is_err(), "{layout}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let indices = Tensor::from([[0i64]]);
    let long = sparse::sparse_coo_tensor(&indices, &Tensor::from([1.0f64]), Some(&[1 << 62]), None).unwrap();
    assert_eq!(ops::cat(&[long.clone(), long], 0).unwrap_err().kind(), ErrorKind::Overflow);
    let parts = |indices: Tensor, values: Tensor| {
        let parts = sparse::SparseParts::Coo { indices, values, is_coalesced: true };
        Tensor::from_sparse_parts(Layout::SparseCoo, &[2, 2], parts)
    };
    assert!(parts(longs(&[0, 1]), Tensor::from([1.0f64, 2.0])).is_err());
    assert!(parts(Tensor::from([[0i64], [0], [0]]), Tensor::from([1.0f64])).is_err());
}
