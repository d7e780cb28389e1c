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

#[test]
fn one_operation_has_a_tape_too() {
    let tape = Tape::of(Some("select"), &[TracedType::Mask, TracedType::Element], &[Scalar::Int(3)]);
    assert_eq!(names(&tape), ["input", "input", "scalar", "select"]);
    assert_eq!((tape.nodes[3].args, tape.nodes[3].count, tape.output), ([0, 1, 2], 3, Some(3)));
    assert_eq!((tape.inputs, tape.nodes[0].kind, tape.nodes[1].payload), (2, TracedType::Mask, 1));
    let copy = Tape::of(None, &[TracedType::Element], &[]);
    assert_eq!((names(&copy), copy.output, copy.fault), (vec!["input"], Some(0), None));
    assert!(Tape::of(Some("add"), &[TracedType::Element; 4], &[]).fault.is_some());
}

/// The vector of the scalar instruction set.
type Plain = <f32 as Lanes<crate::isa::Scalar>>::Vector;

fn on_the_host(x: f32, formula: impl FnOnce(Plain) -> Plain) -> f32 {
    let mut result = [0.0; 16];
    // SAFETY: the array has room for one element.
    unsafe { formula(Plain::splat(x)).store_partial(result.as_mut_ptr(), 1) };
    result[0]
}

/// What an expression gives for an input, in f32.
fn value_of(tape: &Tape, input: f32) -> f32 {
    #[derive(Clone, Copy)]
    enum Value {
        Float(f32),
        Bits(u32),
        Mask(bool),
    }
    let float = |value: Value| if let Value::Float(x) = value { x } else { f32::NAN };
    let bits = |value: Value| if let Value::Bits(x) = value { x } else { 0 };
    let mask = |value: Value| matches!(value, Value::Mask(true));
    let mut values: Vec<Value> = Vec::new();
    for node in &tape.nodes {
        let [a, b, c] =
            node.args.map(|arg| values.get(usize::from(arg)).copied().unwrap_or(Value::Mask(false)));
        let (x, y, z) = (float(a), float(b), float(c));
        values.push(match node.name {
            "input" => Value::Float(input),
            "float" => Value::Float(f64::from_bits(node.payload) as f32),
            "add" => Value::Float(x + y),
            "sub" => Value::Float(x - y),
            "mul" => Value::Float(x * y),
            "div" => Value::Float(x / y),
            "neg" => Value::Float(-x),
            "abs" => Value::Float(x.abs()),
            "min" => Value::Float(if x < y { x } else { y }),
            "max" => Value::Float(if x > y { x } else { y }),
            "mul_add" => Value::Float(x.mul_add(y, z)),
            "copysign" => Value::Float(x.copysign(y)),
            "scale" => Value::Float((f64::from(x) * 2f64.powi(y as i32)) as f32),
            "scale_floor" => Value::Float((f64::from(x) * 2f64.powi(y.floor() as i32)) as f32),
            "select" => {
                if mask(a) {
                    b
                } else {
                    c
                }
            }
            "lt" => Value::Mask(x < y),
            "le" => Value::Mask(x <= y),
            "mask_not" => Value::Mask(!mask(a)),
            "mask_and" => Value::Mask(mask(a) && mask(b)),
            "to_bits" => Value::Bits(x.to_bits()),
            "from_bits" => Value::Float(f32::from_bits(bits(a))),
            "bits" => Value::Bits(node.payload as u32),
            "bits_add" => Value::Bits(bits(a).wrapping_add(bits(b))),
            "bits_and" => Value::Bits(bits(a) & bits(b)),
            "bits_xor" => Value::Bits(bits(a) ^ bits(b)),
            "bits_shl" => Value::Bits(bits(a) << node.payload),
            "look_up" => {
                Value::Float(f64::from_bits(tape.tables[node.payload as usize][bits(a) as usize % 16]) as f32)
            }
            name => panic!("{name}"),
        });
    }
    float(values[usize::from(tape.output.unwrap())])
}

#[test]
fn functions_are_replaced_by_what_they_consist_of() {
    let (exp, tanh) = (traced(|[a]| a.exp() * a).portable(false), traced(|[a]| a.tanh()).portable(false));
    assert!(names(&exp).iter().all(|name| !["exp", "tanh"].contains(name)) && exp.nodes.len() > 20);
    assert_eq!((exp.inputs, exp.fault, tanh.fault), (1, None, None));
    // An expression inside a function is replaced too, and tables are there once.
    assert!(!names(&tanh).contains(&"exp") && tanh.tables.len() > 8);
    for i in -200..200 {
        let x = i as f32 * 0.07;
        assert_eq!(value_of(&exp, x).to_bits(), on_the_host(x, |x| x.exp() * x).to_bits(), "exp of {x}");
        assert_eq!(value_of(&tanh, x).to_bits(), on_the_host(x, |x| x.tanh()).to_bits(), "tanh of {x}");
    }
}
