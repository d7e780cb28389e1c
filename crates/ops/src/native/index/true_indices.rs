//! The indices of the elements of a list that are true.

use flambeau_core::{Result, fallible};

/// The indices at which `flags` are true, ascending.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn true_indices(flags: &[bool]) -> Result<Vec<i64>> {
    let count = true_count(flags);
    // Each index is written, and stays if its flag is true: branches would not be predictable. So one more is written in the end.
    let mut indices = fallible::filled(0i64, count + 1)?;
    let mut next = 0;
    for (index, flag) in (0..).zip(flags) {
        indices[next] = index;
        next += usize::from(*flag);
    }
    indices.truncate(count);
    Ok(indices)
}

/// How many of `flags` are true.
pub(super) fn true_count(flags: &[bool]) -> usize {
    flags.chunks(255).map(count_true).sum()
}

/// The number of true ones among at most 255 flags, which a byte holds.
fn count_true(flags: &[bool]) -> usize {
    let count: u8 = flags.iter().map(|flag| u8::from(*flag)).sum();
    usize::from(count)
}
