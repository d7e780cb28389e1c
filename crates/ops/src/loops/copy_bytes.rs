//! Copies of bytes that follow one another, where `memcpy` is slow.
#![expect(unsafe_code, reason = "copies through raw pointers that the callers have guards for")]

const PAGE: usize = 4096;
const CACHE_LINE: usize = 64;
/// So few bytes are copied by vectors.
const PIECE: usize = 2048;
/// Copies of more bytes are for non-temporal stores.
const LONGEST: usize = 1 << 22;

/// Copies bytes to another address, or to the same.
///
/// From some 3 KiB on, glibc before 2.39 copies by `rep movsb`, which takes 15 times as long on AMD's Zen 3 and Zen 4 where the result
/// begins less than a cache line after the source in its page (glibc's bug 30994). Results of `cat` and `roll` often do.
///
/// # Safety
/// - `from` is valid for reading and `to` for writing `bytes` bytes, and they are the same address or do not overlap.
#[inline]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    let distance = to.addr().wrapping_sub(from.addr()) % PAGE;
    if !(1..CACHE_LINE).contains(&distance) || !(PIECE..LONGEST).contains(&bytes) {
        // SAFETY: this function's condition.
        return unsafe { from.copy_to(to, bytes) };
    }
    for at in (0..bytes).step_by(PIECE) {
        // SAFETY: the same, since the addresses differ.
        unsafe { from.add(at).copy_to_nonoverlapping(to.add(at), PIECE.min(bytes - at)) }
    }
}

/// Copies plain elements, as many as `to` has.
#[inline]
pub(crate) fn copy_elements<T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    let from = &from[..to.len()];
    // SAFETY: two slices of the same number of plain elements, of which one is borrowed for writing.
    unsafe { copy_bytes(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_at_any_distance_of_pages() {
        let from: Vec<u32> = (0..6000).collect();
        let mut memory = vec![0u32; 9000];
        let start = memory.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) % PAGE / size_of::<u32>();
        let aligned = PAGE / size_of::<u32>() - start;
        for (shift, count) in [(0, 6000), (1, 6000), (3, 5999), (15, 513), (16, 6000), (1, 511), (1, 0)] {
            let to = &mut memory[aligned + shift..][..count];
            to.fill(u32::MAX);
            copy_elements(&from, to);
            assert_eq!(to, &from[..count], "{shift} {count}");
        }
    }
}
