//! Integers, booleans, masks and partial loads of every type on every set, against one lane of plain Rust.

use half::{bf16, f16};

use super::*;

/// Vectors of `T`, each slid up and down beside a second one.
struct Slide<'a, T> {
    x: &'a [T; 32],
    to: &'a mut [Vec<T>; 2],
}

impl<T> CodegenAnchor for Slide<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I> + Default> Kernel<I> for Slide<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        self.to.iter_mut().for_each(|to| to.resize(lanes, T::default()));
        // SAFETY: no vector has more than 16 lanes, and each list as many elements as a vector has.
        unsafe {
            let (low, high) = (T::load(self.x.as_ptr()), T::load(self.x.as_ptr().add(lanes)));
            T::store(high.slide_up(low), self.to[0].as_mut_ptr());
            T::store(low.slide_down(high), self.to[1].as_mut_ptr());
        }
    }
}

#[test]
fn slides_move_lanes_by_one() {
    fn check<T: EveryLanes + Default + PartialEq + std::fmt::Debug>(of: fn(u8) -> T)
    where
        for<'a> Slide<'a, T>: EveryIsa,
    {
        let x: [T; 32] = std::array::from_fn(|i| of(i as u8));
        for set in CpuCapability::available() {
            let mut to = [vec![], vec![]];
            let _guard = override_cpu_capability(set).unwrap();
            // SAFETY: the kernel sizes what it writes.
            unsafe { dispatch(Slide { x: &x, to: &mut to }) };
            let lanes = to[0].len();
            assert_eq!(to, [x[lanes - 1..][..lanes].to_vec(), x[1..][..lanes].to_vec()], "{set:?}");
        }
    }
    check(f32::from);
    check(f64::from);
    check(f16::from);
    check(bf16::from);
}

/// A formula on integers.
trait IntegerFormula: Copy {
    fn call<V: Integer>(self, x: V, y: V) -> V;
}

struct MapIntegers<'a, T, F> {
    x: &'a [T],
    y: &'a [T],
    to: &'a mut [T],
    formula: F,
}

impl<T, F> CodegenAnchor for MapIntegers<'_, T, F> {
    type Anchor = Self;
}

impl<I: Isa, T: IntegerLanes<I>, F: IntegerFormula> Kernel<I> for MapIntegers<'_, T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let MapIntegers { x, y, to, formula } = self;
        let lanes = T::Vector::LANES;
        assert!(x.len() == y.len() && x.len() == to.len());
        for start in (0..x.len()).step_by(lanes) {
            let count = lanes.min(x.len() - start);
            // SAFETY: there are `count` elements from `start` on in each slice.
            unsafe {
                let (x, y, to) = (x.as_ptr().add(start), y.as_ptr().add(start), to.as_mut_ptr().add(start));
                if count == lanes {
                    T::store(formula.call(T::load(x), T::load(y)), to);
                } else {
                    T::store_partial(
                        formula.call(T::load_partial(x, count), T::load_partial(y, count)),
                        to,
                        count,
                    );
                }
            }
        }
    }
}

macro_rules! integer_formulas {
    ($($name:ident |$x:ident, $y:ident| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl IntegerFormula for $name {
            #[inline(always)]
            #[allow(unused_variables)]
            fn call<V: Integer>(self, $x: V, $y: V) -> V { $body }
        }
    )*};
}

integer_formulas! {
    Plus |x, y| x + y;
    Minus |x, y| x - y;
    Times |x, y| x * y;
    Negative |x, y| -x;
    Magnitude |x, y| x.abs();
    And |x, y| x & y;
    Or |x, y| x | y;
    Xor |x, y| x ^ y;
    Complement |x, y| !x;
    Left |x, y| x.shl(y);
    Right |x, y| x.shr(y);
    DivTrunc |x, y| x.div_trunc(y);
    DivFloor |x, y| x.div_floor(y);
    Remainder |x, y| x.remainder(y);
    RemainderTrunc |x, y| x.remainder_trunc(y);
    CommonDivisor |x, y| x.gcd(y);
    Minimum |x, y| x.minimum(y);
    Maximum |x, y| x.maximum(y);
    LessOrEqual |x, y| V::select(x.le(y), V::one(), V::zero());
    LessAndUnequal |x, y| V::select(x.lt(y) & !x.eq(y), x, y);
}

fn run_integers<T, F: IntegerFormula>(set: CpuCapability, formula: F, x: &[T], y: &[T]) -> Vec<T>
where
    T: EveryLanes + Default,
    for<'a> MapIntegers<'a, T, F>: EveryIsa,
{
    let mut to = vec![T::default(); x.len()];
    let _guard = override_cpu_capability(set).unwrap();
    // SAFETY: the kernel checks its slices.
    unsafe { dispatch(MapIntegers { x, y, to: &mut to, formula }) };
    to
}

/// What a formula gives in exact arithmetic, before it wraps; `bits` is the width of the type.
fn exact(name: &str, x: i128, y: i128, bits: u32) -> i128 {
    let shift = |y: i128| (0..i128::from(bits)).contains(&y).then_some(y as u32);
    let division = |f: &dyn Fn(i128, i128) -> i128| if y == 0 { 0 } else { f(x, y) };
    match name {
        "Plus" => x + y,
        "Minus" => x - y,
        "Times" => x.wrapping_mul(y),
        "Negative" => -x,
        "Magnitude" => x.abs(),
        "And" => x & y,
        "Or" => x | y,
        "Xor" => x ^ y,
        "Complement" => !x,
        "Left" => shift(y).map_or(0, |y| x << y),
        "Right" => shift(y).map_or(x.signum().min(0), |y| x >> y),
        "DivTrunc" => division(&|x, y| x / y),
        "DivFloor" => division(&|x, y| (x - ((x % y) + y) % y) / y),
        "Remainder" => division(&|x, y| ((x % y) + y) % y),
        "RemainderTrunc" => division(&|x, y| x % y),
        "CommonDivisor" => {
            let (mut a, mut b) = (x.abs(), y.abs());
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        }
        "Minimum" => x.min(y),
        "Maximum" => x.max(y),
        "LessOrEqual" => i128::from(x <= y),
        "LessAndUnequal" => {
            if x < y {
                x
            } else {
                y
            }
        }
        _ => unreachable!(),
    }
}

macro_rules! integers {
    ($($test:ident $type:ident;)*) => {$(
        #[test]
        fn $test() {
            let mut random = Random(11);
            let edges = [0, 1, 2, 3, 7, 8, 31, 63, $type::MIN, $type::MIN + 1, $type::MAX, $type::MAX - 1, 0u8.wrapping_sub(1) as $type];
            let mut x: Vec<$type> = edges.iter().flat_map(|&x| edges.map(|_| x)).collect();
            let mut y: Vec<$type> = edges.iter().flat_map(|_| edges).collect();
            x.extend((0..400).map(|_| random.bits() as $type));
            y.extend((0..400).map(|i| if i % 2 == 0 { random.bits() as $type } else { (random.bits() % 12) as $type }));
            // Numbers of all magnitudes, and multiples of them and their neighbours, whose quotients are the nearest to another integer.
            for i in 0..4000u32 {
                let mut number = |bits: u32| (random.bits() as i64 >> (bits % 64)) as $type;
                let (divisor, factor) = (number(i), number(i / 64 + 32));
                x.push(divisor.wrapping_mul(factor).wrapping_add(number(i) % 2));
                y.push(divisor);
            }
            macro_rules! check {
                ($formula:ident) => {
                    for set in CpuCapability::available() {
                        let lengths = (0..70).map(|length| (3, length)).chain([(0, x.len())]);
                        for (start, length) in lengths {
                            let (x, y) = (&x[start..start + length], &y[start..start + length]);
                            let got = run_integers(set, $formula, x, y);
                            for i in 0..length {
                                let exact = exact(stringify!($formula), x[i].into(), y[i].into(), $type::BITS);
                                assert_eq!(got[i], exact as $type, "{} {} {} on {set:?}", stringify!($formula), x[i], y[i]);
                            }
                        }
                    }
                };
            }
            check!(Plus);
            check!(Minus);
            check!(Times);
            check!(Negative);
            check!(Magnitude);
            check!(And);
            check!(Or);
            check!(Xor);
            check!(Complement);
            check!(Left);
            check!(Right);
            check!(DivTrunc);
            check!(DivFloor);
            check!(Remainder);
            check!(RemainderTrunc);
            check!(CommonDivisor);
            check!(Minimum);
            check!(Maximum);
            check!(LessOrEqual);
            check!(LessAndUnequal);
        }
    )*};
}

integers! {
    u8_arithmetic_wraps u8;
    i8_arithmetic_wraps i8;
    i16_arithmetic_wraps i16;
    i32_arithmetic_wraps i32;
    i64_arithmetic_wraps i64;
}

#[test]
fn bool_arithmetic_is_logical() {
    let x: Vec<bool> = (0..150).map(|i| i % 3 == 0).collect();
    let y: Vec<bool> = (0..150).map(|i| i % 2 == 0).collect();
    for set in CpuCapability::available() {
        let check = |got: Vec<bool>, f: fn(bool, bool) -> bool| {
            assert!((0..150).all(|i| got[i] == f(x[i], y[i])), "{set:?}");
        };
        check(run_integers(set, Plus, &x, &y), |x, y| x | y);
        check(run_integers(set, Times, &x, &y), |x, y| x & y);
        check(run_integers(set, Minus, &x, &y), |x, y| x != y);
        check(run_integers(set, Complement, &x, &y), |x, _| !x);
        check(run_integers(set, Maximum, &x, &y), |x, y| x | y);
        check(run_integers(set, Minimum, &x, &y), |x, y| x & y);
        check(run_integers(set, CommonDivisor, &x, &y), |x, y| x | y);
    }
}

/// `to = mask ? x : y`, and the comparison `x < y` as bytes.
struct Choose<'a, T> {
    mask: &'a [u8],
    x: &'a [T],
    y: &'a [T],
    chosen: &'a mut [T],
    less: &'a mut [bool],
    counts: &'a mut [usize; 2],
}

impl<T> CodegenAnchor for Choose<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: OrderedLanes<I>> Kernel<I> for Choose<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        type MaskOf<I, T> = <<T as Lanes<I>>::Vector as Vector>::Mask;
        let lanes = T::Vector::LANES;
        assert_eq!(MaskOf::<I, T>::LANES, lanes);
        for start in (0..self.x.len()).step_by(lanes) {
            let count = lanes.min(self.x.len() - start);
            // SAFETY: there are `count` elements from `start` on in each slice.
            unsafe {
                let mask = MaskOf::<I, T>::load_bool(self.mask.as_ptr().add(start).cast(), count);
                let x = T::load_partial(self.x.as_ptr().add(start), count);
                let y = T::load_partial(self.y.as_ptr().add(start), count);
                T::store_partial(T::Vector::select(mask, x, y), self.chosen.as_mut_ptr().add(start), count);
                x.lt(y).store_bool(self.less.as_mut_ptr().add(start), count);
                self.counts[0] += usize::from(mask.any());
                self.counts[1] += usize::from((mask | !MaskOf::<I, T>::first(count)).all());
            }
        }
    }
}

#[test]
fn masks_select_compare_and_count() {
    macro_rules! check {
        ($($type:ty, $from:expr;)*) => {$(
            for set in CpuCapability::available() {
                for length in 0..140usize {
                    // Any byte but 0 is true.
                    let mask: Vec<u8> = (0..length).map(|i| [0, 1, 2, 255, 0][(i * i + length) % 5]).collect();
                    let x: Vec<$type> = (0..length).map(|i| $from((i * 7 % 11) as i8)).collect();
                    let y: Vec<$type> = (0..length).map(|i| $from((i * 5 % 13) as i8)).collect();
                    let mut chosen = x.clone();
                    let mut less = vec![true; length];
                    let mut counts = [0; 2];
                    {
                        let _guard = override_cpu_capability(set).unwrap();
                        let kernel = Choose { mask: &mask, x: &x, y: &y, chosen: &mut chosen, less: &mut less, counts: &mut counts };
                        // SAFETY: every slice has `length` elements.
                        unsafe { dispatch(kernel) };
                    }
                    for i in 0..length {
                        assert_eq!(chosen[i], if mask[i] != 0 { x[i] } else { y[i] }, "{set:?} {i} of {length}");
                        assert_eq!(less[i], x[i] < y[i], "{set:?} {i} of {length}");
                    }
                    if set == CpuCapability::Default {
                        let trues = mask.iter().filter(|&&x| x != 0).count();
                        assert_eq!(counts, [trues, trues]);
                    }
                    assert!(counts[1] <= counts[0]);
                }
            }
        )*};
    }
    check! {
        bool, |x: i8| x % 2 == 0;
        u8, |x: i8| x as u8;
        i8, |x: i8| x;
        i16, i16::from;
        i32, i32::from;
        i64, i64::from;
        f16, f16::from;
        bf16, bf16::from;
        f32, f32::from;
        f64, f64::from;
    }
}

/// Stores past the count, or loads that fault, would show: the slices end where a page does.
#[test]
fn partial_stores_leave_the_rest_alone() {
    struct Copy<T> {
        from: *const T,
        to: *mut T,
        count: usize,
    }
    impl<T> CodegenAnchor for Copy<T> {
        type Anchor = Self;
    }

    impl<I: Isa, T: Lanes<I>> Kernel<I> for Copy<T> {
        #[inline(always)]
        unsafe fn run(self) {
            let count = self.count.min(T::Vector::LANES);
            // SAFETY: the pointers are valid for `count` elements.
            unsafe { T::store_partial(T::load_partial(self.from, count), self.to, count) };
        }
    }
    macro_rules! check {
        ($($type:ty, $one:expr, $two:expr;)*) => {$(
            for set in CpuCapability::available() {
                for count in 0..=64 {
                    let (from, mut to) = ([$one; 64], [$two; 65]);
                    let _guard = override_cpu_capability(set).unwrap();
                    // SAFETY: both arrays hold at least `count` elements.
                    unsafe { dispatch(Copy { from: from.as_ptr(), to: to.as_mut_ptr(), count }) };
                    let written = to.iter().take_while(|&&x| x == $one).count();
                    assert!(written == count || written < count && written.is_power_of_two(), "{set:?} {count} {written}");
                    assert!(to[written..].iter().all(|&x| x == $two), "{set:?} {count}");
                }
            }
        )*};
    }
    check! {
        bool, true, false;
        u8, 1, 2;
        i16, 1, 2;
        i64, 1, 2;
        f16, f16::ONE, f16::NEG_ONE;
        bf16, bf16::ONE, bf16::NEG_ONE;
        f32, 1.0f32, 2.0;
        f64, 1.0f64, 2.0;
    }
}

/// Every f16 and bf16 through f32 and back, and the rounding of what lies between.
#[test]
fn half_types_round_to_nearest_even() {
    #[derive(Clone, Copy)]
    struct Scaled(f64);
    impl Formula for Scaled {
        #[inline(always)]
        fn call<V: Float>(self, x: V, y: V) -> V {
            x.mul_add(V::constant(self.0), y)
        }
    }
    for set in CpuCapability::available() {
        for (scale, shift) in
            [(1.0, 0.0), (1.0 + 1.0 / 1024.0, 0.0), (0.75, 1e-3), (1.0 / 4096.0, 0.0), (1.5, -1e-6)]
        {
            let x: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            let y = vec![f16::from_f64(shift); x.len()];
            for (i, got) in apply(set, Scaled(scale), &x, &y).into_iter().enumerate() {
                let exact = (x[i].to_f32()).mul_add(scale as f32, y[i].to_f32());
                let expected = f16::from_f32(exact);
                assert!(got == expected || got.is_nan() && exact.is_nan(), "{} {got} {expected}", x[i]);
            }
            let x: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
            let y = vec![bf16::from_f64(shift); x.len()];
            for (i, got) in apply(set, Scaled(scale), &x, &y).into_iter().enumerate() {
                let exact = (x[i].to_f32()).mul_add(scale as f32, y[i].to_f32());
                let expected = bf16::from_f32(exact);
                assert!(got == expected || got.is_nan() && exact.is_nan(), "{} {got} {expected}", x[i]);
            }
        }
    }
}
