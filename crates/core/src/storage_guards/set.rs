//! The storages of a set of guards, each once, in the order of their addresses; a handful takes no allocation.

use crate::storage::{Storage, StorageImpl};
use crate::storage_lock::Access;

/// Up to here the order is found by looking through the caller's slice again and again; beyond, by sorting a copy.
const FEW: usize = 8;

/// Copies nothing in the usual case: guards are taken in every kernel, and moving even eight pointers about costs as
/// much as taking a lock.
pub(super) struct Set<'a> {
    few: &'a [(&'a Storage, Access)],
    many: Vec<(&'a StorageImpl, Access)>,
}

impl<'a> Set<'a> {
    #[inline(always)]
    pub(super) fn new(wanted: &'a [(&'a Storage, Access)]) -> Self {
        if wanted.len() > FEW {
            return Set { few: &[], many: sorted(wanted) };
        }
        Set { few: wanted, many: Vec::new() }
    }

    /// Each storage once, by address, with the most that any entry wants of it.
    #[inline(always)]
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&'a StorageImpl, Access)> {
        let few = self.few;
        let following = move |&(last, _): &(&StorageImpl, Access)| next_after(few, last.address());
        std::iter::successors(next_after(few, 0), following).chain(self.many.iter().copied())
    }

    /// Each storage once, in any order.
    #[inline(always)]
    pub(super) fn each(&self) -> impl Iterator<Item = &'a StorageImpl> {
        let first = |&(i, &(storage, _)): &(usize, &(&Storage, Access))| {
            !self.few[..i].iter().any(|(other, _)| Storage::ptr_eq(other, storage))
        };
        let few = self.few.iter().enumerate().filter(first).map(|(_, &(storage, _))| &**storage);
        few.chain(self.many.iter().map(|&(storage, _)| storage))
    }

    /// Each storage that is to be written once, in any order.
    #[inline(always)]
    pub(super) fn written(&self) -> impl Iterator<Item = &'a StorageImpl> {
        let first = |&(i, &(storage, access)): &(usize, &(&Storage, Access))| {
            let before = |(other, held): &(&Storage, Access)| {
                *held == Access::Write && Storage::ptr_eq(other, storage)
            };
            access == Access::Write && !self.few[..i].iter().any(before)
        };
        let few = self.few.iter().enumerate().filter(first).map(|(_, &(storage, _))| &**storage);
        few.chain(
            self.many.iter().filter(|(_, access)| *access == Access::Write).map(|&(storage, _)| storage),
        )
    }
}

/// The entry with the least address above `last`, and the most that any entry wants of its storage.
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
fn sorted<'a>(wanted: &[(&'a Storage, Access)]) -> Vec<(&'a StorageImpl, Access)> {
    let mut all: Vec<(&StorageImpl, Access)> =
        wanted.iter().map(|&(storage, access)| (&**storage, access)).collect();
    // Of a storage's entries the one that wants most comes first, and is the one that stays.
    all.sort_unstable_by_key(|&(storage, access)| (storage.address(), std::cmp::Reverse(access)));
    all.dedup_by_key(|(storage, _)| storage.address());
    all
}
