//! The one error: there is not enough memory.

use std::fmt;

/// A transform could not allocate its tables or its buffers. The output has any content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The size of the allocation.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system has no {} bytes to give", self.bytes)
    }
}

impl std::error::Error for OutOfMemory {}

/// Checks that so many bytes could be allocated now.
pub(crate) fn ensure_room(bytes: usize) -> Result<(), OutOfMemory> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| OutOfMemory { bytes })
}

/// A list of `count` times `value`.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) })?;
    list.resize(count, value);
    Ok(list)
}
