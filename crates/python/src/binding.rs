//! The declaration of names in Python: the overloads of each, with the types of their parameters and the operators they call.

use crate::arguments::{Kind, Overload, Parameter, Signature};
use flambeau_core::{Device, DimVec, Layout, MemoryFormat, Scalar, ScalarType};
use pyo3::ffi;

/// A name that is a function, a method or both, to be put in place when the module is made.
pub(crate) struct Binding {
    pub(crate) signature: &'static Signature,
    /// The module of the function, below the package; empty for the package itself.
    pub(crate) module: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) entry: ffi::PyCFunctionFastWithKeywords,
}

/// Declares the names of a family:
///
/// ```text
/// bindings! {
///     "add": "`self + alpha * other`." {
///         both 0 (input: tensor, other: tensor, alpha: keyword scalar = "1" Scalar::Int(1)) returns add_tensor, out add_out;
///     }
/// }
/// ```
///
/// An overload is a `function`, a `method` or `both`, with the index of the parameter that is the receiver. A parameter has a constructor
/// and an accessor, both called as its type here, and where it may be absent the default as Python and as Rust write it. The operator's
/// result is returned (`returns`, `views`), is the argument that it wrote (`writes`), a tuple with names (`named`), or new and may
/// require a gradient (`makes`). `out` names the operator to be called instead where a tensor for the result is given, with other
/// arguments in parentheses; `outs` takes several, either as arguments with these indices or as one list.
macro_rules! bindings {
    ($($name:literal $(in $module:literal)?: $doc:literal { $($overloads:tt)+ })*) => {
        pub(super) static BINDINGS: &[$crate::binding::Binding] = &[$(
            $crate::binding::binding! { $name, concat!("" $(, $module)?), $doc, $($overloads)+ },
        )*];
    };
}

/// One name of [`bindings!`].
macro_rules! binding {
    (
        $name:literal, $module:expr, $doc:literal,
        $($form:ident $($receiver:literal)?
            ($($parameter:ident: $($kind:ident)+ $(($size:literal))? $(= $text:literal $default:expr)?),*)
            $run:ident $(($($detail:literal),+))? $function:ident
            $(, $into:ident $([$($nr:literal),+])? $out:ident $(($($passed:ident),*))?)?;)+
    ) => {{
        static SIGNATURE: $crate::arguments::Signature = $crate::arguments::Signature {
            name: $name,
            overloads: &[$($crate::arguments::Overload {
                parameters: $crate::binding::binding!(@parameters $run $($into)?, $(
                    $crate::binding::binding!(@parameter $parameter: $($kind)+ $(($size))? $(= $text)?),
                )*),
                receiver: $crate::binding::binding!(@receiver $($receiver)?),
                function: $crate::binding::binding!(@function $form),
                call: |a| {
                    #[allow(unused_imports, reason = "some operators have no parameters")]
                    use $crate::binding::Passed;
                    let mut index = $crate::binding::Indices::default();
                    $(let $parameter = $crate::binding::binding!(@read a index $($kind)+ $(= $default)?);)*
                    $crate::binding::binding!(
                        @write [$($parameter)*] a index $run $($into $([$($nr)+])? $out $([$($passed)*])?)?
                    );
                    $crate::binding::binding!(
                        @run $name a index $run $(($($detail),+))? flambeau_ops::ops::$function($($parameter.passed()),*)
                    )
                },
            },)+],
        };
        $crate::binding::Binding {
            signature: &SIGNATURE,
            module: $module,
            doc: $doc,
            entry: $crate::call::entry!(SIGNATURE),
        }
    }};

    (@receiver) => { None };
    (@receiver $receiver:literal) => { Some($receiver) };
    (@function method) => { false };
    (@function $form:ident) => { true };

    (@parameters makes $into:ident, $($parameter:expr,)*) => {
        &[$($parameter,)* $crate::arguments::REQUIRES_GRAD, $crate::arguments::$into()]
    };
    (@parameters makes, $($parameter:expr,)*) => { &[$($parameter,)* $crate::arguments::REQUIRES_GRAD] };
    (@parameters $run:ident $into:ident, $($parameter:expr,)*) => {
        &[$($parameter,)* $crate::arguments::$into()]
    };
    (@parameters $run:ident, $($parameter:expr,)*) => { &[$($parameter,)*] };

    (@parameter $name:ident: keyword $($kind:ident)+ $(($size:literal))? $(= $text:literal)?) => {
        $crate::binding::binding!(@parameter $name: $($kind)+ $(($size))? $(= $text)?).by_keyword()
    };
    (@parameter $name:ident: optional $kind:ident $(($size:literal))? $(= $text:literal)?) => {
        $crate::binding::binding!(@parameter $name: $kind $(($size))? $(= $text)?).or_none()
    };
    (@parameter $name:ident: $kind:ident $(($size:literal))? $(= $text:literal)?) => {
        $crate::arguments::$kind($crate::binding::python_name(stringify!($name)) $(, $size)?)$(.or($text))?
    };

    (@read $a:ident $index:ident keyword $($rest:tt)+) => {
        $crate::binding::binding!(@read $a $index $($rest)+)
    };
    (@read $a:ident $index:ident optional $kind:ident $(= $default:expr)?) => {
        $a.given($index.next(), $crate::arguments::Arguments::$kind)?$(.or($default))?
    };
    (@read $a:ident $index:ident $kind:ident = $default:expr) => {
        match $a.given($index.next(), $crate::arguments::Arguments::$kind)? {
            Some(value) => value,
            None => $default,
        }
    };
    (@read $a:ident $index:ident $kind:ident) => { $a.$kind($index.next())? };

    (@write [$($passed:ident)*] $a:ident $index:ident $run:ident) => {};
    (@write [$($all:ident)*] $a:ident $index:ident $run:ident $into:ident $out:ident [$($passed:ident)*]) => {
        $crate::binding::binding!(@write [$($passed)*] $a $index $run $into $out)
    };
    (@write [$($passed:ident)*] $a:ident $index:ident makes out $out:ident) => {
        if let Some(out) = $a.given($index.count() + 1, $crate::arguments::Arguments::tensor)? {
            $a.agree(&out)?;
            return $a.writes($index.count() + 1, || flambeau_ops::ops::$out($($passed.passed(),)* &out));
        }
    };
    (@write [$($passed:ident)*] $a:ident $index:ident $run:ident out $out:ident) => {
        if let Some(out) = $a.given($index.count(), $crate::arguments::Arguments::tensor)? {
            return $a.writes($index.count(), || flambeau_ops::ops::$out($($passed.passed(),)* &out));
        }
    };
    (@write [$($passed:ident)*] $a:ident $index:ident $run:ident outs $out:ident) => {
        if let Some(out) = $a.given($index.count(), $crate::arguments::Arguments::tensors)? {
            return $a.writes($index.count(), || flambeau_ops::ops::$out($($passed.passed(),)* &out));
        }
    };
    (@write [$($passed:ident)*] $a:ident $index:ident $run:ident outs [$($nr:literal)+] $out:ident) => {
        if let Some(out) = $a.out_tensors($index.count(), [$($nr),+].len())? {
            return $a.writes($index.count(), || {
                flambeau_ops::ops::$out($($passed.passed(),)* $(&out[$nr]),+)
            });
        }
    };

    (@run $name:literal $a:ident $index:ident makes $call:expr) => { $a.makes($index.count(), || $call) };
    (@run $name:literal $a:ident $index:ident writes($written:literal) $call:expr) => {
        $a.writes($written, || $call)
    };
    (@run $name:literal $a:ident $index:ident named($($result:literal),+) $call:expr) => {{
        static NAMES: $crate::return_types::Names = $crate::return_types::Names::new($name, &[$($result),+]);
        $a.returns_named(&NAMES, || $call)
    }};
    (@run $name:literal $a:ident $index:ident $run:ident $call:expr) => { $a.$run(|| $call) };
}

pub(crate) use {binding, bindings};

/// `lambda` for the parameter `lambda_`, which has another name in Rust where Python's is a keyword.
pub(crate) const fn python_name(parameter: &'static str) -> &'static str {
    match parameter.as_bytes() {
        [.., b'_'] => parameter.split_at(parameter.len() - 1).0,
        _ => parameter,
    }
}

/// The indices of the parameters that are read one after the other. The compiler knows them.
#[derive(Default)]
pub(crate) struct Indices(usize);

impl Indices {
    #[inline(always)]
    pub(crate) fn next(&mut self) -> usize {
        self.0 += 1;
        self.0 - 1
    }

    /// How many there were.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.0
    }
}

/// An argument as an operator takes it: borrowed if it owns memory.
pub(crate) trait Passed {
    type As<'s>
    where
        Self: 's;

    fn passed(&self) -> Self::As<'_>;
}

impl<T: Passed> Passed for Option<T> {
    type As<'s>
        = Option<T::As<'s>>
    where
        Self: 's;

    #[inline(always)]
    fn passed(&self) -> Self::As<'_> {
        self.as_ref().map(T::passed)
    }
}

impl<T: ?Sized> Passed for &T {
    type As<'s>
        = &'s T
    where
        Self: 's;

    #[inline(always)]
    fn passed(&self) -> &T {
        self
    }
}

impl<T> Passed for Vec<T> {
    type As<'s>
        = &'s [T]
    where
        Self: 's;

    #[inline(always)]
    fn passed(&self) -> &[T] {
        self
    }
}

impl Passed for DimVec {
    type As<'s> = &'s [i64];

    #[inline(always)]
    fn passed(&self) -> &[i64] {
        self
    }
}

macro_rules! passed_as_they_are {
    ($($ty:ty),*) => {$(
        impl Passed for $ty {
            type As<'s> = $ty;

            #[inline(always)]
            fn passed(&self) -> $ty {
                *self
            }
        }
    )*};
}

passed_as_they_are!(i64, f64, bool, Scalar, ScalarType, Device, Layout, MemoryFormat);

impl Binding {
    pub(crate) fn is_function(&self) -> bool {
        self.signature.overloads.iter().any(|overload| overload.function)
    }

    pub(crate) fn is_method(&self) -> bool {
        self.signature.overloads.iter().any(|overload| overload.receiver.is_some())
    }

    /// The forms of the function or of the method, and what it does.
    pub(crate) fn text(&self, method: bool) -> String {
        let fits = |overload: &&Overload| match method {
            true => overload.receiver.is_some(),
            false => overload.function,
        };
        let mut text = String::with_capacity(256);
        for overload in self.signature.overloads.iter().filter(fits) {
            text.push_str(self.signature.name);
            overload.write_form(&mut text, method);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(self.doc);
        text
    }
}

impl Overload {
    /// `(Tensor input, Tensor other, *, Number alpha=1, Tensor out=None)`
    fn write_form(&self, text: &mut String, method: bool) {
        let hidden = self.receiver.filter(|_| method);
        let (mut next, mut starred) = ("(", false);
        for (_, parameter) in self.parameters.iter().enumerate().filter(|(index, _)| Some(*index) != hidden) {
            text.push_str(next);
            next = ", ";
            if parameter.keyword && !starred {
                text.push_str("*, ");
                starred = true;
            }
            parameter.write(text);
        }
        text.push_str(if next == "(" { "()" } else { ")" });
    }
}

impl Parameter {
    /// `Number alpha=1`
    fn write(&self, text: &mut String) {
        let (base, list) = self.kind.type_text();
        text.push_str(base);
        if list {
            text.push('[');
            if let Kind::Ints(size @ 1..) = self.kind {
                text.push_str(&size.to_string());
            }
            text.push(']');
        }
        text.push_str(if self.nullable { "? " } else { " " });
        text.push_str(self.name);
        if let Some(default) = self.default {
            text.push('=');
            text.push_str(default);
        }
    }
}

impl Kind {
    /// The type in the documentation, and whether it is a list of such.
    fn type_text(self) -> (&'static str, bool) {
        match self {
            Kind::Tensor | Kind::TensorOrNumber => ("Tensor", false),
            Kind::Tensors => ("Tensor", true),
            Kind::OptionalTensors => ("Tensor?", true),
            Kind::Scalar => ("Number", false),
            Kind::Scalars => ("Number", true),
            Kind::Int => ("int", false),
            Kind::Ints(_) => ("int", true),
            Kind::Float => ("float", false),
            Kind::Floats => ("float", true),
            Kind::Boolean => ("bool", false),
            Kind::String => ("str", false),
            Kind::Dtype => ("dtype", false),
            Kind::Layout => ("layout", false),
            Kind::Device => ("device", false),
            Kind::MemoryFormat => ("memory_format", false),
            Kind::Generator => ("Generator", false),
        }
    }
}
