//! Allocators of tensors' bytes: an [`Allocator`] for each kind of device, which programs may replace, and the host's own.
//!
//! The host's allocator takes a block from the first of these that has one. Freed blocks return to the caches:
//!
//! | size of the block | cache | new blocks |
//! |---|---|---|
//! | up to 1 KiB | lists of each thread, `thread_cache` | the global allocator |
//! | up to 16 KiB | lists of each thread | cut out of huge pages, `regions` |
//! | below 1 MiB | a cache of all threads, `shared_cache` | cut out of huge pages |
//! | from 1 MiB on | a cache of all threads | mapped pages, `pages` |

#![expect(unsafe_code, reason = "hands out raw memory")]

mod cpu;
#[cfg(all(unix, not(miri)))]
mod pages;
#[cfg(all(unix, not(miri)))]
mod regions;
mod reserve;
mod shared_cache;
mod size_class;
mod stats;
mod switches;
mod system;
pub(crate) mod thread_cache;

pub use crate::data_ptr::{Allocator, DataPtr, Deleter, MemoryStats};
pub use cpu::CpuAllocator;
pub use reserve::WithReserve;
pub use size_class::ALIGNMENT;
pub use switches::{Fill, MemoryEvent, MemoryReporter};
pub(crate) use switches::{start_recording, stop_recording};

use crate::fork::{Forking, Hooks};
use crate::{DeviceType, Error, ErrorKind, Result, backend};
use parking_lot::Mutex;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Returns cached memory of freed tensors to the system, unless this thread holds a lock of the cache.
#[cold]
pub(crate) fn release_cached() {
    if shared_cache::is_unlocked() {
        CpuAllocator.empty_cache();
    }
}

/// Holds the locks of the host's allocator across forks, in the order in which statistics take them.
pub(crate) static AT_FORK: Hooks = Hooks::new(
    |forking| {
        thread_cache::THREADS.hold(forking, |_| ());
        shared_cache::CACHE.hold(forking, |_| ());
        #[cfg(all(unix, not(miri)))]
        regions::REGIONS.hold(forking, |_| ());
        reserve::BLOCKS.hold(forking, |_| ());
    },
    |forking| release_locks(forking, |_| ()),
    |forking| release_locks(forking, thread_cache::Threads::begin_child),
);

fn release_locks(forking: &Forking, change: fn(&mut thread_cache::Threads)) {
    reserve::BLOCKS.release(forking, |_| ());
    #[cfg(all(unix, not(miri)))]
    regions::REGIONS.release(forking, |_| ());
    shared_cache::CACHE.release(forking, |_| ());
    thread_cache::THREADS.release(forking, change);
}

/// A reference to a trait object is two words; an atomic pointer to one is one.
type Slot = AtomicPtr<&'static dyn Allocator>;

static CPU: &(dyn Allocator + 'static) = &CpuAllocator;

static ALLOCATORS: [Slot; DeviceType::COUNT] = {
    let mut slots = [const { Slot::new(ptr::null_mut()) }; DeviceType::COUNT];
    slots[DeviceType::Cpu as usize] = Slot::new((&raw const CPU).cast_mut());
    slots
};

/// Every registration that was ever made: a reader may still use a former one. They are listed so that leak checkers find a reference.
static REGISTRATIONS: Mutex<Vec<&'static &'static dyn Allocator>> = Mutex::new(Vec::new());

/// The allocator of a kind of device.
///
/// # Errors
/// `Device` if there is none: no crate has registered one, or the device has no memory.
#[inline]
pub fn allocator_for(device_type: DeviceType) -> Result<&'static dyn Allocator> {
    match NonNull::new(ALLOCATORS[device_type as usize].load(Ordering::Acquire)) {
        // SAFETY: slots point at statics or at what `set_allocator` leaked.
        Some(slot) => Ok(unsafe { *slot.as_ref() }),
        None => of_backend(device_type),
    }
}

#[cold]
fn of_backend(device_type: DeviceType) -> Result<&'static dyn Allocator> {
    let hooks = backend::hooks(device_type)?;
    hooks.map(|hooks| hooks.allocator()).ok_or_else(|| no_allocator(device_type))
}

/// Whether the host's allocator is the [`CpuAllocator`], and not [another one](set_allocator).
#[inline(always)]
pub(crate) fn cpu_has_its_own_allocator() -> bool {
    ptr::eq(ALLOCATORS[DeviceType::Cpu as usize].load(Ordering::Relaxed), &raw const CPU)
}

/// Makes `allocator` the one of a kind of device, for allocations from now on. Memory of former allocators is freed by those. The
/// registration takes two words that are never freed.
pub fn set_allocator(device_type: DeviceType, allocator: &'static dyn Allocator) {
    let registration: &'static &'static dyn Allocator = Box::leak(Box::new(allocator));
    REGISTRATIONS.lock().push(registration);
    let slot = std::ptr::from_ref(registration).cast_mut();
    ALLOCATORS[device_type as usize].store(slot, Ordering::Release);
}

#[cold]
fn no_allocator(device_type: DeviceType) -> Error {
    let message =
        format!("expected a device with memory but no allocator is registered for {}", device_type.name());
    Error::new(ErrorKind::Device, message)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
