//! Page-locked ("pinned") memory of the host, which devices read by themselves. A copy from it that need not block goes without staging:
//! the device reads it when it gets to the copy, and until then the memory is not used again.
//!
//! Blocks have powers of two as sizes. A freed block is given out again once the copies from it are done.
#![expect(unsafe_code, reason = "hands out pinned memory and takes it back")]

use crate::driver::{
    CUevent, CUresult, DevicePtr, cuEventQuery, cuEventRecord, cuMemFreeHost, cuMemHostAlloc,
    cuMemcpyHtoDAsync_v2,
};
use crate::gpu::{Gpu, devices};
use crate::graph;
use flambeau_core::allocator::MemoryStats;
use flambeau_core::{Allocator, DataPtr, Device, Result, Storage, TensorImpl, ensure, error};
use flambeau_ops::{Tensor, ops};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Memory that every device's context knows.
const PORTABLE: u32 = 1;
/// The smallest block.
const SMALLEST: usize = 512;

/// A block, by whose address it is listed.
struct Block {
    bytes: usize,
    is_live: bool,
    /// The devices that copy from it, and the events after those copies.
    copies: Vec<(usize, Event)>,
}

/// An event of the driver.
struct Event(CUevent);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Event {}

#[derive(Default)]
struct Pool {
    blocks: BTreeMap<usize, Block>,
    stats: MemoryStats,
}

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);
/// Set by the first block, so that programs without pinned memory look for none.
static IS_USED: AtomicBool = AtomicBool::new(false);

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// The block that has a range, if one in use does.
    fn block_of(&mut self, address: usize, bytes: usize) -> Option<&mut Block> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        let is_inside = address.checked_add(bytes)? <= start + block.bytes;
        (block.is_live && is_inside).then_some(block)
    }

    /// The free block of a size from which nothing is copied any more.
    fn free_block(&mut self, bytes: usize) -> Option<(usize, &mut Block)> {
        let mut free = self.blocks.iter_mut().filter(|(_, block)| !block.is_live && block.bytes == bytes);
        free.find_map(|(address, block)| block.is_quiet().then_some((*address, block)))
    }
}

impl Block {
    /// Whether all copies from it are done; their events are destroyed then.
    fn is_quiet(&mut self) -> bool {
        self.copies.retain(|(device, event)| {
            let Ok(gpu) = devices().and_then(|devices| devices.gpu(*device)) else { return true };
            // SAFETY: the event exists.
            let is_done =
                gpu.activate().is_ok() && unsafe { cuEventQuery(event.0) } == CUresult::CUDA_SUCCESS;
            if is_done {
                gpu.destroy_event(event.0);
            }
            !is_done
        });
        self.copies.is_empty()
    }
}

/// The allocator of pinned memory.
struct PinnedAllocator;

impl Allocator for PinnedAllocator {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::empty());
        }
        graph::refuse_on_any_device("an allocation of pinned memory")?;
        let size = bytes.checked_next_power_of_two().map(|size| size.max(SMALLEST));
        let size = size.ok_or_else(|| error!(OutOfMemory, "cuda: no memory has {bytes} bytes"))?;
        let mut pool = pool();
        let address = match pool.free_block(size) {
            Some((address, block)) => {
                block.is_live = true;
                address
            }
            None => {
                let address = allocate_block(size)?;
                pool.blocks.insert(address, Block { bytes: size, is_live: true, copies: Vec::new() });
                address
            }
        };
        pool.stats.live_bytes += bytes;
        pool.stats.peak_bytes = pool.stats.peak_bytes.max(pool.stats.live_bytes);
        pool.stats.allocations += 1;
        IS_USED.store(true, Ordering::SeqCst);
        let data = ptr::with_exposed_provenance_mut(address);
        // SAFETY: the block has these bytes, and nobody else has it; `free` may run on any thread.
        Ok(unsafe { DataPtr::new(data, bytes, ptr::null_mut(), Some(free)) })
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        let data = self.allocate(bytes)?;
        // SAFETY: so many bytes, which nobody else has.
        unsafe { ptr::write_bytes(data.as_ptr(), 0, bytes) };
        Ok(data)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: what the caller says of memory of the host.
        unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        let pool = pool();
        let mut stats = pool.stats;
        let free = pool.blocks.values().filter(|block| !block.is_live);
        stats.cached_bytes = free.map(|block| block.bytes).sum();
        stats
    }

    fn reset_peak(&self) {
        let stats = &mut pool().stats;
        stats.peak_bytes = stats.live_bytes;
    }

    fn empty_cache(&self) {
        pool().blocks.retain(|address, block| {
            let stays = block.is_live || !block.is_quiet();
            if !stays {
                // SAFETY: the block came from `allocate_block`, and nobody uses it.
                let _ = unsafe { cuMemFreeHost(ptr::with_exposed_provenance_mut(*address)) };
            }
            stays
        });
    }
}

fn allocate_block(bytes: usize) -> Result<usize> {
    let gpu = devices()?.current()?;
    gpu.activate()?;
    let mut data: *mut c_void = ptr::null_mut();
    // SAFETY: the function writes an address.
    let status = unsafe { cuMemHostAlloc(&raw mut data, bytes, PORTABLE) };
    gpu.driver.check(status, "cuMemHostAlloc")?;
    Ok(data.expose_provenance())
}

/// # Safety
/// - The three are those of a block that the allocator gave, and this is called once.
unsafe fn free(data: *mut u8, bytes: usize, _: *mut ()) {
    let mut pool = pool();
    if let Some(block) = pool.blocks.get_mut(&data.addr()) {
        block.is_live = false;
    }
    pool.stats.live_bytes -= bytes;
    pool.stats.frees += 1;
}

/// Returns pinned memory that nobody uses to the system.
pub(crate) fn empty_cache() {
    // The driver waits for all devices before it takes pinned memory back.
    if IS_USED.load(Ordering::Relaxed) && graph::refuse_on_any_device("").is_ok() {
        PinnedAllocator.empty_cache();
    }
}

/// A copy of a tensor of the host in pinned memory; a tensor that is there already is returned as it is.
///
/// # Errors
/// `Device` where there is no driver or no device, or the tensor is not on the host; `OutOfMemory`.
///
/// ```no_run
/// use flambeau_core::Device;
/// use flambeau_ops::{Tensor, ops};
/// let batch = flambeau_cuda::pin_memory(&Tensor::from([1.0f32, 2.0]))?;
/// // Returns at once. Until the device has read the batch, the program does not write to it.
/// let there = ops::_to_copy(&batch, None, None, Some(Device::cuda(0)), None, true, None)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn pin_memory(tensor: &Tensor) -> Result<Tensor> {
    const NAME: &str = "pin_memory";
    ensure!(
        tensor.device().is_cpu(),
        Device(NAME, "self"),
        "cannot pin a tensor on {}; only dense CPU tensors can be pinned",
        tensor.device()
    );
    if is_pinned(tensor) {
        return Ok(tensor.clone());
    }
    // With the strides that a copy has by default.
    let shape = ops::empty_like(tensor, None, None, Some(Device::META), None, None)?;
    let geometry = shape.geometry().clone();
    let storage = Storage::with_allocator(geometry.nbytes(tensor.dtype())?, Device::CPU, &PinnedAllocator)
        .map_err(|error| error.in_operator(NAME))?;
    let pinned = Tensor::from_impl(TensorImpl::new(storage, geometry, tensor.dtype())?);
    ops::copy_(&pinned, tensor, false)?;
    Ok(pinned)
}

/// Whether a tensor is in pinned memory.
pub fn is_pinned(tensor: &Tensor) -> bool {
    let storage = tensor.storage();
    IS_USED.load(Ordering::Relaxed)
        && storage.device().is_cpu()
        && pool().block_of(storage.data_ptr().addr(), storage.nbytes()).is_some()
}

thread_local! {
    /// Whether the copy that this thread makes need not be done when it returns.
    static NON_BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a copy, which need not be done when it returns if it is `non_blocking`.
pub(crate) fn copying<R>(non_blocking: bool, copy: impl FnOnce() -> R) -> R {
    let before = NON_BLOCKING.replace(non_blocking);
    let result = copy();
    NON_BLOCKING.set(before);
    result
}

impl Gpu {
    /// Has the device read pinned memory when it gets to the copy, if the copy need not block and is from such memory; returns whether it
    /// is.
    ///
    /// # Safety
    /// - (valid) As for [`copy_from_host`](Self::copy_from_host).
    pub(crate) unsafe fn copy_from_pinned(
        &self,
        from: *const u8,
        to: DevicePtr,
        bytes: usize,
    ) -> Result<bool> {
        if !NON_BLOCKING.get() || !IS_USED.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut pool = pool();
        let Some(block) = pool.block_of(from.addr(), bytes) else { return Ok(false) };
        self.activate()?;
        let event = self.new_event(false)?;
        // SAFETY: (valid), and the block keeps its bytes until the event has passed.
        let queued = unsafe {
            self.driver
                .check(cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.stream()), "cuMemcpyHtoDAsync")
                .and_then(|()| self.driver.check(cuEventRecord(event, self.stream()), "cuEventRecord"))
        };
        match queued {
            Ok(()) => block.copies.push((self.index, Event(event))),
            Err(error) => {
                self.destroy_event(event);
                // The copy may be queued without an event that says when it is done.
                self.wait()?;
                return Err(error);
            }
        }
        Ok(true)
    }
}
