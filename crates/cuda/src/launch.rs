//! Launches: a kernel with its arguments, under the guards of the storages that it reads and writes.
#![expect(unsafe_code, reason = "gives the driver the addresses of arguments")]

use crate::driver::cuLaunchKernel;
use crate::gpu::{Gpu, devices};
use crate::graph;
use crate::programs::Function;
use flambeau_core::storage_guards::DeviceGuards;
use flambeau_core::{Access, Result, Storage, ensure, error};
use flambeau_ops::Tensor;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'a> {
    /// A parameter of eight bytes: an address, a `long long`, or a `double` by its bits.
    Word(u64),
    /// A structure of 32-bit integers, by value.
    Struct32(&'a [u32]),
    /// A structure of 64-bit integers, by value.
    Struct64(&'a [u64]),
}

/// The arguments of a launch, in their order.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a>(SmallVec<[Argument<'a>; 16]>);

impl<'a> Arguments<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, argument: Argument<'a>) {
        self.0.push(argument);
    }

    pub(crate) fn word(mut self, value: u64) -> Self {
        self.0.push(Argument::Word(value));
        self
    }

    pub(crate) fn int(self, value: i64) -> Self {
        self.word(value as u64)
    }

    pub(crate) fn double(self, value: f64) -> Self {
        self.word(value.to_bits())
    }

    /// The address of the first element of a tensor.
    pub(crate) fn tensor(self, tensor: &Tensor) -> Self {
        self.word(address(tensor))
    }

    pub(crate) fn structure(mut self, of: &'a [u64]) -> Self {
        self.0.push(Argument::Struct64(of));
        self
    }
}

/// The largest number of blocks in the first dimension of a grid.
const MAX_BLOCKS: i64 = i32::MAX as i64;
/// The largest number in the others.
const MAX_OTHER_BLOCKS: i64 = 65535;

/// Blocks of a launch, by dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [i64; 3],
    pub(crate) threads: u32,
}

impl Grid {
    /// Blocks of so many threads, at least one thread for each of `count`.
    pub(crate) fn of(count: i64, threads: u32) -> Self {
        Grid { blocks: [ceil_div(count, i64::from(threads)), 1, 1], threads }
    }
}

/// The quotient, rounded up.
pub(crate) fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

impl Gpu {
    /// Puts a kernel into the stream.
    ///
    /// # Errors
    /// `Overflow` for a grid that no device has, `Device` where the driver refuses the launch.
    pub(crate) fn launch(&self, function: Function, grid: Grid, arguments: &Arguments<'_>) -> Result<()> {
        let [x, y, z] = grid.blocks;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        ensure!(
            x <= MAX_BLOCKS && y <= MAX_OTHER_BLOCKS && z <= MAX_OTHER_BLOCKS,
            Overflow,
            "cuda: expected a grid of at most {MAX_BLOCKS} x {MAX_OTHER_BLOCKS} x {MAX_OTHER_BLOCKS} blocks but got {:?}",
            grid.blocks
        );
        self.activate()?;
        let address = |argument: &Argument<'_>| match argument {
            Argument::Word(value) => ptr::from_ref(value).cast_mut().cast::<c_void>(),
            Argument::Struct32(values) => values.as_ptr().cast_mut().cast(),
            Argument::Struct64(values) => values.as_ptr().cast_mut().cast(),
        };
        let mut addresses: SmallVec<[*mut c_void; 16]> = arguments.0.iter().map(address).collect();
        // SAFETY: the addresses are those of the kernel's parameters, in its order, which the driver copies before it returns.
        let status = unsafe {
            cuLaunchKernel(
                function.0,
                x as u32,
                y as u32,
                z as u32,
                grid.threads,
                1,
                1,
                0,
                self.stream(),
                addresses.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.driver.check(status, "cuLaunchKernel")?;
        self.wait_if_synchronous()
    }

    /// Waits for what was launched, where the environment says so. What is captured runs later.
    pub(crate) fn wait_if_synchronous(&self) -> Result<()> {
        if is_synchronous() && !graph::is_captured(self.index) { self.wait() } else { Ok(()) }
    }
}

/// Whether every launch waits for its kernel, so that the call that is at fault has the error: `FLAMBEAU_CUDA_SYNC=1` in the environment.
fn is_synchronous() -> bool {
    static SYNCHRONOUS: LazyLock<bool> =
        LazyLock::new(|| std::env::var("FLAMBEAU_CUDA_SYNC").is_ok_and(|value| value == "1"));
    *SYNCHRONOUS
}

/// The device of a tensor.
///
/// # Errors
/// `Device` where it is on the host.
pub(crate) fn gpu_of(tensor: &Tensor) -> Result<&'static Gpu> {
    let index = tensor.device().index().ok_or_else(|| {
        error!(Device, "expected a tensor on a CUDA device but got one on {}", tensor.device())
    })?;
    devices()?.gpu(index)
}

/// The address of a tensor's first element. The guards of its storage are held when a kernel gets it.
pub(crate) fn address(tensor: &Tensor) -> u64 {
    let view = tensor.strided_view();
    view.storage().data_ptr().addr().wrapping_add(view.byte_offset()) as u64
}

/// Calls `body`, which launches kernels, under shared guards on `reads` and exclusive ones on `writes`.
///
/// # Errors
/// `Device` for tensors that are elsewhere, those of the guards, and those of `body`; they name the operator.
pub(crate) fn guarded(
    name: &str,
    reads: &[&Tensor],
    writes: &[&Tensor],
    body: impl FnOnce(&'static Gpu) -> Result<()>,
) -> Result<()> {
    let Some(first) = writes.first() else { return Ok(()) };
    for other in reads.iter().chain(writes) {
        ensure!(
            other.device() == first.device(),
            Device(name),
            "expected all tensors to be on the same device, but found at least two devices, {} and {}",
            first.device(),
            other.device()
        );
    }
    let gpu = gpu_of(first).map_err(|error| error.in_operator(name))?;
    let mut accesses: SmallVec<[(&Storage, Access); 8]> = SmallVec::new();
    accesses.extend(reads.iter().map(|tensor| (tensor.storage(), Access::Read)));
    accesses.extend(writes.iter().map(|tensor| (tensor.storage(), Access::Write)));
    let guards = DeviceGuards::acquire(&accesses).map_err(|error| error.in_operator(name))?;
    let ordered = accesses.iter().try_for_each(|(storage, access)| gpu.order_storage(storage, *access));
    let done = ordered.and_then(|()| body(gpu)).map_err(|error| error.in_operator(name));
    drop(guards);
    done
}
