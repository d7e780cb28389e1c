//! Types without kernels of their own: u16, u32 and u64, floats of eight bits, complex32. Conversions against integer arithmetic and the
//! formats' definitions, results that are particular to PyTorch against PyTorch 2.15.

use flambeau_core::{Complex, Element, ErrorKind, F8E4M3FN, F8E5M2, F8E8M0FNU, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};
use half::{bf16, f16};

const INTEGERS: [ScalarType; 9] = [
    ScalarType::Bool,
    ScalarType::U8,
    ScalarType::I8,
    ScalarType::I16,
    ScalarType::I32,
    ScalarType::I64,
    ScalarType::U16,
    ScalarType::U32,
    ScalarType::U64,
];
const UNSIGNED: [ScalarType; 3] = [ScalarType::U16, ScalarType::U32, ScalarType::U64];
const FLOAT8: [ScalarType; 3] = [ScalarType::F8E4M3FN, ScalarType::F8E5M2, ScalarType::F8E8M0FNU];
const STORED: [ScalarType; 7] = [
    ScalarType::U16,
    ScalarType::U32,
    ScalarType::U64,
    ScalarType::F8E4M3FN,
    ScalarType::F8E5M2,
    ScalarType::F8E8M0FNU,
    ScalarType::Complex32,
];

/// Integers at the borders of all types.
fn borders() -> Vec<i64> {
    let mut found =
        vec![0, i64::MAX, i64::MIN, i64::MAX - 1, 12345, -12345, (1 << 53) + 1, (1 << 62) + (1 << 37) + 1];
    for bits in [1, 7, 8, 15, 16, 24, 31, 32, 53] {
        let power = 1i64 << bits;
        found.extend([power - 1, power, power + 1, -power - 1, -power, 1 - power]);
    }
    found
}

/// `x` as an element of an integer type.
fn wrapped(x: i128, dtype: ScalarType) -> i128 {
    if dtype == ScalarType::Bool {
        return i128::from(x != 0);
    }
    let bits = 8 * dtype.size() as u32;
    let low = x & ((1 << bits) - 1);
    if dtype.is_signed() && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

/// The elements of an integer type, read as they are in memory.
fn whole(tensor: &Tensor) -> Vec<i128> {
    fn read<T: Element + Into<i128>>(tensor: &Tensor) -> Vec<i128> {
        tensor.to_vec::<T>().unwrap().into_iter().map(Into::into).collect()
    }
    match tensor.dtype() {
        ScalarType::Bool => tensor.to_vec::<bool>().unwrap().into_iter().map(i128::from).collect(),
        ScalarType::U8 => read::<u8>(tensor),
        ScalarType::I8 => read::<i8>(tensor),
        ScalarType::I16 => read::<i16>(tensor),
        ScalarType::I32 => read::<i32>(tensor),
        ScalarType::I64 => read::<i64>(tensor),
        ScalarType::U16 => read::<u16>(tensor),
        ScalarType::U32 => read::<u32>(tensor),
        ScalarType::U64 => read::<u64>(tensor),
        other => panic!("{other} is no integer type"),
    }
}

/// The codes of elements.
fn codes(tensor: &Tensor) -> Vec<i128> {
    let unit = match tensor.dtype().size() {
        1 => ScalarType::U8,
        2 => ScalarType::I16,
        4 => ScalarType::I32,
        _ => ScalarType::I64,
    };
    whole(&tensor.contiguous().unwrap().view_dtype(unit).unwrap())
}

/// All 256 numbers of a float of eight bits, and their values.
fn all_codes(dtype: ScalarType) -> (Tensor, Vec<f32>) {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let values = bytes.iter().map(|code| match dtype {
        ScalarType::F8E4M3FN => F8E4M3FN::from_bits(*code).to_f32(),
        ScalarType::F8E5M2 => F8E5M2::from_bits(*code).to_f32(),
        _ => F8E8M0FNU::from_bits(*code).to_f32(),
    });
    let values = values.collect();
    (Tensor::from_vec(bytes, &[256]).unwrap().view_dtype(dtype).unwrap(), values)
}

/// The code of a number in a float of eight bits.
fn float8(x: f32, dtype: ScalarType) -> i128 {
    match dtype {
        ScalarType::F8E4M3FN => F8E4M3FN::from_f32(x).to_bits().into(),
        ScalarType::F8E5M2 => F8E5M2::from_f32(x).to_bits().into(),
        _ => F8E8M0FNU::from_f32(x).to_bits().into(),
    }
}

/// Compares the floats of a tensor, NaN equal to NaN.
fn assert_floats(tensor: &Tensor, expected: &[f64], what: &str) {
    let got: Vec<f64> = match tensor.dtype() {
        ScalarType::F16 => tensor.to_vec::<f16>().unwrap().into_iter().map(f64::from).collect(),
        ScalarType::BF16 => tensor.to_vec::<bf16>().unwrap().into_iter().map(f64::from).collect(),
        ScalarType::F32 => tensor.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f64>().unwrap(),
    };
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
        assert!(same, "{what}, element {i}: {got} and not {expected}");
    }
}

#[test]
fn integers_wrap_between_all_integer_types() {
    // More elements than a tile has, dense and not.
    let numbers: Vec<i64> = borders().into_iter().cycle().take(2400).collect();
    let wide = Tensor::from_vec(numbers.clone(), &[2400]).unwrap();
    for from in INTEGERS {
        let source = wide.to(from).unwrap();
        let values: Vec<i128> = numbers.iter().map(|x| wrapped((*x).into(), from)).collect();
        assert_eq!(whole(&source), values, "int64 to {from}");
        for to in INTEGERS {
            let expected: Vec<i128> = values.iter().map(|x| wrapped(*x, to)).collect();
            assert_eq!(whole(&source.to(to).unwrap()), expected, "{from} to {to}");
            let strided = source.reshape(&[48, 50]).unwrap().t().unwrap();
            let back = strided.to(to).unwrap().t().unwrap().contiguous().unwrap();
            assert_eq!(whole(&back.reshape(&[-1]).unwrap()), expected, "{from} to {to}, transposed");
            let every_third: Vec<i128> = expected.iter().copied().step_by(3).collect();
            let steps = source.slice(0, 0, 2400).unwrap().reshape(&[800, 3]).unwrap().select(1, 0).unwrap();
            assert_eq!(whole(&steps.to(to).unwrap()), every_third, "{from} to {to}, with gaps");
        }
    }
}

#[test]
fn integers_are_rounded_once_to_floats() {
    for from in UNSIGNED {
        let source = Tensor::from_vec(borders(), &[borders().len() as i64]).unwrap().to(from).unwrap();
        let values = whole(&source);
        let floats = |round: &dyn Fn(i128) -> f64| values.iter().map(|x| round(*x)).collect::<Vec<f64>>();
        let check = |to: ScalarType, round: &dyn Fn(i128) -> f64| {
            assert_floats(&source.to(to).unwrap(), &floats(round), &format!("{from} to {to}"));
        };
        check(ScalarType::F64, &|x| x as f64);
        check(ScalarType::F32, &|x| (x as f32).into());
        check(ScalarType::F16, &|x| f16::from_f32(x as f32).into());
        check(ScalarType::BF16, &|x| bf16::from_f32(x as f32).into());
        for to in FLOAT8 {
            let expected: Vec<i128> = values.iter().map(|x| float8(*x as f32, to)).collect();
            assert_eq!(codes(&source.to(to).unwrap()), expected, "{from} to {to}");
        }
        let complex = source.to(ScalarType::Complex128).unwrap().to_vec::<Complex<f64>>().unwrap();
        assert!(complex.iter().zip(&values).all(|(z, x)| *z == Complex::new(*x as f64, 0.0)), "{from}");
        let complex = source.to(ScalarType::Complex64).unwrap().to_vec::<Complex<f32>>().unwrap();
        assert!(complex.iter().zip(&values).all(|(z, x)| *z == Complex::new(*x as f32, 0.0)), "{from}");
        let half = source.to(ScalarType::Complex32).unwrap().to_vec::<Complex<f16>>().unwrap();
        assert!(
            half.iter().zip(&values).all(|(z, x)| z.re == f16::from_f32(*x as f32) && z.im == f16::ZERO),
            "{from}"
        );
    }
}

#[test]
fn floats_become_unsigned_integers_as_in_pytorch() {
    let inside = [0.0f64, -0.0, 0.9, -0.9, 1.5, 255.9, 256.0, 65535.9, 40000.25, -1.0, -1.5, -32768.0];
    for dtype in [ScalarType::F64, ScalarType::F32, ScalarType::F16, ScalarType::BF16] {
        let source = Tensor::from(inside).to(dtype).unwrap();
        let values = source.to(ScalarType::F64).unwrap().to_vec::<f64>().unwrap();
        for to in UNSIGNED {
            let expected: Vec<i128> = values.iter().map(|x| wrapped(*x as i128, to)).collect();
            let expected = if dtype == ScalarType::F16 { &expected[..7] } else { &expected };
            assert_eq!(whole(&source.to(to).unwrap())[..expected.len()], *expected, "{dtype} to {to}");
        }
    }
    let far = Tensor::from([70000.0f64, 1e10, 1e19, 2e19, f64::INFINITY, -1e10, -3e9]);
    assert_eq!(whole(&far.to(ScalarType::U16).unwrap()), [4464, 0, 0, 0, 0, 0, 0]);
    let expected = [70000, 1410065408, 0, 0, 0, 2884901888, 1294967296];
    assert_eq!(whole(&far.to(ScalarType::U32).unwrap()), expected);
    let wide = [70000, 10000000000, 10000000000000000000, 0, 0, 18446744063709551616, 18446744070709551616];
    assert_eq!(whole(&far.to(ScalarType::U64).unwrap()), wide);
    assert_eq!(whole(&Tensor::from(f64::NAN).to(ScalarType::U64).unwrap()), [1 << 63]);
}

#[test]
fn every_float_of_eight_bits_converts_to_every_type() {
    for dtype in FLOAT8 {
        let (source, values) = all_codes(dtype);
        let wide: Vec<f64> = values.iter().map(|x| (*x).into()).collect();
        assert_floats(&source.to(ScalarType::F32).unwrap(), &wide, "float32");
        assert_floats(&source.to(ScalarType::F64).unwrap(), &wide, "float64");
        let half: Vec<f64> = values.iter().map(|x| f16::from_f32(*x).into()).collect();
        assert_floats(&source.to(ScalarType::F16).unwrap(), &half, "float16");
        let half: Vec<f64> = values.iter().map(|x| bf16::from_f32(*x).into()).collect();
        assert_floats(&source.to(ScalarType::BF16).unwrap(), &half, "bfloat16");
        let truth = source.to(ScalarType::Bool).unwrap().to_vec::<bool>().unwrap();
        assert!(truth.iter().zip(&values).all(|(truth, x)| *truth == (*x != 0.0)), "{dtype}");
        // To its own type it is the tensor itself, with all its codes for NaN.
        for to in FLOAT8.into_iter().filter(|to| *to != dtype) {
            let expected: Vec<i128> = values.iter().map(|x| float8(*x, to)).collect();
            assert_eq!(codes(&source.to(to).unwrap()), expected, "{dtype} to {to}");
        }
        for to in &INTEGERS[1..] {
            let got = whole(&source.to(*to).unwrap());
            let inside = |x: &f32| x.is_finite() && x.abs() < 2f32.powi(31);
            for (got, x) in got.iter().zip(&values).filter(|(_, x)| inside(x)) {
                assert_eq!(*got, wrapped(*x as i128, *to), "{x} of {dtype} to {to}");
            }
        }
        let parts = source.to(ScalarType::Complex64).unwrap().real().unwrap();
        assert_floats(&parts, &wide, "complex64");
        assert_eq!(
            codes(&source.to(ScalarType::F32).unwrap().to(dtype).unwrap())[..0x7D],
            codes(&source)[..0x7D]
        );
    }
}

#[test]
fn every_type_converts_to_floats_of_eight_bits() {
    let numbers =
        [0.0, -0.0, 0.3, 1.0, -1.5, 17.0, 464.0, 61440.0, 1e10, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for from in [ScalarType::F64, ScalarType::F32, ScalarType::F16, ScalarType::BF16] {
        let source = Tensor::from(numbers).to(from).unwrap();
        let values = source.to(ScalarType::F32).unwrap().to_vec::<f32>().unwrap();
        for to in FLOAT8 {
            let expected: Vec<i128> = values.iter().map(|x| float8(*x, to)).collect();
            assert_eq!(codes(&source.to(to).unwrap()), expected, "{from} to {to}");
            let complex = source.to(ScalarType::Complex128).unwrap().to(to).unwrap();
            assert_eq!(codes(&complex), expected, "complex to {to}");
        }
    }
    let whole_numbers = Tensor::from([0i64, 1, -3, 100, 449, 1 << 40]);
    for to in FLOAT8 {
        let expected: Vec<i128> =
            [0f32, 1.0, -3.0, 100.0, 449.0, 2f32.powi(40)].iter().map(|x| float8(*x, to)).collect();
        assert_eq!(codes(&whole_numbers.to(to).unwrap()), expected, "int64 to {to}");
    }
}

#[test]
fn complex_numbers_of_halves_convert_part_by_part() {
    let c = |re: f32, im: f32| Complex::new(re, im);
    let numbers =
        [c(1.5, -2.0), c(f32::INFINITY, 0.1), c(65504.0, 1e-8), c(1e6, -1e6), c(0.0, 3.0), c(0.0, -0.0)];
    let source = Tensor::from(numbers);
    let half = source.to(ScalarType::Complex32).unwrap();
    let rounded = |x: f32| f16::from_f32(x);
    let expected: Vec<_> = numbers.iter().map(|z| Complex::new(rounded(z.re), rounded(z.im))).collect();
    assert_eq!(half.to_vec::<Complex<f16>>().unwrap(), expected);
    for (dtype, wide) in [
        (ScalarType::Complex64, half.to(ScalarType::Complex64)),
        (ScalarType::Complex128, half.to(ScalarType::Complex128)),
    ] {
        let wide = wide.unwrap();
        assert_eq!(wide.dtype(), dtype);
        assert_eq!(wide.to(ScalarType::Complex32).unwrap().to_vec::<Complex<f16>>().unwrap(), expected);
    }
    let real: Vec<f64> = expected.iter().map(|z| z.re.into()).collect();
    assert_floats(&half.to(ScalarType::F32).unwrap(), &real, "the real parts");
    assert_floats(&half.to(ScalarType::F16).unwrap(), &real, "the real parts");
    assert_eq!(
        half.to(ScalarType::Bool).unwrap().to_vec::<bool>().unwrap(),
        [true, true, true, true, true, false]
    );
    assert_eq!(whole(&half.slice(0, 0, 1).unwrap().to(ScalarType::U16).unwrap()), [1]);
    let parts = ops::view_as_real(&half).unwrap();
    assert_eq!((parts.dtype(), parts.sizes()), (ScalarType::F16, &[6i64, 2][..]));
    assert_eq!(ops::view_as_complex(&parts).unwrap().dtype(), ScalarType::Complex32);
    let sum = half.slice(0, 0, 1).unwrap().add(&half.slice(0, 0, 1).unwrap()).unwrap();
    assert_eq!(sum.to_vec::<Complex<f16>>().unwrap(), [Complex::new(rounded(3.0), rounded(-4.0))]);
}

/// An operator that moves elements, and its name.
type Movement = (&'static str, fn(&Tensor) -> flambeau_core::Result<Tensor>);

/// Operators that move elements, applied to 24 elements in 4 rows.
fn movements() -> Vec<Movement> {
    vec![
        ("clone", |x| ops::clone(&x.t()?, None)),
        ("cat", |x| Tensor::cat(&[x.clone(), x.clone()], 1)),
        ("flip", |x| x.flip(&[0, 1])),
        ("roll", |x| ops::roll(x, &[5], &[])),
        ("index_select", |x| x.index_select(0, &Tensor::from([3i64, 0, 3]))),
        ("gather", |x| x.gather(1, &Tensor::from([[5i64, 0], [1, 1], [2, 3], [4, 5]]))),
        ("scatter", |x| x.scatter(1, &Tensor::from([[5i64, 0]]), &x.slice(0, 3, 4)?)),
        ("masked_select", |x| x.masked_select(&Tensor::from([true, false, true, true, false, false]))),
        ("where", |x| {
            ops::where_self(&Tensor::from([true, false, true, true, false, false]), x, &x.flip(&[0])?)
        }),
        ("index_put", |x| ops::index_put(x, &[Some(Tensor::from([2i64, 1]))], &x.slice(0, 0, 2)?, false)),
        ("take", |x| x.take(&Tensor::from([23i64, 1, 7]))),
        ("repeat", |x| x.repeat(&[2, 1])),
        ("transposed copy", |x| x.t()?.contiguous()),
        ("diagonal", |x| x.diagonal()?.contiguous()),
        ("pad", |x| ops::constant_pad_nd(x, &[1, 2], Scalar::Int(1))),
    ]
}

#[test]
fn elements_move_as_they_are() {
    for dtype in STORED {
        let unit = match dtype.size() {
            1 => ScalarType::U8,
            2 => ScalarType::I16,
            4 => ScalarType::I32,
            _ => ScalarType::I64,
        };
        // Numbers that no type has for NaN.
        let bits =
            ops::arange(Scalar::Int(24), Some(unit), None, None, None).unwrap().reshape(&[4, 6]).unwrap();
        let typed = bits.view_dtype(dtype).unwrap();
        for (name, movement) in movements() {
            let got = movement(&typed).unwrap_or_else(|e| panic!("{name} of {dtype}: {e}"));
            assert_eq!(got.dtype(), dtype, "{name}");
            let (sizes, expected) = match name {
                // The value that is written is a number, whose code depends on the type.
                "pad" => (got.sizes().to_vec(), {
                    let one = codes(&ops::ones(&[1], Some(dtype), None, None, None).unwrap())[0];
                    let filled = ops::constant_pad_nd(&bits, &[1, 2], Scalar::Int(0)).unwrap();
                    let inside = ops::constant_pad_nd(
                        &ops::ones_like(&bits, Some(ScalarType::Bool), None, None, None, None).unwrap(),
                        &[1, 2],
                        Scalar::Int(0),
                    )
                    .unwrap();
                    whole(&filled)
                        .into_iter()
                        .zip(whole(&inside))
                        .map(|(x, inside)| if inside == 1 { x } else { wrapped(one, unit) })
                        .collect()
                }),
                _ => {
                    let expected = movement(&bits).unwrap();
                    (expected.sizes().to_vec(), whole(&expected.contiguous().unwrap()))
                }
            };
            assert_eq!((got.sizes(), codes(&got)), (&sizes[..], expected), "{name} of {dtype}");
        }
    }
}

#[test]
fn floats_of_eight_bits_compare_by_value() {
    for dtype in FLOAT8 {
        let (tensor, values) = all_codes(dtype);
        let (a, b) = (tensor.reshape(&[256, 1]).unwrap(), tensor.reshape(&[1, 256]).unwrap());
        let check = |got: flambeau_core::Result<Tensor>, compare: fn(&f32, &f32) -> bool| {
            let got = got.unwrap().to_vec::<bool>().unwrap();
            let expected: Vec<bool> =
                values.iter().flat_map(|x| values.iter().map(move |y| compare(x, y))).collect();
            assert!(got == expected, "{dtype}");
        };
        check(a.eq(&b), |x, y| x == y);
        check(a.ne(&b), |x, y| x != y);
        check(a.lt(&b), |x, y| x < y);
        check(a.ge(&b), |x, y| x >= y);
        let is = |got: flambeau_core::Result<Tensor>| got.unwrap().to_vec::<bool>().unwrap();
        assert_eq!(is(tensor.isnan()), values.iter().map(|x| x.is_nan()).collect::<Vec<_>>());
        assert_eq!(is(tensor.isinf()), values.iter().map(|x| x.is_infinite()).collect::<Vec<_>>());
        assert_eq!(is(tensor.isfinite()), values.iter().map(|x| x.is_finite()).collect::<Vec<_>>());
        let nonzero = tensor.nonzero().unwrap().numel();
        assert_eq!(nonzero as usize, values.iter().filter(|x| **x != 0.0).count(), "{dtype}");
        assert!(tensor.any().unwrap().item::<bool>().unwrap());
        assert_eq!(is(tensor.eq_scalar(1.0)), values.iter().map(|x| *x == 1.0).collect::<Vec<_>>());
    }
}

#[test]
fn unsigned_integers_have_the_order_of_their_values() {
    let large = u64::MAX - 1;
    let a = Tensor::from([0u64, 1, 1 << 63, large, u64::MAX, (1 << 63) - 1]);
    let (x, y) = (a.reshape(&[6, 1]).unwrap(), a.reshape(&[1, 6]).unwrap());
    let values = a.to_vec::<u64>().unwrap();
    let pairs = |f: fn(u64, u64) -> u64| -> Vec<u64> {
        values.iter().flat_map(|x| values.iter().map(move |y| f(*x, *y))).collect()
    };
    let truth = |got: flambeau_core::Result<Tensor>| whole(&got.unwrap().reshape(&[-1]).unwrap());
    let expected = |f: fn(u64, u64) -> u64| pairs(f).into_iter().map(i128::from).collect::<Vec<_>>();
    assert_eq!(truth(x.lt(&y)), expected(|x, y| u64::from(x < y)));
    assert_eq!(truth(x.le(&y)), expected(|x, y| u64::from(x <= y)));
    assert_eq!(truth(x.gt(&y)), expected(|x, y| u64::from(x > y)));
    assert_eq!(truth(x.eq(&y)), expected(|x, y| u64::from(x == y)));
    assert_eq!(truth(x.maximum(&y)), expected(u64::max));
    assert_eq!(truth(x.minimum(&y)), expected(u64::min));
    assert_eq!(truth(x.add(&y)), expected(u64::wrapping_add));
    assert_eq!(truth(x.sub(&y)), expected(u64::wrapping_sub));
    assert_eq!(truth(x.mul(&y)), expected(u64::wrapping_mul));
    assert_eq!(truth(x.bitwise_and(&y)), expected(|x, y| x & y));
    assert_eq!(truth(x.bitwise_xor(&y)), expected(|x, y| x ^ y));
    assert_eq!(truth(a.bitwise_not()), values.iter().map(|x| (!*x).into()).collect::<Vec<i128>>());
    let clamped = ops::clamp(&a, Some(Scalar::Int(1)), Some(Scalar::UInt(1 << 63))).unwrap();
    assert_eq!(
        clamped.to_vec::<u64>().unwrap(),
        values.iter().map(|x| *x.clamp(&1, &(1 << 63))).collect::<Vec<_>>()
    );
    let (sorted, indices) = ops::sort(&a, 0, true).unwrap();
    assert_eq!(sorted.to_vec::<u64>().unwrap(), [u64::MAX, large, 1 << 63, (1 << 63) - 1, 1, 0]);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [4, 3, 2, 5, 1, 0]);
    assert_eq!(a.add(&a).unwrap().sum().unwrap().dtype(), ScalarType::I64);
}

#[test]
fn narrow_unsigned_integers_compute_as_their_values_do() {
    let (a, b) = (Tensor::from([60000u16, 7, 65535, 0]), Tensor::from([3u16, 9, 2, 5]));
    let found = |got: flambeau_core::Result<Tensor>| got.unwrap().to_vec::<u16>().unwrap();
    assert_eq!(found(a.mul(&b)), [48928, 63, 65534, 0]);
    assert_eq!(found(a.sub(&b)), [59997, 65534, 65533, 65531]);
    assert_eq!(found(a.maximum(&b)), [60000, 9, 65535, 5]);
    assert_eq!(found(ops::floor_divide(&a, &b)), [20000, 0, 32767, 0]);
    assert_eq!(found(ops::remainder_tensor(&a, &b)), [0, 7, 1, 0]);
    assert_eq!(found(ops::bitwise_right_shift_tensor(&a, &b)), [7500, 0, 16383, 0]);
    assert_eq!(found(ops::bitwise_left_shift_tensor(&a, &b)), [21248, 3584, 65532, 0]);
    assert_eq!(found(a.relu()), [60000, 7, 65535, 0]);
    assert_eq!(a.div(&b).unwrap().to_vec::<f32>().unwrap(), [20000.0, 7.0 / 9.0, 32767.5, 0.0]);
    assert_eq!(a.exp().unwrap().dtype(), ScalarType::F32);
    assert_eq!(a.sum().unwrap().item::<i64>().unwrap(), 125542);
    assert_eq!(ops::max(&a).unwrap().item::<u16>().unwrap(), 65535);
    assert_eq!(ops::argmin(&a, None, false).unwrap().item::<i64>().unwrap(), 3);
    assert_eq!(ops::sort(&a, 0, false).unwrap().0.to_vec::<u16>().unwrap(), [0, 7, 60000, 65535]);
    let (values, ..) =
        ops::unique_consecutive(&Tensor::from([5u32, 5, u32::MAX, u32::MAX]), false, false, None).unwrap();
    assert_eq!(values.to_vec::<u32>().unwrap(), [5, u32::MAX]);
    let (values, ..) = ops::_unique2(&Tensor::from([7u64, u64::MAX, 7, 0]), true, false, false).unwrap();
    assert_eq!(values.to_vec::<u64>().unwrap(), [0, 7, u64::MAX]);
    assert_eq!(found(a.scatter_add(0, &Tensor::from([1i64, 1]), &b)), [60000, 19, 65535, 0]);
}

/// Results are those of PyTorch 2.15.
#[test]
fn unsigned_results_wrap_before_they_become_the_type_of_an_output() {
    let a = Tensor::from([60000u16, 3, 65535]);
    let b = Tensor::from([2u16, 3, 65535]);
    for dtype in [ScalarType::F64, ScalarType::F32, ScalarType::I64, ScalarType::I32, ScalarType::Complex64] {
        let out = ops::zeros(&[3], Some(dtype), None, None, None).unwrap();
        ops::mul_out(&a, &b, &out).unwrap();
        assert_eq!(out.to(ScalarType::I64).unwrap().to_vec::<i64>().unwrap(), [54464, 9, 1], "{dtype}");
        ops::sub_out(&b, &a, Scalar::Int(1), &out).unwrap();
        assert_eq!(out.to(ScalarType::I64).unwrap().to_vec::<i64>().unwrap(), [5538, 0, 0], "{dtype}");
    }
    let out = Tensor::from([0.0f64]);
    let wide = Tensor::from([4_000_000_000u32]);
    ops::mul_out(&wide, &wide, &out).unwrap();
    assert_eq!(out.to_vec::<f64>().unwrap(), [1_983_905_792.0]);
    let widest = Tensor::from([4_000_000_000u64]);
    ops::mul_out(&widest, &widest, &out).unwrap();
    assert_eq!(out.to_vec::<f64>().unwrap(), [1.6e19]);
}

#[test]
fn numbers_out_of_range_compare_as_what_they_are() {
    let truth = |got: flambeau_core::Result<Tensor>| got.unwrap().to_vec::<bool>().unwrap();
    let narrow = Tensor::from([0u16, 65535]);
    assert_eq!(truth(narrow.eq_scalar(-1)), [false, false]);
    assert_eq!(truth(narrow.lt_scalar(70000)), [true, true]);
    assert_eq!(truth(narrow.gt_scalar(-1)), [true, true]);
    assert_eq!(truth(narrow.eq_scalar(65535)), [false, true]);
    let wide = Tensor::from([0u64, u64::MAX]);
    assert_eq!(truth(wide.ge_scalar(-5)), [true, true]);
    assert_eq!(truth(wide.eq_scalar(Scalar::UInt(u64::MAX))), [false, true]);
    assert_eq!(truth(wide.lt_scalar(Scalar::UInt(u64::MAX))), [true, false]);
    let signed = Tensor::from([i64::MAX, i64::MIN]);
    assert_eq!(truth(signed.lt_scalar(Scalar::UInt(1 << 63))), [true, true]);
    assert_eq!(truth(signed.eq_scalar(Scalar::UInt(1 << 63))), [false, false]);
}

#[test]
fn tensors_are_filled_as_in_pytorch() {
    let full = |value: Scalar, dtype| ops::full(&[1], value, Some(dtype), None, None, None);
    assert_eq!(whole(&full(Scalar::Int(-1), ScalarType::U16).unwrap()), [65535]);
    assert_eq!(whole(&full(Scalar::Int(-70000), ScalarType::U32).unwrap()), [4294897296]);
    assert_eq!(whole(&full(Scalar::UInt(u64::MAX), ScalarType::U64).unwrap()), [u64::MAX.into()]);
    assert_eq!(whole(&full(Scalar::Float(1e19), ScalarType::U64).unwrap()), [10000000000000000000]);
    let refused = [
        (Scalar::Int(70000), ScalarType::U16),
        (Scalar::Float(-1.0), ScalarType::U64),
        (Scalar::Float(f64::NAN), ScalarType::U32),
        (Scalar::UInt(1 << 63), ScalarType::I64),
        (Scalar::Int(70000), ScalarType::Complex32),
        (Scalar::Complex(1.0, 2.0), ScalarType::F8E5M2),
    ];
    for (value, dtype) in refused {
        assert_eq!(full(value, dtype).unwrap_err().kind(), ErrorKind::InvalidArgument, "{value} as {dtype}");
    }
    let eighth = |x: f64, dtype| full(Scalar::Float(x), dtype).unwrap().item_scalar().unwrap();
    assert_eq!(eighth(1000.0, ScalarType::F8E4M3FN), Scalar::Float(448.0));
    assert_eq!(eighth(61440.0, ScalarType::F8E5M2), Scalar::Float(f64::INFINITY));
    assert_eq!(eighth(-3.0, ScalarType::F8E8M0FNU), Scalar::Float(4.0));
}

#[test]
fn what_is_not_supported_names_operator_and_type() {
    let eight = Tensor::from([F8E4M3FN::from_f32(1.0)]);
    let error = eight.add(&eight).unwrap_err();
    assert_eq!((error.kind(), error.operator()), (ErrorKind::NotImplemented, Some("add.Tensor")));
    assert!(error.to_string().contains("float8_e4m3fn"), "{error}");
    for got in [eight.exp(), eight.mul(&eight), eight.sum(), ops::max(&eight), eight.matmul(&eight)] {
        assert_eq!(got.unwrap_err().kind(), ErrorKind::NotImplemented);
    }
    let refused = [(Tensor::from([1u16]), Tensor::from([1i8])), (Tensor::from([1u32]), Tensor::from([1u64]))];
    for (a, b) in refused.into_iter().chain([(eight, Tensor::from([1.0f32]))]) {
        assert_eq!(a.mul(&b).unwrap_err().kind(), ErrorKind::Dtype);
    }
    let long = Tensor::from([1u64]);
    for got in
        [ops::floor_divide(&long, &long), ops::bitwise_right_shift_tensor(&long, &long), ops::max(&long)]
    {
        assert_eq!(got.unwrap_err().kind(), ErrorKind::NotImplemented);
    }
}

#[test]
fn tensors_print_as_in_pytorch() {
    let eight = |values: [f32; 3], dtype| Tensor::from(values).to(dtype).unwrap().to_string();
    assert_eq!(
        eight([1.0, 2.5, 448.0], ScalarType::F8E4M3FN),
        "tensor([  1.0000,   2.5000, 448.0000], dtype=flambeau.float8_e4m3fn)"
    );
    assert_eq!(
        eight([1.0, 2.5, 448.0], ScalarType::F8E8M0FNU),
        "tensor([  1.,   2., 512.], dtype=flambeau.float8_e8m0fnu)"
    );
    assert_eq!(
        eight([1.0, 2.5, 1e9], ScalarType::F8E5M2),
        "tensor([1.0000, 2.5000,    inf], dtype=flambeau.float8_e5m2)"
    );
    let half =
        Tensor::from([Complex::new(1.0f32, 2.0), Complex::new(3.5, 0.0)]).to(ScalarType::Complex32).unwrap();
    assert_eq!(half.to_string(), "tensor([1.0000+2.j, 3.5000+0.j], dtype=flambeau.complex32)");
    assert_eq!(
        Tensor::from([1u64, u64::MAX]).to_string(),
        "tensor([                   1, 18446744073709551615], dtype=flambeau.uint64)"
    );
    assert_eq!(Tensor::from(3u16).to_string(), "tensor(3, dtype=flambeau.uint16)");
    assert_eq!(format!("{:?}", Tensor::from([1u32])), "Tensor([1], uint32, cpu, [1])");
}

#[test]
fn a_hash_has_memory_of_its_own() {
    for x in [Tensor::from(3.0f64), Tensor::from([5i64]), Tensor::from([[1.0f64], [2.0]])] {
        let hash = ops::hash_tensor(&x, &[x.dim() as i64 - 1][..x.dim().min(1)], false, 0).unwrap();
        let before = whole(&hash);
        ops::fill__scalar(&x, Scalar::Int(7)).unwrap();
        assert_eq!(whole(&hash), before);
    }
}
