//! The integers that are sorted in place of elements.

/// An integer with the sort key of an element in the upper bits and its index in the lower ones.
pub(super) trait Item: Copy + Ord + Send + Sync {
    /// Digits of a sort key, of 11 bits each.
    const DIGITS: usize;
    /// Of the lower bits of `key`, which are inverted for `descending`.
    fn new(key: u64, descending: bool, index: u32) -> Self;
    /// The index of the element.
    fn index(self) -> u32;
    /// One digit of the sort key, the least significant one is number 0.
    fn digit(self, number: usize) -> usize;
}

macro_rules! items {
    ($($rust:ty, $key:ty, $digits:literal;)*) => {$(
        impl Item for $rust {
            const DIGITS: usize = $digits;

            #[inline(always)]
            fn new(key: u64, descending: bool, index: u32) -> Self {
                let key = if descending { !(key as $key) } else { key as $key };
                <$rust>::from(key) << u32::BITS | <$rust>::from(index)
            }

            #[inline(always)]
            fn index(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn digit(self, number: usize) -> usize {
                ((self >> u32::BITS) as $key >> (number * 11)) as usize & (RADIX - 1)
            }
        }
    )*};
}

pub(super) const RADIX: usize = 1 << 11;

items! { u64, u32, 3; u128, u64, 6; }
