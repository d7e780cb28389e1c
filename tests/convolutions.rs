//! Random convolutions, also transposed, with their first and second derivatives, against the sums that define them.
//!
//! Tensors hold small integers, so sums are exact in f32 and f64 whatever their order; halves may be off by their rounding.

use flambeau_autograd::{Autograd, grad};
use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};
use flambeau_tests::array::{Array, indices};
use flambeau_tests::call::{array, tensor};
use flambeau_tests::draw::Draw;
use flambeau_tests::layout::{LAYOUTS, lay_out};

/// Which sizes are drawn: for each kind the library chooses the algorithms that its documentation says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Few channels in up to four groups: rows of single channels, products that read the image, columns.
    Any,
    /// As many groups as there are channels on the smaller side.
    Depthwise,
    /// Kernels with one position.
    Pointwise,
    /// 3x3 kernels and many channels: Winograd tiles.
    Transformed,
    /// Rows long enough to fill vectors.
    LongRows,
    /// Images that are higher than wide, which are convolved with rows and columns exchanged.
    Narrow,
}

const KINDS: &[Kind] = &[
    Kind::Any,
    Kind::Any,
    Kind::Depthwise,
    Kind::Pointwise,
    Kind::Transformed,
    Kind::LongRows,
    Kind::Narrow,
];

/// A convolution in three dimensions, of which the first are left out where `spatial` is less. What is transposed is described
/// by the convolution whose transpose it is: `x` is the larger side then, and the result.
#[derive(Debug, Clone)]
struct Case {
    kind: Kind,
    spatial: usize,
    transposed: bool,
    batch: usize,
    groups: usize,
    /// Of a group, on the larger side and on the smaller one.
    channels: [usize; 2],
    large: [usize; 3],
    small: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    output_padding: [usize; 3],
    bias: bool,
    dtype: ScalarType,
}

impl Case {
    fn drawn(d: &mut Draw) -> Case {
        let kind = d.one_of(KINDS);
        let (spatial, most) = match kind {
            Kind::Any | Kind::Pointwise => (d.within(1..=3), 5),
            Kind::Depthwise => (d.within(1..=2), 7),
            Kind::Transformed => (2, 9),
            Kind::LongRows => (d.within(1..=2), 37),
            Kind::Narrow => (2, 3),
        };
        let (groups, channels) = match kind {
            Kind::Any | Kind::Pointwise => (d.within(1..=4), [d.within(1..=3), d.within(1..=3)]),
            Kind::Depthwise => (d.within(2..=4), d.one_of(&[[1, 1], [1, 2], [1, 3], [2, 1], [3, 1]])),
            Kind::Transformed => (1, [d.within(16..=19), d.within(16..=17)]),
            Kind::LongRows | Kind::Narrow => (d.within(1..=2), [d.within(1..=3), d.within(1..=5)]),
        };
        let dtype = d.one_of(&[ScalarType::F32, ScalarType::F64, ScalarType::F16, ScalarType::BF16]);
        let mut case = Case {
            kind,
            spatial,
            transposed: d.within(0..=1) == 1,
            batch: if kind == Kind::Transformed { d.within(1..=2) } else { d.within(0..=3) },
            groups,
            channels,
            large: [1; 3],
            small: [1; 3],
            kernel: [1; 3],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
            output_padding: [0; 3],
            bias: d.within(0..=1) == 1,
            dtype,
        };
        let is_plain = kind == Kind::Transformed || d.within(0..=2) == 0;
        for at in 3 - spatial..3 {
            let most = match at {
                2 => most,
                1 if kind == Kind::Narrow => 40,
                _ => most.min(5),
            };
            case.draw_dimension(d, at, most, is_plain);
        }
        case
    }

    fn draw_dimension(&mut self, d: &mut Draw, at: usize, most: usize, is_plain: bool) {
        (self.kernel[at], self.stride[at], self.dilation[at]) = match self.kind {
            Kind::Transformed => (3, 1, 1),
            Kind::Pointwise => (1, d.within(1..=2), d.within(1..=2)),
            _ if is_plain => (d.within(1..=4), 1, 1),
            _ => (d.within(1..=4), d.within(1..=3), d.within(1..=2)),
        };
        let reach = self.dilation[at] * (self.kernel[at] - 1);
        self.padding[at] = d.within(0..=2);
        let pads = 2 * self.padding[at];
        if self.transposed {
            // Below the stride or the dilation.
            let largest = self.stride[at].max(self.dilation[at]) - 1;
            self.output_padding[at] = if d.within(0..=1) == 1 { d.within(0..=2).min(largest) } else { 0 };
            // As many pixels as leave one of the result.
            let smallest =
                (1 + pads).saturating_sub(reach + 1 + self.output_padding[at]).div_ceil(self.stride[at]) + 1;
            self.small[at] = smallest.max(d.within(1..=most));
            let steps = (self.small[at] - 1) * self.stride[at];
            self.large[at] = steps + reach + 1 + self.output_padding[at] - pads;
        } else {
            self.large[at] = (reach + 1).saturating_sub(pads).max(d.within(1..=most));
            self.small[at] = (self.large[at] + pads - reach - 1) / self.stride[at] + 1;
        }
    }

    fn sizes(&self, side: usize) -> Vec<usize> {
        let pixels = if side == 0 { &self.large } else { &self.small };
        [&[self.batch, self.groups * self.channels[side]], &pixels[3 - self.spatial..]].concat()
    }

    fn weight_sizes(&self) -> Vec<usize> {
        let filters = self.groups * self.channels[1];
        [&[filters, self.channels[0]], &self.kernel[3 - self.spatial..]].concat()
    }

    /// Sizes of the input and the result.
    fn ends(&self) -> [Vec<usize>; 2] {
        let (large, small) = (self.sizes(0), self.sizes(1));
        if self.transposed { [small, large] } else { [large, small] }
    }

    /// The offsets in the larger side, the weight and the smaller side of the factors of every product.
    fn products(&self) -> Vec<[usize; 3]> {
        let flat = |sizes: &[usize], i: &[usize]| sizes.iter().zip(i).fold(0, |n, (size, i)| n * size + i);
        let (large, small, weight) = (self.sizes(0), self.sizes(1), self.weight_sizes());
        let own = |list: &[usize; 3]| list[3 - self.spatial..].to_vec();
        let (stride, padding, dilation) = (own(&self.stride), own(&self.padding), own(&self.dilation));
        let mut all = vec![];
        for (s, k) in indices(&small).flat_map(|s| indices(&weight[1..]).map(move |k| (s.clone(), k))) {
            let coordinate =
                |d: usize| (s[d + 2] * stride[d] + k[d + 1] * dilation[d]).checked_sub(padding[d]);
            let Some(position) = (0..self.spatial).map(coordinate).collect::<Option<Vec<_>>>() else {
                continue;
            };
            if position.iter().zip(&large[2..]).all(|(coordinate, size)| coordinate < size) {
                let channel = s[1] / self.channels[1] * self.channels[0] + k[0];
                let l = [&[s[0], channel], &position[..]].concat();
                let w = [&[s[1]], &k[..]].concat();
                all.push([flat(&large, &l), flat(&weight, &w), flat(&small, &s)]);
            }
        }
        all
    }

    fn convolve(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let list = |list: &[usize; 3]| list[3 - self.spatial..].iter().map(|n| *n as i64).collect::<Vec<_>>();
        let (stride, padding, dilation) = (list(&self.stride), list(&self.padding), list(&self.dilation));
        let extra = list(&self.output_padding);
        ops::convolution(
            x,
            w,
            bias,
            &stride,
            &padding,
            &dilation,
            self.transposed,
            &extra,
            self.groups as i64,
        )
    }
}

/// Small integers in one of several layouts; values that a layout changes are read back.
fn operand(d: &mut Draw, sizes: &[usize], dtype: ScalarType) -> (Tensor, Array) {
    let numbers = Array::fill(sizes, -2.0..3.0, d.bits()).map(f64::floor);
    let plain = tensor(&numbers, dtype);
    let layout = d.within(0..=2 * LAYOUTS.len());
    let made = LAYOUTS.get(layout).and_then(|layout| lay_out(&plain, *layout)).unwrap_or(plain);
    let values = array(&made);
    (made, values)
}

/// Sums of products, and of their magnitudes.
struct Sums {
    value: Array,
    size: Array,
}

impl Sums {
    fn zeros(sizes: &[usize]) -> Self {
        let zeros = Array::new(sizes, vec![0.0; sizes.iter().product()]);
        Sums { value: zeros.clone(), size: zeros }
    }

    fn add(&mut self, at: usize, term: f64) {
        self.value.data[at] += term;
        self.size.data[at] += term.abs();
    }

    /// What differs from `got`, if anything: whole numbers are exact but in halves, which round each sum.
    fn fault(&self, what: &str, got: &Tensor, dtype: ScalarType) -> Option<String> {
        let got = array(got);
        let rounding = match dtype {
            ScalarType::F16 => 2f64.powi(-10),
            ScalarType::BF16 => 2f64.powi(-7),
            _ => 0.0,
        };
        if got.sizes != self.value.sizes {
            return Some(format!("{what}: expected sizes {:?} but got {:?}", self.value.sizes, got.sizes));
        }
        let is_close = |got: f64, value: f64, size: f64| match value.is_finite() {
            true => (got - value).abs() <= rounding * size,
            false => got == value || got.is_nan() && value.is_nan(),
        };
        let pairs = got.data.iter().zip(&self.value.data).zip(&self.size.data).enumerate();
        let mut wrong = pairs.filter(|(_, ((got, value), size))| !is_close(**got, **value, **size));
        let (at, ((got, value), _)) = wrong.next()?;
        Some(format!("{what} at {at}: expected {value} but got {got}, and {} more", wrong.count()))
    }
}

/// The three linear maps that a product of large, weight and small stands for.
struct Products {
    all: Vec<[usize; 3]>,
}

impl Products {
    /// Adds to `to`, which is operand `which` of the products, the sums of the products of `a` and `b`, the other two.
    fn add(&self, to: &mut Sums, which: usize, a: &Array, b: &Array) {
        let [first, second] = [[1, 2], [0, 2], [0, 1]][which];
        for offsets in &self.all {
            to.add(offsets[which], a.data[offsets[first]] * b.data[offsets[second]]);
        }
    }
}

fn channels(to: &mut Sums, values: &Array) {
    for (i, value) in indices(&values.sizes).zip(&values.data) {
        to.add(i[1], *value);
    }
}

fn along_channels(to: &mut Sums, bias: &Array) {
    let sizes = to.value.sizes.clone();
    indices(&sizes).enumerate().for_each(|(at, i)| to.add(at, bias.data[i[1]]));
}

/// Everything about one case: the output, its gradients, and the gradients of those.
fn faults(case: &Case, d: &mut Draw) -> Result<Vec<String>> {
    let dtype = case.dtype;
    let ([x_sizes, y_sizes], w_sizes) = (case.ends(), case.weight_sizes());
    let bias_sizes = [y_sizes[1]];
    let (x, x_values) = operand(d, &x_sizes, dtype);
    let (w, w_values) = operand(d, &w_sizes, dtype);
    let (b, b_values) = operand(d, &bias_sizes, dtype);
    let (gy, gy_values) = operand(d, &y_sizes, dtype);
    let (u, u_values) = operand(d, &x_sizes, dtype);
    let (v, v_values) = operand(d, &w_sizes, dtype);
    let (z, z_values) = operand(d, &bias_sizes, dtype);
    let products = Products { all: case.products() };
    // Which operands of the products input and output are.
    let (input, output) = if case.transposed { (2, 0) } else { (0, 2) };
    let pair =
        |x: &Array, y: &Array| if case.transposed { (y.clone(), x.clone()) } else { (x.clone(), y.clone()) };
    let for_weight = |to: &mut Sums, x: &Array, y: &Array| {
        let (large, small) = pair(x, y);
        products.add(to, 1, &large, &small);
    };
    let for_end = |to: &mut Sums, which: usize, w: &Array, other: &Array| match which {
        0 => products.add(to, 0, w, other),
        _ => products.add(to, 2, other, w),
    };

    for leaf in [&x, &w, &b, &gy] {
        leaf.requires_grad_(true)?;
    }
    let mut faults = vec![];
    let y = case.convolve(&x, &w, case.bias.then_some(&b))?;
    let mut expected = Sums::zeros(&y_sizes);
    for_end(&mut expected, output, &w_values, &x_values);
    if case.bias {
        along_channels(&mut expected, &b_values);
    }
    faults.extend(expected.fault("output", &y, dtype));

    let leaves: Vec<Tensor> = [&x, &w, &b].into_iter().take(if case.bias { 3 } else { 2 }).cloned().collect();
    let first = grad(&[y], &leaves, &[Some(gy.clone())], Some(true), true, false)?;
    let first: Vec<Tensor> = first.into_iter().flatten().collect();
    let mut expected = [Sums::zeros(&x_sizes), Sums::zeros(&w_sizes), Sums::zeros(&bias_sizes)];
    for_end(&mut expected[0], input, &w_values, &gy_values);
    for_weight(&mut expected[1], &x_values, &gy_values);
    channels(&mut expected[2], &gy_values);
    for ((got, expected), what) in
        first.iter().zip(&expected).zip(["gradient of input", "of weight", "of bias"])
    {
        faults.extend(expected.fault(what, got, dtype));
    }

    let seeds: Vec<Option<Tensor>> = [u, v, z].into_iter().take(leaves.len()).map(Some).collect();
    let second = grad(&first, &[gy, x, w], &seeds, None, false, false)?;
    let mut expected = [Sums::zeros(&y_sizes), Sums::zeros(&x_sizes), Sums::zeros(&w_sizes)];
    for_end(&mut expected[0], output, &w_values, &u_values);
    for_end(&mut expected[0], output, &v_values, &x_values);
    if case.bias {
        along_channels(&mut expected[0], &z_values);
    }
    for_end(&mut expected[1], input, &v_values, &gy_values);
    for_weight(&mut expected[2], &u_values, &gy_values);
    let names = ["second gradient of output", "second of input", "second of weight"];
    for ((got, expected), what) in second.iter().flatten().zip(&expected).zip(names) {
        faults.extend(expected.fault(what, got, dtype));
    }
    Ok(faults)
}

type Check = fn(&Case, &mut Draw) -> Result<Vec<String>>;

fn check(what: &str, seed: u64, count: usize, faults: Check) {
    let (mut d, mut faults_of_all, mut kinds) = (Draw::new(seed), vec![], vec![0; KINDS.len()]);
    for number in 0..count {
        let case = Case::drawn(&mut d);
        kinds[KINDS.iter().position(|kind| *kind == case.kind).unwrap()] += 1;
        let found = faults(&case, &mut d).unwrap_or_else(|error| vec![error.to_string()]);
        faults_of_all.extend(found.into_iter().map(|fault| format!("case {number}: {fault}\n    {case:?}")));
    }
    println!("{what}: {count} cases, by kind {kinds:?}");
    faults_of_all.iter().take(12).for_each(|fault| println!("  {fault}"));
    assert!(faults_of_all.is_empty(), "{} faults", faults_of_all.len());
    assert!(
        KINDS.iter().zip(&kinds).all(|(kind, count)| *count > 0 || *kind == Kind::Any),
        "a kind was not drawn"
    );
}

/// One element of `x` or `w` that is not finite, at an index drawn from the seed.
fn spoilt(d: &mut Draw, t: &Tensor, values: &Array) -> (Tensor, Array) {
    let mut values = values.clone();
    if !values.data.is_empty() {
        let at = d.within(0..=values.data.len() - 1);
        values.data[at] = d.one_of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    }
    (tensor(&values, t.dtype()), values)
}

/// What is not finite reaches the results that are made of it, and no others. Padding counts as zeros in a convolution that is
/// not transposed, so that weights which are not finite make NaN of them.
fn special_faults(case: &Case, d: &mut Draw) -> Result<Vec<String>> {
    let ([x_sizes, y_sizes], w_sizes) = (case.ends(), case.weight_sizes());
    let made = |d: &mut Draw, sizes: &[usize]| {
        let numbers = Array::fill(sizes, 1.0..3.0, d.bits()).map(f64::floor);
        (tensor(&numbers, case.dtype), numbers)
    };
    let ((mut x, mut x_values), (mut w, mut w_values)) = (made(d, &x_sizes), made(d, &w_sizes));
    let (mut gy, mut gy_values) = made(d, &y_sizes);
    let of_weight = d.within(0..=1) == 1;
    if of_weight {
        (w, w_values) = spoilt(d, &w, &w_values);
    } else {
        (x, x_values) = spoilt(d, &x, &x_values);
        (gy, gy_values) = spoilt(d, &gy, &gy_values);
    }
    let products = Products { all: case.products() };
    let (input, output) = if case.transposed { (2, 0) } else { (0, 2) };
    let for_end = |to: &mut Sums, which: usize, w: &Array, other: &Array| match which {
        0 => products.add(to, 0, w, other),
        _ => products.add(to, 2, other, w),
    };
    x.requires_grad_(true)?;
    w.requires_grad_(true)?;
    let mut faults = vec![];
    let y = case.convolve(&x, &w, None)?;
    let is_padded = case.padding != [0; 3];
    if !(of_weight && is_padded && !case.transposed) {
        let mut expected = Sums::zeros(&y_sizes);
        for_end(&mut expected, output, &w_values, &x_values);
        faults.extend(expected.fault("output", &y, case.dtype));
    }
    let grads = grad(&[y], &[x, w], &[Some(gy)], None, false, false)?;
    let mut expected = [Sums::zeros(&x_sizes), Sums::zeros(&w_sizes)];
    if !(of_weight && is_padded && case.transposed) {
        for_end(&mut expected[0], input, &w_values, &gy_values);
        faults.extend(
            grads[0].as_ref().and_then(|got| expected[0].fault("gradient of input", got, case.dtype)),
        );
    }
    if of_weight || !is_padded {
        let (large, small) = if case.transposed { (&gy_values, &x_values) } else { (&x_values, &gy_values) };
        products.add(&mut expected[1], 1, large, small);
        faults.extend(
            grads[1].as_ref().and_then(|got| expected[1].fault("gradient of weight", got, case.dtype)),
        );
    }
    Ok(faults)
}

#[test]
fn what_is_not_finite_reaches_what_is_made_of_it() {
    check("Special values", 2, 300, special_faults);
}

#[test]
fn drawn_convolutions_and_their_derivatives_are_the_sums_that_define_them() {
    check("Convolutions", 1, 400, faults);
}
