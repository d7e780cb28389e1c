//! One row per operator, and the checks that every row passes.

use flambeau_core::{Device, ScalarType, default_dtype};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::native::shape::view;
use flambeau_ops::{Result, Tensor, ops};

pub(crate) const FLOATS: [ScalarType; 4] =
    [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64];

/// Numbers of every kind.
pub(crate) const REALS: &[f64] = &[
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    -1.5,
    2.5,
    -2.5,
    0.1,
    -0.3,
    3.25,
    -7.75,
    11.0,
    -13.5,
    1e-3,
    -1e-3,
    60.0,
    -80.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

type Arguments = Box<dyn Fn(&[Tensor]) -> Vec<Value>>;

/// An operator on `tensors` tensors and its formula in f64.
pub(crate) struct Row {
    name: &'static str,
    tensors: usize,
    /// Allowed error in units in the last digit (ulps) of f32 or f64; half types may differ by rounding alone.
    ulps: f64,
    reference: fn(&[f64]) -> f64,
    arguments: Arguments,
    domain: &'static [f64],
    in_place: Option<&'static str>,
    out: Option<&'static str>,
}

/// A row whose arguments are its tensors, with every combination of `REALS`.
pub(crate) fn row(name: &'static str, tensors: usize, ulps: f64, reference: fn(&[f64]) -> f64) -> Row {
    let arguments: Arguments = Box::new(|t| t.iter().map(Value::from).collect());
    Row { name, tensors, ulps, reference, arguments, domain: REALS, in_place: None, out: None }
}

impl Row {
    /// With arguments after the tensors.
    pub(crate) fn then(self, extra: impl Fn() -> Vec<Value> + 'static) -> Row {
        self.with(move |t| t.iter().map(Value::from).chain(extra()).collect())
    }

    pub(crate) fn with(self, arguments: impl Fn(&[Tensor]) -> Vec<Value> + 'static) -> Row {
        Row { arguments: Box::new(arguments), ..self }
    }

    pub(crate) fn on(self, domain: &'static [f64]) -> Row {
        Row { domain, ..self }
    }

    pub(crate) fn siblings(self, in_place: &'static str, out: &'static str) -> Row {
        let some = |name: &'static str| (!name.is_empty()).then_some(name);
        Row { in_place: some(in_place), out: some(out), ..self }
    }

    pub(crate) fn check(&self) {
        self.check_values();
        self.check_layouts();
        self.check_siblings();
        self.check_meta();
    }

    fn call(&self, inputs: &[Tensor]) -> Tensor {
        call(self.name, (self.arguments)(inputs)).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Every combination of the domain's values, one list per tensor.
    fn combinations(&self) -> Vec<Vec<f64>> {
        let n = self.domain.len();
        let count = n.pow(self.tensors as u32);
        (0..self.tensors)
            .map(|t| (0..count).map(|i| self.domain[i / n.pow(t as u32) % n]).collect())
            .collect()
    }

    fn check_values(&self) {
        for dtype in FLOATS {
            let inputs: Vec<Tensor> =
                self.combinations().iter().map(|v| tensor(v, &[v.len() as i64], dtype)).collect();
            let exact: Vec<Vec<f64>> = inputs.iter().map(numbers).collect();
            let result = self.call(&inputs);
            for (i, got) in numbers(&result).into_iter().enumerate() {
                let args: Vec<f64> = exact.iter().map(|v| v[i]).collect();
                let expected = (self.reference)(&args);
                assert!(
                    close(got, expected, result.dtype(), self.ulps),
                    "{} of {dtype} {args:?}: expected {expected:e} but got {got:e}",
                    self.name
                );
            }
        }
    }

    /// Views give the same bits as dense copies of them.
    fn check_layouts(&self) {
        for (kind, make) in LAYOUTS {
            let views: Vec<Tensor> = (0..self.tensors).map(|t| make(&self.sample(t as u64))).collect();
            let dense: Vec<Tensor> = views.iter().map(dense).collect();
            let (viewed, copied) = (self.call(&views), self.call(&dense));
            assert_eq!(viewed.sizes(), copied.sizes(), "{} of {kind}", self.name);
            assert!(
                same_bits(&viewed, &copied),
                "{} of {kind}: other values than of dense copies",
                self.name
            );
        }
    }

    /// 3 x 5 numbers of the domain.
    fn sample(&self, seed: u64) -> Vec<f64> {
        let at = |i: u64| ((i + seed * 5) * 7 + seed) as usize % self.domain.len();
        (0..15).map(|i| self.domain[at(i)]).collect()
    }

    fn check_siblings(&self) {
        let inputs: Vec<Tensor> =
            (0..self.tensors as u64).map(|t| tensor(&self.sample(t), &[15], default_dtype())).collect();
        let expected = self.call(&inputs);
        if let Some(name) = self.in_place {
            let mut changed = inputs.clone();
            changed[0] = dense(&inputs[0]);
            call_unit(name, (self.arguments)(&changed)).unwrap();
            let in_place = converted(&expected, changed[0].dtype());
            assert!(same_bits(&changed[0], &in_place), "{name} differs from {}", self.name);
        }
        if let Some(name) = self.out {
            let out = Tensor::empty(&[0], expected.dtype()).unwrap();
            let mut arguments = (self.arguments)(&inputs);
            arguments.push(Value::from(&out));
            call_unit(name, arguments).unwrap();
            assert!(
                out.sizes() == expected.sizes() && same_bits(&out, &expected),
                "{name} differs from {}",
                self.name
            );
        }
    }

    /// The Meta device tells the same sizes and type.
    fn check_meta(&self) {
        let on = |device: Device| -> Vec<Tensor> {
            let make = |t: usize| tensor_on(&[[2, 3], [1, 3], [2, 1]][t % 3], device);
            (0..self.tensors).map(make).collect()
        };
        let (meta, real) = (self.call(&on(Device::META)), self.call(&on(Device::CPU)));
        assert!(meta.device().is_meta(), "{}", self.name);
        assert_eq!((meta.sizes(), meta.dtype()), (real.sizes(), real.dtype()), "{} on meta", self.name);
    }
}

fn tensor_on(sizes: &[i64], device: Device) -> Tensor {
    Tensor::ones(sizes, (default_dtype(), device)).unwrap()
}

/// How a tensor may lie in memory.
const LAYOUTS: [(&str, fn(&[f64]) -> Tensor); 7] = [
    ("a transpose", |v| tensor(v, &[5, 3], ScalarType::F32).t().unwrap()),
    ("every other column from the second", |v| {
        let wide: Vec<f64> = v.iter().flat_map(|x| [99.0, *x]).collect();
        view::slice(&tensor(&wide, &[3, 10], ScalarType::F32), 1, Some(1), None, 2).unwrap()
    }),
    ("a repeated row", |v| tensor(&v[..5], &[1, 5], ScalarType::F32).expand(&[3, 5]).unwrap()),
    ("a dimension of size one with an odd stride", |v| {
        view::as_strided(&tensor(v, &[15], ScalarType::F32), &[3, 1, 5], &[5, 77, 1], None).unwrap()
    }),
    ("no dimensions", |v| tensor(&v[..1], &[], ScalarType::F32)),
    ("no elements", |_| tensor(&[], &[3, 0], ScalarType::F32)),
    ("an offset", |v| view::slice(&tensor(v, &[15], ScalarType::F32), 0, Some(2), Some(13), 1).unwrap()),
];

fn operator(name: &str) -> &'static dyn OperatorInfo {
    let found = ops::OPERATORS.iter().find(|o| o.name() == name);
    *found.unwrap_or_else(|| panic!("there is no operator {name}"))
}

/// Calls an operator by name; its first result.
pub(crate) fn call(name: &str, arguments: Vec<Value>) -> Result<Tensor> {
    match operator(name).call_boxed(&arguments)?.into_iter().next() {
        Some(Value::Tensor(t)) => Ok(t),
        other => panic!("{name} gave {other:?}"),
    }
}

/// Calls an operator that writes into an argument.
pub(crate) fn call_unit(name: &str, arguments: Vec<Value>) -> Result<()> {
    operator(name).call_boxed(&arguments).map(drop)
}

pub(crate) fn tensor(values: &[f64], sizes: &[i64], dtype: ScalarType) -> Tensor {
    converted(&Tensor::from_vec(values.to_vec(), sizes).unwrap(), dtype)
}

pub(crate) fn converted(from: &Tensor, dtype: ScalarType) -> Tensor {
    let to = Tensor::empty(from.sizes(), dtype).unwrap();
    to.copy_(from).unwrap();
    to
}

fn dense(from: &Tensor) -> Tensor {
    converted(from, from.dtype())
}

/// Its elements in row-major order.
pub(crate) fn numbers(t: &Tensor) -> Vec<f64> {
    converted(t, ScalarType::F64).to_vec().unwrap()
}

/// Whether all elements are equal to the sign of zero; NaN equals NaN.
pub(crate) fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    let same = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dtype() == b.dtype() && numbers(a).iter().zip(&numbers(b)).all(same)
}

/// Whether `got` is `expected` rounded to `dtype`, within `ulps` ulps of its computing type.
pub(crate) fn close(got: f64, expected: f64, dtype: ScalarType, ulps: f64) -> bool {
    let (digits, min_exponent, most) = match dtype {
        ScalarType::F16 => (11, -24, 65504.0),
        ScalarType::BF16 => (8, -133, 3.389_531_389_251_535_5e38),
        ScalarType::F32 => (24, -149, f64::from(f32::MAX)),
        ScalarType::F64 => (53, -1074, f64::MAX),
        _ => return got == expected,
    };
    if expected.is_nan() || expected.is_infinite() || expected == 0.0 {
        return got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
    }
    let allowed = if digits < 24 { 0.5 + ulps / 256.0 } else { ulps };
    let exponent = (expected.abs().log2().floor() as i32 - digits + 1).max(min_exponent);
    let ulp = 2f64.powi(exponent);
    if expected.abs() >= most + ulp / 2.0 || got.is_infinite() {
        return got.abs() == f64::INFINITY && got.signum() == expected.signum() && expected.abs() >= most;
    }
    (got - expected).abs() <= allowed * ulp
}
