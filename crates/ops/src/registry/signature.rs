//! The signature of an operator that was defined at run time: its parsed schema, against which each call is checked. Its kernels read
//! values by position and type, those in C without another check.

use crate::dispatch::Value;
use flambeau_core::{Result, Scalar, bail, ensure, error};
use flambeau_schema::{Alias, BaseType, FunctionSchema, Type};
use std::borrow::Cow;

/// A parsed schema. It stays for as long as the operator: until the process ends.
pub(super) struct Signature {
    pub(super) name: &'static str,
    /// As schemas are printed.
    pub(super) schema: &'static str,
    pub(super) parsed: &'static FunctionSchema,
    returns: Vec<Type>,
    /// The types of the results that are not arguments which were written.
    new_returns: Vec<Type>,
}

impl Signature {
    /// # Errors
    /// `InvalidArgument` for a malformed schema, one without a name, and one with a type that no [`Value`] has.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let schema = FunctionSchema::parse_defined(text).map_err(|cause| {
            error!(
                InvalidArgument("define", "schema"),
                "expected a schema such as `mine::cube(Tensor self) -> Tensor` but got {text:?}: {cause}"
            )
        })?;
        let returns: Vec<Type> = schema.returns.iter().map(|result| result.ty.clone()).collect();
        for ty in schema.arguments().map(|argument| &argument.ty).chain(&returns) {
            ensure!(
                is_supported(ty),
                InvalidArgument("define", "schema"),
                "expected types of which operators take values but got `{ty}` in `{schema}`"
            );
        }
        let is_new = |result: &&flambeau_schema::Return| !result.alias.as_ref().is_some_and(Alias::writes);
        let new_returns = schema.returns.iter().filter(is_new).map(|result| result.ty.clone()).collect();
        Ok(Signature {
            name: leaked(schema.name.to_string()),
            schema: leaked(schema.to_string()),
            parsed: Box::leak(Box::new(schema)),
            returns,
            new_returns,
        })
    }

    /// The arguments of a call as kernels get them: of the types of the schema, where numbers are converted as those of a library
    /// operator's call are.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of arguments, or one of another type.
    pub(super) fn check_arguments<'v>(&self, values: &'v [Value]) -> Result<Cow<'v, [Value]>> {
        let expected = self.parsed.arguments().count();
        ensure!(
            values.len() == expected,
            InvalidArgument(self.name),
            "expected {expected} arguments but got {}",
            values.len()
        );
        let mut checked = Cow::Borrowed(values);
        for (at, (argument, value)) in self.parsed.arguments().zip(values).enumerate() {
            let ty = &argument.ty;
            ensure!(
                fits(ty, value),
                InvalidArgument(self.name, argument.name.as_str()),
                "expected a `{ty}` but got {value:?}"
            );
            if let Some(value) = converted(ty, value) {
                checked.to_mut()[at] = value;
            }
        }
        Ok(checked)
    }

    /// The results of a kernel: one for each return, or for each that is not an argument which was written.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of results, or one of another type.
    pub(super) fn check_results(&self, mut values: Vec<Value>) -> Result<Vec<Value>> {
        let types = match values.len() {
            count if count == self.returns.len() => &self.returns,
            count if count == self.new_returns.len() => &self.new_returns,
            count => bail!(
                InvalidArgument(self.name),
                "expected {} results of a kernel but got {count}",
                self.returns.len()
            ),
        };
        for (at, (ty, value)) in types.iter().zip(&mut values).enumerate() {
            ensure!(
                fits(ty, value),
                InvalidArgument(self.name),
                "expected a `{ty}` as result {at} of a kernel but got {value:?}"
            );
            if let Some(converted) = converted(ty, value) {
                *value = converted;
            }
        }
        Ok(values)
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Whether there are values of a type.
fn is_supported(ty: &Type) -> bool {
    match ty {
        Type::Optional(inner) => is_supported(inner),
        Type::Base(base) => is_supported_base(*base),
        Type::List(inner, _) => match &**inner {
            Type::Optional(inner) => **inner == Type::Base(BaseType::Tensor),
            Type::Base(base) => matches!(
                base,
                BaseType::Tensor
                    | BaseType::Int
                    | BaseType::SymInt
                    | BaseType::Float
                    | BaseType::Bool
                    | BaseType::Scalar
            ),
            _ => false,
        },
        Type::Class(_) => false,
    }
}

fn is_supported_base(base: BaseType) -> bool {
    !matches!(
        base,
        BaseType::Dimname
            | BaseType::DimVector
            | BaseType::Storage
            | BaseType::Stream
            | BaseType::QScheme
            | BaseType::ConstQuantizerPtr
            | BaseType::GraphModule
    )
}

fn fits(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Optional(_), Value::None) => true,
        (Type::Optional(inner), value) => fits(inner, value),
        (Type::Base(base), value) => fits_base(*base, value),
        (Type::List(inner, size), value) => {
            fits_list(inner, value).is_some_and(|length| has_length(*size, length))
        }
        (Type::Class(_), _) => false,
    }
}

fn fits_base(base: BaseType, value: &Value) -> bool {
    use BaseType as B;
    match value {
        Value::Tensor(_) => base == B::Tensor,
        Value::Scalar(_) => base == B::Scalar,
        Value::Int(_) => {
            matches!(base, B::Int | B::SymInt | B::DeviceIndex | B::Float | B::SymFloat | B::Scalar)
        }
        Value::Float(_) => matches!(base, B::Float | B::SymFloat | B::Scalar),
        Value::Bool(_) => matches!(base, B::Bool | B::SymBool | B::Scalar),
        Value::Str(_) => base == B::Str,
        Value::ScalarType(_) => base == B::ScalarType,
        Value::Layout(_) => base == B::Layout,
        Value::Device(_) => base == B::Device,
        Value::MemoryFormat(_) => base == B::MemoryFormat,
        Value::Generator(_) => base == B::Generator,
        _ => false,
    }
}

/// The length of a list of such items; `None` for other values.
fn fits_list(inner: &Type, value: &Value) -> Option<usize> {
    let is = |base| *inner == Type::Base(base);
    let (is_it, length) = match value {
        Value::Tensors(list) => (is(BaseType::Tensor), list.len()),
        Value::OptionalTensors(list) => (inner.is_optional(), list.len()),
        Value::Ints(list) => (is(BaseType::Int) || is(BaseType::SymInt), list.len()),
        Value::Floats(list) => (is(BaseType::Float), list.len()),
        Value::Bools(list) => (is(BaseType::Bool), list.len()),
        Value::Scalars(list) => (is(BaseType::Scalar), list.len()),
        _ => return None,
    };
    is_it.then_some(length)
}

/// Whether a list may be that long: `int[1]` takes lists of any length, and the default of others may be empty.
fn has_length(size: Option<u32>, length: usize) -> bool {
    size.is_none_or(|size| size == 1 || length == 0 || size as usize == length)
}

/// A number as one of its type, where it is another kind of number.
fn converted(ty: &Type, value: &Value) -> Option<Value> {
    let Type::Base(base) = ty.without_optional() else { return None };
    match (base, value) {
        (BaseType::Float | BaseType::SymFloat, Value::Int(value)) => Some(Value::Float(*value as f64)),
        (BaseType::Scalar, Value::Int(value)) => Some(Scalar::from(*value).into()),
        (BaseType::Scalar, Value::Float(value)) => Some(Scalar::from(*value).into()),
        (BaseType::Scalar, Value::Bool(value)) => Some(Scalar::from(*value).into()),
        _ => None,
    }
}
