//! Which bytes of a segment are free. The process that created the segment keeps this in memory of its own, which other processes cannot
//! corrupt.

use std::collections::{BTreeMap, BTreeSet};

/// Free runs of bytes; adjacent runs are merged.
pub(super) struct Space {
    by_start: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Space {
    /// A single free run.
    pub(super) fn new(start: usize, bytes: usize) -> Self {
        let mut space = Space { by_start: BTreeMap::new(), by_size: BTreeSet::new() };
        space.insert(start, bytes);
        space
    }

    /// Allocates `bytes` bytes at the beginning of the smallest run that is long enough, and returns their offset.
    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let &(room, start) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(start, room);
        self.insert(start + bytes, room - bytes);
        Some(start)
    }

    /// Frees bytes.
    pub(super) fn put(&mut self, start: usize, bytes: usize) {
        let (mut first, mut end) = (start, start + bytes);
        if let Some((&before, &room)) = self.by_start.range(..start).next_back()
            && before + room == start
        {
            self.remove(before, room);
            first = before;
        }
        if let Some(&room) = self.by_start.get(&end) {
            self.remove(end, room);
            end += room;
        }
        self.insert(first, end - first);
    }

    fn insert(&mut self, start: usize, bytes: usize) {
        if bytes > 0 {
            self.by_start.insert(start, bytes);
            self.by_size.insert((bytes, start));
        }
    }

    fn remove(&mut self, start: usize, bytes: usize) {
        self.by_start.remove(&start);
        self.by_size.remove(&(bytes, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand chunks of sizes drawn at random, put back in another order, against a map of every unit.
    #[test]
    fn allocations_do_not_overlap_and_all_bytes_are_free_in_the_end() {
        const BYTES: usize = 1000;
        let mut space = Space::new(5, BYTES);
        let mut seed = 1u64;
        let mut draw = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut taken = [false; BYTES];
        let mut chunks: Vec<(usize, usize)> = vec![];
        for _ in 0..1000 {
            let bytes = 1 + draw(60);
            if draw(2) == 0
                && let Some(start) = space.take(bytes)
            {
                let range = start - 5..start - 5 + bytes;
                assert!(taken[range.clone()].iter().all(|taken| !taken));
                taken[range].fill(true);
                chunks.push((start, bytes));
            } else if !chunks.is_empty() {
                let (start, bytes) = chunks.swap_remove(draw(chunks.len()));
                taken[start - 5..start - 5 + bytes].fill(false);
                space.put(start, bytes);
            }
        }
        chunks.drain(..).for_each(|(start, bytes)| space.put(start, bytes));
        assert_eq!((space.by_start.len(), space.by_size.len(), space.take(BYTES)), (1, 1, Some(5)));
    }
}
