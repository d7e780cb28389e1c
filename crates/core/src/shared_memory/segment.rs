//! A segment that this process made: which chunks of it are in use, and which it has let go but others have not.

use super::mapping::Mapping;
use super::members::MAKER;
use super::records::UNIT;
use super::space::Space;
use crate::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) struct Segment {
    pub(super) mapping: Arc<Mapping>,
    space: Space,
    /// The chunks in use, by their records: where they are, and how many bytes they take.
    chunks: HashMap<u32, (usize, usize)>,
    used_bytes: usize,
    /// Records that are free, of those before `unused`.
    free: Vec<u32>,
    unused: u32,
    /// The records of chunks that are held by other processes and messages alone.
    left: HashSet<u32>,
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
            left: HashSet::new(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.mapping.layout.bytes
    }

    /// Whether somebody has a chunk of it.
    pub(super) fn is_used(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The bytes of all chunks that somebody has.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The record of a new chunk, which this process holds; `None` where there is no room.
    pub(super) fn allocate(&mut self, nbytes: usize) -> Option<u32> {
        if self.free.is_empty() && self.unused == self.mapping.layout.records {
            return None;
        }
        let bytes = taken_by(nbytes);
        let start = self.space.take(bytes)?;
        let record = self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        self.chunks.insert(record, (start, bytes));
        self.used_bytes += bytes;
        self.mapping.write_record(record, start, nbytes);
        self.mapping.hold(record, MAKER);
        Some(record)
    }

    /// Notes that this process holds a chunk no longer.
    pub(super) fn let_go(&mut self, record: u32) {
        if self.mapping.is_free(record) {
            self.put_back(record);
        } else {
            self.left.insert(record);
        }
    }

    /// Notes that it holds one again, which was sent back.
    pub(super) fn hold_again(&mut self, record: u32) {
        self.left.remove(&record);
    }

    /// Whether there are chunks that others may let go.
    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Finds what others have let go, or have ended with.
    pub(super) fn sweep(&mut self) {
        if self.left.is_empty() {
            return;
        }
        self.mapping.reap_dead_members();
        let free: Vec<u32> = self.left.extract_if(|record| self.mapping.is_free(*record)).collect();
        free.into_iter().for_each(|record| self.put_back(record));
    }

    fn put_back(&mut self, record: u32) {
        if let Some((start, bytes)) = self.chunks.remove(&record) {
            self.space.put(start, bytes);
            self.used_bytes -= bytes;
            self.free.push(record);
        }
    }
}

/// How many bytes a chunk takes: whole units, so that each begins where elements may, and no two at one address.
pub(super) fn taken_by(nbytes: usize) -> usize {
    nbytes.max(1).next_multiple_of(UNIT)
}
