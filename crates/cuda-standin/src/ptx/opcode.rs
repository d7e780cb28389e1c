//! The parts of an opcode, `setp.lt.and.f32`: its name, its type, and what is between.

use super::tokens::Parsed;
use crate::instruction::{FloatType, IntType, Mode, Number, Rounding};

/// An opcode, split at its dots.
#[derive(Clone, Debug)]
pub(super) struct Opcode<'s> {
    pub(super) text: &'s str,
    pub(super) name: &'s str,
    pub(super) parts: Vec<&'s str>,
}

/// A type of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    Int(IntType),
    Float(FloatType),
}

impl Type {
    pub(super) fn bits(self) -> u8 {
        match self {
            Type::Pred => 1,
            Type::Int(ty) => ty.bits(),
            Type::Float(ty) => ty.bits(),
        }
    }
}

/// The number type of a name; untyped bits are unsigned.
pub(super) fn number(name: &str) -> Option<Number> {
    let int = |bits, is_signed| Some(Number::Int { bits, is_signed });
    match name {
        "u8" | "b8" => int(8, false),
        "s8" => int(8, true),
        "u16" | "b16" => int(16, false),
        "s16" => int(16, true),
        "u32" | "b32" => int(32, false),
        "s32" => int(32, true),
        "u64" | "b64" => int(64, false),
        "s64" => int(64, true),
        "f16" => Some(Number::Float(FloatType::F16)),
        "bf16" => Some(Number::Float(FloatType::BF16)),
        "f32" => Some(Number::Float(FloatType::F32)),
        "f64" => Some(Number::Float(FloatType::F64)),
        _ => None,
    }
}

fn type_of(name: &str) -> Option<Type> {
    if name == "pred" {
        return Some(Type::Pred);
    }
    Some(match number(name)? {
        Number::Float(ty) => Type::Float(ty),
        Number::Int { bits: 16, is_signed } => Type::Int(if is_signed { IntType::S16 } else { IntType::U16 }),
        Number::Int { bits: 32, is_signed } => Type::Int(if is_signed { IntType::S32 } else { IntType::U32 }),
        Number::Int { bits: 64, is_signed } => Type::Int(if is_signed { IntType::S64 } else { IntType::U64 }),
        Number::Int { .. } => return None,
    })
}

impl<'s> Opcode<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        let mut parts = text.split('.');
        let name = parts.next().unwrap_or_default();
        Opcode { text, name, parts: parts.collect() }
    }

    /// That the instruction is not known.
    pub(super) fn unknown<T>(&self) -> Parsed<T> {
        Err(format!("the instruction `{}` is not known", self.text))
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    /// The type, which is the last part.
    pub(super) fn ty(&self) -> Parsed<Type> {
        match self.parts.last().and_then(|name| type_of(name)) {
            Some(ty) => Ok(ty),
            None => self.unknown(),
        }
    }

    /// The parts before the last.
    pub(super) fn modifiers(&self) -> &[&'s str] {
        self.parts.split_last().map_or(&[], |(_, rest)| rest)
    }

    /// Checks that all parts before the type are among those listed.
    pub(super) fn only(&self, known: &[&str]) -> Parsed<()> {
        if self.modifiers().iter().all(|part| known.contains(part)) { Ok(()) } else { self.unknown() }
    }

    /// How a floating point result is formed.
    pub(super) fn mode(&self) -> Mode {
        let rounding = self.parts.iter().find_map(|part| rounding(part)).unwrap_or(Rounding::Nearest);
        Mode { rounding, flushes: self.has("ftz"), saturates: self.has("sat") }
    }
}

/// The rounding mode of a part; those that end with `i` round to integers.
pub(super) fn rounding(part: &str) -> Option<Rounding> {
    Some(match part {
        "rn" | "rni" => Rounding::Nearest,
        "rz" | "rzi" => Rounding::ToZero,
        "rm" | "rmi" => Rounding::Down,
        "rp" | "rpi" => Rounding::Up,
        _ => return None,
    })
}
