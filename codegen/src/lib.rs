//! YAML in, Rust text out: operators and derivatives.

mod derivatives;
pub mod formula;
mod native_functions;
mod schema;
mod source;
mod variants;
mod yaml;

pub use derivatives::{
    Body, Derivative, Derivatives, Differentiable, Formula, TypedDerivative, TypedFormula,
};
pub use native_functions::{Kernel, KernelPath, Located, NativeFunction, NativeFunctions};
pub use schema::{
    Alias, AliasSet, Argument, BaseType, Default, FunctionSchema, Literal, OperatorName, Return, SchemaError,
    Type,
};
pub use source::{Fault, Faults, Source};
pub use variants::{Variant, sibling, variant_of};
pub use yaml::{Kind, Scalar};
