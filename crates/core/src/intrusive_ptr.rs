//! Shared ownership as in c10: both counts in one word beside the value, so that a unique owner frees without an atomic update.
//!
//! An owner that reads "one strong owner and no other" stays the only one, since only an owner can add another. So
//! it frees after one load, where `std::sync::Arc` needs two atomic updates. Blocks come from the thread's free list.

#![expect(unsafe_code, reason = "owns memory through a raw pointer and its own reference counts")]

mod counts;
mod thin;

use crate::allocator::thread_cache::ObjectBlock;
use counts::Counts;
use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of};
use std::ops::Deref;
use std::ptr::NonNull;
pub use thin::ThinPtr;

/// What an [`IntrusivePtr`] may own: something that threads can share.
///
/// The value is dropped with its last strong owner, even while weak owners keep its block.
pub trait IntrusiveTarget: Send + Sync {}

#[repr(C)]
struct Inner<T> {
    counts: Counts,
    value: ManuallyDrop<T>,
}

/// A strong owner of a `T` on the heap; a clone shares it. One pointer wide, as is the `Option` of it.
///
/// ```
/// use flambeau_core::intrusive_ptr::{IntrusivePtr, IntrusiveTarget};
///
/// struct Node(u32);
/// impl IntrusiveTarget for Node {}
///
/// let node = IntrusivePtr::new(Node(7));
/// let weak = IntrusivePtr::downgrade(&node);
/// assert_eq!(weak.upgrade().map(|n| n.0), Some(7));
/// drop(node);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct IntrusivePtr<T: IntrusiveTarget> {
    inner: NonNull<Inner<T>>,
    owns: PhantomData<Inner<T>>,
}

// SAFETY: the counts are atomic, and `IntrusiveTarget` makes `T` both `Send` (any owner may be the last, and drop
// the value) and `Sync` (owners on several threads reach it at once).
unsafe impl<T: IntrusiveTarget> Send for IntrusivePtr<T> {}
// SAFETY: as above.
unsafe impl<T: IntrusiveTarget> Sync for IntrusivePtr<T> {}

impl<T: IntrusiveTarget> IntrusivePtr<T> {
    /// Moves `value` to the heap. Like [`Box::new`], it ends the process if there is no memory for it.
    #[inline]
    pub fn new(value: T) -> Self {
        Self::new_with(|| value)
    }

    /// The same for a value that is made after its memory is allocated, so that it need not be moved there.
    #[inline(always)]
    pub fn new_with(make: impl FnOnce() -> T) -> Self {
        // SAFETY: the value is written.
        unsafe { Self::new_in_place(|ptr| ptr.write(make())) }
    }

    /// The same for a value whose fields are written one by one where it stays: a value that is moved as soon as it is made stalls, see
    /// `# Note: store forwarding` in the crate's documentation.
    ///
    /// # Safety
    /// - `make` initialises what it is given a pointer to, or unwinds.
    #[inline(always)]
    pub unsafe fn new_in_place(make: impl FnOnce(*mut T)) -> Self {
        let block = ObjectBlock::new(Layout::new::<Inner<T>>());
        let inner = block.as_ptr().cast::<Inner<T>>();
        // SAFETY: a fresh block of this layout.
        unsafe {
            (&raw mut (*inner.as_ptr()).counts).write(Counts::unique());
            make((&raw mut (*inner.as_ptr()).value).cast());
        }
        block.into_raw();
        IntrusivePtr { inner, owns: PhantomData }
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: this owner's count keeps the block and the value.
        unsafe { self.inner.as_ref() }
    }

    /// Whether both own the same value.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.inner == other.inner
    }

    /// How many strong owners there are, at some moment of the call.
    #[inline]
    pub fn strong_count(this: &Self) -> usize {
        this.inner().counts.strong()
    }

    /// How many weak owners there are, at some moment of the call.
    #[inline]
    pub fn weak_count(this: &Self) -> usize {
        this.inner().counts.weak() - 1
    }

    /// Whether this is the only owner, strong or weak.
    #[inline]
    pub fn is_unique(this: &Self) -> bool {
        this.inner().counts.is_unique()
    }

    /// The value, if this is its only owner, strong or weak.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if !Self::is_unique(this) {
            return None;
        }
        // SAFETY: no other owner can come to be while `this` is borrowed exclusively.
        Some(unsafe { &mut this.inner.as_mut().value })
    }

    /// A weak owner of the same value.
    #[inline]
    pub fn downgrade(this: &Self) -> WeakIntrusivePtr<T> {
        this.inner().counts.retain_weak();
        WeakIntrusivePtr { inner: this.inner, owns: PhantomData }
    }

    /// The address of the value; valid while a strong owner is left.
    #[inline]
    pub fn as_ptr(this: &Self) -> *const T {
        // SAFETY: stays inside the block.
        unsafe { (&raw const (*this.inner.as_ptr()).value).cast() }
    }

    /// Gives up ownership for a pointer to the value; [`from_raw`](Self::from_raw) takes it back.
    #[inline]
    pub fn into_raw(this: Self) -> *const T {
        Self::as_ptr(&ManuallyDrop::new(this))
    }

    /// Takes ownership back.
    ///
    /// # Safety
    /// - `value` came from [`into_raw`](Self::into_raw) of the same `T`, and is taken back only once.
    #[inline]
    pub unsafe fn from_raw(value: *const T) -> Self {
        // SAFETY: `into_raw` pointed at the value inside its block, and left a strong count for us.
        let inner = unsafe {
            let inner = value.byte_sub(offset_of!(Inner<T>, value)).cast_mut();
            NonNull::new_unchecked(inner.cast())
        };
        IntrusivePtr { inner, owns: PhantomData }
    }

    /// Drops the value, whose strong count has fallen to 0, and the weak count that the strong owners shared.
    #[cold]
    #[inline(never)]
    fn drop_value(&mut self) {
        // A local, so that it is released even if dropping the value unwinds.
        let _shared = WeakIntrusivePtr { inner: self.inner, owns: PhantomData };
        // SAFETY: no strong owner is left, and `upgrade` makes none out of a count of 0.
        unsafe { ManuallyDrop::drop(&mut (*self.inner.as_ptr()).value) }
    }
}

impl<T: IntrusiveTarget> Drop for IntrusivePtr<T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner().counts.is_unique() {
            let _block = last_of(self.inner);
            // SAFETY: this was the only owner; `_block` frees what is left, even if this unwinds.
            unsafe { ManuallyDrop::drop(&mut (*self.inner.as_ptr()).value) }
        } else if self.inner().counts.release_strong() {
            self.drop_value();
        }
    }
}

impl<T: IntrusiveTarget> Clone for IntrusivePtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.inner().counts.retain_strong();
        IntrusivePtr { inner: self.inner, owns: PhantomData }
    }
}

impl<T: IntrusiveTarget> Deref for IntrusivePtr<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: IntrusiveTarget + fmt::Debug> fmt::Debug for IntrusivePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A weak owner: it keeps the block of a value but not the value.
pub struct WeakIntrusivePtr<T: IntrusiveTarget> {
    inner: NonNull<Inner<T>>,
    owns: PhantomData<Inner<T>>,
}

// SAFETY: as for `IntrusivePtr`, which `upgrade` may make on any thread.
unsafe impl<T: IntrusiveTarget> Send for WeakIntrusivePtr<T> {}
// SAFETY: as above.
unsafe impl<T: IntrusiveTarget> Sync for WeakIntrusivePtr<T> {}

impl<T: IntrusiveTarget> WeakIntrusivePtr<T> {
    #[inline]
    fn counts(&self) -> &Counts {
        // SAFETY: this owner's count keeps the block. The value is not borrowed: another thread may be dropping it.
        unsafe { &(*self.inner.as_ptr()).counts }
    }

    /// A strong owner, if one is left.
    #[inline]
    pub fn upgrade(&self) -> Option<IntrusivePtr<T>> {
        self.counts().upgrade().then_some(())?;
        Some(IntrusivePtr { inner: self.inner, owns: PhantomData })
    }

    /// How many strong owners there are, at some moment of the call.
    #[inline]
    pub fn strong_count(&self) -> usize {
        self.counts().strong()
    }

    /// Whether both own the same block.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl<T: IntrusiveTarget> Clone for WeakIntrusivePtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.counts().retain_weak();
        WeakIntrusivePtr { inner: self.inner, owns: PhantomData }
    }
}

impl<T: IntrusiveTarget> Drop for WeakIntrusivePtr<T> {
    #[inline]
    fn drop(&mut self) {
        if self.counts().release_weak() {
            drop(last_of(self.inner));
        }
    }
}

impl<T: IntrusiveTarget> fmt::Debug for WeakIntrusivePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

/// The block of a value without owners, which is dropped already or is being dropped. Only the last owner calls this: the counts that
/// it read order all other uses before.
#[inline(always)]
fn last_of<T>(inner: NonNull<Inner<T>>) -> ObjectBlock {
    #[cfg(loom)]
    // SAFETY: nobody else has a pointer to the block; loom checks it here.
    unsafe {
        (*inner.as_ptr()).counts.check_quiet();
        std::ptr::drop_in_place(&raw mut (*inner.as_ptr()).counts);
    }
    // SAFETY: `IntrusivePtr::new` got the block for this layout, and nobody else has a pointer to it.
    unsafe { ObjectBlock::from_raw(inner.cast(), Layout::new::<Inner<T>>()) }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
