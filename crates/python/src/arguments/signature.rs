//! The tables: a name, its overloads, their parameters.

use super::Arguments;
use pyo3::prelude::*;

/// A name in Python and the overloads behind it, narrowest first.
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    pub(crate) overloads: &'static [Overload],
}

/// One overload of a name.
pub(crate) struct Overload {
    pub(crate) parameters: &'static [Parameter],
    /// Which parameter the receiver of a method is; `None` where it is no method.
    pub(crate) receiver: Option<usize>,
    /// Whether it is a function too.
    pub(crate) function: bool,
    pub(crate) call: Call,
}

/// Converts the bound values and runs the operator.
pub(crate) type Call = for<'a, 'py> fn(&Arguments<'a, 'py>) -> PyResult<Bound<'py, PyAny>>;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tensor,
    TensorOrNumber,
    Tensors,
    OptionalTensors,
    Scalar,
    Scalars,
    Int,
    /// With the length of the list to which a single integer is expanded; 0 if only a list is accepted.
    Ints(u8),
    Float,
    Floats,
    Boolean,
    String,
    Dtype,
    Layout,
    Device,
    MemoryFormat,
    Generator,
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) keyword: bool,
    pub(crate) nullable: bool,
    /// The default as Python writes it, for messages; the value itself is in the generated call.
    pub(crate) default: Option<&'static str>,
}

impl Parameter {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Parameter { name, kind, keyword: false, nullable: false, default: None }
    }

    /// Given by name only.
    pub(crate) const fn by_keyword(self) -> Self {
        Parameter { keyword: true, ..self }
    }

    /// May be `None`.
    pub(crate) const fn or_none(self) -> Self {
        Parameter { nullable: true, ..self }
    }

    /// May be left out.
    pub(crate) const fn or(self, default: &'static str) -> Self {
        Parameter { default: Some(default), ..self }
    }

    /// Whether `None` stands for the absence of a value: also of a list that is empty by default, as in PyTorch.
    pub(crate) fn takes_none(&self) -> bool {
        self.nullable || matches!(self.default, Some("None" | "[]"))
    }

    /// The names NumPy has for it, which PyTorch takes too.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        name == self.name
            || match self.name {
                "dim" => name == "axis",
                "keepdim" => name == "keepdims",
                "input" => matches!(name, "x" | "a" | "x1"),
                "other" => name == "x2",
                _ => false,
            }
    }
}

macro_rules! parameters {
    ($($(#[$doc:meta])* $function:ident = $kind:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) const fn $function(name: &'static str) -> Parameter {
            Parameter::new(name, Kind::$kind)
        }
    )*};
}

parameters! {
    tensor = Tensor;
    tensor_or_number = TensorOrNumber;
    tensors = Tensors;
    optional_tensors = OptionalTensors;
    scalar = Scalar;
    scalars = Scalars;
    int = Int;
    float = Float;
    floats = Floats;
    boolean = Boolean;
    string = String;
    dtype = Dtype;
    layout = Layout;
    device = Device;
    memory_format = MemoryFormat;
    generator = Generator;
}

/// A list of integers; a single one is expanded to `size` of them.
pub(crate) const fn ints(name: &'static str, size: u8) -> Parameter {
    Parameter::new(name, Kind::Ints(size))
}

/// The last parameters of many operators.
pub(crate) const REQUIRES_GRAD: Parameter = boolean("requires_grad").by_keyword().or("False");

/// The tensor for the result.
pub(crate) const fn out() -> Parameter {
    tensor("out").by_keyword().or("None")
}

/// The tensors for several results.
pub(crate) const fn outs() -> Parameter {
    tensors("out").by_keyword().or("None")
}
