//! Checkpointed segments: bitwise the same gradients, less memory, nesting, random numbers, double backward, and errors.

#![expect(
    clippy::unwrap_used,
    clippy::cloned_ref_to_slice_refs,
    reason = "tests that read easily, and fail by panicking"
)]

use flambeau_autograd::{Autograd, checkpoint, grad, no_grad};
use flambeau_core::allocator::{Allocator, CpuAllocator};
use flambeau_core::{Result, ScalarType, manual_seed};
use flambeau_ops::{Tensor, ops};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One at a time: they count bytes, and draw from the one generator.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn leaf(values: &[f64]) -> Tensor {
    let tensor = Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap();
    tensor.requires_grad_(true).unwrap();
    tensor
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec().unwrap()
}

/// The gradients of the sum of `of`; the graph is kept.
fn gradients(of: &Tensor, leaves: &[&Tensor]) -> Vec<Vec<f64>> {
    recorded(of, leaves, false).iter().map(values).collect()
}

fn recorded(of: &Tensor, leaves: &[&Tensor], create_graph: bool) -> Vec<Tensor> {
    let leaves: Vec<Tensor> = leaves.iter().map(|leaf| (*leaf).clone()).collect();
    let sum = ops::sum(of, None).unwrap();
    let found = grad(&[sum], &leaves, &[], Some(true), create_graph, false).unwrap();
    found.into_iter().map(Option::unwrap).collect()
}

/// Something that saves inputs, outputs and what is in between.
fn body(inputs: &[Tensor]) -> Result<Tensor> {
    let x = ops::tanh(&ops::mul_tensor(&inputs[0], &inputs[1])?)?;
    ops::mul_tensor(&ops::exp(&x)?, &ops::sin(&inputs[0])?)
}

#[test]
fn gradients_are_the_same_to_the_bit() {
    let _alone = alone();
    let (x, w) = (leaf(&[0.3, -1.2, 2.5]), leaf(&[1.1, 0.7, -0.4]));
    let inputs = [ops::mul_tensor(&x, &x).unwrap(), w.clone()];
    let (plain, parted) = (body(&inputs).unwrap(), checkpoint(body, &inputs).unwrap());
    assert_eq!(values(&plain), values(&parted));
    let expected = gradients(&plain, &[&x, &w]);
    assert_eq!(gradients(&parted, &[&x, &w]), expected);
    // Another pass through a retained graph recomputes the segment once more, and so does one for some of the leaves.
    assert_eq!(gradients(&parted, &[&w]), expected[1..]);
    assert_eq!(gradients(&parted, &[&x, &w]), expected);
}

#[test]
fn it_runs_once_more_for_a_pass_and_stops_when_it_has_all() {
    let _alone = alone();
    let (runs, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, ended) = (Arc::clone(&runs), Arc::clone(&ends));
    let x = leaf(&[0.3, 2.5]);
    let part = move |inputs: &[Tensor]| {
        counted.fetch_add(1, Ordering::Relaxed);
        let y = body(&[inputs[0].clone(), inputs[0].clone()])?;
        ended.fetch_add(1, Ordering::Relaxed);
        Ok(y)
    };
    let y = checkpoint(part, &[x.clone()]).unwrap();
    let sum = ops::sum(&y, None).unwrap();
    sum.backward().unwrap();
    assert_eq!((runs.load(Ordering::Relaxed), ends.load(Ordering::Relaxed)), (2, 1));
    // The graph was not retained.
    assert!(sum.backward().unwrap_err().to_string().contains("second time"));
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[test]
fn a_nested_segment_saves_its_inputs_through_the_outer_one() {
    let _alone = alone();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let outer = move |inputs: &[Tensor]| {
        let counted = Arc::clone(&counted);
        let between = ops::exp(&inputs[0])?;
        let inner = move |inputs: &[Tensor]| {
            counted.fetch_add(1, Ordering::Relaxed);
            body(inputs)
        };
        let y = checkpoint(inner, &[between, inputs[1].clone()])?;
        ops::mul_tensor(&y, &ops::cos(&y)?)
    };
    let (x, w) = (leaf(&[0.3, -1.2]), leaf(&[1.1, 0.7]));
    let plain = {
        let y = body(&[ops::exp(&x).unwrap(), w.clone()]).unwrap();
        ops::mul_tensor(&y, &ops::cos(&y).unwrap()).unwrap()
    };
    let parted = checkpoint(outer, &[x.clone(), w.clone()]).unwrap();
    assert_eq!(gradients(&parted, &[&x, &w]), gradients(&plain, &[&x, &w]));
    assert_eq!(
        runs.load(Ordering::Relaxed),
        3,
        "the first run, as part of the outer segment, and for its own saved tensors"
    );
}

#[test]
fn the_same_random_numbers_are_drawn() {
    let _alone = alone();
    manual_seed(5);
    let x = leaf(&vec![0.7; 1000]);
    let part = |inputs: &[Tensor]| ops::dropout(&ops::mul_tensor(&inputs[0], &inputs[0])?, 0.5, true);
    let y = checkpoint(part, &[x.clone()]).unwrap();
    let next = values(&Tensor::rand(&[2], ScalarType::F64).unwrap());
    let expected: Vec<f64> =
        values(&y).iter().map(|y| if *y == 0.0 { 0.0 } else { 2.0 * 2.0 * 0.7 }).collect();
    let got = gradients(&y, &[&x]).remove(0);
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12));
    // The state of the generator is restored.
    let after = values(&Tensor::rand(&[2], ScalarType::F64).unwrap());
    manual_seed(5);
    let _ = part(&[x]).unwrap();
    assert_eq!(values(&Tensor::rand(&[2], ScalarType::F64).unwrap()), next);
    assert_eq!(values(&Tensor::rand(&[2], ScalarType::F64).unwrap()), after);
}

#[test]
fn second_derivatives() {
    let _alone = alone();
    let x = leaf(&[0.3, 2.5]);
    let second = |y: Tensor| {
        let first = recorded(&y, &[&x], true).remove(0);
        gradients(&first, &[&x])
    };
    let part = |inputs: &[Tensor]| body(&[inputs[0].clone(), inputs[0].clone()]);
    assert_eq!(second(checkpoint(part, &[x.clone()]).unwrap()), second(part(&[x.clone()]).unwrap()));
}

/// The bytes that are live after `build`, and the most that a backward pass has, both without what was there before.
fn bytes(build: impl Fn(&Tensor) -> Tensor) -> (usize, usize) {
    let x = Tensor::from_vec(vec![0.5f64; 1 << 15], &[1 << 15]).unwrap();
    x.requires_grad_(true).unwrap();
    let before = CpuAllocator.memory_stats().live_bytes;
    let y = build(&x);
    let kept = CpuAllocator.memory_stats().live_bytes - before;
    CpuAllocator.reset_peak();
    ops::sum(&y, None).unwrap().backward().unwrap();
    (kept, CpuAllocator.memory_stats().peak_bytes - before)
}

#[test]
fn memory_is_that_of_the_inputs_and_one_part() {
    let _alone = alone();
    let part = |inputs: &[Tensor]| {
        let mut x = inputs[0].clone();
        for _ in 0..8 {
            x = ops::sin(&ops::tanh(&x)?)?;
        }
        Ok(x)
    };
    let repeated = |step: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| (0..8).fold(x.clone(), |x, _| step(&x));
    let plain = bytes(|x| repeated(&|x| part(&[x.clone()]).unwrap(), x));
    let parted = bytes(|x| repeated(&|x| checkpoint(part, &[x.clone()]).unwrap(), x));
    let tensor = 8 << 15;
    assert!(plain.0 >= 8 * 8 * tensor, "{plain:?}");
    assert!(parted.0 <= 9 * tensor, "{parted:?}");
    assert!(parted.1 <= (9 + 8 * 2 + 4) * tensor && parted.1 * 2 < plain.1, "{parted:?} {plain:?}");
}

#[test]
fn what_is_not_the_same_again_is_an_error() {
    let _alone = alone();
    let count = Arc::new(AtomicUsize::new(0));
    let kind = move |inputs: &[Tensor]| {
        let number = count.fetch_add(1, Ordering::Relaxed) as i64;
        ops::exp(&ops::repeat(&inputs[0], &[1 + number])?)
    };
    let x = leaf(&[0.3, 2.5]);
    let pass = |y: &Tensor| ops::sum(y, None).unwrap().backward().unwrap_err().to_string();
    let message = pass(&checkpoint(kind, &[x.clone()]).unwrap());
    assert!(message.contains("expected saved tensor"), "{message}");

    let count = Arc::new(AtomicUsize::new(0));
    let fewer = move |inputs: &[Tensor]| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { ops::exp(&ops::sin(&inputs[0])?) } else { ops::sin(&inputs[0]) }
    };
    let message = pass(&checkpoint(fewer, &[x.clone()]).unwrap());
    assert!(message.contains("2 tensors were saved"), "{message}");

    let z = ops::mul_tensor(&x, &x).unwrap();
    let y = checkpoint(|inputs: &[Tensor]| ops::sin(&inputs[0]), &[z.clone()]).unwrap();
    ops::mul__tensor(&z, &x.detach().unwrap()).unwrap();
    let message = pass(&y);
    assert!(message.contains("modified by an inplace operation"), "{message}");
}

#[test]
fn nothing_is_kept_where_nothing_is_recorded() {
    let _alone = alone();
    let x = leaf(&[1.0]);
    let _unrecorded = no_grad();
    let y = checkpoint(|inputs: &[Tensor]| ops::exp(&inputs[0]), &[x]).unwrap();
    assert!(!y.requires_grad());
}
