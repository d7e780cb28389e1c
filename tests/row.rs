//! A row of the operator table: how to call an operator, its expected results, and arguments that it must reject.

use crate::array::{Array, broadcast};
use crate::compare::Bound;
use flambeau_core::ScalarType::{self, *};
use flambeau_core::{ErrorKind, Scalar};
use flambeau_ops::dispatch::Value;
use std::ops::Range;

/// f16, bf16, f32, f64.
pub const FLOATS: &[ScalarType] = &[F16, BF16, F32, F64];
/// f32 and f64: for formulas whose intermediate values leave no digit in half precision.
pub const WIDE_FLOATS: &[ScalarType] = &[F32, F64];
/// Everything but bool.
pub const NUMBERS: &[ScalarType] = &[U8, I8, I16, I32, I64, F16, BF16, F32, F64];
/// Integers without bool.
pub const INTEGERS: &[ScalarType] = &[U8, I8, I16, I32, I64];
/// Integers and bool.
pub const BITS: &[ScalarType] = &[Bool, U8, I8, I16, I32, I64];
/// All ten.
pub const ALL: &[ScalarType] = &[Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];

/// An argument of a sample call.
#[derive(Debug, Clone)]
pub enum Arg {
    /// A tensor of the type under test.
    Tensor(Array),
    /// The same, of which no derivative is checked: targets, statistics.
    Constant(Array),
    /// A tensor of a fixed type: indices, masks.
    Typed(Array, ScalarType),
    /// A list of tensors of the type under test.
    Tensors(Vec<Array>),
    /// The type under test, as an argument after a tensor of it.
    OwnType,
    /// Anything else.
    Value(Value),
}

impl Arg {
    /// The array of a tensor argument.
    pub fn array(&self) -> &Array {
        match self {
            Arg::Tensor(array) | Arg::Constant(array) | Arg::Typed(array, _) => array,
            other => panic!("expected a tensor argument but got {other:?}"),
        }
    }

    /// The number of a `Scalar`, `int` or `float` argument.
    pub fn number(&self) -> f64 {
        match self {
            Arg::Value(Value::Scalar(s)) => s.to_f64(),
            Arg::Value(Value::Int(i)) => *i as f64,
            Arg::Value(Value::Float(f)) => *f,
            other => panic!("expected a number but got {other:?}"),
        }
    }

    /// The dimensions of an `int[]` argument, counted from the front of `rank`; none given means none listed.
    pub fn dims(&self, rank: usize) -> Vec<usize> {
        let wrap = |d: &i64| if *d < 0 { (*d + rank as i64) as usize } else { *d as usize };
        match self {
            Arg::Value(Value::Ints(dims)) => dims.iter().map(wrap).collect(),
            Arg::Value(Value::Int(dim)) => vec![wrap(dim)],
            Arg::Value(Value::None) => vec![],
            other => panic!("expected dimensions but got {other:?}"),
        }
    }

    /// The array of an optional tensor argument.
    pub fn optional(&self) -> Option<&Array> {
        if matches!(self, Arg::Value(Value::None)) { None } else { Some(self.array()) }
    }

    /// Whether a `bool` argument is true.
    pub fn flag(&self) -> bool {
        matches!(self, Arg::Value(Value::Bool(true)))
    }
}

impl From<Array> for Arg {
    fn from(array: Array) -> Self {
        Arg::Tensor(array)
    }
}

impl<T: Into<Value>> From<T> for Arg {
    fn from(value: T) -> Self {
        Arg::Value(value.into())
    }
}

/// A number as an argument.
pub fn number(value: impl Into<Scalar>) -> Arg {
    Arg::Value(Value::Scalar(value.into()))
}

/// An `int[]` argument.
pub fn ints(values: &[i64]) -> Arg {
    Arg::Value(Value::Ints(values.to_vec()))
}

/// An optional argument that is not given.
pub fn none() -> Arg {
    Arg::Value(Value::None)
}

/// A call that must be refused, with the kind of error and words its message must hold.
pub struct Refused {
    /// The arguments; tensors are f32.
    pub args: Vec<Arg>,
    /// The kind of error.
    pub kind: ErrorKind,
    /// What the message must name.
    pub says: &'static str,
}

/// A family of checks, for skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Values against the reference.
    Forward,
    /// The same values for odd strides.
    Layouts,
    /// In-place, `out=`, Meta.
    Variants,
    /// NaN and infinity.
    Boundaries,
    /// Threads.
    Determinism,
    /// First derivatives.
    Gradients,
    /// Second derivatives.
    SecondGradients,
    /// First derivatives in forward mode, and second ones by both modes.
    Tangents,
}

type Reference = Box<dyn Fn(&[Arg]) -> Vec<Array> + Send + Sync>;
type Property = Box<dyn Fn(&[Arg], &[Array]) -> Result<(), String> + Send + Sync>;

/// One operator.
pub struct Row {
    /// `add.Tensor`.
    pub name: &'static str,
    /// The types it takes.
    pub types: &'static [ScalarType],
    /// Arguments to call it with.
    pub samples: Vec<Vec<Arg>>,
    /// What it should give, in float64; `None` where only a property is checked.
    pub reference: Option<Reference>,
    /// What is true of its results, where no formula tells them: random numbers.
    pub property: Option<Property>,
    /// Why elements of the result are not set: only sizes, strides and type are compared.
    pub unset: Option<&'static str>,
    /// Why there are results that the reference does not give, which come after those it gives.
    pub beyond: Option<&'static str>,
    /// The type of its (first) result for inputs of a type; the same where not said.
    pub result_type: fn(ScalarType) -> ScalarType,
    /// Error allowed, in ulps of the result's type.
    pub ulps: f64,
    /// The size of the terms of a result: where they cancel, the error is measured against it.
    pub terms: f64,
    /// Whether each element of the result depends on elements at its own index only.
    pub pointwise: bool,
    /// Whether it has a derivative.
    pub differentiable: bool,
    /// Calls to refuse.
    pub refused: Vec<Refused>,
    /// Checks left out, with reasons.
    pub skips: Vec<(Check, &'static str)>,
}

/// A row with nothing but a name; the methods fill it in.
pub fn row(name: &'static str) -> Row {
    Row {
        name,
        types: NUMBERS,
        samples: Vec::new(),
        reference: None,
        property: None,
        unset: None,
        beyond: None,
        result_type: |t| t,
        ulps: 1.0,
        terms: 0.0,
        pointwise: false,
        differentiable: true,
        refused: Vec::new(),
        skips: Vec::new(),
    }
}

/// Shapes of one argument: no dimensions, none and few elements, around the width of a register, several dimensions.
pub const SHAPES: &[&[usize]] = &[
    &[],
    &[1],
    &[5],
    &[16],
    &[17],
    &[33],
    &[64],
    &[0],
    &[2, 0, 3],
    &[3, 4],
    &[2, 3, 4],
    &[1, 5, 1],
    &[2, 3, 2, 3],
    &[1000],
];

/// Pairs of shapes that broadcast.
pub const PAIRS: &[(&[usize], &[usize])] = &[
    (&[], &[]),
    (&[5], &[5]),
    (&[17], &[17]),
    (&[33], &[1]),
    (&[1], &[16]),
    (&[3, 4], &[4]),
    (&[3, 1], &[1, 4]),
    (&[2, 3, 4], &[3, 1]),
    (&[2, 1, 4], &[3, 4]),
    (&[3, 4], &[]),
    (&[], &[3, 4]),
    (&[0], &[1]),
    (&[2, 0], &[2, 1]),
    (&[2, 3, 4, 5], &[2, 3, 4, 5]),
    (&[300], &[300]),
];

/// Three shapes that broadcast.
pub const TRIPLES: &[[&[usize]; 3]] = &[
    [&[], &[], &[]],
    [&[5], &[5], &[5]],
    [&[17], &[17], &[1]],
    [&[33], &[1], &[33]],
    [&[3, 4], &[4], &[3, 1]],
    [&[3, 1], &[1, 4], &[]],
    [&[0], &[1], &[0]],
    [&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]],
    [&[300], &[300], &[300]],
];

/// Integers from `domain`.
pub fn whole(domain: Range<f64>) -> impl Fn(&[usize], u64) -> Array {
    move |sizes, seed| Array::fill(sizes, domain.clone(), seed).map(f64::floor)
}

impl Row {
    /// With these types.
    pub fn types(mut self, types: &'static [ScalarType]) -> Self {
        self.types = types;
        self
    }

    /// With results of another type.
    pub fn gives(mut self, result_type: fn(ScalarType) -> ScalarType) -> Self {
        self.result_type = result_type;
        self
    }

    /// With another error bound.
    pub fn ulps(mut self, ulps: f64) -> Self {
        self.ulps = ulps;
        self
    }

    /// With results that are sums of terms of this size.
    pub fn terms(mut self, terms: f64) -> Self {
        self.terms = terms;
        self
    }

    /// How far from its reference a result may be.
    pub fn bound(&self) -> Bound {
        Bound { ulps: self.ulps, terms: self.terms }
    }

    /// With one more sample call.
    pub fn sample(mut self, args: Vec<Arg>) -> Self {
        self.samples.push(args);
        self
    }

    /// With a float64 reference.
    pub fn reference(mut self, reference: impl Fn(&[Arg]) -> Vec<Array> + Send + Sync + 'static) -> Self {
        self.reference = Some(Box::new(reference));
        self
    }

    /// With something that is true of every result.
    pub fn property(
        mut self,
        holds: impl Fn(&[Arg], &[Array]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.property = Some(Box::new(holds));
        self
    }

    /// With a result whose elements are not set, for a reason.
    pub fn unset(mut self, reason: &'static str) -> Self {
        self.unset = Some(reason);
        self.skip(Check::Layouts, reason).skip(Check::Determinism, reason).not_differentiable()
    }

    /// With results that the reference does not give, for a reason.
    pub fn beyond(mut self, reason: &'static str) -> Self {
        self.beyond = Some(reason);
        self
    }

    /// A formula of one tensor, tried on every shape with values in `domain`, followed by `rest` of the arguments.
    pub fn unary(
        self,
        domain: Range<f64>,
        rest: &[Arg],
        f: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.unary_of(|sizes, seed| Array::fill(sizes, domain.clone(), seed), rest, f)
    }

    /// The same with values that `make` gives for sizes and a seed.
    pub fn unary_of(
        mut self,
        make: impl Fn(&[usize], u64) -> Array,
        rest: &[Arg],
        f: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        for (seed, shape) in SHAPES.iter().enumerate() {
            self.samples.push([vec![Arg::Tensor(make(shape, seed as u64))], rest.to_vec()].concat());
        }
        self.pointwise = true;
        self.reference(move |args| vec![args[0].array().map(&f)])
    }

    /// A formula of two tensors that broadcast, followed by `rest` of the arguments.
    pub fn binary(
        self,
        domains: [Range<f64>; 2],
        rest: &[Arg],
        f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let make =
            |sizes: &[usize], seed: u64| Array::fill(sizes, domains[seed as usize / 100].clone(), seed);
        self.binary_of(make, rest, f)
    }

    /// The same with values that `make` gives for sizes and a seed, which is 100 more for the second.
    pub fn binary_of(
        mut self,
        make: impl Fn(&[usize], u64) -> Array,
        rest: &[Arg],
        f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        for (seed, (a, b)) in PAIRS.iter().enumerate() {
            let tensors = vec![Arg::Tensor(make(a, seed as u64)), Arg::Tensor(make(b, 100 + seed as u64))];
            self.samples.push([tensors, rest.to_vec()].concat());
        }
        self.pointwise = true;
        self.reference(move |args| vec![args[0].array().zip(args[1].array(), &f)])
    }

    /// A formula of three tensors that broadcast, followed by `rest` of the arguments.
    pub fn ternary(
        mut self,
        domains: [Range<f64>; 3],
        rest: &[Arg],
        f: impl Fn(f64, f64, f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        for (seed, shapes) in TRIPLES.iter().enumerate() {
            let make =
                |n: usize| Arg::Tensor(Array::fill(shapes[n], domains[n].clone(), (seed + 100 * n) as u64));
            self.samples.push([vec![make(0), make(1), make(2)], rest.to_vec()].concat());
        }
        self.pointwise = true;
        self.reference(move |args| {
            let [a, b, c] = [0, 1, 2].map(|n| args[n].array());
            let sizes = broadcast(&broadcast(&a.sizes, &b.sizes), &c.sizes);
            let [a, b, c] = [a, b, c].map(|x| x.expand(&sizes));
            let value = |i: usize| f(a.data[i], b.data[i], c.data[i]);
            vec![Array::new(&sizes, (0..a.data.len()).map(value).collect())]
        })
    }

    /// With the arguments in another order: argument `i` is the former argument `order[i]`.
    pub fn arranged(mut self, order: &'static [usize]) -> Self {
        for sample in &mut self.samples {
            *sample = order.iter().map(|index| sample[*index].clone()).collect();
        }
        let Some(reference) = self.reference.take() else { return self };
        self.reference(move |args| {
            let mut old = args.to_vec();
            order.iter().zip(args).for_each(|(index, arg)| old[*index] = arg.clone());
            reference(&old)
        })
    }

    /// Without a derivative, as PyTorch.
    pub fn not_differentiable(mut self) -> Self {
        self.differentiable = false;
        self
    }

    /// With a call that must be refused.
    pub fn refuses(mut self, args: Vec<Arg>, kind: ErrorKind, says: &'static str) -> Self {
        self.refused.push(Refused { args, kind, says });
        self
    }

    /// Without one family of checks, for a reason.
    pub fn skip(mut self, check: Check, reason: &'static str) -> Self {
        self.skips.push((check, reason));
        self
    }

    /// The reason for leaving `check` out, if it is.
    pub fn skipped(&self, check: Check) -> Option<&'static str> {
        self.skips.iter().find(|(c, _)| *c == check).map(|(_, reason)| *reason)
    }
}
