//! Paddings that `_resample` and its transpose take as scales are checked before they become indices.

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
