//! The storages of a set of guards, each once, in the order of their addresses; a small set needs no allocation.

use crate::storage::{Storage, StorageImpl};
use crate::storage_lock::Access;

/// Up to so many entries, each step of the iteration searches the caller's slice for the next address; larger sets are sorted copies.
const SMALL_SET: usize = 8;

/// A small set copies nothing: guards are taken in every kernel, and moving even eight pointers costs as much as taking a lock.
pub(super) struct Set<'a> {
    /// The caller's slice, if the set is small.
    small: &'a [(&'a Storage, Access)],
    /// Sorted and without duplicates, if it is not.
    sorted: Vec<(&'a StorageImpl, Access)>,
}

impl<'a> Set<'a> {
    #[inline(always)]
    pub(super) fn new(operands: &'a [(&'a Storage, Access)]) -> Self {
        if operands.len() > SMALL_SET {
            return Set { small: &[], sorted: sorted(operands) };
        }
        Set { small: operands, sorted: Vec::new() }
    }

    /// Each storage once, by address, with the strongest access of its entries.
    #[inline(always)]
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&'a StorageImpl, Access)> {
        let small = self.small;
        let following = move |&(last, _): &(&StorageImpl, Access)| next_after(small, last.address());
        std::iter::successors(next_after(small, 0), following).chain(self.sorted.iter().copied())
    }

    /// Each storage once, in any order.
    #[inline(always)]
    pub(super) fn each(&self) -> impl Iterator<Item = &'a StorageImpl> {
        let first = |&(i, &(storage, _)): &(usize, &(&Storage, Access))| {
            !self.small[..i].iter().any(|(other, _)| Storage::ptr_eq(other, storage))
        };
        let small = self.small.iter().enumerate().filter(first).map(|(_, &(storage, _))| &**storage);
        small.chain(self.sorted.iter().map(|&(storage, _)| storage))
    }

    /// Each storage that is to be written once, in any order.
    #[inline(always)]
    pub(super) fn written(&self) -> impl Iterator<Item = &'a StorageImpl> {
        let first = |&(i, &(storage, access)): &(usize, &(&Storage, Access))| {
            let before = |(other, held): &(&Storage, Access)| {
                *held == Access::Write && Storage::ptr_eq(other, storage)
            };
            access == Access::Write && !self.small[..i].iter().any(before)
        };
        let small = self.small.iter().enumerate().filter(first).map(|(_, &(storage, _))| &**storage);
        small.chain(
            self.sorted.iter().filter(|(_, access)| *access == Access::Write).map(|&(storage, _)| storage),
        )
    }
}

/// The storage with the smallest address above `last`, with the strongest access of its entries.
#[inline(always)]
fn next_after<'a>(entries: &[(&'a Storage, Access)], last: usize) -> Option<(&'a StorageImpl, Access)> {
    let mut next: Option<(&StorageImpl, Access)> = None;
    for &(storage, access) in entries {
        let address = storage.address();
        if address <= last {
            continue;
        }
        next = match next {
            Some((best, _)) if best.address() < address => next,
            Some((best, held)) if best.address() == address => Some((best, held.max(access))),
            _ => Some((storage, access)),
        };
    }
    next
}

#[cold]
fn sorted<'a>(operands: &[(&'a Storage, Access)]) -> Vec<(&'a StorageImpl, Access)> {
    let mut all: Vec<(&StorageImpl, Access)> =
        operands.iter().map(|&(storage, access)| (&**storage, access)).collect();
    // Of a storage's entries the one of the strongest access comes first, and is the one that `dedup_by_key` retains.
    all.sort_unstable_by_key(|&(storage, access)| (storage.address(), std::cmp::Reverse(access)));
    all.dedup_by_key(|(storage, _)| storage.address());
    all
}
