//! The mathematical functions of the vectors, as machine code calls them: on a tile of elements at once, so that they compute with the
//! widest registers of the processor, and with the bits that they have in every other loop.
#![expect(unsafe_code, reason = "machine code passes tiles by their addresses")]

use flambeau_core::ScalarType;
use flambeau_ops::vectorized::{CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Vector, dispatch};
use std::marker::PhantomData;

/// A function on tiles of `n` elements: it reads those at the first two addresses, which may be the same, and writes those at the third.
pub(crate) type TileFunction = unsafe extern "C" fn(*const u8, *const u8, *mut u8, usize);

/// A function of one or two vectors.
trait Function: 'static {
    fn call<V: Float>(a: V, b: V) -> V;
}

/// The loop of a function over a tile.
struct Tile<F, T> {
    from: [*const T; 2],
    to: *mut T,
    n: usize,
    function: PhantomData<F>,
}

impl<F, T> CodegenAnchor for Tile<F, T> {
    type Anchor = F;
}

impl<I: Isa, F: Function, T: FloatLanes<I>> Kernel<I> for Tile<F, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Tile { from: [a, b], to, n, .. } = self;
        let lanes = T::Vector::LANES;
        let mut at = 0;
        while at < n {
            let count = lanes.min(n - at);
            // SAFETY: `count` elements from `at` on are inside the tiles, by the condition of `tile`.
            unsafe {
                let (a, b) = (T::load_up_to(a.add(at), count), T::load_up_to(b.add(at), count));
                T::store_up_to(F::call(a, b), to.add(at), count);
            }
            at += lanes;
        }
    }
}

/// [`TileFunction`] of `F` on elements of `T`.
///
/// # Safety
/// - The first two addresses are valid for reading `n` elements of `T`, the third for writing them.
unsafe extern "C" fn tile<F: Function, T>(a: *const u8, b: *const u8, to: *mut u8, n: usize)
where
    Tile<F, T>: EveryIsa,
{
    let from = [a.cast(), b.cast()];
    // SAFETY: this function's condition.
    unsafe { dispatch(Tile::<F, T> { from, to: to.cast(), n, function: PhantomData }) }
}

macro_rules! functions {
    ($($type:ident $name:literal $count:literal |$a:ident, $b:ident| $call:expr;)*) => {
        $(
            struct $type;

            impl Function for $type {
                #[inline(always)]
                #[allow(unused_variables, reason = "most functions take one vector")]
                fn call<V: Float>($a: V, $b: V) -> V {
                    $call
                }
            }
        )*

        /// How many arguments a function takes; `None` where there is none of that name.
        pub(crate) fn takes(name: &str) -> Option<usize> {
            match name {
                $($name => Some($count),)*
                _ => None,
            }
        }

        /// The function of that name on f32 or f64.
        pub(crate) fn find(name: &str, element: ScalarType) -> Option<TileFunction> {
            let is_f64 = element == ScalarType::F64;
            match name {
                $($name => Some(if is_f64 { tile::<$type, f64> } else { tile::<$type, f32> }),)*
                _ => None,
            }
        }
    };
}

functions! {
    Exp "exp" 1 |a, b| a.exp();
    Exp2 "exp2" 1 |a, b| a.exp2();
    Expm1 "expm1" 1 |a, b| a.expm1();
    Log "log" 1 |a, b| a.log();
    Log2 "log2" 1 |a, b| a.log2();
    Log10 "log10" 1 |a, b| a.log10();
    Log1p "log1p" 1 |a, b| a.log1p();
    Sin "sin" 1 |a, b| a.sin();
    Cos "cos" 1 |a, b| a.cos();
    Tan "tan" 1 |a, b| a.tan();
    Asin "asin" 1 |a, b| a.asin();
    Acos "acos" 1 |a, b| a.acos();
    Atan "atan" 1 |a, b| a.atan();
    Sinh "sinh" 1 |a, b| a.sinh();
    Cosh "cosh" 1 |a, b| a.cosh();
    Tanh "tanh" 1 |a, b| a.tanh();
    Asinh "asinh" 1 |a, b| a.asinh();
    Acosh "acosh" 1 |a, b| a.acosh();
    Atanh "atanh" 1 |a, b| a.atanh();
    Sigmoid "sigmoid" 1 |a, b| a.sigmoid();
    Erf "erf" 1 |a, b| a.erf();
    Erfc "erfc" 1 |a, b| a.erfc();
    Gelu "gelu" 1 |a, b| a.gelu();
    GeluSlope "gelu_slope" 1 |a, b| a.gelu_slope();
    Pow "pow" 2 |a, b| a.pow(b);
    Fmod "fmod" 2 |a, b| a.fmod(b);
}
