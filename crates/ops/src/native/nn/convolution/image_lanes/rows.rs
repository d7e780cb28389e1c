//! Tiles with an image in each lane, read from images of any strides and written to them.
#![expect(unsafe_code, reason = "raw operands")]

use super::super::unfold::Images;
use super::LANES;
use super::kernels::ImageElement;
use crate::gemm::Scratch;
use crate::loops::transposed::transpose;
use crate::native::strided_gather::gather;
use crate::scratch;
use crate::vectorized::{Convert, convert_slice};
use flambeau_core::Scalar;
use std::ops::Range;

/// Which row of a tile takes each element of an image. Where an image is dense, rows are in the order of memory, so that a strip of
/// images is a matrix that is transposed.
pub(super) struct ImageRows<T> {
    images: Images<T>,
    numel: usize,
    /// Rows from one channel, plane, row and pixel to the next.
    pub(super) steps: [usize; 4],
    /// Where the element of each row is in an image that is not dense; nothing otherwise.
    offsets: Vec<isize>,
}

impl<T> ImageRows<T> {
    pub(super) fn new(images: Images<T>, channels: usize, [depth, height, width]: [usize; 3]) -> Self {
        let [_, strides @ ..] = images.strides;
        let numel = channels * depth * height * width;
        if let Some(steps) = dense_steps([channels, depth, height, width], strides) {
            return ImageRows { images, numel, steps, offsets: Vec::new() };
        }
        let mut offsets = scratch::with_capacity(numel);
        for row in 0..numel {
            let (x, y) = (row % width, row / width % height);
            let (z, channel) = (row / (width * height) % depth, row / (width * height * depth));
            let index = [channel, z, y, x];
            let offset = index.into_iter().zip(strides).map(|(index, stride)| index as isize * stride).sum();
            scratch::push(&mut offsets, offset);
        }
        let steps = [depth * height * width, height * width, width, 1];
        ImageRows { images, numel, steps, offsets }
    }

    fn is_dense(&self) -> bool {
        self.offsets.is_empty()
    }
}

/// The strides of an image whose elements fill its memory, in any order of the dimensions; 0 for dimensions of size 1.
fn dense_steps(sizes: [usize; 4], strides: [isize; 4]) -> Option<[usize; 4]> {
    let (mut order, mut steps, mut next) = ([0, 1, 2, 3], [0; 4], 1);
    order.sort_by_key(|d| strides[*d]);
    for d in order.into_iter().filter(|d| sizes[*d] != 1) {
        if strides[d] != next as isize {
            return None;
        }
        steps[d] = next;
        next *= sizes[d];
    }
    Some(steps)
}

/// Memory for a strip of images.
///
/// - (inside) `lanes` has [`LANES`] elements for each row; `staging` as many of half precision that are converted, if images are dense.
pub(super) struct Tile<'r, T> {
    rows: &'r ImageRows<T>,
    lanes: Scratch,
    staging: Scratch,
}

impl<'r, T: ImageElement> Tile<'r, T> {
    pub(super) fn new(rows: &'r ImageRows<T>) -> Self {
        let numel = rows.numel * LANES;
        let staged = if T::IS_SUM || !rows.is_dense() { 0 } else { numel };
        Tile { rows, lanes: Scratch::new::<T::Sum>(numel), staging: Scratch::new::<T::Sum>(staged) }
    }

    /// The lanes of the first row.
    pub(super) fn lanes(&mut self) -> *mut T::Sum {
        self.lanes.as_mut_ptr()
    }

    /// Reads a strip of images. Lanes after the last image are zeros.
    ///
    /// # Safety
    /// - The images are readable. There are at most [`LANES`].
    pub(super) unsafe fn gather(&mut self, images: &Range<usize>) {
        let (rows, count, to) = (self.rows, images.len(), self.lanes());
        let (from, step) = (rows.images.channel(images.start, 0).cast_const(), rows.images.strides[0]);
        let (len, size) = (rows.numel, size_of::<T::Sum>());
        let (row, matrix) = (len as isize, [count, len]);
        // SAFETY: this function's condition and (inside).
        unsafe {
            if count < LANES {
                to.write_bytes(0, len * LANES);
            }
            if !rows.is_dense() {
                return self.gather_elements(from, count);
            }
            let (first, row_stride) = if T::IS_SUM {
                (from.cast(), step * size as isize)
            } else {
                let staging = self.staging.as_mut_ptr::<T::Sum>();
                convert_rows((from, step), (staging, row), matrix);
                (staging.cast_const().cast(), row * size as isize)
            };
            transpose(first, row_stride, matrix, size, to.cast(), LANES * size);
        }
    }

    /// [`gather`](Self::gather) from images that are not dense, the first of which is at `from`.
    ///
    /// # Safety
    /// - As `gather`.
    unsafe fn gather_elements(&mut self, from: *const T, count: usize) {
        let (step, to) = (self.rows.images.strides[0], self.lanes());
        let mut elements = [T::from_scalar(Scalar::Int(0)); LANES];
        for (row, offset) in self.rows.offsets.iter().enumerate() {
            // SAFETY: this function's condition and (inside).
            unsafe {
                gather(from.wrapping_offset(*offset), step, elements.as_mut_ptr(), count);
                convert_slice(elements.as_ptr(), to.add(row * LANES), count);
            }
        }
    }

    /// Writes a strip of images.
    ///
    /// # Safety
    /// - The images are writable. There are at most [`LANES`], and their lanes are initialized.
    pub(super) unsafe fn scatter(&mut self, images: &Range<usize>) {
        let (rows, count, from) = (self.rows, images.len(), self.lanes());
        let (to, step) = (rows.images.channel(images.start, 0), rows.images.strides[0]);
        let (len, size) = (rows.numel, size_of::<T::Sum>());
        let (row, pitch) = (len as isize, (LANES * size) as isize);
        // SAFETY: this function's condition and (inside).
        unsafe {
            if !rows.is_dense() {
                return self.scatter_elements(to, count);
            }
            if T::IS_SUM {
                let step = (step * size as isize) as usize;
                return transpose(from.cast_const().cast(), pitch, [len, count], size, to.cast(), step);
            }
            let staging = self.staging.as_mut_ptr::<T::Sum>();
            transpose(from.cast_const().cast(), pitch, [len, count], size, staging.cast(), len * size);
            convert_rows((staging.cast_const(), row), (to, step), [count, len]);
        }
    }

    /// [`scatter`](Self::scatter) to images that are not dense, the first of which is at `to`.
    ///
    /// # Safety
    /// - As `scatter`.
    unsafe fn scatter_elements(&mut self, to: *mut T, count: usize) {
        let (step, from) = (self.rows.images.strides[0], self.lanes());
        let mut elements = [T::from_scalar(Scalar::Int(0)); LANES];
        for (row, offset) in self.rows.offsets.iter().enumerate() {
            // SAFETY: this function's condition and (inside).
            unsafe {
                convert_slice(from.add(row * LANES).cast_const(), elements.as_mut_ptr(), count);
                for (image, element) in elements[..count].iter().enumerate() {
                    to.wrapping_offset(offset + image as isize * step).write(*element);
                }
            }
        }
    }
}

/// Converts rows of elements that are dense; each side has its first row and the step from one to the next.
///
/// # Safety
/// - The first are readable and the others writable, and they do not overlap.
unsafe fn convert_rows<From: Convert, To: Convert>(
    (from, from_step): (*const From, isize),
    (to, to_step): (*mut To, isize),
    [rows, len]: [usize; 2],
) {
    // SAFETY: this function's condition.
    unsafe {
        if [from_step, to_step] == [len as isize; 2] {
            return convert_slice(from, to, rows * len);
        }
        for row in 0..rows as isize {
            convert_slice(from.wrapping_offset(row * from_step), to.wrapping_offset(row * to_step), len);
        }
    }
}
