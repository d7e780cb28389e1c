//! Tiles of C in AMX's registers: sixteen rows of sixteen sums each, of products of bf16 pairs.
//!
//! One instruction multiplies sixteen rows of A, thirty-two elements of k long, by sixteen columns of B. A tile has two such blocks of
//! A and two of B, which make four of C, so that each block that is loaded is used twice.
//!
//! Reference: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
#![expect(unsafe_code, reason = "instructions that the compiler does not know, on raw operands")]

use std::{arch::asm, cell::Cell, mem::MaybeUninit};

use super::{
    element::Pair,
    lanes::{Body, Lanes},
    tile::{TileArgs, write_row},
};

/// Rows or columns of a register, and how many units of k it holds of each.
pub(super) const SIDE: usize = 16;
/// Rows of a tile at most.
pub(super) const ROWS: usize = 2 * SIDE;

/// Whether the CPU has AMX with bf16, and the system saves its registers, for which a process needs permission.
pub(super) fn is_available() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use std::arch::x86_64::__cpuid_count;
        const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: requests a permission from the system, and changes nothing else.
        let granted =
            || unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 };
        __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES && granted()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

/// The shapes of the eight registers, in the format of `ldtilecfg`.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Registers 0 to 3 are blocks of C, from left to right and from top to bottom; 4 and 5 of A; 6 and 7 of B.
    /// Blocks of C and A have `rows` rows, at most `SIDE`. Blocks of B have `SIDE`, one for each pair along k.
    fn new(rows: usize) -> Self {
        let (rows, side) = (rows as u8, SIDE as u8);
        Self {
            palette: 1,
            start: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [rows, rows, rows, rows, rows, rows, side, side, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

thread_local! {
    /// The rows that this thread's registers of A and C are configured to have, or 0 if they are released.
    static CONFIGURED_ROWS: Cell<usize> = const { Cell::new(0) };
}

/// Sets the registers' shapes, unless they are set to `rows` already: `ldtilecfg` clears the registers, and takes as long as a small
/// tile.
#[inline(always)]
fn configure(rows: usize) {
    if CONFIGURED_ROWS.replace(rows) != rows {
        // SAFETY: the shapes are valid; nothing else uses the registers.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &TileConfig::new(rows), options(readonly, nostack, preserves_flags))
        }
    }
}

/// Releases the registers: the system then need not save them at a context switch, nor the processor keep the unit powered.
pub(super) fn release() {
    if CONFIGURED_ROWS.replace(0) != 0 {
        // SAFETY: the registers hold nothing that is read later.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }
}

/// Sums of a tile.
type Sums = [[f32; 2 * SIDE]; ROWS];

/// Computes the tile of so many rows, in two blocks of equal height: if `rows` is odd, both compute the row in the middle.
///
/// The thread's registers are used, until [`release`].
///
/// # Safety
/// - As [`super::tile::Tile`]. The units of a row of A are adjacent, and a whole strip of B is readable; `depth` is a multiple of
///   [`SIDE`].
pub(super) unsafe fn tile<L: Lanes<Unit = Pair, Acc = f32>>(rows: usize, args: &TileArgs<L>) {
    let height = rows.div_ceil(2);
    configure(height);
    // SAFETY: the conditions above; the sums are written before they are read.
    unsafe {
        if args.cols == 2 * SIDE && args.alpha == 1.0 && args.beta == 0.0 {
            return multiply(args, rows - height, args.c, args.c_row as usize);
        }
        let mut sums = MaybeUninit::<Sums>::uninit();
        let sums = sums.as_mut_ptr().cast();
        multiply(args, rows - height, sums, 2 * SIDE);
        L::enter(Write { args, sums, rows });
    }
}

/// Writes the sums of two blocks of rows, the lower one beginning at row `low`, to rows of `to` that are `to_row` apart.
///
/// All of A is read again for each strip and should stay in L1. B is read once for each tile, and is loaded with the hint not to evict
/// other data from L1 (`tileloaddt1`).
///
/// # Safety
/// - As [`tile`], with the registers' height set, and both blocks of `to` writable.
#[inline(always)]
unsafe fn multiply<L: Lanes<Unit = Pair>>(args: &TileArgs<L>, low: usize, to: *mut f32, to_row: usize) {
    const UNIT: isize = size_of::<Pair>() as isize;
    // SAFETY: the conditions above; prefetched addresses need not be mapped.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "test {steps}, {steps}",
            "jz 3f",
            "2:",
            "tileloadd tmm4, [{a} + {a_row}]",
            "tileloaddt1 tmm6, [{b} + {b_row}]",
            "tileloaddt1 tmm7, [{b} + {b_row} + 64]",
            "tileloadd tmm5, [{low_a} + {a_row}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{prefetch}]",
            "prefetcht1 [{prefetch} + 64]",
            "prefetcht1 [{prefetch} + 128]",
            "prefetcht1 [{prefetch} + 192]",
            "add {a}, 64",
            "add {low_a}, 64",
            "add {b}, {b_step}",
            "add {prefetch}, 256",
            "dec {steps}",
            "jnz 2b",
            "3:",
            "tilestored [{to} + {to_row}], tmm0",
            "tilestored [{to} + {to_row} + 64], tmm1",
            "tilestored [{low_to} + {to_row}], tmm2",
            "tilestored [{low_to} + {to_row} + 64], tmm3",
            a = inout(reg) args.a.at => _,
            low_a = inout(reg) args.a.at.wrapping_offset(low as isize * args.a.row) => _,
            a_row = in(reg) args.a.row * UNIT,
            b = inout(reg) args.b => _,
            b_row = in(reg) args.b_depth * UNIT,
            b_step = in(reg) args.b_depth * UNIT * SIDE as isize,
            prefetch = inout(reg) args.prefetch => _,
            steps = inout(reg) args.depth / SIDE => _,
            to = in(reg) to,
            low_to = in(reg) to.wrapping_add(low * to_row),
            to_row = in(reg) to_row * size_of::<f32>(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// Scales the sums of a tile, and writes them to C.
struct Write<'a, L: Lanes> {
    args: &'a TileArgs<L>,
    sums: *const f32,
    rows: usize,
}

impl<L: Lanes<Acc = f32>> Body for Write<'_, L> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: as `tile`.
        unsafe {
            match (self.args.cols.div_ceil(SIDE), self.args.cols.is_multiple_of(SIDE)) {
                (1, true) => self.vectors::<1, true>(),
                (1, false) => self.vectors::<1, false>(),
                (_, true) => self.vectors::<2, true>(),
                (_, false) => self.vectors::<2, false>(),
            }
        }
    }
}

impl<L: Lanes<Acc = f32>> Write<'_, L> {
    /// # Safety
    /// - All rows of sums are readable, and of C writable, of which `V` vectors are of the tile.
    #[inline(always)]
    unsafe fn vectors<const V: usize, const FULL: bool>(&self) {
        for row in 0..self.rows {
            // SAFETY: the condition above.
            unsafe {
                let from = self.sums.add(row * 2 * SIDE);
                let mut sums = [L::load(from); V];
                for (v, sum) in sums.iter_mut().enumerate().skip(1) {
                    *sum = L::load(from.add(v * SIDE));
                }
                write_row::<L, V, FULL>(self.args, row, sums);
            }
        }
    }
}
