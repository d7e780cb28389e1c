//! Instructions that compute: sums, products, functions, shifts and bits, comparisons.

use super::function::Operand;
use super::module::Builder;
use super::opcode::{Opcode, Type};
use super::tokens::{Literal, Parsed};
use crate::instruction::{
    Carry, Comparison, Count, FloatBinary, FloatType, FloatUnary, IntBinary, IntType, IntUnary, Logic, Mode,
    Op, Outcome, Part, Rounding,
};

/// The parts that say how a floating point result is formed.
const MODES: &[&str] = &["rn", "rz", "rm", "rp", "ftz", "sat"];

/// Whether a mode is one of those that are computed for a type: f64 has only rounding to nearest where a result is not a sum or product.
fn check_mode(opcode: &Opcode<'_>, ty: FloatType, mode: Mode) -> Parsed<()> {
    let is_known = ty != FloatType::F64 || (mode.rounding == Rounding::Nearest && !mode.flushes);
    if is_known { Ok(()) } else { opcode.unknown() }
}

impl<'s> Builder<'s, '_> {
    pub(super) fn sum(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let is_sub = opcode.name.starts_with("sub");
        match opcode.ty()? {
            Type::Float(ty) => {
                opcode.only(MODES)?;
                let op = if is_sub { FloatBinary::Sub } else { FloatBinary::Add };
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::FloatBinary { op, ty, mode: opcode.mode(), to, a, b });
            }
            Type::Int(ty) if opcode.has("cc") || opcode.name.ends_with('c') => {
                opcode.only(&["cc"])?;
                let bits = ty.bits();
                let (to, [a, b]) = self.registers_of(operands, bits)?;
                let op = if is_sub { Carry::Sub } else { Carry::Add };
                let (takes, gives) = (opcode.name.ends_with('c'), opcode.has("cc"));
                self.emit(Op::Carry { op, wide: bits > 32, takes, gives, to, a, b, c: a });
            }
            Type::Int(ty) if opcode.has("sat") && ty == IntType::S32 => {
                opcode.only(&["sat"])?;
                let (to, [a, b]) = self.registers_of(operands, 32)?;
                self.emit(Op::AddSaturated { is_sub, to, a, b });
            }
            Type::Int(ty) => {
                opcode.only(&[])?;
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                let op = if is_sub { IntBinary::Sub } else { IntBinary::Add };
                self.emit(Op::IntBinary { op, ty, to, a, b });
            }
            Type::Pred => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn product(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let ty = match opcode.ty()? {
            Type::Float(ty) => {
                opcode.only(MODES)?;
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::FloatBinary { op: FloatBinary::Mul, ty, mode: opcode.mode(), to, a, b });
                return Ok(());
            }
            Type::Int(ty) => ty,
            Type::Pred => return opcode.unknown(),
        };
        let bits = ty.bits();
        match opcode.modifiers() {
            ["wide"] if bits <= 32 => {
                let [target, a, b] = operands else { return opcode.unknown() };
                let to = self.target_of(target, 2 * bits)?;
                let (a, b) = (self.source_of(a, bits)?, self.source_of(b, bits)?);
                self.emit(Op::MulWide { ty, to, a, b });
            }
            ["lo" | "hi"] => {
                let (to, [a, b]) = self.registers_of(operands, bits)?;
                let op = if opcode.has("lo") { IntBinary::MulLow } else { IntBinary::MulHigh };
                self.emit(Op::IntBinary { op, ty, to, a, b });
            }
            _ => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn multiply_add(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let ty = match opcode.ty()? {
            Type::Float(ty) => {
                opcode.only(MODES)?;
                check_mode(opcode, ty, opcode.mode())?;
                let (to, [a, b, c]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::Fma { ty, mode: opcode.mode(), to, a, b, c });
                return Ok(());
            }
            Type::Int(ty) => ty,
            Type::Pred => return opcode.unknown(),
        };
        opcode.only(&["lo", "hi", "wide", "cc"])?;
        let bits = ty.bits();
        let [target, a, b, c] = operands else { return opcode.unknown() };
        let of_sum = if opcode.has("wide") { 2 * bits } else { bits };
        let to = self.target_of(target, of_sum)?;
        let (a, b, c) = (self.source_of(a, bits)?, self.source_of(b, bits)?, self.source_of(c, of_sum)?);
        let part = match opcode.parts.first() {
            Some(&"lo") => Part::Low,
            Some(&"hi") => Part::High,
            Some(&"wide") if bits <= 32 => Part::Wide,
            _ => return opcode.unknown(),
        };
        let (takes, gives) = (opcode.name == "madc", opcode.has("cc"));
        let op = match part {
            _ if !takes && !gives => Op::Mad { part, ty, to, a, b, c },
            Part::Low if bits >= 32 => {
                Op::Carry { op: Carry::MadLow, wide: bits > 32, takes, gives, to, a, b, c }
            }
            // The high half of a signed product is another one.
            Part::High if matches!(ty, IntType::U32 | IntType::U64) => {
                Op::Carry { op: Carry::MadHigh, wide: bits > 32, takes, gives, to, a, b, c }
            }
            _ => return opcode.unknown(),
        };
        self.emit(op);
        Ok(())
    }

    pub(super) fn two_operands(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        match opcode.ty()? {
            Type::Int(ty) => {
                opcode.only(&[])?;
                let op = match opcode.name {
                    "div" => IntBinary::Div,
                    "rem" => IntBinary::Rem,
                    "min" => IntBinary::Min,
                    "max" => IntBinary::Max,
                    _ => return opcode.unknown(),
                };
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::IntBinary { op, ty, to, a, b });
            }
            Type::Float(ty) => {
                let (op, mode) = float_binary(opcode, ty)?;
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::FloatBinary { op, ty, mode, to, a, b });
            }
            Type::Pred => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn one_operand(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        match opcode.ty()? {
            Type::Int(ty) => {
                opcode.only(&[])?;
                let op = match opcode.name {
                    "neg" => IntUnary::Neg,
                    "abs" => IntUnary::Abs,
                    _ => return opcode.unknown(),
                };
                let (to, [a]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::IntUnary { op, ty, to, a });
            }
            Type::Float(ty) => {
                let op = float_unary(opcode, ty)?;
                let (to, [a]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::FloatUnary { op, ty, mode: opcode.mode(), to, a });
            }
            Type::Pred => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn logic(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        opcode.only(&[])?;
        let (logic, op) = match opcode.name {
            "and" => (Logic::And, IntBinary::And),
            "or" => (Logic::Or, IntBinary::Or),
            _ => (Logic::Xor, IntBinary::Xor),
        };
        match (opcode.ty()?, operands) {
            (Type::Pred, [target, a, b]) => {
                let to = self.target_of(target, 1)?;
                let (a, b) = (self.predicate(a)?, self.predicate(b)?);
                self.emit(Op::Logic { op: logic, to, a, b });
            }
            (Type::Int(ty), _) => {
                let (to, [a, b]) = self.registers_of(operands, ty.bits())?;
                self.emit(Op::IntBinary { op, ty, to, a, b });
            }
            _ => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn bits_of_one(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        opcode.only(&[])?;
        let [target, a] = operands else { return opcode.unknown() };
        let ty = match opcode.ty()? {
            Type::Pred if opcode.name == "not" => {
                let to = self.target_of(target, 1)?;
                let (a, all) = (self.predicate(a)?, self.symbols.predicate_constant(true)?);
                self.emit(Op::Logic { op: Logic::Xor, to, a, b: all });
                return Ok(());
            }
            Type::Int(ty) => ty,
            _ => return opcode.unknown(),
        };
        let bits = ty.bits();
        let count = match opcode.name {
            "clz" => Some(Count::LeadingZeros),
            "popc" => Some(Count::Ones),
            "bfind" => Some(Count::Highest),
            _ => None,
        };
        let a = self.source_of(a, bits)?;
        if let Some(op) = count {
            let to = self.target_of(target, 32)?;
            self.emit(Op::Count { op, ty, to, a });
            return Ok(());
        }
        let op = match opcode.name {
            "not" => IntUnary::Not,
            "cnot" => IntUnary::LogicalNot,
            _ => IntUnary::ReverseBits,
        };
        let to = self.target_of(target, bits)?;
        self.emit(Op::IntUnary { op, ty, to, a });
        Ok(())
    }

    pub(super) fn shift(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let Type::Int(ty) = opcode.ty()? else { return opcode.unknown() };
        if opcode.name == "shf" {
            opcode.only(&["l", "r", "clamp", "wrap"])?;
            let (to, [a, b, by]) = self.registers_of(operands, 32)?;
            let (left, wraps) = (opcode.has("l"), opcode.has("wrap"));
            self.emit(Op::FunnelShift { left, wraps, to, a, b, by });
            return Ok(());
        }
        opcode.only(&[])?;
        let [target, a, by] = operands else { return opcode.unknown() };
        let bits = ty.bits();
        let to = self.target_of(target, bits)?;
        let (a, by) = (self.source_of(a, bits)?, self.narrow(by)?);
        self.emit(Op::Shift { left: opcode.name == "shl", ty, to, a, by });
        Ok(())
    }

    pub(super) fn bit_fields(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        opcode.only(&[])?;
        let Type::Int(ty) = opcode.ty()? else { return opcode.unknown() };
        let bits = ty.bits();
        match (opcode.name, operands) {
            ("bfe", [target, a, start, length]) => {
                let (to, a) = (self.target_of(target, bits)?, self.source_of(a, bits)?);
                let (start, length) = (self.narrow(start)?, self.narrow(length)?);
                self.emit(Op::BitFieldExtract { ty, to, a, start, length });
            }
            ("bfi", [target, a, b, start, length]) => {
                let to = self.target_of(target, bits)?;
                let (a, b) = (self.source_of(a, bits)?, self.source_of(b, bits)?);
                let (start, length) = (self.narrow(start)?, self.narrow(length)?);
                self.emit(Op::BitFieldInsert { wide: bits > 32, to, a, b, start, length });
            }
            ("prmt", _) => {
                let (to, [a, b, selector]) = self.registers_of(operands, 32)?;
                self.emit(Op::Permute { to, a, b, selector });
            }
            ("lop3", [target, a, b, c, Operand::Number(Literal::Int(table))]) if bits == 32 => {
                let to = self.target_of(target, 32)?;
                let (a, b, c) = (self.narrow(a)?, self.narrow(b)?, self.narrow(c)?);
                self.emit(Op::Logic3 { table: *table as u8, to, a, b, c });
            }
            _ => return opcode.unknown(),
        }
        Ok(())
    }

    /// `setp.lt.and.f32 p|q, a, b, !c`.
    pub(super) fn compare(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let [target, a, b, rest @ ..] = operands else { return opcode.unknown() };
        let ty = opcode.ty()?;
        let Some(op) = opcode.parts.first().and_then(|name| comparison(name)) else {
            return opcode.unknown();
        };
        let logic = match opcode.modifiers().get(1) {
            Some(&"and") => Some(Logic::And),
            Some(&"or") => Some(Logic::Or),
            Some(&"xor") => Some(Logic::Xor),
            Some(&"ftz") | None => None,
            _ => return opcode.unknown(),
        };
        let with = match (logic, rest) {
            (None, []) => None,
            (Some(logic), [other]) => Some((logic, self.predicate(other)?)),
            _ => return opcode.unknown(),
        };
        let (result, inverse) = match *target {
            Operand::Name(name) => (self.optional_target(name, 1)?, None),
            Operand::Pair(first, second) => {
                (self.optional_target(first, 1)?, self.optional_target(second, 1)?)
            }
            _ => return opcode.unknown(),
        };
        let outcome = Outcome { result, inverse, with };
        let (a, b) = (self.source_of(a, ty.bits())?, self.source_of(b, ty.bits())?);
        match ty {
            Type::Int(ty) => self.emit(Op::CompareInt { op, ty, outcome, a, b }),
            Type::Float(ty) => {
                self.emit(Op::CompareFloat { op, ty, flushes: opcode.has("ftz"), outcome, a, b });
            }
            Type::Pred => return opcode.unknown(),
        }
        Ok(())
    }

    pub(super) fn select(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        opcode.only(&[])?;
        let bits = opcode.ty()?.bits();
        let [target, a, b, by] = operands else { return opcode.unknown() };
        let to = self.target_of(target, bits)?;
        let (a, b) = (self.source_of(a, bits)?, self.source_of(b, bits)?);
        let by = self.predicate(by)?;
        self.emit(Op::Select { wide: bits > 32, to, a, b, by });
        Ok(())
    }
}

/// The operation, and its mode: what is approximate is rounded once.
fn float_binary(opcode: &Opcode<'_>, ty: FloatType) -> Parsed<(FloatBinary, Mode)> {
    let mode = opcode.mode();
    let is_single = ty == FloatType::F32;
    match opcode.name {
        "div" if is_single && opcode.has("approx") => {
            opcode.only(&["approx", "ftz"])?;
            Ok((FloatBinary::DivApprox, mode))
        }
        "div" if is_single && opcode.has("full") => {
            opcode.only(&["full", "ftz"])?;
            Ok((FloatBinary::Div, mode))
        }
        "div" => {
            opcode.only(MODES)?;
            check_mode(opcode, ty, mode)?;
            Ok((FloatBinary::Div, mode))
        }
        "min" | "max" => {
            opcode.only(&["ftz", "NaN"])?;
            Ok((
                match (opcode.name, opcode.has("NaN")) {
                    ("min", false) => FloatBinary::Min,
                    ("min", true) => FloatBinary::MinNan,
                    (_, false) => FloatBinary::Max,
                    (_, true) => FloatBinary::MaxNan,
                },
                mode,
            ))
        }
        "copysign" => {
            opcode.only(&[])?;
            Ok((FloatBinary::CopySign, mode))
        }
        _ => opcode.unknown(),
    }
}

fn float_unary(opcode: &Opcode<'_>, ty: FloatType) -> Parsed<FloatUnary> {
    let (is_approximate, is_double) = (opcode.has("approx"), ty == FloatType::F64);
    match opcode.name {
        "rcp" | "rsqrt" if is_double && is_approximate => {
            opcode.only(&["approx", "ftz"])?;
            return Ok(match opcode.name {
                "rcp" => FloatUnary::ReciprocalOfHighBits,
                _ => FloatUnary::ReciprocalSqrtOfHighBits,
            });
        }
        "neg" | "abs" => opcode.only(&["ftz"])?,
        "sqrt" | "rcp" => {
            opcode.only(&["approx", "rn", "rz", "rm", "rp", "ftz"])?;
            check_mode(opcode, ty, opcode.mode())?;
        }
        "tanh" | "ex2" if !is_double => opcode.only(&["approx", "ftz"])?,
        _ if ty == FloatType::F32 => opcode.only(&["approx", "ftz"])?,
        _ => return opcode.unknown(),
    }
    Ok(match opcode.name {
        "neg" => FloatUnary::Neg,
        "abs" => FloatUnary::Abs,
        "sqrt" => FloatUnary::Sqrt,
        "rcp" => FloatUnary::Reciprocal,
        "rsqrt" => FloatUnary::ReciprocalSqrt,
        "ex2" => FloatUnary::Exp2,
        "lg2" => FloatUnary::Log2,
        "sin" => FloatUnary::Sin,
        "cos" => FloatUnary::Cos,
        _ => FloatUnary::Tanh,
    })
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" => Comparison::Eq,
        "ne" => Comparison::Ne,
        "lt" | "lo" => Comparison::Lt,
        "le" | "ls" => Comparison::Le,
        "gt" | "hi" => Comparison::Gt,
        "ge" | "hs" => Comparison::Ge,
        "equ" => Comparison::EqOrNan,
        "neu" => Comparison::NeOrNan,
        "ltu" => Comparison::LtOrNan,
        "leu" => Comparison::LeOrNan,
        "gtu" => Comparison::GtOrNan,
        "geu" => Comparison::GeOrNan,
        "num" => Comparison::Ordered,
        "nan" => Comparison::Unordered,
        _ => return None,
    })
}
