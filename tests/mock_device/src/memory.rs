//! The memory of the two devices: pages that are mapped twice, once with `PROT_NONE`, for the pointers of tensors, and once for the
//! copies between host and device.
#![expect(unsafe_code, reason = "maps memory")]

use flambeau::core::allocator::MemoryStats;
use flambeau::core::{Allocator, DataPtr, Result, ensure};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Address space for one device.
const BYTES: usize = 8 << 30;

/// Blocks begin at multiples of this.
const ALIGNMENT: usize = 64;

/// The memory of one device.
pub(crate) struct Arena {
    untouchable: *mut u8,
    touchable: *mut u8,
    blocks: Mutex<Blocks>,
}

// SAFETY: the pointers are compared and handed out; what they point at belongs to whoever was given a block.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

#[derive(Default)]
struct Blocks {
    /// The offset of the memory that was never allocated.
    end: usize,
    /// Offsets of freed blocks, by size.
    free: BTreeMap<usize, Vec<usize>>,
    stats: MemoryStats,
}

impl Arena {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: plain system calls; a failure is seen before the result is used.
        unsafe {
            let file = libc::memfd_create(c"mock device".as_ptr(), libc::MFD_CLOEXEC);
            ensure!(
                file >= 0 && libc::ftruncate(file, BYTES as libc::off_t) == 0,
                OutOfMemory,
                "mock: no memory"
            );
            let map = |rights| {
                let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
                libc::mmap(ptr::null_mut(), BYTES, rights, flags, file, 0)
            };
            let (untouchable, touchable) = (map(libc::PROT_NONE), map(libc::PROT_READ | libc::PROT_WRITE));
            libc::close(file);
            ensure!(
                untouchable != libc::MAP_FAILED && touchable != libc::MAP_FAILED,
                OutOfMemory,
                "mock: no address space"
            );
            let blocks = Mutex::default();
            Ok(Arena { untouchable: untouchable.cast(), touchable: touchable.cast(), blocks })
        }
    }

    fn allocate(&'static self, bytes: usize) -> Result<DataPtr> {
        let size = bytes.max(1).next_multiple_of(ALIGNMENT);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let start = match blocks.free.get_mut(&size).and_then(Vec::pop) {
            Some(start) => start,
            None => {
                let left = BYTES - blocks.end;
                ensure!(size <= left, OutOfMemory, "mock: expected {bytes} bytes but {left} are left");
                blocks.end += size;
                blocks.end - size
            }
        };
        blocks.stats.live_bytes += bytes;
        blocks.stats.peak_bytes = blocks.stats.peak_bytes.max(blocks.stats.live_bytes);
        blocks.stats.allocations += 1;
        let context = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: so many bytes from there on are nobody else's; `free` may run on any thread.
        Ok(unsafe { DataPtr::new(self.untouchable.add(start), bytes, context, Some(free)) })
    }

    /// Where the host sees bytes of this device, if they are.
    pub(crate) fn host_address(&self, data: *mut u8, bytes: usize) -> Option<*mut u8> {
        let offset = data.addr().checked_sub(self.untouchable.addr())?;
        let end = offset.checked_add(bytes)?;
        (end <= BYTES).then(|| self.touchable.wrapping_add(offset))
    }
}

/// # Safety
/// - The three are those of a block that [`Arena::allocate`] gave, and this is called once.
unsafe fn free(data: *mut u8, bytes: usize, context: *mut ()) {
    // SAFETY: the condition above; arenas live for ever.
    let arena = unsafe { &*context.cast::<Arena>() };
    let mut blocks = arena.blocks.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.stats.live_bytes -= bytes;
    blocks.stats.frees += 1;
    let start = data.addr() - arena.untouchable.addr();
    blocks.free.entry(bytes.max(1).next_multiple_of(ALIGNMENT)).or_default().push(start);
}

/// The memory of all devices.
pub(crate) struct Memory<const N: usize> {
    pub(crate) arenas: &'static [Arena; N],
    current: fn() -> usize,
}

impl<const N: usize> Memory<N> {
    /// It is there for as long as the process.
    pub(crate) fn new(arenas: [Arena; N], current: fn() -> usize) -> &'static Self {
        Box::leak(Box::new(Memory { arenas: Box::leak(Box::new(arenas)), current }))
    }
}

impl<const N: usize> Allocator for Memory<N> {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        self.allocate_on((self.current)(), bytes)
    }

    fn allocate_on(&self, index: usize, bytes: usize) -> Result<DataPtr> {
        ensure!(index < N, Device, "mock: expected one of {N} devices but got {index}");
        self.arenas[index].allocate(bytes)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        let index = (self.current)();
        let data = self.allocate_on(index, bytes)?;
        if let Some(seen) = self.arenas[index].host_address(data.as_ptr(), bytes) {
            // SAFETY: the block is that long, and nobody else has it yet.
            unsafe { ptr::write_bytes(seen, 0, bytes) };
        }
        Ok(data)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        let find = |data: *mut u8| self.arenas.iter().find_map(|arena| arena.host_address(data, bytes));
        let (Some(from), Some(to)) = (find(from.cast_mut()), find(to)) else {
            flambeau::core::bail!(Device, "mock: {bytes} bytes are on no device")
        };
        // SAFETY: both are inside the devices' pages; (valid), (quiet).
        unsafe { ptr::copy_nonoverlapping(from.cast_const(), to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        let mut sum = MemoryStats::default();
        for arena in self.arenas {
            let stats = arena.blocks.lock().unwrap_or_else(PoisonError::into_inner).stats;
            sum.live_bytes += stats.live_bytes;
            sum.peak_bytes += stats.peak_bytes;
            sum.allocations += stats.allocations;
            sum.frees += stats.frees;
        }
        sum
    }

    fn reset_peak(&self) {
        for arena in self.arenas {
            let mut blocks = arena.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.stats.peak_bytes = blocks.stats.live_bytes;
        }
    }

    fn empty_cache(&self) {}
}
