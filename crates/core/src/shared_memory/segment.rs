//! A segment that this process created: which chunks of it are in use, and which of them only others hold.

use super::mapping::Mapping;
use super::members::CREATOR;
use super::records::UNIT;
use super::space::Space;
use crate::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) struct Segment {
    pub(super) mapping: Arc<Mapping>,
    space: Space,
    /// The chunks in use, by their records: offsets and lengths.
    chunks: HashMap<u32, (usize, usize)>,
    used_bytes: usize,
    /// The free records of those before `unused`.
    free: Vec<u32>,
    unused: u32,
    /// The records of chunks that only other processes and messages hold.
    held_elsewhere: HashSet<u32>,
}

impl Segment {
    pub(super) fn create(bytes: usize) -> Result<Self> {
        let mapping = Arc::new(Mapping::create(bytes)?);
        let layout = mapping.layout;
        let space = Space::new(layout.data, layout.room() / UNIT * UNIT);
        Ok(Segment {
            mapping,
            space,
            chunks: HashMap::new(),
            used_bytes: 0,
            free: vec![],
            unused: 0,
            held_elsewhere: HashSet::new(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.mapping.layout.bytes
    }

    /// Whether any chunk of it is held.
    pub(super) fn is_used(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The bytes of all chunks that are held.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The record of a new chunk, which this process holds; `None` if there is no room.
    pub(super) fn allocate(&mut self, nbytes: usize) -> Option<u32> {
        if self.free.is_empty() && self.unused == self.mapping.layout.records {
            return None;
        }
        let bytes = chunk_bytes(nbytes);
        let start = self.space.take(bytes)?;
        let record = self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        self.chunks.insert(record, (start, bytes));
        self.used_bytes += bytes;
        self.mapping.write_record(record, start, nbytes);
        self.mapping.hold(record, CREATOR);
        Some(record)
    }

    /// Notes that this process has released a chunk.
    pub(super) fn release(&mut self, record: u32) {
        if self.mapping.is_free(record) {
            self.free_chunk(record);
        } else {
            self.held_elsewhere.insert(record);
        }
    }

    /// Notes that this process holds a chunk again that was sent back to it.
    pub(super) fn hold_again(&mut self, record: u32) {
        self.held_elsewhere.remove(&record);
    }

    /// Whether there are chunks that others may release.
    pub(super) fn has_chunks_held_elsewhere(&self) -> bool {
        !self.held_elsewhere.is_empty()
    }

    /// Frees chunks that others have released, or held when they ended.
    pub(super) fn sweep(&mut self) {
        if self.held_elsewhere.is_empty() {
            return;
        }
        self.mapping.reap_dead_members();
        let free: Vec<u32> = self.held_elsewhere.extract_if(|record| self.mapping.is_free(*record)).collect();
        free.into_iter().for_each(|record| self.free_chunk(record));
    }

    fn free_chunk(&mut self, record: u32) {
        if let Some((start, bytes)) = self.chunks.remove(&record) {
            self.space.put(start, bytes);
            self.used_bytes -= bytes;
            self.free.push(record);
        }
    }
}

/// How many bytes a chunk takes: at least one unit, so that chunks have different addresses, and whole units, so that they are aligned.
pub(super) fn chunk_bytes(nbytes: usize) -> usize {
    nbytes.max(1).next_multiple_of(UNIT)
}
