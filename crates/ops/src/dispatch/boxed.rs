//! Calls by value: any operator with its arguments in a list, for front ends, tests and fallbacks that know no signatures.

use crate::Tensor;
use flambeau_core::{Device, Generator, Layout, MemoryFormat, Result, Scalar, ScalarType, bail};

/// One argument or result of an operator. PyTorch's `IValue`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// An optional argument that is not given.
    None,
    /// `Tensor`.
    Tensor(Tensor),
    /// `Tensor[]`.
    Tensors(Vec<Tensor>),
    /// `Tensor?[]`.
    OptionalTensors(Vec<Option<Tensor>>),
    /// `Scalar`.
    Scalar(Scalar),
    /// `Scalar[]`.
    Scalars(Vec<Scalar>),
    /// `int` and `SymInt`.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// `int[]` and `SymInt[]`.
    Ints(Vec<i64>),
    /// `float[]`.
    Floats(Vec<f64>),
    /// `bool[]`.
    Bools(Vec<bool>),
    /// `str`.
    Str(String),
    /// `ScalarType`.
    ScalarType(ScalarType),
    /// `Layout`.
    Layout(Layout),
    /// `Device`.
    Device(Device),
    /// `MemoryFormat`.
    MemoryFormat(MemoryFormat),
    /// `Generator`.
    Generator(Generator),
}

macro_rules! from {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}

from! {
    Tensor => Tensor, Vec<Tensor> => Tensors, Vec<Option<Tensor>> => OptionalTensors, Scalar => Scalar, i64 => Int,
    f64 => Float, bool => Bool, Vec<i64> => Ints, Vec<f64> => Floats, Vec<Scalar> => Scalars, Vec<bool> => Bools, String => Str,
    ScalarType => ScalarType, Layout => Layout, Device => Device, MemoryFormat => MemoryFormat, Generator => Generator,
}

impl From<&Tensor> for Value {
    fn from(value: &Tensor) -> Self {
        Value::Tensor(value.clone())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Str(value.to_string())
    }
}

impl From<&[i64]> for Value {
    fn from(value: &[i64]) -> Self {
        Value::Ints(value.to_vec())
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Value::None
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

/// The arguments of one boxed call, taken in the order of the schema.
pub struct Arguments<'v> {
    operator: &'static str,
    values: std::slice::Iter<'v, Value>,
    taken: usize,
}

macro_rules! takers {
    ($($(#[$doc:meta])* $name:ident, $optional:ident: $rust:ty = $wanted:literal, $($pattern:pat => $value:expr),+;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `InvalidArgument` where the next value is of another type, or there is none.
        pub fn $name(&mut self) -> Result<$rust> {
            match self.next()? {
                $($pattern => Ok($value),)+
                other => self.mismatch($wanted, other),
            }
        }

        /// The same for an optional argument.
        ///
        /// # Errors
        /// As the one that is not optional.
        pub fn $optional(&mut self) -> Result<Option<$rust>> {
            match self.next()? {
                Value::None => Ok(None),
                $($pattern => Ok(Some($value)),)+
                other => self.mismatch($wanted, other),
            }
        }
    )*};
}

impl<'v> Arguments<'v> {
    /// The arguments of a call of `operator`, which takes `count`.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of values.
    pub fn new(operator: &'static str, values: &'v [Value], count: usize) -> Result<Self> {
        if values.len() != count {
            bail!(InvalidArgument, "{operator}: expected {count} arguments but got {}", values.len());
        }
        Ok(Arguments { operator, values: values.iter(), taken: 0 })
    }

    fn next(&mut self) -> Result<&'v Value> {
        self.taken += 1;
        match self.values.next() {
            Some(value) => Ok(value),
            None => bail!(InvalidArgument, "{}: expected an argument number {}", self.operator, self.taken),
        }
    }

    #[cold]
    fn mismatch<T>(&self, wanted: &str, got: &Value) -> Result<T> {
        bail!(
            InvalidArgument,
            "{}: expected {wanted} as argument {} but got {got:?}",
            self.operator,
            self.taken
        )
    }

    /// A `bool[N]`.
    ///
    /// # Errors
    /// `InvalidArgument` where the next value is not a list of `N` bools.
    pub fn bool_array<const N: usize>(&mut self) -> Result<[bool; N]> {
        let bools = self.bools()?;
        match bools.try_into() {
            Ok(array) => Ok(array),
            Err(_) => bail!(InvalidArgument, "{}: expected {N} bools but got {}", self.operator, bools.len()),
        }
    }

    takers! {
        /// A `Tensor`.
        tensor, optional_tensor: &'v Tensor = "a tensor", Value::Tensor(t) => t;
        /// A `Tensor[]`.
        tensors, optional_tensors: &'v [Tensor] = "a list of tensors", Value::Tensors(t) => t;
        /// A `Tensor?[]`.
        tensor_options, optional_tensor_options: &'v [Option<Tensor>] = "a list of optional tensors", Value::OptionalTensors(t) => t;
        /// A `Scalar`.
        scalar, optional_scalar: Scalar = "a number",
            Value::Scalar(s) => *s, Value::Int(i) => (*i).into(), Value::Float(f) => (*f).into(), Value::Bool(b) => (*b).into();
        /// An `int`.
        int, optional_int: i64 = "an int", Value::Int(i) => *i;
        /// A `float`.
        float, optional_float: f64 = "a float", Value::Float(f) => *f, Value::Int(i) => *i as f64;
        /// A `bool`.
        bool, optional_bool: bool = "a bool", Value::Bool(b) => *b;
        /// An `int[]`.
        ints, optional_ints: &'v [i64] = "a list of ints", Value::Ints(i) => i;
        /// A `Scalar[]`.
        scalars, optional_scalars: &'v [Scalar] = "a list of numbers", Value::Scalars(s) => s;
        /// A `float[]`.
        floats, optional_floats: &'v [f64] = "a list of floats", Value::Floats(f) => f;
        /// A `bool[]`.
        bools, optional_bools: &'v [bool] = "a list of bools", Value::Bools(b) => b;
        /// A `str`.
        str, optional_str: &'v str = "a string", Value::Str(s) => s;
        /// A `ScalarType`.
        scalar_type, optional_scalar_type: ScalarType = "a scalar type", Value::ScalarType(d) => *d;
        /// A `Layout`.
        layout, optional_layout: Layout = "a layout", Value::Layout(l) => *l;
        /// A `Device`.
        device, optional_device: Device = "a device", Value::Device(d) => *d;
        /// A `MemoryFormat`.
        memory_format, optional_memory_format: MemoryFormat = "a memory format", Value::MemoryFormat(m) => *m;
        /// A `Generator`.
        generator, optional_generator: &'v Generator = "a generator", Value::Generator(g) => g;
    }
}

/// The results of a boxed call.
pub trait IntoValues {
    /// One value per result.
    fn into_values(self) -> Vec<Value>;
}

macro_rules! single {
    ($($rust:ty),*) => {$(
        impl IntoValues for $rust {
            fn into_values(self) -> Vec<Value> {
                vec![self.into()]
            }
        }
    )*};
}

single!(Tensor, Vec<Tensor>, Scalar, i64, f64, bool, ScalarType, Vec<i64>);

impl IntoValues for () {
    fn into_values(self) -> Vec<Value> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: Into<Value>),+> IntoValues for ($($name,)+) {
            #[expect(non_snake_case, reason = "a variable per type")]
            fn into_values(self) -> Vec<Value> {
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    )*};
}

tuples!((A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E));
