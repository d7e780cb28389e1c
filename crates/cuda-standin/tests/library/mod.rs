//! Where a test finds the stand-in's library, and NVRTC.

use std::ffi::{CStr, CString};
use std::path::PathBuf;

/// The folder of the test's executable, in which cargo puts the library too.
pub(crate) fn folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

pub(crate) fn library() -> PathBuf {
    folder().join("libflambeau_cuda_standin.so")
}

/// The folder of NVRTC; `None` if it was not fetched.
pub(crate) fn nvrtc() -> Option<PathBuf> {
    let target = folder().ancestors().nth(2)?.to_owned();
    Some(target.join("cuda-tools/nvidia/cu13/lib")).filter(|folder| folder.exists())
}

/// The address of a function of the library, of which the process has one copy: that of the driver's user.
pub(crate) fn symbol(name: &CStr) -> *mut libc::c_void {
    let path = CString::new(library().to_str().unwrap()).unwrap();
    // SAFETY: the library is this project's, and both texts end with a zero byte.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null(), "{path:?}");
        libc::dlsym(handle, name.as_ptr())
    }
}
