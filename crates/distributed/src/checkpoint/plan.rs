//! Which rank writes which part of a checkpoint: all ranks compare what they have, and decide the same.

use super::index::{Entry, Index, Part, file_of_parts};
use super::{ShardedState, all_succeeded, damaged, differs, in_folder, number, random_name};
use crate::group::ProcessGroup;
use flambeau_core::{Result, ScalarType, bail, ensure};
use flambeau_nn::StateDict;
use flambeau_nn::serialization::{Checkpoint, Metadata};
use std::collections::BTreeMap;
use std::path::Path;

/// What a rank has of a tensor.
#[derive(Debug, Clone)]
struct Offer {
    rank: usize,
    start: i64,
    end: i64,
}

/// What all ranks have of a tensor.
struct Offered {
    dtype: ScalarType,
    sizes: Vec<i64>,
    offers: Vec<Offer>,
}

/// What is written, and by whom.
pub(super) struct Plan {
    /// The number of this rank, and the file that it writes.
    rank: usize,
    file: String,
    tensors: BTreeMap<String, Entry>,
    /// The tensors of which this rank writes its part, and the names of the parts.
    own: BTreeMap<String, String>,
}

impl Plan {
    /// Compares what the ranks have. All ranks call this.
    pub(super) fn agree(group: &ProcessGroup, state: &ShardedState) -> Result<Plan> {
        let checked = state.iter().try_for_each(|(name, shard)| {
            ensure!(
                !name.contains('\n'),
                InvalidArgument("checkpoint", "state"),
                "expected names of one line but got {name:?}"
            );
            shard.check()
        });
        all_succeeded(group, checked)?;
        let save = group.broadcast_bytes(random_name().as_bytes(), 0)?;
        let save = String::from_utf8_lossy(&save).into_owned();
        let mine: Vec<String> = state.iter().map(|(name, shard)| describe(name, shard)).collect();
        let mut all: BTreeMap<String, Offered> = BTreeMap::new();
        for rank in 0..group.size() {
            let lines = group.broadcast_bytes(mine.join("\n").as_bytes(), rank)?;
            for line in String::from_utf8_lossy(&lines).lines() {
                add(&mut all, rank, line)?;
            }
        }
        Plan::new(group.rank(), group.size(), &save, all)
    }

    fn new(rank: usize, size: usize, save: &str, all: BTreeMap<String, Offered>) -> Result<Plan> {
        let mut loads = vec![0i64; size];
        let (mut tensors, mut own) = (BTreeMap::new(), BTreeMap::new());
        for (number, (name, offered)) in all.into_iter().enumerate() {
            let mut parts = Vec::new();
            for offer in cover(&name, &offered, &mut loads)? {
                let (file, key) = (file_of_parts(save, offer.rank), number.to_string());
                if offer.rank == rank {
                    own.insert(name.clone(), key.clone());
                }
                parts.push(Part { range: offer.start..offer.end, file, key });
            }
            tensors.insert(name, Entry { dtype: offered.dtype, sizes: offered.sizes, parts });
        }
        Ok(Plan { rank, file: file_of_parts(save, rank), tensors, own })
    }

    /// Whether this rank writes its part of a tensor.
    pub(super) fn writes(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// Writes the parts of this rank, and on rank 0 the index when all ranks have written theirs.
    pub(super) fn write(
        self,
        group: &ProcessGroup,
        folder: &Path,
        state: &ShardedState,
        notes: &Metadata,
    ) -> Result<()> {
        all_succeeded(group, self.write_parts(folder, state))?;
        let index = Index { tensors: self.tensors, notes: notes.clone() };
        all_succeeded(group, if self.rank == 0 { index.write(folder) } else { Ok(()) })
    }

    fn write_parts(&self, folder: &Path, state: &ShardedState) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| in_folder(folder, e))?;
        let mut parts = StateDict::new();
        for (name, key) in &self.own {
            let Some(shard) = state.get(name) else { bail!(Internal, "tensor `{name}` is missing") };
            let dense = shard.tensor.detach()?.contiguous()?;
            parts.insert(key.clone(), dense.view(&[dense.numel()])?);
        }
        if parts.is_empty() {
            return Ok(());
        }
        Checkpoint { model: parts, ..Default::default() }.save(folder.join(&self.file))
    }
}

/// `float32 [2,3] 0 6 name`.
fn describe(name: &str, shard: &super::Shard) -> String {
    let (sizes, range) = (shard.sizes.iter().map(i64::to_string).collect::<Vec<_>>(), shard.range());
    // A name may have spaces, and is last.
    format!("{} [{}] {} {} {name}", shard.dtype(), sizes.join(","), range.start, range.end)
}

fn add(all: &mut BTreeMap<String, Offered>, rank: usize, line: &str) -> Result<()> {
    let mut words = line.splitn(5, ' ');
    let (Some(dtype), Some(sizes)) = (words.next(), words.next()) else { return Err(damaged(line)) };
    let dtype: ScalarType = dtype.parse()?;
    let sizes = sizes.trim_matches(['[', ']']).split(',').filter(|size| !size.is_empty());
    let sizes = sizes.map(|size| number(Some(size), line)).collect::<Result<Vec<i64>>>()?;
    let (start, end) = (number(words.next(), line)?, number(words.next(), line)?);
    let Some(name) = words.next() else { return Err(damaged(line)) };
    let offered = all.entry(name.to_owned());
    let offered = offered.or_insert_with(|| Offered { dtype, sizes: sizes.clone(), offers: vec![] });
    if (offered.dtype, &offered.sizes) != (dtype, &sizes) {
        return Err(differs(name));
    }
    offered.offers.push(Offer { rank, start, end });
    Ok(())
}

/// Offers that have every element once. Among equal ones that of the rank with the fewest elements so far is taken.
fn cover(name: &str, offered: &Offered, loads: &mut [i64]) -> Result<Vec<Offer>> {
    let count: i64 = offered.sizes.iter().product();
    let (mut chosen, mut position): (Vec<Offer>, i64) = (vec![], 0);
    while position < count || chosen.is_empty() {
        let fitting = offered.offers.iter().filter(|offer| offer.start == position);
        let best = fitting.min_by_key(|offer| (-offer.end, loads[offer.rank], offer.rank));
        let Some(best) = best.filter(|best| best.end > position || count == 0) else {
            bail!(
                InvalidArgument("checkpoint", "state"),
                "expected parts of tensor `{name}` that make up all of its {count} elements but no part begins at {position}"
            )
        };
        loads[best.rank] += best.end - best.start;
        position = best.end;
        chosen.push(best.clone());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(count: i64, offers: &[(usize, i64, i64)]) -> Offered {
        let offers = offers.iter().map(|(rank, start, end)| Offer { rank: *rank, start: *start, end: *end });
        Offered { dtype: ScalarType::F32, sizes: vec![count], offers: offers.collect() }
    }

    #[test]
    fn every_element_is_written_once() {
        let mut loads = [0; 2];
        let ranks = |chosen: Vec<Offer>| chosen.iter().map(|offer| offer.rank).collect::<Vec<_>>();
        let both = offered(6, &[(0, 0, 6), (1, 0, 6)]);
        assert_eq!(ranks(cover("a", &both, &mut loads).unwrap()), [0]);
        assert_eq!(ranks(cover("b", &both, &mut loads).unwrap()), [1]);
        assert_eq!(ranks(cover("c", &offered(6, &[(1, 3, 6), (0, 0, 3)]), &mut loads).unwrap()), [0, 1]);
        assert_eq!(cover("d", &offered(0, &[(0, 0, 0), (1, 0, 0)]), &mut loads).unwrap().len(), 1);
        let e = cover("e", &offered(6, &[(0, 0, 2), (1, 3, 6)]), &mut loads).unwrap_err();
        assert!(e.message().contains("no part begins at 2"), "{e}");
    }
}
