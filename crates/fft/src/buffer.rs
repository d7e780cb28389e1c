//! Buffers that a thread retains between transforms, so that those of long rows need no new pages in each call.

use crate::error::OutOfMemory;
use crate::float::Float;

/// The largest buffer that a thread retains, in bytes.
const MAX_RETAINED_BYTES: usize = 64 << 20;

/// Complex numbers of any value. The memory is retained by the thread on drop.
pub(crate) struct Buffer<T: Float>(Vec<[T; 2]>);

impl<T: Float> Buffer<T> {
    /// A buffer of `length` numbers.
    pub(crate) fn new(length: usize) -> Result<Self, OutOfMemory> {
        let mut numbers = T::free_list(Vec::pop).flatten().unwrap_or_default();
        if numbers.len() < length && numbers.try_reserve_exact(length - numbers.len()).is_err() {
            return Err(OutOfMemory { bytes: length.saturating_mul(size_of::<[T; 2]>()) });
        }
        if numbers.len() < length {
            numbers.resize(length, [T::ZERO; 2]);
        }
        Ok(Buffer(numbers))
    }

    /// The numbers: as many as were requested, or more.
    pub(crate) fn numbers(&mut self) -> &mut [[T; 2]] {
        &mut self.0
    }
}

impl<T: Float> Drop for Buffer<T> {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.0);
        if numbers.capacity() * size_of::<[T; 2]>() <= MAX_RETAINED_BYTES {
            // At the end of a thread the list may have been dropped: then the buffer is freed.
            let _ = T::free_list(|list| list.push(numbers)).is_some();
        }
    }
}
