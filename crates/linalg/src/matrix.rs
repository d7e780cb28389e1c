//! Views of matrices, and the product that all block algorithms use.
//!
//! A view is made of a slice; its parts are views of disjoint elements. Indices are checked, except inside of the product.
#![expect(unsafe_code, reason = "blocks of a matrix share its slice, and products take raw memory")]

use crate::field::Field;
use flambeau_gemm::scratch;
use flambeau_gemm::{ComplexGemm, Gemm, Isa, complex_gemm, gemm};
use std::marker::PhantomData;

/// A matrix to read. `conjugated` means that each element stands for its conjugate.
///
/// - (inside) Every index below `sizes` addresses an element that is borrowed for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    first: *const T,
    sizes: [usize; 2],
    strides: [isize; 2],
    conjugated: bool,
    elements: PhantomData<&'a [T]>,
}

/// A matrix to write.
///
/// - (exclusive) Every index below `sizes` addresses an element of its own, which no other view that is alive addresses.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    first: *mut T,
    sizes: [usize; 2],
    strides: [isize; 2],
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: (exclusive): it is a mutable borrow of its elements.
unsafe impl<T: Send> Send for MatrixMut<'_, T> {}
// SAFETY: (inside): it is a shared borrow of its elements.
unsafe impl<T: Sync> Send for Matrix<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Matrix<'_, T> {}

/// How many elements a column-major matrix spans, which must be in the slice.
fn check_span(length: usize, [rows, columns]: [usize; 2], pitch: usize) {
    let span = if rows == 0 || columns == 0 { 0 } else { (columns - 1) * pitch + rows };
    assert!(
        pitch >= rows && span <= length,
        "a matrix of {rows} x {columns}, pitch {pitch}, in {length} elements"
    );
}

impl<'a, T: Field> Matrix<'a, T> {
    /// A column-major matrix whose columns begin every `pitch` elements.
    pub fn new(elements: &'a [T], rows: usize, columns: usize, pitch: usize) -> Self {
        check_span(elements.len(), [rows, columns], pitch);
        Self {
            first: elements.as_ptr(),
            sizes: [rows, columns],
            strides: [1, pitch as isize],
            conjugated: false,
            elements: PhantomData,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.sizes[0]
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.sizes[1]
    }

    /// Whether the elements of each column are adjacent, and not conjugated.
    pub(crate) fn is_column_major(&self) -> bool {
        (self.strides[0] == 1 || self.sizes[0] <= 1) && !self.conjugated
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        let ([m, n], [row, column]) = (self.sizes, self.strides);
        Self { sizes: [n, m], strides: [column, row], ..self }
    }

    /// The conjugate transpose.
    pub fn adjoint(self) -> Self {
        self.transposed().conjugated()
    }

    /// The conjugate.
    pub fn conjugated(self) -> Self {
        Self { conjugated: T::IS_COMPLEX && !self.conjugated, ..self }
    }

    /// With the order of rows and of columns reversed, so that an upper triangle becomes a lower one.
    pub fn reversed(self) -> Self {
        let [row, column] = self.strides;
        let last = |size: usize, stride: isize| (size.max(1) - 1) as isize * stride;
        let first = self.first.wrapping_offset(last(self.sizes[0], row) + last(self.sizes[1], column));
        Self { first, strides: [-row, -column], ..self }
    }

    /// The block of `sizes` that begins at a row and a column.
    pub fn block(self, row: usize, column: usize, sizes: [usize; 2]) -> Self {
        check_block(self.sizes, [row, column], sizes);
        Self { first: self.first.wrapping_offset(offset(self.strides, row, column)), sizes, ..self }
    }

    /// A column. Its elements must be adjacent, and not conjugated.
    pub fn column(&self, column: usize) -> &'a [T] {
        let [rows, columns] = self.sizes;
        assert!(
            column < columns && (self.strides[0] == 1 || rows <= 1) && !self.conjugated,
            "column {column} of {columns}, adjacent in memory"
        );
        // SAFETY: (inside).
        unsafe { std::slice::from_raw_parts(self.first.offset(column as isize * self.strides[1]), rows) }
    }

    /// Copies columns from `first` on to the lanes of rows: as many as there are, or as many as there are lanes.
    #[inline(always)]
    pub(crate) fn load_strip<const W: usize>(&self, first: usize, strip: &mut [[T; W]]) {
        let [rows, columns] = self.sizes;
        assert!(
            first < columns && strip.len() == rows && !self.conjugated,
            "rows of columns {first} of {columns}"
        );
        let (lanes, [row, column]) = (W.min(columns - first), self.strides);
        let from = self.first.wrapping_offset(first as isize * column);
        let is_dense = row == 1 && column == rows as isize;
        // SAFETY: (inside), for `lanes` columns from `first` on, which are all elements from there on where columns are dense.
        unsafe {
            match rows {
                2 if is_dense => load_dense::<T, 2, W>(from, lanes, strip),
                3 if is_dense => load_dense::<T, 3, W>(from, lanes, strip),
                4 if is_dense => load_dense::<T, 4, W>(from, lanes, strip),
                // A constant length needs no call.
                _ if column == 1 && lanes == W => {
                    for (i, to) in strip.iter_mut().enumerate() {
                        *to = from.offset(i as isize * row).cast::<[T; W]>().read();
                    }
                }
                _ if column == 1 => {
                    for (i, to) in strip.iter_mut().enumerate() {
                        from.offset(i as isize * row).copy_to_nonoverlapping(to.as_mut_ptr(), lanes);
                    }
                }
                _ => {
                    for (i, to) in strip.iter_mut().enumerate() {
                        let from = from.offset(i as isize * row);
                        for (lane, to) in to[..lanes].iter_mut().enumerate() {
                            *to = *from.offset(lane as isize * column);
                        }
                    }
                }
            }
        }
    }

    /// An element.
    pub fn at(&self, row: usize, column: usize) -> T {
        assert!(row < self.sizes[0] && column < self.sizes[1], "an element outside of a matrix");
        // SAFETY: (inside).
        let value = unsafe { *self.first.offset(offset(self.strides, row, column)) };
        if self.conjugated { value.conj() } else { value }
    }
}

/// Copies `lanes` columns of `N` adjacent elements to the lanes of rows. The number is constant, so that vectors are shuffled.
///
/// # Safety
/// - `lanes * N` elements are readable, `lanes` is at most `W`, and there are `N` rows.
#[inline(always)]
unsafe fn load_dense<T: Field, const N: usize, const W: usize>(
    from: *const T,
    lanes: usize,
    strip: &mut [[T; W]],
) {
    let to = strip.as_mut_ptr().cast::<T>();
    for lane in 0..lanes {
        for i in 0..N {
            // SAFETY: by this function's conditions.
            unsafe { to.add(i * W + lane).write(from.add(lane * N + i).read()) }
        }
    }
}

/// The inverse of [`load_dense`].
///
/// # Safety
/// - `lanes * N` elements are writable, `lanes` is at most `W`, and there are `N` rows.
#[inline(always)]
unsafe fn store_dense<T: Field, const N: usize, const W: usize>(to: *mut T, lanes: usize, strip: &[[T; W]]) {
    let from = strip.as_ptr().cast::<T>();
    for lane in 0..lanes {
        for i in 0..N {
            // SAFETY: by this function's conditions.
            unsafe { to.add(lane * N + i).write(from.add(i * W + lane).read()) }
        }
    }
}

fn offset([row, column]: [isize; 2], i: usize, j: usize) -> isize {
    i as isize * row + j as isize * column
}

fn check_block(of: [usize; 2], at: [usize; 2], sizes: [usize; 2]) {
    let inside = |d: usize| at[d] <= of[d] && sizes[d] <= of[d] - at[d];
    assert!(inside(0) && inside(1), "a block of {sizes:?} at {at:?} of a matrix of {of:?}");
}

impl<'a, T: Field> MatrixMut<'a, T> {
    /// A column-major matrix whose columns begin every `pitch` elements.
    pub fn new(elements: &'a mut [T], rows: usize, columns: usize, pitch: usize) -> Self {
        check_span(elements.len(), [rows, columns], pitch);
        Self {
            first: elements.as_mut_ptr(),
            sizes: [rows, columns],
            strides: [1, pitch as isize],
            elements: PhantomData,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.sizes[0]
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.sizes[1]
    }

    /// Whether the elements of each column are adjacent.
    pub(crate) fn is_column_major(&self) -> bool {
        self.strides[0] == 1 || self.sizes[0] <= 1
    }

    /// The same matrix for a shorter time.
    pub fn reborrow(&mut self) -> MatrixMut<'_, T> {
        MatrixMut { first: self.first, sizes: self.sizes, strides: self.strides, elements: PhantomData }
    }

    /// The same matrix to read.
    pub fn view(&self) -> Matrix<'_, T> {
        Matrix {
            first: self.first,
            sizes: self.sizes,
            strides: self.strides,
            conjugated: false,
            elements: PhantomData,
        }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        let ([m, n], [row, column]) = (self.sizes, self.strides);
        Self { sizes: [n, m], strides: [column, row], ..self }
    }

    /// With the order of rows reversed.
    pub fn rows_reversed(self) -> Self {
        let [row, column] = self.strides;
        let first = self.first.wrapping_offset((self.sizes[0].max(1) - 1) as isize * row);
        Self { first, strides: [-row, column], ..self }
    }

    /// The block of `sizes` that begins at a row and a column.
    pub fn block(self, row: usize, column: usize, sizes: [usize; 2]) -> Self {
        check_block(self.sizes, [row, column], sizes);
        Self { first: self.first.wrapping_offset(offset(self.strides, row, column)), sizes, ..self }
    }

    /// The columns before `at`, and those from there on.
    pub fn split_columns(self, at: usize) -> (Self, Self) {
        let [rows, columns] = self.sizes;
        let part = |from: usize, count: usize| {
            check_block(self.sizes, [0, from], [rows, count]);
            let first = self.first.wrapping_offset(offset(self.strides, 0, from));
            Self { first, sizes: [rows, count], strides: self.strides, elements: PhantomData }
        };
        assert!(at <= columns, "a split at {at} of {columns} columns");
        (part(0, at), part(at, columns - at))
    }

    /// The rows before `at`, and those from there on.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        let (above, below) = self.transposed().split_columns(at);
        (above.transposed(), below.transposed())
    }

    /// Panels of so many rows, the last with those that are left: at least one, even if it has no row.
    pub(crate) fn panels(self, rows: usize) -> Vec<Self> {
        let mut panels = scratch::with_capacity(self.rows().div_ceil(rows));
        let mut rest = self;
        while rest.rows() > rows {
            let (panel, below) = rest.split_rows(rows);
            panels.push(panel);
            rest = below;
        }
        panels.push(rest);
        panels
    }

    /// A copy of its elements, column after column.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        let mut elements = scratch::with_capacity(self.rows() * self.columns());
        let view = self.view();
        (0..self.columns()).for_each(|j| elements.extend_from_slice(view.column(j)));
        elements
    }

    /// An element.
    pub fn at(&self, row: usize, column: usize) -> T {
        self.view().at(row, column)
    }

    /// Writes an element.
    pub fn set(&mut self, row: usize, column: usize, value: T) {
        assert!(row < self.sizes[0] && column < self.sizes[1], "an element outside of a matrix");
        // SAFETY: (exclusive).
        unsafe { *self.first.offset(offset(self.strides, row, column)) = value }
    }

    /// Copies the lanes of rows back to columns: the inverse of [`Matrix::load_strip`].
    #[inline(always)]
    pub(crate) fn store_strip<const W: usize>(&mut self, first: usize, strip: &[[T; W]]) {
        let [rows, columns] = self.sizes;
        assert!(first < columns && strip.len() == rows, "rows of columns {first} of {columns}");
        let (lanes, [row, column]) = (W.min(columns - first), self.strides);
        let to = self.first.wrapping_offset(first as isize * column);
        let is_dense = row == 1 && column == rows as isize;
        // SAFETY: (exclusive), for `lanes` columns from `first` on, which are all elements from there on where columns are dense.
        unsafe {
            match rows {
                2 if is_dense => store_dense::<T, 2, W>(to, lanes, strip),
                3 if is_dense => store_dense::<T, 3, W>(to, lanes, strip),
                4 if is_dense => store_dense::<T, 4, W>(to, lanes, strip),
                _ if column == 1 && lanes == W => {
                    for (i, from) in strip.iter().enumerate() {
                        to.offset(i as isize * row).cast::<[T; W]>().write(*from);
                    }
                }
                _ if column == 1 => {
                    for (i, from) in strip.iter().enumerate() {
                        from.as_ptr().copy_to_nonoverlapping(to.offset(i as isize * row), lanes);
                    }
                }
                _ => {
                    for (i, from) in strip.iter().enumerate() {
                        let to = to.offset(i as isize * row);
                        for (lane, from) in from[..lanes].iter().enumerate() {
                            *to.offset(lane as isize * column) = *from;
                        }
                    }
                }
            }
        }
    }

    /// A column. Its elements must be adjacent.
    pub fn column(&mut self, column: usize) -> &mut [T] {
        self.column_pair(column, None).0
    }

    /// Two different columns. Their elements must be adjacent.
    pub fn two_columns(&mut self, a: usize, b: usize) -> (&mut [T], &mut [T]) {
        self.column_pair(a, Some(b))
    }

    fn column_pair(&mut self, a: usize, b: Option<usize>) -> (&mut [T], &mut [T]) {
        let [rows, columns] = self.sizes;
        let fits = a < columns && b.is_none_or(|b| b < columns && b != a);
        assert!(fits && self.is_column_major(), "columns {a} and {b:?} of {columns}, adjacent in memory");
        let slice = |column: usize| {
            // SAFETY: (exclusive), and the columns are different.
            unsafe {
                let first = self.first.offset(column as isize * self.strides[1]);
                std::slice::from_raw_parts_mut(first, rows)
            }
        };
        (slice(a), b.map_or(&mut [], slice))
    }

    /// Exchanges two rows.
    pub fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.sizes[1]).for_each(|column| self.swap_in_column(column, a, b));
    }

    /// Exchanges two elements of a column.
    pub(crate) fn swap_in_column(&mut self, column: usize, a: usize, b: usize) {
        if a != b {
            let (x, y) = (self.at(a, column), self.at(b, column));
            self.set(a, column, y);
            self.set(b, column, x);
        }
    }

    /// Sets all elements to one value.
    pub fn fill(&mut self, value: T) {
        if self.is_column_major() {
            return (0..self.sizes[1]).for_each(|column| self.column(column).fill(value));
        }
        for column in 0..self.sizes[1] {
            for row in 0..self.sizes[0] {
                self.set(row, column, value);
            }
        }
    }

    /// Copies a matrix of the same sizes.
    pub fn copy_from(&mut self, from: &Matrix<'_, T>) {
        assert!(self.sizes == from.sizes, "a copy of {:?} to {:?}", from.sizes, self.sizes);
        if self.is_column_major() && from.strides[0] == 1 && !from.conjugated {
            return (0..self.sizes[1])
                .for_each(|column| self.column(column).copy_from_slice(from.column(column)));
        }
        for column in 0..self.sizes[1] {
            for row in 0..self.sizes[0] {
                self.set(row, column, from.at(row, column));
            }
        }
    }

    /// `self = alpha * a b + beta * self`. Unwinds with `OutOfMemory` if there is no memory for packing.
    ///
    /// Products of complex numbers are those of `flambeau_gemm::complex_gemm`.
    pub fn multiply_add(&mut self, alpha: T::Real, a: &Matrix<'_, T>, b: &Matrix<'_, T>, beta: T::Real) {
        let ([m, n], k) = (self.sizes, a.sizes[1]);
        assert!(
            a.sizes[0] == m && b.sizes == [k, n],
            "a product of {:?} and {:?} into {m} x {n}",
            a.sizes,
            b.sizes
        );
        let product = Gemm {
            m,
            n,
            k,
            a: a.first.cast::<T::Real>(),
            a_strides: a.strides,
            b: b.first.cast::<T::Real>(),
            b_strides: b.strides,
            c: self.first.cast::<T::Real>(),
            c_strides: self.strides,
            alpha,
            beta,
            addend: None,
        };
        // SAFETY: the instruction set was detected. (inside) for A and B; (exclusive) for C, so that it overlaps neither. An element
        // is its parts, as `Field` promises.
        unsafe {
            if T::IS_COMPLEX {
                let conjugate = [a.conjugated, b.conjugated];
                complex_gemm(Isa::detected(), &ComplexGemm { product, conjugate });
            } else {
                gemm(Isa::detected(), &product);
            }
        }
    }
}
