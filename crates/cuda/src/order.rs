//! The order of streams: what a stream does with memory comes after what others did before, without a word from the program. For each
//! range of memory it is noted which stream wrote it last, which have waited for that, and which have read it since.
//!
//! While all work is in the default stream, nothing is noted.

use flambeau_core::Access;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// The number of a stream of a device; 0 is the default stream.
pub(crate) type StreamNumber = usize;

/// Streams to wait for.
pub(crate) type Waits = SmallVec<[StreamNumber; 4]>;

/// The uses of a range of memory.
#[derive(Clone, Debug)]
struct Uses {
    end: u64,
    writer: StreamNumber,
    /// The streams that come after the last write.
    seen: Waits,
    readers: Waits,
}

impl Uses {
    /// Of memory that a stream has just written.
    fn written(end: u64, writer: StreamNumber) -> Self {
        Uses { end, writer, seen: smallvec![writer], readers: Waits::new() }
    }

    /// The streams whose uses a write comes after.
    fn all(&self) -> impl Iterator<Item = StreamNumber> + '_ {
        self.readers.iter().copied().chain([self.writer])
    }
}

/// The uses of a device's memory, by address.
#[derive(Debug, Default)]
pub(crate) struct Order {
    uses: BTreeMap<u64, Uses>,
}

fn add(streams: &mut Waits, stream: StreamNumber) {
    if !streams.contains(&stream) {
        streams.push(stream);
    }
}

impl Order {
    /// The starts of the ranges that overlap one.
    fn overlapping(&self, start: u64, end: u64) -> SmallVec<[u64; 4]> {
        let before = self.uses.range(..start).next_back().filter(|(_, uses)| uses.end > start);
        before.into_iter().chain(self.uses.range(start..end)).map(|(start, _)| *start).collect()
    }

    /// Notes that a stream uses memory; returns the streams that it has to wait for.
    pub(crate) fn access(&mut self, start: u64, end: u64, stream: StreamNumber, access: Access) -> Waits {
        let mut found = self.overlapping(start, end);
        if found.is_empty() {
            // What came before is not known: it was in the default stream.
            self.uses.insert(start, Uses::written(end, 0));
            found.push(start);
        }
        let mut waits = Waits::new();
        if let [only] = found[..]
            && let Some(uses) = self.uses.get_mut(&only).filter(|uses| only <= start && uses.end >= end)
        {
            if access == Access::Write {
                uses.all().for_each(|other| add(&mut waits, other));
                *uses = Uses::written(uses.end, stream);
            } else {
                if !uses.seen.contains(&stream) {
                    add(&mut waits, uses.writer);
                    uses.seen.push(stream);
                }
                add(&mut uses.readers, stream);
            }
        } else {
            let (mut first, mut last) = (start, end);
            add(&mut waits, 0);
            for at in found {
                if let Some(uses) = self.uses.remove(&at) {
                    uses.all().for_each(|other| add(&mut waits, other));
                    (first, last) = (first.min(at), last.max(uses.end));
                }
            }
            self.uses.insert(first, Uses::written(last, stream));
        }
        waits.retain(|other| *other != stream);
        waits
    }

    /// Notes that a stream gets memory that was free; returns the streams that it has to wait for.
    pub(crate) fn allocate(&mut self, start: u64, end: u64, stream: StreamNumber) -> Waits {
        let mut waits: Waits = smallvec![0];
        for at in self.overlapping(start, end) {
            let Some(uses) = self.uses.remove(&at) else { continue };
            uses.all().for_each(|other| add(&mut waits, other));
            if uses.end > end {
                self.uses.insert(end, uses.clone());
            }
            if at < start {
                self.uses.insert(at, Uses { end: start, ..uses });
            }
        }
        self.uses.insert(start, Uses::written(end, stream));
        waits.retain(|other| *other != stream);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Read, Write};

    #[test]
    fn a_read_waits_for_the_write_once() {
        let mut order = Order::default();
        assert_eq!(order.allocate(100, 200, 1).as_slice(), [0]);
        assert!(order.access(100, 200, 1, Write).is_empty());
        assert_eq!(order.access(100, 200, 2, Read).as_slice(), [1]);
        assert!(order.access(100, 200, 2, Read).is_empty());
        assert!(order.access(100, 200, 1, Read).is_empty());
        // Part of it, by its address.
        assert_eq!(order.access(120, 130, 3, Read).as_slice(), [1]);
    }

    #[test]
    fn a_write_waits_for_all_reads() {
        let mut order = Order::default();
        order.allocate(0, 8, 1);
        order.access(0, 8, 2, Read);
        order.access(0, 8, 3, Read);
        let mut waits = order.access(0, 8, 2, Write).to_vec();
        waits.sort_unstable();
        assert_eq!(waits, [1, 3]);
        assert_eq!(order.access(0, 8, 1, Read).as_slice(), [2]);
    }

    #[test]
    fn unknown_memory_was_used_by_the_default_stream() {
        let mut order = Order::default();
        assert_eq!(order.access(0, 8, 5, Read).as_slice(), [0]);
        assert!(order.access(0, 8, 5, Read).is_empty());
        assert!(order.access(16, 24, 0, Write).is_empty());
    }

    #[test]
    fn memory_that_is_used_again_waits_for_its_last_uses() {
        let mut order = Order::default();
        order.allocate(0, 100, 1);
        order.access(0, 100, 2, Read);
        // A part goes to another stream, and the rest remembers its uses.
        let mut waits = order.allocate(40, 60, 3).to_vec();
        waits.sort_unstable();
        assert_eq!(waits, [0, 1, 2]);
        for (start, end) in [(0, 40), (60, 100)] {
            let mut waits = order.allocate(start, end, 4).to_vec();
            waits.sort_unstable();
            assert_eq!(waits, [0, 1, 2], "{start}");
        }
        // Joined: all three streams had a part.
        let mut waits = order.allocate(0, 100, 5).to_vec();
        waits.sort_unstable();
        assert_eq!(waits, [0, 3, 4]);
    }

    #[test]
    fn an_access_to_several_ranges_waits_for_all() {
        let mut order = Order::default();
        order.allocate(0, 10, 1);
        order.allocate(10, 20, 2);
        let mut waits = order.access(5, 15, 3, Read).to_vec();
        waits.sort_unstable();
        assert_eq!(waits, [0, 1, 2]);
        assert_eq!(order.access(0, 10, 1, Write).as_slice(), [3]);
    }
}
