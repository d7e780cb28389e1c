//! The schema language of operators: parsing a schema, and printing it back unchanged.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod literal;
mod parse;
mod rules;
mod spaces;

use std::fmt;

pub use literal::Literal;
pub use parse::{argument, is_identifier};

/// The error of a schema that could not be parsed, and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// Byte offset into the schema's text.
    pub at: usize,
    /// What is wrong, in one sentence.
    pub message: String,
}

/// An operator's signature, as in `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
///
/// # Examples
/// ```
/// use flambeau_schema::FunctionSchema;
///
/// let text = "topk(Tensor self, SymInt k, int dim=-1) -> (Tensor values, Tensor indices)";
/// let schema = FunctionSchema::parse(text)?;
/// assert_eq!(schema.positional.len(), 3);
/// assert_eq!(schema.to_string(), text);
/// # Ok::<(), flambeau_schema::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSchema {
    /// Base and overload name.
    pub name: OperatorName,
    /// Arguments before the `*`.
    pub positional: Vec<Argument>,
    /// Arguments after the `*` that are only read.
    pub keyword: Vec<Argument>,
    /// Arguments after the `*` that the operator writes: the `out=` group.
    pub out: Vec<Argument>,
    /// The results, in order.
    pub returns: Vec<Return>,
}

/// A base name and an overload name, which may be empty: `add.Tensor`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorName {
    /// `aten` in `aten::add`; rarely written.
    pub namespace: Option<String>,
    /// `add`, `add_`, `__and__`.
    pub base: String,
    /// `Tensor`, or empty.
    pub overload: String,
}

/// The operators that have an augmented assignment in Python, such as `+=`.
const AUGMENTED: &[&str] =
    &["add", "sub", "mul", "div", "mod", "pow", "lshift", "rshift", "and", "xor", "or"];

/// An argument: `Tensor(a!) self`, `Scalar alpha=1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Which memory it may alias, and whether it is written.
    pub alias: Option<Alias>,
    /// The value it takes when not given.
    pub default: Option<Default>,
}

/// A result: `Tensor`, `Tensor(a!)`, `Tensor values`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    pub ty: Type,
    /// The argument whose memory it shares.
    pub alias: Option<Alias>,
}

/// A default value: its text and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Default {
    /// As written: `1e-05`, `[0,1]`, `"mean"`.
    pub text: String,
    /// As read.
    pub value: Literal,
}

/// An alias annotation: `(a)`, `(a!)`, `(a -> *)`, `(a|b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The sets before the call, each with a mark if it is written.
    pub before: Vec<AliasSet>,
    /// The sets after the call, if they change; `*` is any.
    pub after: Vec<String>,
}

/// One letter of an alias annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasSet {
    /// The letter.
    pub name: String,
    /// Whether `!` follows it.
    pub write: bool,
}

/// A type of the schema language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A type by itself.
    Base(BaseType),
    /// `T?`
    Optional(Box<Type>),
    /// `T[]` or, with a size, `T[2]`.
    List(Box<Type>, Option<u32>),
    /// `__torch__.torch.classes.NAME`
    Class(String),
}

macro_rules! base_types {
    ($($variant:ident = $text:literal: $doc:literal,)*) => {
        /// The types with no further structure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BaseType { $(#[doc = $doc] $variant,)* }

        impl BaseType {
            fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }

            /// The name in the schema language.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

base_types! {
    Tensor = "Tensor": "A tensor.",
    Scalar = "Scalar": "A number of any scalar type.",
    Int = "int": "A 64-bit integer.",
    SymInt = "SymInt": "An integer that may stand for an unknown size.",
    Float = "float": "A 64-bit float.",
    SymFloat = "SymFloat": "A float that may be unknown.",
    Bool = "bool": "A boolean.",
    SymBool = "SymBool": "A boolean that may be unknown.",
    Str = "str": "Text.",
    ScalarType = "ScalarType": "The type of a tensor's elements.",
    Layout = "Layout": "How a tensor stores its elements.",
    Device = "Device": "Where a tensor lives.",
    DeviceIndex = "DeviceIndex": "Which device of its kind.",
    MemoryFormat = "MemoryFormat": "The order of a tensor's dimensions in memory.",
    Dimname = "Dimname": "The name of a dimension.",
    DimVector = "DimVector": "A short list of dimensions (precomputed arguments only).",
    Generator = "Generator": "A source of random numbers.",
    Storage = "Storage": "The memory behind a tensor.",
    Stream = "Stream": "A queue of work on a device.",
    QScheme = "QScheme": "How a tensor is quantised.",
    ConstQuantizerPtr = "ConstQuantizerPtr": "A quantiser.",
    GraphModule = "GraphModule": "A traced function.",
}

impl FunctionSchema {
    /// Parses a schema. The text must be formatted as schemas are printed, with one space after each comma.
    ///
    /// # Errors
    /// What is wrong and at which byte: the syntax, an unknown type, a default of the wrong type, a name
    /// given twice, or a signature that breaks a rule of the language (`out=` arguments that are not
    /// returned, an in-place operator that does not write `self`, ...).
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        parse::schema(text)
    }

    /// Parses the schema of an operator that a program defines while it runs. Spaces may stand anywhere between tokens, and the rules
    /// of signatures that hold inside the library are not checked: such an operator may write any argument, under any name. All
    /// arguments after the `*` are in `keyword`, in their order.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse); positions are those in the text without superfluous spaces, which the error has too.
    ///
    /// ```
    /// use flambeau_schema::FunctionSchema;
    ///
    /// let schema = FunctionSchema::parse_defined("mine::scale_( Tensor(a!) x,float by = 2.0 ) -> ()")?;
    /// assert_eq!(schema.to_string(), "mine::scale_(Tensor(a!) x, float by=2.0) -> ()");
    /// let error = FunctionSchema::parse_defined("mine::f(Tensor x, Tensr y) -> Tensor").map(|_| ());
    /// assert!(error.is_err_and(|error| error.to_string().contains("mine::f(Tensor x, Tensr y)")));
    /// # Ok::<(), flambeau_schema::SchemaError>(())
    /// ```
    pub fn parse_defined(text: &str) -> Result<Self, SchemaError> {
        let text = spaces::normalized(text);
        let name =
            |error: SchemaError| SchemaError { message: format!("{}, in `{text}`", error.message), ..error };
        parse::defined(&text).map_err(name)
    }

    /// All arguments, in the order of the schema.
    pub fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.positional.iter().chain(&self.keyword).chain(&self.out)
    }

    /// The arguments that are read, in the order of the schema: all but the `out=` group.
    pub fn inputs(&self) -> impl Iterator<Item = &Argument> {
        self.positional.iter().chain(&self.keyword)
    }

    /// The argument called `self`, if there is one.
    pub fn self_argument(&self) -> Option<&Argument> {
        self.positional.iter().find(|argument| argument.name == "self")
    }

    /// Whether the operator writes its `self` (`add_`, `__iadd__`).
    pub fn is_in_place(&self) -> bool {
        self.name.is_in_place()
    }

    /// Whether the operator writes into arguments the caller gives after the `*`.
    pub fn is_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether nothing is written.
    pub fn is_functional(&self) -> bool {
        self.arguments().all(|argument| !argument.is_written())
    }

    /// Whether a result shares memory with an argument that is not written: `view`, `transpose.int`.
    pub fn is_view(&self) -> bool {
        self.returns.iter().any(|result| result.alias.as_ref().is_some_and(|alias| !alias.writes()))
    }

    /// The range of the keyword arguments `dtype, layout, device, pin_memory`, if the operator has them, as factories have.
    pub fn tensor_options(&self) -> Option<std::ops::Range<usize>> {
        const GROUP: [(&str, BaseType); 4] = [
            ("dtype", BaseType::ScalarType),
            ("layout", BaseType::Layout),
            ("device", BaseType::Device),
            ("pin_memory", BaseType::Bool),
        ];
        let fits = |window: &[Argument]| {
            window.iter().zip(GROUP).all(|(argument, (name, base))| {
                argument.name == name && *argument.ty.without_optional() == Type::Base(base)
            })
        };
        let start = self.keyword.windows(GROUP.len()).position(fits)?;
        Some(start..start + GROUP.len())
    }
}

impl OperatorName {
    /// Reads `base` or `base.overload`.
    ///
    /// # Errors
    /// An empty name, a character no name has, the reserved ending `_out`.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        parse::operator_name(text, 0)
    }

    /// Whether the name is that of an in-place operator: `add_`, `__iadd__`.
    pub fn is_in_place(&self) -> bool {
        self.augmented().is_some() || (self.base.ends_with('_') && !self.base.ends_with("__"))
    }

    /// The base name that `add`, `add_` and `add.out` share.
    pub fn root(&self) -> String {
        if let Some(name) = self.augmented() {
            return format!("__{name}__");
        }
        let base = self.base.strip_suffix('_').filter(|_| self.is_in_place()).unwrap_or(&self.base);
        base.strip_suffix("_functional").unwrap_or(base).to_owned()
    }

    /// `add` in `__iadd__`.
    fn augmented(&self) -> Option<&str> {
        let name = self.base.strip_prefix("__i")?.strip_suffix("__")?;
        AUGMENTED.contains(&name).then_some(name)
    }
}

impl Argument {
    /// Whether the operator writes the argument.
    pub fn is_written(&self) -> bool {
        self.alias.as_ref().is_some_and(Alias::writes)
    }

    /// Whether a caller may leave it out, or pass nothing.
    pub fn may_be_absent(&self) -> bool {
        self.default.is_some() || self.ty.is_optional()
    }
}

impl Alias {
    /// Whether the memory is written.
    pub fn writes(&self) -> bool {
        self.before.iter().any(|set| set.write)
    }
}

impl Type {
    /// The type itself, or what is inside an optional.
    pub fn without_optional(&self) -> &Self {
        match self {
            Self::Optional(inner) => inner,
            other => other,
        }
    }

    /// The type at the core of lists and optionals.
    pub fn innermost(&self) -> &Self {
        match self {
            Self::Optional(inner) | Self::List(inner, _) => inner.innermost(),
            other => other,
        }
    }

    /// Whether tensors are passed: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`.
    pub fn holds_tensors(&self) -> bool {
        *self.innermost() == Self::Base(BaseType::Tensor)
    }

    /// Whether the value may be absent.
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::Optional(_))
    }
}

impl fmt::Display for FunctionSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arguments: Vec<String> = self.positional.iter().map(ToString::to_string).collect();
        if self.keyword.len() + self.out.len() > 0 {
            arguments.push("*".to_owned());
        }
        arguments.extend(self.keyword.iter().chain(&self.out).map(ToString::to_string));
        write!(f, "{}({}) -> ", self.name, arguments.join(", "))?;
        match self.returns.as_slice() {
            [only] => write!(f, "{only}"),
            several => {
                let returns: Vec<String> = several.iter().map(ToString::to_string).collect();
                write!(f, "({})", returns.join(", "))
            }
        }
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}::")?;
        }
        f.write_str(&self.base)?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, &self.ty, self.alias.as_ref())?;
        write!(f, " {}", self.name)?;
        self.default.as_ref().map_or(Ok(()), |default| write!(f, "={}", default.text))
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, &self.ty, self.alias.as_ref())?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

fn write_type(f: &mut fmt::Formatter<'_>, ty: &Type, alias: Option<&Alias>) -> fmt::Result {
    match (ty, alias) {
        (Type::Base(base), None) => f.write_str(base.name()),
        (Type::Base(base), Some(alias)) => write!(f, "{}({alias})", base.name()),
        (Type::Class(name), _) => write!(f, "__torch__.torch.classes.{name}"),
        (Type::Optional(inner), _) => write_type(f, inner, alias).and_then(|()| f.write_str("?")),
        (Type::List(inner, size), _) => {
            write_type(f, inner, alias)?;
            match size {
                Some(size) => write!(f, "[{size}]"),
                None => f.write_str("[]"),
            }
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self, None)
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |set: &AliasSet| format!("{}{}", set.name, if set.write { "!" } else { "" });
        f.write_str(&self.before.iter().map(mark).collect::<Vec<_>>().join("|"))?;
        if self.after.is_empty() { Ok(()) } else { write!(f, " -> {}", self.after.join("|")) }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.message)
    }
}

impl std::error::Error for SchemaError {}
