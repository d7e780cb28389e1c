//! The folds themselves.

use super::fold::{FloatFold, NumberFold, OrderedFold};
use crate::vectorized::{Float, Number, Ordered};
use flambeau_core::{Scalar, ScalarType};

macro_rules! folds {
    ($trait:ident($lanes:ident): $($(#[$doc:meta])* $name:ident { $identity:expr; |$acc:ident, $x:ident| $step:expr; |$a:ident, $b:ident| $combine:expr })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl $trait for $name {
            fn identity(self) -> Scalar {
                $identity
            }
            #[inline(always)]
            fn step<V: $lanes>(self, $acc: V, $x: V) -> V {
                $step
            }
            #[inline(always)]
            fn combine<V: $lanes>(self, $a: V, $b: V) -> V {
                $combine
            }
        }
    )*};
}

folds! { NumberFold(Number):
    /// The sum; of bool, whether any is true.
    Sum { Scalar::Int(0); |acc, x| acc + x; |a, b| a + b }
    /// The product; of bool, whether all are true.
    Product { Scalar::Int(1); |acc, x| acc * x; |a, b| a * b }
    /// The sum of elements that are not NaN.
    NanSum { Scalar::Int(0); |acc, x| acc + V::select(x.ne(x), V::zero(), x); |a, b| a + b }
    /// The sum of squares.
    SumOfSquares { Scalar::Int(0); |acc, x| acc + x * x; |a, b| a + b }
    /// The number of nonzero elements.
    Nonzeros { Scalar::Int(0); |acc, x| acc + V::select(x.ne(V::zero()), V::one(), V::zero()); |a, b| a + b }
}

folds! { FloatFold(Float):
    /// The sum of magnitudes.
    SumOfMagnitudes { Scalar::Int(0); |acc, x| acc + x.abs(); |a, b| a + b }
    /// The maximum magnitude; NaN where there is one.
    MaxMagnitude { Scalar::Int(0); |acc, x| acc.maximum(x.abs()); |a, b| a.maximum(b) }
    /// The minimum magnitude; NaN where there is one.
    MinMagnitude { Scalar::Float(f64::INFINITY); |acc, x| acc.minimum(x.abs()); |a, b| a.minimum(b) }
}

/// The maximum; NaN where there is one. Holds the identity, the smallest value of the type.
#[derive(Clone, Copy)]
pub(crate) struct Maximum(Scalar);

impl Maximum {
    /// Of elements of `dtype`.
    pub(crate) fn of(dtype: ScalarType) -> Self {
        Maximum(extremes(dtype).0)
    }
}

impl OrderedFold for Maximum {
    fn identity(self) -> Scalar {
        self.0
    }
    #[inline(always)]
    fn step<V: Ordered>(self, acc: V, x: V) -> V {
        acc.maximum(x)
    }
    #[inline(always)]
    fn combine<V: Ordered>(self, a: V, b: V) -> V {
        a.maximum(b)
    }
}

/// The minimum; NaN where there is one. Holds the identity, the largest value of the type.
#[derive(Clone, Copy)]
pub(crate) struct Minimum(Scalar);

impl Minimum {
    /// Of elements of `dtype`.
    pub(crate) fn of(dtype: ScalarType) -> Self {
        Minimum(extremes(dtype).1)
    }
}

impl OrderedFold for Minimum {
    fn identity(self) -> Scalar {
        self.0
    }
    #[inline(always)]
    fn step<V: Ordered>(self, acc: V, x: V) -> V {
        acc.minimum(x)
    }
    #[inline(always)]
    fn combine<V: Ordered>(self, a: V, b: V) -> V {
        a.minimum(b)
    }
}

/// The smallest and the largest value of a type, infinities included.
fn extremes(dtype: ScalarType) -> (Scalar, Scalar) {
    let between = |low: i64, high: i64| (Scalar::Int(low), Scalar::Int(high));
    match dtype {
        ScalarType::Bool => (Scalar::Bool(false), Scalar::Bool(true)),
        ScalarType::U8 => between(0, u8::MAX.into()),
        ScalarType::I8 => between(i8::MIN.into(), i8::MAX.into()),
        ScalarType::I16 => between(i16::MIN.into(), i16::MAX.into()),
        ScalarType::I32 => between(i32::MIN.into(), i32::MAX.into()),
        // Folded as i64.
        ScalarType::I64 | ScalarType::U16 | ScalarType::U32 => between(i64::MIN, i64::MAX),
        _ => (Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)),
    }
}

/// The sum of `|x|^p`.
#[derive(Clone, Copy)]
pub(crate) struct SumOfPowers(pub(crate) f64);

impl FloatFold for SumOfPowers {
    fn identity(self) -> Scalar {
        Scalar::Int(0)
    }
    #[inline(always)]
    fn step<V: Float>(self, acc: V, x: V) -> V {
        acc + x.abs().pow(V::constant(self.0))
    }
    #[inline(always)]
    fn combine<V: Float>(self, a: V, b: V) -> V {
        a + b
    }
}

/// The sum of `e^(x - c)`.
#[derive(Clone, Copy)]
pub(crate) struct SumOfExponentials(pub(crate) f64);

impl FloatFold for SumOfExponentials {
    fn identity(self) -> Scalar {
        Scalar::Int(0)
    }
    #[inline(always)]
    fn step<V: Float>(self, acc: V, x: V) -> V {
        acc + (x - V::constant(self.0)).exp()
    }
    #[inline(always)]
    fn combine<V: Float>(self, a: V, b: V) -> V {
        a + b
    }
}
