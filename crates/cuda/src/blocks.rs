//! Which memory is free: segments that the device gave, cut into blocks, which are joined with free neighbours when they are freed.
//!
//! | size of the block | cut from segments of |
//! |---|---|
//! | up to 1 MiB | 2 MiB |
//! | up to 10 MiB | 20 MiB |
//! | above | the size, rounded up to 2 MiB |
//!
//! The smallest free block that is large enough is used. Blocks of the three kinds are apart, so that small ones that live long do not
//! cut large segments to pieces.

use flambeau_core::Result;
use std::collections::{BTreeMap, BTreeSet};

/// What gives segments and takes them back.
pub(crate) trait SegmentSource {
    /// The address of a new segment.
    ///
    /// # Errors
    /// `OutOfMemory` where there is no such segment.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Takes a segment back.
    fn free(&self, address: u64);
}

/// Sizes and addresses of blocks are multiples of this.
pub(crate) const ROUNDING: usize = 512;
const MIB: usize = 1 << 20;

/// The kinds of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Small,
    Medium,
    Large,
}

impl Kind {
    fn of(bytes: usize) -> Self {
        match bytes {
            0..=MIB => Kind::Small,
            _ if bytes <= 10 * MIB => Kind::Medium,
            _ => Kind::Large,
        }
    }

    /// Bytes of the segment from which a block is cut.
    fn segment(self, bytes: usize) -> Option<usize> {
        match self {
            Kind::Small => Some(2 * MIB),
            Kind::Medium => Some(20 * MIB),
            Kind::Large => bytes.checked_next_multiple_of(2 * MIB),
        }
    }

    /// Whether what remains of a block of `room` bytes becomes a block of its own.
    fn splits(self, rest: usize) -> bool {
        rest >= if self == Kind::Large { MIB } else { ROUNDING }
    }
}

/// A contiguous run of a segment.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: usize,
    kind: Kind,
    is_free: bool,
    /// Whether a segment begins here.
    begins_segment: bool,
}

/// All blocks of a device.
#[derive(Default)]
pub(crate) struct Blocks {
    /// By address, adjacent ones of a segment after each other.
    all: BTreeMap<u64, Block>,
    /// Free blocks by kind, then by size.
    free: BTreeSet<(Kind, usize, u64)>,
    /// Bytes of all segments.
    reserved: usize,
    /// Bytes of free blocks.
    cached: usize,
    /// Whether free segments stay.
    keeps_segments: bool,
}

impl Blocks {
    /// Blocks whose segments stay when they are free: a captured graph has their addresses.
    pub(crate) fn keeping_segments() -> Self {
        Blocks { keeps_segments: true, ..Blocks::default() }
    }

    /// Whether an address is in a segment.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let before = self.all.range(..=address).next_back();
        before.is_some_and(|(start, block)| address < start + block.bytes as u64)
    }

    /// Addresses and bytes of all segments.
    pub(crate) fn segments(&self) -> Vec<(u64, usize)> {
        let mut segments: Vec<(u64, usize)> = Vec::new();
        for (address, block) in &self.all {
            match segments.last_mut().filter(|_| !block.begins_segment) {
                Some((_, bytes)) => *bytes += block.bytes,
                None => segments.push((*address, block.bytes)),
            }
        }
        segments
    }

    /// The address of a block of at least so many bytes. Where the source has no segment, free segments are returned to it first.
    ///
    /// # Errors
    /// Those of the source; then nothing has changed but what is cached.
    pub(crate) fn allocate(&mut self, source: &impl SegmentSource, bytes: usize) -> Result<u64> {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(ROUNDING) else {
            return source.allocate(usize::MAX);
        };
        let kind = Kind::of(bytes);
        if let Some(address) = self.take(kind, bytes) {
            return Ok(address);
        }
        let segment = kind.segment(bytes).unwrap_or(usize::MAX);
        let address = match source.allocate(segment) {
            Ok(address) => address,
            Err(_) => {
                self.release_free(source);
                source.allocate(segment)?
            }
        };
        self.reserved += segment;
        self.cached += segment;
        self.all.insert(address, Block { bytes: segment, kind, is_free: true, begins_segment: true });
        self.free.insert((kind, segment, address));
        self.cut(address, bytes);
        Ok(address)
    }

    /// The smallest free block that is large enough, cut to size.
    fn take(&mut self, kind: Kind, bytes: usize) -> Option<u64> {
        let found = self.free.range((kind, bytes, 0)..).next().copied();
        let (_, _, address) = found.filter(|(of, ..)| *of == kind)?;
        self.cut(address, bytes);
        Some(address)
    }

    /// Marks the first bytes of a free block as used, and what remains as another free block if it is large enough.
    fn cut(&mut self, address: u64, bytes: usize) {
        let Some(block) = self.all.get_mut(&address) else { return };
        let (kind, room) = (block.kind, block.bytes);
        self.free.remove(&(kind, room, address));
        block.is_free = false;
        let rest = room - bytes;
        if kind.splits(rest) {
            block.bytes = bytes;
            let next = address + bytes as u64;
            self.all.insert(next, Block { bytes: rest, kind, is_free: true, begins_segment: false });
            self.free.insert((kind, rest, next));
            self.cached -= bytes;
        } else {
            self.cached -= room;
        }
    }

    /// Frees the block at an address, and joins it with free neighbours.
    pub(crate) fn free(&mut self, address: u64) {
        let Some(block) = self.all.get(&address).copied().filter(|block| !block.is_free) else { return };
        self.cached += block.bytes;
        let (mut start, mut merged) = (address, block);
        let next = address + block.bytes as u64;
        if let Some(after) =
            self.all.get(&next).copied().filter(|after| after.is_free && !after.begins_segment)
        {
            self.all.remove(&next);
            self.free.remove(&(after.kind, after.bytes, next));
            merged.bytes += after.bytes;
        }
        let before = self.all.range(..address).next_back().map(|(address, before)| (*address, *before));
        if let Some((at, before)) = before
            && before.is_free
            && !block.begins_segment
            && at + before.bytes as u64 == address
        {
            self.all.remove(&address);
            self.free.remove(&(before.kind, before.bytes, at));
            merged =
                Block { bytes: before.bytes + merged.bytes, begins_segment: before.begins_segment, ..merged };
            start = at;
        }
        merged.is_free = true;
        self.all.insert(start, merged);
        self.free.insert((merged.kind, merged.bytes, start));
    }

    /// Returns segments of which nothing is in use.
    pub(crate) fn release_free(&mut self, source: &impl SegmentSource) {
        if self.keeps_segments {
            return;
        }
        let is_whole = |(address, block): (&u64, &Block)| {
            let end = address + block.bytes as u64;
            let ends = self.all.get(&end).is_none_or(|next| next.begins_segment);
            (block.is_free && block.begins_segment && ends).then_some((*address, *block))
        };
        let whole: Vec<(u64, Block)> = self.all.iter().filter_map(is_whole).collect();
        for (address, block) in whole {
            self.all.remove(&address);
            self.free.remove(&(block.kind, block.bytes, address));
            self.reserved -= block.bytes;
            self.cached -= block.bytes;
            source.free(address);
        }
    }

    /// Bytes that the device gave, and how many of them are free.
    pub(crate) fn reserved_and_cached(&self) -> (usize, usize) {
        (self.reserved, self.cached)
    }
}

#[cfg(test)]
mod tests;
