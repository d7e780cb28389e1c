//! Files of the crate that need nothing of it, compiled here once more so that their private parts can be asked.
#![allow(dead_code, reason = "each test asks its part")]

#[path = "../../src/native/stored.rs"]
mod stored;
#[path = "../../src/native/walk.rs"]
mod walk;

use half::f16;
use stored::Sortable;
use walk::Walk;

#[test]
fn offsets_are_those_of_nested_loops() {
    let cases: &[(&[i64], &[i64], &[i64])] = &[
        (&[2, 3, 4], &[12, 4, 1], &[12, 4, 1]),
        (&[2, 3, 4], &[12, 4, 1], &[1, 2, 6]),
        (&[2, 1, 4], &[4, 99, 1], &[0, 7, 1]),
        (&[2, 3, 4], &[12, 4, 1], &[12, -4, -1]),
        (&[], &[], &[]),
        (&[1], &[5], &[3]),
        (&[3, 0], &[1, 1], &[1, 1]),
    ];
    for (sizes, a, b) in cases {
        let mut expected = vec![[0i64, 0]];
        for d in 0..sizes.len() {
            let step = |o: &[i64; 2], i: i64| [o[0] + i * a[d], o[1] + i * b[d]];
            expected = expected.iter().flat_map(|o| (0..sizes[d]).map(move |i| step(o, i))).collect();
        }
        let mut met = vec![];
        let walk = Walk::new(sizes, [a, b]);
        walk.each(|offsets| met.push(offsets));
        assert_eq!(met, expected, "{sizes:?}");
        let mut parts = vec![];
        for start in (0..walk.numel()).step_by(5) {
            walk.stretches(start..(start + 5).min(walk.numel()), |first, n| {
                let steps = walk.steps();
                parts.extend((0..n as i64).map(|j| [first[0] + j * steps[0], first[1] + j * steps[1]]));
            });
        }
        assert_eq!(parts, expected, "{sizes:?} in parts");
    }
}

#[test]
fn order_is_that_of_the_values_with_nan_last() {
    let values = [f32::NEG_INFINITY, -2.0, -1e-40, 0.0, 1e-40, 1.0, f32::INFINITY, f32::NAN];
    assert!(values.windows(2).all(|w| w[0].order() < w[1].order()));
    assert_eq!((-0.0f32).order(), 0.0f32.order());
    assert_eq!((-f32::NAN).order(), f32::NAN.order());
    assert!(values.iter().all(|v| v.order() >> 32 == 0));
    let integers = [i64::MIN, -1, 0, 1, i64::MAX];
    assert!(integers.windows(2).all(|w| w[0].order() < w[1].order()));
    assert!((-1i8).order() < 1i8.order() && i8::MIN.order() == 0 && u8::MAX.order() == 255);
    assert!(f16::from_f32(-1.0).order() < f16::from_f32(2.0).order());
}
