//! Names of a program: registers, by scope, and variables; and registers of constants.

use super::tokens::{Literal, Parsed};
use crate::instruction::{Predicate, Reg, Registers, Space, Special};
use std::collections::HashMap;

/// A register: its file and number, and the bits that it is declared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register {
    /// 1 for predicates.
    pub(super) bits: u8,
    pub(super) number: Reg,
}

impl Register {
    pub(super) fn is_wide(self) -> bool {
        self.bits > 32
    }
}

/// A variable: its kind of memory and its address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) space: Space,
    pub(super) address: u64,
}

/// The names of one pair of braces.
#[derive(Debug, Default)]
struct Scope {
    registers: HashMap<String, Register>,
    /// `.reg .f32 %f<9>` declares `%f0` to `%f8`; each gets a number when it is first used.
    ranges: Vec<(String, u32, u8)>,
    variables: HashMap<String, Symbol>,
}

/// All names that are known.
#[derive(Debug)]
pub(super) struct Symbols {
    pub(super) registers: Registers,
    scopes: Vec<Scope>,
    narrow_constants: HashMap<u32, Reg>,
    wide_constants: HashMap<u64, Reg>,
    predicate_constants: HashMap<bool, Reg>,
    specials: HashMap<Special, Reg>,
}

impl Symbols {
    pub(super) fn new() -> Self {
        Symbols {
            registers: Registers::default(),
            scopes: vec![Scope::default()],
            narrow_constants: HashMap::new(),
            wide_constants: HashMap::new(),
            predicate_constants: HashMap::new(),
            specials: HashMap::new(),
        }
    }

    pub(super) fn enter(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// A new register.
    pub(super) fn allocate(&mut self, bits: u8) -> Parsed<Register> {
        let count = match bits {
            1 => &mut self.registers.predicates,
            64 => &mut self.registers.wide,
            _ => &mut self.registers.narrow,
        };
        let number = *count;
        *count = count.checked_add(1).ok_or("a program with more than 65535 registers")?;
        Ok(Register { bits, number })
    }

    pub(super) fn declare(&mut self, name: &str, bits: u8) -> Parsed<()> {
        let register = self.allocate(bits)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.registers.insert(name.to_owned(), register);
        }
        Ok(())
    }

    pub(super) fn declare_range(&mut self, prefix: &str, count: u32, bits: u8) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.ranges.push((prefix.to_owned(), count, bits));
        }
    }

    pub(super) fn declare_variable(&mut self, name: &str, symbol: Symbol) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.variables.insert(name.to_owned(), symbol);
        }
    }

    /// A name of the whole module.
    pub(super) fn declare_global(&mut self, name: &str, symbol: Symbol) {
        if let Some(scope) = self.scopes.first_mut() {
            scope.variables.insert(name.to_owned(), symbol);
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<Symbol> {
        self.scopes.iter().rev().find_map(|scope| scope.variables.get(name)).copied()
    }

    /// The register of a name; `None` if there is none of it.
    pub(super) fn register(&mut self, name: &str) -> Parsed<Option<Register>> {
        for at in (0..self.scopes.len()).rev() {
            if let Some(register) = self.scopes[at].registers.get(name) {
                return Ok(Some(*register));
            }
            let in_range = |(prefix, count, bits): &(String, u32, u8)| {
                let number: u32 = name.strip_prefix(prefix.as_str())?.parse().ok()?;
                (number < *count).then_some(*bits)
            };
            if let Some(bits) = self.scopes[at].ranges.iter().find_map(in_range) {
                let register = self.allocate(bits)?;
                self.scopes[at].registers.insert(name.to_owned(), register);
                return Ok(Some(register));
            }
        }
        match special(name) {
            Some(special) => self.special(special).map(Some),
            None => Ok(None),
        }
    }

    fn special(&mut self, special: Special) -> Parsed<Register> {
        if let Some(number) = self.specials.get(&special) {
            return Ok(Register { bits: 32, number: *number });
        }
        let register = self.allocate(32)?;
        self.specials.insert(special, register.number);
        self.registers.specials.push((special, register.number));
        Ok(register)
    }

    pub(super) fn narrow_constant(&mut self, value: u32) -> Parsed<Reg> {
        if let Some(number) = self.narrow_constants.get(&value) {
            return Ok(*number);
        }
        let number = self.allocate(32)?.number;
        self.narrow_constants.insert(value, number);
        self.registers.narrow_constants.push((number, value));
        Ok(number)
    }

    pub(super) fn wide_constant(&mut self, value: u64) -> Parsed<Reg> {
        if let Some(number) = self.wide_constants.get(&value) {
            return Ok(*number);
        }
        let number = self.allocate(64)?.number;
        self.wide_constants.insert(value, number);
        self.registers.wide_constants.push((number, value));
        Ok(number)
    }

    pub(super) fn predicate_constant(&mut self, value: bool) -> Parsed<Predicate> {
        if let Some(number) = self.predicate_constants.get(&value) {
            return Ok(Predicate { register: *number, negated: false });
        }
        let number = self.allocate(1)?.number;
        self.predicate_constants.insert(value, number);
        self.registers.predicate_constants.push((number, value));
        Ok(Predicate { register: number, negated: false })
    }

    /// A register that holds a number, of 16, 32 or 64 bits.
    pub(super) fn constant(&mut self, literal: Literal, bits: u8) -> Parsed<Reg> {
        let value = match (literal, bits) {
            (Literal::Int(value), _) => value,
            (Literal::Single(value), 64) => f64::from(f32::from_bits(value)).to_bits(),
            (Literal::Single(value), _) => u64::from(value),
            (Literal::Double(value), 64) => value,
            (Literal::Double(value), _) => u64::from((f64::from_bits(value) as f32).to_bits()),
        };
        match bits {
            64 => self.wide_constant(value),
            16 => self.narrow_constant(value as u32 & 0xffff),
            _ => self.narrow_constant(value as u32),
        }
    }
}

/// The special register of a name.
fn special(name: &str) -> Option<Special> {
    let (base, dimension) = match name.rsplit_once('.') {
        Some((base, "x")) => (base, 0),
        Some((base, "y")) => (base, 1),
        Some((base, "z")) => (base, 2),
        _ => (name, 0),
    };
    Some(match base {
        "%tid" => Special::ThreadIndex(dimension),
        "%ntid" => Special::BlockSize(dimension),
        "%ctaid" => Special::BlockIndex(dimension),
        "%nctaid" => Special::GridSize(dimension),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%lanemask_eq" => Special::LanesEqual,
        "%lanemask_lt" => Special::LanesBelow,
        "%lanemask_le" => Special::LanesUpTo,
        "%lanemask_gt" => Special::LanesAbove,
        "%lanemask_ge" => Special::LanesFrom,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        "%smid" | "%nsmid" | "%gridid" | "%clock" | "%clock_hi" => Special::Zero,
        _ => return None,
    })
}
