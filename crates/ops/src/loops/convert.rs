//! Conversions between any two element types. Those from and to complex numbers convert parts by the conversions of real types.
#![expect(unsafe_code, reason = "conversions are by address")]

use crate::dispatch_all_types;
use crate::vectorized::{Convert as ConvertElement, convert_slice, load_one};
use flambeau_core::{Result, ScalarType};
use std::mem::MaybeUninit;

/// Converts a number of dense elements from one type to another.
pub(super) type Convert = unsafe fn(*const u8, *mut u8, usize);

/// The conversion between two types.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(super) fn converter(from: ScalarType, to: ScalarType) -> Result<Convert> {
    match (from.is_complex(), to.is_complex()) {
        (false, false) => between_reals(from, to),
        (true, true) => between_complex(from.to_real(), to.to_real()),
        (false, true) => to_complex(from, to.to_real()),
        (true, false) if to == ScalarType::Bool => to_bool(from.to_real()),
        (true, false) => real_part(from.to_real(), to),
    }
}

fn between_reals(from: ScalarType, to: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - `from` is valid for reading and `to` for writing `count` elements, and they do not overlap.
    unsafe fn erased<F: ConvertElement, T: ConvertElement>(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: by this function's condition.
        unsafe { convert_slice::<F, T>(from.cast(), to.cast(), count) }
    }
    dispatch_all_types!(all, from, "conversion", F => {
        dispatch_all_types!(all, to, "conversion", T => Ok(erased::<F, T> as Convert))
    })
}

/// Part by part.
fn between_complex(from: ScalarType, to: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - As [`between_reals`], for elements of two parts.
    unsafe fn erased<F: ConvertElement, T: ConvertElement>(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: by this function's condition.
        unsafe { convert_slice::<F, T>(from.cast(), to.cast(), 2 * count) }
    }
    dispatch_all_types!(wide_floats, from, "conversion", F => {
        dispatch_all_types!(wide_floats, to, "conversion", T => Ok(erased::<F, T> as Convert))
    })
}

/// Elements that are converted at a time where parts are gathered or scattered.
const BLOCK: usize = 256;

/// Real numbers to the type of the parts, beside imaginary parts of 0.
fn to_complex(from: ScalarType, part: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - As [`between_reals`], where results have two parts of type `T`.
    unsafe fn erased<F: ConvertElement, T: ConvertElement + Default>(
        from: *const u8,
        to: *mut u8,
        count: usize,
    ) {
        let mut parts = [const { MaybeUninit::<T>::uninit() }; BLOCK];
        let (from, to) = (from.cast::<F>(), to.cast::<T>());
        for start in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the block takes `n`, which are then written.
            unsafe {
                convert_slice(from.add(start), parts.as_mut_ptr().cast::<T>(), n);
                for (i, part) in parts[..n].iter().enumerate() {
                    to.add(2 * (start + i)).write_unaligned(part.assume_init_read());
                    to.add(2 * (start + i) + 1).write_unaligned(T::default());
                }
            }
        }
    }
    dispatch_all_types!(all, from, "conversion", F => {
        dispatch_all_types!(wide_floats, part, "conversion", T => Ok(erased::<F, T> as Convert))
    })
}

/// The real parts, converted; imaginary parts are dropped, as in PyTorch.
fn real_part(part: ScalarType, to: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - As [`between_reals`], where the elements that are read have two parts of type `F`.
    unsafe fn erased<F: ConvertElement + Copy, T: ConvertElement>(
        from: *const u8,
        to: *mut u8,
        count: usize,
    ) {
        let mut parts = [const { MaybeUninit::<F>::uninit() }; BLOCK];
        let (from, to) = (from.cast::<F>(), to.cast::<T>());
        for start in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - start);
            // SAFETY: elements `start..start + n` of both sides; the block takes `n`, which are then read.
            unsafe {
                for (i, part) in parts[..n].iter_mut().enumerate() {
                    part.write(load_one(from.add(2 * (start + i))));
                }
                convert_slice(parts.as_ptr().cast::<F>(), to.add(start), n);
            }
        }
    }
    dispatch_all_types!(wide_floats, part, "conversion", F => {
        dispatch_all_types!(all, to, "conversion", T => Ok(erased::<F, T> as Convert))
    })
}

/// Whether either part differs from 0.
fn to_bool(part: ScalarType) -> Result<Convert> {
    /// # Safety
    /// - As [`between_reals`], where the elements that are read have two parts of type `F`, and results are bools.
    unsafe fn erased<F: ConvertElement + Copy>(from: *const u8, to: *mut u8, count: usize) {
        let from = from.cast::<F>();
        for i in 0..count {
            // SAFETY: element `i` of both sides.
            unsafe {
                let (re, im) = (load_one(from.add(2 * i)), load_one(from.add(2 * i + 1)));
                to.add(i).write(u8::from(ConvertElement::to_bool(re) | ConvertElement::to_bool(im)));
            }
        }
    }
    dispatch_all_types!(wide_floats, part, "conversion", F => Ok(erased::<F> as Convert))
}
