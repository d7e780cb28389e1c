//! Shared ownership of a trait object through a pointer of one word.
//!
//! `IntrusivePtr<dyn Trait>` would be two words wide, and structs that hold some of them would be passed in memory instead of in
//! registers. Here the block stores the vtable's address beside the value. There are no weak owners.

#![expect(unsafe_code, reason = "owns memory through a raw pointer and its own reference count")]

use super::counts::Counts;
use crate::allocator::thread_cache::ObjectBlock;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

/// The header in front of each value.
#[repr(C)]
struct Head<D: ?Sized> {
    counts: Counts,
    value: MaybeUninit<NonNull<D>>,
}

/// A strong owner of a value that is known as a `D`, a trait object; a clone shares it.
///
/// ```
/// use flambeau_core::intrusive_ptr::ThinPtr;
/// trait Shape: Send + Sync {
///     fn corners(&self) -> usize;
/// }
/// struct Triangle;
/// impl Shape for Triangle {
///     fn corners(&self) -> usize {
///         3
///     }
/// }
/// // SAFETY: it is known as itself.
/// let shape: ThinPtr<dyn Shape> = unsafe { ThinPtr::new(Triangle, |triangle| triangle) };
/// assert_eq!((shape.corners(), size_of_val(&shape)), (3, size_of::<usize>()));
/// ```
pub struct ThinPtr<D: ?Sized> {
    head: NonNull<Head<D>>,
    owns: PhantomData<D>,
}

// SAFETY: the counts are atomic; any owner may be the last, and drop the value (`Send`), and owners on several threads reach
// it at once (`Sync`).
unsafe impl<D: ?Sized + Send + Sync> Send for ThinPtr<D> {}
// SAFETY: as above.
unsafe impl<D: ?Sized + Send + Sync> Sync for ThinPtr<D> {}

/// The layout of a block, and where in it the value is.
#[inline(always)]
fn block_layout<D: ?Sized>(value: Layout) -> (Layout, usize) {
    let head = Layout::new::<Head<D>>();
    let (align, offset) = (head.align().max(value.align()), head.size().next_multiple_of(value.align()));
    match Layout::from_size_align(offset + value.size(), align) {
        Ok(layout) => (layout, offset),
        // A value that fills the address space does not exist.
        Err(_) => (head, offset),
    }
}

impl<D: ?Sized> ThinPtr<D> {
    /// Moves `value` to the heap; `known_as` converts a reference to it to the trait object: `|value| value`. Like [`Box::new`], it
    /// ends the process if there is no memory for it.
    ///
    /// # Safety
    /// - (same) `known_as` returns what it is given, as a trait object.
    #[inline]
    pub unsafe fn new<T>(value: T, known_as: fn(&mut T) -> &mut D) -> Self {
        // SAFETY: (same); the value is written.
        unsafe { Self::new_in_place(|ptr: *mut T| ptr.write(value), known_as) }
    }

    /// The same for a value that is written where it stays.
    ///
    /// # Safety
    /// - `make` initialises what it is given a pointer to, or unwinds.
    /// - (same) as for [`new`](Self::new).
    #[inline(always)]
    pub unsafe fn new_in_place<T>(make: impl FnOnce(*mut T), known_as: fn(&mut T) -> &mut D) -> Self {
        let (layout, offset) = block_layout::<D>(Layout::new::<T>());
        let block = ObjectBlock::new(layout);
        let head = block.as_ptr().cast::<Head<D>>();
        // SAFETY: a fresh block with room for both, each aligned; `make` makes the value.
        unsafe {
            let ptr = block.as_ptr().add(offset).cast::<T>();
            head.write(Head { counts: Counts::unique(), value: MaybeUninit::uninit() });
            make(ptr.as_ptr());
            let value = NonNull::from(known_as(&mut *ptr.as_ptr()));
            debug_assert!(value.addr() == ptr.addr());
            (*head.as_ptr()).value.write(value);
        }
        block.into_raw();
        ThinPtr { head, owns: PhantomData }
    }

    #[inline]
    fn counts(&self) -> &Counts {
        // SAFETY: this owner's count keeps the block.
        unsafe { &(*self.head.as_ptr()).counts }
    }

    #[inline]
    fn value(&self) -> NonNull<D> {
        // SAFETY: it was written when the first owner was made.
        unsafe { (*self.head.as_ptr()).value.assume_init() }
    }

    /// Whether both own the same value.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.head == other.head
    }

    /// An address that differs from that of every other value that lives at the same time.
    #[inline]
    pub fn address(this: &Self) -> usize {
        this.head.addr().get()
    }

    /// Whether there is no other owner.
    #[inline]
    pub fn is_unique(this: &Self) -> bool {
        this.counts().is_unique()
    }

    /// How many owners there are, at some moment of the call.
    #[inline]
    pub fn strong_count(this: &Self) -> usize {
        this.counts().strong()
    }

    /// Drops the value and frees the block.
    ///
    /// # Safety
    /// - The caller was the last owner.
    #[inline]
    unsafe fn drop_value(&mut self) {
        let value = self.value();
        // SAFETY: there is no other owner, and the value is not used again; the block was made with this layout.
        unsafe {
            let (layout, _) = block_layout::<D>(Layout::for_value(value.as_ref()));
            let _block = ObjectBlock::from_raw(self.head.cast(), layout);
            #[cfg(loom)]
            std::ptr::drop_in_place(&raw mut (*self.head.as_ptr()).counts);
            value.drop_in_place();
        }
    }
}

impl<D: ?Sized> Drop for ThinPtr<D> {
    #[inline]
    fn drop(&mut self) {
        if self.counts().is_unique() || self.counts().release_strong() {
            // SAFETY: the last owner, by one of the two.
            unsafe { self.drop_value() }
        }
    }
}

impl<D: ?Sized> Clone for ThinPtr<D> {
    #[inline]
    fn clone(&self) -> Self {
        self.counts().retain_strong();
        ThinPtr { head: self.head, owns: PhantomData }
    }
}

impl<D: ?Sized> Deref for ThinPtr<D> {
    type Target = D;

    #[inline]
    fn deref(&self) -> &D {
        // SAFETY: this owner's count keeps the value.
        unsafe { self.value().as_ref() }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use std::sync::Arc;

    type Any = ThinPtr<dyn Debug + Send + Sync>;

    #[test]
    fn is_one_word_with_a_niche() {
        assert_eq!(size_of::<Any>(), size_of::<usize>());
        assert_eq!(size_of::<Option<(Any, u32)>>(), 2 * size_of::<usize>());
    }

    #[test]
    fn the_last_owner_drops_the_value() {
        let owners = Arc::new(5);
        // SAFETY: `v` is `v`; below too.
        let first: Any = unsafe { ThinPtr::new(owners.clone(), |v| v) };
        let second = first.clone();
        assert!(ThinPtr::ptr_eq(&first, &second) && ThinPtr::strong_count(&first) == 2);
        drop(first);
        assert_eq!((format!("{:?}", &*second), Arc::strong_count(&owners)), ("5".to_owned(), 2));
        assert!(ThinPtr::is_unique(&second));
        let gone = std::thread::spawn(move || drop(second)).join();
        assert!(gone.is_ok() && Arc::strong_count(&owners) == 1);
    }

    #[test]
    fn values_keep_their_alignment_and_size() {
        #[derive(Debug)]
        #[repr(align(256))]
        struct Aligned(#[expect(dead_code, reason = "read by Debug")] [u8; 300]);
        // SAFETY: as above.
        let (value, empty): (Any, Any) =
            unsafe { (ThinPtr::new(Aligned([1; 300]), |v| v), ThinPtr::new((), |v| v)) };
        assert_eq!(std::ptr::from_ref(&*value).addr() % 256, 0);
        assert_eq!(format!("{:?}", &*empty), "()");
    }

    #[test]
    fn a_value_that_is_not_made_leaves_nothing_behind() {
        let failed = std::panic::catch_unwind(|| {
            // SAFETY: it unwinds.
            unsafe { Any::new_in_place(|_: *mut u64| std::panic::resume_unwind(Box::new(())), |v| v) }
        });
        assert!(failed.is_err());
    }
}
