//! Files of the crate that depend on nothing else of it, compiled here once more so that their private functions can be tested.
#![allow(dead_code, reason = "each test uses its part")]
#![expect(unsafe_code, reason = "elements are read and moved as bytes of arrays that hold them")]

#[path = "../../src/loops/reduce/accumulator.rs"]
mod accumulator;
#[path = "../../src/native/element_bits.rs"]
mod element_bits;
#[path = "../../src/loops/strided.rs"]
mod strided;
#[path = "../../src/native/strided_iter.rs"]
mod strided_iter;

use accumulator::Accumulator;
use element_bits::Sortable;
use half::f16;
use strided::copy_strided;
use strided_iter::StridedIter;

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
        let iter = StridedIter::new(sizes, [a, b]);
        iter.for_each(|offsets| met.push(offsets));
        assert_eq!(met, expected, "{sizes:?}");
        let mut parts = vec![];
        for start in (0..iter.numel()).step_by(5) {
            iter.for_each_run(start..(start + 5).min(iter.numel()), |first, n| {
                let steps = iter.steps();
                parts.extend((0..n as i64).map(|j| [first[0] + j * steps[0], first[1] + j * steps[1]]));
            });
        }
        assert_eq!(parts, expected, "{sizes:?} in parts");
    }
}

#[test]
fn order_is_that_of_the_values_with_nan_last() {
    let values = [f32::NEG_INFINITY, -2.0, -1e-40, 0.0, 1e-40, 1.0, f32::INFINITY, f32::NAN];
    assert!(values.windows(2).all(|w| w[0].sort_key() < w[1].sort_key()));
    assert_eq!((-0.0f32).sort_key(), 0.0f32.sort_key());
    assert_eq!((-f32::NAN).sort_key(), f32::NAN.sort_key());
    assert!(values.iter().all(|v| v.sort_key() >> 32 == 0));
    let integers = [i64::MIN, -1, 0, 1, i64::MAX];
    assert!(integers.windows(2).all(|w| w[0].sort_key() < w[1].sort_key()));
    assert!((-1i8).sort_key() < 1i8.sort_key() && i8::MIN.sort_key() == 0 && u8::MAX.sort_key() == 255);
    assert!(f16::from_f32(-1.0).sort_key() < f16::from_f32(2.0).sort_key());
}

#[test]
fn accumulators_hold_elements_of_up_to_sixteen_bytes() {
    fn check<T: bytemuck::NoUninit + bytemuck::AnyBitPattern + PartialEq + std::fmt::Debug>(value: T) {
        let accumulator = Accumulator::of(value);
        // SAFETY: it was made of such an element.
        let (held, words) = unsafe {
            (accumulator.as_ptr().cast::<T>().read_unaligned(), accumulator.repeated(size_of::<T>()))
        };
        assert_eq!(held, value);
        let parts = bytemuck::bytes_of(&words).chunks(size_of::<T>());
        assert_eq!(
            parts.map(bytemuck::pod_read_unaligned::<T>).collect::<Vec<_>>(),
            vec![value; 16 / size_of::<T>()]
        );
    }
    check(0x5au8);
    check(f16::from_f32(-1.5));
    check(-7i32);
    check(f64::MIN_POSITIVE);
    check([1.0f32, -0.0]);
    check([f64::MAX, -2.0]);
}

#[test]
fn elements_of_every_size_are_copied_between_strides() {
    const BYTES: usize = 6000;
    let bytes: Vec<u8> = (0..BYTES as u32).map(|i| (i * 7919 % 251) as u8).collect();
    let strides = |size: usize| {
        let dense = size as i64;
        let at_step = [2, 3, 4, 5].map(|step| [step * dense, dense]);
        let others =
            [[dense, dense], [0, dense], [dense + 3, dense], [dense, 2 * dense], [-dense - 1, dense + 5]];
        at_step
            .into_iter()
            .chain(others)
            .flat_map(move |strides| [9usize, 32, 70].map(|count| (count, size, strides)))
    };
    for (count, size, [from, to]) in [1, 2, 4, 8, 16].into_iter().flat_map(strides) {
        let first = if from < 0 { 3000i64 } else { 1 };
        let (mut got, mut expected) = (vec![255u8; BYTES], vec![255u8; BYTES]);
        for i in 0..count as i64 {
            let element = &bytes[(first + i * from) as usize..][..size];
            expected[(3 + i * to) as usize..][..size].copy_from_slice(element);
        }
        // SAFETY: all elements are inside the vectors.
        unsafe {
            let source = bytes.as_ptr().add(first as usize);
            copy_strided(source, from, got.as_mut_ptr().add(3), to, count, size);
        }
        assert_eq!(got, expected, "{size} bytes, from {from} to {to} apart");
    }
}
