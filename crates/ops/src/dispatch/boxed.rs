//! Calls by value: any operator with its arguments in a list, for front ends, tests and fallbacks that know no signatures.

use crate::Tensor;
use flambeau_core::{Device, Generator, Layout, MemoryFormat, Result, Scalar, ScalarType, bail, error};

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

impl Value {
    /// The tensors in it.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let (one, list, options): (_, &[Tensor], &[Option<Tensor>]) = match self {
            Value::Tensor(tensor) => (Some(tensor), &[], &[]),
            Value::Tensors(list) => (None, list, &[]),
            Value::OptionalTensors(options) => (None, &[], options),
            _ => (None, &[], &[]),
        };
        one.into_iter().chain(list).chain(options.iter().flatten())
    }
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

macro_rules! from_slices {
    ($($element:ty => $variant:ident),* $(,)?) => {$(
        impl From<&[$element]> for Value {
            fn from(value: &[$element]) -> Self {
                Value::$variant(value.to_vec())
            }
        }
    )*};
}

from_slices! {
    Tensor => Tensors, Option<Tensor> => OptionalTensors, Scalar => Scalars, i64 => Ints, f64 => Floats, bool => Bools,
}

impl<const N: usize> From<[bool; N]> for Value {
    fn from(value: [bool; N]) -> Self {
        Value::Bools(value.to_vec())
    }
}

impl From<&Generator> for Value {
    fn from(value: &Generator) -> Self {
        Value::Generator(value.clone())
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

/// A type of parameters: how an argument of it is taken out of a [`Value`].
pub trait Parameter<'v>: Sized {
    /// The next of `arguments`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is of another type, or there is none.
    fn take(arguments: &mut Arguments<'v>) -> Result<Self>;
}

impl<'v, const N: usize> Parameter<'v> for [bool; N] {
    fn take(arguments: &mut Arguments<'v>) -> Result<Self> {
        arguments.bool_array()
    }
}

macro_rules! parameters {
    ($($name:ident, $optional:ident: $rust:ty;)*) => {$(
        impl<'v> Parameter<'v> for $rust {
            fn take(arguments: &mut Arguments<'v>) -> Result<Self> {
                arguments.$name()
            }
        }

        impl<'v> Parameter<'v> for Option<$rust> {
            fn take(arguments: &mut Arguments<'v>) -> Result<Self> {
                arguments.$optional()
            }
        }
    )*};
}

macro_rules! takers {
    ($($(#[$doc:meta])* $name:ident, $optional:ident: $rust:ty = $expected:literal, $($pattern:pat => $value:expr),+;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `InvalidArgument` where the next value is of another type, or there is none.
        pub fn $name(&mut self) -> Result<$rust> {
            match self.next()? {
                $($pattern => Ok($value),)+
                other => self.mismatch($expected, other),
            }
        }

        /// The optional form of the argument: `None` where it is not given.
        ///
        /// # Errors
        /// `InvalidArgument` where the next value is of another type, or there is none.
        pub fn $optional(&mut self) -> Result<Option<$rust>> {
            match self.next()? {
                Value::None => Ok(None),
                $($pattern => Ok(Some($value)),)+
                other => self.mismatch($expected, other),
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
            bail!(InvalidArgument(operator), "expected {count} arguments but got {}", values.len());
        }
        Ok(Arguments { operator, values: values.iter(), taken: 0 })
    }

    /// The next argument, for a parameter of type `P`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is of another type, or there is none.
    pub fn take<P: Parameter<'v>>(&mut self) -> Result<P> {
        P::take(self)
    }

    fn next(&mut self) -> Result<&'v Value> {
        self.taken += 1;
        match self.values.next() {
            Some(value) => Ok(value),
            None => {
                bail!(InvalidArgument(self.operator), "expected an argument number {}", self.taken)
            }
        }
    }

    #[cold]
    fn mismatch<T>(&self, expected: &str, got: &Value) -> Result<T> {
        bail!(
            InvalidArgument(self.operator),
            "expected {expected} as argument {} but got {got:?}",
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
            Err(_) => {
                bail!(InvalidArgument(self.operator), "expected {N} bools but got {}", bools.len())
            }
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

parameters! {
    tensor, optional_tensor: &'v Tensor;
    tensors, optional_tensors: &'v [Tensor];
    tensor_options, optional_tensor_options: &'v [Option<Tensor>];
    scalar, optional_scalar: Scalar;
    int, optional_int: i64;
    float, optional_float: f64;
    bool, optional_bool: bool;
    ints, optional_ints: &'v [i64];
    scalars, optional_scalars: &'v [Scalar];
    floats, optional_floats: &'v [f64];
    bools, optional_bools: &'v [bool];
    str, optional_str: &'v str;
    scalar_type, optional_scalar_type: ScalarType;
    layout, optional_layout: Layout;
    device, optional_device: Device;
    memory_format, optional_memory_format: MemoryFormat;
    generator, optional_generator: &'v Generator;
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

/// The results of a boxed kernel as those of the operator.
pub trait FromValues: Sized {
    /// The results of the operator from `values`, one for each.
    ///
    /// # Errors
    /// `InvalidArgument` naming `operator` where they are of another number or other types.
    fn from_values(operator: &'static str, values: Vec<Value>) -> Result<Self>;
}

/// One result of a boxed kernel.
pub trait FromValue: Sized {
    /// The value; `Err` with the argument where it is of another type.
    fn from_value(value: Value) -> std::result::Result<Self, Value>;
}

macro_rules! from_value {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl FromValue for $rust {
            fn from_value(value: Value) -> std::result::Result<Self, Value> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => Err(other),
                }
            }
        }

        impl FromValues for $rust {
            fn from_values(operator: &'static str, values: Vec<Value>) -> Result<Self> {
                let [value] = counted(operator, values)?;
                one(operator, value)
            }
        }
    )*};
}

from_value! {
    Tensor => Tensor, Vec<Tensor> => Tensors, Scalar => Scalar, i64 => Int, f64 => Float, bool => Bool, ScalarType => ScalarType,
    Vec<i64> => Ints,
}

fn counted<const N: usize>(operator: &str, values: Vec<Value>) -> Result<[Value; N]> {
    values.try_into().map_err(|values: Vec<Value>| {
        error!(InvalidArgument(operator), "expected {N} results of a boxed kernel but got {}", values.len())
    })
}

fn one<T: FromValue>(operator: &str, value: Value) -> Result<T> {
    T::from_value(value).map_err(|value| {
        let expected = std::any::type_name::<T>();
        error!(InvalidArgument(operator), "expected a {expected} of a boxed kernel but got {value:?}")
    })
}

impl FromValues for () {
    fn from_values(_: &'static str, _: Vec<Value>) -> Result<Self> {
        Ok(())
    }
}

macro_rules! from_tuples {
    ($($count:literal: ($($name:ident),+))*) => {$(
        impl<$($name: FromValue),+> FromValues for ($($name,)+) {
            #[expect(non_snake_case, reason = "a variable per type")]
            fn from_values(operator: &'static str, values: Vec<Value>) -> Result<Self> {
                let [$($name),+] = counted::<$count>(operator, values)?;
                Ok(($(one(operator, $name)?,)+))
            }
        }
    )*};
}

from_tuples!(2: (A, B) 3: (A, B, C) 4: (A, B, C, D) 5: (A, B, C, D, E));

/// Among the kernels of an operator, the one that packs the arguments of a call in a list, for boxed kernels:
/// `boxing!(CUBE: CubeFn, self_)`.
#[macro_export]
macro_rules! boxing {
    ($operator:ident: $function:ty $(, $argument:ident)*) => {
        $crate::dispatch::Kernel::new(
            $crate::dispatch::DispatchKey::Boxing,
            (|keys, $($argument),*| {
                $operator.call_boxed_kernel(keys, &[$($crate::dispatch::Value::from($argument)),*])
            }) as $function,
        )
    };
}
