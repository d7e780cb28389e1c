//! The batches of one epoch, prefetched by a thread that ends with the iterator.

use super::loader::Position;
use super::{Collate, Dataset, Sampler};
use flambeau_core::{Error, ErrorKind, Generator, Result};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

type Batch<D> = <<D as Dataset>::Item as Collate>::Batch;

/// What an epoch consists of.
pub(super) struct Plan {
    pub(super) indices: Vec<usize>,
    pub(super) batch_size: usize,
    pub(super) batches: u64,
    pub(super) sampler: Arc<dyn Sampler>,
    pub(super) position: Arc<Mutex<Position>>,
}

/// Makes one batch after another.
struct Maker<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
    batch_size: usize,
}

impl<D: Dataset> Maker<D> {
    /// Batch number `batch`; a panic of the data set is an error too.
    fn make(&self, batch: u64) -> Result<Batch<D>> {
        let begin = (batch as usize).saturating_mul(self.batch_size).min(self.indices.len());
        let end = begin.saturating_add(self.batch_size).min(self.indices.len());
        let examples = || self.indices[begin..end].iter().map(|index| self.example(*index));
        // After a panic this crate does not use the data set again, so a broken invariant of it is not observed.
        catch_unwind(AssertUnwindSafe(|| D::Item::collate(examples().collect::<Result<_>>()?)))
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    fn example(&self, index: usize) -> Result<D::Item> {
        self.dataset.get(index).map_err(|e| e.context(format!("example {index}")))
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(ErrorKind::Internal, format!("the data set panicked: {}", said.unwrap_or("no message")))
}

enum Source<D: Dataset> {
    /// Made when requested.
    Here(Maker<D>),
    /// Prefetched. The receiver is dropped first, which ends the thread.
    Ahead(Receiver<Result<Batch<D>>>, JoinHandle<()>),
    /// After the end or an error.
    Finished,
}

/// The batches of an epoch. After an error there are no more; dropping it ends its thread.
pub struct Batches<D: Dataset> {
    source: Source<D>,
    next: u64,
    batches: u64,
    sampler: Arc<dyn Sampler>,
    position: Arc<Mutex<Position>>,
}

impl<D: Dataset> Batches<D> {
    pub(super) fn start(dataset: Arc<D>, plan: Plan, first: u64, prefetch: usize) -> Result<Self> {
        let maker = Maker { dataset, indices: plan.indices, batch_size: plan.batch_size };
        let source = match prefetch {
            0 => Source::Here(maker),
            ahead => make_ahead(maker, first..plan.batches, ahead)?,
        };
        let Plan { batches, sampler, position, .. } = plan;
        Ok(Batches { source, next: first, batches, sampler, position })
    }

    /// The next batch, whoever makes it.
    fn receive(&mut self) -> Result<Batch<D>> {
        match &self.source {
            Source::Here(maker) => maker.make(self.next),
            Source::Ahead(receiver, _) => receiver.recv().unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Internal, "the thread that makes batches has gone"))
            }),
            Source::Finished => Err(Error::new(ErrorKind::Internal, "a batch was requested after the end")),
        }
    }

    /// Ends the thread and waits for it: it may be at work on a batch that nobody will read.
    fn finish(&mut self) {
        if let Source::Ahead(receiver, thread) = std::mem::replace(&mut self.source, Source::Finished) {
            drop(receiver);
            // Panics of the data set were caught in the thread.
            let _ = thread.join();
        }
    }

    fn end_epoch(&mut self) {
        self.finish();
        let generator = self.sampler.generator().map(Generator::state);
        let mut position = self.position.lock();
        *position = Position { epoch: position.epoch + 1, batch: 0, generator };
    }
}

fn make_ahead<D: Dataset>(maker: Maker<D>, batches: std::ops::Range<u64>, ahead: usize) -> Result<Source<D>> {
    // The thread holds one finished batch beside those in the channel.
    let (sender, receiver) = sync_channel(ahead - 1);
    let thread = std::thread::Builder::new().name("flambeau data".into()).spawn(move || {
        for batch in batches {
            let made = maker.make(batch);
            let failed = made.is_err();
            if sender.send(made).is_err() || failed {
                break;
            }
        }
    })?;
    Ok(Source::Ahead(receiver, thread))
}

impl<D: Dataset> Iterator for Batches<D> {
    type Item = Result<Batch<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.source, Source::Finished) {
            return None;
        }
        if self.next >= self.batches {
            self.end_epoch();
            return None;
        }
        let batch = self.receive();
        match &batch {
            Ok(_) => {
                self.next += 1;
                self.position.lock().batch = self.next;
            }
            Err(_) => self.finish(),
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left =
            if matches!(self.source, Source::Finished) { 0 } else { self.batches.saturating_sub(self.next) };
        (0, Some(left as usize))
    }
}

impl<D: Dataset> Drop for Batches<D> {
    fn drop(&mut self) {
        self.finish();
    }
}
