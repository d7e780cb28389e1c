//! Tests of the loader: every example once, in the requested order, whatever happens to the thread behind it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_core::{Error, ErrorKind, Generator, Result};
use flambeau_nn::data::{Batches, DataLoader, Dataset, Sampler, Subset, TensorDataset};
use flambeau_ops::Tensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(n: i64) -> TensorDataset {
    TensorDataset::new(vec![Tensor::from_vec((0..n).collect(), &[n]).unwrap()]).unwrap()
}

fn loader(n: i64, batch_size: usize) -> DataLoader<TensorDataset> {
    DataLoader::new(numbers(n)).batch_size(batch_size).unwrap()
}

fn read(batch: Result<Vec<Tensor>>) -> Vec<i64> {
    batch.unwrap()[0].to_vec().unwrap()
}

fn epoch(loader: &DataLoader<TensorDataset>) -> Vec<Vec<i64>> {
    loader.iter().unwrap().map(read).collect()
}

#[test]
fn batches_come_in_order_and_the_last_may_be_short() {
    for ahead in [0, 1, 5] {
        let loader = loader(7, 3).prefetch(ahead);
        assert_eq!(epoch(&loader), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert_eq!((loader.len(), loader.position().epoch), (3, 1));
        let loader = loader.drop_last(true);
        assert_eq!(epoch(&loader), [[0, 1, 2], [3, 4, 5]]);
    }
    assert!(epoch(&loader(0, 3)).is_empty() && loader(0, 3).is_empty());
    assert!(DataLoader::new(numbers(1)).batch_size(0).is_err());
}

#[test]
fn shuffling_is_fixed_by_the_seed_and_changes_with_the_epoch() {
    let made = |ahead| loader(50, 8).shuffle(Generator::new(9)).prefetch(ahead);
    let (a, b) = (made(0), made(3));
    let first = epoch(&a);
    assert_eq!(first, epoch(&b));
    let second = epoch(&a);
    assert_ne!(first, second);
    assert_eq!(second, epoch(&b));
    let mut all: Vec<i64> = second.concat();
    all.sort();
    assert!(all.into_iter().eq(0..50));
}

/// Every permutation is as likely: of 6000 shuffles of 3, each of the 6 orders within five standard deviations of 1000.
#[test]
fn every_order_is_as_likely() {
    let sampler = flambeau_nn::data::RandomSampler(Generator::new(1));
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        *counts.entry(sampler.indices(3).unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 6);
    assert!(counts.values().all(|n| (1000i32 - n).abs() < 5 * 29), "{counts:?}");
}

#[test]
fn it_goes_on_at_the_very_batch_where_it_stopped() {
    let made = || loader(23, 4).shuffle(Generator::new(2));
    let whole = made();
    let expected = [epoch(&whole), epoch(&whole)].concat();
    for stop in 0..expected.len() {
        let first = made();
        let mut got = Vec::new();
        while got.len() < stop {
            got.extend(first.iter().unwrap().take(stop - got.len()).map(read));
        }
        let position = first.position();
        let second = made();
        second.resume(position);
        while got.len() < expected.len() {
            got.extend(second.iter().unwrap().take(expected.len() - got.len()).map(read));
        }
        assert_eq!(got, expected, "stopped after {stop}");
    }
}

/// Counts requests, and fails or panics at the given ones.
struct Trap {
    requests: Arc<AtomicUsize>,
    error_at: usize,
    panic_at: usize,
}

impl Dataset for Trap {
    type Item = Tensor;

    fn len(&self) -> usize {
        1000
    }

    fn get(&self, index: usize) -> Result<Tensor> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        assert!(index != self.panic_at, "a trap at {index}");
        if index == self.error_at {
            return Err(Error::new(ErrorKind::Io, "no such file"));
        }
        Ok(Tensor::from(index as i64))
    }
}

fn trap(error_at: usize, panic_at: usize) -> (Arc<AtomicUsize>, DataLoader<Trap>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let loader = DataLoader::new(Trap { requests: requests.clone(), error_at, panic_at });
    (requests, loader.batch_size(2).unwrap())
}

#[test]
fn errors_and_panics_of_the_data_set_are_errors_of_their_batch() {
    for ahead in [0, 1, 4] {
        let (_, loader) = trap(5, usize::MAX);
        let all: Vec<_> = loader.prefetch(ahead).iter().unwrap().collect();
        assert_eq!(all.len(), 3);
        let error = all[2].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "example 5: no such file"));

        let (_, loader) = trap(usize::MAX, 2);
        let loader = loader.prefetch(ahead);
        let all: Vec<_> = loader.iter().unwrap().collect();
        assert_eq!(all.len(), 2);
        assert!(all[1].as_ref().unwrap_err().message().contains("a trap at 2"));
        assert_eq!((loader.position().epoch, loader.position().batch), (0, 1));
    }
}

#[test]
fn the_thread_ends_with_the_iterator_and_reads_no_further_ahead_than_told() {
    let (requests, loader) = trap(usize::MAX, usize::MAX);
    let mut batches: Batches<Trap> = loader.prefetch(3).iter().unwrap();
    assert!(batches.next().unwrap().is_ok());
    drop(batches);
    let after = requests.load(Ordering::SeqCst);
    // One batch read, three made ahead, and one more that may have been begun when the first was taken.
    assert!(after <= 2 * (1 + 3 + 1), "{after}");
    // Only the test's own handle is left: the thread has let go of the data set.
    assert_eq!(Arc::strong_count(&requests), 1);
}

#[test]
fn subsets_and_samplers_are_checked() {
    let subset = Subset::new(numbers(5), vec![4, 0]).unwrap();
    let batches: Vec<_> = DataLoader::new(subset).iter().unwrap().map(read).collect();
    assert_eq!(batches, [[4], [0]]);
    assert_eq!(Subset::new(numbers(5), vec![5]).unwrap_err().kind(), ErrorKind::Index);

    struct Wild;
    impl Sampler for Wild {
        fn indices(&self, len: usize) -> Result<Vec<usize>> {
            Ok(vec![len])
        }
    }
    assert_eq!(loader(5, 1).sampler(Wild).iter().err().unwrap().kind(), ErrorKind::Index);
}

#[test]
fn examples_that_do_not_fit_together_are_refused() {
    struct Ragged;
    impl Dataset for Ragged {
        type Item = Tensor;
        fn len(&self) -> usize {
            2
        }
        fn get(&self, index: usize) -> Result<Tensor> {
            Tensor::from_vec(vec![0.0f32; index + 1], &[index as i64 + 1])
        }
    }
    let loader = DataLoader::new(Ragged).batch_size(2).unwrap();
    let error = loader.iter().unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
}
