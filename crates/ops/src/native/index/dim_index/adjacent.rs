//! Indices that ascend by one: the elements at them are adjacent, and copied or combined as a slice. Padding and shifts have such indices.

use flambeau_core::{Result, fallible};

/// Indices `at..at + count` of a row of indices, which are the numbers from `first` on.
pub(super) struct AdjacentRun {
    pub(super) at: usize,
    pub(super) first: i64,
    pub(super) count: usize,
}

/// How many indices a run has on average for runs to be faster than single elements.
const MIN_AVERAGE: usize = 4;

/// The runs of a row of indices, if they are long enough on average.
pub(super) fn adjacent_runs(index: &[i64]) -> Result<Option<Vec<AdjacentRun>>> {
    let follows = |a: &i64, b: &i64| *b == a.wrapping_add(1);
    let breaks = index.windows(2).filter(|pair| !follows(&pair[0], &pair[1])).count();
    if (breaks + 1) * MIN_AVERAGE > index.len() {
        return Ok(None);
    }
    let mut runs = fallible::with_capacity(breaks + 1)?;
    let mut at = 0;
    for run in index.chunk_by(follows) {
        runs.push(AdjacentRun { at, first: run[0], count: run.len() });
        at += run.len();
    }
    Ok(Some(runs))
}
