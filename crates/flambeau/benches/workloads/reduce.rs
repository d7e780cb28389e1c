//! Sums.

use super::Workload;
use super::data::fill;

pub(super) fn workloads() -> Vec<Workload> {
    [("1e3", 1_000i64), ("1e5", 100_000), ("1e7", 10_000_000)]
        .into_iter()
        .map(|(size, n)| {
            Workload::new(format!("reduce.sum_all.{size}"), move || {
                let x = fill(&[n], 1)?;
                Ok(move || x.sum())
            })
        })
        .collect()
}
