//! The schema of an operator, parsed once, with the types and defaults of its arguments as values.

use crate::types::dtype_named;
use flambeau_core::{Layout, MemoryFormat, Result, bail, error};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_schema::{Argument, BaseType, FunctionSchema, Literal, Type};
use parking_lot::Mutex;
use std::collections::HashMap;

/// An argument: its declaration, and its default.
pub(super) struct Parameter {
    pub(super) argument: Argument,
    pub(super) default: Option<Value>,
    /// Whether it stands behind the `*`.
    pub(super) keyword: bool,
}

/// A parsed schema.
pub(super) struct OperatorSchema {
    pub(super) schema: FunctionSchema,
    pub(super) parameters: Vec<Parameter>,
    /// For each result the argument that it is, where it is one that was written.
    pub(super) written: Vec<Option<usize>>,
}

impl OperatorSchema {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let schema = FunctionSchema::parse_defined(text)
            .map_err(|error| error!(InvalidArgument("schema"), "{error}"))?;
        let mut parameters = Vec::new();
        for (at, argument) in schema.arguments().enumerate() {
            ensure_supported(&argument.ty, text)?;
            let default = argument.default.as_ref().map(|default| value_of(&default.value, &argument.ty));
            let default = default.transpose()?;
            let keyword = at >= schema.positional.len();
            parameters.push(Parameter { argument: argument.clone(), default, keyword });
        }
        for result in &schema.returns {
            ensure_supported(&result.ty, text)?;
        }
        let argument_of = |result: &flambeau_schema::Return| {
            let letter = result.alias.as_ref().filter(|alias| alias.writes())?.before.first()?;
            let has_letter = |parameter: &Parameter| {
                let alias = parameter.argument.alias.as_ref();
                alias.is_some_and(|alias| alias.before.iter().any(|set| set.name == letter.name))
            };
            parameters.iter().position(has_letter)
        };
        let written = schema.returns.iter().map(argument_of).collect();
        Ok(OperatorSchema { schema, parameters, written })
    }

    /// `mine::cube()`, as errors name the operator.
    pub(super) fn called(&self) -> String {
        let name = &self.schema.name;
        format!("{}::{}()", name.namespace.as_deref().unwrap_or("aten"), name.base)
    }
}

/// The schema of an operator. Operators live as long as the process, and so do their schemas.
pub(super) fn schema_of(operator: &'static dyn OperatorInfo) -> Result<&'static OperatorSchema> {
    static SCHEMAS: Mutex<Option<HashMap<usize, &'static OperatorSchema>>> = Mutex::new(None);
    let key = operator.schema().as_ptr().addr();
    if let Some(schema) = SCHEMAS.lock().get_or_insert_default().get(&key) {
        return Ok(schema);
    }
    let schema: &'static OperatorSchema = Box::leak(Box::new(OperatorSchema::parse(operator.schema())?));
    Ok(SCHEMAS.lock().get_or_insert_default().entry(key).or_insert(schema))
}

fn ensure_supported(ty: &Type, text: &str) -> Result<()> {
    let is_supported = match ty {
        Type::Optional(inner) => return ensure_supported(inner, text),
        Type::Base(base) => is_plain(*base) || *base == BaseType::Tensor,
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
    };
    if !is_supported {
        bail!(InvalidArgument("schema"), "expected types that operators take but got `{ty}` in `{text}`");
    }
    Ok(())
}

fn is_plain(base: BaseType) -> bool {
    matches!(
        base,
        BaseType::Scalar
            | BaseType::Int
            | BaseType::SymInt
            | BaseType::Float
            | BaseType::SymFloat
            | BaseType::Bool
            | BaseType::SymBool
            | BaseType::Str
            | BaseType::ScalarType
            | BaseType::Layout
            | BaseType::Device
            | BaseType::DeviceIndex
            | BaseType::MemoryFormat
            | BaseType::Generator
    )
}

/// A default as the value that an argument has.
fn value_of(literal: &Literal, ty: &Type) -> Result<Value> {
    match (ty, literal) {
        (_, Literal::None) => Ok(Value::None),
        (Type::Optional(inner), literal) => value_of(literal, inner),
        (Type::List(inner, size), literal) => list_of(literal, inner, *size),
        (Type::Base(base), literal) => plain_value_of(literal, *base),
        (Type::Class(name), _) => unusable(literal, name),
    }
}

fn unusable<T>(literal: &Literal, ty: &str) -> Result<T> {
    bail!(InvalidArgument("schema"), "expected a default of type {ty} but got {literal:?}")
}

fn plain_value_of(literal: &Literal, base: BaseType) -> Result<Value> {
    Ok(match (base, literal) {
        (BaseType::Float | BaseType::SymFloat, Literal::Int(value)) => Value::Float(*value as f64),
        (BaseType::Scalar, Literal::Int(value)) => Value::Scalar((*value).into()),
        (BaseType::Scalar, Literal::Float(value)) => Value::Scalar((*value).into()),
        (BaseType::Scalar, Literal::Bool(value)) => Value::Scalar((*value).into()),
        (BaseType::Device, Literal::Str(name)) => Value::Device(name.parse()?),
        (BaseType::Int | BaseType::SymInt, Literal::Name(name)) if name == "Mean" => Value::Int(1),
        (BaseType::Int | BaseType::SymInt, Literal::Name(name)) if name == "Sum" => Value::Int(2),
        (BaseType::ScalarType, Literal::Name(name)) => match dtype_named(name) {
            Some(dtype) => Value::ScalarType(dtype),
            None => return unusable(literal, base.name()),
        },
        (BaseType::MemoryFormat, Literal::Name(name)) => Value::MemoryFormat(match name.as_str() {
            "contiguous_format" => MemoryFormat::Contiguous,
            "preserve_format" => MemoryFormat::Preserve,
            "channels_last" => MemoryFormat::ChannelsLast,
            "channels_last_3d" => MemoryFormat::ChannelsLast3d,
            _ => return unusable(literal, base.name()),
        }),
        (BaseType::Layout, Literal::Name(name)) if name == "strided" => Value::Layout(Layout::Strided),
        (_, Literal::Bool(value)) => Value::Bool(*value),
        (_, Literal::Int(value)) => Value::Int(*value),
        (_, Literal::Float(value)) => Value::Float(*value),
        (_, Literal::Str(value)) => Value::Str(value.clone()),
        _ => return unusable(literal, base.name()),
    })
}

/// `[0,1]`, or `0` for a list of a given length.
fn list_of(literal: &Literal, inner: &Type, size: Option<u32>) -> Result<Value> {
    let items: Vec<Literal> = match literal {
        Literal::List(items) => items.clone(),
        single => vec![single.clone(); size.unwrap_or(1) as usize],
    };
    let values = items.iter().map(|item| value_of(item, inner)).collect::<Result<Vec<_>>>()?;
    let Type::Base(base) = inner else { return unusable(literal, "list") };
    macro_rules! collected {
        ($variant:ident, $($pattern:pat => $value:expr),+) => {{
            let read = |value: Value| match value {
                $($pattern => Ok($value),)+
                _ => unusable(literal, base.name()),
            };
            Value::$variant(values.into_iter().map(read).collect::<Result<_>>()?)
        }};
    }
    Ok(match base {
        BaseType::Int | BaseType::SymInt => collected!(Ints, Value::Int(value) => value),
        BaseType::Float => collected!(Floats, Value::Float(value) => value),
        BaseType::Bool => collected!(Bools, Value::Bool(value) => value),
        BaseType::Scalar => collected!(Scalars, Value::Scalar(value) => value),
        _ => return unusable(literal, base.name()),
    })
}
