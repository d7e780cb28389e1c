//! Stores: keys and values that all processes see, by which they find each other and count. PyTorch's `Store`.

mod file;
mod hash;
mod tcp;

pub use file::FileStore;
pub use hash::HashStore;
pub use tcp::{TcpStore, TcpStoreOptions};

use flambeau_core::{Error, Result, error};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long [`Store::get`] and [`Store::wait`] wait by default. PyTorch's five minutes.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Keys and values that all processes see.
pub trait Store: Send + Sync {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Io` where the store cannot be reached.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// The value of a key; waits until it is set, at most for `timeout`.
    ///
    /// # Errors
    /// `Io` where the key was not set in time, or the store cannot be reached.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>>;

    /// Adds to the number of a key, which is 0 at first, and returns the sum. The number is stored as decimal digits.
    ///
    /// # Errors
    /// `InvalidArgument` where the value is no number, `Io` where the store cannot be reached.
    fn add(&self, key: &str, amount: i64) -> Result<i64>;

    /// Sets the value of a key if it is `expected`, or if it has none and `expected` is empty. Returns the value after that; for a key
    /// without a value where `expected` is not empty it returns `expected`, as PyTorch does.
    ///
    /// # Errors
    /// `Io` where the store cannot be reached.
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>>;

    /// Deletes a key, and says whether it had a value.
    ///
    /// # Errors
    /// `Io` where the store cannot be reached.
    fn delete_key(&self, key: &str) -> Result<bool>;

    /// Whether all keys have values.
    ///
    /// # Errors
    /// `Io` where the store cannot be reached.
    fn check(&self, keys: &[&str]) -> Result<bool>;

    /// How many keys have values.
    ///
    /// # Errors
    /// `Io` where the store cannot be reached.
    fn num_keys(&self) -> Result<usize>;

    /// Waits until all keys have values, at most for `timeout`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        let begin = Instant::now();
        keys.iter().try_for_each(|key| self.get(key, timeout.saturating_sub(begin.elapsed())).map(drop))
    }
}

/// The keys of another store that begin with a prefix.
pub struct PrefixStore {
    prefix: String,
    store: Arc<dyn Store>,
}

impl PrefixStore {
    /// Keys of `store` that begin with `prefix` and a slash.
    pub fn new(prefix: impl Into<String>, store: Arc<dyn Store>) -> Self {
        PrefixStore { prefix: prefix.into(), store }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }
}

impl Store for PrefixStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(&self.key(key), value)
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        self.store.get(&self.key(key), timeout)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.store.add(&self.key(key), amount)
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.store.compare_set(&self.key(key), expected, desired)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        self.store.delete_key(&self.key(key))
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        let keys: Vec<String> = keys.iter().map(|key| self.key(key)).collect();
        self.store.check(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn num_keys(&self) -> Result<usize> {
        self.store.num_keys()
    }
}

/// The number that a value is.
fn number(key: &str, value: &[u8]) -> Result<i64> {
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|_| {
        error!(InvalidArgument("add", "key"), "expected the value of {key:?} to be a number but got {text:?}")
    })
}

/// The sum of a number and an amount.
fn sum(key: &str, value: Option<&[u8]>, amount: i64) -> Result<i64> {
    let before = value.map_or(Ok(0), |value| number(key, value))?;
    before
        .checked_add(amount)
        .ok_or_else(|| error!(Overflow("add", "amount"), "{before} + {amount} of {key:?} exceeds 64 bits"))
}

/// The error of a key that was not set in time.
fn missing(key: &str, timeout: Duration) -> Error {
    error!(
        Io("get", "key"),
        "wait timeout after {timeout:?}: no process has set the key {key:?} of the store"
    )
}
