//! Convolutions of many small images over one, two and three dimensions, and their gradients, against the definition, in f64 on small
//! integers: equal to the bit.

use crate::exact::{FLOATS, layouts, numel, small, tensor, values};
use flambeau_core::{MemoryFormat, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

#[derive(Clone, Debug)]
struct Case {
    x: Vec<i64>,
    /// Filters, channels a group, kernel.
    w: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

/// All indices of a row-major array.
fn indices(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all.iter().flat_map(|head| (0..size).map(|i| [head.as_slice(), &[i]].concat())).collect();
    }
    all
}

/// The position in a row-major array; `None` outside of it.
fn position(sizes: &[i64], index: &[i64]) -> Option<usize> {
    let is_inside = sizes.iter().zip(index).all(|(size, i)| (0..*size).contains(i));
    is_inside.then(|| sizes.iter().zip(index).fold(0, |at, (size, i)| at * size + i) as usize)
}

impl Case {
    fn dims(&self) -> usize {
        self.x.len() - 2
    }

    fn output(&self) -> Vec<i64> {
        let reach = |d: usize| self.dilation[d] * (self.w[d + 2] - 1) + 1;
        let size = |d: usize| (self.x[d + 2] + 2 * self.padding[d] - reach(d)) / self.stride[d] + 1;
        [self.x[0], self.w[0]].into_iter().chain((0..self.dims()).map(size)).collect()
    }

    /// Whether the output has the input's sizes as the output of its transposed convolution.
    fn is_exact(&self) -> bool {
        let reach = |d: usize| self.dilation[d] * (self.w[d + 2] - 1) + 1;
        (0..self.dims()).all(|d| (self.x[d + 2] + 2 * self.padding[d] - reach(d)) % self.stride[d] == 0)
    }

    /// Calls `f` with the indices of each product: in the output, the input, the weight.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (y, filters) = (self.output(), self.w[0] / self.groups);
        let kernel = indices(&self.w[1..]);
        for (output, at) in indices(&y).iter().enumerate() {
            for (k, offsets) in kernel.iter().enumerate() {
                let element = |d: usize| {
                    at[d + 2] * self.stride[d] + offsets[d + 1] * self.dilation[d] - self.padding[d]
                };
                let mut index = vec![at[0], at[1] / filters * self.w[1] + offsets[0]];
                index.extend((0..self.dims()).map(element));
                if let Some(input) = position(&self.x, &index) {
                    f(output, input, at[1] as usize * kernel.len() + k);
                }
            }
        }
    }

    fn convolve(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, transposed: bool) -> Tensor {
        let (zeros, s, p, d) = (vec![0; self.dims()], &self.stride, &self.padding, &self.dilation);
        ops::convolution(x, w, bias, s, p, d, transposed, &zeros, self.groups).unwrap()
    }

    fn backward(&self, gy: &Tensor, x: &Tensor, w: &Tensor, transposed: bool) -> [Tensor; 3] {
        let (zeros, bias) = (vec![0; self.dims()], [gy.sizes()[1]]);
        let (s, p, d) = (&self.stride, &self.padding, &self.dilation);
        let (a, b, c) = ops::convolution_backward(
            gy,
            x,
            w,
            Some(&bias),
            s,
            p,
            d,
            transposed,
            &zeros,
            self.groups,
            [true; 3],
        )
        .unwrap();
        [a, b, c]
    }
}

/// Numbers of images around those of strips; strides that leave pixels unread; windows in the padding; narrow rows; many groups.
fn cases() -> Vec<Case> {
    let case = |x: &[i64], w: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], groups| Case {
        x: x.to_vec(),
        w: w.to_vec(),
        stride: stride.to_vec(),
        padding: padding.to_vec(),
        dilation: dilation.to_vec(),
        groups,
    };
    vec![
        case(&[65, 2, 5], &[2, 1, 2], &[2], &[0], &[2], 2),
        case(&[130, 3, 7], &[5, 3, 3], &[1], &[1], &[1], 1),
        case(&[66, 2, 7], &[1, 2, 1], &[3], &[0], &[1], 1),
        case(&[63, 2, 3, 3], &[2, 2, 2, 2], &[1, 1], &[1, 1], &[1, 1], 1),
        case(&[64, 2, 3, 3], &[2, 2, 2, 2], &[1, 1], &[1, 1], &[1, 1], 1),
        case(&[200, 4, 6, 5], &[4, 1, 2, 2], &[2, 2], &[0, 0], &[1, 1], 4),
        case(&[129, 1, 3, 2], &[2, 1, 1, 2], &[1, 1], &[0, 0], &[1, 1], 1),
        case(&[70, 2, 10, 2], &[3, 2, 3, 1], &[1, 1], &[0, 0], &[1, 1], 1),
        case(&[64, 1, 1, 1], &[1, 1, 1, 1], &[1, 1], &[0, 0], &[1, 1], 1),
        case(&[65, 1, 2, 2], &[3, 1, 1, 1], &[1, 1], &[2, 2], &[1, 1], 1),
        case(&[97, 6, 4, 3], &[9, 2, 3, 2], &[1, 2], &[1, 0], &[1, 1], 3),
        case(&[67, 1, 2, 2, 3], &[2, 1, 2, 1, 2], &[1; 3], &[0; 3], &[1; 3], 1),
        case(&[64, 3, 4, 6, 5], &[2, 3, 2, 2, 2], &[1; 3], &[1; 3], &[2; 3], 1),
        case(&[66, 4, 2, 3, 3], &[6, 2, 1, 3, 2], &[1, 2, 1], &[0, 1, 1], &[1; 3], 2),
    ]
}

fn made(sizes: &[i64], seed: u64, dtype: ScalarType) -> (Tensor, Vec<f64>) {
    let data = small(numel(sizes), seed, dtype);
    (tensor(&data, sizes, dtype), data)
}

/// As the type rounds them.
fn rounded(data: &[f64], dtype: ScalarType) -> Vec<f64> {
    values(&tensor(data, &[data.len() as i64], dtype))
}

/// The values of `per_channel` at each element of images of these sizes.
fn in_channels(per_channel: &[f64], sizes: &[i64]) -> Vec<f64> {
    let pixels = numel(&sizes[2..]);
    (0..numel(sizes)).map(|i| per_channel[i / pixels % per_channel.len()]).collect()
}

/// The same values in several layouts, with channels last among them.
fn all_layouts(tensor: &Tensor) -> Vec<Tensor> {
    let format = match tensor.dim() {
        4 => Some(MemoryFormat::ChannelsLast),
        5 => Some(MemoryFormat::ChannelsLast3d),
        _ => None,
    };
    let last = format.map(|format| ops::clone(tensor, Some(format)).unwrap());
    layouts(tensor).into_iter().chain(last).collect()
}

#[test]
fn every_type_and_layout() {
    for dtype in FLOATS {
        for case in cases() {
            let ((x, xs), (w, ws)) = (made(&case.x, 1, dtype), made(&case.w, 2, dtype));
            let (bias, biases) = made(&case.w[..1], 3, dtype);
            let y = case.output();
            let mut plain = vec![0.0; numel(&y)];
            case.each(|o, i, k| plain[o] += xs[i] * ws[k]);
            let expected: Vec<f64> =
                plain.iter().zip(in_channels(&biases, &y)).map(|(sum, bias)| sum + bias).collect();
            for x in all_layouts(&x) {
                let result = case.convolve(&x, &w, Some(&bias), false);
                assert_eq!((result.sizes(), result.dtype()), (y.as_slice(), dtype));
                assert_eq!(values(&result), rounded(&expected, dtype), "{dtype} {case:?}");
            }
            for w in layouts(&w) {
                assert_eq!(values(&case.convolve(&x, &w, None, false)), rounded(&plain, dtype), "{case:?}");
            }
        }
    }
}

#[test]
fn results_of_any_strides() {
    for case in cases() {
        let f = ScalarType::BF16;
        let ((x, _), (w, _)) = (made(&case.x, 4, f), made(&case.w, 5, f));
        let y = case.convolve(&x, &w, None, false);
        let (zeros, s, p, d) = (vec![0; case.dims()], &case.stride, &case.padding, &case.dilation);
        for out in all_layouts(&y) {
            ops::zero_(&out).unwrap();
            ops::convolution_out(&x, &w, None, s, p, d, false, &zeros, case.groups, &out).unwrap();
            assert_eq!(values(&out), values(&y), "{case:?}");
        }
    }
}

#[test]
fn gradients() {
    for dtype in FLOATS {
        for case in cases() {
            let ((x, xs), (w, ws)) = (made(&case.x, 6, dtype), made(&case.w, 7, dtype));
            let y = case.output();
            let (gy, gs) = made(&y, 8, dtype);
            let (mut gx, mut gw) = (vec![0.0; xs.len()], vec![0.0; ws.len()]);
            case.each(|o, i, k| {
                gx[i] += gs[o] * ws[k];
                gw[k] += gs[o] * xs[i];
            });
            let (mut gb, pixels, channels) = (vec![0.0; y[1] as usize], numel(&y[2..]), y[1] as usize);
            gs.iter().enumerate().for_each(|(i, g)| gb[i / pixels % channels] += g);
            for (gy, x) in all_layouts(&gy).iter().zip(all_layouts(&x).iter().rev()) {
                let results = case.backward(gy, x, &w, false);
                for (result, expected) in results.iter().zip([&gx, &gw, &gb]) {
                    assert_eq!(result.dtype(), dtype);
                    assert_eq!(values(result), rounded(expected, dtype), "{dtype} {case:?}");
                }
            }
        }
    }
}

#[test]
fn transposed() {
    // The output of `case` is the input here, and its input the output.
    for case in cases().into_iter().filter(Case::is_exact) {
        for dtype in [ScalarType::F64, ScalarType::F16] {
            let ((x, xs), (w, ws)) = (made(&case.output(), 9, dtype), made(&case.w, 10, dtype));
            let ((gy, gs), (bias, biases)) = (made(&case.x, 11, dtype), made(&case.x[1..2], 12, dtype));
            let mut y = in_channels(&biases, &case.x);
            let (mut gx, mut gw) = (vec![0.0; xs.len()], vec![0.0; ws.len()]);
            case.each(|o, i, k| {
                y[i] += xs[o] * ws[k];
                gx[o] += gs[i] * ws[k];
                gw[k] += gs[i] * xs[o];
            });
            let result = case.convolve(&x, &w, Some(&bias), true);
            assert_eq!(
                (values(&result), result.sizes()),
                (rounded(&y, dtype), case.x.as_slice()),
                "{case:?}"
            );
            let [a, b, _] = case.backward(&gy, &x, &w, true);
            assert_eq!(values(&a), rounded(&gx, dtype), "{case:?}");
            assert_eq!(values(&b), rounded(&gw, dtype), "{case:?}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_image() {
    for special in [f64::INFINITY, f64::NAN] {
        for case in cases() {
            let f = ScalarType::F32;
            let ((_, mut xs), (w, ws)) = (made(&case.x, 1, f), made(&case.w, 2, f));
            let last = xs.len() - 1;
            xs[last] = special;
            let mut expected = vec![0.0; numel(&case.output())];
            case.each(|o, i, k| expected[o] += xs[i] * ws[k]);
            let result = values(&case.convolve(&tensor(&xs, &case.x, f), &w, None, false));
            let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
            assert!(result.iter().zip(&expected).all(same), "{case:?}");
        }
    }
}

#[test]
fn threads_and_layouts_change_no_bit() {
    let noise = |sizes: &[i64], seed: i64, dtype: ScalarType| {
        let data: Vec<f64> =
            (0..numel(sizes) as i64).map(|i| ((i + seed) * 7919 % 1013) as f64 / 1013.0 - 0.5).collect();
        tensor(&data, sizes, dtype)
    };
    let bits = |t: &Tensor| values(t).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    for dtype in [ScalarType::F32, ScalarType::BF16] {
        for mut case in cases() {
            case.x[0] *= 5;
            let (x, w) = (noise(&case.x, 1, dtype), noise(&case.w, 2, dtype));
            let run = |threads, x: &Tensor| {
                parallel::set_num_threads(threads);
                let y = case.convolve(x, &w, None, false);
                let gy = ops::mul_scalar(&y, Scalar::Float(0.5)).unwrap();
                let [a, b, c] = case.backward(&gy, x, &w, false);
                [y, a, b, c].map(|t| bits(&t))
            };
            let one = run(1, &x);
            assert!(one == run(2, &x) && one == run(5, &x), "{case:?}");
            for other in all_layouts(&x) {
                assert!(one[0] == bits(&case.convolve(&other, &w, None, false)), "{case:?}");
            }
        }
    }
}
