//! Shared libraries that are opened at run time, and where NVRTC and cuBLAS are searched.
#![expect(unsafe_code, reason = "opens libraries and takes functions out of them")]

use flambeau_core::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};

/// A library, which stays open as long as the process: its functions are in use until then.
pub(crate) struct Library {
    handle: *mut c_void,
    name: String,
}

// SAFETY: the handle is only given to `dlsym`, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a library by its name or path.
    pub(crate) fn open(name: &str) -> Option<Self> {
        let text = CString::new(name).ok()?;
        // SAFETY: the name is terminated. The libraries that are opened here are NVIDIA's, whose initializers have no conditions.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        (!handle.is_null()).then(|| Library { handle, name: name.to_owned() })
    }

    /// The function of a name.
    ///
    /// # Safety
    /// - `F` is the type of a function pointer, and that of the function.
    ///
    /// # Errors
    /// `Device` where the library has no such function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "functions are pointers") };
        // SAFETY: the library is open, and the name is terminated.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if found.is_null() {
            let message =
                format!("expected the function {} in {} but it has none", name.to_string_lossy(), self.name);
            return Err(Error::new(ErrorKind::Device, message));
        }
        // SAFETY: a function pointer is as wide as a pointer, and this one is not null; its type is the caller's condition.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}

/// A table of a library's functions: `api! { Driver { init = c"cuInit" (flags: u32); } }`. All return a status, which is 0 where they
/// succeed.
macro_rules! api {
    ($(#[$doc:meta])* $name:ident { $($function:ident = $symbol:literal ($($argument:ident: $ty:ty),* $(,)?);)* }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $function: unsafe extern "C" fn($($argument: $ty),*) -> i32,)*
        }

        impl $name {
            /// Looks all functions up.
            ///
            /// # Errors
            /// `Device` where the library lacks one.
            pub(crate) fn load(library: &$crate::library::Library) -> ::flambeau_core::Result<Self> {
                // SAFETY: the types are those of the functions of these names in NVIDIA's headers.
                Ok(unsafe { $name { $($function: library.function($symbol)?,)* } })
            }
        }
    };
}

pub(crate) use api;

/// Opens the first library of one of these names that is in a folder where CUDA's libraries are, or that the system finds. A path is
/// preferred: the system may find another version.
pub(crate) fn find(names: &[&str]) -> Option<Library> {
    let in_folders = folders()
        .into_iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>());
    let by_path = in_folders.filter(|path| path.exists()).find_map(|path| {
        open_companions(&path);
        Library::open(&path.to_string_lossy())
    });
    by_path.or_else(|| names.iter().find_map(|name| Library::open(name)))
}

/// The libraries that NVRTC and cuBLAS use have to be open before: those in Python's packages do not look for them beside themselves.
fn open_companions(path: &Path) {
    let Some(files) = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else { return };
    let own = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let companion = if own.starts_with("libcublas") { "libcublasLt.so" } else { "libnvrtc-builtins.so" };
    let is_companion = |name: &str| name.starts_with(companion);
    for file in files.flatten() {
        if is_companion(&file.file_name().to_string_lossy()) {
            let _ = Library::open(&file.path().to_string_lossy());
        }
    }
}

/// Where CUDA's libraries may be: the folder in `FLAMBEAU_CUDA_PATH`, the toolkit's, those of the packages beside Python's.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for variable in ["FLAMBEAU_CUDA_PATH", "CUDA_HOME", "CUDA_PATH"] {
        if let Some(root) = std::env::var_os(variable).map(PathBuf::from) {
            folders.extend([root.join("lib64"), root.join("lib"), root]);
        }
    }
    folders.extend(python_packages().iter().flat_map(|packages| {
        ["cu13/lib", "cuda_nvrtc/lib", "cublas/lib", "cu12/lib"]
            .map(|folder| packages.join("nvidia").join(folder))
    }));
    folders.push("/usr/local/cuda/lib64".into());
    folders
}

/// The folders of Python's packages in the environment that is active.
fn python_packages() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("VIRTUAL_ENV").or_else(|| std::env::var_os("CONDA_PREFIX")) else {
        return Vec::new();
    };
    let Ok(versions) = std::fs::read_dir(Path::new(&root).join("lib")) else { return Vec::new() };
    versions.flatten().map(|version| version.path().join("site-packages")).collect()
}
