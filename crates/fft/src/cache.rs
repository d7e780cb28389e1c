//! The tables that were made last, shared by all threads: plans of transforms, and roots of unity.

use crate::error::OutOfMemory;
use crate::plan::Direction;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

/// The number of bytes beyond which the table whose last use is oldest is dropped.
const CAPACITY: usize = 64 << 20;
/// How often a thread tries to lock the cache.
const ATTEMPTS: usize = 1000;

type Key = (usize, Direction, TypeId);

struct Entry {
    table: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    last_use: u64,
}

#[derive(Default)]
struct Cache {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    uses: u64,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The cache, unless another thread holds it for longer than anything here takes: the child of a fork has no such thread, and there
/// nobody would unlock it.
fn lock() -> Option<MutexGuard<'static, Cache>> {
    for _ in 0..ATTEMPTS {
        match CACHE.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

/// The table of a type for a length and a direction, or what `make` makes: a table and its bytes. The cache is not locked meanwhile, so
/// two threads may make the same table.
pub(crate) fn find_or_make<V: Send + Sync + 'static>(
    length: usize,
    direction: Direction,
    make: impl FnOnce() -> Result<(V, usize), OutOfMemory>,
) -> Result<Arc<V>, OutOfMemory> {
    let key = (length, direction, TypeId::of::<V>());
    let cached = lock().and_then(|mut cache| cache.find(&key));
    if let Some(table) = cached.and_then(|table| table.downcast().ok()) {
        return Ok(table);
    }
    let (table, bytes) = make()?;
    let table = Arc::new(table);
    if let Some(mut cache) = lock() {
        cache.insert(key, table.clone(), bytes);
    }
    Ok(table)
}

impl Cache {
    fn find(&mut self, key: &Key) -> Option<Arc<dyn Any + Send + Sync>> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.last_use = self.uses;
        Some(entry.table.clone())
    }

    fn insert(&mut self, key: Key, table: Arc<dyn Any + Send + Sync>, bytes: usize) {
        if bytes > CAPACITY {
            return; // It would drop all others, and its transforms take longer than its tables.
        }
        self.uses += 1;
        let made = Entry { table, bytes, last_use: self.uses };
        self.bytes += bytes;
        if let Some(before) = self.entries.insert(key, made) {
            self.bytes -= before.bytes;
        }
        while self.bytes > CAPACITY {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(key) = oldest.map(|(key, _)| *key) else { return };
            self.bytes -= self.entries.remove(&key).map_or(0, |entry| entry.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_whose_last_use_is_oldest_is_dropped() {
        let mut cache = Cache::default();
        let key = |length| (length, Direction::Forward, TypeId::of::<f32>());
        for length in 1..=4 {
            cache.insert(key(length), Arc::new(length), CAPACITY / 4);
        }
        assert!(cache.find(&key(1)).is_some());
        cache.insert(key(5), Arc::new(5), CAPACITY / 4);
        let held: Vec<bool> = (1..=5).map(|length| cache.entries.contains_key(&key(length))).collect();
        assert_eq!(held, [true, false, true, true, true]);
        cache.insert(key(6), Arc::new(6), CAPACITY + 1);
        assert_eq!((cache.entries.len(), cache.bytes), (4, CAPACITY));
        cache.insert(key(5), Arc::new(5), CAPACITY / 8);
        assert_eq!((cache.entries.len(), cache.bytes), (4, CAPACITY - CAPACITY / 8));
    }
}
