//! Instructions between the lanes of a warp, and those that only move values.

use super::control::{Next, State, Step};
use super::lanes::{LANES, Lane, RegisterFile, Row, lanes_of};
use crate::instruction::{
    IntBinary, IntType, Logic, Op, Outcome, Predicate, Reg, Shuffle, Space, Vote, window,
};

/// A logical operation on masks.
#[inline(always)]
pub(super) fn logic(op: Logic, a: u32, b: u32) -> u32 {
    match op {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

impl RegisterFile {
    /// Stores what came of a comparison.
    #[inline(always)]
    pub(super) fn put_outcome(&mut self, outcome: Outcome, holds: u32, mask: u32) {
        let with = |holds: u32, file: &RegisterFile| match outcome.with {
            Some((op, other)) => logic(op, holds, file.predicate(other)),
            None => holds,
        };
        let (result, inverse) = (with(holds, self), with(!holds, self));
        if let Some(register) = outcome.result {
            self.put_predicate(register, mask, result);
        }
        if let Some(register) = outcome.inverse {
            self.put_predicate(register, mask, inverse);
        }
    }

    #[inline(always)]
    pub(super) fn select(&mut self, wide: bool, to: Reg, [a, b]: [Reg; 2], by: Predicate, mask: u32) {
        let chosen = self.predicate(by);
        if wide {
            let row = chosen_lanes::<u64>(self, a, b, chosen);
            self.put(to, mask, row);
        } else {
            let row = chosen_lanes::<u32>(self, a, b, chosen);
            self.put(to, mask, row);
        }
    }

    pub(super) fn pack(&mut self, wide: bool, to: Reg, part_bits: u8, parts: &[Reg], mask: u32) {
        let mut value = [0u64; LANES];
        for (k, part) in parts.iter().enumerate() {
            let row = self.bits(*part, part_bits > 32);
            value.iter_mut().zip(row).for_each(|(all, bits)| *all |= bits << (k * usize::from(part_bits)));
        }
        self.put_bits(to, wide, mask, value);
    }

    pub(super) fn unpack(&mut self, wide: bool, from: Reg, part_bits: u8, parts: &[Option<Reg>], mask: u32) {
        let value = self.bits(from, wide);
        let low = u64::MAX >> (64 - u32::from(part_bits));
        for (k, part) in parts.iter().enumerate() {
            let Some(part) = part else { continue };
            let row = value.map(|bits| bits >> (k * usize::from(part_bits)) & low);
            self.put_bits(*part, part_bits > 32, mask, row);
        }
    }

    pub(super) fn convert_address(
        &mut self,
        space: Space,
        is_to_generic: bool,
        to: Reg,
        from: Reg,
        mask: u32,
    ) {
        let start = window(space);
        let of = |address: u64| {
            if is_to_generic { address.wrapping_add(start) } else { address.wrapping_sub(start) }
        };
        let row = self.get::<u64>(from).map(of);
        self.put(to, mask, row);
    }

    /// An instruction in which lanes take part that others name. It waits until all of them are there.
    pub(super) fn warp_op(&mut self, op: &Op, mask: u32, live: u32) -> Step {
        if let Some(register) = members_of(op) {
            let named = self.get::<u32>(register);
            let missing = lanes_of(mask).any(|lane| named[lane] & !mask != 0 || named[lane] >> lane & 1 == 0);
            if missing {
                return Ok(Next::Wait(State::Members));
            }
        }
        match *op {
            Op::Shuffle { op, to, is_valid, a, b, c, .. } => {
                self.shuffle(op, (to, is_valid), [a, b, c], mask)
            }
            Op::Vote { op, to, a, members } => self.vote(op, to, a, members, mask),
            Op::Match { all, wide, to, is_equal, a, members } => {
                self.match_lanes(all, self.bits(a, wide), (to, is_equal), members, mask);
            }
            Op::Reduce { op, ty, to, a, members } => self.reduce(op, ty, to, a, members, mask),
            Op::ActiveMask { to } => self.put(to, mask, [mask & live; LANES]),
            _ => {}
        }
        Ok(Next::Step)
    }

    /// `shfl`: the value of another lane of a segment, or the own one where there is none.
    fn shuffle(&mut self, op: Shuffle, (to, is_valid): (Reg, Option<Reg>), [a, b, c]: [Reg; 3], mask: u32) {
        let (values, by, clamp) = (*self.get::<u32>(a), *self.get::<u32>(b), *self.get::<u32>(c));
        let (mut row, mut valid) = ([0u32; LANES], 0u32);
        for lane in lanes_of(mask) {
            let (by, clamp_value, segment) = (by[lane] & 31, clamp[lane] & 31, clamp[lane] >> 8 & 31);
            let own = lane as u32;
            let last = (own & segment) | (clamp_value & !segment);
            let first = own & segment;
            let (source, is_inside) = match op {
                Shuffle::Up => (own.wrapping_sub(by), own as i32 - by as i32 >= last as i32),
                Shuffle::Down => (own + by, own + by <= last),
                Shuffle::Butterfly => (own ^ by, own ^ by <= last),
                Shuffle::Index => (first | (by & !segment), first | (by & !segment) <= last),
            };
            let source = if is_inside { source } else { own };
            row[lane] = values[source as usize & 31];
            valid |= u32::from(is_inside) << lane;
        }
        self.put(to, mask, row);
        if let Some(register) = is_valid {
            self.put_predicate(register, mask, valid);
        }
    }

    fn vote(&mut self, op: Vote, to: Reg, a: Predicate, members: Reg, mask: u32) {
        let (holds, members) = (self.predicate(a), *self.get::<u32>(members));
        let of = |named: u32| match op {
            Vote::All => holds & named == named,
            Vote::Any => holds & named != 0,
            _ => holds & named == named || holds & named == 0,
        };
        if op == Vote::Ballot {
            self.put(to, mask, members.map(|named| holds & named));
        } else {
            let result = lanes_of(mask).fold(0, |all, lane| all | u32::from(of(members[lane])) << lane);
            self.put_predicate(to, mask, result);
        }
    }

    fn match_lanes(
        &mut self,
        all: bool,
        values: Row<u64>,
        (to, is_equal): (Reg, Option<Reg>),
        members: Reg,
        mask: u32,
    ) {
        let members = *self.get::<u32>(members);
        let (mut row, mut equal) = ([0u32; LANES], 0u32);
        for lane in lanes_of(mask) {
            let same = lanes_of(members[lane]).filter(|other| values[*other] == values[lane]);
            let same = same.fold(0u32, |mask, other| mask | 1 << other);
            let is_same = same == members[lane];
            row[lane] = if all && !is_same { 0 } else { same };
            equal |= u32::from(is_same) << lane;
        }
        self.put(to, mask, row);
        if let Some(register) = is_equal {
            self.put_predicate(register, mask, equal);
        }
    }

    /// `redux`: what the values of the lanes give together.
    fn reduce(&mut self, op: IntBinary, ty: IntType, to: Reg, a: Reg, members: Reg, mask: u32) {
        let (values, members) = (*self.get::<u32>(a), *self.get::<u32>(members));
        let signed = ty == IntType::S32;
        let of = |x: u32, y: u32| match op {
            IntBinary::Add => x.wrapping_add(y),
            IntBinary::Min if signed => (x as i32).min(y as i32) as u32,
            IntBinary::Max if signed => (x as i32).max(y as i32) as u32,
            IntBinary::Min => x.min(y),
            IntBinary::Max => x.max(y),
            IntBinary::And => x & y,
            IntBinary::Or => x | y,
            _ => x ^ y,
        };
        let all = |named: u32| lanes_of(named).map(|lane| values[lane]).reduce(of).unwrap_or(0);
        self.put(to, mask, members.map(all));
    }
}

#[inline(always)]
fn chosen_lanes<L: Lane>(file: &RegisterFile, a: Reg, b: Reg, chosen: u32) -> Row<L> {
    let (x, y) = (file.get::<L>(a), file.get::<L>(b));
    std::array::from_fn(|i| if chosen >> i & 1 != 0 { x[i] } else { y[i] })
}

/// The register that names the lanes of an instruction.
fn members_of(op: &Op) -> Option<Reg> {
    match *op {
        Op::Shuffle { members, .. }
        | Op::Vote { members, .. }
        | Op::Match { members, .. }
        | Op::Reduce { members, .. }
        | Op::WarpBarrier { members } => Some(members),
        _ => None,
    }
}
