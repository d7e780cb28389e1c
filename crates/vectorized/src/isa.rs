//! The instruction sets: which exist, which one this process uses, and the function that enters each.
#![expect(unsafe_code, reason = "entering a #[target_feature] function is a promise about the processor")]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lanes::Lanes;

/// An instruction set, as a marker type that selects `Lanes<I>` implementations.
pub trait Isa: Copy + Send + Sync + 'static {
    /// The value that names this set at run time.
    const CAPABILITY: CpuCapability;

    /// Prefetches the cache line at `address`, which need not be valid, into L1. It is needed where the hardware prefetcher stops, at the
    /// end of a page: `# Note: prefetching` in `crates/ops/src/loops.rs`.
    #[inline(always)]
    fn prefetch(_address: *const u8) {}

    /// Prefetches it into L2 only, so that it evicts nothing from L1 and does not wait for L1's fill buffers.
    #[inline(always)]
    fn prefetch_l2(_address: *const u8) {}

    /// Whether [`stream_cache_line`](Self::stream_cache_line) and [`stream_half_cache_line`](Self::stream_half_cache_line) are
    /// non-temporal stores: `# Note: non-temporal stores` in `crates/ops/src/loops.rs`.
    const HAS_NON_TEMPORAL_STORES: bool = false;

    /// Writes a cache line, with one non-temporal store if the instruction set has it. The caller executes a store fence before other
    /// threads may read the bytes.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading and `to` for writing 64 bytes; `to` is a multiple of 64. The processor has this set.
    #[inline(always)]
    unsafe fn stream_cache_line(from: *const u8, to: *mut u8) {
        // SAFETY: by this function's condition.
        unsafe { to.copy_from_nonoverlapping(from, 64) }
    }

    /// The same for half a cache line; the processor combines it with the other half, which should be written next.
    ///
    /// # Safety
    ///
    /// - `half` is valid for reading and `to` for writing 32 bytes; `to` is a multiple of 32. The processor has this set.
    #[inline(always)]
    unsafe fn stream_half_cache_line(half: *const u8, to: *mut u8) {
        // SAFETY: by this function's condition.
        unsafe { to.copy_from_nonoverlapping(half, 32) }
    }
}

/// One lane at a time, with no more than the target's baseline: slow, and the reference for the others.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// AVX2 with FMA and F16C: 256-bit registers.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2;

/// AVX-512 F, BW, DQ and VL: 512-bit registers.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

/// NEON, which every AArch64 processor has: 128-bit registers.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub struct Neon;

impl Isa for Scalar {
    const CAPABILITY: CpuCapability = CpuCapability::Default;
}

#[cfg(target_arch = "x86_64")]
impl Isa for Avx2 {
    const CAPABILITY: CpuCapability = CpuCapability::Avx2;

    #[inline(always)]
    fn prefetch(address: *const u8) {
        prefetch_cache_line(address);
    }

    #[inline(always)]
    fn prefetch_l2(address: *const u8) {
        prefetch_cache_line_l2(address);
    }
}

#[cfg(target_arch = "x86_64")]
impl Isa for Avx512 {
    const CAPABILITY: CpuCapability = CpuCapability::Avx512;

    #[inline(always)]
    fn prefetch(address: *const u8) {
        prefetch_cache_line(address);
    }

    #[inline(always)]
    fn prefetch_l2(address: *const u8) {
        prefetch_cache_line_l2(address);
    }

    const HAS_NON_TEMPORAL_STORES: bool = true;

    #[inline(always)]
    unsafe fn stream_cache_line(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
        // SAFETY: by this function's condition.
        unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn stream_half_cache_line(half: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
        // SAFETY: by this function's condition.
        unsafe { _mm256_stream_si256(to.cast(), _mm256_loadu_si256(half.cast())) }
    }
}

#[cfg(target_arch = "aarch64")]
impl Isa for Neon {
    const CAPABILITY: CpuCapability = CpuCapability::Neon;
}

/// [`Isa::prefetch_l2`] for every instruction set of x86-64.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_cache_line_l2(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a hint, which every x86-64 processor has and which accesses no memory.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
}

/// [`Isa::prefetch`] outside of kernels.
#[inline(always)]
pub fn prefetch_cache_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which every x86-64 processor has and which accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The instruction sets by name, as `FLAMBEAU_CPU_CAPABILITY` spells them in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CpuCapability {
    /// [`Scalar`]: what the compiler's target guarantees, one lane at a time.
    Default = 1,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// NEON.
    Neon,
}

impl CpuCapability {
    const ALL: [Self; 4] = [Self::Default, Self::Avx2, Self::Avx512, Self::Neon];

    /// The sets this machine can run, slowest first; [`CpuCapability::Default`] is always there.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|set| set.is_available())
    }

    /// True if this machine can run the set.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Default => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => has_avx512(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns, reason = "which sets remain depends on the architecture")]
            _ => false,
        }
    }

    /// The set's name, as the environment variable spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    // BMI and LZCNT came with AVX2 in every processor; they are checked because the shim names them.
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// The set in use, as a `CpuCapability`; 0 until the first call of [`cpu_capability`].
static CURRENT: AtomicU8 = AtomicU8::new(0);
static OVERRIDE: Mutex<()> = Mutex::new(());

/// The instruction set kernels run on: the best this machine has, unless `FLAMBEAU_CPU_CAPABILITY` names
/// another (`default`, `avx2`, `avx512`, `neon`; `avx512_bf16` and `amx` are more than AVX-512 for matrix products only).
///
/// The environment is read once; later calls cost one load. A name that is unknown, or a set the machine lacks,
/// is reported on standard error and ignored, as PyTorch does with `ATEN_CPU_CAPABILITY`.
#[must_use]
#[inline]
pub fn cpu_capability() -> CpuCapability {
    match CURRENT.load(Ordering::Relaxed) {
        1 => CpuCapability::Default,
        2 => CpuCapability::Avx2,
        3 => CpuCapability::Avx512,
        4 => CpuCapability::Neon,
        _ => find_cpu_capability(),
    }
}

#[cold]
fn find_cpu_capability() -> CpuCapability {
    let best = CpuCapability::available().last().unwrap_or(CpuCapability::Default);
    let chosen = match std::env::var("FLAMBEAU_CPU_CAPABILITY") {
        Ok(name) => capability_named(&name).unwrap_or_else(|| {
            eprintln!(
                "flambeau: FLAMBEAU_CPU_CAPABILITY={name} is not a set this machine has; using {}",
                best.name()
            );
            best
        }),
        Err(_) => best,
    };
    CURRENT.store(chosen as u8, Ordering::Relaxed);
    chosen
}

fn capability_named(name: &str) -> Option<CpuCapability> {
    // These two differ from AVX-512 for matrix products only.
    let name = if ["avx512_bf16", "amx"].contains(&name) { "avx512" } else { name };
    CpuCapability::available().find(|set| set.name() == name)
}

/// Makes [`cpu_capability`] return `capability` until the guard is dropped, for the whole process; `None` if the machine lacks the set.
/// There is one guard at a time, for which threads wait, so that tests of several sets share a process; a thread that holds one must not
/// call this again.
///
/// ```
/// use flambeau_vectorized::{CpuCapability, cpu_capability, override_cpu_capability};
/// for set in CpuCapability::available() {
///     let _guard = override_cpu_capability(set);
///     assert_eq!(cpu_capability(), set);
/// }
/// ```
#[must_use]
pub fn override_cpu_capability(capability: CpuCapability) -> Option<CapabilityOverride> {
    let lock = OVERRIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = cpu_capability();
    capability.is_available().then(|| {
        CURRENT.store(capability as u8, Ordering::Relaxed);
        CapabilityOverride { before, _lock: lock }
    })
}

/// Restores the former instruction set when dropped; see [`override_cpu_capability`].
#[derive(Debug)]
pub struct CapabilityOverride {
    before: CpuCapability,
    _lock: MutexGuard<'static, ()>,
}

impl Drop for CapabilityOverride {
    fn drop(&mut self) {
        CURRENT.store(self.before as u8, Ordering::Relaxed);
    }
}

/// Decides in which codegen unit the machine code of a loop is: that of the module of `Anchor`.
///
/// The compiler puts a generic method into the codegen unit of the type it is called on, and recompiles units as a whole. A loop
/// over formulas has the formula as its anchor: after a change of one file of formulas only the loops of that file are recompiled.
pub trait CodegenAnchor {
    /// A type of that module; the loop's own type where there is no formula.
    type Anchor;
}

/// A loop, written once, that can be compiled for the instruction set `I`.
///
/// Implement it for every `I` at once, `impl<I: Isa, T: Lanes<I>> Kernel<I> for MyLoop<T>`, with the captured
/// pointers and lengths as fields, and mark `run` and everything it calls `#[inline(always)]`: a body that is not
/// inlined into the shim is compiled without the set's registers and runs a hundred times slower.
pub trait Kernel<I: Isa, Output = ()>: CodegenAnchor {
    /// Does the work.
    ///
    /// # Safety
    ///
    /// - The processor has the instruction set `I`.
    unsafe fn run(self) -> Output;
}

macro_rules! every_isa {
    ($($isa:ident),*) => {
        /// A kernel that exists for every instruction set of this architecture. Implemented by the compiler.
        pub trait EveryIsa<Output = ()>: CodegenAnchor + $(Kernel<$isa, Output> +)* {}
        impl<Output, K: $(Kernel<$isa, Output> +)*> EveryIsa<Output> for K {}

        /// An element type that has vectors in every instruction set of this architecture. Implemented by the
        /// compiler, for the ten scalar types.
        pub trait EveryLanes: $(Lanes<$isa> +)* {}
        impl<T: $(Lanes<$isa> +)*> EveryLanes for T {}
    };
}

#[cfg(target_arch = "x86_64")]
every_isa!(Scalar, Avx2, Avx512);
#[cfg(target_arch = "aarch64")]
every_isa!(Scalar, Neon);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
every_isa!(Scalar);

/// Runs a kernel on the instruction set of [`cpu_capability`].
///
/// # Safety
///
/// - Those of the kernel itself: its pointers are valid for its lengths.
#[inline]
pub unsafe fn dispatch<Output, K: EveryIsa<Output>>(kernel: K) -> Output {
    // SAFETY: the processor has the set: `CURRENT` holds only sets found available.
    unsafe {
        match cpu_capability() {
            #[cfg(target_arch = "x86_64")]
            CpuCapability::Avx2 => <K::Anchor as Shims<Output, K>>::avx2(kernel),
            #[cfg(target_arch = "x86_64")]
            CpuCapability::Avx512 => <K::Anchor as Shims<Output, K>>::avx512(kernel),
            #[cfg(target_arch = "aarch64")]
            CpuCapability::Neon => <K::Anchor as Shims<Output, K>>::neon(kernel),
            _ => <K::Anchor as Shims<Output, K>>::scalar(kernel),
        }
    }
}

/// The functions that enter an instruction set, one for each; they are methods of a kernel's anchor, which decides where their code is.
trait Shims<Output, K> {
    /// # Safety
    ///
    /// - Those of the kernel.
    unsafe fn scalar(kernel: K) -> Output;

    /// # Safety
    ///
    /// - The processor has AVX2, FMA, F16C, BMI, LZCNT and POPCNT; and those of the kernel.
    #[cfg(target_arch = "x86_64")]
    unsafe fn avx2(kernel: K) -> Output;

    /// # Safety
    ///
    /// - The processor has what `avx2` needs, and AVX-512 F, BW, DQ and VL; and those of the kernel.
    #[cfg(target_arch = "x86_64")]
    unsafe fn avx512(kernel: K) -> Output;

    /// # Safety
    ///
    /// - The processor has NEON; and those of the kernel.
    #[cfg(target_arch = "aarch64")]
    unsafe fn neon(kernel: K) -> Output;
}

impl<Anchor, Output, K: EveryIsa<Output>> Shims<Output, K> for Anchor {
    unsafe fn scalar(kernel: K) -> Output {
        // SAFETY: every processor has this set.
        unsafe { Kernel::<Scalar, Output>::run(kernel) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn avx2(kernel: K) -> Output {
        // SAFETY: the processor has the set, by this function's condition.
        unsafe { Kernel::<Avx2, Output>::run(kernel) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn avx512(kernel: K) -> Output {
        // SAFETY: the processor has the set, by this function's condition.
        unsafe { Kernel::<Avx512, Output>::run(kernel) }
    }

    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "neon")]
    unsafe fn neon(kernel: K) -> Output {
        // SAFETY: the processor has the set, by this function's condition.
        unsafe { Kernel::<Neon, Output>::run(kernel) }
    }
}
