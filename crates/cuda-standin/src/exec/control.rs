//! The splits of a warp, and the loop that runs instructions.

use super::Runner;
use super::access::{LaneFault, Owner, Spaces};
use super::lanes::{RegisterFile, lanes_of};
use crate::fault::{Fault, Status};
use crate::instruction::{Instruction, Op};
use crate::settings::Order;

/// A warp that runs or waits.
pub(super) struct Warp {
    /// Its number in the block.
    pub(super) index: u32,
    pub(super) file: RegisterFile,
    pub(super) local: Vec<u8>,
    pub(super) splits: Vec<WarpSplit>,
    /// The lanes that have not ended.
    pub(super) live: u32,
    pub(super) steps: u64,
}

/// Why a split does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At the barrier of the block.
    Barrier,
    /// At an instruction that names lanes which are elsewhere.
    Members,
}

/// Lanes that are at the same instruction, in the same calls.
#[derive(Clone, Debug)]
pub(super) struct WarpSplit {
    pub(super) pc: u32,
    pub(super) mask: u32,
    /// Where calls return to, the innermost last.
    stack: Vec<u32>,
    pub(super) state: State,
}

impl WarpSplit {
    pub(super) fn new(pc: u32, mask: u32) -> Self {
        WarpSplit { pc, mask, stack: Vec::new(), state: State::Ready }
    }

    /// Goes on behind the barrier.
    pub(super) fn resume(&mut self) {
        self.pc += 1;
        self.state = State::Ready;
    }

    /// Inner calls run before outer ones, then the lowest instruction.
    fn rank(&self) -> (std::cmp::Reverse<usize>, u32) {
        (std::cmp::Reverse(self.stack.len()), self.pc)
    }
}

/// What follows an instruction.
pub(super) enum Next {
    Step,
    /// The instruction is run by some lanes, which go to another.
    Jump(u32, u32),
    Call(u32, u32),
    Return(u32),
    Wait(State),
}

/// What a lane did wrong, or the warp as a whole.
pub(super) type Step = Result<Next, LaneFault>;

impl Runner<'_> {
    /// Runs a warp until it has ended, or all of its lanes wait.
    pub(super) fn run_warp(&mut self, warp: &mut Warp, block: [u32; 3]) -> Result<(), Fault> {
        while let Some(mut split) = next_split(&mut warp.splits, self.order) {
            let done = self.run_split(warp, &mut split);
            if let Err((lane, fault)) = done {
                return Err(self.located(fault, split.pc, (block, warp.index, lane)));
            }
            if split.mask != 0 {
                warp.splits.push(split);
            }
        }
        Ok(())
    }

    /// Runs a split until it waits, ends, or is no longer the first.
    fn run_split(&mut self, warp: &mut Warp, split: &mut WarpSplit) -> Result<(), LaneFault> {
        let code = &self.program.code;
        let others = warp.splits.iter().filter(|other| other.state != State::Barrier);
        let same_call = others.filter(|other| other.stack.len() == split.stack.len());
        let mut limit = same_call.map(|other| other.pc).min().unwrap_or(u32::MAX);
        loop {
            let Some(instruction) = code.get(split.pc as usize) else {
                let fault = Fault::new(Status::ERROR_ILLEGAL_INSTRUCTION, "the end of the program");
                return Err((split.mask.trailing_zeros() as usize, fault));
            };
            let active = match instruction.guard {
                None => split.mask,
                Some(guard) => split.mask & warp.file.predicate(guard),
            };
            warp.steps += 1;
            let next = if active == 0 {
                Next::Step
            } else {
                let owner =
                    Owner { warp: warp.index, local: &mut warp.local, local_bytes: self.program.local_bytes };
                execute(&mut self.spaces, &mut warp.file, owner, instruction, (active, warp.live))?
            };
            match next {
                Next::Step => split.pc += 1,
                Next::Wait(state) => {
                    split.state = state;
                    return Ok(());
                }
                other => {
                    let other_pc = follow(warp, split, other);
                    limit = limit.min(other_pc);
                    let is_drawn = other_pc != u32::MAX && self.order.is_drawn;
                    if split.mask == 0 || other_pc == NEW_CALL || is_drawn {
                        return Ok(());
                    }
                }
            }
            if split.pc >= limit {
                return Ok(());
            }
            if warp.steps > self.steps {
                let fault = Fault::new(
                    Status::ERROR_LAUNCH_TIMEOUT,
                    format!("runs after {} instructions", self.steps),
                );
                return Err((split.mask.trailing_zeros() as usize, fault));
            }
        }
    }
}

/// Instead of an instruction: the calls that the split is in have changed.
const NEW_CALL: u32 = 0;

/// Moves a split. Lanes that go elsewhere become another one, whose instruction is the result; `u32::MAX` if there is none.
fn follow(warp: &mut Warp, split: &mut WarpSplit, next: Next) -> u32 {
    match next {
        Next::Jump(target, taken) if taken == split.mask => {
            split.pc = target;
            u32::MAX
        }
        Next::Jump(target, taken) => {
            let mut other = split.clone();
            (other.pc, other.mask) = (target, taken);
            split.mask &= !taken;
            split.pc += 1;
            // The first of the two goes on.
            if other.pc < split.pc {
                std::mem::swap(&mut other, split);
            }
            let other_pc = other.pc;
            warp.splits.push(other);
            other_pc
        }
        Next::Call(target, lanes) => {
            leave(warp, split, lanes);
            split.stack.push(split.pc + 1);
            split.pc = target;
            NEW_CALL
        }
        Next::Return(lanes) => {
            leave(warp, split, lanes);
            match split.stack.pop() {
                Some(pc) => split.pc = pc,
                None => {
                    warp.live &= !split.mask;
                    split.mask = 0;
                }
            }
            NEW_CALL
        }
        Next::Step | Next::Wait(_) => u32::MAX,
    }
}

/// The lanes that do not follow go on behind the instruction.
fn leave(warp: &mut Warp, split: &mut WarpSplit, lanes: u32) {
    if lanes != split.mask {
        let mut rest = split.clone();
        rest.mask &= !lanes;
        rest.pc += 1;
        warp.splits.push(rest);
        split.mask = lanes;
    }
}

/// Takes the split that runs next, joined with those that are at the same instruction. One that waits for lanes tries again only if
/// such came. Where an order is drawn, any of them may be next, so that lanes diverge in many orders.
fn next_split(splits: &mut Vec<WarpSplit>, order: &mut Order) -> Option<WarpSplit> {
    let mut i = 0;
    while i < splits.len() {
        let is_same = |other: &WarpSplit| {
            let of = &splits[i];
            of.state != State::Barrier
                && other.state != State::Barrier
                && of.pc == other.pc
                && of.stack == other.stack
        };
        match splits.iter().skip(i + 1).position(is_same) {
            Some(offset) => {
                let other = splits.swap_remove(i + 1 + offset);
                splits[i].mask |= other.mask;
                splits[i].state = State::Ready;
            }
            None => i += 1,
        }
    }
    let ready = || splits.iter().enumerate().filter(|(_, split)| split.state == State::Ready);
    let (at, _) = match order.is_drawn {
        true => ready().nth(order.below(ready().count() as u64) as usize)?,
        false => ready().min_by_key(|(_, split)| split.rank())?,
    };
    Some(splits.swap_remove(at))
}

/// Runs an instruction, with the widest vectors that the processor has: `mul_add` is a call of the C library without the feature `fma`.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "calls a function for processors that have these features")]
fn execute(
    spaces: &mut Spaces<'_>,
    file: &mut RegisterFile,
    owner: Owner<'_>,
    of: &Instruction,
    masks: (u32, u32),
) -> Step {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn with_vectors(
        spaces: &mut Spaces<'_>,
        file: &mut RegisterFile,
        owner: Owner<'_>,
        of: &Instruction,
        masks: (u32, u32),
    ) -> Step {
        execute_any(spaces, file, owner, of, masks)
    }

    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor has the features; those with `bmi2` have the other ones too.
        unsafe { with_vectors(spaces, file, owner, of, masks) }
    } else {
        execute_any(spaces, file, owner, of, masks)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn execute(
    spaces: &mut Spaces<'_>,
    file: &mut RegisterFile,
    owner: Owner<'_>,
    of: &Instruction,
    masks: (u32, u32),
) -> Step {
    execute_any(spaces, file, owner, of, masks)
}

/// Runs an instruction for the active lanes.
#[inline(always)]
fn execute_any(
    spaces: &mut Spaces<'_>,
    file: &mut RegisterFile,
    mut owner: Owner<'_>,
    of: &Instruction,
    (mask, live): (u32, u32),
) -> Step {
    match &of.op {
        Op::Load(access) => spaces.load(file, &owner, access, mask)?,
        Op::Store(access) => spaces.store(file, &mut owner, access, mask)?,
        Op::Atomic(atomic) => spaces.atomic(file, &mut owner, atomic, mask)?,
        Op::Branch { target } => return Ok(Next::Jump(*target, mask)),
        Op::CopyLocal(copies) => copy_local(&mut owner, copies, mask),
        Op::Call { target } => return Ok(Next::Call(*target, mask)),
        Op::Return => return Ok(Next::Return(mask)),
        Op::Barrier => return Ok(Next::Wait(State::Barrier)),
        Op::Trap => {
            let fault = Fault::new(Status::ERROR_LAUNCH_FAILED, "a trap");
            return Err((mask.trailing_zeros() as usize, fault));
        }
        Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Reduce { .. }
        | Op::ActiveMask { .. }
        | Op::WarpBarrier { .. } => return file.warp_op(&of.op, mask, live),
        op => compute(file, op, mask),
    }
    Ok(Next::Step)
}

/// Copies within the local memory of each lane.
fn copy_local(owner: &mut Owner<'_>, copies: &[(u32, u32, u32)], mask: u32) {
    for lane in lanes_of(mask) {
        let start = lane * owner.local_bytes as usize;
        for (from, to, bytes) in copies {
            let from = start + *from as usize;
            owner.local.copy_within(from..from + *bytes as usize, start + *to as usize);
        }
    }
}

/// Instructions that only compute.
#[inline(always)]
fn compute(file: &mut RegisterFile, op: &Op, mask: u32) {
    match *op {
        Op::Move { wide: false, to, from } => {
            let value = *file.get::<u32>(from);
            file.put(to, mask, value);
        }
        Op::Move { to, from, .. } => {
            let value = *file.get::<u64>(from);
            file.put(to, mask, value);
        }
        Op::IntBinary { op, ty, to, a, b } => file.int_binary(op, ty, to, [a, b], mask),
        Op::FloatBinary { op, ty, mode, to, a, b } => file.float_binary(op, (ty, mode), to, [a, b], mask),
        Op::Fma { ty, mode, to, a, b, c } => file.fma((ty, mode), to, [a, b, c], mask),
        Op::Shift { left, ty, to, a, by } => file.shift(left, ty, to, [a, by], mask),
        Op::MulWide { ty, to, a, b } => file.mul_wide(ty, to, [a, b], mask),
        Op::Extend { to, from, ref conversion } => file.extend(to, from, conversion, mask),
        Op::IntUnary { op, ty, to, a } => file.int_unary(op, ty, to, a, mask),
        Op::CompareInt { op, ty, outcome, a, b } => {
            let holds = file.compare_int(op, ty, a, b);
            file.put_outcome(outcome, holds, mask);
        }
        Op::CompareFloat { op, ty, flushes, outcome, a, b } => {
            let holds = file.compare_float(op, (ty, flushes), a, b);
            file.put_outcome(outcome, holds, mask);
        }
        Op::Select { wide, to, a, b, by } => file.select(wide, to, [a, b], by, mask),
        Op::Logic { op, to, a, b } => {
            let (a, b) = (file.predicate(a), file.predicate(b));
            file.put_predicate(to, mask, super::warp_ops::logic(op, a, b));
        }
        _ => compute_rare(file, op, mask),
    }
}

/// Instructions that are less frequent, of which a copy for each instruction set would be wasted.
#[inline(never)]
fn compute_rare(file: &mut RegisterFile, op: &Op, mask: u32) {
    match *op {
        Op::FloatUnary { op, ty, mode, to, a } => file.float_unary(op, (ty, mode), to, a, mask),
        Op::Convert { to, from, ref conversion } => file.convert(to, from, conversion, mask),
        Op::Mad { part, ty, to, a, b, c } => file.mad(part, ty, to, [a, b, c], mask),
        Op::Pack { wide, to, part_bits, ref parts } => file.pack(wide, to, part_bits, parts, mask),
        Op::Unpack { wide, from, part_bits, ref parts } => file.unpack(wide, from, part_bits, parts, mask),
        Op::AddSaturated { is_sub, to, a, b } => file.add_saturated(is_sub, to, [a, b], mask),
        Op::Count { op, ty, to, a } => file.count(op, ty, to, a, mask),
        Op::Carry { op, wide, takes, gives, to, a, b, c } => {
            file.carry(op, (wide, takes, gives), to, [a, b, c], mask);
        }
        Op::BitFieldExtract { ty, to, a, start, length } => {
            file.bit_field_extract(ty, to, [a, start, length], mask);
        }
        Op::BitFieldInsert { wide, to, a, b, start, length } => {
            file.bit_field_insert(wide, to, [a, b, start, length], mask);
        }
        Op::Permute { to, a, b, selector } => file.permute(to, [a, b, selector], mask),
        Op::Logic3 { table, to, a, b, c } => file.logic3(table, to, [a, b, c], mask),
        Op::FunnelShift { left, wraps, to, a, b, by } => {
            file.funnel_shift((left, wraps), to, [a, b, by], mask)
        }
        Op::ConvertAddress { space, is_to_generic, to, from } => {
            file.convert_address(space, is_to_generic, to, from, mask);
        }
        _ => {}
    }
}
