//! Default values: their text, and the types for which they are valid.

use super::{BaseType, Type};

/// A default value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// `-1`
    Int(i64),
    /// `0.5`, `1e-05`
    Float(f64),
    /// `"mean"` or `'mean'`, without the quotes and escapes
    Str(String),
    /// A name: `long`, `Mean`, `contiguous_format`
    Name(String),
    /// `[0,1]`
    List(Vec<Literal>),
}

/// Names of dtypes.
const SCALAR_TYPES: &[&str] = &[
    "bool",
    "uint8",
    "byte",
    "int8",
    "char",
    "int16",
    "short",
    "int32",
    "int",
    "int64",
    "long",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "half",
    "bfloat16",
    "float32",
    "float",
    "float64",
    "double",
    "complex32",
    "complex64",
    "cfloat",
    "complex128",
    "cdouble",
];
const MEMORY_FORMATS: &[&str] =
    &["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"];
const LAYOUTS: &[&str] =
    &["strided", "sparse", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"];
const REDUCTIONS: &[&str] = &["Mean", "Sum"];

/// Parses a literal at the start of the text; returns its value and its length in bytes.
pub(super) fn scan(text: &str) -> Result<(Literal, usize), String> {
    match text.chars().next() {
        Some('[') => list(text),
        Some(quote @ ('"' | '\'')) => string(text, quote),
        Some(_) => word(text),
        None => Err("expected a default value but the schema ends".to_owned()),
    }
}

fn list(text: &str) -> Result<(Literal, usize), String> {
    let (mut items, mut at) = (vec![], 1);
    if text[at..].starts_with(']') {
        return Ok((Literal::List(items), 2));
    }
    loop {
        if text[at..].starts_with('[') {
            return Err("a default value has no lists within lists".to_owned());
        }
        let (item, length) = scan(&text[at..])?;
        items.push(item);
        at += length;
        match text[at..].chars().next() {
            Some(']') => return Ok((Literal::List(items), at + 1)),
            Some(',') => at += 1 + usize::from(text[at + 1..].starts_with(' ')),
            _ => return Err("expected `,` or `]` in a list of default values".to_owned()),
        }
    }
}

fn string(text: &str, quote: char) -> Result<(Literal, usize), String> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                value.push(if c == 'n' { '\n' } else { c });
                escaped = false;
            }
            '\\' => escaped = true,
            c if c == quote => return Ok((Literal::Str(value), at + 1)),
            c => value.push(c),
        }
    }
    Err(format!("the text has no closing {quote}"))
}

fn word(text: &str) -> Result<(Literal, usize), String> {
    let length = text.find([',', ')', ']', ' ', '[', '(']).unwrap_or(text.len());
    let word = &text[..length];
    let literal = match word {
        "" => return Err("expected a default value after `=`".to_owned()),
        "None" => Literal::None,
        "True" => Literal::Bool(true),
        "False" => Literal::Bool(false),
        _ if super::parse::is_identifier(word) => Literal::Name(word.to_owned()),
        _ => number(word).ok_or_else(|| format!("`{word}` is not a default value"))?,
    };
    Ok((literal, length))
}

/// An integer within 64 bits, or a float written with digits on both sides of its point.
fn number(word: &str) -> Option<Literal> {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.trim_start_matches(['+', '-']))),
        None => (unsigned, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let whole = !mantissa.contains('.');
    let padded = mantissa.len() > 1 && mantissa.starts_with('0') && !mantissa.starts_with("0.");
    let parts = mantissa.split('.').count();
    let sound = parts <= 2 && !padded && mantissa.split('.').all(digits) && exponent.is_none_or(digits);
    if !sound {
        return None;
    }
    if whole && exponent.is_none() {
        return word.parse().ok().map(Literal::Int);
    }
    word.parse().ok().filter(|value: &f64| value.is_finite()).map(Literal::Float)
}

/// A description of valid values, if the literal is not valid for the type.
pub(super) fn mismatch(literal: &Literal, ty: &Type) -> Option<String> {
    let fits = match ty {
        Type::Optional(inner) => *literal == Literal::None || mismatch(literal, inner).is_none(),
        Type::List(inner, size) => match literal {
            Literal::List(items) => {
                // In PyTorch `int[1]` means that a single number is accepted for a list of any length.
                let fits =
                    items.is_empty() || size.is_none_or(|size| size == 1 || size as usize == items.len());
                fits && items.iter().all(|item| mismatch(item, inner).is_none())
            }
            single => size.is_some() && mismatch(single, inner).is_none(),
        },
        Type::Base(base) => base_fits(literal, *base),
        Type::Class(_) => false,
    };
    if fits { None } else { Some(expected(ty)) }
}

fn base_fits(literal: &Literal, base: BaseType) -> bool {
    let named = |names: &[&str]| matches!(literal, Literal::Name(name) if names.contains(&name.as_str()));
    match base {
        BaseType::Int | BaseType::SymInt => matches!(literal, Literal::Int(_)) || named(REDUCTIONS),
        BaseType::DeviceIndex => matches!(literal, Literal::Int(_)),
        BaseType::Float | BaseType::SymFloat | BaseType::Scalar => {
            matches!(literal, Literal::Int(_) | Literal::Float(_))
        }
        BaseType::Bool | BaseType::SymBool => matches!(literal, Literal::Bool(_)),
        BaseType::Str => matches!(literal, Literal::Str(_)),
        BaseType::ScalarType => named(SCALAR_TYPES),
        BaseType::MemoryFormat => named(MEMORY_FORMATS),
        BaseType::Layout => named(LAYOUTS),
        BaseType::Device => matches!(literal, Literal::Str(_)),
        _ => false,
    }
}

fn expected(ty: &Type) -> String {
    match ty {
        Type::Optional(inner) if matches!(**inner, Type::Base(base) if has_no_literal(base)) => {
            "None".to_owned()
        }
        Type::Optional(inner) => format!("None or {}", expected(inner)),
        Type::List(inner, None) => format!("a list `[..]` holding {}", expected(inner)),
        Type::List(inner, Some(1)) => format!("a list `[..]` holding {0}, or {0}", expected(inner)),
        Type::List(inner, Some(size)) => format!("a list of {size} holding {0}, or {0}", expected(inner)),
        Type::Base(base) => base_expected(*base).to_owned(),
        Type::Class(_) => "no default".to_owned(),
    }
}

fn has_no_literal(base: BaseType) -> bool {
    base_expected(base) == "no default"
}

fn base_expected(base: BaseType) -> &'static str {
    match base {
        BaseType::Int | BaseType::SymInt | BaseType::DeviceIndex => "an integer",
        BaseType::Float | BaseType::SymFloat | BaseType::Scalar => "a number",
        BaseType::Bool | BaseType::SymBool => "True or False",
        BaseType::Str | BaseType::Device => "quoted text",
        BaseType::ScalarType => "the name of a scalar type",
        BaseType::MemoryFormat => "the name of a memory format",
        BaseType::Layout => "the name of a layout",
        _ => "no default",
    }
}
