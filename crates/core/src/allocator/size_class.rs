//! The sizes that blocks come in: multiples of 64 bytes up to 1 KiB, then four to the octave, so at most 20% is unused.

/// Alignment of every block, in bytes: one cache line, one AVX-512 register.
pub const ALIGNMENT: usize = 64;
/// Requests up to this many bytes are served from the thread's own lists.
pub(crate) const SMALL_MAX: usize = 16 << 10;
/// How many classes hold the requests up to [`SMALL_MAX`].
pub(crate) const SMALL_CLASSES: usize = class_of(SMALL_MAX) + 1;
/// The largest request; a class rounded up from it is still a valid size of an allocation.
pub(crate) const REQUEST_MAX: usize = isize::MAX as usize / 2;
/// How many classes there are.
pub(crate) const CLASSES: usize = class_of(REQUEST_MAX) + 1;

const FINE_MAX: usize = 1 << FINE_BITS;
const FINE_BITS: usize = 10;
const FINE_CLASSES: usize = FINE_MAX / ALIGNMENT;

/// The class whose blocks hold `bytes`, which is between 1 and [`REQUEST_MAX`].
#[inline(always)]
pub(crate) const fn class_of(bytes: usize) -> usize {
    let last = bytes - 1;
    if bytes <= FINE_MAX {
        return last / ALIGNMENT;
    }
    let octave = last.ilog2() as usize;
    FINE_CLASSES + (octave - FINE_BITS) * 4 + ((last >> (octave - 2)) & 3)
}

/// The size of a class's blocks, in bytes.
#[inline(always)]
pub(crate) const fn class_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        return (class + 1) * ALIGNMENT;
    }
    let (octave, quarter) = (FINE_BITS + (class - FINE_CLASSES) / 4, (class - FINE_CLASSES) % 4);
    (5 + quarter) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_holds_exactly_the_sizes_above_the_one_before() {
        let mut below = 0;
        for class in 0..CLASSES {
            let size = class_bytes(class);
            assert_eq!(
                (class_of(below + 1), class_of(size)),
                (class, class),
                "class {class} of {size} bytes"
            );
            assert_eq!(size % ALIGNMENT, 0);
            below = size;
        }
        assert!(below >= REQUEST_MAX && below <= isize::MAX as usize);
    }

    #[test]
    fn little_is_wasted() {
        for bytes in (1025..if cfg!(miri) { 3000 } else { 100_000 }).chain((1 << 30)..(1 << 30) + 1000) {
            assert!(class_bytes(class_of(bytes)) <= bytes + bytes / 4, "{bytes}");
        }
    }
}
