//! Fallible allocation of vectors whose length depends on data: of elements, of indices, of results.
//!
//! `Vec`'s own methods end the process if allocation fails. They are for vectors that are small whatever the data are: sizes, names,
//! nodes. (The Python module keeps a [reserve](crate::allocator::WithReserve) for those.)

use crate::{Error, ErrorKind, Result, allocator};

/// An empty vector with capacity for `count` values.
///
/// # Errors
/// `OutOfMemory`.
///
/// ```
/// use flambeau_core::{ErrorKind, fallible};
///
/// assert!(fallible::with_capacity::<i64>(1000)?.capacity() >= 1000);
/// assert_eq!(fallible::with_capacity::<i64>(1 << 60).unwrap_err().kind(), ErrorKind::OutOfMemory);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    Ok(list)
}

/// Reserves capacity for exactly `more` further values.
///
/// # Errors
/// `OutOfMemory`.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.try_reserve_exact(more).is_ok() {
        return Ok(());
    }
    allocator::release_cached(); // Cached memory of freed tensors may suffice.
    list.try_reserve_exact(more).map_err(|_| out_of_memory::<T>(list.len().saturating_add(more)))
}

/// A vector of `count` times `value`.
///
/// # Errors
/// `OutOfMemory`.
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = with_capacity(count)?;
    list.resize(count, value);
    Ok(list)
}

/// A copy of `values`.
///
/// # Errors
/// `OutOfMemory`.
pub fn to_vec<T: Clone>(values: &[T]) -> Result<Vec<T>> {
    let mut list = with_capacity(values.len())?;
    list.extend_from_slice(values);
    Ok(list)
}

/// Appends a value.
///
/// # Errors
/// `OutOfMemory`; then the vector is unchanged.
#[inline]
pub fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    if list.len() == list.capacity() {
        reserve(list, list.len().max(4))?; // Doubles the capacity, so that values are moved only a few times.
    }
    list.push(value);
    Ok(())
}

/// All values of an iterator.
///
/// # Errors
/// `OutOfMemory`.
pub fn collect<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let values = values.into_iter();
    match values.size_hint() {
        // No element is checked for room, so that the compiler vectorizes the loop.
        (count, Some(most)) if count == most => {
            let mut list = with_capacity(count)?;
            list.extend(values);
            Ok(list)
        }
        _ => try_collect(values.map(Ok)),
    }
}

/// All values of an iterator, unless one of them is an error.
///
/// # Errors
/// The first error, or `OutOfMemory`.
pub fn try_collect<T>(values: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let values = values.into_iter();
    let mut list = with_capacity(values.size_hint().0)?;
    for value in values {
        push(&mut list, value?)?;
    }
    Ok(list)
}

/// Checks that `bytes` can be allocated now, before many small parts are allocated infallibly: views, nodes, lists of lists.
///
/// # Errors
/// `OutOfMemory` if not.
pub fn ensure_room(bytes: usize) -> Result<()> {
    with_capacity::<u8>(bytes).map(drop)
}

#[cold]
fn out_of_memory<T>(count: usize) -> Error {
    no_memory(count.saturating_mul(size_of::<T>()))
}

/// The error of an operator that could not allocate so many bytes.
#[cold]
pub fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("the system has no {bytes} bytes to give"))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn lists_are_what_vec_makes() {
        assert_eq!(filled(7u8, 3).unwrap(), [7; 3]);
        assert_eq!(to_vec(&["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(
            collect((0..100).filter(|i| i % 7 == 0)).unwrap(),
            (0..100).step_by(7).collect::<Vec<_>>()
        );
        let failing = (0..5).map(|i| if i < 3 { Ok(i) } else { Err(no_memory(i)) });
        assert!(try_collect(failing).unwrap_err().message().contains("no 3 bytes"));
    }

    #[test]
    fn what_cannot_be_had_is_an_error_that_says_how_much() {
        for count in [1usize << 60, usize::MAX, usize::MAX / 2] {
            let error = filled(0u16, count).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            assert!(error.message().contains(&count.saturating_mul(2).to_string()), "{error}");
        }
        let mut list = vec![1u64, 2];
        assert!(reserve(&mut list, usize::MAX).is_err());
        assert_eq!(list, [1, 2]);
        assert!(ensure_room(1 << 62).is_err());
    }
}
