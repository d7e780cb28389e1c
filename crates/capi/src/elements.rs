//! Guards on elements, which C acquires and releases.

use crate::entry::{fallible, infallible, list, write};
use crate::handles::borrow;
use flambeau_core::{Access, Result, Storage, StorageGuards, bail};
use flambeau_ops::Tensor;
use flambeau_plugin::abi::{FbError, FbGuard, FbTensor, READ, WRITE};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

/// Guards, the storages that they borrow, and the addresses that they permit to use.
struct Guard {
    guards: ManuallyDrop<StorageGuards<'static>>,
    /// A box, of which `guards` holds a reference.
    operands: *mut [(&'static Storage, Access)],
    /// Keeps the storages.
    _tensors: Vec<Tensor>,
    data: Vec<*mut u8>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the guards are released once, here, before what they borrow: the list, which was a box, and after this function the
        // tensors.
        unsafe {
            ManuallyDrop::drop(&mut self.guards);
            drop(Box::from_raw(self.operands));
        }
    }
}

fn access(number: u32) -> Result<Access> {
    match number {
        READ => Ok(Access::Read),
        WRITE => Ok(Access::Write),
        other => bail!(InvalidArgument, "expected FB_READ or FB_WRITE but got {other}"),
    }
}

impl Guard {
    fn acquire(tensors: Vec<Tensor>, access: &[Access]) -> Result<Self> {
        // SAFETY: the tensors keep their storages until the guard is dropped, which drops this reference first.
        let storage = |tensor: &Tensor| unsafe { &*ptr::from_ref(tensor.storage()) };
        let operands: Box<[(&'static Storage, Access)]> =
            tensors.iter().zip(access).map(|(tensor, access)| (storage(tensor), *access)).collect();
        let operands = Box::into_raw(operands);
        // SAFETY: the list lives until it is dropped below, or by `Guard`.
        let acquired = unsafe { StorageGuards::acquire(&*operands) };
        let guards = match acquired {
            Ok(guards) => guards,
            Err(error) => {
                // SAFETY: no guard borrows it.
                drop(unsafe { Box::from_raw(operands) });
                return Err(error);
            }
        };
        // Geometries stay as they are while the guards are held, and not before: only now do the addresses belong to them.
        let data = tensors.iter().map(|tensor| guards.guarded().ptr(tensor.strided_view())).collect();
        Ok(Guard { guards: ManuallyDrop::new(guards), operands, _tensors: tensors, data })
    }
}

pub(crate) unsafe extern "C" fn guard_acquire(
    tensors: *const *mut FbTensor,
    accesses: *const u32,
    count: usize,
    out: *mut *mut FbGuard,
) -> *mut FbError {
    // SAFETY: what `flambeau.h` demands.
    fallible("guard_acquire", || unsafe {
        write(out, || {
            let kept = |handle: &*mut FbTensor| borrow(*handle, "tensors").map(|tensor| tensor.clone());
            let tensors = list(tensors, count, "tensors")?.iter().map(kept).collect::<Result<_>>()?;
            let accesses = list(accesses, count, "access")?.iter().map(|number| access(*number));
            let guard = Guard::acquire(tensors, &accesses.collect::<Result<Vec<_>>>()?)?;
            Ok(Box::into_raw(Box::new(guard)).cast())
        })
    })
}

pub(crate) unsafe extern "C" fn guard_data(guard: *const FbGuard, index: usize) -> *mut c_void {
    // SAFETY: null, or a guard that is held.
    let guard = unsafe { guard.cast::<Guard>().as_ref() };
    guard.and_then(|guard| guard.data.get(index)).map_or(ptr::null_mut(), |data| data.cast())
}

pub(crate) unsafe extern "C" fn guard_release(guard: *mut FbGuard) {
    if !guard.is_null() {
        // SAFETY: a guard that is held, and released once.
        infallible((), || drop(unsafe { Box::from_raw(guard.cast::<Guard>()) }));
    }
}
