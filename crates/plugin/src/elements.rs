//! The elements of a tensor, under a guard.

use crate::abi::{FbGuard, READ, WRITE};
use crate::error::{Error, ErrorKind, Result, taken};
use crate::table::member;
use crate::tensor::Tensor;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// A Rust type of elements. Every bit pattern is a value of it, and no other type implements it.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The number of the type in `flambeau.h`.
    const TYPE: i32;
}

mod sealed {
    /// What only this crate implements.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty = $number:literal),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const TYPE: i32 = $number;
        }
    )*};
}

elements!(u8 = 0, i8 = 1, i16 = 2, i32 = 3, i64 = 4, f32 = 6, f64 = 7, u16 = 27, u32 = 28, u64 = 29);

/// A held guard, and what it permits to access.
struct Guard<T> {
    guard: *mut FbGuard,
    data: *mut T,
    length: usize,
    of: PhantomData<T>,
}

impl<T: Element> Guard<T> {
    fn acquire(tensor: &Tensor, access: u32) -> Result<Self> {
        let (acquire, data) = (member!(guard_acquire), member!(guard_data));
        let (handle, mut guard) = (tensor.handle(), ptr::null_mut());
        // SAFETY: lists of one, and memory for the result.
        unsafe { taken(acquire(&raw const handle, &raw const access, 1, &raw mut guard)) }?;
        let mut held = Guard { guard, data: ptr::dangling_mut(), length: 0, of: PhantomData };
        // The geometry stays as it is from now on.
        let (dtype, is_dense, numel) = (tensor.dtype()?, tensor.is_contiguous()?, tensor.numel()?);
        if dtype != T::TYPE {
            let message = format!("expected elements of type {} but got type {dtype}", T::TYPE);
            return Err(Error::new(ErrorKind::Dtype, message));
        }
        if !is_dense {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "expected a dense tensor; `contiguous` makes one",
            ));
        }
        if numel > 0 {
            // SAFETY: the guard is held.
            held.data = unsafe { data(held.guard, 0) }.cast();
            held.length = numel as usize;
        }
        Ok(held)
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        let release = || -> Result<()> {
            let release = member!(guard_release);
            // SAFETY: it is held, by this thread, since it is not `Send`.
            unsafe { release(self.guard) };
            Ok(())
        };
        // There is no guard without a table.
        let _ = release();
    }
}

/// Elements to read, as a slice in row-major order.
pub struct Read<'t, T>(Guard<T>, PhantomData<&'t Tensor>);

/// Elements to read and write, as a slice in row-major order.
pub struct Write<'t, T>(Guard<T>, PhantomData<&'t Tensor>);

impl<T> Deref for Read<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the guard permits reading so many elements, and nobody writes them meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.data, self.0.length) }
    }
}

impl<T> Deref for Write<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.data, self.0.length) }
    }
}

impl<T> DerefMut for Write<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the guard excludes all others.
        unsafe { std::slice::from_raw_parts_mut(self.0.data, self.0.length) }
    }
}

impl Tensor {
    /// The elements of a dense tensor, under a guard for reading.
    ///
    /// # Errors
    /// `Dtype` for elements of another type, `InvalidArgument` for a tensor that is not dense; `Busy` where this thread holds the elements
    /// for writing, `Device` where they are not the host's.
    pub fn read<T: Element>(&self) -> Result<Read<'_, T>> {
        Guard::acquire(self, READ).map(|guard| Read(guard, PhantomData))
    }

    /// The same for reading and writing.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and `Aliasing` for memory that may not be written.
    pub fn write<T: Element>(&self) -> Result<Write<'_, T>> {
        Guard::acquire(self, WRITE).map(|guard| Write(guard, PhantomData))
    }
}
