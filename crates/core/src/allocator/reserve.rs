//! A global allocator with a reserve: small requests succeed even if the system has no memory left.
//!
//! **Guarantee.** A request of at most [`LARGEST`] bytes fails only if the system has no memory, even after this library has returned
//! the cached memory of freed tensors, and the reserve of [`SIZE`] bytes is in use, less what rounding up sizes wastes. Larger requests
//! fail when the system refuses them after cached memory has been returned: callers that make them must handle that
//! ([`fallible`](crate::fallible)). Elements of tensors never come out of the reserve.
//!
//! So allocations whose failure stable Rust cannot report (boxes, strings, nodes of graphs, texts of errors) succeed until the call that
//! ran out of memory has returned its error. The reserve is zero pages of the program itself: it takes address space from the start, and
//! memory only once it is used.

#![expect(unsafe_code, reason = "is an allocator")]

use crate::fork::ForkSafeMutex;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes of the reserve.
const SIZE: usize = if cfg!(miri) { 1 << 20 } else { 16 << 20 };
/// The largest request that it answers.
const LARGEST: usize = 64 << 10;
/// The smallest block; blocks are powers of two from there.
const SMALLEST: usize = 64;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;

/// The system's allocator with a reserve behind it, for `#[global_allocator]`.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: flambeau_core::allocator::WithReserve = flambeau_core::allocator::WithReserve;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct WithReserve;

// SAFETY: blocks are the system's, or those of the reserve, which has one owner for each at a time; only those of the reserve begin
// inside `MEMORY`. Nothing here unwinds.
unsafe impl GlobalAlloc for WithReserve {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() { rescue(layout, false) } else { block }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        let block = unsafe { System.alloc_zeroed(layout) };
        if block.is_null() { rescue(layout, true) } else { block }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if holds(block) {
            put(block, layout);
        } else {
            // SAFETY: the caller's conditions, and it is the system's.
            unsafe { System.dealloc(block, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !holds(block) {
            // SAFETY: the caller's conditions, and it is the system's.
            let moved = unsafe { System.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller's conditions.
        unsafe { move_block(block, layout, size) }
    }
}

/// Moves the content of a block that could not grow to another block.
///
/// # Safety
/// - As [`GlobalAlloc::realloc`].
#[cold]
unsafe fn move_block(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the caller's conditions: the size is no overflow, and the old block holds what is copied.
    unsafe {
        let moved = WithReserve.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            WithReserve.dealloc(block, layout);
        }
        moved
    }
}

/// Allocates a block after the system has refused one; null if that fails too.
#[cold]
#[inline(never)]
fn rescue(layout: Layout, zeroed: bool) -> *mut u8 {
    super::release_cached();
    // SAFETY: callers of the allocator request at least one byte.
    let block = unsafe { System.alloc(layout) };
    let block = if block.is_null() { take(layout) } else { block };
    if zeroed && !block.is_null() {
        // SAFETY: a fresh block of that size.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

#[repr(align(4096))]
struct Memory(UnsafeCell<MaybeUninit<[u8; SIZE]>>);

// SAFETY: each block of it has one owner, as recorded by the lists below, which are locked.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new(MaybeUninit::uninit()));

pub(super) static BLOCKS: ForkSafeMutex<Blocks> =
    ForkSafeMutex::new(Blocks { free: [ptr::null_mut(); CLASSES], cut: 0, used: 0 });

/// Whether a block is one of the reserve's.
#[inline(always)]
pub(super) fn holds(block: *const u8) -> bool {
    block.addr().wrapping_sub(MEMORY.0.get().addr()) < SIZE
}

/// What a free block holds.
struct FreeBlock {
    next: *mut FreeBlock,
}

pub(super) struct Blocks {
    free: [*mut FreeBlock; CLASSES],
    /// The end of the blocks that have been cut out of the memory.
    cut: usize,
    /// How many blocks are in use.
    used: usize,
}

// SAFETY: free blocks belong to the lists, and memory to no thread.
unsafe impl Send for Blocks {}

/// The class of a block's size, if the reserve has such blocks: sizes are powers of two, to which blocks are aligned.
fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (size <= LARGEST && layout.align() <= SMALLEST).then(|| (size / SMALLEST).ilog2() as usize)
}

/// A block of the reserve, or null.
fn take(layout: Layout) -> *mut u8 {
    let Some(class) = class_of(layout) else { return ptr::null_mut() };
    let mut blocks = BLOCKS.lock();
    let block = blocks.take(class);
    blocks.used += usize::from(!block.is_null());
    block
}

#[cold]
#[inline(never)]
fn put(block: *mut u8, layout: Layout) {
    if let Some(class) = class_of(layout) {
        BLOCKS.lock().put(class, block.cast());
    }
}

impl Blocks {
    fn take(&mut self, class: usize) -> *mut u8 {
        let first = self.free[class];
        if !first.is_null() {
            // SAFETY: the list owns its blocks, each of which holds a `FreeBlock`.
            self.free[class] = unsafe { (*first).next };
            return first.cast();
        }
        let size = SMALLEST << class;
        if size > SIZE - self.cut {
            return ptr::null_mut();
        }
        let block = MEMORY.0.get().cast::<u8>().wrapping_add(self.cut);
        self.cut += size;
        block
    }

    fn put(&mut self, class: usize, block: *mut FreeBlock) {
        self.used -= 1;
        if self.used == 0 {
            // All of the memory is free, and is cut into blocks anew.
            (self.free, self.cut) = ([ptr::null_mut(); CLASSES], 0);
            return;
        }
        // SAFETY: the block has just been freed; every size has room for a pointer and is aligned for it.
        unsafe { block.write(FreeBlock { next: self.free[class] }) };
        self.free[class] = block;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// There is one reserve, so that these tests must not run at once.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Blocks of random sizes do not overlap, keep what is written, and all of the reserve is free in the end.
    #[test]
    fn blocks_do_not_overlap_and_all_memory_is_free_in_the_end() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..3 {
            let mut kept: Vec<(*mut u8, Layout, u8)> = Vec::new();
            for round in 0..if cfg!(miri) { 60 } else { 2000 } {
                let most = 2 << draw(16);
                let size = 1 + draw(most);
                let layout = Layout::from_size_align(size.min(LARGEST), 1 << draw(7)).unwrap();
                let block = take(layout);
                if !block.is_null() {
                    assert!(holds(block) && block.addr().is_multiple_of(layout.align()));
                    // SAFETY: a fresh block of that size.
                    unsafe { block.write_bytes(round as u8, layout.size()) };
                    kept.push((block, layout, round as u8));
                }
                if kept.len() > 100 || block.is_null() {
                    give_back(kept.swap_remove(draw(kept.len())));
                }
            }
            kept.into_iter().for_each(give_back);
            let blocks = BLOCKS.lock();
            assert_eq!((blocks.used, blocks.cut), (0, 0));
            drop(blocks);
        }
    }

    fn give_back((block, layout, byte): (*mut u8, Layout, u8)) {
        // SAFETY: it was written when it was taken, and is not used any more.
        let held = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        assert!(held.iter().all(|b| *b == byte));
        // SAFETY: as above.
        unsafe { WithReserve.dealloc(block, layout) };
    }

    /// A block that grows beyond the largest block of the reserve moves to the system's memory, with its content.
    #[test]
    fn a_block_grows_out_of_the_reserve() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = Layout::from_size_align(100, 8).unwrap();
        let block = take(layout);
        // SAFETY: blocks of these sizes, one after the other.
        unsafe {
            block.write_bytes(9, 100);
            let grown = WithReserve.realloc(block, layout, 5000);
            assert!(!holds(grown) && std::slice::from_raw_parts(grown, 100) == [9; 100]);
            WithReserve.dealloc(grown, Layout::from_size_align(5000, 8).unwrap());
        }
        assert!(take(Layout::from_size_align(LARGEST + 1, 8).unwrap()).is_null());
        assert!(take(Layout::from_size_align(64, 4096).unwrap()).is_null());
    }
}
