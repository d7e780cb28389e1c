//! A file takes the place of another at once, or not at all.

use flambeau_core::{Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Has `write` make a file beside `path`, waits until it is on the disk, and puts it in the place of `path`.
pub(super) fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let temporary = Temporary::beside(path)?;
    // Whoever writes may make a file that only its owner can read; this one is as readable as any other new file.
    let permissions = File::create(&temporary.0)?.metadata()?.permissions();
    write(&temporary.0)?;
    fs::set_permissions(&temporary.0, permissions)?;
    File::open(&temporary.0)?.sync_all()?;
    fs::rename(&temporary.0, path)?;
    sync_folder(path)
}

/// A file that is removed unless it was renamed.
struct Temporary(PathBuf);

impl Temporary {
    /// In the same folder, since a rename does not cross file systems, under a name that nobody else uses.
    fn beside(path: &Path) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = path.file_name() else { bail!(InvalidArgument, "expected the name of a file") };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}-{count}.tmp", std::process::id()));
        Ok(Temporary(path.with_file_name(temporary)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

/// The new name of the file is on the disk too. Only Unix lets folders be opened.
#[cfg(unix)]
fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> Result<()> {
    Ok(())
}
