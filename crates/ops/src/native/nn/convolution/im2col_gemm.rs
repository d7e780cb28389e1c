//! Convolutions as matrix products: the weights times columns, which are laid out a tile at a time (im2col).
#![expect(unsafe_code, reason = "raw operands")]

use super::params::Conv;
use super::unfold::{Images, unfold};
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, SendPtr, gemm};
use crate::parallel::{num_threads, parallel_for};
use flambeau_core::Element;
use std::ops::Range;

/// Elements of columns in one tile: they fit L2.
const TILE: usize = 1 << 17;
/// Columns from which on the microkernel of the product is well used.
const WIDE: usize = 96;
/// From so many tiles per thread on, each thread computes whole tiles; below, threads share the work of each tile.
const TILES_A_THREAD: usize = 2;
/// The grain size, in multiply-adds.
pub(super) const WORTH_A_THREAD: usize = 1 << 18;

/// How output pixels are split into tiles, by sizes alone.
pub(super) struct Tiles {
    images: usize,
    /// Images in one tile: more than one only where a tile holds whole images.
    together: usize,
    pixels: usize,
    /// Pixels of one image in one tile.
    width: usize,
}

impl Tiles {
    pub(super) fn new(conv: &Conv) -> Self {
        let pixels = conv.pixels();
        let most = (TILE / conv.depth().max(1)).max(WIDE);
        let count = pixels.div_ceil(most).max(1);
        let width = pixels.div_ceil(count).next_multiple_of(32).min(pixels);
        Self { images: conv.images, together: 1, pixels, width }
    }

    /// Small images share a tile.
    pub(super) fn sharing(self) -> Self {
        let together = (2 * WIDE / self.pixels.max(1)).clamp(1, self.images.max(1));
        Self { together: if self.width == self.pixels { together } else { 1 }, ..self }
    }

    fn whole(conv: &Conv) -> Self {
        Self { images: conv.images, together: 1, pixels: conv.pixels(), width: conv.pixels() }
    }

    pub(super) fn per_image(&self) -> usize {
        self.pixels.div_ceil(self.width.max(1))
    }

    /// How many tiles, or parts of tiles, share the pixels of different images.
    pub(super) fn sharings(&self) -> usize {
        self.images.div_ceil(self.together)
    }

    pub(super) fn count(&self) -> usize {
        self.sharings() * self.per_image()
    }

    /// The images of a sharing.
    pub(super) fn images(&self, sharing: usize) -> Range<usize> {
        let first = sharing * self.together;
        first..(first + self.together).min(self.images)
    }

    /// The pixels that tile `number` of an image covers.
    pub(super) fn pixels(&self, number: usize) -> Range<usize> {
        let pixel = number * self.width;
        pixel..(pixel + self.width).min(self.pixels)
    }

    /// The images and the pixels of each that a tile covers.
    pub(super) fn get(&self, tile: usize) -> (Range<usize>, Range<usize>) {
        (self.images(tile / self.per_image()), self.pixels(tile % self.per_image()))
    }

    /// Columns of a tile.
    pub(super) fn columns(&self) -> usize {
        self.together * self.width
    }
}

/// The distance between rows of columns: an odd number of cache lines, so that rows do not map to the same cache sets.
pub(super) fn pitch(columns: usize) -> usize {
    (columns.div_ceil(16) | 1) * 16
}

/// The output of a convolution, `bias + weights * columns`.
///
/// # Safety
/// - `x`, `w` (contiguous) and `bias` are readable as `conv` says, `y` writable, and no other thread writes them during the call.
/// - `y` has a constant pixel stride.
pub(super) unsafe fn forward<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) {
    let direct = conv.is_pointwise() && x.has_constant_pixel_stride(conv.input);
    let tiles = if direct { Tiles::whole(conv) } else { Tiles::new(conv).sharing() };
    let work = conv.filters * conv.depth() * tiles.columns();
    let run = |items: Range<usize>| {
        for item in items {
            let (images, pixels) = tiles.get(item / conv.groups);
            let tile = Tile { conv, x, w, bias, y, group: item % conv.groups, images, pixels };
            // SAFETY: the caller's conditions; tiles write different elements.
            unsafe { if direct { tile.run_direct() } else { tile.run() } }
        }
    };
    each_item(tiles.count() * conv.groups, work, run);
}

/// Calls `run` for all items, of `work` multiply-adds each. With few items some threads would idle during the last ones: all threads share
/// each then.
pub(super) fn each_item(items: usize, work: usize, run: impl Fn(Range<usize>) + Sync) {
    if items < TILES_A_THREAD * num_threads() && work >= 2 * WORTH_A_THREAD {
        return run(0..items);
    }
    parallel_for(0..items, (WORTH_A_THREAD / work.max(1)).max(1), run);
}

struct Tile<'a, T> {
    conv: &'a Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
    group: usize,
    images: Range<usize>,
    pixels: Range<usize>,
}

impl<T: GemmElement + Element> Tile<'_, T> {
    fn source(&self, image: usize) -> *const T {
        self.x.channel(image, self.group * self.conv.channels)
    }

    fn target(&self, image: usize) -> (*mut T, [isize; 2]) {
        let ptr = self.y.pixel(image, self.group * self.conv.filters, self.pixels.start);
        (ptr, [self.y.strides[1], self.y.strides[4]])
    }

    /// Of a pointwise convolution, whose input is the matrix of columns.
    unsafe fn run_direct(&self) {
        for image in self.images.clone() {
            let (c, strides) = self.target(image);
            // SAFETY: the caller's conditions.
            unsafe {
                self.multiply(
                    self.source(image),
                    [self.x.strides[1], self.x.strides[4]],
                    c,
                    strides,
                    self.pixels.len(),
                );
            }
        }
    }

    unsafe fn run(&self) {
        let (conv, width) = (self.conv, self.pixels.len());
        let pitch = pitch(self.images.len() * width);
        let mut columns = Scratch::new::<T>(conv.depth() * pitch);
        let columns = columns.as_mut_ptr::<T>();
        // SAFETY: the caller's conditions, and the buffers' lengths.
        unsafe {
            for (i, image) in self.images.clone().enumerate() {
                let to = columns.add(i * width);
                unfold(conv, self.source(image), self.x.strides, self.pixels.clone(), to, pitch);
            }
            let strides = [pitch as isize, 1];
            if self.images.len() == 1 {
                let (c, to) = self.target(self.images.start);
                return self.multiply(columns, strides, c, to, width);
            }
            let mut result = Scratch::new::<T>(conv.filters * pitch);
            let result = result.as_mut_ptr::<T>();
            self.multiply(columns, strides, result, strides, self.images.len() * width);
            for (i, image) in self.images.clone().enumerate() {
                let (to, [channel, pixel]) = self.target(image);
                for f in 0..conv.filters {
                    let (from, to) = (result.add(f * pitch + i * width), to.offset(f as isize * channel));
                    (0..width).for_each(|p| *to.offset(p as isize * pixel) = *from.add(p));
                }
            }
        }
    }

    unsafe fn multiply(
        &self,
        b: *const T,
        b_strides: [isize; 2],
        c: *mut T,
        c_strides: [isize; 2],
        n: usize,
    ) {
        let (m, k) = (self.conv.filters, self.conv.depth());
        let first = self.group * m;
        // SAFETY: the caller's conditions.
        unsafe {
            if let Some((bias, step)) = self.bias {
                for f in 0..m {
                    let value = *bias.at().offset((first + f) as isize * step);
                    let row = c.offset(f as isize * c_strides[0]);
                    (0..n).for_each(|p| *row.offset(p as isize * c_strides[1]) = value);
                }
            }
            let plain = Gemm::contiguous(m, n, k, self.w.at().add(first * k), b, c);
            let beta = if self.bias.is_some() { plain.alpha } else { plain.beta };
            gemm(Isa::detected(), &Gemm { b_strides, c_strides, beta, ..plain });
        }
    }
}
