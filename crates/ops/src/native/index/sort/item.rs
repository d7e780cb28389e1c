//! What is sorted: numbers that order like elements and say where they stood.

/// An element as a number: what orders it above, where it stood below.
pub(super) trait Item: Copy + Ord + Send + Sync {
    /// How many digits of 11 bits the elements' order has.
    const DIGITS: usize;
    /// Of the order's least bits; `descending` turns them around.
    fn new(order: u64, descending: bool, index: u32) -> Self;
    /// Where the element stood.
    fn index(self) -> u32;
    /// One digit of its order, least significant first.
    fn digit(self, number: usize) -> usize;
}

macro_rules! items {
    ($($rust:ty, $order:ty, $digits:literal;)*) => {$(
        impl Item for $rust {
            const DIGITS: usize = $digits;

            #[inline(always)]
            fn new(order: u64, descending: bool, index: u32) -> Self {
                let order = if descending { !(order as $order) } else { order as $order };
                <$rust>::from(order) << u32::BITS | <$rust>::from(index)
            }

            #[inline(always)]
            fn index(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn digit(self, number: usize) -> usize {
                ((self >> u32::BITS) as $order >> (number * 11)) as usize & (RADIX - 1)
            }
        }
    )*};
}

pub(super) const RADIX: usize = 1 << 11;

items! { u64, u32, 3; u128, u64, 6; }
