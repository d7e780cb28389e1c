//! Large results go past the caches: what is written first would have left them before anybody reads it, and a line that is
//! written whole need not be read from memory before.
//!
//! Most loops [do that by themselves](super::rows::LaneFormula::STREAMS). For others, and where rows do not begin where
//! lines do, a piece of the result is computed into a tile that stays in the nearest cache, and copied from there by stores that
//! wait for no line.
#![expect(unsafe_code, reason = "moves bytes of rows whose guards the iterator holds")]

use super::rows::{LINE, Rows};
use crate::parallel::num_threads;
use crate::vectorized::prefetch_line;
#[cfg(target_arch = "x86_64")]
use crate::vectorized::{Avx512, CpuCapability, Isa, cpu_capability};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Bytes of a tile: large beside the cost of a call, and no more than can wait to be written while the next is computed. On an AMD
/// processor (Zen 4) twice as many took a sixth longer; pieces of several kilobytes were slower than no tile at all.
const TILE: usize = 512;

/// Room for a piece of a result.
#[repr(align(64))]
struct Tile([MaybeUninit<u8>; TILE]);

/// Whether a result of so many bytes, computed from so many arguments that are read side by side, is written past the caches, where
/// one store writes a whole line: narrower ones gain nothing.
///
/// One thread gains from half of the last cache on where it reads two arguments, be one of them a row that is read again and again:
/// of those the processor asks for less ahead. (Zen 4: adding a row to 16 MiB took 0.66 of the time, layer norm 0.73.) With one
/// argument both nearly fit the cache, and what comes next finds the result there. Several threads keep the memory busy by
/// themselves, so that what stays in the cache pays for longer: sums of 16 MiB took 0.39 ms past a cache of 32 MiB and 0.28 ms by
/// way of it, but half as long again on one thread. From 32 MiB on all gain, however large the cache: others use it, too.
#[inline]
pub(crate) fn pays(bytes: usize, arguments: impl Fn() -> usize) -> bool {
    const ALWAYS: usize = 32 << 20;
    let quarters = || if num_threads() > 1 || arguments() < 2 { 3 } else { 2 };
    bytes >= LEAST && bytes >= (last_cache() / 4 * quarters()).min(ALWAYS) && writes_lines()
}

/// Whether a result of so many bytes and its arguments crowd the last cache, so that it pays to ask ahead for what is read even where the
/// result stays there.
///
/// The processor does so by itself, but less far where a step reads several arguments. (Zen 4, two threads: adding a row to 16 MiB
/// took 0.75 of the time, sums of 8 MiB on one thread 0.9; sums of 2 MiB, which the caches hold, 1.12.)
#[inline]
pub(super) fn crowds(bytes: usize) -> bool {
    bytes >= LEAST && bytes >= last_cache() / 4
}

/// Whether most of so many bytes comes from memory, however often it is read.
#[inline]
pub(super) fn outgrows(bytes: usize) -> bool {
    bytes >= LEAST && bytes > last_cache() / 2 * 3
}

/// Bytes of a result below which there is no time to ask for the size of the cache.
const LEAST: usize = 1 << 20;

#[cfg(target_arch = "x86_64")]
fn writes_lines() -> bool {
    cpu_capability() == CpuCapability::Avx512
}

#[cfg(not(target_arch = "x86_64"))]
fn writes_lines() -> bool {
    false
}

/// The size of the last cache in bytes.
fn last_cache() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let said = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok();
        let kilobytes = said.and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
        kilobytes.map_or(32 << 20, |k| k << 10)
    })
}

/// Calls `run` so that its results go past the caches: by itself, where it heeds [`Rows::streams`] and rows begin where lines do
/// or are [long](LONG), and else by way of the tile; [`fence`] before another thread may read them. Elements of the arguments and
/// of the result have these sizes.
pub(super) fn stream_rows<const N: usize>(
    rows: &Rows<N>,
    inputs: [usize; N],
    output: usize,
    heeds: bool,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    match rows.streamed().filter(|_| heeds) {
        Some(rows) => run(&rows),
        None if heeds && rows.n * output >= LONG => {
            (0..rows.rows).for_each(|r| stream_from_line(&rows.row(r), inputs, output, run));
        }
        None => stream_tiles(rows, inputs, output, run),
    }
}

/// Bytes of a row from which on its beginning is worth a call of its own.
const LONG: usize = 4096;

/// One row that begins anywhere: the results before the first line by themselves, so that all others go past the caches at once.
fn stream_from_line<const N: usize>(
    row: &Rows<N>,
    inputs: [usize; N],
    output: usize,
    run: &(impl Fn(&Rows<N>) + ?Sized),
) {
    let head = row.to.align_offset(LINE) / output;
    match row.part(head..row.n, inputs, output).streamed() {
        Some(rest) => {
            run(&row.part(0..head, inputs, output));
            run(&rest);
        }
        // Elements that do not end where lines do.
        None => stream_tiles(row, inputs, output, run),
    }
}

/// Calls `run` for pieces of `rows` with a tile to write to, and moves what it wrote to where it belongs.
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
    // Sizes are powers of two, up to 16. There are two pieces for each kilobyte: little may be done for one.
    let log_output = output.trailing_zeros();
    let (mut to, mut left) = (row.to, row.n);
    let mut piece = Rows { to: tile, ahead: [0; N], ..row };
    while left > 0 {
        // Where elements are larger than what they begin at a multiple of, one may reach past the room.
        piece.n = left.min((room(to) >> log_output).max(1));
        ask_ahead(&piece, inputs);
        run(&piece);
        let bytes = piece.n << log_output;
        // SAFETY: `run` has written `piece.n` results, as many as there is room for.
        unsafe { stream(tile, to, bytes) };
        to = to.wrapping_add(bytes);
        left -= piece.n;
        for (i, size) in inputs.into_iter().enumerate() {
            let step = if piece.repeated[i] { 0 } else { piece.n * size };
            piece.from[i] = piece.from[i].wrapping_add(step);
        }
    }
}

/// How far ahead of a piece its arguments are asked for, in bytes: less than a page, and more than is read while a tile is written.
const AHEAD: usize = 3072;

/// Asks for the lines of the piece that comes some time after this one. While a tile waits to be written, the loads of the next
/// are out of the processor's sight; where pages are small, those that come in order are not foreseen across their ends either.
fn ask_ahead<const N: usize>(piece: &Rows<N>, inputs: [usize; N]) {
    for (i, size) in inputs.into_iter().enumerate() {
        if !piece.repeated[i] {
            let soon = piece.from[i].wrapping_add(AHEAD);
            ask_for_bytes(soon, piece.n * size);
        }
    }
}

/// The same for rows of which several fit the tile.
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
            // SAFETY: `run` has written `count` rows, for which there is room.
            unsafe {
                stream(tile.add(r * bytes), to.wrapping_offset((r as i64 * rows.to_row) as isize), bytes)
            };
        }
    }
}

/// How many bytes from here on are a piece: up to the next multiple of [`TILE`], so that pieces end where lines do.
fn room(to: *const u8) -> usize {
    let room = TILE - to.addr() % TILE;
    // An address that is no multiple of an element's size leaves no room for one at the end.
    if room < 8 { TILE } else { room }
}

/// Copies `bytes` bytes past the caches; [`fence`] before another thread may read them.
///
/// # Safety
/// - [`pays`] has said so of some number of bytes.
/// - `from` is valid for reading and `to` for writing `bytes` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    if to.addr().is_multiple_of(LINE) && bytes.is_multiple_of(LINE) {
        // SAFETY: by this function's condition.
        return unsafe { stream_lines(from, to, bytes) };
    }
    // SAFETY: the same.
    unsafe { stream_parts(from, to, bytes) }
}

/// Copies the part up to where a line starts, whole lines, and the rest.
///
/// # Safety
/// - As [`stream`].
#[inline(never)]
unsafe fn stream_parts(from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.align_offset(LINE).min(bytes);
    let whole = (bytes - head) / LINE * LINE;
    // SAFETY: three parts that make up the whole.
    unsafe {
        to.copy_from_nonoverlapping(from, head);
        stream_lines(from.add(head), to.add(head), whole);
        let done = head + whole;
        to.add(done).copy_from_nonoverlapping(from.add(done), bytes - done);
    }
}

/// Copies whole lines.
///
/// # Safety
/// - As [`stream`]; `to` is the start of a line, and `bytes` a multiple of [`LINE`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_lines(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: inside both, and `to` is aligned. Other threads see the bytes after `fence`.
        unsafe { Avx512::stream_line(from.add(at), to.add(at)) }
    }
}

/// Copies whole lines.
///
/// # Safety
/// - As [`stream`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream_lines(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by this function's condition.
    unsafe { to.copy_from_nonoverlapping(from, bytes) }
}

/// Orders what was streamed, if anything was, before what this thread writes afterwards, a lock's release among it. It waits for
/// memory: after each of 4096 lines of 4 KiB, layer norm took a ninth longer on Zen 4.
#[inline]
pub(crate) fn fence(streamed: bool) {
    #[cfg(target_arch = "x86_64")]
    if streamed {
        // SAFETY: in every x86-64 processor.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streamed;
}

/// Bytes of rows that are on their way while others are copied, and of one of them; the processor finds the rest of a long one.
const ON_THE_WAY: usize = 16 * 1024;
const ASKED_FOR: usize = 4096;

/// Fills rows of `width` elements with copies of those that `named` gives by their number, which lie anywhere: those that come are
/// asked for while others are copied.
pub(crate) fn copy_rows<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    streams: bool,
    named: impl Fn(usize) -> &'a [T],
) {
    let width = width.max(1);
    let bytes = width * size_of::<T>();
    if streams && bytes.is_multiple_of(LINE) && to.as_ptr().addr().is_multiple_of(LINE) {
        // SAFETY: `streams` says that the processor has these stores, and all rows begin and end where lines do.
        unsafe { stream_whole_rows(to, width, named) }
        return fence(true);
    }
    for_each_row(
        to,
        width,
        named,
        |row, from| {
            if streams { stream_slice(from, row) } else { row.copy_from_slice(from) }
        },
    );
    fence(streams);
}

/// Calls `copy` with every row of `to` and the one that `named` gives for it, of which some are asked for ahead.
#[inline(always)]
fn for_each_row<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    named: impl Fn(usize) -> &'a [T],
    copy: impl Fn(&mut [T], &'a [T]),
) {
    let (count, ahead) = (to.len() / width, (ON_THE_WAY / (width * size_of::<T>())).clamp(2, 32));
    for (r, row) in to.chunks_exact_mut(width).enumerate() {
        if r + ahead < count {
            let next = named(r + ahead);
            ask_for(&next[..next.len().min(ASKED_FOR / size_of::<T>())]);
        }
        copy(row, &named(r)[..width]);
    }
}

/// The same as [`copy_rows`] for rows of whole lines: one loop, since a call for each short row costs as much as the row.
///
/// # Safety
/// - As [`stream_lines`]: `to` begins where a line does, and rows are multiples of a line.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f"))]
unsafe fn stream_whole_rows<'a, T: bytemuck::Pod>(
    to: &mut [T],
    width: usize,
    named: impl Fn(usize) -> &'a [T],
) {
    for_each_row(to, width, named, |row, from| {
        // SAFETY: two rows of the same number of bytes, by this function's condition whole lines.
        unsafe { stream_lines(from.as_ptr().cast(), row.as_mut_ptr().cast(), size_of_val(from)) }
    });
}

/// Copies elements past the caches; [`fence`] before another thread may read them. Only where [`pays`] has said so.
pub(crate) fn stream_slice<T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    debug_assert!(writes_lines());
    let from = &from[..to.len()];
    // SAFETY: two slices of the same number of plain elements, of which one is borrowed for writing.
    unsafe { stream(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) };
}

/// Asks for the lines of elements before they are needed in an order that the processor does not see coming.
fn ask_for<T>(elements: &[T]) {
    ask_for_bytes(elements.as_ptr().cast(), size_of_val(elements));
}

/// The same for bytes, which need not be there.
pub(crate) fn ask_for_bytes(start: *const u8, bytes: usize) {
    (0..bytes).step_by(LINE).for_each(|at| prefetch_line(start.wrapping_add(at)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_at_every_alignment() {
        if !writes_lines() {
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
