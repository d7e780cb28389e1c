//! The formulas of the losses and of their derivatives.

use crate::loops::FloatFormula;
use crate::native::formulas::chain_rule;
use crate::vectorized::Float;

/// Defines a formula over vectors: its parameters, its arguments and its value.
macro_rules! formula {
    ($(#[$doc:meta])* $name:ident($($number:ident),*) $count:literal [$($arg:ident),*] $formula:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name { $(pub(super) $number: f64),* }

        impl FloatFormula<$count> for $name {
            #[inline(always)]
            fn call<V: Float>(self, [$($arg),*]: [V; $count]) -> V {
                $(let $number = V::constant(self.$number);)*
                $formula
            }
        }
    };
}

formula! {
    /// `(x - t)^2`.
    SquaredError() 2 [x, t] (x - t) * (x - t)
}
formula! {
    /// `grad * factor * (x - t)`.
    SquaredErrorGradient(factor) 3 [grad, x, t] chain_rule(grad * factor, x - t)
}
formula! {
    /// Quadratic below `beta`, linear beyond.
    SmoothL1(beta) 2 [x, t] {
        let (d, half) = ((x - t).abs(), V::constant(0.5));
        V::select(d.lt(beta), half * d * d / beta, d - half * beta)
    }
}
formula! {
    /// The derivative of `SmoothL1`; 0 where `x = t`, even if `beta` is 0.
    SmoothL1Gradient(beta, factor) 3 [grad, x, t] {
        let d = x - t;
        let slope = V::select(d.abs().lt(beta), d / beta, sign(d));
        chain_rule(grad * factor, slope)
    }
}
formula! {
    /// Quadratic up to `delta`, linear beyond.
    Huber(delta) 2 [x, t] {
        let (d, half) = ((x - t).abs(), V::constant(0.5));
        V::select(d.le(delta), half * d * d, delta * (d - half * delta))
    }
}
formula! {
    /// The derivative of `Huber`.
    HuberGradient(delta, factor) 3 [grad, x, t] {
        let d = x - t;
        // A NaN for `delta` limits nothing.
        chain_rule(grad * factor, V::select(d.abs().gt(delta), delta * sign(d), d))
    }
}
formula! {
    /// `w * ((t - 1) * log(1 - x) - t * log(x))`, with logarithms of at least -100.
    Bce() 3 [x, t, w] {
        let min_log = V::constant(-100.0);
        w * ((t - V::one()) * (-x).log1p().maximum(min_log) - t * x.log().maximum(min_log))
    }
}
formula! {
    /// `grad * w * (x - t) / (x * (1 - x))`, with a divisor of at least 1e-12.
    BceGradient(factor) 4 [grad, x, t, w] {
        let divisor = ((V::one() - x) * x).maximum(V::constant(1e-12));
        chain_rule(grad * factor, w * (x - t) / divisor)
    }
}
formula! {
    /// `w * ((1 - t) * x + (1 + (p - 1) * t) * log(1 + e^-x))`.
    BceWithLogits() 4 [x, t, w, p] {
        let lift = (p - V::one()) * t + V::one();
        let softplus = (-x.abs()).exp().log1p() + (-x).maximum(V::zero());
        w * ((V::one() - t) * x + lift * softplus)
    }
}

/// -1, 0 or 1, or NaN for NaN.
#[inline(always)]
fn sign<V: Float>(x: V) -> V {
    V::select(x.eq(V::zero()) | x.ne(x), x, V::one().copysign(x))
}

/// `t * (log(t) - x)`, and 0 where `t` is 0; or `e^t * (t - x)`.
#[derive(Clone, Copy)]
pub(super) struct Divergence<const LOG: bool>;

impl<const LOG: bool> FloatFormula<2> for Divergence<LOG> {
    #[inline(always)]
    fn call<V: Float>(self, [x, t]: [V; 2]) -> V {
        if LOG {
            return t.exp() * (t - x);
        }
        V::select(t.eq(V::zero()), V::zero(), t * t.log()) - t * x
    }
}
