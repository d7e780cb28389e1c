//! What loops know of the processor they run on: the size of the LLC, whether stores write whole cache lines, and how far ahead to
//! prefetch.

#[cfg(target_arch = "x86_64")]
use crate::vectorized::{CpuCapability, cpu_capability};
use std::sync::{LazyLock, OnceLock};

/// How far ahead loops prefetch, in bytes: two pages of 4 KiB, past whose ends the hardware prefetcher does not look. It is further
/// than hardware prefetchers run ahead by themselves; half of it measured slower on Zen 4.
pub(super) const PREFETCH_DISTANCE: usize = 8192;

/// How far ahead loops prefetch into L2 where results stay in the caches, in bytes. A longer distance, or L1 instead of L2, measured
/// slower on Zen 4: results and arguments evict each other.
pub(super) const PREFETCH_DISTANCE_IN_CACHE: usize = 1024;

/// How far ahead a fold prefetches into L2 on Zen 3 and 4, in bytes. This makes up for the hardware prefetcher, which falls behind at
/// the end of a short row.
pub(super) const FOLD_PREFETCH_DISTANCE: usize = 2048;

/// Whether non-temporal stores write whole cache lines; smaller ones gain nothing.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_cache_line_stores() -> bool {
    cpu_capability() == CpuCapability::Avx512
}

/// Whether non-temporal stores write whole cache lines.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_cache_line_stores() -> bool {
    false
}

/// The size of the LLC in bytes; 32 MiB where the system does not say it.
pub(super) fn llc_bytes() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok();
        let kilobytes = text.and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
        kilobytes.map_or(32 << 20, |k| k << 10)
    })
}

/// Whether the hardware prefetcher runs furthest ahead where each cache line is read by two loads.
pub(super) static PREFETCHES_BY_HALVES: LazyLock<bool> = LazyLock::new(is_zen_3_or_4);

/// Whether this is of AMD's family 25, by the identification of *AMD64 Architecture Programmer's Manual*, volume 3, appendix E.
#[cfg(target_arch = "x86_64")]
fn is_zen_3_or_4() -> bool {
    use std::arch::x86_64::__cpuid;
    let (vendor, signature) = (__cpuid(0), __cpuid(1).eax);
    let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD";
    amd && (signature >> 8 & 15) + (signature >> 20 & 255) == 25
}

#[cfg(not(target_arch = "x86_64"))]
fn is_zen_3_or_4() -> bool {
    false
}
