//! Arguments of `_resample` and `_grid_sample` are checked before they become indices.

use crate::support::*;
use flambeau_core::ScalarType;
use flambeau_ops::ops;

const REPLICATION: i64 = 4;
const REFLECTION: i64 = 5;

#[test]
fn paddings_that_no_index_can_have_are_refused() {
    let x = sample(&[2, 3], ScalarType::F32, 1);
    for padding in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e300, 2147483648.0] {
        for mode in [REPLICATION, REFLECTION] {
            for result in [
                ops::_resample(&x, &[5], mode, false, &[padding]),
                ops::_resample_transposed(&x, &[5], mode, false, &[padding]),
            ] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("expected paddings below 2^31"), "{padding} {mode}: {error}");
            }
        }
    }
}

#[test]
fn paddings_beyond_the_row_reach_its_border() {
    let x = sample(&[2, 3], ScalarType::F32, 1);
    let last = ops::_resample(&x, &[4], REPLICATION, false, &[-1e6]).unwrap();
    assert_eq!(values(&last)[..4], [values(&x)[2]; 4]);
}

#[test]
fn grids_of_other_than_two_or_three_dimensions_are_refused() {
    for dims in [0, 1, 4, 32] {
        let (x, grid) = (vec![1; dims + 2], [vec![1; dims + 1], vec![dims as i64]].concat());
        let [x, grid] = [x, grid].map(|sizes| sample(&sizes, ScalarType::F32, 1));
        let error = ops::_grid_sample(&x, &grid, &vec![0; dims], 1, 0, true).unwrap_err().to_string();
        assert!(error.contains("two or three spatial dimensions"), "{error}");
    }
}
