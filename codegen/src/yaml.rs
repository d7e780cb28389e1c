//! A YAML document as a tree of nodes with their positions in the file.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::source::{Fault, Source};

/// A node and the byte offset of its start.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) value: Value,
}

/// The value of a node. A plain scalar (`True`, `3`) has both its text and the type that YAML gives it.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Scalar, Node)>),
}

/// A scalar's text, and the mapping from positions in the text to those in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text, without quotes and escapes.
    pub text: String,
    /// The type that YAML gives it.
    pub kind: Kind,
    /// Byte offset into the file.
    pub at: usize,
    /// Where the text starts, if it is in the file unchanged (neither folded nor escaped).
    body: Option<usize>,
}

/// The type of a scalar in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain text, or quoted.
    Text,
    /// `True` or `false`.
    Bool(bool),
    /// A number.
    Number,
    /// Nothing, or `null`.
    Null,
}

/// Reads a document that must be a list of maps, as both input files are.
pub(crate) fn entries(source: Source<'_>) -> Result<Vec<Entry<'_>>, Fault> {
    let root = parse(source)?;
    let Value::List(items) = root.value else {
        return Err(
            source.fault(root.at, format!("expected a list of entries but got {}", root.value.kind()))
        );
    };
    items.into_iter().map(|item| Entry::new(source, item)).collect()
}

fn parse(source: Source<'_>) -> Result<Node, Fault> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    let tree: Spanned<Raw> = serde_saphyr::from_str_with_options(source.text, options).map_err(|error| {
        let offset = error.location().and_then(byte_offset).unwrap_or(0);
        source.fault(offset, format!("not valid YAML: {}", error.render().trim()))
    })?;
    Node::new(source, tree)
}

fn byte_offset(location: Location) -> Option<usize> {
    location.span().byte_offset().and_then(|offset| usize::try_from(offset).ok())
}

/// One entry of a file: a map, with the fields that were not taken yet.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) at: usize,
    fields: Vec<(Scalar, Node)>,
}

impl<'a> Entry<'a> {
    fn new(source: Source<'a>, node: Node) -> Result<Self, Fault> {
        match node.value {
            Value::Map(fields) => Ok(Self { source, at: node.at, fields }),
            other => {
                Err(source.fault(node.at, format!("expected an entry with fields but got {}", other.kind())))
            }
        }
    }

    /// Takes a field out of the entry.
    pub(crate) fn take(&mut self, name: &str) -> Option<Node> {
        let index = self.fields.iter().position(|(key, _)| key.text == name)?;
        Some(self.fields.remove(index).1)
    }

    /// Takes a field that must be text.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<Scalar>, Fault> {
        self.take(name).map(|node| node.into_text(self.source, name)).transpose()
    }

    /// Takes a field that must be `True` or `False`; an absent one is `default`.
    pub(crate) fn take_bool(&mut self, name: &str, default: bool) -> Result<bool, Fault> {
        match self.take(name) {
            None => Ok(default),
            Some(Node { value: Value::Scalar(Scalar { kind: Kind::Bool(value), .. }), .. }) => Ok(value),
            Some(node) => Err(node.expected(self.source, name, "True or False")),
        }
    }

    /// The fields that were not taken.
    pub(crate) fn rest(self) -> Vec<(Scalar, Node)> {
        self.fields
    }
}

impl Node {
    fn new(source: Source<'_>, raw: Spanned<Raw>) -> Result<Self, Fault> {
        let at = byte_offset(raw.referenced).unwrap_or(0);
        let value = match raw.value {
            Raw::Text(text) => Value::Scalar(Scalar::new(source, at, text, Kind::Text)),
            Raw::Other(kind) => {
                let length = raw.referenced.span().byte_len().and_then(|len| usize::try_from(len).ok());
                let text = source.text.get(at..at + length.unwrap_or(0)).unwrap_or_default().trim();
                Value::Scalar(Scalar::new(source, at, text.to_owned(), kind))
            }
            Raw::List(items) => {
                let nodes = items.into_iter().map(|item| Self::new(source, item));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Raw::Map(fields) => Value::Map(pairs(source, fields)?),
        };
        Ok(Self { at, value })
    }

    /// The node as text; numbers and booleans are not.
    pub(crate) fn into_text(self, source: Source<'_>, name: &str) -> Result<Scalar, Fault> {
        match self.value {
            Value::Scalar(scalar) if scalar.kind == Kind::Text => Ok(scalar),
            _ => Err(self.expected(source, name, "text")),
        }
    }

    /// The node as a scalar of any type, by its text.
    pub(crate) fn into_scalar(self, source: Source<'_>, name: &str) -> Result<Scalar, Fault> {
        match self.value {
            Value::Scalar(scalar) if scalar.kind != Kind::Null => Ok(scalar),
            _ => Err(self.expected(source, name, "text")),
        }
    }

    /// The node as a list of texts.
    pub(crate) fn into_texts(self, source: Source<'_>, name: &str) -> Result<Vec<Scalar>, Fault> {
        match self.value {
            Value::List(items) => items.into_iter().map(|item| item.into_text(source, name)).collect(),
            _ => Err(self.expected(source, name, "a list of texts")),
        }
    }

    pub(crate) fn expected(&self, source: Source<'_>, name: &str, expected: &str) -> Fault {
        source.fault(self.at, format!("`{name}`: expected {expected} but got {}", self.value.kind()))
    }
}

fn pairs(
    source: Source<'_>,
    fields: Vec<(Spanned<String>, Spanned<Raw>)>,
) -> Result<Vec<(Scalar, Node)>, Fault> {
    let mut pairs: Vec<(Scalar, Node)> = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        let at = byte_offset(key.referenced).unwrap_or(0);
        if pairs.iter().any(|(known, _)| known.text == key.value) {
            return Err(source.fault(at, format!("field `{}` is given twice", key.value)));
        }
        pairs.push((Scalar::new(source, at, key.value, Kind::Text), Node::new(source, value)?));
    }
    Ok(pairs)
}

impl Value {
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Scalar(Scalar { kind: Kind::Null, .. }) => "nothing".to_owned(),
            Self::Scalar(scalar) => format!("`{}`", scalar.text),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }
}

impl Scalar {
    fn new(source: Source<'_>, at: usize, text: String, kind: Kind) -> Self {
        let quoted = source.text.get(at..).is_some_and(|rest| rest.starts_with(['"', '\'']));
        let body = at + usize::from(quoted);
        let verbatim = source.text.get(body..).is_some_and(|rest| rest.starts_with(&text));
        Self { text, kind, at, body: verbatim.then_some(body) }
    }

    /// The position in the file of a byte of the text; that of the scalar if the text is folded or escaped.
    pub(crate) fn position(&self, inner: usize) -> usize {
        self.body.map_or(self.at, |body| body + inner)
    }

    /// A fault at a byte of the text.
    pub fn fault(&self, source: Source<'_>, inner: usize, message: impl Into<String>) -> Fault {
        match self.body {
            Some(body) => source.fault(body + inner, message),
            None => source.fault_within(self.at, &self.text, inner, message),
        }
    }
}

/// The tree that serde deserializes, without positions.
#[derive(Debug)]
enum Raw {
    Text(String),
    Other(Kind),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Bool(value)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Number))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Number))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Number))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Number))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Number))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Other(Kind::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Raw::Map(fields))
    }
}
