//! Atomic replacement of a file: completely or not at all.

use flambeau_core::{Error, ErrorKind, Result, bail};
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Has `write` fill a temporary file beside `path`, waits until it is on the disk, and renames it to `path`. The new file has the
/// permissions of the replaced one, or the default ones if there was none. A failure leaves nothing behind.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let before = replaced(path)?;
    let folder = folder(path);
    let mut temporary = Temporary::create(folder, before.is_some())?;
    write(&mut temporary.file)?;
    if let Some(before) = before {
        temporary.file.set_permissions(before.permissions())?;
    }
    temporary.file.sync_all()?;
    temporary.rename(path)?;
    sync(folder)
}

/// The file that the new one replaces. A symbolic link is replaced itself, and its target stays as it is.
fn replaced(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(before) if before.is_file() => Ok(Some(before)),
        Ok(before) if before.is_symlink() => Ok(None),
        Ok(_) => bail!(Io, "expected the name of a file but got one of a folder or a device"),
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.file_name().is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is removed unless it was renamed.
struct Temporary {
    file: File,
    path: PathBuf,
    is_renamed: bool,
}

/// Names are drawn from 2^64: a second one is needed only where somebody creates files to provoke collisions.
const TRIES: usize = 100;

impl Temporary {
    /// In the folder of the file to replace, since a rename does not cross file systems. A private one is its owner's alone until
    /// it has the permissions of the file that it replaces.
    fn create(folder: &Path, is_private: bool) -> Result<Self> {
        let mut options = OpenOptions::new();
        // `O_CREAT | O_EXCL`: a file or a link, even a dangling one, that has the name already is an error.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_private { 0o600 } else { 0o666 });
        for _ in 0..TRIES {
            let path = folder.join(format!(".{:016x}.tmp", RandomState::new().build_hasher().finish()));
            match options.open(&path) {
                Ok(file) => return Ok(Temporary { file, path, is_renamed: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(ErrorKind::Io, format!("expected a free name for a file in {}", folder.display())))
    }

    fn rename(&mut self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The error that led here says more than one of this would.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The new name of the file is on the disk too. Only Unix lets folders be opened.
#[cfg(unix)]
fn sync(folder: &Path) -> Result<()> {
    match File::open(folder) {
        Ok(folder) => Ok(folder.sync_all()?),
        // A folder may be one that can be written to and not read; its files are then as safe as they can be made.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn sync(_: &Path) -> Result<()> {
    Ok(())
}
