//! Matrix products.

use super::Workload;
use super::data::fill;

pub(super) fn workloads() -> Vec<Workload> {
    [64i64, 128, 256, 512, 1024]
        .into_iter()
        .map(|n| {
            Workload::new(format!("linalg.matmul_f32.{n}"), move || {
                let (a, b) = (fill(&[n, n], 1)?, fill(&[n, n], 2)?);
                Ok(move || a.mm(&b))
            })
        })
        .collect()
}
