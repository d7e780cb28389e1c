//! The types of values in a formula, and the conversions between them.

use std::fmt;

use crate::schema::{BaseType, Type};

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Ty {
    /// A type of the schema language, without list sizes, with `int` for `SymInt`.
    Value(Type),
    /// `None`
    None,
    /// Data type, layout and device together, as `self.options()` gives them.
    Options,
    /// Several values.
    Tuple(Vec<Ty>),
}

/// How a value is converted to another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// It is passed as it is.
    Same,
    /// An `int` becomes a `float`.
    Float,
    /// A number or boolean becomes a `Scalar`.
    Scalar,
    /// A value becomes an optional that has it.
    Some(Box<Conversion>),
    /// An `int` becomes a list that repeats it.
    Repeated(u32),
    /// Every element of a list is converted.
    Elements(Box<Conversion>),
}

/// The properties of a tensor that do not depend on its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    /// `.sizes()`; of a list of tensors, the sizes of each.
    Sizes,
    /// `.size(0)`: the size along a dimension known from the formula.
    Size(i64),
    /// `.strides()`
    Strides,
    /// `.storage_offset()`
    StorageOffset,
    /// `.dim()`
    Dim,
    /// `.numel()`
    Numel,
    /// `.scalar_type()`
    ScalarType,
    /// `.options()`
    Options,
    /// `.layout()`
    Layout,
    /// `.device()`
    Device,
    /// `.is_some()`, of an optional.
    IsSome,
    /// `.len()`, of a list.
    Len,
}

impl Ty {
    /// The type in formulas for a type of the schema language.
    pub fn of(ty: &Type) -> Self {
        Self::Value(plain(ty))
    }

    pub(super) const fn base(base: BaseType) -> Self {
        Self::Value(Type::Base(base))
    }

    pub(super) const INT: Self = Self::base(BaseType::Int);
    pub(super) const FLOAT: Self = Self::base(BaseType::Float);
    pub(super) const BOOL: Self = Self::base(BaseType::Bool);
    pub(super) const STR: Self = Self::base(BaseType::Str);
    pub(super) const SCALAR: Self = Self::base(BaseType::Scalar);
    pub(super) const TENSOR: Self = Self::base(BaseType::Tensor);

    pub(super) fn list(inner: Type) -> Self {
        Self::Value(Type::List(Box::new(inner), None))
    }

    /// Whether it is an `int`, a `float` or a `Scalar`.
    pub(super) fn is_number(&self) -> bool {
        [Self::INT, Self::FLOAT, Self::SCALAR].contains(self)
    }

    /// The type of a property, if values of this type have it.
    pub(super) fn property(&self, property: Property) -> Option<Self> {
        let int = || Type::Base(BaseType::Int);
        let Self::Value(ty) = self else { return None };
        match (ty, property) {
            (Type::Optional(_), Property::IsSome) => Some(Self::BOOL),
            (Type::List(..), Property::Len) => Some(Self::INT),
            (Type::List(inner, _), Property::Sizes) if **inner == Type::Base(BaseType::Tensor) => {
                Some(Self::list(Type::List(Box::new(int()), None)))
            }
            (Type::Base(BaseType::Tensor), property) => match property {
                Property::Sizes | Property::Strides => Some(Self::list(int())),
                Property::Size(_) | Property::Dim | Property::Numel | Property::StorageOffset => {
                    Some(Self::INT)
                }
                Property::ScalarType => Some(Self::base(BaseType::ScalarType)),
                Property::Layout => Some(Self::base(BaseType::Layout)),
                Property::Device => Some(Self::base(BaseType::Device)),
                Property::Options => Some(Self::Options),
                Property::IsSome | Property::Len => None,
            },
            _ => None,
        }
    }

    /// The conversion to another type, if there is one.
    pub fn conversion(&self, to: &Type) -> Option<Conversion> {
        let target = plain(to);
        match (self, &target) {
            (Self::Value(from), target) if from == target => Some(Conversion::Same),
            (Self::None, Type::Optional(_)) => Some(Conversion::Same),
            (_, Type::Base(BaseType::Float)) if *self == Self::INT => Some(Conversion::Float),
            (_, Type::Base(BaseType::Scalar)) if self.is_number() || *self == Self::BOOL => {
                Some(Conversion::Scalar)
            }
            (_, Type::Optional(_)) => {
                self.conversion(to.without_optional()).map(|inner| Conversion::Some(Box::new(inner)))
            }
            (_, Type::List(..)) => self.list_conversion(to),
            _ => None,
        }
    }

    fn list_conversion(&self, to: &Type) -> Option<Conversion> {
        match (self, to) {
            (Self::Value(Type::List(from, _)), Type::List(element, _)) => {
                let inner = Self::Value((**from).clone()).conversion(element)?;
                Some(Conversion::Elements(Box::new(inner)))
            }
            (_, Type::List(element, Some(size))) if *self == Self::INT && Self::of(element) == Self::INT => {
                Some(Conversion::Repeated(*size))
            }
            _ => None,
        }
    }

    /// Whether there is a conversion to another type of formulas, tuples included.
    pub(super) fn converts(&self, to: &Self) -> bool {
        match (self, to) {
            (Self::Tuple(from), Self::Tuple(to)) => {
                from.len() == to.len() && from.iter().zip(to).all(|(from, to)| from.converts(to))
            }
            (_, Self::Value(to)) => self.conversion(to).is_some(),
            _ => self == to,
        }
    }
}

impl Conversion {
    /// The cost of a conversion; the overload with the lowest total is called.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Float | Self::Scalar | Self::Repeated(_) => 1,
            Self::Some(inner) | Self::Elements(inner) => 1 + inner.cost(),
        }
    }
}

fn plain(ty: &Type) -> Type {
    match ty {
        Type::Base(BaseType::SymInt) => Type::Base(BaseType::Int),
        Type::Base(BaseType::SymBool) => Type::Base(BaseType::Bool),
        Type::Base(BaseType::SymFloat) => Type::Base(BaseType::Float),
        Type::Optional(inner) => Type::Optional(Box::new(plain(inner))),
        Type::List(inner, _) => Type::List(Box::new(plain(inner)), None),
        other => other.clone(),
    }
}

impl Property {
    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::Size(_) => "size",
            Self::Strides => "strides",
            Self::StorageOffset => "storage_offset",
            Self::Dim => "dim",
            Self::Numel => "numel",
            Self::ScalarType => "scalar_type",
            Self::Options => "options",
            Self::Layout => "layout",
            Self::Device => "device",
            Self::IsSome => "is_some",
            Self::Len => "len",
        }
    }

    /// The property of a method without arguments.
    pub(super) fn from_method(name: &str) -> Option<Self> {
        let all = [
            Self::Sizes,
            Self::Strides,
            Self::StorageOffset,
            Self::Dim,
            Self::Numel,
            Self::ScalarType,
            Self::Options,
            Self::Layout,
            Self::Device,
            Self::IsSome,
            Self::Len,
        ];
        all.into_iter().find(|property| property.name() == name)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(ty) => write!(f, "{ty}"),
            Self::None => f.write_str("None"),
            Self::Options => f.write_str("TensorOptions"),
            Self::Tuple(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "({})", items.join(", "))
            }
        }
    }
}
