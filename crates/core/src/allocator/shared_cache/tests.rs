//! Tests that the shared cache stays within its size, evicts the size class whose last use is oldest, and leaks nothing (under
//! Miri).

use super::*;

/// Just above the small sizes, so that Miri copes.
const CLASS: usize = SMALL_CLASSES;

fn fresh(class: usize) -> NonNull<u8> {
    system::allocate(class_bytes(class), false).unwrap()
}

fn put(cache: &mut Cache, class: usize, block: NonNull<u8>) {
    // SAFETY: every test puts only blocks that it owns.
    drop(unsafe { cache.put(class, block) });
}

#[test]
fn a_block_comes_back_to_its_class_only() {
    let mut cache = Cache::new(1 << 20);
    let block = fresh(CLASS);
    put(&mut cache, CLASS, block);
    assert_eq!(cache.bytes, class_bytes(CLASS));
    assert_eq!(cache.take(CLASS + 1), None);
    assert_eq!(cache.take(CLASS), Some(block));
    assert_eq!((cache.take(CLASS), cache.bytes), (None, 0));
    put(&mut cache, CLASS, block);
    drop(cache);
}

#[test]
fn the_lru_class_is_evicted_first() {
    let sizes = [CLASS, CLASS + 1, CLASS + 2].map(class_bytes);
    let mut cache = Cache::new(sizes.iter().sum());
    for class in CLASS..CLASS + 3 {
        put(&mut cache, class, fresh(class));
    }
    let used = cache.take(CLASS).unwrap();
    put(&mut cache, CLASS, used);
    put(&mut cache, CLASS, fresh(CLASS)); // Now `CLASS + 1` has been idle the longest.
    assert_eq!(
        cache.bins.iter().map(|bin| !bin.blocks.0.is_null()).take(3).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!(cache.bytes, 2 * sizes[0] + sizes[2]);
}

#[test]
fn the_limit_holds() {
    let mut cache = Cache::new(class_bytes(CLASS) - 1);
    put(&mut cache, CLASS, fresh(CLASS));
    assert_eq!(cache.bytes, 0);
    drop(cache.set_limit(3 * class_bytes(CLASS)));
    (0..5).for_each(|_| put(&mut cache, CLASS, fresh(CLASS)));
    assert_eq!(cache.bytes, 3 * class_bytes(CLASS));
    drop(cache.set_limit(class_bytes(CLASS)));
    assert_eq!(cache.bytes, class_bytes(CLASS));
    drop(cache.shrink_to(0));
    assert_eq!(cache.bytes, 0);
}

#[test]
fn threads_exchange_blocks_without_sharing_any() {
    let rounds = if cfg!(miri) { 5 } else { 2000 };
    let bytes = class_bytes(CLASS);
    std::thread::scope(|scope| {
        for mark in 0..3u8 {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let block = allocate(bytes, false).unwrap();
                    // SAFETY: the block is ours until it is freed, which is once.
                    unsafe {
                        block.write_bytes(mark, 256);
                        std::thread::yield_now();
                        assert!(std::slice::from_raw_parts(block.as_ptr(), 256).iter().all(|&b| b == mark));
                        free(block, bytes);
                    }
                }
            });
        }
    });
}
