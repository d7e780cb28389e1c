//! Allocation of registers. PTX has a register for each value, hundreds of them; those that are never live together share one here, so that
//! the registers of a warp stay in the cache. Diverged lanes do not disturb each other, since each writes only its own.

use super::operands::Class;
use crate::instruction::{Instruction, Op, Reg, Registers};
use std::collections::BTreeMap;
use std::ops::Range;

/// A set of registers, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize) -> Self {
        Set(vec![0; count.div_ceil(64)])
    }

    fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 != 0
    }

    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Adds what another set has; whether that was new.
    fn unite(&mut self, other: &Set) -> bool {
        let mut grows = false;
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            grows |= *more & !*own != 0;
            *own |= more;
        }
        grows
    }

    fn elements(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 64 + bit)
        })
    }
}

/// Instructions that run one after the other, and where they go then.
struct Block {
    range: Range<usize>,
    next: Vec<usize>,
    /// Registers that are read before they are written, and those that are written first.
    reads: Set,
    writes: Set,
    live_in: Set,
    live_out: Set,
}

/// All registers as one list: those of each file behind those of the one before.
struct Numbering {
    starts: [usize; 3],
    count: usize,
    /// Registers that keep their own: constants, and those that are set when a warp starts.
    fixed: Set,
}

impl Numbering {
    fn new(registers: &Registers) -> Self {
        let (predicates, narrow) = (usize::from(registers.predicates), usize::from(registers.narrow));
        let count = predicates + narrow + usize::from(registers.wide);
        let mut all =
            Numbering { starts: [0, predicates, predicates + narrow], count, fixed: Set::new(count) };
        let narrow = registers.narrow_constants.iter().map(|(register, _)| *register);
        let narrow = narrow.chain(registers.specials.iter().map(|(_, register)| *register));
        let fixed = narrow.map(|register| (Class::Narrow, register));
        let fixed =
            fixed.chain(registers.wide_constants.iter().map(|(register, _)| (Class::Wide, *register)));
        let predicates = registers.predicate_constants.iter();
        let fixed: Vec<_> =
            fixed.chain(predicates.map(|(register, _)| (Class::Predicate, *register))).collect();
        for (class, register) in fixed {
            let number = all.number(class, register);
            all.fixed.insert(number);
        }
        all
    }

    fn number(&self, class: Class, register: Reg) -> usize {
        self.starts[class as usize] + usize::from(register)
    }

    fn class(&self, number: usize) -> Class {
        match () {
            () if number >= self.starts[2] => Class::Wide,
            () if number >= self.starts[1] => Class::Narrow,
            () => Class::Predicate,
        }
    }
}

/// Gives the registers of the functions, whose code is in these ranges, new numbers.
pub(super) fn allocate(code: &mut [Instruction], functions: &[Range<usize>], registers: &mut Registers) {
    let numbering = Numbering::new(registers);
    let mut numbers: Vec<Option<Reg>> = vec![None; numbering.count];
    // Fixed ones first; each function has registers of its own behind those of the one before.
    let mut used = [0u16; 3];
    for number in numbering.fixed.elements() {
        let next = &mut used[numbering.class(number) as usize];
        numbers[number] = Some(*next);
        *next += 1;
    }
    for range in functions {
        let lives = intervals(code, range.clone(), &numbering);
        assign(&lives, &numbering, &mut numbers, &mut used);
    }
    for instruction in code.iter_mut() {
        visit(instruction, &mut |class, register, _| {
            *register = numbers[numbering.number(class, *register)].unwrap_or(*register);
        });
    }
    let renumber = |class, register: &mut Reg| {
        *register = numbers[numbering.number(class, *register)].unwrap_or(*register);
    };
    registers.narrow_constants.iter_mut().for_each(|(register, _)| renumber(Class::Narrow, register));
    registers.wide_constants.iter_mut().for_each(|(register, _)| renumber(Class::Wide, register));
    registers.predicate_constants.iter_mut().for_each(|(register, _)| renumber(Class::Predicate, register));
    registers.specials.iter_mut().for_each(|(_, register)| renumber(Class::Narrow, register));
    [registers.predicates, registers.narrow, registers.wide] = used;
}

/// Visits the registers of an instruction with its guard.
fn visit(instruction: &mut Instruction, each: &mut dyn FnMut(Class, &mut Reg, bool)) {
    if let Some(guard) = &mut instruction.guard {
        each(Class::Predicate, &mut guard.register, false);
    }
    instruction.op.visit_registers(each);
}

/// The registers that instructions read and write. A guarded write keeps the value of other lanes, so it reads too.
fn accesses(instruction: &mut Instruction, numbering: &Numbering) -> (Vec<usize>, Vec<usize>) {
    let is_guarded = instruction.guard.is_some();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    visit(instruction, &mut |class, register, is_written| {
        let number = numbering.number(class, *register);
        if numbering.fixed.has(number) {
            return;
        }
        if is_written {
            writes.push(number);
        }
        if !is_written || is_guarded {
            reads.push(number);
        }
    });
    (reads, writes)
}

/// From the first to the last instruction at which each register is live.
fn intervals(
    code: &mut [Instruction],
    range: Range<usize>,
    numbering: &Numbering,
) -> BTreeMap<usize, Range<usize>> {
    let mut blocks = blocks(code, range, numbering);
    let mut changes = true;
    while changes {
        changes = false;
        for at in (0..blocks.len()).rev() {
            for next in blocks[at].next.clone() {
                let live = blocks[next].live_in.clone();
                blocks[at].live_out.unite(&live);
            }
            let block = &mut blocks[at];
            let mut live = block.reads.clone();
            for (word, (out, written)) in live.0.iter_mut().zip(block.live_out.0.iter().zip(&block.writes.0))
            {
                *word |= out & !written;
            }
            changes |= block.live_in.unite(&live);
        }
    }
    let mut all: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    let mut extend = |number: usize, at: usize| {
        let live = all.entry(number).or_insert(at..at);
        *live = live.start.min(at)..live.end.max(at);
    };
    for block in &blocks {
        block.live_in.elements().for_each(|number| extend(number, block.range.start));
        block.live_out.elements().for_each(|number| extend(number, block.range.end));
        for at in block.range.clone() {
            let (reads, writes) = accesses(&mut code[at], numbering);
            reads.into_iter().for_each(|number| extend(number, at));
            // Live behind the instruction too, so that two that it writes differ.
            writes.into_iter().for_each(|number| {
                extend(number, at);
                extend(number, at + 1);
            });
        }
    }
    all
}

/// Blocks of a function, in the order of its code.
fn blocks(code: &mut [Instruction], range: Range<usize>, numbering: &Numbering) -> Vec<Block> {
    let mut starts = vec![range.start];
    for at in range.clone() {
        if let Op::Branch { target } = code[at].op {
            starts.extend([target as usize, at + 1]);
        } else if code[at].op == Op::Return {
            starts.push(at + 1);
        }
    }
    starts.retain(|start| range.contains(start));
    starts.sort_unstable();
    starts.dedup();
    let index = |at: usize| starts.binary_search(&at).ok();
    let ends = starts.iter().skip(1).copied().chain([range.end]);
    let mut all = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        let last = &code[end - 1];
        let mut next = Vec::new();
        if let Op::Branch { target } = last.op {
            next.extend(index(target as usize));
        }
        let leaves = matches!(last.op, Op::Branch { .. } | Op::Return) && last.guard.is_none();
        if !leaves {
            next.extend(index(end));
        }
        let set = || Set::new(numbering.count);
        let (mut reads, mut writes) = (set(), set());
        for instruction in &mut code[start..end] {
            let (read, written) = accesses(instruction, numbering);
            read.into_iter().filter(|number| !writes.has(*number)).for_each(|number| reads.insert(number));
            written.into_iter().for_each(|number| writes.insert(number));
        }
        all.push(Block { range: start..end, next, reads, writes, live_in: set(), live_out: set() });
    }
    all
}

/// A linear scan: registers in the order of their first instruction, each gets the lowest number that is free.
fn assign(
    lives: &BTreeMap<usize, Range<usize>>,
    numbering: &Numbering,
    numbers: &mut [Option<Reg>],
    used: &mut [u16; 3],
) {
    let first = *used;
    let mut order: Vec<(usize, &Range<usize>)> = lives.iter().map(|(number, live)| (*number, live)).collect();
    order.sort_by_key(|(_, live)| live.start);
    // For each file, until when each of its new registers is in use.
    let mut ends: [Vec<usize>; 3] = Default::default();
    for (number, live) in order {
        let class = numbering.class(number) as usize;
        let free = ends[class].iter().position(|end| *end <= live.start);
        let at = free.unwrap_or(ends[class].len());
        match ends[class].get_mut(at) {
            Some(end) => *end = live.end,
            None => ends[class].push(live.end),
        }
        numbers[number] = Some(first[class] + at as u16);
        used[class] = used[class].max(first[class] + at as u16 + 1);
    }
}
