//! A store in a file that all processes can open: changes are appended under the system's lock of files. PyTorch's `FileStore`.

use super::{Store, missing, sum};
use crate::wire::{Decoder, Encoder, read_message, write_message};
use flambeau_core::Result;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the file is read while a process waits for a key.
const INTERVAL: Duration = Duration::from_millis(10);

/// A store in a file.
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// The store in the file at `path`, which is created if there is none. A file of an earlier run has that run's keys: delete it first.
    ///
    /// # Errors
    /// `Io` where the file cannot be opened.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let store = FileStore { path: path.as_ref().to_owned() };
        store.open()?;
        Ok(store)
    }

    fn open(&self) -> Result<File> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(&self.path);
        file.map_err(|e| flambeau_core::Error::from(e).context(self.path.display()))
    }

    /// Reads under the shared lock.
    fn read<R>(&self, read: impl FnOnce(&HashMap<String, Vec<u8>>) -> R) -> Result<R> {
        let mut file = self.open()?;
        file.lock_shared()?;
        let values = values(&mut file)?;
        file.unlock()?;
        Ok(read(&values))
    }

    /// Changes a key under the exclusive lock: `change` gets its value, and returns what happens to it and a result.
    fn change<R>(
        &self,
        key: &str,
        change: impl FnOnce(Option<&Vec<u8>>) -> Result<(Option<Change>, R)>,
    ) -> Result<R> {
        let mut file = self.open()?;
        file.lock()?;
        let values = values(&mut file)?;
        let (changed, result) = change(values.get(key))?;
        let encoder = Encoder::default().bytes(key.as_bytes());
        match changed {
            Some(Change::Set(value)) => write_message(&mut file, &encoder.u8(1).bytes(&value).finish())?,
            Some(Change::Delete) => write_message(&mut file, &encoder.u8(0).finish())?,
            None => {}
        }
        file.unlock()?;
        Ok(result)
    }
}

enum Change {
    Set(Vec<u8>),
    Delete,
}

/// All values of a file.
fn values(file: &mut File) -> Result<HashMap<String, Vec<u8>>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let mut values = HashMap::new();
    while file.stream_position()? < length {
        let message = read_message(file)?;
        let mut decoder = Decoder::new(&message);
        let key = decoder.text()?;
        match decoder.u8()? {
            0 => values.remove(&key),
            _ => values.insert(key, decoder.bytes()?.to_vec()),
        };
    }
    Ok(values)
}

impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(key, |_| Ok((Some(Change::Set(value.to_vec())), ())))
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        let begin = Instant::now();
        loop {
            if let Some(value) = self.read(|values| values.get(key).cloned())? {
                return Ok(value);
            }
            if begin.elapsed() >= timeout {
                return Err(missing(key, timeout));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.change(key, |value| {
            let sum = sum(key, value.map(Vec::as_slice), amount)?;
            Ok((Some(Change::Set(sum.to_string().into_bytes())), sum))
        })
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.change(key, |value| {
            Ok(match value {
                Some(value) if value != expected => (None, value.clone()),
                None if !expected.is_empty() => (None, expected.to_vec()),
                _ => (Some(Change::Set(desired.to_vec())), desired.to_vec()),
            })
        })
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        self.change(key, |value| Ok((value.map(|_| Change::Delete), value.is_some())))
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.read(|values| keys.iter().all(|key| values.contains_key(*key)))
    }

    fn num_keys(&self) -> Result<usize> {
        self.read(HashMap::len)
    }
}
