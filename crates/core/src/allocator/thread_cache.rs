//! Each thread's own lists of free blocks of up to 16 KiB, for small objects and small tensor data alike.
//!
//! Blocks have no header: the caller that frees one knows its class. A block that another thread frees than the one that allocated it
//! goes to the lists of the thread that frees it. The lists are flushed when the thread exits; blocks that another thread-local's
//! destructor allocates or frees after that come from the system and return to it.

#![expect(unsafe_code, reason = "keeps free memory in lists threaded through the memory itself")]

use super::size_class::{ALIGNMENT, SMALL_CLASSES, class_bytes, class_of};
use super::stats::Counters;
use super::{AT_FORK, reserve, shared_cache, system};
use crate::fork::ForkSafeMutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many bytes a thread caches in one class: enough for the small results of two large kernels, and for a graph of some thousand
/// nodes.
const MAX_CACHED_BYTES: usize = 256 << 10;

/// What a free block holds.
struct FreeBlock {
    next: *mut FreeBlock,
}

/// The part of a thread's state that statistics read from other threads. Only its own thread writes, with plain
/// loads and stores: an atomic read-modify-write costs as much as all the rest of an allocation.
pub(super) struct Shared {
    pub(super) counters: Counters,
    /// How many more blocks each list takes. 0 before the thread is registered and after it has exited, so that the fast path need not
    /// test for either.
    room: [AtomicU32; SMALL_CLASSES],
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Unregistered,
    Registered,
    Exited,
}

struct Thread {
    heads: [Cell<*mut FreeBlock>; SMALL_CLASSES],
    phase: Cell<Phase>,
    shared: Shared,
}

thread_local! {
    /// Has no destructor, so that an access needs no test whether it is initialised.
    static THREAD: Thread = const { Thread {
        heads: [const { Cell::new(ptr::null_mut()) }; SMALL_CLASSES],
        phase: Cell::new(Phase::Unregistered),
        shared: Shared { counters: Counters::new(), room: [const { AtomicU32::new(0) }; SMALL_CLASSES] },
    } };
    /// Flushes `THREAD` when the thread exits.
    static EXIT: Exit = const { Exit };
}

struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        THREAD.with(Thread::exit);
    }
}

/// The threads whose counts statistics must sum.
pub(super) static THREADS: ForkSafeMutex<Threads> = ForkSafeMutex::new(Threads(Vec::new()));

pub(super) struct Threads(Vec<NonNull<Shared>>);

// SAFETY: `Shared` is all atomics, and `exit` removes a thread's from the list before its memory is freed.
unsafe impl Send for Threads {}

impl Threads {
    pub(super) fn lock() -> MutexGuard<'static, Threads> {
        THREADS.lock()
    }

    /// In a forked child: publishes what the parent's other threads have counted, and removes them, since the child does not have them.
    /// Their memory is still mapped, but will be reused for new threads.
    pub(super) fn begin_child(&mut self) {
        let own: *const Shared = THREAD.with(|thread| &raw const thread.shared);
        self.iter().filter(|shared| !ptr::eq(*shared, own)).for_each(|shared| shared.counters.publish());
        self.0.retain(|shared| ptr::eq(shared.as_ptr(), own));
    }

    /// The state of every registered thread.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Shared> {
        // SAFETY: the thread removes itself before its memory is freed, and cannot while the list is borrowed.
        self.0.iter().map(|shared| unsafe { shared.as_ref() })
    }
}

impl Shared {
    /// How many bytes the thread's lists cache.
    pub(super) fn cached_bytes(&self) -> usize {
        let cached = |(class, room): (usize, &AtomicU32)| {
            (max_cached_blocks(class) - room.load(Relaxed)) as usize * class_bytes(class)
        };
        self.room.iter().enumerate().map(cached).sum()
    }
}

const fn max_cached_blocks(class: usize) -> u32 {
    (MAX_CACHED_BYTES / class_bytes(class)) as u32
}

/// What a block is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Use {
    /// Elements of a tensor, whose allocation may fail with an error.
    Elements,
    /// An object, whose allocation cannot return an error: it may come from the reserve.
    Object,
}

/// A block of a class, uninitialised, or `None` if the system has no memory.
#[inline(always)]
pub(super) fn allocate(class: usize, to: Use) -> Option<NonNull<u8>> {
    THREAD.with(|thread| match NonNull::new(thread.heads[class].get()) {
        // SAFETY: the list owns its blocks, and each holds a `FreeBlock`.
        Some(block) => unsafe { Some(thread.pop(class, block)) },
        None => thread.allocate_slow(class, to),
    })
}

/// Gives a block back.
///
/// # Safety
/// - (owned) `block` came from [`allocate`] of the same class, on any thread, and is not used any more.
#[inline(always)]
pub(super) unsafe fn free(block: NonNull<u8>, class: usize) {
    THREAD.with(|thread| {
        let room = thread.shared.room[class].load(Relaxed);
        // SAFETY: (owned).
        unsafe { if room > 0 { thread.push(class, block, room) } else { thread.free_slow(class, block) } }
    });
}

/// Counts an allocation of `bytes`, for the statistics.
#[inline(always)]
pub(super) fn count_allocation(bytes: usize) {
    THREAD.with(|thread| {
        if thread.shared.counters.allocated(bytes) {
            thread.publish();
        }
    });
}

/// Counts the freeing of an allocation of `bytes`.
#[inline(always)]
pub(super) fn count_free(bytes: usize) {
    THREAD.with(|thread| {
        if thread.shared.counters.freed(bytes) {
            thread.publish();
        }
    });
}

/// Gives the calling thread's free blocks back to the system.
pub(super) fn flush() {
    THREAD.with(Thread::flush);
}

impl Thread {
    /// # Safety
    /// - `block` is the first of the class's list.
    #[inline(always)]
    unsafe fn pop(&self, class: usize, block: NonNull<FreeBlock>) -> NonNull<u8> {
        // SAFETY: the list owns the block.
        self.heads[class].set(unsafe { block.as_ref().next });
        let room = &self.shared.room[class];
        room.store(room.load(Relaxed) + 1, Relaxed);
        block.cast()
    }

    /// # Safety
    /// - (owned) as for [`free`].
    #[inline(always)]
    unsafe fn push(&self, class: usize, block: NonNull<u8>, room: u32) {
        let block: NonNull<FreeBlock> = block.cast();
        // SAFETY: (owned); every class has room for a pointer and is aligned for it.
        unsafe { block.write(FreeBlock { next: self.heads[class].get() }) };
        self.heads[class].set(block.as_ptr());
        self.shared.room[class].store(room - 1, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn allocate_slow(&self, class: usize, to: Use) -> Option<NonNull<u8>> {
        self.register();
        let block = system::allocate(class_bytes(class), false).or_else(|| {
            shared_cache::empty(); // The memory of cached large blocks may suffice.
            system::allocate(class_bytes(class), false)
        })?;
        if to == Use::Elements && reserve::holds(block.as_ptr()) {
            // SAFETY: just allocated, with this size.
            unsafe { system::free(block, class_bytes(class)) };
            return None;
        }
        Some(block)
    }

    /// # Safety
    /// - (owned) as for [`free`].
    #[cold]
    #[inline(never)]
    unsafe fn free_slow(&self, class: usize, block: NonNull<u8>) {
        self.register();
        let room = self.shared.room[class].load(Relaxed);
        // SAFETY: (owned); `allocate_slow` got the block with this size.
        unsafe {
            if room > 0 { self.push(class, block, room) } else { system::free(block, class_bytes(class)) }
        }
    }

    #[cold]
    #[inline(never)]
    fn publish(&self) {
        self.register();
        self.shared.counters.publish();
    }

    /// Registers the thread, and opens its lists, once; not if the thread is exiting, so that nothing would flush them.
    fn register(&self) {
        if self.phase.get() != Phase::Unregistered {
            return;
        }
        if EXIT.try_with(|_| ()).is_err() {
            return self.phase.set(Phase::Exited);
        }
        self.phase.set(Phase::Registered);
        AT_FORK.register();
        THREADS.lock().0.push(NonNull::from(&self.shared));
        self.shared.counters.open();
        for (class, room) in self.shared.room.iter().enumerate() {
            room.store(max_cached_blocks(class), Relaxed);
        }
    }

    fn exit(&self) {
        self.flush();
        self.phase.set(Phase::Exited);
        let mut threads = THREADS.lock();
        threads.0.retain(|other| !ptr::eq(other.as_ptr(), &self.shared));
        self.shared.room.iter().for_each(|room| room.store(0, Relaxed));
        // Under the lock, so that no thread sums the counts between their removal from the list and their publication.
        self.shared.counters.close();
    }

    fn flush(&self) {
        for class in 0..SMALL_CLASSES {
            while let Some(block) = NonNull::new(self.heads[class].get()) {
                // SAFETY: the list owned it, and it came from the system with this size.
                unsafe { system::free(self.pop(class, block), class_bytes(class)) }
            }
        }
    }
}

/// The memory of an object, freed when this is dropped. It owns the memory while the object is being made or dropped, either of which
/// may unwind.
pub(crate) struct ObjectBlock(NonNull<u8>, Layout);

impl ObjectBlock {
    /// Fresh memory. Ends the process if there is none, as `Box::new` does.
    #[inline(always)]
    pub(crate) fn new(layout: Layout) -> Self {
        let block = if is_small(layout) {
            allocate(class_of(layout.size()), Use::Object)
        } else {
            // SAFETY: an object that is not small has a size.
            NonNull::new(unsafe { alloc(layout) })
        };
        match block {
            Some(block) => ObjectBlock(block, layout),
            None => handle_alloc_error(layout),
        }
    }

    /// Takes back ownership of the memory of an object.
    ///
    /// # Safety
    /// - (given) `block` is the address of an `ObjectBlock` of this layout that went through [`into_raw`](Self::into_raw), and is not used
    ///   after this is dropped.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(block: NonNull<u8>, layout: Layout) -> Self {
        ObjectBlock(block, layout)
    }

    /// The address of the memory.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.0
    }

    /// Passes ownership to the object that has been written there; [`from_raw`](Self::from_raw) takes it back.
    #[inline(always)]
    pub(crate) fn into_raw(self) {
        std::mem::forget(self);
    }
}

impl Drop for ObjectBlock {
    #[inline(always)]
    fn drop(&mut self) {
        let ObjectBlock(block, layout) = *self;
        // SAFETY: (given), or allocated by `new` and not passed on; the same branch as in `new`.
        unsafe {
            if is_small(layout) {
                free(block, class_of(layout.size()))
            } else {
                dealloc(block.as_ptr(), layout)
            }
        }
    }
}

/// The largest object that comes from the lists: blocks up to this size come from the global allocator, which may have a reserve.
const OBJECT_MAX: usize = 1 << 10;

/// Whether the lists have blocks for this. Not under loom, whose threads share one real thread.
#[inline(always)]
const fn is_small(layout: Layout) -> bool {
    layout.size() <= OBJECT_MAX && layout.align() <= ALIGNMENT && !cfg!(loom)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
