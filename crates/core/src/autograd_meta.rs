//! The interface by which gradients attach to a tensor; core and the operators know no more of them than this.
#![expect(unsafe_code, reason = "owns a trait object in a block of the thread's free list")]

use crate::allocator::thread_cache::ObjectBlock;
use std::alloc::Layout;
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;

/// What the autograd crate stores with a tensor: history, gradient, hooks, the base of a view.
///
/// Set at most once in a tensor's life; what changes later is inside of it, under the implementation's own lock.
pub trait AutogradMeta: Any + Send + Sync {
    /// Whether the tensor requires a gradient, as a leaf or through its history.
    fn requires_grad(&self) -> bool;

    /// Called when the tensor gets another geometry. Returns whether its version must change, so that saved variables of it are found to
    /// be outdated.
    fn geometry_changed(&self) -> bool {
        false
    }
}

/// A `Box<dyn AutogradMeta>` whose memory comes from the thread's free list: every recorded result and every view has one.
pub struct AutogradMetaBox(NonNull<dyn AutogradMeta>);

// SAFETY: it owns what it points at, which is `Send` and `Sync`.
unsafe impl Send for AutogradMetaBox {}
// SAFETY: as above.
unsafe impl Sync for AutogradMetaBox {}

impl AutogradMetaBox {
    /// Boxes the value that `make` returns, built where it stays: `# Note: store forwarding` in the crate's documentation.
    #[inline(always)]
    pub fn new<T: AutogradMeta>(make: impl FnOnce() -> T) -> Self {
        let block = ObjectBlock::new(Layout::new::<T>());
        let value = block.as_ptr().cast::<T>();
        // SAFETY: fresh memory for a `T`.
        unsafe { value.write(make()) };
        block.into_raw();
        AutogradMetaBox(value)
    }
}

impl Deref for AutogradMetaBox {
    type Target = dyn AutogradMeta;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: it owns a value there.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for AutogradMetaBox {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `new` got the block for this layout; the value is not used again.
        unsafe {
            let _block = ObjectBlock::from_raw(self.0.cast(), Layout::for_value::<dyn AutogradMeta>(&**self));
            self.0.drop_in_place();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Meta(#[expect(dead_code, reason = "counts owners")] Arc<()>, bool);

    impl AutogradMeta for Meta {
        fn requires_grad(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn the_value_lives_as_long_as_its_box() {
        let owners = Arc::new(());
        let meta = AutogradMetaBox::new(|| Meta(owners.clone(), true));
        assert!(meta.requires_grad() && Arc::strong_count(&owners) == 2);
        let moved = std::thread::spawn(move || meta.requires_grad()).join();
        assert!(matches!(moved, Ok(true)) && Arc::strong_count(&owners) == 1);
    }
}
