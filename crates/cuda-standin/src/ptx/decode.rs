//! The table of instructions, and the registers of their operands.

use super::function::{Labels, Operand};
use super::module::Builder;
use super::opcode::Opcode;
use super::symbols::Register;
use super::tokens::{Literal, Parsed};
use crate::instruction::{Address, Base, Instruction, Op, Predicate, Reg, Space};

impl<'s> Builder<'s, '_> {
    /// Adds an instruction to the code, with the guard and the line of the current one.
    pub(super) fn emit(&mut self, op: Op) {
        let (guard, line) = (self.current.guard, self.current.line);
        self.code.push(Instruction { op, guard, line });
    }

    /// Decodes an instruction.
    pub(super) fn decode(
        &mut self,
        opcode: &Opcode<'s>,
        operands: &[Operand<'s>],
        labels: &mut Labels<'s>,
    ) -> Parsed<()> {
        match opcode.name {
            "add" | "sub" | "addc" | "subc" => self.sum(opcode, operands),
            "mul" => self.product(opcode, operands),
            "mad" | "madc" | "fma" => self.multiply_add(opcode, operands),
            "div" | "rem" | "min" | "max" | "copysign" => self.two_operands(opcode, operands),
            "neg" | "abs" | "sqrt" | "rcp" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.one_operand(opcode, operands)
            }
            "and" | "or" | "xor" => self.logic(opcode, operands),
            "not" | "cnot" | "brev" | "clz" | "popc" | "bfind" => self.bits_of_one(opcode, operands),
            "shl" | "shr" | "shf" => self.shift(opcode, operands),
            "bfe" | "bfi" | "prmt" | "lop3" => self.bit_fields(opcode, operands),
            "setp" => self.compare(opcode, operands),
            "selp" => self.select(opcode, operands),
            "mov" => self.mov(opcode, operands),
            "cvt" => self.convert(opcode, operands),
            "cvta" => self.convert_address(opcode, operands),
            "ld" | "ldu" => self.load(opcode, operands),
            "st" => self.store(opcode, operands),
            "atom" | "red" => self.atomic(opcode, operands),
            "shfl" | "vote" | "match" | "redux" | "activemask" => self.between_lanes(opcode, operands),
            _ => self.control(opcode, operands, labels),
        }
    }

    /// Branches, calls, barriers, and what has no effect here.
    fn control(
        &mut self,
        opcode: &Opcode<'s>,
        operands: &[Operand<'s>],
        labels: &mut Labels<'s>,
    ) -> Parsed<()> {
        match (opcode.text, operands) {
            ("bra" | "bra.uni", [Operand::Name(label)]) => {
                labels.branch(self.code.len(), label, self.current.line);
                self.emit(Op::Nop);
            }
            ("call" | "call.uni", _) => self.call(opcode, operands)?,
            ("ret" | "ret.uni" | "exit", []) => self.emit(Op::Return),
            ("trap", []) => self.emit(Op::Trap),
            ("bar.warp.sync", [members]) => {
                let members = self.narrow(members)?;
                self.emit(Op::WarpBarrier { members });
            }
            ("bar.sync" | "barrier.sync" | "barrier.sync.aligned" | "bar.cta.sync", [number])
                if *number == Operand::Number(Literal::Int(0)) =>
            {
                self.has_barriers = true;
                self.emit(Op::Barrier);
            }
            (text, _)
                if ["membar.", "fence.", "nanosleep.", "prefetch.", "discard."]
                    .iter()
                    .any(|name| text.starts_with(name)) =>
            {
                self.emit(Op::Nop);
            }
            _ => return opcode.unknown(),
        }
        Ok(())
    }

    /// A register that an instruction writes.
    pub(super) fn target(&mut self, operand: &Operand<'s>) -> Parsed<Register> {
        let Operand::Name(name) = operand else {
            return Err(format!("expected a register but got {operand:?}"));
        };
        match self.symbols.register(name)? {
            Some(register) => Ok(register),
            None => Err(format!("there is no register `{name}`")),
        }
    }

    /// A register to write of so many bits; of 16 and 32 they are in the same file.
    pub(super) fn target_of(&mut self, operand: &Operand<'s>, bits: u8) -> Parsed<Reg> {
        let register = self.target(operand)?;
        if register.is_wide() == (bits > 32) && (register.bits == 1) == (bits == 1) {
            return Ok(register.number);
        }
        Err(format!("expected a register of {bits} bits but got {operand:?} of {}", register.bits))
    }

    /// A register to write, or `_`.
    pub(super) fn optional_target(&mut self, name: &'s str, bits: u8) -> Parsed<Option<Reg>> {
        if name == "_" { Ok(None) } else { self.target_of(&Operand::Name(name), bits).map(Some) }
    }

    /// A register to read; constants and addresses of variables get one.
    pub(super) fn source(&mut self, operand: &Operand<'s>) -> Parsed<Register> {
        self.target(operand)
    }

    /// A register to read of so many bits, or a constant, or the address of a variable.
    pub(super) fn source_of(&mut self, operand: &Operand<'s>, bits: u8) -> Parsed<Reg> {
        let (name, offset) = match operand {
            Operand::Number(literal) => return self.symbols.constant(*literal, bits),
            Operand::Name(name) => (*name, 0),
            Operand::Address { base: Some(name), offset } => (*name, *offset),
            _ => return Err(format!("expected a register or a number but got {operand:?}")),
        };
        if let Some(symbol) = self.symbol(name)? {
            let address = symbol.address.wrapping_add(offset as u64);
            return match bits {
                64 => self.symbols.wide_constant(address),
                _ => self.symbols.narrow_constant(address as u32),
            };
        }
        self.target_of(&Operand::Name(name), bits)
    }

    pub(super) fn narrow(&mut self, operand: &Operand<'s>) -> Parsed<Reg> {
        self.source_of(operand, 32)
    }

    /// A predicate to read.
    pub(super) fn predicate(&mut self, operand: &Operand<'s>) -> Parsed<Predicate> {
        let (name, negated) = match operand {
            Operand::Name(name) => (*name, false),
            Operand::Not(name) => (*name, true),
            Operand::Number(Literal::Int(value)) => {
                return self.symbols.predicate_constant(*value != 0);
            }
            _ => return Err(format!("expected a predicate but got {operand:?}")),
        };
        let register = self.target_of(&Operand::Name(name), 1)?;
        Ok(Predicate { register, negated })
    }

    /// The registers of a type for all operands but the first, which is written.
    pub(super) fn registers_of<const N: usize>(
        &mut self,
        operands: &[Operand<'s>],
        bits: u8,
    ) -> Parsed<(Reg, [Reg; N])> {
        let Some((target, sources)) = operands.split_first().filter(|(_, rest)| rest.len() == N) else {
            return Err(format!("expected {} operands but got {}", N + 1, operands.len()));
        };
        let to = self.target_of(target, bits)?;
        let mut all = [0; N];
        for (register, operand) in all.iter_mut().zip(sources) {
            *register = self.source_of(operand, bits)?;
        }
        Ok((to, all))
    }

    /// An address; the kind of memory of a variable is that of its declaration.
    pub(super) fn address(&mut self, operand: &Operand<'s>, space: Space) -> Parsed<Address> {
        let Operand::Address { base, offset } = *operand else {
            return Err(format!("expected an address but got {operand:?}"));
        };
        let Some(name) = base else { return Ok(Address { space, base: Base::None, offset }) };
        if let Some(symbol) = self.symbol(name)? {
            let offset = (symbol.address as i64).wrapping_add(offset);
            return Ok(Address { space: symbol.space, base: Base::None, offset });
        }
        let register = self.source(&Operand::Name(name))?;
        let base = match register.bits {
            64 => Base::Wide(register.number),
            32 => Base::Narrow(register.number),
            bits => return Err(format!("expected an address but got `{name}` of {bits} bits")),
        };
        Ok(Address { space, base, offset })
    }
}
