//! The blocks against a model, which knows only that live ranges are apart and inside segments.

use super::*;
use flambeau_core::{Philox, bail};
use std::cell::{Cell, RefCell};

/// A device of so many bytes, whose segments are adjacent.
struct Model {
    room: usize,
    used: Cell<usize>,
    next: Cell<u64>,
    segments: RefCell<BTreeMap<u64, usize>>,
}

impl Model {
    fn new(room: usize) -> Self {
        Model { room, used: Cell::new(0), next: Cell::new(1 << 40), segments: RefCell::default() }
    }
}

impl SegmentSource for Model {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        if bytes > self.room - self.used.get() {
            bail!(OutOfMemory, "no {bytes} bytes");
        }
        self.used.set(self.used.get() + bytes);
        let address = self.next.get();
        self.next.set(address + bytes as u64);
        self.segments.borrow_mut().insert(address, bytes);
        Ok(address)
    }

    fn free(&self, address: u64) {
        let bytes = self.segments.borrow_mut().remove(&address).unwrap();
        self.used.set(self.used.get() - bytes);
    }
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let generator = flambeau_core::Generator::new(seed);
    let words: Philox = generator.reserve_words(1 << 20, 2).unwrap();
    let mut i = 0;
    move || {
        i += 1;
        words.word64(i)
    }
}

fn check(blocks: &Blocks, source: &Model, live: &BTreeMap<u64, usize>) {
    let (reserved, cached) = blocks.reserved_and_cached();
    assert_eq!(reserved, source.used.get());
    let free: usize = blocks.free.iter().map(|(_, bytes, _)| bytes).sum();
    assert_eq!(cached, free);
    let used: usize = blocks.all.values().filter(|block| !block.is_free).map(|block| block.bytes).sum();
    assert_eq!(used + free, reserved);
    let mut end = 0;
    for (&address, &bytes) in live {
        assert!(address >= end && address.is_multiple_of(ROUNDING as u64));
        end = address + bytes as u64;
        let segments = source.segments.borrow();
        let (start, size) = segments.range(..=address).next_back().unwrap();
        assert!(end <= start + *size as u64);
    }
    let pairs = blocks.all.iter().zip(blocks.all.iter().skip(1));
    for ((at, first), (next, second)) in pairs {
        let adjacent = at + first.bytes as u64 == *next && !second.begins_segment;
        assert!(!(adjacent && first.is_free && second.is_free), "free neighbours are joined");
    }
}

#[test]
fn live_blocks_are_apart_whatever_is_allocated_and_freed() {
    for seed in 0..20 {
        let (source, mut blocks, mut random) = (Model::new(400 << 20), Blocks::default(), random(seed));
        let mut live: BTreeMap<u64, usize> = BTreeMap::new();
        let mut refused = 0;
        for step in 0..3000 {
            if random() % 5 < 3 {
                let magnitude = random() % 25;
                let bytes = (random() % (1 << magnitude)) as usize;
                match blocks.allocate(&source, bytes) {
                    Ok(address) => assert!(live.insert(address, bytes.max(1)).is_none()),
                    Err(_) => refused += 1,
                }
            } else if let Some((&address, _)) =
                live.range(random() % (1 << 41)..).next().or(live.iter().next())
            {
                live.remove(&address);
                blocks.free(address);
            }
            if step % 100 == 0 {
                blocks.release_free(&source);
            }
            if step % 37 == 0 {
                check(&blocks, &source, &live);
            }
        }
        assert!(refused < 1500, "{refused}");
        live.keys().for_each(|address| blocks.free(*address));
        blocks.release_free(&source);
        assert_eq!((source.used.get(), blocks.reserved_and_cached()), (0, (0, 0)));
    }
}

#[test]
fn a_freed_block_is_used_again() {
    let (source, mut blocks) = (Model::new(1 << 30), Blocks::default());
    let first = blocks.allocate(&source, 1000).unwrap();
    let second = blocks.allocate(&source, 1000).unwrap();
    assert_eq!(second, first + 1024);
    blocks.free(first);
    assert_eq!(blocks.allocate(&source, 700).unwrap(), first);
    assert_eq!(source.used.get(), 2 << 20);
}

#[test]
fn cached_segments_are_returned_before_memory_is_out() {
    let (source, mut blocks) = (Model::new(64 << 20), Blocks::default());
    let large = blocks.allocate(&source, 40 << 20).unwrap();
    assert!(blocks.allocate(&source, 50 << 20).is_err());
    blocks.free(large);
    blocks.allocate(&source, 50 << 20).unwrap();
    assert!(blocks.allocate(&source, usize::MAX).is_err());
}
