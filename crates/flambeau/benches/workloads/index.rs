//! Workloads of operators that read or write elements by index.

use super::Workload;
use super::data::{fill, indices, leaf, mask};
use super::measure::backward_of;
use flambeau::Tensor;

pub(super) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("index.index_select", || {
            let (x, ids) = (fill(&[100_000, 64], 1)?, indices(&[100_000], 100_000, 2)?);
            Ok(move || x.index_select(0, &ids))
        }),
        Workload::new("index.gather", || {
            let (x, ids) = (fill(&[4096, 4096], 1)?, indices(&[4096, 1024], 4096, 2)?);
            Ok(move || x.gather(1, &ids))
        }),
        Workload::new("index.masked_fill", || {
            let (x, mask) = (fill(&[4096, 4096], 1)?, mask(&[4096, 4096], 2)?);
            Ok(move || x.masked_fill(&mask, -1.0))
        }),
        Workload::new("index.scatter_add", || {
            let (base, src) = (fill(&[4096, 1024], 1)?, fill(&[4096, 4096], 2)?);
            let ids = indices(&[4096, 4096], 1024, 3)?;
            Ok(move || base.scatter_add(1, &ids, &src))
        }),
        Workload::new("index.embedding.fwd", || {
            let (table, ids) = (fill(&[50257, 768], 1)?, indices(&[32, 512], 50257, 2)?);
            Ok(move || Tensor::embedding(&table, &ids))
        }),
        Workload::new("index.embedding.fwd_bwd", || {
            let (table, ids) = (leaf(&[50257, 768], 1)?, indices(&[32, 512], 50257, 2)?);
            let leaves = vec![table.clone()];
            Ok(backward_of(leaves, 0, move || Tensor::embedding(&table, &ids)))
        }),
    ]
}
