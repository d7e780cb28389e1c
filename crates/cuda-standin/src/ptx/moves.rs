//! Instructions that move values: between registers, types, memory and lanes; and calls.

use super::function::Operand;
use super::module::{Builder, PendingCall};
use super::opcode::{Opcode, Type, number, rounding};
use super::tokens::Parsed;
use crate::instruction::{
    Access, Atomic, AtomicOp, Conversion, IntBinary, IntType, Logic, Number, Op, Reg, Shuffle, Space, Vote,
};

/// Parts of loads, stores and atomic operations that say nothing here: there is no cache, and all memory is ordered.
const ORDERS: &[&str] = &[
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "gpu", "cta", "sys", "cluster", "ca",
    "cg", "cs", "cv", "lu", "wb", "wt", "nc", "noftz",
];

fn is_order(part: &str) -> bool {
    ORDERS.contains(&part) || part.starts_with("L1::") || part.starts_with("L2::")
}

fn space(part: &str) -> Option<Space> {
    Some(match part {
        "global" | "const" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

impl<'s> Builder<'s, '_> {
    pub(super) fn mov(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        opcode.only(&[])?;
        let [target, from] = operands else { return opcode.unknown() };
        let ty = opcode.ty()?;
        let bits = ty.bits();
        match (target, from) {
            _ if ty == Type::Pred => {
                let (to, a) = (self.target_of(target, 1)?, self.predicate(from)?);
                self.emit(Op::Logic { op: Logic::Or, to, a, b: a });
            }
            (Operand::List(parts), _) => {
                let from = self.source_of(from, bits)?;
                let part_bits = part_bits(opcode, bits, parts.len())?;
                let parts = parts.iter().map(|part| self.part(part, part_bits)).collect::<Parsed<_>>()?;
                self.emit(Op::Unpack { wide: bits > 32, from, part_bits, parts });
            }
            (_, Operand::List(parts)) => {
                let to = self.target_of(target, bits)?;
                let part_bits = part_bits(opcode, bits, parts.len())?;
                let parts =
                    parts.iter().map(|part| self.source_of(part, part_bits)).collect::<Parsed<_>>()?;
                self.emit(Op::Pack { wide: bits > 32, to, part_bits, parts });
            }
            _ => {
                let (to, from) = (self.target_of(target, bits)?, self.source_of(from, bits)?);
                self.emit(Op::Move { wide: bits > 32, to, from });
            }
        }
        Ok(())
    }

    fn part(&mut self, operand: &Operand<'s>, bits: u8) -> Parsed<Option<Reg>> {
        match operand {
            Operand::Name(name) => self.optional_target(name, bits),
            _ => Err(format!("expected a register but got {operand:?}")),
        }
    }

    /// `cvt.rn.ftz.sat.f32.f64 d, a`.
    pub(super) fn convert(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let ([target, source], [modifiers @ .., to, from]) = (operands, opcode.parts.as_slice()) else {
            return opcode.unknown();
        };
        let (Some(to), Some(from)) = (number(to), number(from)) else { return opcode.unknown() };
        let is_known = |part: &&str| rounding(part).is_some() || ["ftz", "sat"].contains(part);
        if !modifiers.iter().all(is_known) {
            return opcode.unknown();
        }
        let mode = opcode.mode();
        let is_real = |number| matches!(number, Number::Float(_));
        let to_integer = modifiers.iter().any(|part| part.ends_with('i')) && is_real(to);
        if to_integer && to != from {
            return opcode.unknown();
        }
        let target = self.target(target)?;
        let (source, source_bits) = match source {
            Operand::Name(_) => {
                let register = self.source(source)?;
                (register.number, register.bits)
            }
            _ => (self.source_of(source, from.bits().max(16))?, from.bits().max(16)),
        };
        if target.bits < to.bits() || source_bits < from.bits() {
            return Err(format!("`{}` of registers of {source_bits} and {} bits", opcode.text, target.bits));
        }
        let register_bits = (target.bits, source_bits);
        let conversion = Box::new(Conversion { to, from, mode, to_integer, register_bits });
        let (to_register, from_register) = (target.number, source);
        self.emit(if is_real(to) || is_real(from) || mode.saturates {
            Op::Convert { to: to_register, from: from_register, conversion }
        } else {
            Op::Extend { to: to_register, from: from_register, conversion }
        });
        Ok(())
    }

    /// `cvta.to.global.u64` and `cvta.shared.u64`.
    pub(super) fn convert_address(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let [target, from] = operands else { return opcode.unknown() };
        let (is_to_generic, kind) = match opcode.modifiers() {
            ["to", kind] => (false, *kind),
            [kind] => (true, *kind),
            _ => return opcode.unknown(),
        };
        let Some(space) = space(kind) else { return opcode.unknown() };
        let (to, from) = (self.target_of(target, 64)?, self.source_of(from, 64)?);
        self.emit(match space {
            Space::Global => Op::Move { wide: true, to, from },
            _ => Op::ConvertAddress { space, is_to_generic, to, from },
        });
        Ok(())
    }

    /// The kind of memory that an access names, and how many elements it has.
    fn access_parts(&self, opcode: &Opcode<'s>) -> Parsed<(Space, usize)> {
        let (mut found, mut count) = (Space::Generic, 1);
        for part in opcode.modifiers() {
            match *part {
                "v2" => count = 2,
                "v4" => count = 4,
                "v8" => count = 8,
                part => match space(part) {
                    Some(space) => found = space,
                    None if is_order(part) => {}
                    None => return opcode.unknown(),
                },
            }
        }
        Ok((found, count))
    }

    pub(super) fn load(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let [target, address] = operands else { return opcode.unknown() };
        let (space, count) = self.access_parts(opcode)?;
        let Some(element) = opcode.parts.last().and_then(|name| number(name)) else {
            return opcode.unknown();
        };
        let address = self.address(address, space)?;
        let elements = match target {
            Operand::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut register_bits = 16;
        let mut registers = Vec::new();
        for element in elements {
            let register = match element {
                Operand::Name("_") => None,
                one => Some(self.target(one)?),
            };
            register_bits = register.map_or(register_bits, |register| register.bits);
            registers.push(register.map(|register| register.number));
        }
        if registers.len() != count || register_bits < element.bits() {
            return opcode.unknown();
        }
        let is_signed = matches!(element, Number::Int { is_signed: true, .. });
        let (bytes, registers) = (element.bits() / 8, registers.into());
        self.emit(Op::Load(Box::new(Access { address, bytes, is_signed, register_bits, registers })));
        Ok(())
    }

    pub(super) fn store(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let [address, from] = operands else { return opcode.unknown() };
        let (space, count) = self.access_parts(opcode)?;
        let Some(element) = opcode.parts.last().and_then(|name| number(name)) else {
            return opcode.unknown();
        };
        let address = self.address(address, space)?;
        let elements = match from {
            Operand::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut register_bits = element.bits();
        let mut registers = Vec::new();
        for one in elements {
            // The register may have more bits than are stored.
            if let Operand::Name(name) = one
                && let Some(register) = self.symbols.register(name)?
            {
                register_bits = register.bits;
                registers.push(Some(register.number));
            } else {
                registers.push(Some(self.source_of(one, element.bits().max(16))?));
            }
        }
        if registers.len() != count || register_bits < element.bits() {
            return opcode.unknown();
        }
        let (bytes, registers) = (element.bits() / 8, registers.into());
        self.emit(Op::Store(Box::new(Access { address, bytes, is_signed: false, register_bits, registers })));
        Ok(())
    }

    /// `atom.global.cas.b64 d, [a], b, c`; `red` has no `d`.
    pub(super) fn atomic(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let Some(number) = opcode.parts.last().and_then(|name| number(name)) else { return opcode.unknown() };
        let (mut found, mut op) = (Space::Generic, None);
        for part in opcode.modifiers() {
            match (space(part), atomic_op(part)) {
                (Some(space), _) => found = space,
                (_, Some(known)) => op = Some(known),
                _ if is_order(part) => {}
                _ => return opcode.unknown(),
            }
        }
        let Some(op) = op else { return opcode.unknown() };
        let (result, operands) = match (opcode.name, operands) {
            ("atom", [Operand::Name(name), rest @ ..]) => (self.optional_target(name, number.bits())?, rest),
            ("red", all) => (None, all),
            _ => return opcode.unknown(),
        };
        let (address, value, replacement) = match operands {
            [address, value] if op != AtomicOp::CompareAndSwap => (address, value, value),
            [address, value, other] if op == AtomicOp::CompareAndSwap => (address, value, other),
            _ => return opcode.unknown(),
        };
        let address = self.address(address, found)?;
        let (value, replacement) =
            (self.source_of(value, number.bits())?, self.source_of(replacement, number.bits())?);
        self.emit(Op::Atomic(Box::new(Atomic { op, number, address, result, value, replacement })));
        Ok(())
    }

    pub(super) fn between_lanes(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        match (opcode.name, opcode.parts.as_slice(), operands) {
            ("shfl", ["sync", mode, "b32"], [target, a, b, c, members]) => {
                let op = match *mode {
                    "up" => Shuffle::Up,
                    "down" => Shuffle::Down,
                    "bfly" => Shuffle::Butterfly,
                    "idx" => Shuffle::Index,
                    _ => return opcode.unknown(),
                };
                let (to, is_valid) = self.value_and_predicate(opcode, target)?;
                let (a, b, c) = (self.narrow(a)?, self.narrow(b)?, self.narrow(c)?);
                let members = self.narrow(members)?;
                self.emit(Op::Shuffle { op, to, is_valid, a, b, c, members });
            }
            ("vote", ["sync", mode, ty], [target, a, members]) => {
                let (op, bits) = match (*mode, *ty) {
                    ("all", "pred") => (Vote::All, 1),
                    ("any", "pred") => (Vote::Any, 1),
                    ("uni", "pred") => (Vote::Uniform, 1),
                    ("ballot", "b32") => (Vote::Ballot, 32),
                    _ => return opcode.unknown(),
                };
                let to = self.target_of(target, bits)?;
                let (a, members) = (self.predicate(a)?, self.narrow(members)?);
                self.emit(Op::Vote { op, to, a, members });
            }
            ("match", [mode @ ("any" | "all"), "sync", ty @ ("b32" | "b64")], [target, a, members]) => {
                let (to, is_equal) = self.value_and_predicate(opcode, target)?;
                let wide = *ty == "b64";
                let a = self.source_of(a, if wide { 64 } else { 32 })?;
                let members = self.narrow(members)?;
                self.emit(Op::Match { all: *mode == "all", wide, to, is_equal, a, members });
            }
            ("redux", ["sync", name, ty], [target, a, members]) => {
                let op = match *name {
                    "add" => IntBinary::Add,
                    "min" => IntBinary::Min,
                    "max" => IntBinary::Max,
                    "and" => IntBinary::And,
                    "or" => IntBinary::Or,
                    "xor" => IntBinary::Xor,
                    _ => return opcode.unknown(),
                };
                let ty = match *ty {
                    "s32" => IntType::S32,
                    "u32" | "b32" => IntType::U32,
                    _ => return opcode.unknown(),
                };
                let to = self.target_of(target, 32)?;
                let (a, members) = (self.narrow(a)?, self.narrow(members)?);
                self.emit(Op::Reduce { op, ty, to, a, members });
            }
            ("activemask", ["b32"], [target]) => {
                let to = self.target_of(target, 32)?;
                self.emit(Op::ActiveMask { to });
            }
            _ => return opcode.unknown(),
        }
        Ok(())
    }

    /// `%r1|%p1`, or the first alone.
    fn value_and_predicate(
        &mut self,
        opcode: &Opcode<'s>,
        operand: &Operand<'s>,
    ) -> Parsed<(Reg, Option<Reg>)> {
        match *operand {
            Operand::Name(_) => Ok((self.target_of(operand, 32)?, None)),
            Operand::Pair(value, predicate) => {
                Ok((self.target_of(&Operand::Name(value), 32)?, self.optional_target(predicate, 1)?))
            }
            _ => opcode.unknown(),
        }
    }

    /// `call.uni (results), name, (arguments)`, where all but the name may be missing.
    pub(super) fn call(&mut self, opcode: &Opcode<'s>, operands: &[Operand<'s>]) -> Parsed<()> {
        let empty: &[Operand<'s>] = &[];
        let (outputs, name, inputs) = match operands {
            [Operand::List(outputs), Operand::Name(name), Operand::List(inputs)] => {
                (outputs.as_slice(), *name, inputs.as_slice())
            }
            [Operand::List(outputs), Operand::Name(name)] => (outputs.as_slice(), *name, empty),
            [Operand::Name(name), Operand::List(inputs)] => (empty, *name, inputs.as_slice()),
            [Operand::Name(name)] => (empty, *name, empty),
            _ => return opcode.unknown(),
        };
        let mut local = |operand: &Operand<'s>| -> Parsed<u64> {
            let Operand::Name(name) = operand else { return opcode.unknown() };
            match self.symbol(name)? {
                Some(symbol) if symbol.space == Space::Local => Ok(symbol.address),
                _ => Err(format!("`{name}` is no parameter of a call")),
            }
        };
        let inputs = inputs.iter().map(&mut local).collect::<Parsed<Vec<u64>>>()?;
        let outputs = outputs.iter().map(&mut local).collect::<Parsed<Vec<u64>>>()?;
        let (at, line) = (self.code.len(), self.current.line);
        self.calls.push(PendingCall { at, name: name.to_owned(), inputs, outputs, line });
        for _ in 0..3 {
            self.emit(Op::Nop);
        }
        Ok(())
    }
}

fn part_bits(opcode: &Opcode<'_>, bits: u8, count: usize) -> Parsed<u8> {
    match (bits, count) {
        (64, 2) => Ok(32),
        (64, 4) | (32, 2) => Ok(16),
        _ => opcode.unknown(),
    }
}

fn atomic_op(part: &str) -> Option<AtomicOp> {
    Some(match part {
        "add" => AtomicOp::Add,
        "exch" => AtomicOp::Exchange,
        "cas" => AtomicOp::CompareAndSwap,
        "min" => AtomicOp::Min,
        "max" => AtomicOp::Max,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        "inc" => AtomicOp::Increment,
        "dec" => AtomicOp::Decrement,
        _ => return None,
    })
}
