//! The data loader: shuffles, makes batches ahead of time on a thread, and can resume where it stopped.

use super::batches::{Batches, Plan};
use super::{Dataset, RandomSampler, Sampler, SequentialSampler};
use flambeau_core::{Generator, GeneratorState, Result, ensure};
use parking_lot::Mutex;
use std::sync::Arc;

/// Where a loader stands: what a checkpoint keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Whole epochs that were read.
    pub epoch: u64,
    /// Batches of the present epoch that were read.
    pub batch: u64,
    /// The sampler's generator at the beginning of the present epoch; `None` for a sampler without one.
    pub generator: Option<GeneratorState>,
}

/// Makes batches of a data set. One epoch is one pass of [`iter`](Self::iter).
///
/// ```
/// use flambeau_core::Generator;
/// use flambeau_nn::data::{DataLoader, TensorDataset};
/// use flambeau_ops::Tensor;
/// let set = TensorDataset::new(vec![Tensor::from([[0.0f32], [1.0], [2.0], [3.0], [4.0]])])?;
/// let loader = DataLoader::new(set).batch_size(2)?.shuffle(Generator::new(1)).drop_last(true);
/// for batch in loader.iter()? {
///     assert_eq!(batch?[0].sizes(), &[2, 1]);
/// }
/// assert_eq!(loader.len(), 2);
/// assert_eq!(loader.position().epoch, 1);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub struct DataLoader<D> {
    dataset: Arc<D>,
    sampler: Arc<dyn Sampler>,
    batch_size: usize,
    drop_last: bool,
    prefetch: usize,
    position: Arc<Mutex<Position>>,
}

impl<D: Dataset> DataLoader<D> {
    /// Batches of one example, in order, two of them prefetched.
    pub fn new(dataset: D) -> Self {
        DataLoader {
            dataset: Arc::new(dataset),
            sampler: Arc::new(SequentialSampler),
            batch_size: 1,
            drop_last: false,
            prefetch: 2,
            position: Arc::default(),
        }
    }

    /// How many examples a batch has.
    ///
    /// # Errors
    /// `InvalidArgument` for 0.
    pub fn batch_size(self, batch_size: usize) -> Result<Self> {
        ensure!(batch_size > 0, InvalidArgument, "DataLoader: expected a batch_size of at least 1 but got 0");
        Ok(DataLoader { batch_size, ..self })
    }

    /// Another order each epoch, which `generator` decides.
    pub fn shuffle(self, generator: Generator) -> Self {
        self.sampler(RandomSampler(generator))
    }

    /// The order of `sampler`.
    pub fn sampler(self, sampler: impl Sampler) -> Self {
        DataLoader { sampler: Arc::new(sampler), ..self }
    }

    /// Whether a last batch with fewer examples is left out.
    pub fn drop_last(self, drop_last: bool) -> Self {
        DataLoader { drop_last, ..self }
    }

    /// How many batches a background thread prefetches; 0 makes each when it is requested, on the caller's thread.
    pub fn prefetch(self, batches: usize) -> Self {
        DataLoader { prefetch: batches, ..self }
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// Batches in an epoch, if the sampler names each example once.
    pub fn len(&self) -> usize {
        self.batches(self.dataset.len())
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn batches(&self, examples: usize) -> usize {
        if self.drop_last { examples / self.batch_size } else { examples.div_ceil(self.batch_size) }
    }

    /// The batches of the present epoch that were not read yet: all of them, unless the last pass was left early or
    /// [`resume`](Self::resume) said otherwise. A batch that was prefetched but not requested counts as not read.
    ///
    /// Where two passes run at once, [`position`](Self::position) tells of the one that read last.
    ///
    /// # Errors
    /// `Index` where the sampler names an example that is not there, and the sampler's own; `Io` where no thread can be made.
    pub fn iter(&self) -> Result<Batches<D>> {
        let start = self.begin();
        let indices = self.sampler.indices(self.dataset.len())?;
        let len = self.dataset.len();
        for index in &indices {
            ensure!(
                *index < len,
                Index,
                "DataLoader: expected indices below {len} from the sampler but got {index}"
            );
        }
        let plan = Plan {
            batches: self.batches(indices.len()) as u64,
            indices,
            batch_size: self.batch_size,
            sampler: self.sampler.clone(),
            position: self.position.clone(),
        };
        Batches::start(self.dataset.clone(), plan, start.batch, self.prefetch)
    }

    /// The position, with the generator put where the present epoch began.
    fn begin(&self) -> Position {
        let mut position = self.position.lock();
        match (self.sampler.generator(), position.generator) {
            (Some(generator), Some(state)) => generator.set_state(state),
            (Some(generator), None) => position.generator = Some(generator.state()),
            (None, _) => position.generator = None,
        }
        *position
    }

    /// The position in the data.
    pub fn position(&self) -> Position {
        let mut position = *self.position.lock();
        position.generator = position.generator.or_else(|| self.sampler.generator().map(Generator::state));
        position
    }

    /// Continues from the position of a loader with the same data set and options.
    pub fn resume(&self, position: Position) {
        *self.position.lock() = position;
    }
}
