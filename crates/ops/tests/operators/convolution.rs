//! Convolutions and their gradients against the definition, in f64 on small integers: equal to the bit.

use crate::exact::{FLOATS, NUMBERS, empty, layouts, numel, small, tensor, values};
use flambeau_core::{Device, ErrorKind, MemoryFormat, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

#[derive(Clone, Debug)]
struct Case {
    x: [usize; 4],
    /// Filters, channels a group, kernel.
    w: [usize; 4],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Case {
    fn output(&self) -> [usize; 4] {
        let size = |d: usize| {
            (self.x[d + 2] + 2 * self.padding[d] - self.dilation[d] * (self.w[d + 2] - 1) - 1)
                / self.stride[d]
                + 1
        };
        [self.x[0], self.w[0], size(0), size(1)]
    }

    /// Calls `f` with the indices of each product: in the output, the input, the weight.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let y = self.output();
        let at = |s: &[usize; 4], [a, b, c, d]: [usize; 4]| ((a * s[1] + b) * s[2] + c) * s[3] + d;
        let (filters, channels) = (self.w[0] / self.groups, self.w[1]);
        for n in 0..y[0] {
            for o in 0..y[1] {
                for [oy, ox] in (0..y[2]).flat_map(|oy| (0..y[3]).map(move |ox| [oy, ox])) {
                    for c in 0..channels {
                        for [ky, kx] in (0..self.w[2]).flat_map(|ky| (0..self.w[3]).map(move |kx| [ky, kx])) {
                            let input_index = |d: usize, o: usize, k: usize| {
                                (o * self.stride[d] + k * self.dilation[d]).checked_sub(self.padding[d])
                            };
                            let (Some(iy), Some(ix)) = (input_index(0, oy, ky), input_index(1, ox, kx))
                            else {
                                continue;
                            };
                            if iy < self.x[2] && ix < self.x[3] {
                                let channel = o / filters * channels + c;
                                f(
                                    at(&y, [n, o, oy, ox]),
                                    at(&self.x, [n, channel, iy, ix]),
                                    at(&self.w, [o, c, ky, kx]),
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    fn lists(&self) -> ([i64; 2], [i64; 2], [i64; 2], i64) {
        let list = |l: [usize; 2]| l.map(|v| v as i64);
        (list(self.stride), list(self.padding), list(self.dilation), self.groups as i64)
    }

    fn convolve(
        &self,
        x: &Tensor,
        w: &Tensor,
        bias: Option<&Tensor>,
        transposed: bool,
    ) -> flambeau_core::Result<Tensor> {
        let (stride, padding, dilation, groups) = self.lists();
        ops::convolution(x, w, bias, &stride, &padding, &dilation, transposed, &[0, 0], groups)
    }

    fn backward(&self, gy: &Tensor, x: &Tensor, w: &Tensor, transposed: bool) -> (Tensor, Tensor, Tensor) {
        let (stride, padding, dilation, groups) = self.lists();
        let bias = [gy.sizes()[1]];
        ops::convolution_backward(
            gy,
            x,
            w,
            Some(&bias),
            &stride,
            &padding,
            &dilation,
            transposed,
            &[0, 0],
            groups,
            [true; 3],
        )
        .unwrap()
    }
}

fn sizes(s: [usize; 4]) -> [i64; 4] {
    s.map(|d| d as i64)
}

fn made(s: [usize; 4], seed: u64, dtype: ScalarType) -> (Tensor, Vec<f64>) {
    let data = small(numel(&sizes(s)), seed, dtype);
    (tensor(&data, &sizes(s), dtype), data)
}

fn cases() -> Vec<Case> {
    let case = |x, w, stride, padding, dilation, groups| Case { x, w, stride, padding, dilation, groups };
    vec![
        case([2, 2, 5, 6], [3, 2, 3, 3], [1, 1], [0, 0], [1, 1], 1),
        case([2, 2, 5, 6], [3, 2, 3, 3], [1, 1], [1, 1], [1, 1], 1),
        case([1, 2, 7, 6], [4, 1, 3, 2], [2, 1], [1, 0], [1, 2], 2),
        case([3, 3, 8, 9], [2, 3, 3, 3], [2, 3], [2, 1], [2, 1], 1),
        case([2, 3, 4, 5], [4, 3, 1, 1], [1, 1], [0, 0], [1, 1], 1),
        case([2, 3, 4, 5], [4, 3, 1, 1], [2, 2], [1, 1], [1, 1], 1),
        case([2, 4, 6, 20], [4, 1, 3, 3], [1, 1], [1, 1], [1, 1], 4),
        case([2, 3, 6, 5], [6, 1, 3, 3], [2, 2], [1, 1], [1, 1], 3),
        case([2, 3, 6, 45], [3, 1, 3, 3], [1, 1], [1, 2], [1, 2], 3),
        case([2, 2, 7, 41], [4, 1, 3, 2], [2, 3], [1, 1], [2, 1], 2),
        case([1, 1, 1, 9], [1, 1, 1, 9], [1, 1], [0, 8], [1, 1], 1),
        case([1, 2, 3, 3], [2, 2, 2, 2], [1, 1], [3, 3], [1, 1], 1),
        case([40, 2, 3, 3], [2, 2, 3, 3], [1, 1], [1, 1], [1, 1], 1),
        case([0, 2, 5, 5], [3, 2, 3, 3], [1, 1], [0, 0], [1, 1], 1),
        case([2, 1, 40, 70], [2, 1, 2, 2], [1, 1], [1, 1], [1, 1], 1),
        // Of these the rows of the input are split.
        case([2, 3, 23, 45], [4, 3, 7, 7], [2, 2], [3, 3], [1, 1], 1),
        case([1, 2, 11, 38], [4, 1, 5, 5], [1, 2], [0, 2], [2, 1], 2),
        case([2, 2, 19, 26], [3, 2, 6, 7], [3, 3], [5, 1], [1, 2], 1),
    ]
    .into_iter()
    .chain(tiled_cases())
    .chain(direct_cases())
    .chain(channel_cases())
    .collect()
}

/// Those of each channel by itself, with sizes around those of vectors and of blocks of rows.
fn channel_cases() -> Vec<Case> {
    let case =
        |x: [usize; 4], w, stride, padding, dilation| Case { x, w, stride, padding, dilation, groups: x[1] };
    vec![
        case([1, 2, 4, 16], [4, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([2, 3, 9, 33], [3, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 2, 5, 5], [4, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([2, 2, 2, 47], [2, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 2, 7, 65], [2, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 2, 1, 28], [2, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 2, 28, 2], [2, 1, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 2, 11, 37], [2, 1, 3, 3], [2, 2], [1, 1], [1, 1]),
        case([1, 2, 9, 18], [2, 1, 3, 3], [2, 1], [1, 0], [1, 2]),
        case([1, 2, 10, 20], [2, 1, 5, 5], [1, 1], [2, 2], [1, 1]),
        case([2, 2, 13, 39], [2, 1, 5, 5], [2, 2], [2, 2], [1, 1]),
    ]
}

/// Those that are large enough for tiles that are transformed, with rows too short or filters too many for products without.
fn tiled_cases() -> Vec<Case> {
    let case = |x, w, padding| Case { x, w, stride: [1, 1], padding, dilation: [1, 1], groups: 1 };
    vec![
        case([3, 16, 13, 7], [20, 16, 3, 3], [1, 1]),
        case([3, 16, 13, 7], [100, 16, 3, 3], [1, 1]),
        case([5, 17, 10, 5], [16, 17, 3, 3], [0, 2]),
        case([40, 16, 3, 3], [16, 16, 3, 3], [1, 1]),
        // As few tiles as pay.
        case([1, 16, 7, 8], [67, 16, 3, 3], [1, 1]),
        // Blocks that begin and end inside images.
        case([11, 16, 10, 6], [16, 16, 3, 3], [1, 1]),
        case([1, 16, 5, 68], [120, 16, 3, 3], [2, 0]),
    ]
}

/// Those that need neither columns nor tiles: sizes around vectors, panels of filters, and blocks of rows.
fn direct_cases() -> Vec<Case> {
    let case = |x, w, stride, padding, dilation| Case { x, w, stride, padding, dilation, groups: 1 };
    vec![
        case([2, 3, 20, 17], [9, 3, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([2, 16, 13, 11], [20, 16, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([1, 5, 9, 33], [16, 5, 3, 3], [2, 2], [1, 1], [1, 1]),
        case([2, 4, 25, 40], [8, 4, 3, 2], [2, 3], [1, 1], [2, 1]),
        case([1, 3, 5, 64], [33, 3, 5, 5], [1, 1], [2, 2], [1, 1]),
        case([1, 3, 100, 300], [5, 3, 3, 3], [1, 1], [1, 1], [1, 1]),
        case([3, 1, 1, 40], [6, 1, 1, 7], [1, 1], [0, 3], [1, 2]),
    ]
}

/// One whose weights have gradients by tiles that are transformed, and more filters than are transformed at once.
fn wide_case() -> Case {
    Case {
        x: [2, 67, 12, 12],
        w: [70, 67, 3, 3],
        stride: [1, 1],
        padding: [1, 1],
        dilation: [1, 1],
        groups: 1,
    }
}

#[test]
fn what_is_not_finite_stays_in_its_window() {
    for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3e38] {
        for case in [tiled_cases(), direct_cases(), channel_cases()].concat() {
            let ((_, mut xs), (w, ws)) = (made(case.x, 1, ScalarType::F32), made(case.w, 2, ScalarType::F32));
            let index = xs.len() / 3;
            xs[index] = special;
            let x = tensor(&xs, &sizes(case.x), ScalarType::F32);
            let mut expected = vec![0.0; numel(&sizes(case.output()))];
            let mut touched = vec![false; expected.len()];
            case.each(|o, i, k| {
                expected[o] += xs[i] * ws[k];
                touched[o] |= i == index;
            });
            let result = values(&case.convolve(&x, &w, None, false).unwrap());
            assert_same(&case, &result, &expected, &touched);
        }
    }
}

/// Whether elements are equal, but for rounding where they were `touched` by a large one.
fn assert_same(case: &Case, result: &[f64], expected: &[f64], touched: &[bool]) {
    for ((got, expected), touched) in result.iter().zip(expected).zip(touched) {
        if *touched {
            // What is not finite is the same, whatever the order of the sum.
            let same = got == expected || got.is_nan() && expected.is_nan();
            assert!(same || expected.is_finite(), "{case:?}: {got} and not {expected}");
        } else {
            assert_eq!(got, expected, "{case:?}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_with_its_weights() {
    let f = ScalarType::F32;
    for special in [f64::INFINITY, f64::NAN] {
        for case in [direct_cases(), channel_cases()].concat() {
            let ((_, mut xs), (w, ws)) = (made(case.x, 1, f), made(case.w, 2, f));
            // A corner, which few weights meet.
            let index = case.x[3] - 1;
            xs[index] = special;
            let (x, (gy, gs)) = (tensor(&xs, &sizes(case.x), f), made(case.output(), 3, f));
            let (mut expected, mut touched) = (vec![0.0; ws.len()], vec![false; ws.len()]);
            case.each(|o, i, k| {
                expected[k] += gs[o] * xs[i];
                touched[k] |= i == index;
            });
            assert!(touched.contains(&false));
            assert_same(&case, &values(&case.backward(&gy, &x, &w, false).1), &expected, &touched);
        }
    }
}

#[test]
fn every_type() {
    for dtype in NUMBERS {
        for case in cases() {
            let ((x, xs), (w, ws)) = (made(case.x, 1, dtype), made(case.w, 2, dtype));
            let bias = small(case.w[0], 3, dtype);
            let y = case.output();
            let mut expected: Vec<f64> =
                (0..numel(&sizes(y))).map(|i| bias[i / (y[2] * y[3]) % y[1]]).collect();
            case.each(|o, i, k| expected[o] += xs[i] * ws[k]);
            let b = tensor(&bias, &[bias.len() as i64], dtype);
            let result = case.convolve(&x, &w, Some(&b), false).unwrap();
            assert_eq!((result.sizes(), result.dtype()), (sizes(y).as_slice(), dtype));
            assert_eq!(values(&result), expected, "{dtype} {case:?}");
        }
    }
}

#[test]
fn every_layout_and_format() {
    for case in cases() {
        let ((x, xs), (w, ws)) = (made(case.x, 4, ScalarType::F32), made(case.w, 5, ScalarType::F32));
        let mut expected = vec![0.0; numel(&sizes(case.output()))];
        case.each(|o, i, k| expected[o] += xs[i] * ws[k]);
        for x in layouts(&x) {
            for w in layouts(&w) {
                assert_eq!(values(&case.convolve(&x, &w, None, false).unwrap()), expected, "{case:?}");
            }
        }
        let last = ops::clone(&x, Some(MemoryFormat::ChannelsLast)).unwrap();
        let y = case.convolve(&last, &w, None, false).unwrap();
        assert_eq!(values(&y), expected, "{case:?}");
        assert!(y.is_contiguous_as(last.suggest_memory_format()));
        let (stride, padding, dilation, groups) = case.lists();
        let out = &layouts(&y)[2];
        ops::convolution_out(&x, &w, None, &stride, &padding, &dilation, false, &[0, 0], groups, out)
            .unwrap();
        assert_eq!(values(out), expected, "{case:?}");
    }
}

#[test]
fn gradients() {
    for dtype in FLOATS {
        for case in cases().into_iter().chain([wide_case()]) {
            let ((x, xs), (w, ws)) = (made(case.x, 6, dtype), made(case.w, 7, dtype));
            let (gy, gs) = made(case.output(), 8, dtype);
            let (mut gx, mut gw) = (vec![0.0; xs.len()], vec![0.0; ws.len()]);
            case.each(|o, i, k| {
                gx[i] += gs[o] * ws[k];
                gw[k] += gs[o] * xs[i];
            });
            let y = case.output();
            let mut gb = vec![0.0; y[1]];
            gs.iter().enumerate().for_each(|(i, g)| gb[i / (y[2] * y[3]) % y[1]] += g);
            // Sums past 256 and 2048 are rounded, once, by bf16 and f16.
            let rounded = |v: &[f64]| values(&tensor(v, &[v.len() as i64], dtype));
            for gy in layouts(&gy) {
                let (a, b, c) = case.backward(&gy, &x, &w, false);
                assert_eq!(
                    (a.sizes(), b.sizes(), c.sizes()),
                    (x.sizes(), w.sizes(), [y[1] as i64].as_slice())
                );
                assert_eq!((a.dtype(), b.dtype(), c.dtype()), (dtype, dtype, dtype));
                assert_eq!(values(&a), rounded(&gx), "{dtype} {case:?}");
                assert_eq!(values(&b), rounded(&gw), "{dtype} {case:?}");
                assert_eq!(values(&c), rounded(&gb), "{dtype} {case:?}");
            }
        }
    }
}

#[test]
fn transposed() {
    // The output of `case` is the input here, and its input the output.
    for case in cases().into_iter().filter(|c| c.x[0] > 0) {
        let exact = (0..2).all(|d| {
            let reach = case.x[d + 2] + 2 * case.padding[d] - case.dilation[d] * (case.w[d + 2] - 1) - 1;
            reach % case.stride[d] == 0
        });
        if !exact {
            continue;
        }
        let dtype = ScalarType::F64;
        let ((x, xs), (w, ws)) = (made(case.output(), 9, dtype), made(case.w, 10, dtype));
        let (gy, gs) = made(case.x, 11, dtype);
        let (mut y, mut gx, mut gw) = (vec![0.0; gs.len()], vec![0.0; xs.len()], vec![0.0; ws.len()]);
        let bias = small(case.x[1], 12, dtype);
        y.iter_mut().enumerate().for_each(|(i, y)| *y = bias[i / (case.x[2] * case.x[3]) % case.x[1]]);
        case.each(|o, i, k| {
            y[i] += xs[o] * ws[k];
            gx[o] += gs[i] * ws[k];
            gw[k] += gs[i] * xs[o];
        });
        let b = tensor(&bias, &[bias.len() as i64], dtype);
        let result = case.convolve(&x, &w, Some(&b), true).unwrap();
        assert_eq!((values(&result), result.sizes()), (y, sizes(case.x).as_slice()), "{case:?}");
        let (a, b, _) = case.backward(&gy, &x, &w, true);
        assert_eq!((values(&a), values(&b)), (gx, gw), "{case:?}");
    }
}

#[test]
fn what_the_mask_leaves_out_is_empty() {
    let case = &cases()[0];
    let ((x, _), (w, _)) = (made(case.x, 1, ScalarType::F32), made(case.w, 2, ScalarType::F32));
    let (gy, _) = made(case.output(), 3, ScalarType::F32);
    let (a, b, c) =
        ops::convolution_backward(&gy, &x, &w, None, &[1], &[0], &[1], false, &[0], 1, [false, true, false])
            .unwrap();
    assert_eq!((a.numel(), b.sizes(), c.numel()), (0, w.sizes(), 0));
}

/// `<cotangents, J tangents>` by J and by its transpose: the double backward is linear in what `convolution_backward` is.
#[test]
fn second_order() {
    for case in cases().into_iter().filter(|c| c.x[0] > 0) {
        let f = ScalarType::F64;
        let [(x, _), (w, _), (gy, _)] = [made(case.x, 1, f), made(case.w, 2, f), made(case.output(), 3, f)];
        let [(ggx, p), (ggw, q), (h, r)] =
            [made(case.x, 4, f), made(case.w, 5, f), made(case.output(), 6, f)];
        let (stride, padding, dilation, groups) = case.lists();
        let (a, b, c) = ops::_convolution_double_backward(
            Some(&ggx),
            Some(&ggw),
            None,
            &gy,
            &w,
            &x,
            &stride,
            &padding,
            &dilation,
            false,
            &[0, 0],
            groups,
            [true; 3],
        )
        .unwrap();
        let dot = |u: &Tensor, v: &[f64]| values(u).iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
        // Bilinear maps: a change of one argument is the map of the change.
        let along_gy = case.backward(&h, &x, &w, false);
        assert_eq!(dot(&a, &r), dot(&along_gy.0, &p) + dot(&along_gy.1, &q), "{case:?}");
        let (dx, dxs) = made(case.x, 7, f);
        assert_eq!(dot(&b, &dxs), dot(&case.backward(&gy, &dx, &w, false).1, &q), "{case:?}");
        let (dw, dws) = made(case.w, 8, f);
        assert_eq!(dot(&c, &dws), dot(&case.backward(&gy, &x, &dw, false).0, &p), "{case:?}");
    }
}

#[test]
fn one_dimension_and_images_without_a_batch() {
    let f = ScalarType::F32;
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[1, 4], f);
    let w = tensor(&[1.0, -1.0], &[1, 1, 2], f);
    let y = ops::conv1d(&x, &w, None, &[1], &[1], &[1], 1).unwrap();
    assert_eq!((y.sizes(), values(&y)), ([1, 5].as_slice(), vec![-1.0, -1.0, -1.0, -1.0, 4.0]));
    let image = tensor(&[1.0; 9], &[1, 3, 3], f);
    let ones = tensor(&[1.0; 4], &[1, 1, 2, 2], f);
    let y = ops::conv2d(&image, &ones, None, &[1, 1], &[0, 0], &[1, 1], 1).unwrap();
    assert_eq!((y.sizes(), values(&y)), ([1, 2, 2].as_slice(), vec![4.0; 4]));
    let back = ops::conv_transpose2d_input(&y, &ones, None, &[1, 1], &[0, 0], &[0, 0], 1, &[1, 1]).unwrap();
    assert_eq!(values(&back), [4.0, 8.0, 4.0, 8.0, 16.0, 8.0, 4.0, 8.0, 4.0]);
}

#[test]
fn errors_and_meta() {
    let of = |s: &[i64]| empty(s, ScalarType::F32);
    let conv = |x: &[i64], w: &[i64], stride: &[i64], padding: &[i64], groups| {
        ops::conv2d(&of(x), &of(w), None, stride, padding, &[1, 1], groups)
    };
    let check = |result: flambeau_core::Result<Tensor>, kind, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    use ErrorKind::{InvalidArgument, Shape};
    check(
        conv(&[1, 2, 2, 2], &[3, 2, 3, 3], &[1], &[0], 1),
        Shape,
        "Kernel size can't be greater than actual input size",
    );
    check(
        conv(&[1, 2, 5, 5], &[3, 3, 3, 3], &[1], &[0], 1),
        Shape,
        "to have 3 channels, but got 2 channels instead",
    );
    check(
        conv(&[1, 2, 5, 5], &[3, 2, 3, 3], &[0], &[0], 1),
        InvalidArgument,
        "non-positive stride is not supported",
    );
    check(
        conv(&[1, 2, 5, 5], &[3, 2, 3, 3], &[1], &[-1], 1),
        InvalidArgument,
        "negative padding is not supported",
    );
    check(conv(&[1, 2, 5, 5], &[3, 2, 3, 3], &[1, 2, 3], &[0], 1), InvalidArgument, "list of 2 values");
    check(conv(&[1, 2, 5, 5], &[3, 1, 3, 3], &[1], &[0], 2), Shape, "divisible by 2 at dimension 0");
    check(conv(&[5, 5], &[3, 1, 3, 3], &[1], &[0], 1), Shape, "conv2d");
    check(conv(&[1, 2, 5, 5], &[3, 2, 3, 3], &[1], &[i64::MAX], 1), ErrorKind::Overflow, "");
    check(conv(&[1, 2, 5, 5], &[3, 2, 3, 3], &[1], &[0], 0), InvalidArgument, "groups");
    let meta = |s: &[i64]| ops::empty_memory_format(s, None, None, Some(Device::META), None, None).unwrap();
    let y = ops::conv2d(&meta(&[4, 3, 32, 32]), &meta(&[8, 3, 5, 5]), None, &[2, 2], &[2, 2], &[1, 1], 1)
        .unwrap();
    assert_eq!(y.sizes(), &[4, 8, 16, 16]);
    let none = conv(&[1, 0, 5, 5], &[3, 0, 3, 3], &[1], &[0], 1).unwrap();
    assert_eq!(values(&none), vec![0.0; 27]);
}

#[test]
fn thread_counts_change_no_bit() {
    let noise = |sizes: &[i64], seed: i64| {
        let data: Vec<f32> =
            (0..numel(sizes) as i64).map(|i| ((i + seed) * 7919 % 1013) as f32 / 1013.0 - 0.5).collect();
        Tensor::from_vec(data, sizes).unwrap()
    };
    let run = |threads, channels: i64, stride: i64| {
        parallel::set_num_threads(threads);
        let (x, w) = (noise(&[4, channels, 24, 24], 1), noise(&[64, channels, 3, 3], 2));
        let s = [stride, stride];
        let y = ops::conv2d(&x, &w, None, &s, &[1, 1], &[1, 1], 1).unwrap();
        let gy = ops::mul_scalar(&y, Scalar::Float(0.5)).unwrap();
        let (a, b, c) = ops::convolution_backward(
            &gy,
            &x,
            &w,
            Some(&[64]),
            &s,
            &[1, 1],
            &[1, 1],
            false,
            &[0, 0],
            1,
            [true; 3],
        )
        .unwrap();
        [y, a, b, c].map(|t| values(&t).into_iter().map(f64::to_bits).collect::<Vec<_>>())
    };
    // Of few channels products read the image, of many tiles are transformed.
    for channels in [3, 64] {
        for stride in [1, 2] {
            let one = run(1, channels, stride);
            assert!(one == run(2, channels, stride) && one == run(3, channels, stride));
        }
    }
}

#[test]
fn output_padding_is_smaller_than_stride_or_dilation() {
    let made = |sizes: &[i64]| tensor(&small(numel(sizes), 1, ScalarType::F32), sizes, ScalarType::F32);
    let (x, w) = (made(&[1, 2, 5, 5]), made(&[2, 2, 3, 3]));
    let run = |padding: i64, dilation: i64| {
        ops::conv_transpose2d_input(&x, &w, None, &[1], &[0], &[padding], 1, &[dilation])
            .map(|y| y.sizes().to_vec())
    };
    assert_eq!(run(2, 3).unwrap(), [1, 2, 13, 13]);
    for padding in [1, 7] {
        let error = run(padding, 1).unwrap_err();
        assert!(error.message().contains("output padding must be smaller"), "{error}");
    }
}
