//! Results written by non-temporal stores (Note: non-temporal stores, in [`loops`](crate::loops)): when that is faster, and how loops
//! do it.
//!
//! Most loops [have such stores themselves](super::rows::LaneFormula::STREAMS). For others, and where rows do not begin at
//! cache lines, a piece of the result is computed into a tile in L1 and copied from there by non-temporal stores.
#![expect(unsafe_code, reason = "moves bytes of rows whose guards the iterator holds")]

use super::copy_bytes::copy_elements;
use super::machine::{has_cache_line_stores, llc_bytes};
use super::rows::{CACHE_LINE, Rows};
use crate::parallel::num_threads;
use crate::vectorized::prefetch_cache_line;
#[cfg(target_arch = "x86_64")]
use crate::vectorized::{Avx512, Isa};
use std::mem::MaybeUninit;

/// Bytes of a tile: enough that the call for each costs little, and no more than the processor can hold back in its
/// write-combining buffers while the next tile is computed. Twice as many measured slower on Zen 4, and several kilobytes slower than
/// ordinary stores.
const TILE: usize = 512;

/// Memory for a piece of a result.
#[repr(align(64))]
struct Tile([MaybeUninit<u8>; TILE]);

/// Whether a result of `bytes` bytes, computed from so many `arguments` that are read in the same loop, is better written by non-temporal
/// stores: from half of the LLC on, or three quarters, and always from 32 MiB on.
///
/// - With two or more arguments on one thread, from half of the LLC on. The hardware prefetcher runs less far ahead for two, even where
///   one of them is a row that is read repeatedly, and time spent waiting for memory is what non-temporal stores save.
/// - With one argument, from three quarters on: below that, result and argument nearly fit the LLC, and the next operator finds the
///   result there.
/// - On several threads, from three quarters on. These keep the memory busy even with ordinary stores, so that it counts more that the
///   next operator finds the result in the LLC.
/// - A result of 32 MiB is taken to exceed the LLC, however large that is, since other programs use it too.
#[inline]
pub(crate) fn should_stream(bytes: usize, arguments: impl Fn() -> usize) -> bool {
    const ALWAYS: usize = 32 << 20;
    let quarters = || if num_threads() > 1 || arguments() < 2 { 3 } else { 2 };
    bytes >= MIN_BYTES && bytes >= (llc_bytes() / 4 * quarters()).min(ALWAYS) && has_cache_line_stores()
}

/// Whether a result of `bytes` bytes and its arguments fill most of the LLC, so that it is faster to prefetch the arguments even where
/// the result stays in the caches. Where they fit the caches easily, prefetches measured slower.
#[inline]
pub(super) fn fills_most_of_llc(bytes: usize) -> bool {
    bytes >= MIN_BYTES && bytes >= llc_bytes() / 4
}

/// Whether `bytes` bytes exceed the LLC by so much that most of them come from memory, however often they are read.
#[inline]
pub(super) fn exceeds_llc(bytes: usize) -> bool {
    bytes >= MIN_BYTES && bytes > llc_bytes() / 2 * 3
}

/// Bytes of a result below which it fits any LLC, and reading the size of the LLC would cost too much compared with the call.
const MIN_BYTES: usize = 1 << 20;

/// Calls `run` so that results are written by non-temporal stores: its own, where it `supports_nt_stores` ([`Rows::streams`]) and rows
/// begin at a cache line or are [long](LONG_ROW), and else those that copy a tile. [`fence`] comes before another thread may read them.
/// Elements of the arguments and of the result have the sizes `inputs` and `output`.
pub(super) fn stream_rows<const N: usize>(
    rows: &Rows<N>,
    inputs: [usize; N],
    output: usize,
    supports_nt_stores: bool,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    match rows.with_nt_stores().filter(|_| supports_nt_stores) {
        Some(rows) => run(&rows),
        None if supports_nt_stores && rows.n * output >= LONG_ROW => {
            (0..rows.rows).for_each(|r| stream_unaligned_row(&rows.row(r), inputs, output, run));
        }
        None => stream_tiles(rows, inputs, output, run),
    }
}

/// Bytes of a row from which on the part before its first cache line is worth a call of its own.
const LONG_ROW: usize = 4096;

/// One row at any address: the results before the first cache line are computed by a call of their own, so that the others need no tile.
fn stream_unaligned_row<const N: usize>(
    row: &Rows<N>,
    inputs: [usize; N],
    output: usize,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    let head = row.to.align_offset(CACHE_LINE) / output;
    match row.part(head..row.n, inputs, output).with_nt_stores() {
        Some(rest) => {
            run(&row.part(0..head, inputs, output));
            run(&rest);
        }
        // Elements that reach across the ends of cache lines.
        None => stream_tiles(row, inputs, output, run),
    }
}

/// Calls `run` for pieces of `rows` with a tile as the result, and copies the tile to the result by non-temporal stores.
fn stream_tiles<const N: usize>(
    rows: &Rows<N>,
    inputs: [usize; N],
    output: usize,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    let mut tile = Tile([const { MaybeUninit::uninit() }; TILE]);
    let tile: *mut u8 = tile.0.as_mut_ptr().cast();
    let bytes = rows.n * output;
    if bytes <= TILE / 2 && rows.rows > 1 {
        stream_short_rows(rows, bytes, tile, run);
    } else {
        (0..rows.rows).for_each(|r| stream_row(rows.row(r), inputs, output, tile, run));
    }
}

/// One row, piece by piece.
fn stream_row<const N: usize>(
    row: Rows<N>,
    inputs: [usize; N],
    output: usize,
    tile: *mut u8,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    // Sizes are powers of two, up to 16, so that a shift replaces the division: there are two pieces for each kilobyte.
    let log_output = output.trailing_zeros();
    let (mut to, mut left) = (row.to, row.n);
    let mut piece = Rows { to: tile, prefetch: [0; N], ..row };
    while left > 0 {
        // At an address that is no multiple of their size, less than one element may fit before the next boundary.
        piece.n = left.min((bytes_to_boundary(to) >> log_output).max(1));
        prefetch_piece(&piece, inputs);
        run(&piece);
        let bytes = piece.n << log_output;
        // SAFETY: `run` has written `piece.n` results, as many as the tile and the row take.
        unsafe { stream(tile, to, bytes) };
        to = to.wrapping_add(bytes);
        left -= piece.n;
        for (i, size) in inputs.into_iter().enumerate() {
            let step = if piece.repeated[i] { 0 } else { piece.n * size };
            piece.from[i] = piece.from[i].wrapping_add(step);
        }
    }
}

/// How far ahead of a piece its arguments are prefetched, in bytes: less than a page, and more than is read while a tile is written.
const PIECE_PREFETCH_DISTANCE: usize = 3072;

/// Prefetches the arguments of a later piece. While the stores of a tile wait for memory, the loads of the next piece do not fit the
/// reorder buffer, and the hardware prefetcher stops at the ends of pages.
fn prefetch_piece<const N: usize>(piece: &Rows<N>, inputs: [usize; N]) {
    for (i, size) in inputs.into_iter().enumerate() {
        if !piece.repeated[i] {
            let later = piece.from[i].wrapping_add(PIECE_PREFETCH_DISTANCE);
            prefetch_bytes(later, piece.n * size);
        }
    }
}

/// [`stream_tiles`] for rows of which several fit the tile.
fn stream_short_rows<const N: usize>(
    rows: &Rows<N>,
    bytes: usize,
    tile: *mut u8,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    let together = TILE / bytes.max(1);
    for first in (0..rows.rows).step_by(together) {
        let count = together.min(rows.rows - first);
        let to = rows.row(first).to;
        run(&Rows { rows: count, to: tile, to_row: bytes as i64, ..rows.row(first) });
        for r in 0..count {
            // SAFETY: `run` has written `count` rows into the tile, and the result takes them.
            unsafe {
                stream(tile.add(r * bytes), to.wrapping_offset((r as i64 * rows.to_row) as isize), bytes)
            };
        }
    }
}

/// The bytes of a piece that begins at `to`: up to the next multiple of [`TILE`], so that pieces end at the ends of cache lines.
fn bytes_to_boundary(to: *const u8) -> usize {
    let bytes = TILE - to.addr() % TILE;
    // Too few for an element whose address is no multiple of its size.
    if bytes < 8 { TILE } else { bytes }
}

/// Copies `bytes` bytes by non-temporal stores; [`fence`] comes before another thread may read them.
///
/// # Safety
/// - [`should_stream`] is true of some number of bytes, which says that the processor has these stores.
/// - `from` is valid for reading and `to` for writing `bytes` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    if to.addr().is_multiple_of(CACHE_LINE) && bytes.is_multiple_of(CACHE_LINE) {
        // SAFETY: by this function's condition.
        return unsafe { stream_cache_lines(from, to, bytes) };
    }
    // SAFETY: the same.
    unsafe { stream_parts(from, to, bytes) }
}

/// Copies the part before the first cache line, whole cache lines, and the rest.
///
/// # Safety
/// - As [`stream`].
#[inline(never)]
unsafe fn stream_parts(from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.align_offset(CACHE_LINE).min(bytes);
    let whole = (bytes - head) - (bytes - head) % CACHE_LINE;
    // SAFETY: three parts that make up the whole.
    unsafe {
        to.copy_from_nonoverlapping(from, head);
        stream_cache_lines(from.add(head), to.add(head), whole);
        let done = head + whole;
        to.add(done).copy_from_nonoverlapping(from.add(done), bytes - done);
    }
}

/// Copies whole cache lines.
///
/// # Safety
/// - As [`stream`]; `to` is the start of a cache line, and `bytes` a multiple of [`CACHE_LINE`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_cache_lines(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(CACHE_LINE) {
        // SAFETY: inside both, and `to` is aligned. Other threads see the bytes after `fence`.
        unsafe { Avx512::stream_cache_line(from.add(at), to.add(at)) }
    }
}

/// Copies whole cache lines.
///
/// # Safety
/// - As [`stream`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream_cache_lines(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by this function's condition.
    unsafe { to.copy_from_nonoverlapping(from, bytes) }
}

/// Orders the non-temporal stores of this thread, if there were any, before its later stores, among them the release of a lock. It
/// waits for memory, so there is one for a range of rows and not one for each row.
#[inline]
pub(crate) fn fence(streamed: bool) {
    #[cfg(target_arch = "x86_64")]
    if streamed {
        // SAFETY: every x86-64 processor has this instruction.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streamed;
}

/// Bytes of the rows that are prefetched while others are copied.
const PREFETCHED_BYTES: usize = 16 * 1024;
/// Bytes of a row that are prefetched; the hardware prefetcher finds the rest of a longer one.
const PREFETCHED_BYTES_OF_ROW: usize = 4096;

/// Fills row `r` of `to`, of `width` elements, with a copy of `source(r)`, for rows in any order in memory: later ones are prefetched
/// while others are copied.
pub(crate) fn copy_rows<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    streams: bool,
    source: impl Fn(usize) -> &'a [T],
) {
    let width = width.max(1);
    let bytes = width * size_of::<T>();
    if streams && bytes.is_multiple_of(CACHE_LINE) && to.as_ptr().addr().is_multiple_of(CACHE_LINE) {
        // SAFETY: `streams` says that the processor has these stores, and all rows begin and end at cache lines.
        unsafe { stream_whole_rows(to, width, source) }
        return fence(true);
    }
    for_each_row(
        to,
        width,
        source,
        |row, from| {
            if streams { stream_slice(from, row) } else { copy_elements(from, row) }
        },
    );
    fence(streams);
}

/// Calls `copy` with every row `r` of `to` and `source(r)`; the latter are prefetched.
#[inline(always)]
fn for_each_row<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    source: impl Fn(usize) -> &'a [T],
    copy: impl Fn(&mut [T], &'a [T]),
) {
    let (count, distance) = (to.len() / width, (PREFETCHED_BYTES / (width * size_of::<T>())).clamp(2, 32));
    for (r, row) in to.chunks_exact_mut(width).enumerate() {
        if r + distance < count {
            let next = source(r + distance);
            prefetch_slice(&next[..next.len().min(PREFETCHED_BYTES_OF_ROW / size_of::<T>())]);
        }
        copy(row, &source(r)[..width]);
    }
}

/// [`copy_rows`] for rows of whole cache lines: one loop, since a call for each short row costs as much as the row.
///
/// # Safety
/// - As [`stream_cache_lines`]: `to` begins at a cache line, and rows are multiples of a cache line.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f"))]
unsafe fn stream_whole_rows<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    source: impl Fn(usize) -> &'a [T],
) {
    for_each_row(to, width, source, |row, from| {
        // SAFETY: two rows of the same number of bytes, by this function's condition whole cache lines.
        unsafe { stream_cache_lines(from.as_ptr().cast(), row.as_mut_ptr().cast(), size_of_val(from)) }
    });
}

/// Copies elements by non-temporal stores; [`fence`] comes before another thread may read them. Only where [`should_stream`] is true.
pub(crate) fn stream_slice<T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    debug_assert!(has_cache_line_stores());
    let from = &from[..to.len()];
    // SAFETY: two slices of the same number of plain elements, of which one is borrowed for writing.
    unsafe { stream(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) };
}

/// Prefetches elements that are read later, in an order that the hardware prefetcher does not recognize.
fn prefetch_slice<T>(elements: &[T]) {
    prefetch_bytes(elements.as_ptr().cast(), size_of_val(elements));
}

/// Prefetches bytes, at any address: a prefetch of an invalid one does nothing.
pub(crate) fn prefetch_bytes(start: *const u8, bytes: usize) {
    (0..bytes).step_by(CACHE_LINE).for_each(|at| prefetch_cache_line(start.wrapping_add(at)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_at_every_alignment() {
        if !has_cache_line_stores() {
            return;
        }
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for offset in 0..70 {
            for bytes in [0, 1, 63, 64, 65, 127, 128, 200, 900] {
                let mut to = vec![255u8; 1000];
                // SAFETY: `offset + bytes` is less than 1000.
                unsafe { stream(from.as_ptr().add(3), to.as_mut_ptr().add(offset), bytes) };
                fence(true);
                assert_eq!(to[offset..offset + bytes], from[3..3 + bytes]);
                assert!(to[..offset].iter().chain(&to[offset + bytes..]).all(|&b| b == 255));
            }
        }
    }
}
