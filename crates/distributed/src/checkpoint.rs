//! Checkpoints that the ranks write together: each writes its parts, and any number of ranks reads them. PyTorch's
//! `distributed.checkpoint`.
//!
//! A checkpoint is a folder with one file of parts for each rank and an index. A part is a contiguous range of the elements of a tensor,
//! flattened. Files of parts have names of their own in every save, and the index, which names them, is replaced at once when all are on
//! the disk. So a process that ends at any byte leaves the checkpoint before. Every file has a checksum, which is compared when it is read.

mod index;
mod plan;

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::work::Work;
use flambeau_core::{Error, ErrorKind, Result, ScalarType, bail, ensure, error};
use flambeau_nn::StateDict;
use flambeau_nn::serialization::{Checkpoint, Metadata};
use flambeau_ops::{Tensor, ops};
use index::{Index, Part};
use plan::Plan;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::thread;

/// What a rank has of a tensor.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Its elements.
    pub tensor: Tensor,
    /// The sizes of the whole tensor.
    pub sizes: Vec<i64>,
    /// The index of its first element in the flattened whole.
    pub start: i64,
}

/// Tensors by name, or parts of them.
pub type ShardedState = BTreeMap<String, Shard>;

impl Shard {
    /// A tensor that the rank has as a whole.
    pub fn whole(tensor: &Tensor) -> Shard {
        Shard { tensor: tensor.clone(), sizes: tensor.sizes().to_vec(), start: 0 }
    }

    /// A part of a tensor of `sizes`: its elements from `start` on, in the flattened order.
    ///
    /// # Errors
    /// `Shape` where the whole has fewer elements.
    pub fn part(tensor: &Tensor, sizes: &[i64], start: i64) -> Result<Shard> {
        let shard = Shard { tensor: tensor.clone(), sizes: sizes.to_vec(), start };
        shard.check()?;
        Ok(shard)
    }

    fn check(&self) -> Result<()> {
        let whole = self.sizes.iter().try_fold(1i64, |product, size| product.checked_mul(*size));
        let end = self.start.checked_add(self.tensor.numel());
        ensure!(
            self.start >= 0 && whole.zip(end).is_some_and(|(whole, end)| end <= whole),
            Shape("checkpoint", "shard"),
            "expected a part of a tensor of sizes {:?} but got {} elements from {} on",
            self.sizes,
            self.tensor.numel(),
            self.start
        );
        Ok(())
    }

    fn range(&self) -> Range<i64> {
        self.start..self.start + self.tensor.numel()
    }

    fn dtype(&self) -> ScalarType {
        self.tensor.dtype()
    }
}

/// All tensors of a state as wholes.
pub fn whole(state: &StateDict) -> ShardedState {
    state.iter().map(|(name, tensor)| (name.clone(), Shard::whole(tensor))).collect()
}

/// Writes a checkpoint to a folder that all ranks see. All ranks call this, each with its parts; what several have is written by one. The
/// notes of rank 0 are saved with it.
///
/// # Errors
/// `InvalidArgument` where the parts of a tensor do not make up the whole, `Io` where a rank cannot write; on every rank, and the
/// checkpoint before stays.
///
/// ```
/// use flambeau_distributed::ProcessGroup;
/// use flambeau_distributed::checkpoint::{Shard, load, save};
/// use flambeau_ops::Tensor;
/// let folder = std::env::temp_dir().join(format!("flambeau-checkpoint-doc-{}", std::process::id()));
/// let state = [("weight".to_owned(), Shard::whole(&Tensor::from([1.0f32, 2.0, 3.0])))].into();
/// save(&ProcessGroup::single()?, &folder, &state, &[("step".to_owned(), "5".to_owned())].into())?;
///
/// // A rank of another job takes the last two elements.
/// let part = Tensor::from([0.0f32, 0.0]);
/// let notes = load(&folder, &[("weight".to_owned(), Shard::part(&part, &[3], 1)?)].into())?;
/// assert_eq!((part.to_vec::<f32>()?, notes["step"].as_str()), (vec![2.0, 3.0], "5"));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn save(
    group: &ProcessGroup,
    folder: impl AsRef<Path>,
    state: &ShardedState,
    notes: &Metadata,
) -> Result<()> {
    let plan = Plan::agree(group, state)?;
    plan.write(group, folder.as_ref(), state, notes)
}

/// The same in the background: the tensors are copied before it returns, and written by a thread. The group must be one that nothing else
/// uses meanwhile, such as one of [`ProcessGroup::new_group`].
///
/// # Errors
/// As [`save`], by [`Work::wait`]; the next save waits for it.
pub fn save_async(
    group: &ProcessGroup,
    folder: impl AsRef<Path>,
    state: &ShardedState,
    notes: &Metadata,
) -> Result<Work> {
    let plan = Plan::agree(group, state)?;
    let mut copied = ShardedState::new();
    for (name, shard) in state.iter().filter(|(name, _)| plan.writes(name)) {
        let tensor = ops::clone(&shard.tensor.detach()?, None)?;
        copied.insert(name.clone(), Shard { tensor, ..shard.clone() });
    }
    let (group, folder, notes) = (group.clone(), folder.as_ref().to_owned(), notes.clone());
    let work = Work::new(format!("saving {}", folder.display()));
    let done = work.clone();
    let write = move || done.complete(plan.write(&group, &folder, &copied, &notes).map(|()| None));
    thread::Builder::new().name("checkpoint".into()).spawn(write)?;
    Ok(work)
}

/// Fills tensors, or parts of them, with what a checkpoint has, and returns its notes. It takes no group: the number of ranks may be another
/// than that of the job that saved it.
///
/// # Errors
/// `Io` where there is no checkpoint or it is damaged, `InvalidArgument` naming a tensor that it has not, or in other sizes or dtype.
pub fn load(folder: impl AsRef<Path>, state: &ShardedState) -> Result<Metadata> {
    let folder = folder.as_ref();
    let index = Index::read(folder)?;
    let mut needed: BTreeMap<&str, Vec<(&str, &Shard, &Part)>> = BTreeMap::new();
    for (name, shard) in state {
        shard.check()?;
        let range = shard.range();
        for part in index.parts_of(name, shard)? {
            if part.range.start < range.end && range.start < part.range.end {
                needed.entry(&part.file).or_default().push((name, shard, part));
            }
        }
    }
    for (file, copies) in needed {
        let parts = Checkpoint::load(folder.join(file))?.model;
        for (name, shard, part) in copies {
            let Some(stored) = parts.get(&part.key) else {
                bail!(Io, "loading {}: {file} has no part {:?} of `{name}`", folder.display(), part.key)
            };
            copy_part(shard, part, stored).map_err(|e| e.context(format!("loading `{name}`")))?;
        }
    }
    Ok(index.notes)
}

/// Every tensor of a checkpoint as a whole, and its notes.
///
/// # Errors
/// As [`load`].
pub fn load_all(folder: impl AsRef<Path>) -> Result<(StateDict, Metadata)> {
    let index = Index::read(folder.as_ref())?;
    let mut state = StateDict::new();
    for (name, entry) in &index.tensors {
        state.insert(name.clone(), Tensor::empty(&entry.sizes, entry.dtype)?);
    }
    let notes = load(folder, &whole(&state))?;
    Ok((state, notes))
}

/// Copies the elements that a stored part and a shard have in common.
fn copy_part(shard: &Shard, part: &Part, stored: &Tensor) -> Result<()> {
    let count = part.range.end - part.range.start;
    ensure!(stored.numel() == count, Io, "expected {count} elements in a part but got {}", stored.numel());
    let first = part.range.start.max(shard.start);
    let common = part.range.end.min(shard.range().end) - first;
    let from = stored.view(&[count])?.narrow(0, first - part.range.start, common)?;
    let target = shard.tensor.detach()?;
    if target.is_contiguous() {
        target.view(&[target.numel()])?.narrow(0, first - shard.start, common)?.copy_(&from)?;
        return Ok(());
    }
    let dense = target.contiguous()?;
    dense.view(&[dense.numel()])?.narrow(0, first - shard.start, common)?.copy_(&from)?;
    target.copy_(&dense).map(drop)
}

/// Whether all ranks have succeeded; the error of this rank, or one that says that another has failed.
fn all_succeeded(group: &ProcessGroup, outcome: Result<()>) -> Result<()> {
    let failed = Tensor::from([i64::from(outcome.is_err())]);
    let agreed = group.all_reduce(&failed, ReduceOp::Sum).and_then(|work| work.wait());
    outcome?;
    agreed?;
    let count = failed.item::<i64>()?;
    ensure!(count == 0, Io, "saving a checkpoint: {count} other ranks have failed");
    Ok(())
}

/// The error of a folder.
fn in_folder(folder: &Path, e: impl Into<Error>) -> Error {
    e.into().context(format!("checkpoint {}", folder.display()))
}

/// A line of text that is damaged.
fn damaged(line: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the index of the checkpoint has a damaged line {line:?}"))
}

/// A number of such a line.
fn number<T: std::str::FromStr>(text: Option<&str>, line: &str) -> Result<T> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| damaged(line))
}

/// A random name, so that files of two saves never have the same.
fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// What a plan says if a tensor is described differently.
fn differs(name: &str) -> Error {
    error!(
        InvalidArgument("checkpoint", "state"),
        "expected tensor `{name}` of the same sizes and dtype on all ranks"
    )
}
