//! The registers of a warp: 32 lanes each, and a mask for each predicate.

use crate::instruction::{Predicate, Reg, Registers};

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// A register of 32 lanes.
pub(crate) type Row<L> = [L; LANES];

/// The registers of a warp, by width. Registers of 16 bits are in the narrow file, with zeros above.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisterFile {
    pub(crate) narrow: Vec<Row<u32>>,
    pub(crate) wide: Vec<Row<u64>>,
    pub(crate) predicates: Vec<u32>,
    /// The carry of each lane.
    pub(crate) carry: u32,
}

/// A lane of a register: `u32` or `u64`.
pub(crate) trait Lane: Copy + Default {
    fn row(file: &RegisterFile, register: Reg) -> &Row<Self>;
    fn row_mut(file: &mut RegisterFile, register: Reg) -> &mut Row<Self>;
}

impl Lane for u32 {
    #[inline(always)]
    fn row(file: &RegisterFile, register: Reg) -> &Row<u32> {
        &file.narrow[usize::from(register)]
    }

    #[inline(always)]
    fn row_mut(file: &mut RegisterFile, register: Reg) -> &mut Row<u32> {
        &mut file.narrow[usize::from(register)]
    }
}

impl Lane for u64 {
    #[inline(always)]
    fn row(file: &RegisterFile, register: Reg) -> &Row<u64> {
        &file.wide[usize::from(register)]
    }

    #[inline(always)]
    fn row_mut(file: &mut RegisterFile, register: Reg) -> &mut Row<u64> {
        &mut file.wide[usize::from(register)]
    }
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

impl RegisterFile {
    /// Registers of a program, with its constants.
    pub(crate) fn new(registers: &Registers) -> Self {
        let mut file = RegisterFile {
            narrow: vec![[0; LANES]; registers.narrow.into()],
            wide: vec![[0; LANES]; registers.wide.into()],
            predicates: vec![0; registers.predicates.into()],
            carry: 0,
        };
        for (register, value) in &registers.narrow_constants {
            *u32::row_mut(&mut file, *register) = [*value; LANES];
        }
        for (register, value) in &registers.wide_constants {
            *u64::row_mut(&mut file, *register) = [*value; LANES];
        }
        for (register, value) in &registers.predicate_constants {
            file.predicates[usize::from(*register)] = if *value { u32::MAX } else { 0 };
        }
        file
    }

    #[inline(always)]
    pub(crate) fn get<L: Lane>(&self, register: Reg) -> &Row<L> {
        L::row(self, register)
    }

    /// Stores the lanes of a mask.
    #[inline(always)]
    pub(crate) fn put<L: Lane>(&mut self, register: Reg, mask: u32, value: Row<L>) {
        let row = L::row_mut(self, register);
        if mask == u32::MAX {
            *row = value;
            return;
        }
        for (i, (old, new)) in row.iter_mut().zip(value).enumerate() {
            if mask >> i & 1 != 0 {
                *old = new;
            }
        }
    }

    /// The lanes of a register of either width, as 64 bits.
    pub(crate) fn bits(&self, register: Reg, is_wide: bool) -> Row<u64> {
        if is_wide { *self.get(register) } else { self.get::<u32>(register).map(u64::from) }
    }

    /// Stores lanes of 64 bits in a register of either width.
    pub(crate) fn put_bits(&mut self, register: Reg, is_wide: bool, mask: u32, value: Row<u64>) {
        if is_wide {
            self.put(register, mask, value);
        } else {
            self.put(register, mask, value.map(|bits| bits as u32));
        }
    }

    #[inline(always)]
    pub(crate) fn predicate(&self, predicate: Predicate) -> u32 {
        let mask = self.predicates[usize::from(predicate.register)];
        if predicate.negated { !mask } else { mask }
    }

    #[inline(always)]
    pub(crate) fn put_predicate(&mut self, register: Reg, mask: u32, value: u32) {
        let old = &mut self.predicates[usize::from(register)];
        *old = (*old & !mask) | (value & mask);
    }
}

/// The function of each lane.
#[inline(always)]
pub(crate) fn each<A: Copy, R>(a: &Row<A>, f: impl Fn(A) -> R) -> Row<R> {
    std::array::from_fn(|i| f(a[i]))
}

/// The function of each pair of lanes.
#[inline(always)]
pub(crate) fn pairs<A: Copy, B: Copy, R>(a: &Row<A>, b: &Row<B>, f: impl Fn(A, B) -> R) -> Row<R> {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// The mask of the lanes for which a condition holds.
#[inline(always)]
pub(crate) fn mask_of<A: Copy, B: Copy>(a: &Row<A>, b: &Row<B>, f: impl Fn(A, B) -> bool) -> u32 {
    let mut mask = 0;
    for i in 0..LANES {
        mask |= u32::from(f(a[i], b[i])) << i;
    }
    mask
}
