//! Pooling and its gradients against the definition, in f64.

use crate::exact::{FLOATS, NUMBERS, empty, layouts, numel, small, tensor, values};
use flambeau_core::{ErrorKind, MemoryFormat, ScalarType};
use flambeau_ops::{Tensor, ops};

#[derive(Clone, Debug)]
struct Case {
    x: [i64; 4],
    kernel: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    ceil: bool,
}

fn cases() -> Vec<Case> {
    let case =
        |x, kernel, stride, padding, dilation, ceil| Case { x, kernel, stride, padding, dilation, ceil };
    vec![
        case([2, 3, 7, 8], [3, 3], [2, 2], [1, 1], [1, 1], false),
        case([2, 3, 7, 8], [2, 2], [2, 2], [0, 0], [1, 1], true),
        case([1, 2, 6, 40], [3, 2], [1, 3], [1, 1], [1, 1], true),
        case([1, 1, 5, 5], [5, 5], [1, 1], [2, 2], [1, 1], false),
        case([3, 1, 4, 4], [1, 1], [1, 1], [0, 0], [1, 1], false),
        case([1, 2, 1, 9], [1, 4], [5, 4], [0, 2], [1, 1], true),
        case([0, 2, 4, 4], [2, 2], [2, 2], [0, 0], [1, 1], false),
        // Rows around the sizes that are compared together, read one or two apart.
        case([2, 3, 9, 34], [2, 2], [2, 2], [0, 0], [1, 1], false),
        case([3, 5, 14, 14], [2, 2], [2, 2], [0, 0], [1, 1], false),
        case([1, 2, 3, 7], [2, 2], [2, 2], [0, 0], [1, 1], false),
        case([1, 3, 8, 66], [3, 3], [2, 2], [1, 1], [1, 1], true),
        case([2, 2, 6, 33], [3, 3], [1, 1], [1, 1], [1, 1], false),
    ]
}

fn dilated() -> Vec<Case> {
    let more = Case {
        x: [2, 2, 9, 10],
        kernel: [3, 2],
        stride: [2, 1],
        padding: [1, 0],
        dilation: [2, 3],
        ceil: false,
    };
    [cases(), vec![more]].concat()
}

impl Case {
    fn output(&self, d: usize) -> i64 {
        let (x, k, s, p) = (self.x[d + 2], self.kernel[d], self.stride[d], self.padding[d]);
        let room = x + 2 * p - self.dilation[d] * (k - 1) - 1;
        let size = if self.ceil { (room + s - 1).div_euclid(s) } else { room / s } + 1;
        if self.ceil && (size - 1) * s >= x + p { size - 1 } else { size }
    }

    fn sizes(&self) -> [i64; 4] {
        [self.x[0], self.x[1], self.output(0), self.output(1)]
    }

    /// The indices in the plane, in order, of each window.
    fn window(&self, oy: i64, ox: i64) -> Vec<usize> {
        let coordinate =
            |d: usize, o: i64, k: i64| o * self.stride[d] - self.padding[d] + k * self.dilation[d];
        let mut all = vec![];
        for ky in 0..self.kernel[0] {
            for kx in 0..self.kernel[1] {
                let (y, x) = (coordinate(0, oy, ky), coordinate(1, ox, kx));
                if (0..self.x[2]).contains(&y) && (0..self.x[3]).contains(&x) {
                    all.push((y * self.x[3] + x) as usize);
                }
            }
        }
        all
    }

    fn counted(&self, oy: i64, ox: i64, padded: bool) -> f64 {
        let reach = |d: usize, o: i64| {
            let start = o * self.stride[d] - self.padding[d];
            (start + self.kernel[d]).min(self.x[d + 2] + self.padding[d]) - start
        };
        if padded { (reach(0, oy) * reach(1, ox)) as f64 } else { self.window(oy, ox).len() as f64 }
    }

    /// Calls `f` with plane, output index, and window for every output element.
    fn each(&self, mut f: impl FnMut(usize, usize, [i64; 2])) {
        let s = self.sizes();
        let mut o = 0;
        for plane in 0..(s[0] * s[1]) as usize {
            for y in 0..s[2] {
                for x in 0..s[3] {
                    f(plane * (self.x[2] * self.x[3]) as usize, o, [y, x]);
                    o += 1;
                }
            }
        }
    }
}

fn variants(x: &Tensor) -> Vec<Tensor> {
    let mut all = layouts(x);
    all.push(ops::clone(x, Some(MemoryFormat::ChannelsLast)).unwrap());
    all
}

#[test]
fn max_pool() {
    for dtype in NUMBERS {
        for case in dilated() {
            let mut data = small(numel(&case.x), 1, dtype);
            if dtype.is_floating_point() {
                data.iter_mut().step_by(7).for_each(|v| *v = f64::NAN);
                data.iter_mut().skip(3).step_by(5).for_each(|v| *v = f64::NEG_INFINITY);
            }
            let x = tensor(&data, &case.x, dtype);
            let (mut best, mut at) = (vec![], vec![]);
            case.each(|plane, _, [oy, ox]| {
                let mut found = None;
                for index in case.window(oy, ox) {
                    let v = data[plane + index];
                    if found.is_none_or(|(b, _)| v > b || v.is_nan()) {
                        found = Some((v, index));
                    }
                }
                let (v, index) = found.unwrap();
                best.push(v.to_bits());
                at.push(index as f64);
            });
            for x in variants(&x) {
                let (y, indices) = ops::max_pool2d_with_indices(
                    &x,
                    &case.kernel,
                    &case.stride,
                    &case.padding,
                    &case.dilation,
                    case.ceil,
                )
                .unwrap();
                assert_eq!((y.sizes(), y.dtype()), (case.sizes().as_slice(), dtype));
                assert_eq!(values(&indices), at, "{dtype} {case:?}");
                let canonical = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
                let found: Vec<u64> = values(&y).into_iter().map(canonical).collect();
                let expected: Vec<u64> = best.iter().map(|b| canonical(f64::from_bits(*b))).collect();
                assert_eq!(found, expected, "{dtype} {case:?}");
                assert!(y.is_contiguous_as(x.suggest_memory_format()));
            }
        }
    }
}

#[test]
fn max_pool_gradients() {
    for dtype in FLOATS {
        for case in dilated() {
            let x = tensor(&small(numel(&case.x), 2, dtype), &case.x, dtype);
            let lists = (&case.kernel, &case.stride, &case.padding, &case.dilation);
            let (_, indices) =
                ops::max_pool2d_with_indices(&x, lists.0, lists.1, lists.2, lists.3, case.ceil).unwrap();
            let gs = small(numel(&case.sizes()), 3, dtype);
            let (at, mut gx) = (values(&indices), vec![0.0; numel(&case.x)]);
            case.each(|plane, o, _| gx[plane + at[o] as usize] += gs[o]);
            for gy in variants(&tensor(&gs, &case.sizes(), dtype)) {
                let result = ops::max_pool2d_with_indices_backward(
                    &gy, &x, lists.0, lists.1, lists.2, lists.3, case.ceil, &indices,
                )
                .unwrap();
                assert_eq!((values(&result), result.dtype()), (gx.clone(), dtype), "{case:?}");
            }
        }
    }
}

#[test]
fn an_index_from_elsewhere_writes_nothing() {
    let f = ScalarType::F32;
    let x = tensor(&[1.0; 4], &[1, 1, 2, 2], f);
    let gy = tensor(&[5.0], &[1, 1, 1, 1], f);
    for index in [-1.0, 4.0, 1e15] {
        let wrong = tensor(&[index], &[1, 1, 1, 1], ScalarType::I64);
        let gx =
            ops::max_pool2d_with_indices_backward(&gy, &x, &[2], &[2], &[0], &[1], false, &wrong).unwrap();
        assert_eq!(values(&gx), [0.0; 4]);
    }
}

/// Divisions are rounded once, in f32 or f64.
fn rounded(value: f64, dtype: ScalarType) -> f64 {
    let sum = if dtype == ScalarType::F64 { value } else { f64::from(value as f32) };
    values(&tensor(&[sum], &[1], dtype))[0]
}

#[test]
fn means_and_their_gradients() {
    for dtype in FLOATS {
        for case in cases() {
            for (padded, divisor) in [(true, None), (false, None), (true, Some(3)), (false, Some(-2))] {
                let data = small(numel(&case.x), 4, dtype);
                let x = tensor(&data, &case.x, dtype);
                let mut expected = vec![];
                case.each(|plane, _, [oy, ox]| {
                    let sum: f64 = case.window(oy, ox).iter().map(|p| data[plane + p]).sum();
                    let count = divisor.map_or(case.counted(oy, ox, padded), |d| d as f64);
                    expected.push(rounded(sum / count, dtype));
                });
                let (k, s, p, c) = (&case.kernel, &case.stride, &case.padding, case.ceil);
                for x in variants(&x) {
                    let y = ops::avg_pool2d(&x, k, s, p, c, padded, divisor).unwrap();
                    assert_eq!(
                        (y.sizes(), values(&y)),
                        (case.sizes().as_slice(), expected.clone()),
                        "{dtype} {case:?}"
                    );
                }
                if dtype != ScalarType::F64 {
                    continue;
                }
                let (gs, mut gx) = (small(numel(&case.sizes()), 5, dtype), vec![0.0; numel(&case.x)]);
                case.each(|plane, o, [oy, ox]| {
                    let count = divisor.map_or(case.counted(oy, ox, padded), |d| d as f64);
                    case.window(oy, ox).iter().for_each(|p| gx[plane + p] += gs[o] / count);
                });
                for gy in variants(&tensor(&gs, &case.sizes(), dtype)) {
                    let result = ops::avg_pool2d_backward(&gy, &x, k, s, p, c, padded, divisor).unwrap();
                    let near = |a: &f64, b: &f64| (a - b).abs() <= 1e-14;
                    assert!(values(&result).iter().zip(&gx).all(|(a, b)| near(a, b)), "{case:?}");
                }
            }
        }
    }
    let whole = tensor(&[1.0, 2.0, -4.0, -2.0], &[1, 2, 2], ScalarType::I64);
    assert_eq!(values(&ops::avg_pool2d(&whole, &[2], &[], &[0], false, true, None).unwrap()), [0.0]);
}

#[test]
fn adaptive_means() {
    for dtype in FLOATS {
        for (sizes, output) in
            [([2, 3, 7, 5], [3, 2]), ([1, 2, 4, 4], [1, 1]), ([1, 1, 2, 3], [5, 7]), ([2, 1, 3, 3], [0, 2])]
        {
            let data = small(numel(&sizes), 6, dtype);
            let x = tensor(&data, &sizes, dtype);
            let [h, w] = [sizes[2], sizes[3]];
            let range =
                |o: i64, input: i64, output: i64| o * input / output..((o + 1) * input + output - 1) / output;
            let (mut expected, mut gx) = (vec![], vec![0.0; data.len()]);
            let gs = small(numel(&[sizes[0], sizes[1], output[0], output[1]]), 7, dtype);
            for plane in 0..(sizes[0] * sizes[1]) {
                for [oy, ox] in (0..output[0]).flat_map(|y| (0..output[1]).map(move |x| [y, x])) {
                    let (rows, columns) = (range(oy, h, output[0]), range(ox, w, output[1]));
                    let count = ((rows.end - rows.start) * (columns.end - columns.start)) as f64;
                    let window: Vec<usize> = rows
                        .flat_map(|y| columns.clone().map(move |x| (plane * h * w + y * w + x) as usize))
                        .collect();
                    let g = gs[expected.len()];
                    window.iter().for_each(|p| gx[*p] += g / count);
                    expected.push(rounded(window.iter().map(|p| data[*p]).sum::<f64>() / count, dtype));
                }
            }
            for x in variants(&x) {
                assert_eq!(
                    values(&ops::adaptive_avg_pool2d(&x, &output).unwrap()),
                    expected,
                    "{sizes:?} {output:?}"
                );
            }
            if dtype == ScalarType::F64 {
                let gy = tensor(&gs, &[sizes[0], sizes[1], output[0], output[1]], dtype);
                let result = values(&ops::_adaptive_avg_pool2d_backward(&gy, &x).unwrap());
                assert!(result.iter().zip(&gx).all(|(a, b)| (a - b).abs() <= 1e-14));
            }
        }
    }
}

#[test]
fn errors() {
    let of = |s: &[i64]| empty(s, ScalarType::F32);
    let max =
        |x: &[i64], k: &[i64], s: &[i64], p: &[i64], d: &[i64]| ops::max_pool2d(&of(x), k, s, p, d, false);
    let check = |result: flambeau_core::Result<Tensor>, kind, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    use ErrorKind::{InvalidArgument, NotImplemented, Shape};
    check(max(&[1, 2, 5, 5], &[2], &[], &[2], &[1]), InvalidArgument, "pad=2, kernel_size=2 and dilation=1");
    check(max(&[1, 2, 5, 5], &[2], &[0], &[0], &[1]), InvalidArgument, "stride should not be zero");
    check(max(&[1, 2, 5, 5], &[2], &[], &[0], &[0]), InvalidArgument, "dilation should be greater than zero");
    check(max(&[1, 2, 5, 5], &[2], &[], &[-1], &[1]), InvalidArgument, "pad must be non-negative");
    check(max(&[1, 2, 5, 5], &[2, 2, 2], &[], &[0], &[1]), InvalidArgument, "a tuple of two ints");
    check(max(&[1, 2, 1, 1], &[2], &[], &[0], &[1]), Shape, "Output size is too small");
    check(max(&[1, 0, 5, 5], &[2], &[], &[0], &[1]), Shape, "Expected 3D or 4D");
    check(max(&[5, 5], &[2], &[], &[0], &[1]), Shape, "Expected 3D or 4D");
    check(max(&[1, 1, 5, 5], &[i64::MAX], &[], &[0], &[i64::MAX]), ErrorKind::Overflow, "63 bits");
    let truths = empty(&[1, 1, 4, 4], ScalarType::Bool);
    check(ops::max_pool2d(&truths, &[2], &[], &[0], &[1], false), NotImplemented, "bool");
    check(
        ops::avg_pool2d(&of(&[1, 1, 4, 4]), &[2], &[], &[0], false, true, Some(0)),
        InvalidArgument,
        "divisor",
    );
    check(
        ops::adaptive_avg_pool2d(&of(&[1, 1, 4, 4]), &[-1, 2]),
        InvalidArgument,
        "greater than or equal to 0",
    );
    let empty_batch = ops::adaptive_avg_pool2d(&of(&[0, 1, 4, 4]), &[i64::MAX / 4, 1]).unwrap();
    assert_eq!(empty_batch.numel(), 0);
}
