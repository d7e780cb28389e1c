//! Machine code: made of a program once, kept for all programs that are equal, and called on rows of elements.
#![expect(
    unsafe_code,
    reason = "calls machine code with the addresses of elements, behind the guards that are held"
)]

use crate::lower::{STEP, TILE, lower, signature, tiles};
use crate::program::Program;
use cranelift_codegen::Context;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use flambeau_core::{Access, Result, Storage, bail, error, with_guards};
use flambeau_ops::Tensor;
use flambeau_ops::parallel::parallel_for;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::mem::transmute;
use std::sync::{Arc, LazyLock};

/// The function of a program: the addresses of inputs, of results, of numbers and of scratch memory, and the count of elements.
type Entry = unsafe extern "C" fn(*const *const u8, *const *mut u8, *const u8, *mut u8, usize);

/// A thread takes so many elements at a time.
const GRAIN: usize = 16_384;

/// The machine code of a program.
pub(crate) struct Kernel {
    entry: Entry,
    /// Owns the code.
    module: Mutex<Option<JITModule>>,
    /// Elements of a step: counts are multiples of it.
    step: usize,
    element_size: usize,
    tiles: usize,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Some(module) = self.module.lock().take() {
            // SAFETY: the entry is called through this kernel only, which nobody has any more.
            unsafe { module.free_memory() };
        }
    }
}

/// How many programs are kept; beyond it those that no plan has are dropped.
const MAX_KEPT: usize = 512;

/// The kernel of a program.
///
/// # Errors
/// `NotImplemented` where the processor lacks what the vectors of eager loops have.
pub(crate) fn kernel_of(program: &Program) -> Result<Arc<Kernel>> {
    static KEPT: LazyLock<Mutex<HashMap<Program, Arc<Kernel>>>> = LazyLock::new(Mutex::default);
    if let Some(kernel) = KEPT.lock().get(program) {
        return Ok(kernel.clone());
    }
    let kernel = Arc::new(Kernel::new(program)?);
    let mut kept = KEPT.lock();
    if kept.len() >= MAX_KEPT {
        kept.retain(|_, kernel| Arc::strong_count(kernel) > 1);
    }
    Ok(kept.entry(program.clone()).or_insert(kernel).clone())
}

/// The processor as Cranelift knows it.
fn processor() -> Result<OwnedTargetIsa> {
    #[cfg(target_arch = "x86_64")]
    if !(std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2")) {
        bail!(NotImplemented, "this processor has no instruction that multiplies and adds with one rounding");
    }
    let mut flags = settings::builder();
    for (name, value) in [("opt_level", "speed"), ("is_pic", "false"), ("use_colocated_libcalls", "false")] {
        flags.set(name, value).map_err(|error| error!(Internal, "compile: {error}"))?;
    }
    let builder = match cranelift_native::builder() {
        Ok(builder) => builder,
        Err(why) => bail!(NotImplemented, "Cranelift has no code for this processor: {why}"),
    };
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|error| error!(NotImplemented, "Cranelift has no code for this processor: {error}"))
}

impl Kernel {
    fn new(program: &Program) -> Result<Self> {
        let isa = processor()?;
        let (call_conv, config) = (isa.default_call_conv(), isa.frontend_config());
        let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        let made = define(&mut module, program, signature(call_conv), config);
        let code = match made {
            Ok(code) => code,
            Err(error) => {
                // SAFETY: nothing of the module was called.
                unsafe { module.free_memory() };
                return Err(error);
            }
        };
        // SAFETY: the code is that of a function of this signature.
        let entry = unsafe { transmute::<*const u8, Entry>(code) };
        Ok(Kernel {
            entry,
            module: Mutex::new(Some(module)),
            step: STEP * program.lanes(),
            element_size: program.element_size(),
            tiles: tiles(program),
        })
    }
}

/// The address of a program's code.
fn define(
    module: &mut JITModule,
    program: &Program,
    signature: cranelift_codegen::ir::Signature,
    config: cranelift_codegen::isa::TargetFrontendConfig,
) -> Result<*const u8> {
    let failed = |error: &dyn std::fmt::Display| error!(Internal, "compile: {error}");
    let declared = module.declare_function("program", Linkage::Local, &signature);
    let id = declared.map_err(|error| failed(&error))?;
    let mut context = Context::new();
    context.func.signature = signature;
    let mut building = FunctionBuilderContext::new();
    lower(program, FunctionBuilder::new(&mut context.func, &mut building), config)?;
    module.define_function(id, &mut context).map_err(|error| failed(&error))?;
    module.finalize_definitions().map_err(|error| failed(&error))?;
    Ok(module.get_finalized_function(id))
}

/// An operand of a loop over rows: its strides in bytes.
#[derive(Clone, Debug)]
pub(crate) struct RowOperand {
    /// From one element of a row to the next.
    pub(crate) inner: i64,
    /// Along the other dimensions, outermost first.
    pub(crate) outer: Vec<i64>,
    /// Bytes of an element in memory.
    pub(crate) size: usize,
    /// Whether one element serves a whole row.
    pub(crate) is_repeated: bool,
}

impl RowOperand {
    fn is_dense(&self) -> bool {
        self.inner == self.size as i64
    }
}

/// The rows that a kernel computes.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// Elements of a row.
    pub(crate) length: usize,
    /// The sizes of the other dimensions, outermost first.
    pub(crate) outer: Vec<usize>,
    pub(crate) inputs: Vec<RowOperand>,
    pub(crate) outputs: Vec<RowOperand>,
}

impl Kernel {
    /// Computes all rows of `inputs` into `outputs`, whose geometries are those of `rows`; `numbers` are of the program's type.
    ///
    /// # Errors
    /// `Busy` where an operand may not be touched.
    pub(crate) fn run(
        &self,
        rows: &Rows,
        inputs: &[Tensor],
        outputs: &[Tensor],
        numbers: &[u8],
    ) -> Result<()> {
        let read = inputs.iter().map(|tensor| (tensor.storage(), Access::Read));
        let written = outputs.iter().map(|tensor| (tensor.storage(), Access::Write));
        let accesses: Vec<(&Storage, Access)> = read.chain(written).collect();
        with_guards(&accesses, |guarded| {
            let address = |tensor: &Tensor| guarded.ptr(tensor.strided_view());
            let call = RowCall {
                kernel: self,
                rows,
                inputs: inputs.iter().map(address).collect(),
                outputs: outputs.iter().map(address).collect(),
                numbers,
            };
            call.run();
        })
    }
}

/// A call with its addresses.
struct RowCall<'c> {
    kernel: &'c Kernel,
    rows: &'c Rows,
    inputs: Vec<*mut u8>,
    outputs: Vec<*mut u8>,
    numbers: &'c [u8],
}

// SAFETY: the addresses are used under guards that the thread which made the call holds until all threads are done.
unsafe impl Sync for RowCall<'_> {}

/// Memory of one thread: tiles for the stages, and for operands that are not dense.
#[derive(Default)]
struct Tiles {
    scratch: Vec<u64>,
    operands: Vec<u64>,
    inputs: Vec<*const u8>,
    outputs: Vec<*mut u8>,
}

/// Words of a tile of elements of eight bytes.
const TILE_WORDS: usize = TILE;

thread_local! {
    /// The tiles of the last call on this thread, so that a small call allocates nothing.
    static TILES: Cell<Tiles> = Cell::default();
}

impl Tiles {
    /// Calls `body` with tiles for a call.
    fn with(call: &RowCall<'_>, body: impl FnOnce(&mut Tiles)) {
        let mut tiles = TILES.try_with(Cell::take).unwrap_or_default();
        let scratch = (call.kernel.tiles * TILE * call.kernel.element_size).div_ceil(8);
        let operands = (call.inputs.len() + call.outputs.len()) * TILE_WORDS;
        tiles.scratch.resize(tiles.scratch.len().max(scratch), 0);
        tiles.operands.resize(tiles.operands.len().max(operands), 0);
        tiles.inputs.clear();
        tiles.inputs.resize(call.inputs.len(), std::ptr::null());
        tiles.outputs.clear();
        tiles.outputs.resize(call.outputs.len(), std::ptr::null_mut());
        body(&mut tiles);
        // An exiting thread keeps none.
        _ = TILES.try_with(|kept| kept.set(tiles));
    }

    /// The tile of operand `index`.
    fn operand(&mut self, index: usize) -> *mut u8 {
        self.operands.as_mut_ptr().wrapping_add(index * TILE_WORDS).cast()
    }
}

impl RowCall<'_> {
    fn run(&self) {
        let rows: usize = self.rows.outer.iter().product();
        let pieces = self.rows.length.div_ceil(TILE);
        let of_piece = self.rows.length.clamp(1, TILE);
        let grain = (GRAIN / of_piece).max(1);
        parallel_for(0..rows * pieces, grain, |range| {
            Tiles::with(self, |tiles| {
                range.for_each(|piece| self.piece(piece / pieces, piece % pieces, tiles));
            });
        });
    }

    /// A piece of a row: first as many elements as whole steps take, then the others.
    fn piece(&self, row: usize, piece: usize, tiles: &mut Tiles) {
        let start = piece * TILE;
        let count = TILE.min(self.rows.length - start);
        let whole = count - count % self.kernel.step;
        if whole > 0 {
            self.part(row, start, whole, tiles);
        }
        if whole < count {
            self.part(row, start + whole, count - whole, tiles);
        }
    }

    /// The address of an element of a row.
    fn address(&self, base: *mut u8, operand: &RowOperand, row: usize, start: usize) -> *mut u8 {
        let mut offset = start as i64 * operand.inner;
        let mut rest = row;
        for (size, stride) in self.rows.outer.iter().zip(&operand.outer).rev() {
            offset += (rest % size) as i64 * stride;
            rest /= size;
        }
        base.wrapping_offset(offset as isize)
    }

    /// `count` elements of a row from `start` on; operands that are not dense, and counts that are no whole steps, go through tiles.
    fn part(&self, row: usize, start: usize, count: usize, tiles: &mut Tiles) {
        let padded = count.next_multiple_of(self.kernel.step);
        let is_direct = |operand: &RowOperand| operand.is_dense() && padded == count;
        for (i, operand) in self.rows.inputs.iter().enumerate() {
            let from = self.address(self.inputs[i], operand, row, start);
            tiles.inputs[i] = if operand.is_repeated || is_direct(operand) {
                from
            } else {
                let tile = tiles.operand(i);
                // SAFETY: the operand has `count` elements from `from` on, and a tile takes `padded` of up to eight bytes.
                unsafe { gather(from, operand, tile, (count, padded)) };
                tile
            };
        }
        for (k, operand) in self.rows.outputs.iter().enumerate() {
            let to = self.address(self.outputs[k], operand, row, start);
            tiles.outputs[k] = if is_direct(operand) { to } else { tiles.operand(self.inputs.len() + k) };
        }
        let (inputs, outputs) = (tiles.inputs.as_ptr(), tiles.outputs.as_ptr());
        let scratch = tiles.scratch.as_mut_ptr().cast();
        // SAFETY: each address is valid for `padded` elements, or for one of a repeated input, in memory that is guarded or in tiles; the
        // lists have as many as the program has inputs, results and numbers, and scratch memory as many tiles.
        unsafe { (self.kernel.entry)(inputs, outputs, self.numbers.as_ptr(), scratch, padded) };
        for (k, operand) in self.rows.outputs.iter().enumerate().filter(|(_, operand)| !is_direct(operand)) {
            let to = self.address(self.outputs[k], operand, row, start);
            // SAFETY: the result has `count` elements from `to` on, and the tile holds as many.
            unsafe { scatter(tiles.outputs[k], to, operand, count) };
        }
    }
}

/// Copies `count` elements into a tile, and fills it with zeros up to `padded`.
///
/// # Safety
/// - `from` is valid for reading `count` elements of the operand, `tile` for writing `padded`.
unsafe fn gather(from: *const u8, operand: &RowOperand, tile: *mut u8, (count, padded): (usize, usize)) {
    let size = operand.size;
    for i in 0..count {
        let element = from.wrapping_offset((i as i64 * operand.inner) as isize);
        // SAFETY: this function's condition.
        unsafe { copy_element(element, tile.wrapping_add(i * size), size) };
    }
    // SAFETY: the rest of `padded` elements.
    unsafe { tile.wrapping_add(count * size).write_bytes(0, (padded - count) * size) };
}

/// Copies `count` elements out of a tile.
///
/// # Safety
/// - `tile` is valid for reading `count` elements, `to` for writing as many of the operand.
unsafe fn scatter(tile: *const u8, to: *mut u8, operand: &RowOperand, count: usize) {
    for i in 0..count {
        let element = to.wrapping_offset((i as i64 * operand.inner) as isize);
        // SAFETY: this function's condition.
        unsafe { copy_element(tile.wrapping_add(i * operand.size), element, operand.size) };
    }
}

/// Copies an element of 1, 4 or 8 bytes.
///
/// # Safety
/// - `from` is valid for reading `size` bytes, `to` for writing them.
#[inline(always)]
unsafe fn copy_element(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: this function's condition.
    unsafe {
        match size {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => to.copy_from_nonoverlapping(from, size),
        }
    }
}
