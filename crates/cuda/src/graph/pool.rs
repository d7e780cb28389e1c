//! The memory of graphs, apart from that of other tensors: a graph has its addresses, so it is not used for anything else as long as the graph
//! or a tensor in it lives.
#![expect(unsafe_code, reason = "hands out device memory and takes it back")]

use crate::blocks::Blocks;
use crate::gpu::{Gpu, devices};
use crate::memory::Segments;
use flambeau_core::{DataPtr, ErrorKind, Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a device. Its segments go back when nobody has it: graphs do, and tensors that are in it.
pub(crate) struct Pool {
    gpu: &'static Gpu,
    blocks: Mutex<Blocks>,
    /// Whether a thread captures into it: of two, each would use what the other frees, though nothing orders them.
    is_captured: AtomicBool,
}

/// The right to capture into a pool.
pub(crate) struct PoolGuard(pub(crate) Arc<Pool>);

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.0.is_captured.store(false, Ordering::Release);
    }
}

impl Pool {
    pub(crate) fn new(gpu: &'static Gpu) -> Arc<Self> {
        let blocks = Mutex::new(Blocks::keeping_segments());
        let pool = Arc::new(Pool { gpu, blocks, is_captured: AtomicBool::new(false) });
        gpu.add_pool(&pool);
        pool
    }

    pub(crate) fn device(&self) -> usize {
        self.gpu.index
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the pool for one capture alone.
    ///
    /// # Errors
    /// `InvalidArgument` where another capture has it, or it is of another device.
    pub(crate) fn begin(self: Arc<Self>, gpu: &Gpu) -> Result<PoolGuard> {
        ensure!(
            self.gpu.index == gpu.index,
            InvalidArgument,
            "expected memory of cuda:{} but got memory of cuda:{}",
            gpu.index,
            self.gpu.index
        );
        ensure!(
            !self.is_captured.swap(true, Ordering::Acquire),
            InvalidArgument,
            "expected a pool into which nobody captures at the moment"
        );
        Ok(PoolGuard(self))
    }

    /// A block, which keeps the pool.
    ///
    /// # Errors
    /// `OutOfMemory`, and what the driver reports.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<DataPtr> {
        let segments = Segments(self.gpu);
        let first = self.blocks().allocate(&segments, bytes);
        let found = first.or_else(|_| {
            self.gpu.release_cached();
            self.blocks().allocate(&segments, bytes)
        });
        let address = found.map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => self.gpu.no_memory(bytes),
            _ => error,
        })?;
        self.gpu.note_allocation(bytes);
        let context = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
        let data = std::ptr::without_provenance_mut(address as usize);
        // SAFETY: the block is of these bytes, and nobody else has it; `free` may run on any thread. The host does not access them.
        Ok(unsafe { DataPtr::new(data, bytes, context, Some(free)) })
    }

    /// Whether bytes are in the pool.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.blocks().contains(address)
    }

    /// Refuses a copy of bytes that are not in the pool, since nothing says who has them until the graph is launched.
    ///
    /// # Errors
    /// `Device` for such bytes.
    pub(crate) fn ensure_has(&self, address: u64, bytes: usize) -> Result<()> {
        ensure!(
            bytes == 0 || self.contains(address),
            Device,
            "cuda: a copy of a whole storage is not permitted while a graph is captured"
        );
        Ok(())
    }

    /// Addresses and bytes of all segments.
    pub(crate) fn segments(&self) -> Vec<(u64, usize)> {
        self.blocks().segments()
    }

    /// Bytes that nothing uses.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.blocks().reserved_and_cached().1
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A forked child has no devices.
        if devices().is_ok() {
            // The driver waits for work that uses them.
            self.segments().into_iter().for_each(|(address, _)| self.gpu.free_segment(address));
        }
    }
}

/// # Safety
/// - The three are those of a block that [`Pool::allocate`] gave, and this is called once.
unsafe fn free(data: *mut u8, bytes: usize, context: *mut ()) {
    // SAFETY: the condition above: the block has its own count of the pool's owners.
    let pool = unsafe { Arc::from_raw(context.cast_const().cast::<Pool>()) };
    pool.gpu.note_free(bytes);
    pool.blocks().free(data.addr() as u64);
}
