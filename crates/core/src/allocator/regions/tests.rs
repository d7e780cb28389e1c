//! Tests that blocks of regions do not overlap, are aligned, and merge again when they are free.

use super::*;

/// Regions of their own, with `count` free ones in them.
fn fresh(count: usize) -> Regions {
    let mut regions = Regions::new();
    (0..count).for_each(|_| regions.insert(pages::map_huge(REGION).unwrap().as_ptr(), REGION));
    regions
}

/// All that is free, as one number, and how many runs it is in.
fn free_bytes(regions: &Regions) -> (usize, usize) {
    let bytes = regions.by_start.values().sum();
    let by_size: BTreeSet<_> = regions.by_start.iter().map(|(&start, &bytes)| (bytes, start)).collect();
    assert_eq!(by_size, regions.by_size);
    (bytes, by_size.len())
}

#[test]
fn blocks_begin_at_multiples_of_the_power_of_two_in_their_size() {
    let mut regions = fresh(1);
    for (bytes, multiple) in
        [(1280, 256), (5 << 10, 1 << 10), (8 << 10, 4 << 10), (20 << 10, 4 << 10), (3 << 9, 512)]
    {
        assert_eq!(alignment_of(bytes), multiple);
        for _ in 0..3 {
            assert_eq!(regions.take(bytes).unwrap().addr().get() % multiple, 0, "{bytes}");
        }
    }
}

#[test]
fn freed_blocks_merge_in_any_order_and_never_across_regions() {
    for order in 0..4 {
        let mut regions = fresh(3);
        let sizes =
            [1280, 40 << 10, 5 << 10, 896 << 10, 2 << 10, 20 << 10, 640 << 10, 7 << 9, 768 << 10, 3 << 10];
        let mut blocks: Vec<_> = sizes.iter().map(|&bytes| (regions.take(bytes).unwrap(), bytes)).collect();
        assert_eq!(free_bytes(&regions).0, 3 * REGION - sizes.iter().sum::<usize>());
        let mut ranges: Vec<_> =
            blocks.iter().map(|&(block, bytes)| block.addr().get()..block.addr().get() + bytes).collect();
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(ranges.iter().all(|range| range.start / REGION == (range.end - 1) / REGION));
        blocks.rotate_left(3 * order);
        if order % 2 == 1 {
            blocks.reverse();
        }
        for (block, bytes) in blocks {
            assert!(regions.put(block.as_ptr(), bytes).is_none());
        }
        assert_eq!(free_bytes(&regions), (3 * REGION, 3));
        assert_eq!(std::iter::from_fn(|| regions.take_free_region()).count(), 3);
        assert_eq!(free_bytes(&regions), (0, 0));
    }
}

#[test]
fn free_regions_beyond_the_limit_are_unmapped() {
    let mut regions = fresh(MAX_FREE_REGIONS);
    let blocks: Vec<_> = (0..2 * MAX_FREE_REGIONS).map(|_| regions.take(1 << 20).unwrap()).collect();
    assert_eq!(free_bytes(&regions), (0, 0));
    regions.insert(pages::map_huge(REGION).unwrap().as_ptr(), REGION);
    let unmapped = blocks.into_iter().filter_map(|block| regions.put(block.as_ptr(), 1 << 20)).count();
    assert_eq!((unmapped, free_bytes(&regions).1), (1, MAX_FREE_REGIONS));
    assert_eq!(std::iter::from_fn(|| regions.take_free_region()).count(), MAX_FREE_REGIONS);
}

#[test]
fn threads_share_regions_and_no_bytes() {
    std::thread::scope(|scope| {
        for mark in 0..3u8 {
            scope.spawn(move || {
                for round in 0..2000 {
                    let bytes = [1280, 8 << 10, 96 << 10][round % 3];
                    let block = allocate(bytes).unwrap();
                    // SAFETY: the block is ours until it is freed, which is once.
                    unsafe {
                        block.write_bytes(mark, bytes);
                        std::thread::yield_now();
                        assert!(std::slice::from_raw_parts(block.as_ptr(), bytes).iter().all(|&b| b == mark));
                        free(block, bytes);
                    }
                }
            });
        }
    });
}
