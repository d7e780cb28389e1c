//! From an iterator to dense rows of one type, which are all that the innermost loop takes: operands of another type, or that are not
//! dense, are converted and gathered in tiles that stay in L1.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::convert::{Convert, Mapping, converter, from_memory, to_memory};
use super::machine::{PREFETCH_DISTANCE, PREFETCH_DISTANCE_IN_CACHE};
use super::packed::{self, Cursor};
use super::rows::{self, Rows};
use super::streaming::{self, stream_rows};
use super::strided::copy_strided;
use super::transposed;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Along, GRAIN, Operand, Pointers, TensorIterator, TrivialIter, grain_of};
use flambeau_core::{Guarded, Result, ScalarType};
use std::mem::MaybeUninit;

/// Elements of a tile: so many that the start of a loop costs little, and few enough for four tiles of eight bytes to fit L1.
const TILE: usize = 1024;

/// A tile of [`TILE`] elements of up to eight bytes, or of half as many of sixteen.
type Tile = [MaybeUninit<u64>; TILE];

/// How many elements a tile takes of the larger of two types.
fn elements_of_tile(a: ScalarType, b: ScalarType) -> usize {
    const { assert!(ScalarType::Complex128.size() <= 2 * size_of::<u64>()) };
    if a.size().max(b.size()) > size_of::<u64>() { TILE / 2 } else { TILE }
}

/// An operand whose type in memory may be another than that of the kernel, with the conversion between them.
#[derive(Clone, Copy)]
struct ConvertingOperand {
    memory: ScalarType,
    kernel: ScalarType,
    /// Elements of the kernel are those in memory, without a conversion.
    same: bool,
    /// From memory to kernel for an argument, from kernel to memory for a result.
    convert: Convert,
    /// Elements of a tile.
    tile: usize,
}

impl ConvertingOperand {
    fn new(memory: ScalarType, kernel: ScalarType, same: bool, convert: Convert) -> Self {
        ConvertingOperand { memory, kernel, same, convert, tile: elements_of_tile(memory, kernel) }
    }

    fn input(memory: ScalarType, kernel: ScalarType, mapping: Mapping) -> Result<Self> {
        let same = memory == kernel && mapping != Mapping::Order;
        Ok(ConvertingOperand::new(memory, kernel, same, from_memory(memory, kernel, mapping)?))
    }

    fn output(memory: ScalarType, kernel: ScalarType, mapping: Mapping) -> Result<Self> {
        let same = memory == kernel && (mapping == Mapping::Value || kernel == ScalarType::Bool);
        Ok(ConvertingOperand::new(memory, kernel, same, to_memory(kernel, memory, mapping)?))
    }

    /// Whether the kernel can read or write `n` elements of this stride in memory, without a tile.
    fn is_direct(self, stride: i64, n: usize) -> bool {
        self.same && (stride == self.memory.size() as i64 || n == 1)
    }

    /// [`is_direct`](Self::is_direct) for an argument, which may also be one value for all.
    fn is_direct_input(self, stride: i64, n: usize) -> bool {
        self.is_direct(stride, n) || (stride == 0 && self.same)
    }
}

/// A kernel's loop over rows.
type RunRows<'k, const N: usize> = dyn Fn(&Rows<N>) + Sync + 'k;

/// A kernel: the types it reads and writes, what their elements stand for, its loop, and whether that has non-temporal stores
/// ([`Rows::streams`]).
pub(super) struct Kernel<'k, const N: usize> {
    pub(super) inputs: [ScalarType; N],
    pub(super) output: ScalarType,
    pub(super) supports_nt_stores: bool,
    pub(super) mapping: Mapping,
    pub(super) run: &'k RunRows<'k, N>,
}

/// How dense rows of results are written: by which stores, and with which prefetches of the arguments.
#[derive(Clone, Copy)]
struct OutputPolicy<'k, const N: usize> {
    run: &'k RunRows<'k, N>,
    /// Bytes of an element of each argument, and of the result, as the kernel sees them.
    inputs: [usize; N],
    output: usize,
    /// By non-temporal stores.
    streams: bool,
    supports_nt_stores: bool,
    /// The prefetch distance of the arguments in bytes; 0 for none.
    prefetch: usize,
}

impl<'k, const N: usize> OutputPolicy<'k, N> {
    fn new(kernel: &Kernel<'k, N>) -> Self {
        OutputPolicy {
            run: kernel.run,
            inputs: kernel.inputs.map(ScalarType::size),
            output: kernel.output.size(),
            streams: false,
            supports_nt_stores: kernel.supports_nt_stores,
            prefetch: 0,
        }
    }

    /// The policy for a result of so many bytes, where `non_aliasing` says whether it shares no memory with an argument, and `read` how
    /// many distinct arguments the loop reads.
    fn sized(self, bytes: usize, non_aliasing: impl Fn() -> bool, read: impl Fn() -> usize) -> Self {
        let streams =
            N <= rows::MAX_STREAMING_INPUTS && streaming::should_stream(bytes, read) && non_aliasing();
        let prefetch = match streams {
            true => PREFETCH_DISTANCE,
            false if streaming::fills_most_of_llc(bytes) => PREFETCH_DISTANCE_IN_CACHE,
            false => 0,
        };
        OutputPolicy { streams, prefetch, ..self }
    }

    /// Computes rows whose results are dense in memory and of the kernel's type; [`fence`](Self::fence) comes before another thread may
    /// read them.
    #[inline]
    fn compute(&self, rows: &Rows<N>) {
        if self.prefetch == 0 {
            return (self.run)(rows);
        }
        // A row that is broadcast to many rows is in L1 after the first.
        let distance = |i: usize| if rows.rows > 1 && rows.from_row[i] == 0 { 0 } else { self.prefetch };
        let rows = Rows { prefetch: std::array::from_fn(distance), ..*rows };
        match self.streams {
            true => stream_rows(&rows, self.inputs, self.output, self.supports_nt_stores, self.run),
            false => (self.run)(&rows),
        }
    }

    /// Makes what this thread computed visible to others before its later stores.
    #[inline]
    fn fence(&self) {
        streaming::fence(self.streams);
    }
}

/// Runs a kernel over all elements of an iterator of one output and `N` inputs, whatever their types in memory.
///
/// # Errors
/// Those of [`TensorIterator::with_pointers`].
///
/// `run` is the only part that depends on the formula: this function and all that it calls is compiled once for each `N`.
pub(super) fn for_each_rows<const N: usize>(iter: &TensorIterator<'_>, kernel: &Kernel<'_, N>) -> Result<()> {
    let Kernel { inputs, output, .. } = *kernel;
    if let Some(trivial) = iter.trivial().filter(|t| t.result == output && t.takes(inputs)) {
        return match trivial.number() {
            None if trivial.inputs_are_alike() => {
                let alike = |guarded: Guarded<'_>| run_trivial(trivial.rows_alike(guarded), kernel);
                trivial.with_guards::<_, N>(iter.name(), alike)
            }
            None => {
                trivial.with_guards::<_, N>(iter.name(), |guarded| run_trivial(trivial.rows(guarded), kernel))
            }
            Some((index, from)) => {
                let convert = converter(from, trivial.dtype)?;
                let numbered =
                    |guarded: Guarded<'_>| run_with_number(trivial.rows(guarded), (index, convert), kernel);
                trivial.with_guards::<_, N>(iter.name(), numbered)
            }
        };
    }
    run_strided(iter, kernel)
}

/// Calls with strides or conversions.
#[inline(never)]
fn run_strided<const N: usize>(iter: &TensorIterator<'_>, kernel: &Kernel<'_, N>) -> Result<()> {
    let Kernel { inputs, output, mapping, .. } = *kernel;
    let operands = iter.operands();
    let to = ConvertingOperand::output(operands[0].dtype(), output, mapping)?;
    let mut from = [to; N];
    for i in 0..N {
        from[i] = ConvertingOperand::input(operands[1 + i].dtype(), inputs[i], mapping)?;
    }
    let non_aliasing = || operands[1..].iter().all(|o| !operands[0].shares_storage(o));
    let bytes = iter.numel() as usize * operands[0].dtype().size();
    let read = || operands[1..].iter().filter(|o| o.strides().first().is_some_and(|&s| s != 0)).count();
    let policy = OutputPolicy::new(kernel).sized(bytes, non_aliasing, read);
    let needs_no_conversion = || to.same && from.iter().all(|operand| operand.same);
    if let Some(dim) = transposed::transposed_dim(iter)
        .filter(|_| needs_no_conversion() && transposed::is_dense_or_broadcast(&operands[0]))
    {
        // Without non-temporal stores: rows of blocks are short, and such stores measured slower for them.
        return run_transposed(iter, dim, OutputPolicy::new(kernel));
    }
    let is_direct = |p: usize, operand: ConvertingOperand| {
        let stride = operands[p].strides().first().copied().unwrap_or(0);
        operand.same && [0, operand.memory.size() as i64].contains(&stride)
    };
    let all_direct = is_direct(0, to) && (0..N).all(|i| is_direct(1 + i, from[i]));
    if packed::has_rows_below(iter.shape(), 32) && !(all_direct && suits_rows(iter, to)) {
        return run_packed(iter, to, from, policy);
    }
    iter.with_pointers(|data| {
        iter.for_each(data, |p, n, rows| {
            let direct =
                to.is_direct(p.inner[0], n) && (0..N).all(|i| from[i].is_direct_input(p.inner[1 + i], n));
            if direct {
                policy.compute(&direct_rows(&p, n, rows))
            } else {
                tiled_rows(&p, n, rows, to, from, policy)
            }
            policy.fence();
        });
    })
}

/// Whether short rows of operands that are read and written in memory are computed row by row: they fill a vector, and tiles of several rows
/// would have to be gathered.
fn suits_rows(iter: &TensorIterator<'_>, to: ConvertingOperand) -> bool {
    let (shape, [result, arguments @ ..]) = (iter.shape(), iter.operands()) else { return true };
    let most = elements_of_tile(to.memory, to.kernel) / 2;
    let is_gathered = |operand: &Operand<'_>| {
        !packed::is_dense(shape, operand, operand.dtype().size()) && packed::period(shape, operand) > most
    };
    // Vectors of small elements that are not full are loaded and stored element by element.
    let fills_vectors =
        !packed::has_rows_below(shape, if to.memory.size() < size_of::<f32>() { 16 } else { 8 });
    fills_vectors && (!packed::is_dense(shape, result, to.memory.size()) || arguments.iter().any(is_gathered))
}

/// Tiles that span several short rows.
#[inline(never)]
fn run_packed<const N: usize>(
    iter: &TensorIterator<'_>,
    to: ConvertingOperand,
    from: [ConvertingOperand; N],
    policy: OutputPolicy<'_, N>,
) -> Result<()> {
    // Prefetches only with non-temporal stores, as of tiles of long rows.
    let policy = OutputPolicy { prefetch: if policy.streams { policy.prefetch } else { 0 }, ..policy };
    let (shape, operands) = (iter.shape(), iter.operands());
    let tile = from.iter().fold(to.tile, |tile, operand| tile.min(operand.tile));
    let periods = operands[1..].iter().map(|operand| packed::period(shape, operand));
    // A product of the first sizes: the others divide it.
    let period = periods.filter(|period| *period <= tile / 2).max().unwrap_or(1);
    let tile = tile - tile % period;
    iter.with_pointers(|data| {
        iter.for_each_range(data, &|data, range| {
            let mut result = Packed::new(shape, &operands[0], to, data[0], range.start);
            let mut arguments: [Packed<'_>; N] = std::array::from_fn(|i| {
                let argument = Packed::new(shape, &operands[1 + i], from[i], data[1 + i], range.start);
                Packed { is_periodic: packed::period(shape, &operands[1 + i]) <= period, ..argument }
            });
            let mut out_tile: Tile = [MaybeUninit::uninit(); TILE];
            let mut in_tiles: [Tile; N] = [[MaybeUninit::uninit(); TILE]; N];
            for start in range.clone().step_by(tile) {
                let count = tile.min(range.end - start);
                let mut made = Rows::empty(count);
                for (i, (argument, tile)) in arguments.iter_mut().zip(&mut in_tiles).enumerate() {
                    made.repeated[i] = argument.repeats && count > 1;
                    // SAFETY: the argument has these elements.
                    made.from[i] = unsafe { argument.take(count, tile) };
                }
                if let Some(direct) = result.direct(count) {
                    made.to = direct;
                    policy.compute(&made);
                } else {
                    made.to = out_tile.as_mut_ptr().cast();
                    (policy.run)(&made);
                    // SAFETY: `run` has written these elements, which are this task's to write.
                    unsafe { result.put(count, &out_tile) };
                }
            }
            policy.fence();
        });
    })
}

/// An operand whose next elements are read or written in memory, where they are adjacent, or through a tile.
struct Packed<'o> {
    cursor: Cursor<'o>,
    operand: ConvertingOperand,
    /// Whether elements are adjacent in the order of iteration, and whether all are one.
    is_dense: bool,
    repeats: bool,
    /// Whether each tile has the same elements, and whether the first one has been filled.
    is_periodic: bool,
    is_filled: bool,
}

impl<'o> Packed<'o> {
    fn new(
        shape: &'o [i64],
        of: &'o Operand<'_>,
        operand: ConvertingOperand,
        data: *mut u8,
        start: usize,
    ) -> Self {
        let is_dense = packed::is_dense(shape, of, operand.memory.size());
        let repeats = of.strides().iter().all(|stride| *stride == 0);
        let cursor = if is_dense {
            let offset = start * operand.memory.size();
            Cursor::new(shape, of, data.wrapping_add(offset), 0)
        } else {
            Cursor::new(shape, of, data, start)
        };
        Packed { cursor, operand, is_dense, repeats, is_periodic: false, is_filled: false }
    }

    /// The address of the next `count` elements, if they can be accessed in memory; moves past them.
    fn direct(&mut self, count: usize) -> Option<*mut u8> {
        let (at, size) = (self.cursor.address(), self.operand.memory.size());
        let is_direct = self.operand.same && (self.is_dense || self.repeats);
        if is_direct && self.is_dense {
            self.cursor.jump(count * size);
        }
        is_direct.then_some(at)
    }

    /// The address of the next `count` elements of the kernel's type, or of the only one: in memory, or in the tile, which is the same one
    /// in each call.
    ///
    /// # Safety
    /// - The operand has these elements, which nobody writes.
    unsafe fn take(&mut self, count: usize, tile: &mut Tile) -> *const u8 {
        if let Some(direct) = self.direct(count) {
            return direct;
        }
        if self.is_periodic && self.is_filled {
            return tile.as_ptr().cast();
        }
        self.is_filled = true;
        let (operand, count) = (self.operand, if self.repeats { 1 } else { count });
        let (to, size) = (tile.as_mut_ptr().cast::<u8>(), operand.memory.size());
        let mut gathered: Tile = [MaybeUninit::uninit(); TILE];
        let is_move = operand.same && operand.memory != ScalarType::Bool;
        let raw = if is_move { to } else { gathered.as_mut_ptr().cast() };
        // SAFETY: this function's condition; a tile takes `count` elements.
        unsafe {
            if self.repeats {
                raw.copy_from_nonoverlapping(self.cursor.address(), size);
            } else {
                self.cursor.gather(count, size, raw);
            }
            if !is_move {
                (operand.convert)(raw, to, count);
            }
        }
        to
    }

    /// Writes the next `count` elements from a tile of the kernel's type.
    ///
    /// # Safety
    /// - The operand has these elements, which are this thread's to write.
    unsafe fn put(&mut self, count: usize, tile: &Tile) {
        let (operand, from) = (self.operand, tile.as_ptr().cast::<u8>());
        let mut converted: Tile = [MaybeUninit::uninit(); TILE];
        // SAFETY: this function's condition; the tile holds `count` elements.
        unsafe {
            let from = if operand.same {
                from
            } else {
                (operand.convert)(from, converted.as_mut_ptr().cast(), count);
                converted.as_ptr().cast()
            };
            self.cursor.scatter(count, operand.memory.size(), from);
        }
    }
}

/// Block by block, for operands of which some are transposed, all of the kernel's types: blocks of those are transposed in tiles.
fn run_transposed<const N: usize>(
    iter: &TensorIterator<'_>,
    dim: usize,
    policy: OutputPolicy<'_, N>,
) -> Result<()> {
    let sizes: [usize; N] = std::array::from_fn(|i| iter.operands()[1 + i].dtype().size());
    let rows = sizes.iter().map(|&size| transposed::rows_of_block(size)).min().unwrap_or(1);
    iter.with_pointers(|data| {
        iter.for_each_block(data, dim, [transposed::COLUMNS, rows], Along::Columns, &|p, n, rows| {
            let mut tiles: [transposed::Tile; N] = [[const { MaybeUninit::uninit() }; _]; N];
            let mut made = direct_rows(&p, n, rows);
            for i in 0..N {
                if p.inner[1 + i] != 0 && p.inner[1 + i] != sizes[i] as i64 {
                    // SAFETY: a block that the iterator gives, which lies inside the operand.
                    unsafe { transposed::transpose_block(&p, 1 + i, n, rows, sizes[i], &mut tiles[i]) };
                    made.from[i] = tiles[i].as_ptr().cast();
                    made.from_row[i] = transposed::pitch(sizes[i]) as i64;
                }
            }
            policy.compute(&made);
        });
    })
}

/// A trivial call, which is one dense row; split among threads where it is long.
#[inline]
fn run_trivial<const N: usize>(whole: Rows<N>, kernel: &Kernel<'_, N>) {
    let n = whole.n;
    if n <= GRAIN {
        return if n > 0 {
            (kernel.run)(&whole)
        };
    }
    let non_aliasing = || !whole.from.contains(&whole.to.cast_const());
    let read = || {
        let is_distinct = |i: usize| !whole.repeated[i] && !whole.from[..i].contains(&whole.from[i]);
        (0..N).filter(|&i| is_distinct(i)).count()
    };
    let policy = OutputPolicy::new(kernel);
    let policy = policy.sized(n * policy.output, non_aliasing, read);
    parallel_for(0..n, grain_of(n, 2), |range| {
        policy.compute(&whole.part(range, policy.inputs, policy.output));
        policy.fence();
    });
}

/// [`run_trivial`] where input `index` is a number, which is converted once.
fn run_with_number<const N: usize>(
    mut whole: Rows<N>,
    (index, convert): (usize, Convert),
    kernel: &Kernel<'_, N>,
) {
    let mut number = MaybeUninit::<[u64; 2]>::uninit();
    const { assert!(ScalarType::Complex128.size() <= size_of::<[u64; 2]>()) };
    // SAFETY: one element is read under the guards that are held; `number` holds one of any type.
    unsafe { convert(whole.from[index], number.as_mut_ptr().cast(), 1) };
    whole.from[index] = number.as_ptr().cast();
    whole.repeated[index] = whole.n > 1;
    run_trivial(whole, kernel);
}

impl TrivialIter<'_> {
    /// The whole call as one row.
    #[inline]
    fn rows<const N: usize>(&self, guarded: Guarded<'_>) -> Rows<N> {
        let (to, from) = self.pointers(guarded);
        Rows { to, from, ..Rows::empty(self.numel()) }
    }

    /// [`rows`](Self::rows) where all inputs [are alike](Self::inputs_are_alike).
    #[inline]
    fn rows_alike<const N: usize>(&self, guarded: Guarded<'_>) -> Rows<N> {
        let (to, from) = self.pointers_alike(guarded);
        Rows { to, from, ..Rows::empty(self.numel()) }
    }
}

#[inline]
fn direct_rows<const N: usize>(p: &Pointers<'_>, n: usize, rows: usize) -> Rows<N> {
    let mut made = Rows { to: p.data[0], to_row: p.outer[0], rows, ..Rows::empty(n) };
    for i in 0..N {
        made.from[i] = p.data[1 + i];
        made.from_row[i] = p.outer[1 + i];
        made.repeated[i] = p.inner[1 + i] == 0 && n > 1;
    }
    made
}

/// Rows in pieces of a tile: arguments are gathered and converted, results converted and scattered.
#[inline(never)]
fn tiled_rows<const N: usize>(
    p: &Pointers<'_>,
    n: usize,
    rows: usize,
    to: ConvertingOperand,
    from: [ConvertingOperand; N],
    policy: OutputPolicy<'_, N>,
) {
    // Prefetches only with non-temporal stores: most arguments are read from tiles, which are in L1.
    let policy = OutputPolicy { prefetch: if policy.streams { policy.prefetch } else { 0 }, ..policy };
    let mut out_tile: Tile = [MaybeUninit::uninit(); TILE];
    let mut in_tiles: [Tile; N] = [[MaybeUninit::uninit(); TILE]; N];
    let tile = from.iter().fold(to.tile, |tile, operand| tile.min(operand.tile));
    for row in 0..rows as i64 {
        let mut start = 0;
        while start < n {
            let count = tile.min(n - start);
            let at =
                |i: usize| p.data[i].wrapping_offset((row * p.outer[i] + start as i64 * p.inner[i]) as isize);
            let mut made = Rows { to: at(0), ..Rows::empty(count) };
            for i in 0..N {
                let stride = p.inner[1 + i];
                made.repeated[i] = stride == 0 && count > 1;
                made.from[i] = if from[i].is_direct_input(stride, count) {
                    at(1 + i)
                } else {
                    if policy.streams && stride == from[i].memory.size() as i64 {
                        // Prefetch the next tile: nothing is read while this one is computed, so the hardware prefetcher stops.
                        let bytes = count * stride as usize;
                        streaming::prefetch_bytes(at(1 + i).wrapping_add(bytes), bytes);
                    }
                    let needed = if stride == 0 { 1 } else { count };
                    // SAFETY: the operand has `needed` elements from `at(1 + i)`, and a tile takes them.
                    unsafe { fill(at(1 + i), stride, needed, from[i], &mut in_tiles[i]) };
                    in_tiles[i].as_ptr().cast()
                };
            }
            if to.is_direct(p.inner[0], count) {
                policy.compute(&made);
            } else {
                made.to = out_tile.as_mut_ptr().cast();
                (policy.run)(&made);
                // SAFETY: `run` has written `count` results into the tile, and the operand takes them.
                unsafe { drain(&out_tile, at(0), p.inner[0], count, to, policy.streams) };
            }
            start += count;
        }
    }
}

/// Gathers `count` elements in a tile, converted to the kernel's type.
///
/// # Safety
/// - `from` is valid for reading `count` elements of `operand.memory` at `stride` bytes; `count` is at most `operand.tile`.
unsafe fn fill(from: *const u8, stride: i64, count: usize, operand: ConvertingOperand, tile: &mut Tile) {
    let size = operand.memory.size();
    let to = tile.as_mut_ptr().cast::<u8>();
    let dense = stride == size as i64 || count == 1;
    let mut gathered: Tile = [MaybeUninit::uninit(); TILE];
    // SAFETY: a tile holds `count` elements of either type.
    unsafe {
        // Bools are converted to bool, so that a tile of them has no other bytes than 0 and 1.
        if operand.same && operand.memory != ScalarType::Bool {
            return copy_strided(from, stride, to, size as i64, count, size);
        }
        let source = if dense {
            from
        } else {
            let scratch = gathered.as_mut_ptr().cast::<u8>();
            copy_strided(from, stride, scratch, size as i64, count, size);
            scratch.cast_const()
        };
        (operand.convert)(source, to, count);
    }
}

/// Converts `count` results of a tile to the type in memory and scatters them; dense ones by non-temporal stores where `streams`.
///
/// # Safety
/// - The tile holds `count` elements of `operand.kernel`; `to` is valid for writing `count` of `operand.memory` at `stride` bytes.
unsafe fn drain(
    tile: &Tile,
    to: *mut u8,
    stride: i64,
    count: usize,
    operand: ConvertingOperand,
    streams: bool,
) {
    let size = operand.memory.size();
    let from = tile.as_ptr().cast::<u8>();
    let dense = stride == size as i64 || count == 1;
    let mut converted: Tile = [MaybeUninit::uninit(); TILE];
    // SAFETY: as for `fill`.
    unsafe {
        if operand.same {
            return copy_strided(from, size as i64, to, stride, count, size);
        }
        if dense && !streams {
            return (operand.convert)(from, to, count);
        }
        let scratch = converted.as_mut_ptr().cast::<u8>();
        (operand.convert)(from, scratch, count);
        if dense {
            return streaming::stream(scratch, to, count * size);
        }
        copy_strided(scratch, size as i64, to, stride, count, size);
    }
}

/// Conversion between two types at any strides.
#[derive(Clone, Copy)]
pub(super) struct StridedConvert(ConvertingOperand);

impl StridedConvert {
    /// Converts `count` dense elements by non-temporal stores; [`streaming::fence`] comes before another thread may read them.
    ///
    /// # Safety
    /// - As [`StridedConvert::run`], with the elements of both sides dense.
    pub(super) unsafe fn stream(self, from: *const u8, to: *mut u8, count: usize) {
        let StridedConvert(operand) = self;
        let row = Rows { to, from: [from], ..Rows::empty(count) };
        stream_rows(&row, [operand.memory.size()], operand.kernel.size(), false, &|piece: &Rows<1>| {
            // SAFETY: a piece of both sides, or a tile for as many.
            unsafe { (operand.convert)(piece.from[0], piece.to, piece.n) }
        });
    }

    /// From elements of one type to elements of another.
    ///
    /// # Errors
    /// `NotImplemented` for a type without storage.
    pub(super) fn new(from: ScalarType, to: ScalarType) -> Result<Self> {
        Ok(StridedConvert(ConvertingOperand::input(from, to, Mapping::Value)?))
    }

    /// Whether elements are copied as they are.
    pub(super) fn is_move(self) -> bool {
        self.0.same
    }

    /// Bytes of an element before and after.
    pub(super) fn sizes(self) -> [usize; 2] {
        [self.0.memory.size(), self.0.kernel.size()]
    }

    /// Converts `count` elements; strides are in bytes.
    ///
    /// # Safety
    /// - Both sides are valid for `count` elements of their types at their strides, and do not overlap.
    pub(super) unsafe fn run(
        self,
        from: *const u8,
        from_stride: i64,
        to: *mut u8,
        to_stride: i64,
        count: usize,
    ) {
        let StridedConvert(operand) = self;
        let dense = |stride: i64, dtype: ScalarType| stride == dtype.size() as i64 || count == 1;
        if dense(from_stride, operand.memory) && dense(to_stride, operand.kernel) {
            // SAFETY: by this function's conditions.
            return unsafe { (operand.convert)(from, to, count) };
        }
        let size = operand.kernel.size();
        if operand.same && operand.memory != ScalarType::Bool {
            // SAFETY: by this function's conditions.
            return unsafe { copy_strided(from, from_stride, to, to_stride, count, size) };
        }
        let mut tile: Tile = [MaybeUninit::uninit(); TILE];
        let mut start = 0;
        while start < count {
            let n = operand.tile.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the tile takes `n`.
            unsafe {
                let from = from.offset((start as i64 * from_stride) as isize);
                let to = to.offset((start as i64 * to_stride) as isize);
                fill(from, from_stride, n, operand, &mut tile);
                copy_strided(tile.as_ptr().cast(), size as i64, to, to_stride, n, size);
            }
            start += n;
        }
    }
}
