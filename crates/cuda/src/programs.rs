//! Compiled kernels: in memory by key, and on disk, so that a later process compiles nothing.
//!
//! A file has the settings and the whole source beside the image, and is used only if both are the same. It is written under another name
//! and then renamed, so that no process sees a part of one; a broken file is compiled anew. What several threads or processes need at the same
//! time is compiled by one of them, and the others wait.
#![expect(unsafe_code, reason = "gives the driver the images of programs")]

use crate::driver::{CUfunction, cuModuleGetFunction, cuModuleLoadData};
use crate::gpu::Gpu;
use crate::nvrtc::nvrtc;
use flambeau_core::{Error, Result, error};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernels of a device, by key.
#[derive(Default)]
pub(crate) struct Programs {
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

/// A kernel, once it is compiled.
#[derive(Default)]
struct Slot {
    function: OnceLock<Function>,
    /// Held by the thread that compiles it.
    compiling: Mutex<()>,
}

/// A kernel, loaded on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(crate) CUfunction);

// SAFETY: functions of the driver may be launched by any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

static COMPILED: AtomicU64 = AtomicU64::new(0);

/// How many programs this process has compiled.
pub fn compiled_programs() -> u64 {
    COMPILED.load(Ordering::Relaxed)
}

impl Gpu {
    /// The kernel of a key, whose program `source` writes if there is none yet. Every program has one kernel, called `kernel`.
    ///
    /// # Errors
    /// `Device` where NVRTC is not installed or the driver refuses the program, `Internal` where it does not compile.
    pub(crate) fn function(&self, key: &str, source: impl FnOnce() -> String) -> Result<Function> {
        let slot = {
            let mut slots = lock(&self.programs.slots);
            match slots.get(key) {
                Some(slot) => match slot.function.get() {
                    Some(function) => return Ok(*function),
                    None => Arc::clone(slot),
                },
                None => Arc::clone(slots.entry(key.to_owned()).or_default()),
            }
        };
        // Without the lock of all kernels, so that threads compile different ones at the same time.
        let _compiling = lock(&slot.compiling);
        if let Some(function) = slot.function.get() {
            return Ok(*function);
        }
        let function = self.load(&source())?;
        Ok(*slot.function.get_or_init(|| function))
    }

    fn load(&self, source: &str) -> Result<Function> {
        let nvrtc = nvrtc()?;
        let entry = Entry { settings: nvrtc.settings(self.capability), source };
        let path = folder().map(|folder| folder.join(entry.file_name()));
        let cached = || self.load_image(&entry.read(path.as_deref()?)?).ok();
        if let Some(function) = cached() {
            return Ok(function);
        }
        let _lock = path.as_deref().and_then(CompileLock::wait_for);
        if let Some(function) = cached() {
            return Ok(function);
        }
        let images = nvrtc.compile(source, self.capability)?;
        COMPILED.fetch_add(1, Ordering::Relaxed);
        // A driver that is older than NVRTC refuses its PTX, and one of another major version its machine code.
        let mut refused = None;
        for image in images {
            match self.load_image(&image) {
                Ok(function) => {
                    if let Some(path) = &path {
                        entry.write(path, &image);
                    }
                    return Ok(function);
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| error!(Internal, "cuda: a compilation gave no program")))
    }

    fn load_image(&self, image: &[u8]) -> Result<Function, Error> {
        self.activate()?;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the image is machine code, whose header has its length, or text that ends with 0; the functions write handles.
        unsafe {
            let status = cuModuleLoadData(&raw mut module, image.as_ptr().cast());
            self.driver.check(status, "cuModuleLoadData")?;
            let status = cuModuleGetFunction(&raw mut function, module, c"kernel".as_ptr());
            self.driver.check(status, "cuModuleGetFunction")?;
        }
        Ok(Function(function))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock of the process that compiles a program: of those that start together, such as the ranks of a machine, one compiles it. Where
/// files cannot be locked, each does.
struct CompileLock {
    /// Locked until it is closed, which the system does for a process that ends.
    _file: File,
    path: PathBuf,
}

impl CompileLock {
    fn wait_for(program: &Path) -> Option<Self> {
        std::fs::create_dir_all(program.parent()?).ok()?;
        let path = program.with_extension("lock");
        let file = File::create(&path).ok()?;
        file.lock().ok()?;
        Some(CompileLock { _file: file, path })
    }
}

impl Drop for CompileLock {
    /// Those that wait have opened the file, and the program is in the cache for those that come.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes the image of a program to the cache, unless it is there.
///
/// # Errors
/// `Device` where NVRTC is not installed, `Internal` where it does not compile.
pub(crate) fn compile_into_cache(source: &str, capability: (i32, i32)) -> Result<()> {
    let nvrtc = nvrtc()?;
    let entry = Entry { settings: nvrtc.settings(capability), source };
    let Some(path) = folder().map(|folder| folder.join(entry.file_name())) else { return Ok(()) };
    if entry.read(&path).is_none()
        && let Some(image) = nvrtc.compile(source, capability)?.first()
    {
        entry.write(&path, image);
    }
    Ok(())
}

/// The folder of compiled programs: in `FLAMBEAU_CACHE`, or else in the user's cache; `None` where there is neither.
fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let root = variable("FLAMBEAU_CACHE").or_else(|| Some(of_user()?.join("flambeau")))?;
    Some(root.join("cuda"))
}

const HEADER: &[u8] = b"flambeau cuda program 1\n";

/// A program in the cache on disk.
struct Entry<'a> {
    settings: String,
    source: &'a str,
}

impl Entry<'_> {
    fn file_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.settings, self.source).hash(&mut hasher);
        format!("{:016x}.bin", hasher.finish())
    }

    /// What comes before the image.
    fn head(&self) -> Vec<u8> {
        let mut head = HEADER.to_vec();
        for text in [self.settings.as_str(), self.source] {
            head.extend((text.len() as u64).to_le_bytes());
            head.extend(text.as_bytes());
        }
        head
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let bytes = std::fs::read(path).ok()?;
        let rest = bytes.strip_prefix(self.head().as_slice())?;
        let (length, image) = rest.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*length) == image.len() as u64).then(|| image.to_vec())
    }

    /// Writes the file. A cache that cannot be written is only slower.
    fn write(&self, path: &Path, image: &[u8]) {
        let mut bytes = self.head();
        bytes.extend((image.len() as u64).to_le_bytes());
        bytes.extend(image);
        let other = path.with_extension(format!("{}.tmp", std::process::id()));
        let made = path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok());
        if made && std::fs::write(&other, bytes).is_ok() && std::fs::rename(&other, path).is_err() {
            let _ = std::fs::remove_file(&other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_used_only_if_it_is_whole_and_of_the_same_source() {
        let folder = std::env::temp_dir().join(format!("flambeau-cuda-{}", std::process::id()));
        let entry = Entry { settings: "nvrtc 13.0 sm_90".to_owned(), source: "kernel" };
        let path = folder.join(entry.file_name());
        assert!(entry.read(&path).is_none());
        entry.write(&path, b"image");
        assert_eq!(entry.read(&path).as_deref(), Some(&b"image"[..]));
        let other = Entry { settings: "nvrtc 13.0 sm_80".to_owned(), source: "kernel" };
        assert_ne!(other.file_name(), entry.file_name());
        assert!(other.read(&path).is_none());
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(entry.read(&path).is_none());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
