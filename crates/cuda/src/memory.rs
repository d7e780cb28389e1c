//! The allocator of device memory, one for all devices.
#![expect(unsafe_code, reason = "hands out device memory and takes it back")]

use crate::blocks::{Blocks, SegmentSource};
use crate::gpu::{Gpu, devices};
use crate::graph::{self, Pool};
use flambeau_core::allocator::MemoryStats;
use flambeau_core::{Access, Allocator, DataPtr, ErrorKind, Result, ensure, error};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Whether freed memory is kept. With `FLAMBEAU_NO_CUDA_MEMORY_CACHING=1` in the environment every tensor has memory of its own from the
/// driver, so that a tool which checks accesses to memory sees where each ends.
fn is_caching() -> bool {
    static CACHING: LazyLock<bool> =
        LazyLock::new(|| std::env::var("FLAMBEAU_NO_CUDA_MEMORY_CACHING").map_or(true, |value| value != "1"));
    *CACHING
}

/// The memory of one device.
#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    /// The memory of captured graphs, which is apart.
    pools: Mutex<Vec<Weak<Pool>>>,
}

#[derive(Default)]
struct State {
    blocks: Blocks,
    stats: MemoryStats,
}

impl State {
    fn note_allocation(&mut self, bytes: usize) {
        let stats = &mut self.stats;
        stats.live_bytes += bytes;
        stats.peak_bytes = stats.peak_bytes.max(stats.live_bytes);
        stats.allocations += 1;
    }

    fn note_free(&mut self, bytes: usize) {
        self.stats.live_bytes -= bytes;
        self.stats.frees += 1;
    }
}

/// Segments of a device's memory.
pub(crate) struct Segments<'a>(pub(crate) &'a Gpu);

impl SegmentSource for Segments<'_> {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.0.allocate_segment(bytes)
    }

    fn free(&self, address: u64) {
        self.0.free_segment(address);
    }
}

impl Gpu {
    fn memory_state(&self) -> std::sync::MutexGuard<'_, State> {
        self.memory.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory_stats(&self) -> MemoryStats {
        let of_graphs: usize = self.pools().iter().map(|pool| pool.cached_bytes()).sum();
        let state = self.memory_state();
        let mut stats = state.stats;
        stats.cached_bytes = state.blocks.reserved_and_cached().1 + of_graphs;
        stats
    }

    /// The memory of captured graphs.
    fn pools(&self) -> Vec<Arc<Pool>> {
        let mut pools = self.memory.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.iter().filter_map(Weak::upgrade).collect()
    }

    /// Has memory of captured graphs counted.
    pub(crate) fn add_pool(&self, pool: &Arc<Pool>) {
        self.memory.pools.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(pool));
    }

    /// Counts an allocation.
    pub(crate) fn note_allocation(&self, bytes: usize) {
        self.memory_state().note_allocation(bytes);
    }

    /// Counts a block that is freed.
    pub(crate) fn note_free(&self, bytes: usize) {
        self.memory_state().note_free(bytes);
    }

    /// Returns free segments to the device.
    pub(crate) fn release_cached(&self) {
        self.memory_state().blocks.release_free(&Segments(self));
    }

    pub(crate) fn no_memory(&self, bytes: usize) -> flambeau_core::Error {
        self.out_of_memory(bytes, &self.memory_state())
    }

    pub(crate) fn reset_peak(&self) {
        let stats = &mut self.memory_state().stats;
        stats.peak_bytes = stats.live_bytes;
    }

    fn allocate(&'static self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::empty());
        }
        if let Some(pool) = graph::captured_pool(self.index) {
            return pool.allocate(bytes);
        }
        let mut state = self.memory_state();
        let found = match is_caching() {
            true => state.blocks.allocate(&Segments(self), bytes),
            false => self.allocate_segment(bytes),
        };
        let address = found.map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => self.out_of_memory(bytes, &state),
            _ => error,
        })?;
        if let Err(error) = self.order_allocation(address, bytes) {
            self.give_back(&mut state, address);
            return Err(error);
        }
        state.note_allocation(bytes);
        let context = std::ptr::from_ref(self).cast_mut().cast();
        let data = std::ptr::without_provenance_mut(address as usize);
        // SAFETY: the block is of these bytes, and nobody else has it; `free` may run on any thread. The host does not access them.
        Ok(unsafe { DataPtr::new(data, bytes, context, Some(free)) })
    }

    /// Takes a block back.
    fn give_back(&self, state: &mut State, address: u64) {
        if is_caching() {
            // In one stream, whatever uses the block next comes after what uses it now; of several, the allocation waits.
            state.blocks.free(address);
        } else {
            self.free_segment(address);
        }
    }

    #[cold]
    fn out_of_memory(&self, bytes: usize, state: &State) -> flambeau_core::Error {
        let (reserved, cached) = state.blocks.reserved_and_cached();
        let free = self.free_bytes().unwrap_or(0);
        error!(
            OutOfMemory,
            "cuda:{} has no {bytes} bytes: tensors use {}, {cached} of {reserved} reserved bytes are cached, and {free} \
             are free on the device",
            self.index,
            state.stats.live_bytes
        )
    }
}

/// # Safety
/// - The three are those of a block that [`Gpu::allocate`] gave, and this is called once.
unsafe fn free(data: *mut u8, bytes: usize, context: *mut ()) {
    // SAFETY: the condition above; devices live as long as the process.
    let gpu = unsafe { &*context.cast::<Gpu>() };
    let mut state = gpu.memory_state();
    state.note_free(bytes);
    gpu.give_back(&mut state, data.addr() as u64);
}

/// The allocator of all devices.
pub(crate) struct CudaAllocator;

impl Allocator for CudaAllocator {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        devices()?.current()?.allocate(bytes)
    }

    fn allocate_on(&self, index: usize, bytes: usize) -> Result<DataPtr> {
        devices()?.gpu(index)?.allocate(bytes)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        let gpu = devices()?.current()?;
        let data = gpu.allocate(bytes)?;
        gpu.fill_zero(data.as_ptr().addr() as u64, bytes)?;
        Ok(data)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        ensure!(bytes < usize::MAX / 2, Overflow, "cuda: expected a copy of fewer than {bytes} bytes");
        let gpu = devices()?.current()?;
        gpu.order(from.addr() as u64, bytes, Access::Read)?;
        gpu.order(to.addr() as u64, bytes, Access::Write)?;
        gpu.copy_within(from.addr() as u64, to.addr() as u64, bytes)
    }

    fn memory_stats(&self) -> MemoryStats {
        let mut sum = MemoryStats::default();
        for gpu in devices().map(|devices| devices.started()).unwrap_or_default() {
            let stats = gpu.memory_stats();
            sum.live_bytes += stats.live_bytes;
            sum.peak_bytes += stats.peak_bytes;
            sum.cached_bytes += stats.cached_bytes;
            sum.allocations += stats.allocations;
            sum.frees += stats.frees;
        }
        sum
    }

    fn reset_peak(&self) {
        devices().map(|devices| devices.started()).unwrap_or_default().into_iter().for_each(Gpu::reset_peak);
    }

    fn empty_cache(&self) {
        for gpu in devices().map(|devices| devices.started()).unwrap_or_default() {
            // What still uses freed blocks has to end first.
            if gpu.wait_for_all().is_ok() {
                gpu.memory_state().blocks.release_free(&Segments(gpu));
            }
        }
    }
}
