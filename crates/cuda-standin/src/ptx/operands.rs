//! The registers of each instruction, for the allocation of registers.

use crate::instruction::{Address, Base, Op, Predicate, Reg};

/// A file of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Predicate,
    Narrow,
    Wide,
}

impl Class {
    /// The file of registers of so many bits.
    pub(super) fn of(bits: u8) -> Self {
        match bits {
            1 => Class::Predicate,
            64 => Class::Wide,
            _ => Class::Narrow,
        }
    }

    fn wide(is_wide: bool) -> Self {
        if is_wide { Class::Wide } else { Class::Narrow }
    }
}

/// What is done with each register: its file, its number, and whether it is written.
type Visit<'a> = dyn FnMut(Class, &mut Reg, bool) + 'a;

/// Visits registers of one file.
fn all<'r>(
    class: Class,
    registers: impl IntoIterator<Item = &'r mut Reg>,
    writes: bool,
    visit: &mut Visit<'_>,
) {
    registers.into_iter().for_each(|register| visit(class, register, writes));
}

fn read(predicate: &mut Predicate, visit: &mut Visit<'_>) {
    visit(Class::Predicate, &mut predicate.register, false);
}

fn address(address: &mut Address, visit: &mut Visit<'_>) {
    match &mut address.base {
        Base::None => {}
        Base::Narrow(register) => visit(Class::Narrow, register, false),
        Base::Wide(register) => visit(Class::Wide, register, false),
    }
}

impl Op {
    /// Visits all registers, those that are read before those that are written.
    pub(super) fn visit_registers(&mut self, visit: &mut Visit<'_>) {
        use Class::{Narrow, Predicate, Wide};
        match self {
            Op::Nop
            | Op::CopyLocal(_)
            | Op::Call { .. }
            | Op::Branch { .. }
            | Op::Return
            | Op::Trap
            | Op::Barrier => {}
            Op::Move { wide, to, from } => {
                let class = Class::wide(*wide);
                visit(class, from, false);
                visit(class, to, true);
            }
            Op::Pack { wide, to, part_bits, parts } => {
                all(Class::of(*part_bits), parts.iter_mut(), false, visit);
                visit(Class::wide(*wide), to, true);
            }
            Op::Unpack { wide, from, part_bits, parts } => {
                visit(Class::wide(*wide), from, false);
                all(Class::of(*part_bits), parts.iter_mut().flatten(), true, visit);
            }
            Op::Extend { to, from, conversion } | Op::Convert { to, from, conversion } => {
                visit(Class::of(conversion.register_bits.1), from, false);
                visit(Class::of(conversion.register_bits.0), to, true);
            }
            Op::IntUnary { ty, to, a, .. } => same(Class::of(ty.bits()), to, [a], visit),
            Op::IntBinary { ty, to, a, b, .. } => same(Class::of(ty.bits()), to, [a, b], visit),
            Op::FloatUnary { ty, to, a, .. } => same(Class::of(ty.bits()), to, [a], visit),
            Op::FloatBinary { ty, to, a, b, .. } => same(Class::of(ty.bits()), to, [a, b], visit),
            Op::Fma { ty, to, a, b, c, .. } => same(Class::of(ty.bits()), to, [a, b, c], visit),
            Op::AddSaturated { to, a, b, .. } => same(Narrow, to, [a, b], visit),
            Op::Permute { to, a, b, selector: c }
            | Op::Logic3 { to, a, b, c, .. }
            | Op::FunnelShift { to, a, b, by: c, .. } => same(Narrow, to, [a, b, c], visit),
            Op::Carry { wide, to, a, b, c, .. } => same(Class::wide(*wide), to, [a, b, c], visit),
            Op::Shift { ty, to, a, by, .. } => {
                visit(Narrow, by, false);
                same(Class::of(ty.bits()), to, [a], visit);
            }
            Op::Count { ty, to, a, .. } => {
                visit(Class::of(ty.bits()), a, false);
                visit(Narrow, to, true);
            }
            Op::MulWide { ty, to, a, b } => {
                all(Narrow, [a, b], false, visit);
                visit(Class::of(2 * ty.bits()), to, true);
            }
            Op::Mad { part, ty, to, a, b, c } => {
                let is_wide = *part == crate::instruction::Part::Wide;
                let sum = Class::of(if is_wide { 2 * ty.bits() } else { ty.bits() });
                all(Class::of(ty.bits()), [a, b], false, visit);
                same(sum, to, [c], visit);
            }
            Op::BitFieldExtract { ty, to, a, start, length } => {
                all(Narrow, [start, length], false, visit);
                same(Class::of(ty.bits()), to, [a], visit);
            }
            Op::BitFieldInsert { wide, to, a, b, start, length } => {
                all(Narrow, [start, length], false, visit);
                same(Class::wide(*wide), to, [a, b], visit);
            }
            Op::CompareInt { ty, outcome, a, b, .. } => {
                all(Class::of(ty.bits()), [a, b], false, visit);
                compared(outcome, visit);
            }
            Op::CompareFloat { ty, outcome, a, b, .. } => {
                all(Class::of(ty.bits()), [a, b], false, visit);
                compared(outcome, visit);
            }
            Op::Select { wide, to, a, b, by } => {
                read(by, visit);
                same(Class::wide(*wide), to, [a, b], visit);
            }
            Op::Logic { to, a, b, .. } => {
                read(a, visit);
                read(b, visit);
                visit(Predicate, to, true);
            }
            Op::Load(access) => {
                address(&mut access.address, visit);
                all(Class::of(access.register_bits), access.registers.iter_mut().flatten(), true, visit);
            }
            Op::Store(access) => {
                address(&mut access.address, visit);
                all(Class::of(access.register_bits), access.registers.iter_mut().flatten(), false, visit);
            }
            Op::Atomic(atomic) => {
                let class = Class::of(atomic.number.bits());
                address(&mut atomic.address, visit);
                all(class, [&mut atomic.value, &mut atomic.replacement], false, visit);
                all(class, atomic.result.iter_mut(), true, visit);
            }
            Op::ConvertAddress { to, from, .. } => same(Wide, to, [from], visit),
            Op::Shuffle { to, is_valid, a, b, c, members, .. } => {
                all(Narrow, [a, b, c, members], false, visit);
                visit(Narrow, to, true);
                all(Predicate, is_valid.iter_mut(), true, visit);
            }
            Op::Vote { op, to, a, members } => {
                read(a, visit);
                visit(Narrow, members, false);
                let is_ballot = *op == crate::instruction::Vote::Ballot;
                visit(if is_ballot { Narrow } else { Predicate }, to, true);
            }
            Op::Match { wide, to, is_equal, a, members, .. } => {
                visit(Class::wide(*wide), a, false);
                visit(Narrow, members, false);
                visit(Narrow, to, true);
                all(Predicate, is_equal.iter_mut(), true, visit);
            }
            Op::Reduce { to, a, members, .. } => same(Narrow, to, [a, members], visit),
            Op::ActiveMask { to } => visit(Narrow, to, true),
            Op::WarpBarrier { members } => visit(Narrow, members, false),
        }
    }
}

/// Registers of one file: those that are read, and the one that is written.
fn same<const N: usize>(class: Class, to: &mut Reg, from: [&mut Reg; N], visit: &mut Visit<'_>) {
    all(class, from, false, visit);
    visit(class, to, true);
}

fn compared(outcome: &mut crate::instruction::Outcome, visit: &mut Visit<'_>) {
    if let Some((_, other)) = &mut outcome.with {
        read(other, visit);
    }
    all(Class::Predicate, outcome.result.iter_mut().chain(&mut outcome.inverse), true, visit);
}
