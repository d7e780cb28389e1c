//! A store in the memory of one process, which a server of [`TcpStore`](super::TcpStore) holds too. PyTorch's `HashStore`.

use super::{Store, missing, sum};
use flambeau_core::Result;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A store for the threads of one process.
///
/// ```
/// use flambeau_distributed::{HashStore, Store};
/// let store = HashStore::default();
/// store.set("key", b"value")?;
/// assert_eq!(store.get("key", std::time::Duration::ZERO)?, b"value");
/// assert_eq!((store.add("count", 2)?, store.add("count", 3)?), (2, 5));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Default)]
pub struct HashStore {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl Store for HashStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.values.lock().insert(key.to_owned(), value.to_vec());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        let end = Instant::now().checked_add(timeout);
        let mut values = self.values.lock();
        loop {
            if let Some(value) = values.get(key) {
                return Ok(value.clone());
            }
            match end {
                None => self.changed.wait(&mut values),
                Some(end) if Instant::now() >= end => return Err(missing(key, timeout)),
                Some(end) => drop(self.changed.wait_until(&mut values, end)),
            }
        }
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        let mut values = self.values.lock();
        let sum = sum(key, values.get(key).map(Vec::as_slice), amount)?;
        values.insert(key.to_owned(), sum.to_string().into_bytes());
        self.changed.notify_all();
        Ok(sum)
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        let mut values = self.values.lock();
        let now = match values.get(key) {
            Some(value) if value != expected => value.clone(),
            None if !expected.is_empty() => expected.to_vec(),
            _ => {
                values.insert(key.to_owned(), desired.to_vec());
                self.changed.notify_all();
                desired.to_vec()
            }
        };
        Ok(now)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        Ok(self.values.lock().remove(key).is_some())
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        let values = self.values.lock();
        Ok(keys.iter().all(|key| values.contains_key(*key)))
    }

    fn num_keys(&self) -> Result<usize> {
        Ok(self.values.lock().len())
    }
}
