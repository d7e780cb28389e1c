//! Values that depend on the index of an element alone: ranges and random numbers, the same for any number of threads.
#![expect(unsafe_code, reason = "parts of one output are written by several threads")]

use crate::Tensor;
use crate::parallel::parallel_for;
use crate::structured::with_guards;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::traced::{Tape, Traced, trace};
use crate::vectorized::{CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Vector, dispatch};
use flambeau_core::{Device, Element, Philox, Result, ensure};
use std::mem::MaybeUninit;

/// Writes every element of a contiguous tensor: `part(start, elements)` is called for chunks that begin at a multiple of
/// four, and writes the elements from index `start` on.
///
/// # Errors
/// `Internal` where the tensor is not contiguous or of another type, `Busy` where its elements are held.
pub fn generate<T: Element>(
    name: &str,
    out: &Tensor,
    part: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Result<()> {
    /// The address of elements that several threads write.
    struct Shared<T>(*mut MaybeUninit<T>);
    // SAFETY: each thread writes its own chunks, and chunks do not overlap.
    unsafe impl<T> Sync for Shared<T> {}
    impl<T> Shared<T> {
        fn at(&self, start: usize) -> *mut MaybeUninit<T> {
            self.0.wrapping_add(start)
        }
    }
    ensure!(
        out.is_contiguous() && out.dtype() == T::SCALAR_TYPE,
        Internal(name),
        "expected a contiguous tensor of {} to fill",
        T::SCALAR_TYPE
    );
    if out.device().is_meta() {
        return Ok(());
    }
    if !out.storage().is_host() {
        let host = Tensor::empty_contiguous(out.sizes(), out.dtype(), Device::CPU)?;
        generate(name, &host, part)?;
        return crate::ops::copy_(out, &host, false);
    }
    with_guards(name, &[], &[out], |guarded| {
        let data = Shared(guarded.ptr(out.strided_view()).cast());
        parallel_for(0..out.numel() as usize, GRAIN, |range| {
            // SAFETY: the guard is held, and the elements of a contiguous tensor are dense; chunks are disjoint.
            part(range.start, unsafe { std::slice::from_raw_parts_mut(data.at(range.start), range.len()) });
        });
        Ok(())
    })
}

/// Element `i` is `value(i)`.
///
/// # Errors
/// As [`generate`].
pub fn generate_by_index<T: Element>(
    name: &str,
    out: &Tensor,
    value: impl Fn(usize) -> T + Sync,
) -> Result<()> {
    generate::<T>(name, out, |start, part| {
        for (i, element) in part.iter_mut().enumerate() {
            element.write(value(start + i));
        }
    })
}

/// Element `i` is a function of the `i`-th 32-bit number of the stream.
///
/// # Errors
/// As [`generate`].
pub fn generate_by_word<T: Element>(
    name: &str,
    out: &Tensor,
    philox: Philox,
    value: impl Fn(u32) -> T + Sync,
) -> Result<()> {
    generate::<T>(name, out, |start, part| {
        let mut buffer = [[0; 4]; BLOCKS];
        for (tile, elements) in part.chunks_mut(4 * BLOCKS).enumerate() {
            let words = random_words(philox, start + tile * 4 * BLOCKS, elements.len(), &mut buffer);
            elements.iter_mut().zip(words).for_each(|(element, word)| _ = element.write(value(*word)));
        }
    })
}

/// Element `i` is a function of the `i`-th 64-bit number of the stream.
///
/// # Errors
/// As [`generate`].
pub fn generate_by_word64<T: Element>(
    name: &str,
    out: &Tensor,
    philox: Philox,
    value: impl Fn(u64) -> T + Sync,
) -> Result<()> {
    generate::<T>(name, out, |start, part| {
        let mut buffer = [[0; 4]; BLOCKS];
        for (tile, elements) in part.chunks_mut(2 * BLOCKS).enumerate() {
            let first = 2 * (start + tile * 2 * BLOCKS);
            let words = random_words(philox, first, 2 * elements.len(), &mut buffer);
            for (element, pair) in elements.iter_mut().zip(words.chunks_exact(2)) {
                element.write(value(word64(pair)));
            }
        }
    })
}

/// Blocks of the stream whose numbers are computed at a time.
const BLOCKS: usize = 128;

/// `count` 32-bit numbers of the stream from `first` on, a multiple of four, in the buffer; at most as many as it takes.
fn random_words(philox: Philox, first: usize, count: usize, buffer: &mut [[u32; 4]; BLOCKS]) -> &[u32] {
    let blocks = &mut buffer[..count.div_ceil(4)];
    // SAFETY: the kernel accesses no memory but the slice.
    unsafe { dispatch(RandomBlocks { philox, first: (first / 4) as u64, blocks: &mut *blocks }) };
    &blocks.as_flattened()[..count]
}

/// The 64-bit numbers of a stream in order, computed several at a time.
pub(crate) struct Words64 {
    philox: Philox,
    buffer: [[u32; 4]; BLOCKS],
    next: usize,
}

impl Words64 {
    pub(crate) fn new(philox: Philox) -> Self {
        Words64 { philox, buffer: [[0; 4]; BLOCKS], next: 0 }
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let at = self.next % (2 * BLOCKS);
        if at == 0 {
            random_words(self.philox, 2 * self.next, 4 * BLOCKS, &mut self.buffer);
        }
        self.next += 1;
        word64(&self.buffer.as_flattened()[2 * at..][..2])
    }
}

/// A 64-bit number of two 32-bit ones.
#[inline(always)]
fn word64(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// Writes blocks of the stream from `first` on. The loop is compiled for each instruction set, whose lanes compute several blocks at once.
pub(super) struct RandomBlocks<'a> {
    philox: Philox,
    first: u64,
    blocks: &'a mut [[u32; 4]],
}

impl CodegenAnchor for RandomBlocks<'_> {
    type Anchor = RandomBlocks<'static>;
}

impl<I: Isa> Kernel<I> for RandomBlocks<'_> {
    #[inline(always)]
    unsafe fn run(self) {
        for (i, block) in self.blocks.iter_mut().enumerate() {
            *block = self.philox.block(self.first.wrapping_add(i as u64));
        }
    }
}

/// A type in which normal numbers are computed from random words.
pub trait NormalElement: Element + Copy {
    /// Words per number.
    const WORDS: usize;

    /// A number above 0 and at most 1.
    fn uniform(words: &[u32]) -> Self;
}

impl NormalElement for f32 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn uniform(words: &[u32]) -> f32 {
        // Half a step away from 0. Near 1 it rounds, which costs nothing in the logarithm.
        (words[0] as f32 + 0.5) * 2f32.powi(-32)
    }
}

impl NormalElement for f64 {
    const WORDS: usize = 2;

    #[inline(always)]
    fn uniform(words: &[u32]) -> f64 {
        ((word64(words) >> 11) as f64 + 0.5) * 2f64.powi(-53)
    }
}

/// Pairs of normal numbers that are computed at a time: those of f64 need a block each.
const PAIRS: usize = BLOCKS;

/// Element `2 k` and `2 k + 1` are the pair of standard normal numbers that Box and Muller ("A note on the generation of random
/// normal deviates", 1958) make of the `k`-th pair of uniform ones, passed through `value`.
///
/// # Errors
/// As [`generate`].
pub fn generate_normal<E, T>(
    name: &str,
    out: &Tensor,
    philox: Philox,
    value: impl Fn(E) -> T + Sync,
) -> Result<()>
where
    E: NormalElement,
    T: Element,
    BoxMuller<E>: EveryIsa,
{
    generate::<T>(name, out, |start, part| {
        let (mut first, mut second) = ([E::uniform(&[0, 0]); PAIRS], [E::uniform(&[0, 0]); PAIRS]);
        let mut buffer = [[0; 4]; BLOCKS];
        for (tile, elements) in part.chunks_mut(2 * PAIRS).enumerate() {
            let count = elements.len().div_ceil(2);
            let start = (start + tile * 2 * PAIRS) * E::WORDS;
            let words = random_words(philox, start, 2 * count * E::WORDS, &mut buffer);
            for (pair, (first, second)) in
                words.chunks_exact(2 * E::WORDS).zip(first.iter_mut().zip(&mut second))
            {
                let (a, b) = pair.split_at(E::WORDS);
                (*first, *second) = (E::uniform(a), E::uniform(b));
            }
            // SAFETY: both arrays hold at least `count` numbers.
            unsafe { dispatch(BoxMuller { first: first.as_mut_ptr(), second: second.as_mut_ptr(), count }) };
            for (pair, (first, second)) in elements.chunks_mut(2).zip(first.iter().zip(&second)) {
                pair.iter_mut().zip([first, second]).for_each(|(element, z)| _ = element.write(value(*z)));
            }
        }
    })
}

/// Computes pairs of normal numbers from pairs of uniform ones, in place.
pub struct BoxMuller<E> {
    first: *mut E,
    second: *mut E,
    count: usize,
}

impl<E> CodegenAnchor for BoxMuller<E> {
    type Anchor = Self;
}

impl<I: Isa, E: FloatLanes<I>> Kernel<I> for BoxMuller<E> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = E::Vector::LANES;
        for at in (0..self.count).step_by(lanes) {
            let count = lanes.min(self.count - at);
            // SAFETY: `count` numbers from `at` on are inside both arrays.
            unsafe {
                let (first, second) = (self.first.add(at), self.second.add(at));
                let [a, b] = normal_pair(E::load_partial(first, count), E::load_partial(second, count));
                E::store_partial(a, first, count);
                E::store_partial(b, second, count);
            }
        }
    }
}

/// A pair of normal numbers, from one of uniform numbers.
#[inline(always)]
fn normal_pair<V: Float>(first: V, second: V) -> [V; 2] {
    let radius = (first.log() * V::constant(-2.0)).sqrt();
    let angle = second * V::constant(std::f64::consts::TAU);
    [radius * angle.cos(), radius * angle.sin()]
}

/// The expression of a pair of normal numbers, of which the second is the imaginary part of the result, for devices that draw by themselves.
#[must_use]
pub fn normal_expression<E: FloatLanes<Traced>>() -> Tape {
    trace(|| {
        // SAFETY: vectors of this set neither read nor write memory.
        unsafe {
            let [a, b] = normal_pair(E::load(std::ptr::null()), E::load(std::ptr::null()));
            E::store(a, std::ptr::null_mut());
            E::store(b, std::ptr::null_mut());
        }
    })
}
