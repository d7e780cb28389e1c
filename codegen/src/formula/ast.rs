//! The syntax tree of a formula, without types.

/// An expression and its position (for a binary expression, that of the operator).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExprKind {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    None,
    Name(String),
    Call(String, Vec<Expr>),
    Method(Box<Expr>, String, Vec<Expr>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Index(Box<Expr>, Box<Expr>),
    Field(Box<Expr>, usize),
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl BinaryOperator {
    /// The symbol and the precedence of each.
    const TABLE: [(&'static str, Self, u8); 13] = [
        ("||", Self::Or, 1),
        ("&&", Self::And, 2),
        ("==", Self::Eq, 3),
        ("!=", Self::Ne, 3),
        ("<=", Self::Le, 3),
        (">=", Self::Ge, 3),
        ("<", Self::Lt, 3),
        (">", Self::Gt, 3),
        ("+", Self::Add, 4),
        ("-", Self::Sub, 4),
        ("*", Self::Mul, 5),
        ("/", Self::Div, 5),
        ("%", Self::Rem, 5),
    ];

    /// The precedence of comparisons, which do not chain.
    pub(super) const COMPARISON: u8 = 3;

    pub(super) fn from_symbol(symbol: &str) -> Option<(Self, u8)> {
        Self::TABLE.iter().find(|row| row.0 == symbol).map(|row| (row.1, row.2))
    }

    /// The symbol, which is Rust's.
    pub fn symbol(self) -> &'static str {
        Self::TABLE.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    /// Whether it is a comparison.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }

    /// The operator on tensors.
    pub(super) fn tensor_operator(self) -> Option<&'static str> {
        Some(match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Rem => "remainder",
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::And | Self::Or => return None,
        })
    }

    /// The comparison that holds when the two sides are exchanged.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            other => other,
        }
    }
}
