//! Shared libraries that are opened at run time, and where NVRTC and cuBLAS are searched.
//!
//! The crate `cudarc` declares the functions of CUDA's libraries and looks each up at its first call, where it panics if the library or
//! the function is missing. So everything that is called is looked up here before, and what is missing is an `Error`.
#![expect(unsafe_code, reason = "opens libraries and looks functions up in them")]

use flambeau_core::{Result, bail, ensure};
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};

/// A library, which stays open as long as the process: its functions are in use until then.
pub(crate) struct Library {
    handle: *mut c_void,
    name: String,
}

impl Library {
    /// Opens a library by its name or path.
    pub(crate) fn open(name: &str) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// A library that the process has opened already.
    fn opened(name: &str) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_NOLOAD)
    }

    fn open_with(name: &str, flags: i32) -> Option<Self> {
        let text = CString::new(name).ok()?;
        // SAFETY: the name is terminated. The libraries that are opened here are NVIDIA's, whose initializers have no conditions.
        let handle = unsafe { libc::dlopen(text.as_ptr(), flags) };
        (!handle.is_null()).then(|| Library { handle, name: name.to_owned() })
    }

    fn address(&self, function: &CStr) -> *const c_void {
        // SAFETY: the library is open, and the name is terminated.
        unsafe { libc::dlsym(self.handle, function.as_ptr()) }
    }

    /// Checks that the library has all `functions`, and that it is the one in which `cudarc` looks them up. What is missing would be a
    /// panic there.
    ///
    /// # Errors
    /// `Device` otherwise.
    pub(crate) fn check(&self, functions: &Functions) -> Result<()> {
        let missing = functions.names.iter().find(|name| self.address(name).is_null());
        if let Some(function) = missing {
            bail!(
                Device,
                "expected the function {} in {} but it has none",
                function.to_string_lossy(),
                self.name
            );
        }
        // SAFETY: the call opens libraries by the names of NVIDIA's, as above, and closes them.
        let found = unsafe { (functions.is_present)() };
        let is_same = |name: &&CStr| (functions.address)(name) == self.address(name);
        ensure!(
            found && functions.names.iter().all(is_same),
            Device,
            "expected {} to be the library that the system finds under its name, but it finds {}",
            self.name,
            if found { "another one first" } else { "none" }
        );
        Ok(())
    }
}

/// Those functions of a library that are called, as `cudarc` declares them.
pub(crate) struct Functions {
    /// Whether `cudarc` finds the library.
    pub(crate) is_present: unsafe fn() -> bool,
    /// What `cudarc` calls by a name; null for nothing. The library is present.
    pub(crate) address: fn(&CStr) -> *const c_void,
    pub(crate) names: &'static [&'static CStr],
}

/// Imports functions from a module of `cudarc`, and lists them in `FUNCTIONS`: `functions! { cudarc::driver::sys { cuInit } }`. The rest of
/// the crate imports them from there, so that none is called that [`Library::check`] has not seen.
macro_rules! functions {
    ($($module:ident)::+ { $($function:ident),* $(,)? }) => {
        pub(crate) use $($module)::+::{$($function),*};

        pub(crate) const FUNCTIONS: $crate::library::Functions = $crate::library::Functions {
            is_present: $($module)::+::is_culib_present,
            address: |name| {
                // SAFETY: the library is present, and nothing is done with the function but to compare its address.
                let found = unsafe {
                    $($module)::+::culib().get::<*const ::std::ffi::c_void>(name.to_bytes_with_nul())
                };
                found.map_or(::std::ptr::null(), |symbol| *symbol)
            },
            names: &[$($crate::library::terminated(concat!(stringify!($function), "\0"))),*],
        };
    };
}

pub(crate) use functions;

/// A text that ends with 0.
pub(crate) const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_until_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

/// Opens the first library that there is of `names`, which are one name with version numbers, newest first, and then without.
///
/// `cudarc` opens it again, by its name: without a number, and then by number, newest first. It gets one that is open already, and else what
/// the system finds. So whatever the system finds without a number comes first here too, except in the folder that the user named, and
/// [`Library::check`] tells when that is another one. A path is preferred to a name with a number: the system may find another version.
pub(crate) fn find(names: &[&str]) -> Option<Library> {
    let (plain, versions) = names.split_last()?;
    let (named, others) = (roots(&["FLAMBEAU_CUDA_PATH"]), folders());
    versions.iter().find_map(|name| open_in(&named, name)).or_else(|| Library::open(plain)).or_else(|| {
        let opened = |name: &&str| Library::opened(name);
        let any = |name: &&str| open_in(&others, name).or_else(|| Library::open(name));
        versions.iter().find_map(|name| opened(name).or_else(|| any(name)))
    })
}

/// Opens a library in the first of these folders that has it.
fn open_in(folders: &[PathBuf], name: &str) -> Option<Library> {
    folders.iter().map(|folder| folder.join(name)).filter(|path| path.exists()).find_map(|path| {
        open_companions(&path);
        Library::open(&path.to_string_lossy())
    })
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

/// Where CUDA's libraries may be: the toolkit's folder, those of the packages beside Python's.
fn folders() -> Vec<PathBuf> {
    let mut folders = roots(&["CUDA_HOME", "CUDA_PATH"]);
    folders.extend(python_packages().iter().flat_map(|packages| {
        ["cu13/lib", "cuda_nvrtc/lib", "cublas/lib", "cu12/lib"]
            .map(|folder| packages.join("nvidia").join(folder))
    }));
    folders.push("/usr/local/cuda/lib64".into());
    folders
}

/// The folders of libraries in those that environment variables name.
fn roots(variables: &[&str]) -> Vec<PathBuf> {
    let roots = variables.iter().filter_map(std::env::var_os).map(PathBuf::from);
    roots.flat_map(|root| [root.join("lib64"), root.join("lib"), root]).collect()
}

/// The folders of Python's packages in the environment that is active: those of NVIDIA's libraries are below `nvidia`.
pub fn python_packages() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("VIRTUAL_ENV").or_else(|| std::env::var_os("CONDA_PREFIX")) else {
        return Vec::new();
    };
    let Ok(versions) = std::fs::read_dir(Path::new(&root).join("lib")) else { return Vec::new() };
    versions.flatten().map(|version| version.path().join("site-packages")).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    const PRESENT: Functions = Functions {
        is_present: || true,
        address: |name| c_library().address(name),
        names: &[c"strlen", c"memcpy"],
    };

    fn c_library() -> Library {
        Library::open("libc.so.6").unwrap()
    }

    #[test]
    fn a_library_is_accepted_only_if_all_is_there_and_the_same_one_is_called() {
        c_library().check(&PRESENT).unwrap();
        let error = |functions: Functions| c_library().check(&functions).unwrap_err().to_string();
        let missing = error(Functions { names: &[c"strlen", c"cuInit"], ..PRESENT });
        assert!(missing.contains("expected the function cuInit in libc.so.6"), "{missing}");
        let absent = error(Functions { is_present: || false, ..PRESENT });
        assert!(absent.contains("finds none"), "{absent}");
        let other = error(Functions { address: |_| std::ptr::null(), ..PRESENT });
        assert!(other.contains("finds another one first"), "{other}");
    }
}
