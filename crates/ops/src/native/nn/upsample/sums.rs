//! Weighted sums along the dimensions of images of any strides, of which each result may read any number of elements: resizing and its
//! transpose. Of small images one is in each lane, since a loop over the rows of each would take longer to start than to run.
#![expect(unsafe_code, reason = "transposes images to lanes")]

use crate::loops::transposed::transpose;
use crate::loops::{Convert, RowOffsets, converter};
use crate::native::element_bits::Numeric;
use crate::native::guarded_slices::{fill, with_slices};
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, scratch};
use bytemuck::Pod;
use flambeau_core::{Result, Scalar, ScalarType};
use smallvec::SmallVec;

/// Images that are computed at a time: four cache lines of f32.
const LANES: usize = 64;
/// The largest number of pixels of an image before, after or between the passes over its dimensions of which all lanes are gathered.
const MAX_PIXELS: usize = 512;

/// What each index of a dimension of the result reads, and the weights.
pub(super) struct Sums<N> {
    from: usize,
    /// Where the reads of each index begin, and where the last ones end.
    starts: Vec<usize>,
    reads: Vec<(usize, N)>,
    /// Whether elements are added to zeros, which makes of -0 a 0.
    to_zeros: bool,
}

impl<N: Numeric> Sums<N> {
    /// Of a dimension of `from` elements: `each` reads of each index of the result.
    pub(super) fn new(from: usize, table: &[(usize, f64)], each: usize) -> Self {
        let starts = scratch::collect((0..=table.len() / each).map(|index| index * each));
        let reads = table.iter().map(|(at, weight)| (*at, N::of(Scalar::Float(*weight))));
        Sums { from, starts, reads: scratch::collect(reads), to_zeros: false }
    }

    /// The transpose of [`Sums::new`].
    pub(super) fn transposed(from: usize, table: &[(usize, f64)], each: usize) -> Self {
        let mut starts = scratch::filled(0, from + 1);
        table.iter().for_each(|(at, _)| starts[at + 1] += 1);
        (0..from).for_each(|at| starts[at + 1] += starts[at]);
        let (mut next, zero) = (scratch::to_vec(&starts), N::of(Scalar::Float(0.0)));
        let mut reads = scratch::filled((0, zero), table.len());
        for (i, (at, weight)) in table.iter().enumerate() {
            reads[next[*at]] = (i / each, N::of(Scalar::Float(*weight)));
            next[*at] += 1;
        }
        Sums { from: table.len() / each, starts, reads, to_zeros: true }
    }

    /// Indices of the result.
    fn to(&self) -> usize {
        self.starts.len() - 1
    }

    /// The sums of runs of `inner` elements.
    #[inline(always)]
    fn run(&self, x: &[N], y: &mut [N], inner: usize) {
        let images = x.chunks_exact(self.from * inner).zip(y.chunks_exact_mut(self.to() * inner));
        for (x, y) in images {
            for (run, bounds) in y.chunks_exact_mut(inner).zip(self.starts.windows(2)) {
                sum(&self.reads[bounds[0]..bounds[1]], x, run, self.to_zeros);
            }
        }
    }
}

/// The weighted sum of the runs of as many elements as `to` has.
#[inline(always)]
fn sum<N: Numeric>(reads: &[(usize, N)], x: &[N], to: &mut [N], to_zeros: bool) {
    let (n, zero) = (to.len(), N::of(Scalar::Float(0.0)));
    let Some(((first, weight), rest)) = reads.split_first() else {
        return to.fill(zero);
    };
    let from = &x[first * n..][..n];
    for i in 0..n {
        to[i] = from[i].times(*weight);
    }
    if to_zeros {
        for to in to.iter_mut() {
            *to = zero.plus(*to);
        }
    }
    for (at, weight) in rest {
        let from = &x[at * n..][..n];
        for i in 0..n {
            to[i] = to[i].plus(from[i].times(*weight));
        }
    }
}

/// The passes over the dimensions of images, in their order.
pub(super) struct Passes<N> {
    /// The runs of elements that an index selects, in elements, and the sums.
    passes: SmallVec<[(usize, Sums<N>); 3]>,
    pixels: [usize; 2],
    /// The largest number of pixels before or after a pass.
    most: usize,
}

impl<N: Numeric> Passes<N> {
    /// Over the dimensions of images of these sizes, the last one first if `reversed`.
    pub(super) fn new(sizes: &[i64], sums: SmallVec<[Sums<N>; 3]>, reversed: bool) -> Self {
        let mut sizes: SmallVec<[usize; 3]> = sizes.iter().map(|size| *size as usize).collect();
        let before: usize = sizes.iter().product();
        let (mut passes, mut most) = (SmallVec::new(), before);
        let mut sums: SmallVec<[(usize, Sums<N>); 3]> = sums.into_iter().enumerate().collect();
        if reversed {
            sums.reverse();
        }
        for (d, sums) in sums {
            sizes[d] = sums.to();
            passes.push((sizes[d + 1..].iter().product(), sums));
            most = most.max(sizes.iter().product());
        }
        Passes { passes, pixels: [before, sizes.iter().product()], most }
    }

    /// Whether lanes suit these images.
    pub(super) fn suit_lanes(&self) -> bool {
        self.most <= MAX_PIXELS
    }

    /// All passes over elements that follow one another; the images are those of `lanes` adjacent elements.
    #[inline(always)]
    fn apply(&self, x: &mut [N], y: &mut [N], lanes: usize) -> bool {
        let mut is_in_y = false;
        let mut pixels = self.pixels[0];
        for (inner, sums) in &self.passes {
            let made = pixels / sums.from * sums.to();
            let (from, to) = if is_in_y { (&*y, &mut *x) } else { (&*x, &mut *y) };
            sums.run(&from[..pixels * lanes], &mut to[..made * lanes], inner * lanes);
            (is_in_y, pixels) = (!is_in_y, made);
        }
        is_in_y
    }
}

/// Images in memory, in bytes: the offsets of the pixels of one, and the dimensions of images.
struct Images {
    pixels: Vec<isize>,
    dims: SmallVec<[(usize, isize); 4]>,
}

impl Images {
    /// The last `dims` dimensions of a tensor are those of an image.
    fn new(x: &Tensor, dims: usize) -> Self {
        let size = x.dtype().size() as isize;
        let all: SmallVec<[(usize, isize); 5]> = x
            .sizes()
            .iter()
            .zip(x.strides())
            .map(|(n, stride)| (*n as usize, *stride as isize * size))
            .collect();
        let (outer, inner) = all.split_at(all.len() - dims);
        let mut pixels = vec![0];
        for (n, stride) in inner {
            pixels = scratch::collect(
                pixels.iter().flat_map(|at: &isize| (0..*n as isize).map(move |i| at + i * stride)),
            );
        }
        Images { pixels, dims: outer.iter().copied().collect() }
    }

    /// The offsets of `to.len()` images from number `first` on.
    fn offsets(&self, first: usize, to: &mut [isize]) {
        let (mut index, mut rest, mut at): (SmallVec<[usize; 4]>, _, _) = (SmallVec::new(), first, 0);
        for (n, stride) in self.dims.iter().rev() {
            index.push(rest % n);
            at += (rest % n) as isize * stride;
            rest /= n;
        }
        for to in to {
            *to = at;
            for (index, (n, stride)) in index.iter_mut().zip(self.dims.iter().rev()) {
                *index += 1;
                at += stride;
                if *index < *n {
                    break;
                }
                at -= *n as isize * stride;
                *index = 0;
            }
        }
    }
}

/// Applies the passes to small images of `x`, of any strides, and writes to `out`, which is contiguous and of the same type.
///
/// # Errors
/// Those of the guards and of conversions.
pub(super) fn in_lanes<N: Pod + Numeric>(
    name: &str,
    [x, out]: [&Tensor; 2],
    passes: &Passes<N>,
    (dims, computed): (usize, ScalarType),
) -> Result<()> {
    let dtype = x.dtype();
    if dtype == computed {
        return strips::<N, N>(name, [x, out], passes, dims, None);
    }
    let convert = [converter(dtype, computed)?, converter(computed, dtype)?];
    strips::<u16, N>(name, [x, out], passes, dims, Some(convert))
}

/// [`in_lanes`] of elements of the size of `B`.
fn strips<B: Pod + Send + Sync, N: Pod + Numeric>(
    name: &str,
    [x, out]: [&Tensor; 2],
    passes: &Passes<N>,
    dims: usize,
    convert: Option<[Convert; 2]>,
) -> Result<()> {
    let ([read, written], size) = (passes.pixels, size_of::<B>());
    with_slices(name, &[x], &[out], |s| {
        let (from, to) = (s.read::<B>(0)?, s.write::<B>(0)?);
        scratch::catch(|| {
            let images = Images::new(x, dims);
            fill(to, written, |range, part| {
                let zero = N::of(Scalar::Float(0.0));
                let [mut tile, mut other] = [(); 2].map(|()| scratch::filled(zero, passes.most * LANES));
                let staged = if convert.is_some() { passes.most * LANES } else { 0 };
                let mut stage = scratch::filled(B::zeroed(), staged);
                let first = range.start / written;
                for (to, start) in part.chunks_mut(written * LANES).zip((first..).step_by(LANES)) {
                    let mut rows = [0; LANES];
                    let rows = &mut rows[..to.len() / written];
                    images.offsets(start, rows);
                    let offsets = RowOffsets { rows, elements: &images.pixels, size };
                    // SAFETY: images of `x`, and as many lanes of the tiles, whose types are those of the conversions.
                    unsafe {
                        match convert {
                            Some([widen, _]) => {
                                offsets.gather(from.as_ptr().cast(), stage.as_mut_ptr().cast());
                                widen(stage.as_ptr().cast(), tile.as_mut_ptr().cast(), read * LANES);
                            }
                            None => offsets.gather(from.as_ptr().cast(), tile.as_mut_ptr().cast()),
                        }
                    }
                    let is_in_other = with_processor_vectors(
                        #[inline(always)]
                        || passes.apply(&mut tile, &mut other, LANES),
                    );
                    let mut made: *const u8 = if is_in_other { &other } else { &tile }.as_ptr().cast();
                    // SAFETY: the tile has the results of as many images as `to`.
                    unsafe {
                        if let Some([_, narrow]) = convert {
                            narrow(made, stage.as_mut_ptr().cast(), written * LANES);
                            made = stage.as_ptr().cast();
                        }
                        let (pitch, shape) = ((LANES * size) as isize, [written, rows.len()]);
                        transpose(made, pitch, shape, size, to.as_mut_ptr().cast(), written * size);
                    }
                }
            });
            Ok(())
        })
    })
}

/// Applies the passes to `x`, which is contiguous and of type `N`, and writes to `out`, likewise.
///
/// # Errors
/// Those of the guards.
pub(super) fn by_dimension<N: Pod + Numeric>(
    name: &str,
    [x, out]: [&Tensor; 2],
    passes: &Passes<N>,
) -> Result<()> {
    with_slices(name, &[x], &[out], |s| {
        let (from, to) = (s.read::<N>(0)?, s.write::<N>(0)?);
        scratch::catch(|| {
            let mut between: Option<Vec<N>> = None;
            let last = passes.passes.len() - 1;
            for (inner, sums) in &passes.passes[..last] {
                let x = between.as_deref().unwrap_or(from);
                let numel = x.len() / sums.from * sums.to();
                let mut made = scratch::filled(N::of(Scalar::Float(0.0)), numel);
                pass(sums, x, &mut made, *inner);
                between = Some(made);
            }
            let (inner, sums) = &passes.passes[last];
            pass(sums, between.as_deref().unwrap_or(from), to, *inner);
            Ok(())
        })
    })
}

/// One pass, on several threads.
fn pass<N: Numeric>(sums: &Sums<N>, x: &[N], y: &mut [N], inner: usize) {
    let [read, written] = [sums.from * inner, sums.to() * inner];
    fill(y, written, |range, part| {
        let images = range.start / written..range.end / written;
        let x = &x[images.start * read..images.end * read];
        with_processor_vectors(
            #[inline(always)]
            || sums.run(x, part, inner),
        );
    });
}
