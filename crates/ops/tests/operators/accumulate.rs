//! Sums of gradients against `add_`, on every type and layout, and on both sides of the size below which they are computed without it.

use crate::support::{layouts, sample, values};
use flambeau_core::{ErrorKind, ReadGuard, Result, ScalarType};
use flambeau_ops::native::pointwise::accumulate::{accumulate_, accumulate_scaled_};
use flambeau_ops::{Tensor, ops};

const TYPES: [ScalarType; 5] =
    [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64, ScalarType::I64];

#[test]
fn sums_are_those_of_the_elements() -> Result<()> {
    for sizes in [&[][..], &[0], &[1], &[17], &[255], &[256], &[257], &[16, 16], &[3, 6], &[2, 1, 3]] {
        for dtype in TYPES {
            for (layout, from) in layouts(sizes, dtype, 1) {
                let to = sample(sizes, dtype, 2);
                let (before, terms, version) = (values(&to), values(&from), to.version());
                accumulate_(&to, &from)?;
                // Half an ulp of numbers up to 2.
                let tolerance = match dtype {
                    ScalarType::F16 => 2f64.powi(-11),
                    ScalarType::BF16 => 2f64.powi(-8),
                    ScalarType::F32 => 2f64.powi(-24),
                    _ => 0.0,
                };
                for ((sum, a), b) in values(&to).iter().zip(before).zip(terms) {
                    assert!((sum - (a + b)).abs() <= tolerance, "{sizes:?} {dtype} {layout}: {sum} {a} {b}");
                }
                assert_ne!(to.version(), version, "a write that is not counted");
            }
        }
    }
    Ok(())
}

#[test]
fn few_and_many_round_alike() -> Result<()> {
    // Beside 1, half an ulp is rounded to the even neighbour; NaN and infinities are kept.
    let special = [1.0f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45, f32::MAX];
    let terms = [f32::EPSILON / 2.0, 1.0, f32::NEG_INFINITY, 1.0, 0.0, 1e-45, f32::MAX];
    let few = Tensor::from_slice(&special)?;
    accumulate_(&few, &Tensor::from_slice(&terms)?)?;
    let expected: Vec<f32> = special.iter().zip(terms).map(|(a, b)| a + b).collect();
    let bits = |all: &[f32]| all.iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect::<Vec<_>>();
    assert_eq!(bits(&few.to_vec::<f32>()?), bits(&expected));
    let many = Tensor::from_slice(&special.repeat(40))?;
    accumulate_(&many, &Tensor::from_slice(&terms.repeat(40))?)?;
    assert_eq!(bits(&many.to_vec::<f32>()?), bits(&expected.repeat(40)));
    Ok(())
}

#[test]
fn products_are_rounded_before_they_are_added() -> Result<()> {
    // With one rounding for both, a third of these would differ by an ulp.
    let alpha = -0.1f64;
    for count in [1usize, 7, 16, 256, 257, 1000] {
        let (to, from) =
            (sample(&[count as i64], ScalarType::F32, 4), sample(&[count as i64], ScalarType::F32, 5));
        let expected: Vec<f32> = to
            .to_vec::<f32>()?
            .iter()
            .zip(from.to_vec::<f32>()?)
            .map(|(a, b)| a + alpha as f32 * b)
            .collect();
        accumulate_scaled_(&to, &from, alpha.into())?;
        assert_eq!(to.to_vec::<f32>()?, expected, "{count} of f32");
        let (to, from) =
            (sample(&[count as i64], ScalarType::F64, 4), sample(&[count as i64], ScalarType::F64, 5));
        let expected: Vec<f64> =
            to.to_vec::<f64>()?.iter().zip(from.to_vec::<f64>()?).map(|(a, b)| a + alpha * b).collect();
        accumulate_scaled_(&to, &from, alpha.into())?;
        assert_eq!(to.to_vec::<f64>()?, expected, "{count} of f64");
    }
    Ok(())
}

#[test]
fn shared_memory_and_other_shapes_take_the_general_path() -> Result<()> {
    let a = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0])?;
    let (low, high) =
        (ops::slice_tensor(&a, 0, None, Some(3), 1)?, ops::slice_tensor(&a, 0, Some(1), None, 1)?);
    accumulate_(&low, &high)?;
    assert_eq!(a.to_vec::<f32>()?, [3.0, 5.0, 7.0, 4.0]);
    accumulate_(&a, &a)?;
    assert_eq!(a.to_vec::<f32>()?, [6.0, 10.0, 14.0, 8.0]);
    accumulate_(&a, &Tensor::from_slice(&[1.0f32])?)?;
    assert_eq!(a.to_vec::<f32>()?, [7.0, 11.0, 15.0, 9.0]);
    accumulate_(&a, &Tensor::from_slice(&[1.0f64; 4])?)?;
    assert_eq!(a.to_vec::<f32>()?, [8.0, 12.0, 16.0, 10.0]);
    let wrong = accumulate_(&a, &Tensor::from_slice(&[1.0f32; 3])?);
    assert!(matches!(wrong, Err(e) if e.kind() == ErrorKind::Shape));
    Ok(())
}

#[test]
fn accessors_are_respected() -> Result<()> {
    let (a, b) = (Tensor::from_slice(&[1.0f32])?, Tensor::from_slice(&[2.0f32])?);
    let reading = ReadGuard::acquire(a.storage())?;
    assert!(matches!(accumulate_(&a, &b), Err(e) if e.kind() == ErrorKind::Busy));
    accumulate_(&b, &a)?;
    drop(reading);
    assert_eq!((a.to_vec::<f32>()?, b.to_vec::<f32>()?), (vec![1.0], vec![3.0]));
    Ok(())
}

#[test]
fn filling_reaches_every_element_of_every_layout() -> Result<()> {
    for sizes in [&[][..], &[0], &[1], &[17], &[3, 5], &[2, 3, 4]] {
        for dtype in TYPES {
            for (layout, tensor) in layouts(sizes, dtype, 3) {
                let filled = ops::fill__scalar(&tensor, 3.into());
                if layout == "expanded" && sizes[0] > 1 {
                    assert!(matches!(filled, Err(e) if e.kind() == ErrorKind::Aliasing));
                    continue;
                }
                filled?;
                assert!(values(&tensor).iter().all(|x| *x == 3.0), "{sizes:?} {dtype} {layout}");
            }
        }
    }
    let part = Tensor::from_slice(&[1.0f32; 6])?;
    ops::fill__scalar(&ops::slice_tensor(&part, 0, Some(2), Some(4), 1)?, 7.into())?;
    assert_eq!(part.to_vec::<f32>()?, [1.0, 1.0, 7.0, 7.0, 1.0, 1.0]);
    Ok(())
}
