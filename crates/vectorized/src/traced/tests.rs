//! What is written down of formulas.

use super::*;
use crate::{Float, Mask, Number, Ordered};
use flambeau_core::Scalar;

fn inputs<const N: usize>() -> [TracedLane<f32>; N] {
    // SAFETY: the vectors of this set read nothing.
    std::array::from_fn(|_| unsafe { <f32 as Lanes<Traced>>::load(std::ptr::null()) })
}

fn traced<const N: usize>(formula: impl FnOnce([TracedLane<f32>; N]) -> TracedLane<f32>) -> Tape {
    // SAFETY: as above, and they write nothing.
    trace(|| unsafe { <f32 as Lanes<Traced>>::store(formula(inputs()), std::ptr::null_mut()) })
}

fn names(tape: &Tape) -> Vec<&'static str> {
    tape.nodes.iter().map(|node| node.name).collect()
}

#[test]
fn operations_are_in_order() {
    let tape = traced(|[a, b]| (a * b).tanh() + TracedLane::one());
    assert_eq!(names(&tape), ["input", "input", "mul", "tanh", "float", "add"]);
    assert_eq!((tape.output, tape.inputs, tape.fault), (Some(5), 2, None));
    assert_eq!(tape.nodes[5].args[..2], [3, 4]);
    assert_eq!(f64::from_bits(tape.nodes[4].payload), 1.0);
}

#[test]
fn numbers_are_beside_the_nodes() {
    let of = |number: f64| traced(|[a]| a * TracedLane::scalar(Scalar::Float(number)));
    let (two, three) = (of(2.0), of(3.0));
    assert_eq!(two.nodes, three.nodes);
    assert_eq!((two.scalars[0], three.scalars[0]), (Scalar::Float(2.0), Scalar::Float(3.0)));
}

#[test]
fn a_choice_by_a_mask_takes_the_general_case() {
    let tape = traced(|[a]| {
        let small = a.lt(TracedLane::zero());
        if small.all() { a } else { TracedLane::select(small, -a, a) }
    });
    assert_eq!(names(&tape), ["input", "float", "lt", "neg", "select"]);
}

#[test]
fn what_cannot_be_written_down_says_so() {
    let endless = traced(|[a]| {
        let mut x = a;
        while x.gt(TracedLane::zero()).any() {
            x = x - TracedLane::one();
        }
        x
    });
    assert!(endless.fault.is_some_and(|why| why.contains("loop")));
    let by_lane = traced(|[a]| {
        let mut lanes = [0.0; 16];
        a.spill(&mut lanes);
        TracedLane::refill(&lanes)
    });
    assert!(by_lane.fault.is_some_and(|why| why.contains("one by one")));
    assert!(traced(|[a]| a).fault.is_none());
}

#[test]
fn a_complex_number_is_two_inputs_and_two_results() {
    use flambeau_core::Complex;
    // SAFETY: the vectors of this set read and write nothing.
    let tape = trace(|| unsafe {
        let z = <Complex<f32> as Lanes<Traced>>::load(std::ptr::null());
        let factor = <Complex<TracedLane<f32>> as Number>::scalar(Scalar::Complex(2.0, 3.0));
        <Complex<f32> as Lanes<Traced>>::store(z + factor, std::ptr::null_mut());
    });
    assert_eq!(names(&tape), ["input", "input", "scalar", "scalar", "add", "add"]);
    assert_eq!((tape.inputs, tape.output, tape.imaginary, tape.fault), (2, Some(4), Some(5), None));
    assert_eq!(
        (tape.nodes[4].args[..2].to_vec(), tape.nodes[5].args[..2].to_vec()),
        (vec![0, 2], vec![1, 3])
    );
    assert_eq!(tape.scalars, [Scalar::Float(2.0), Scalar::Float(3.0)]);
}
