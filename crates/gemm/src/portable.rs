//! Vectors in plain Rust: for the scalar instruction set, and for integers in all instruction sets.
//!
//! The loops over `N` are of constant length, so the compiler vectorises them for whatever features are on: its baseline, or those of
//! the shim `S`.
#![expect(unsafe_code, reason = "raw operands")]

use std::marker::PhantomData;

use super::{
    element::Scalar,
    lanes::{Body, Lanes, tiles},
    tile::Tile,
};

/// An instruction set whose shim portable lanes run in.
///
/// # Safety
/// - `enter` calls the body once.
pub(super) unsafe trait Shim: Copy + 'static {
    /// # Safety
    /// - The CPU has the instruction set, and the body's own conditions hold.
    unsafe fn enter(body: impl Body);
}

/// No features beyond the compiler's baseline.
#[derive(Clone, Copy)]
pub(super) struct Baseline;

// SAFETY: the body is called once.
unsafe impl Shim for Baseline {
    #[inline(never)]
    unsafe fn enter(body: impl Body) {
        // SAFETY: the caller's conditions.
        unsafe { body.run() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Portable<S, T, const N: usize>([T; N], PhantomData<S>);

impl<S, T: Copy, const N: usize> Portable<S, T, N> {
    #[inline(always)]
    fn from_fn(f: impl FnMut(usize) -> T) -> Self {
        Self(std::array::from_fn(f), PhantomData)
    }
}

// SAFETY: plain Rust, in bounds where the trait's conditions hold.
unsafe impl<S: Shim, T: Scalar, const N: usize> Lanes for Portable<S, T, N> {
    type Unit = T;
    type Acc = T;
    type Operand = Self;
    const N: usize = N;
    const TILES: &'static [&'static [Tile<Self>]] = tiles!(4);

    #[inline(always)]
    unsafe fn enter(body: impl Body) {
        // SAFETY: the caller's conditions.
        unsafe { S::enter(body) }
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self::from_fn(|_| T::ZERO)
    }
    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self::from_fn(|_| value)
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: `N` elements are readable.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() }, PhantomData)
    }
    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        // SAFETY: `count` elements are readable.
        Self::from_fn(|i| if i < count { unsafe { from.add(i).read_unaligned() } } else { T::ZERO })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: `N` elements are writable.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        for (i, value) in self.0.into_iter().enumerate().take(count) {
            // SAFETY: `count` elements are writable.
            unsafe { to.add(i).write_unaligned(value) }
        }
    }
    #[inline(always)]
    unsafe fn mul(self, by: Self) -> Self {
        Self::from_fn(|i| self.0[i].mul(by.0[i]))
    }
    #[inline(always)]
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self {
        Self::from_fn(|i| self.0[i].mul_add(by.0[i], plus.0[i]))
    }
    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        [0, N / 2].map(
            #[inline(always)]
            |half| Self::from_fn(|i| if i % 2 == 0 { self.0[half + i / 2] } else { other.0[half + i / 2] }),
        )
    }
    #[inline(always)]
    unsafe fn operand(from: *const T) -> Self {
        // SAFETY: the caller's conditions.
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn broadcast(from: *const T) -> Self {
        // SAFETY: one element is readable.
        let value = unsafe { from.read_unaligned() };
        Self::from_fn(|_| value)
    }
    #[inline(always)]
    unsafe fn accumulate(self, a: Self, b: Self) -> Self {
        Self::from_fn(|i| a.0[i].mul_add(b.0[i], self.0[i]))
    }
}
