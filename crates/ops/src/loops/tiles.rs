//! Operands of another type or with odd strides pass through tiles that stay in cache, so that the inner loop sees only dense
//! rows of one type.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::ahead::{AHEAD, AHEAD_IN_CACHE};
use super::rows::{self, Rows};
use super::streaming::{self, stream_rows};
use super::strided::copy_strided;
use super::turned;
use crate::dispatch_all_types;
use crate::parallel::parallel_for;
use crate::tensor_iterator::{Along, GRAIN, Plain, Pointers, TensorIterator, grain_of};
use crate::vectorized::convert_slice;
use flambeau_core::{Guarded, Result, ScalarType};
use std::mem::MaybeUninit;

/// Elements of a tile: so many that the start of a loop is little of it, and four operands of eight bytes fit a first-level cache.
const TILE: usize = 1024;

/// A tile of elements of up to eight bytes, or of half as many of sixteen.
type Tile = [MaybeUninit<u64>; TILE];

/// How many elements a tile takes of the larger of two types.
fn elements_of_tile(a: ScalarType, b: ScalarType) -> usize {
    const { assert!(ScalarType::Complex128.size() <= 2 * size_of::<u64>()) };
    if a.size().max(b.size()) > size_of::<u64>() { TILE / 2 } else { TILE }
}

/// Converts a number of dense elements from one type to another.
type Convert = unsafe fn(*const u8, *mut u8, usize);

/// The conversion between two types.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(super) fn converter(from: ScalarType, to: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - `from` is valid for reading and `to` for writing `count` elements, and they do not overlap.
    unsafe fn erased<F: crate::vectorized::Convert, T: crate::vectorized::Convert>(
        from: *const u8,
        to: *mut u8,
        count: usize,
    ) {
        // SAFETY: by this function's condition.
        unsafe { convert_slice::<F, T>(from.cast(), to.cast(), count) }
    }
    dispatch_all_types!(all, from, "conversion", F => {
        dispatch_all_types!(all, to, "conversion", T => Ok(erased::<F, T> as Convert))
    })
}

/// How one operand is met: where it stands in memory and what the kernel wants.
#[derive(Clone, Copy)]
struct Port {
    memory: ScalarType,
    kernel: ScalarType,
    /// From memory to kernel for an argument, the other way for a result.
    convert: Convert,
    /// Elements of a tile.
    tile: usize,
}

impl Port {
    fn new(memory: ScalarType, kernel: ScalarType, convert: Convert) -> Self {
        Port { memory, kernel, convert, tile: elements_of_tile(memory, kernel) }
    }

    fn input(memory: ScalarType, kernel: ScalarType) -> Result<Self> {
        Ok(Port::new(memory, kernel, converter(memory, kernel)?))
    }

    fn output(memory: ScalarType, kernel: ScalarType) -> Result<Self> {
        Ok(Port::new(memory, kernel, converter(kernel, memory)?))
    }

    /// Whether the kernel can touch `n` elements of this stride where they are.
    fn is_direct(self, stride: i64, n: usize) -> bool {
        self.memory == self.kernel && (stride == self.memory.size() as i64 || n == 1)
    }

    /// The same for an argument, which may also be one value for all.
    fn is_direct_input(self, stride: i64, n: usize) -> bool {
        self.is_direct(stride, n) || (stride == 0 && self.memory == self.kernel)
    }
}

/// A kernel's loop over rows.
type RunRows<'k, const N: usize> = dyn Fn(&Rows<N>) + Sync + 'k;

/// A kernel: the types it reads and writes, its loop, and whether that heeds [`Rows::streams`].
pub(super) struct Kernel<'k, const N: usize> {
    pub(super) inputs: [ScalarType; N],
    pub(super) output: ScalarType,
    pub(super) heeds_streams: bool,
    pub(super) run: &'k RunRows<'k, N>,
}

/// Where dense rows of results go.
#[derive(Clone, Copy)]
struct Sink<'k, const N: usize> {
    run: &'k RunRows<'k, N>,
    /// Bytes of an element of each argument, and of the result, as the kernel sees them.
    inputs: [usize; N],
    output: usize,
    /// Past the caches.
    streams: bool,
    heeds_streams: bool,
    /// How many bytes ahead arguments are asked for, if any is.
    ahead: usize,
}

impl<'k, const N: usize> Sink<'k, N> {
    fn new(kernel: &Kernel<'k, N>) -> Self {
        Sink {
            run: kernel.run,
            inputs: kernel.inputs.map(ScalarType::size),
            output: kernel.output.size(),
            streams: false,
            heeds_streams: kernel.heeds_streams,
            ahead: 0,
        }
    }

    /// The same for a result of so many bytes, `apart` from all arguments, of which so many are `read` side by side.
    fn sized(self, bytes: usize, apart: impl Fn() -> bool, read: impl Fn() -> usize) -> Self {
        let streams = N <= rows::STREAMED && streaming::pays(bytes, read) && apart();
        let ahead = match streams {
            true => AHEAD,
            false if streaming::crowds(bytes) => AHEAD_IN_CACHE,
            false => 0,
        };
        Sink { streams, ahead, ..self }
    }

    /// Computes rows whose results stand in memory as the kernel writes them; [`wait`](Self::wait) before another thread may read them.
    #[inline]
    fn compute(&self, rows: &Rows<N>) {
        if self.ahead == 0 {
            return (self.run)(rows);
        }
        // A row that is read for each of many is near.
        let ahead = |i: usize| if rows.rows > 1 && rows.from_row[i] == 0 { 0 } else { self.ahead };
        let rows = Rows { ahead: std::array::from_fn(ahead), ..*rows };
        match self.streams {
            true => stream_rows(&rows, self.inputs, self.output, self.heeds_streams, self.run),
            false => (self.run)(&rows),
        }
    }

    /// Until all that this thread computed is there for others.
    #[inline]
    fn wait(&self) {
        streaming::fence(self.streams);
    }
}

/// Runs a kernel on rows until every element of the iterator was met, whatever the types of its one output and `N` inputs in
/// memory.
///
/// # Errors
/// Those of [`TensorIterator::with_pointers`].
///
/// `run` is the only part that knows the formula: this and all that follows is compiled once for each `N`.
pub(super) fn for_each_rows<const N: usize>(iter: &TensorIterator<'_>, kernel: &Kernel<'_, N>) -> Result<()> {
    let Kernel { inputs, output, .. } = *kernel;
    if let Some(plain) = iter.plain().filter(|p| p.result == output && p.takes(inputs)) {
        return match plain.number() {
            None if plain.is_of_alike() => {
                let alike = |guarded: Guarded<'_>| plain_rows(plain.rows_alike(guarded), kernel);
                plain.with_guards::<_, N>(iter.name(), alike)
            }
            None => plain.with_guards::<_, N>(iter.name(), |guarded| plain_rows(plain.rows(guarded), kernel)),
            Some((place, from)) => {
                let convert = converter(from, plain.dtype)?;
                let numbered =
                    |guarded: Guarded<'_>| with_number(plain.rows(guarded), (place, convert), kernel);
                plain.with_guards::<_, N>(iter.name(), numbered)
            }
        };
    }
    walk_rows(iter, kernel)
}

/// The calls that are not plain.
#[inline(never)]
fn walk_rows<const N: usize>(iter: &TensorIterator<'_>, kernel: &Kernel<'_, N>) -> Result<()> {
    let Kernel { inputs, output, .. } = *kernel;
    let operands = iter.operands();
    let to = Port::output(operands[0].dtype(), output)?;
    let mut from = [to; N];
    for i in 0..N {
        from[i] = Port::input(operands[1 + i].dtype(), inputs[i])?;
    }
    let apart = || operands[1..].iter().all(|o| !operands[0].shares_storage(o));
    let bytes = iter.numel() as usize * operands[0].dtype().size();
    let read = || operands[1..].iter().filter(|o| o.strides().first().is_some_and(|&s| s != 0)).count();
    let sink = Sink::new(kernel).sized(bytes, apart, read);
    let of_one_type =
        || operands[0].dtype() == output && (0..N).all(|i| operands[1 + i].dtype() == inputs[i]);
    if let Some(dim) = turned::turned_dim(iter).filter(|_| of_one_type() && turned::lies_along(&operands[0]))
    {
        // Blocks are small: written past the caches they took half as long again.
        return walk_turned(iter, dim, Sink::new(kernel));
    }
    iter.with_pointers(|data| {
        iter.for_each(data, |p, n, rows| {
            let direct =
                to.is_direct(p.inner[0], n) && (0..N).all(|i| from[i].is_direct_input(p.inner[1 + i], n));
            if direct {
                sink.compute(&direct_rows(&p, n, rows))
            } else {
                tiled_rows(&p, n, rows, to, from, sink)
            }
            sink.wait();
        });
    })
}

/// Blocks of operands of which some lie the other way round, all of the types that the kernel wants.
fn walk_turned<const N: usize>(iter: &TensorIterator<'_>, dim: usize, sink: Sink<'_, N>) -> Result<()> {
    let sizes: [usize; N] = std::array::from_fn(|i| iter.operands()[1 + i].dtype().size());
    let rows = sizes.iter().map(|&size| turned::rows_of_block(size)).min().unwrap_or(1);
    iter.with_pointers(|data| {
        iter.for_each_block(data, dim, [turned::COLUMNS, rows], Along::Columns, &|p, n, rows| {
            let mut tiles: [turned::Tile; N] = [[const { MaybeUninit::uninit() }; _]; N];
            let mut made = direct_rows(&p, n, rows);
            for i in 0..N {
                if p.inner[1 + i] != 0 && p.inner[1 + i] != sizes[i] as i64 {
                    // SAFETY: a block of the walk, which lies inside the operand.
                    unsafe { turned::turn(&p, 1 + i, n, rows, sizes[i], &mut tiles[i]) };
                    made.from[i] = tiles[i].as_ptr().cast();
                    made.from_row[i] = turned::pitch(sizes[i]) as i64;
                }
            }
            sink.compute(&made);
        });
    })
}

/// The one dense row that a plain call is, cut where several threads pay.
#[inline]
fn plain_rows<const N: usize>(whole: Rows<N>, kernel: &Kernel<'_, N>) {
    let n = whole.n;
    if n <= GRAIN {
        return if n > 0 {
            (kernel.run)(&whole)
        };
    }
    let apart = || !whole.from.contains(&whole.to.cast_const());
    let read = || {
        let another = |i: usize| !whole.repeated[i] && !whole.from[..i].contains(&whole.from[i]);
        (0..N).filter(|&i| another(i)).count()
    };
    let sink = Sink::new(kernel);
    let sink = sink.sized(n * sink.output, apart, read);
    parallel_for(0..n, grain_of(n, 2), |range| {
        sink.compute(&whole.part(range, sink.inputs, sink.output));
        sink.wait();
    });
}

/// The same where the input at `place` is a number, which is converted once.
fn with_number<const N: usize>(
    mut whole: Rows<N>,
    (place, convert): (usize, Convert),
    kernel: &Kernel<'_, N>,
) {
    let mut number = MaybeUninit::<[u64; 2]>::uninit();
    const { assert!(ScalarType::Complex128.size() <= size_of::<[u64; 2]>()) };
    // SAFETY: one element is read under the guards that are held; those of any type fit.
    unsafe { convert(whole.from[place], number.as_mut_ptr().cast(), 1) };
    whole.from[place] = number.as_ptr().cast();
    whole.repeated[place] = whole.n > 1;
    plain_rows(whole, kernel);
}

impl Plain<'_> {
    /// All of it as one row.
    #[inline]
    fn rows<const N: usize>(&self, guarded: Guarded<'_>) -> Rows<N> {
        let (to, from) = self.pointers(guarded);
        Rows { to, from, ..Rows::empty(self.numel()) }
    }

    /// The same of inputs that are alike.
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

/// Rows cut into tiles: arguments are gathered and converted, results converted and scattered.
#[inline(never)]
fn tiled_rows<const N: usize>(
    p: &Pointers<'_>,
    n: usize,
    rows: usize,
    to: Port,
    from: [Port; N],
    sink: Sink<'_, N>,
) {
    // Most arguments are in tiles: what follows there is not worth asking for.
    let sink = Sink { ahead: if sink.streams { sink.ahead } else { 0 }, ..sink };
    let mut out_tile: Tile = [MaybeUninit::uninit(); TILE];
    let mut in_tiles: [Tile; N] = [[MaybeUninit::uninit(); TILE]; N];
    let tile = from.iter().fold(to.tile, |tile, port| tile.min(port.tile));
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
                    if sink.streams && stride == from[i].memory.size() as i64 {
                        // While this tile is computed nothing is read, so the processor would not see the next one coming.
                        let bytes = count * stride as usize;
                        streaming::ask_for_bytes(at(1 + i).wrapping_add(bytes), bytes);
                    }
                    let wanted = if stride == 0 { 1 } else { count };
                    // SAFETY: the operand has `wanted` elements from `at(1 + i)`, and a tile takes them.
                    unsafe { fill(at(1 + i), stride, wanted, from[i], &mut in_tiles[i]) };
                    in_tiles[i].as_ptr().cast()
                };
            }
            if to.is_direct(p.inner[0], count) {
                sink.compute(&made);
            } else {
                made.to = out_tile.as_mut_ptr().cast();
                (sink.run)(&made);
                // SAFETY: `run` has written `count` results into the tile, and the operand takes them.
                unsafe { drain(&out_tile, at(0), p.inner[0], count, to, sink.streams) };
            }
            start += count;
        }
    }
}

/// Gathers `count` elements and converts them to what the kernel wants.
///
/// # Safety
/// - `from` is valid for reading `count` elements of `port.memory` at `stride` bytes; `count` is at most `port.tile`.
unsafe fn fill(from: *const u8, stride: i64, count: usize, port: Port, tile: &mut Tile) {
    let size = port.memory.size();
    let to = tile.as_mut_ptr().cast::<u8>();
    let dense = stride == size as i64 || count == 1;
    let mut gathered: Tile = [MaybeUninit::uninit(); TILE];
    // SAFETY: a tile holds `count` elements of either type.
    unsafe {
        // A tile of truth values holds no other bytes than 0 and 1.
        if port.memory == port.kernel && port.memory != ScalarType::Bool {
            return copy_strided(from, stride, to, size as i64, count, size);
        }
        let source = if dense {
            from
        } else {
            let scratch = gathered.as_mut_ptr().cast::<u8>();
            copy_strided(from, stride, scratch, size as i64, count, size);
            scratch.cast_const()
        };
        (port.convert)(source, to, count);
    }
}

/// Converts `count` results to the type in memory and scatters them, or writes dense ones past the caches.
///
/// # Safety
/// - The tile holds `count` elements of `port.kernel`; `to` is valid for writing `count` of `port.memory` at `stride` bytes.
unsafe fn drain(tile: &Tile, to: *mut u8, stride: i64, count: usize, port: Port, streams: bool) {
    let size = port.memory.size();
    let from = tile.as_ptr().cast::<u8>();
    let dense = stride == size as i64 || count == 1;
    let mut converted: Tile = [MaybeUninit::uninit(); TILE];
    // SAFETY: as for `fill`.
    unsafe {
        if port.memory == port.kernel {
            return copy_strided(from, size as i64, to, stride, count, size);
        }
        if dense && !streams {
            return (port.convert)(from, to, count);
        }
        let scratch = converted.as_mut_ptr().cast::<u8>();
        (port.convert)(from, scratch, count);
        if dense {
            return streaming::stream(scratch, to, count * size);
        }
        copy_strided(scratch, size as i64, to, stride, count, size);
    }
}

/// Conversion between two types at any strides.
#[derive(Clone, Copy)]
pub(super) struct StridedConvert(Port);

impl StridedConvert {
    /// Converts `count` elements that lie side by side, past the caches; [`streaming::fence`] before another thread may read them.
    ///
    /// # Safety
    /// - As [`StridedConvert::run`], with the elements of both sides dense.
    pub(super) unsafe fn stream(self, from: *const u8, to: *mut u8, count: usize) {
        let StridedConvert(port) = self;
        let row = Rows { to, from: [from], ..Rows::empty(count) };
        stream_rows(&row, [port.memory.size()], port.kernel.size(), false, &|piece: &Rows<1>| {
            // SAFETY: a piece of both sides, or a tile for as many.
            unsafe { (port.convert)(piece.from[0], piece.to, piece.n) }
        });
    }

    /// From elements of one type to elements of another.
    ///
    /// # Errors
    /// `NotImplemented` for a type without storage.
    pub(super) fn new(from: ScalarType, to: ScalarType) -> Result<Self> {
        Ok(StridedConvert(Port::input(from, to)?))
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
        let StridedConvert(port) = self;
        let dense = |stride: i64, dtype: ScalarType| stride == dtype.size() as i64 || count == 1;
        if dense(from_stride, port.memory) && dense(to_stride, port.kernel) {
            // SAFETY: by this function's conditions.
            return unsafe { (port.convert)(from, to, count) };
        }
        let mut tile: Tile = [MaybeUninit::uninit(); TILE];
        let size = port.kernel.size();
        let mut start = 0;
        while start < count {
            let n = port.tile.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the tile takes `n`.
            unsafe {
                let from = from.offset((start as i64 * from_stride) as isize);
                let to = to.offset((start as i64 * to_stride) as isize);
                fill(from, from_stride, n, port, &mut tile);
                copy_strided(tile.as_ptr().cast(), size as i64, to, to_stride, n, size);
            }
            start += n;
        }
    }
}
