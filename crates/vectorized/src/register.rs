//! The macros that make a vector type out of a register and a list of intrinsics, and the half types on top of it.

/// Defines a float vector. Each right side is the path of a function on registers; every one is an intrinsic of the
/// set, or a few of them put together.
macro_rules! float_register {
    (
        $(#[$doc:meta])*
        $vector:ident($register:ty), $mask:ident, $bits:ident, [$element:ty; $lanes:literal];
        splat $splat:path; load $load:path; store $store:path; load_partial $load_partial:path;
        store_partial $store_partial:path; select $select:path;
        eq $eq:expr; ne $ne:expr; lt $lt:expr; le $le:expr;
        add $add:path; sub $sub:path; mul $mul:path; div $div:path; neg $neg:path; abs $abs:path;
        min $min:path; max $max:path; sqrt $sqrt:path; mul_add $mul_add:path;
        floor $floor:expr; ceil $ceil:expr; round $round:expr; trunc $trunc:expr; scale $scale:path;
        scale_floor $scale_floor:path; exponent $exponent:path; significand $significand:path; look_up $look_up:path;
        slide_up $slide_up:path; slide_down $slide_down:path; even $even:path; odd $odd:path; zip_low $zip_low:path;
        zip_high $zip_high:path;
        to_bits $to_bits:path; from_bits $from_bits:path; bits_equal $bits_equal:path;
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $vector($register);

        // SAFETY, for every block below: the type is reached only through a kernel of its instruction set, which the
        // processor therefore has (note "Soundness" of the parent module); memory is as the method's own condition says.
        impl Vector for $vector {
            type Element = $element;
            type Mask = $mask;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(value: $element) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $splat(value) })
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the set is there, and `from` is valid for `LANES` elements.
                Self(unsafe { $load(from) })
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const $element, count: usize) -> Self {
                // SAFETY: the set is there, and `from` is valid for `count <= LANES` elements.
                Self(unsafe { $load_partial(from, count) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: the set is there, and `to` is valid for `LANES` elements.
                unsafe { $store(to, self.0) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut $element, count: usize) {
                // SAFETY: the set is there, and `to` is valid for `count <= LANES` elements.
                unsafe { $store_partial(to, count, self.0) }
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $select(mask.0, yes.0, no.0) })
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                // SAFETY: the set is there: note "Soundness".
                $mask(unsafe { $eq(self.0, other.0) })
            }
            #[inline(always)]
            fn ne(self, other: Self) -> $mask {
                // SAFETY: the set is there: note "Soundness".
                $mask(unsafe { $ne(self.0, other.0) })
            }
        }

        impl Number for $vector {
            #[inline(always)]
            fn zero() -> Self { Vector::splat(0.0) }
            #[inline(always)]
            fn one() -> Self { Vector::splat(1.0) }
        }

        impl Ordered for $vector {
            #[inline(always)]
            fn lt(self, other: Self) -> $mask {
                // SAFETY: the set is there: note "Soundness".
                $mask(unsafe { $lt(self.0, other.0) })
            }
            #[inline(always)]
            fn le(self, other: Self) -> $mask {
                // SAFETY: the set is there: note "Soundness".
                $mask(unsafe { $le(self.0, other.0) })
            }
            #[inline(always)]
            fn abs(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $abs(self.0) })
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $min(self.0, other.0) })
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $max(self.0, other.0) })
            }
        }

        impl Float for $vector {
            type Bits = $bits;

            #[inline(always)]
            fn to_bits(self) -> $bits {
                // SAFETY: the set is there: note "Soundness".
                $bits(unsafe { $to_bits(self.0) })
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $from_bits(bits.0) })
            }
            #[inline(always)]
            fn bits_equal(a: $bits, b: $bits) -> $mask {
                // SAFETY: the set is there: note "Soundness".
                $mask(unsafe { $bits_equal(a.0, b.0) })
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $sqrt(self.0) })
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $mul_add(self.0, factor.0, term.0) })
            }
            #[inline(always)]
            fn floor(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $floor(self.0) })
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $ceil(self.0) })
            }
            #[inline(always)]
            fn round(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $round(self.0) })
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $trunc(self.0) })
            }
            #[inline(always)]
            fn scale(self, n: Self) -> Self { $scale(self, n) }
            #[inline(always)]
            fn scale_floor(self, n: Self) -> Self { $scale_floor(self, n) }
            #[inline(always)]
            fn exponent(self) -> Self { $exponent(self) }
            #[inline(always)]
            fn significand(self) -> Self { $significand(self) }
            #[inline(always)]
            fn slide_up(self, before: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $slide_up(self.0, before.0) })
            }
            #[inline(always)]
            fn slide_down(self, after: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $slide_down(self.0, after.0) })
            }
            #[inline(always)]
            fn deinterleave(self, next: Self) -> (Self, Self) {
                // SAFETY: the set is there: note "Soundness".
                unsafe { (Self($even(self.0, next.0)), Self($odd(self.0, next.0))) }
            }
            #[inline(always)]
            fn interleave(self, odd: Self) -> (Self, Self) {
                // SAFETY: the set is there: note "Soundness".
                unsafe { (Self($zip_low(self.0, odd.0)), Self($zip_high(self.0, odd.0))) }
            }
            #[inline(always)]
            fn look_up(table: &'static [$element; 16], index: $bits) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $look_up(table, index.0) })
            }
        }

        operators! { $vector: Add add $add, Sub sub $sub, Mul mul $mul, Div div $div; Neg neg $neg; }
    };
}

/// Defines the vector of bits beside a float vector.
macro_rules! bits_register {
    (
        $(#[$doc:meta])*
        $bits:ident($register:ty), $element:ty; splat $splat:path; shl $shl:path; shr $shr:path; count $count:path;
        add $add:path; sub $sub:path; and $and:path; or $or:path; xor $xor:path;
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $bits($register);

        impl Bits for $bits {
            #[inline(always)]
            fn splat(value: u64) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $splat(value as $element) })
            }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $shl(self.0, $count(by as i32)) })
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $shr(self.0, $count(by as i32)) })
            }
        }

        operators! { $bits: Add add $add, Sub sub $sub, BitAnd bitand $and, BitOr bitor $or, BitXor bitxor $xor; }
    };
}

/// Operators of a register type, each from one function on registers.
macro_rules! operators {
    ($type:ident: $($binary:ident $method:ident $f:path),*; $($unary:ident $unary_method:ident $g:path;)*) => {
        $(impl $binary for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $f(self.0, other.0) })
            }
        })*
        $(impl $unary for $type {
            type Output = Self;
            #[inline(always)]
            fn $unary_method(self) -> Self {
                // SAFETY: the set is there: note "Soundness".
                Self(unsafe { $g(self.0) })
            }
        })*
    };
}

/// Implements `Lanes` for f16 or bf16 on an f32 vector of `$lanes` lanes, given the conversion of whole registers.
macro_rules! half_lanes {
    (
        $isa:ty, $element:ident => $vector:ident, $lanes:literal; widen $widen:path, $widen_lanes:path;
        narrow $narrow:path, $narrow_lanes:path; $(normal $narrow_normal:path;)?
    ) => {
        impl Lanes<$isa> for $element {
            type Vector = $vector;
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(value: f32) -> Self {
                $narrow(value)
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> $vector {
                // SAFETY: the set is there, and `from` is valid for `LANES` elements.
                $vector(unsafe { $widen_lanes(from.cast::<[u16; $lanes]>().read_unaligned()) })
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self, count: usize) -> $vector {
                // SAFETY: the set is there, and `from` is valid for `count <= LANES` elements of 16 bits.
                $vector(unsafe { $widen_lanes(padded::<u16, $lanes>(from.cast(), count)) })
            }
            #[inline(always)]
            unsafe fn store(vector: $vector, to: *mut Self) {
                // SAFETY: the set is there, and `to` is valid for `LANES` elements.
                unsafe { to.cast::<[u16; $lanes]>().write_unaligned($narrow_lanes(vector.0)) }
            }
            $(#[inline(always)]
            unsafe fn store_normal(vector: $vector, to: *mut Self) {
                // SAFETY: the set is there, and `to` is valid for `LANES` elements.
                unsafe { to.cast::<[u16; $lanes]>().write_unaligned($narrow_normal(vector.0)) }
            })?
            #[inline(always)]
            unsafe fn store_partial(vector: $vector, to: *mut Self, count: usize) {
                // SAFETY: the set is there, and `to` is valid for `count <= LANES` elements of 16 bits.
                unsafe {
                    let lanes: [u16; $lanes] = $narrow_lanes(vector.0);
                    to.cast::<u16>().copy_from_nonoverlapping(lanes.as_ptr(), count);
                }
            }
        }
    };
}

/// Defines functions on registers, all with the same safety condition.
macro_rules! on_registers {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
        /// # Safety
        ///
        /// - The processor has this instruction set, and pointers are valid for the elements that are accessed.
        #[inline(always)]
        unsafe fn $name($($argument: $type),*) -> $result {
            // SAFETY: this function's condition.
            unsafe { $body }
        }
    )*};
}

pub(super) use {bits_register, float_register, half_lanes, on_registers, operators};
