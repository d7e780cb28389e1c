//! Copies in which what is dense on one side is not on the other: cut into squares that stay in cache.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use crate::parallel::parallel_for;
use crate::tensor_iterator::{GRAIN, TensorIterator};

/// The side of a square: a row of it fills one or two cache lines on both sides.
const SIDE: usize = 16;

/// Two dimensions of a copy between elements of one size: `to` is dense along the first, `from` along the second.
struct Squares {
    to: *mut u8,
    from: *const u8,
    /// Sizes of the first and second dimension.
    n: usize,
    m: usize,
    /// Strides in bytes of `to` along the second dimension and of `from` along the first.
    to_step: i64,
    from_step: i64,
    /// The other dimensions: sizes and strides in bytes of `to` and `from`.
    outer: Vec<(usize, i64, i64)>,
}

// SAFETY: the addresses are read only by `copy_transposed`'s threads, each of which writes its own squares, under the guards
// of the caller.
unsafe impl Sync for Squares {}

impl Squares {
    /// The copy of `iter` as squares, where it is one.
    fn of(iter: &TensorIterator<'_>, data: &[*mut u8], size: usize) -> Option<Self> {
        let (shape, operands) = (iter.shape(), iter.operands());
        let (to, from) = (operands.first()?.strides(), operands.get(1)?.strides());
        let dense = size as i64;
        if shape.len() < 2 || to[0] != dense || from[0] == dense || iter.numel() < (SIDE * SIDE * 4) as i64 {
            return None;
        }
        let second = (1..shape.len()).find(|d| from[*d] == dense && shape[*d] >= SIDE as i64 / 2)?;
        let outer = (1..shape.len()).filter(|d| *d != second).map(|d| (shape[d] as usize, to[d], from[d]));
        Some(Squares {
            to: data[0],
            from: data[1],
            n: shape[0] as usize,
            m: shape[second] as usize,
            to_step: to[second],
            from_step: from[0],
            outer: outer.collect(),
        })
    }

    /// The addresses of matrix number `number` of the other dimensions.
    fn matrix(&self, mut number: usize) -> (*mut u8, *const u8) {
        let (mut to, mut from) = (0, 0);
        for (size, to_step, from_step) in &self.outer {
            let index = (number % size) as i64;
            number /= size;
            to += index * to_step;
            from += index * from_step;
        }
        (self.to.wrapping_offset(to as isize), self.from.wrapping_offset(from as isize))
    }

    /// Copies band number `number`: `SIDE` rows of `to`, all along the first dimension.
    ///
    /// # Safety
    /// - (inside) Both sides are valid for elements of `T` at these sizes and strides, and do not overlap.
    unsafe fn band<T: Copy + Default>(&self, number: usize) {
        let bands = self.m.div_ceil(SIDE);
        let (to, from) = self.matrix(number / bands);
        let row = number % bands * SIDE;
        let rows = SIDE.min(self.m - row);
        let to = to.wrapping_offset((row as i64 * self.to_step) as isize);
        let from = from.wrapping_add(row * size_of::<T>());
        for column in (0..self.n).step_by(SIDE) {
            let columns = SIDE.min(self.n - column);
            let to = to.wrapping_add(column * size_of::<T>());
            let from = from.wrapping_offset((column as i64 * self.from_step) as isize);
            // SAFETY: (inside): the square starts inside both sides and is cut where they end.
            unsafe { self.square::<T>(to.cast(), from.cast(), rows, columns) }
        }
    }

    /// Copies one square through a buffer, so that each line of memory is met just once, however rows fall into the cache.
    ///
    /// # Safety
    /// - (inside) `from` is valid for `columns` rows of `rows` elements, `to` for `rows` rows of `columns`.
    #[inline(always)]
    unsafe fn square<T: Copy + Default>(&self, to: *mut T, from: *const T, rows: usize, columns: usize) {
        let mut buffer = [[T::default(); SIDE]; SIDE];
        let source =
            |i: usize| from.cast::<u8>().wrapping_offset((i as i64 * self.from_step) as isize).cast::<T>();
        let target =
            |j: usize| to.cast::<u8>().wrapping_offset((j as i64 * self.to_step) as isize).cast::<T>();
        // SAFETY: (inside), and the buffer has room for every square.
        unsafe {
            for (i, line) in buffer.iter_mut().enumerate().take(columns) {
                std::ptr::copy_nonoverlapping(
                    source(i).cast::<u8>(),
                    line.as_mut_ptr().cast(),
                    rows * size_of::<T>(),
                );
            }
            let turned: [[T; SIDE]; SIDE] = std::array::from_fn(|j| std::array::from_fn(|i| buffer[i][j]));
            for (j, line) in turned.iter().enumerate().take(rows) {
                std::ptr::copy_nonoverlapping(
                    line.as_ptr().cast::<u8>(),
                    target(j).cast(),
                    columns * size_of::<T>(),
                );
            }
        }
    }

    fn run<T: Copy + Default>(&self) {
        let matrices: usize = self.outer.iter().map(|(size, _, _)| size).product();
        let grain = (GRAIN / (SIDE * self.n).max(1)).max(1);
        parallel_for(0..matrices * self.m.div_ceil(SIDE), grain, |bands| {
            // SAFETY: (inside): the strides are those of the iterator's operands, which are equal views or apart; equal ones
            // have equal strides, and so are no squares.
            bands.for_each(|number| unsafe { self.band::<T>(number) });
        });
    }
}

/// Copies squares where the iterator's copy consists of them; whether it did.
pub(super) fn copy_transposed(iter: &TensorIterator<'_>, data: &[*mut u8], size: usize) -> bool {
    let Some(squares) = Squares::of(iter, data, size) else { return false };
    match size {
        1 => squares.run::<u8>(),
        2 => squares.run::<u16>(),
        4 => squares.run::<u32>(),
        _ => squares.run::<u64>(),
    }
    true
}
