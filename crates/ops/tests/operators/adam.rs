//! A step of Adam in one pass, against the operators that it consists of: the same bits.

use crate::support::values;
use flambeau_core::{ErrorKind, Result, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const TYPES: [ScalarType; 4] = [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64];

/// The numbers of a step.
#[derive(Clone, Copy)]
struct Step {
    rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    correction: f64,
    kept: f64,
    decay: f64,
    maximize: bool,
}

const PLAIN: Step = Step {
    rate: 1e-2 / (1.0 - 0.9),
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    correction: 0.0316,
    kept: 1.0,
    decay: 0.0,
    maximize: false,
};

impl Step {
    fn in_one_pass(&self, [param, mean, square, grad]: [&Tensor; 4]) -> Result<()> {
        let Step { rate, beta1, beta2, eps, correction, kept, decay, maximize } = *self;
        ops::_adam_step_(
            param, mean, square, grad, rate, beta1, beta2, eps, correction, kept, decay, maximize,
        )
    }

    fn by_operators(&self, [param, mean, square, grad]: [&Tensor; 4]) -> Result<()> {
        let mut grad = if self.maximize { ops::neg(grad)? } else { grad.clone() };
        if self.decay != 0.0 {
            grad = ops::add_tensor(&grad, param, self.decay.into())?;
        }
        if self.kept != 1.0 {
            ops::mul__scalar(param, self.kept.into())?;
        }
        ops::lerp__scalar(mean, &grad, (1.0 - self.beta1).into())?;
        ops::mul__scalar(square, self.beta2.into())?;
        ops::addcmul_(square, &grad, &grad, (1.0 - self.beta2).into())?;
        let divisor = ops::sqrt(square)?;
        ops::div__scalar(&divisor, self.correction.into())?;
        ops::add__scalar(&divisor, self.eps.into(), 1.into())?;
        ops::addcdiv_(param, mean, &divisor, (-self.rate).into())
    }
}

fn steps() -> [Step; 6] {
    [
        PLAIN,
        Step { decay: 0.1, ..PLAIN },
        Step { kept: 1.0 - 1e-2 * 0.1, ..PLAIN },
        Step { maximize: true, eps: 1e-3, ..PLAIN },
        Step { maximize: true, decay: 0.3, beta1: 0.3, beta2: 0.7, ..PLAIN },
        Step { beta1: 0.0, beta2: 0.0, eps: 0.0, ..PLAIN },
    ]
}

/// Numbers of both signs, some of them zeros, infinite, NaN and denormal.
fn numbers(sizes: &[i64], seed: usize, dtype: ScalarType) -> Result<Tensor> {
    let number = |i: usize| match (i * 13 + seed) % 101 {
        0 => f64::INFINITY,
        1 => f64::NAN,
        2 => -0.0,
        3 => 0.0,
        4 => 1e-40,
        at => (((i + 7 * seed) * 37 % 211) as f64 - 100.0) / (at as f64),
    };
    let count = sizes.iter().product::<i64>() as usize;
    let made = Tensor::from_vec((0..count).map(number).collect(), sizes)?;
    ops::to_dtype(&made, dtype, false, false, None)
}

/// Parameter, means and gradient.
fn operands(sizes: &[i64], dtype: ScalarType) -> Result<[Tensor; 4]> {
    let square = numbers(sizes, 3, dtype)?;
    Ok([
        numbers(sizes, 1, dtype)?,
        numbers(sizes, 2, dtype)?,
        ops::mul_tensor(&square, &square)?,
        numbers(sizes, 4, dtype)?,
    ])
}

fn assert_same_bits(got: &[Tensor; 4], expected: &[Tensor; 4], what: &str) {
    for (index, (a, b)) in got.iter().zip(expected).enumerate() {
        let bits = |t: &Tensor| values(t).iter().map(|x| (x.is_nan(), x.to_bits())).collect::<Vec<_>>();
        for (at, (a, b)) in bits(a).into_iter().zip(bits(b)).enumerate() {
            assert!(a == b || (a.0 && b.0), "{what}: operand {index}, element {at}: {a:?} and {b:?}");
        }
    }
}

fn references(tensors: &[Tensor; 4]) -> [&Tensor; 4] {
    tensors.each_ref()
}

/// Copies with the strides of `tensors`.
fn copies(tensors: &[Tensor; 4]) -> Result<[Tensor; 4]> {
    let [a, b, c, d] = tensors;
    Ok([ops::clone(a, None)?, ops::clone(b, None)?, ops::clone(c, None)?, ops::clone(d, None)?])
}

#[test]
fn bits_are_those_of_operators() -> Result<()> {
    for dtype in TYPES {
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000] {
            for (number, step) in steps().iter().enumerate() {
                let expected = operands(&[count], dtype)?;
                let got = copies(&expected)?;
                // Two steps, of which the second begins with the results of the first.
                for _ in 0..2 {
                    step.by_operators(references(&expected))?;
                    step.in_one_pass(references(&got))?;
                }
                assert_same_bits(&got, &expected, &format!("{dtype}, {count} elements, step {number}"));
            }
        }
    }
    Ok(())
}

#[test]
fn bits_do_not_depend_on_the_layout() -> Result<()> {
    let sizes = [37, 70];
    let transposed = |t: &Tensor| ops::t(&ops::t(t)?.contiguous()?);
    // Every third column of a larger tensor.
    let sliced = |t: &Tensor| {
        let all = Tensor::zeros(&[37, 210], t.dtype())?;
        let part = ops::slice_tensor(&all, 1, Some(1), None, 3)?;
        ops::copy_(&part, t, false)?;
        Ok(part)
    };
    type Arrange<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;
    let arrangements: [Arrange<'_>; 3] = [&|t| ops::clone(t, None), &transposed, &sliced];
    for dtype in TYPES {
        for (number, step) in steps().iter().enumerate() {
            let expected = operands(&sizes, dtype)?;
            let start = copies(&expected)?;
            step.by_operators(references(&expected))?;
            // Each step has some of the layouts of four operands.
            for code in (number..81).step_by(steps().len()) {
                let arranged = |at: usize| arrangements[code / 3usize.pow(at as u32) % 3](&start[at]);
                let got = [arranged(0)?, arranged(1)?, arranged(2)?, arranged(3)?];
                step.in_one_pass(references(&got))?;
                assert_same_bits(&got, &expected, &format!("{dtype}, layouts {code}"));
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_may_be_expanded() -> Result<()> {
    for dtype in TYPES {
        let [param, mean, square, _] = operands(&[9, 300], dtype)?;
        let grad = ops::expand(&numbers(&[9, 1], 5, dtype)?, &[9, 300], false)?;
        let expected = [param, mean, square, grad];
        let mut got = copies(&expected)?;
        got[3] = expected[3].clone();
        PLAIN.by_operators(references(&expected))?;
        PLAIN.in_one_pass(references(&got))?;
        assert_same_bits(&got, &expected, &format!("{dtype}"));
    }
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "large results take hours")]
fn bits_do_not_depend_on_threads() -> Result<()> {
    for dtype in TYPES {
        let expected = operands(&[100_003], dtype)?;
        let start = copies(&expected)?;
        PLAIN.by_operators(references(&expected))?;
        for threads in [1, 2, 3, 7] {
            parallel::set_num_threads(threads);
            let got = copies(&start)?;
            PLAIN.in_one_pass(references(&got))?;
            assert_same_bits(&got, &expected, &format!("{dtype}, {threads} threads"));
        }
    }
    Ok(())
}

#[test]
fn operands_that_share_memory_see_what_operators_wrote() -> Result<()> {
    // The gradient is the parameter itself, or overlaps the mean, or the two means overlap.
    let views = |which: usize| -> Result<[Tensor; 4]> {
        let all = numbers(&[400], 1, ScalarType::F32)?;
        let all = ops::abs(&ops::nan_to_num(&all, Some(1.0), Some(2.0), None)?)?;
        let starts = [[0, 100, 200, 0], [0, 100, 200, 150], [0, 100, 150, 300]][which];
        let part = |at: usize| ops::slice_tensor(&all, 0, Some(starts[at]), Some(starts[at] + 100), 1);
        Ok([part(0)?, part(1)?, part(2)?, part(3)?])
    };
    for which in 0..3 {
        for step in steps() {
            let (expected, got) = (views(which)?, views(which)?);
            step.by_operators(references(&expected))?;
            step.in_one_pass(references(&got))?;
            assert_same_bits(&got, &expected, &format!("overlap {which}"));
        }
    }
    Ok(())
}

#[test]
fn versions_of_what_is_written_advance() -> Result<()> {
    let tensors = operands(&[40], ScalarType::F32)?;
    let versions = || tensors.each_ref().map(|t| t.storage().version());
    let before = versions();
    PLAIN.in_one_pass(references(&tensors))?;
    let after = versions();
    assert!((0..3).all(|i| after[i] > before[i]));
    assert_eq!(after[3], before[3]);
    Ok(())
}

#[test]
fn other_operands_are_refused_and_stay() -> Result<()> {
    let tensors = operands(&[6, 5], ScalarType::F32)?;
    let start = copies(&tensors)?;
    let short = numbers(&[5, 6], 1, ScalarType::F32)?;
    let wide = numbers(&[6, 5], 1, ScalarType::F64)?;
    let once = ops::expand(&numbers(&[1, 5], 1, ScalarType::F32)?, &[6, 5], false)?;
    let cases =
        [(&short, 4, ErrorKind::Shape), (&wide, 4, ErrorKind::Dtype), (&once, 3, ErrorKind::Aliasing)];
    for (other, count, kind) in cases {
        for at in 0..count {
            let mut given = references(&tensors);
            given[at] = other;
            assert_eq!(PLAIN.in_one_pass(given).unwrap_err().kind(), kind, "operand {at}");
            assert_same_bits(&tensors, &start, "a call that fails");
        }
    }
    let integers = [0; 4].map(|_| Tensor::from([1i64, 2]));
    assert_eq!(PLAIN.in_one_pass(references(&integers)).unwrap_err().kind(), ErrorKind::Dtype);
    Ok(())
}
