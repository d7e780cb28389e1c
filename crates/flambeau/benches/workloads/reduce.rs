//! Workloads of reductions, scans, norms and sorting.

use super::Workload;
use super::data::{fill, leaf, positive, requiring_grad};
use super::measure::backward_of;
use flambeau::options::{LayerNormOptions, SortOptions, TopkOptions};
use flambeau::{Result, ScalarType, Tensor, ops};

type Op = fn(&Tensor) -> Result<Tensor>;

const SQUARE: [(&str, Op); 9] = [
    ("sum_dim0", |x| x.sum_dim(0)),
    ("sum_dim1", |x| x.sum_dim(1)),
    ("mean_dim1", |x| x.mean_dim(1)),
    ("max_dim1", |x| x.max_dim(1).map(|(values, _)| values)),
    ("argmax_dim1", |x| x.argmax_dim(1)),
    ("var_dim1", |x| x.var_dim(1)),
    ("softmax.4096x4096", |x| x.softmax(1)),
    ("log_softmax.4096x4096", |x| x.log_softmax(1)),
    ("cumsum_dim1", |x| x.cumsum(1)),
];
const VOCABULARY: [(&str, Op); 2] =
    [("softmax.512x50257", |x| x.softmax(1)), ("log_softmax.512x50257", |x| x.log_softmax(1))];

pub(super) fn workloads() -> Vec<Workload> {
    let on = |name: &str, sizes: &'static [i64], op: Op| {
        Workload::of(format!("reduce.{name}"), move || fill(sizes, 1), op)
    };
    let mut all = vec![
        on("sum_all.1e3", &[1_000], |x| x.sum()),
        on("sum_all.1e5", &[100_000], |x| x.sum()),
        on("sum_all.1e7", &[10_000_000], |x| x.sum()),
    ];
    all.extend(SQUARE.map(|(name, op)| on(name, &[4096, 4096], op)));
    all.extend(VOCABULARY.map(|(name, op)| on(name, &[512, 50257], op)));
    all.extend(norms());
    all.push(on("sort.1000x1000", &[1000, 1000], |x| {
        x.sort_with(SortOptions::new().dim(1)).map(|(values, _)| values)
    }));
    all.push(on("topk10.1000x10000", &[1000, 10000], |x| {
        x.topk_with(10, TopkOptions::new().dim(1)).map(|(values, _)| values)
    }));
    all
}

fn layer_norm(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    Tensor::layer_norm_with(x, &[1024], LayerNormOptions::new().weight(w).bias(b))
}

fn norms() -> Vec<Workload> {
    vec![
        Workload::new("reduce.layer_norm.fwd", || {
            let (x, w, b) = (fill(&[4096, 1024], 1)?, positive(&[1024], 2)?, fill(&[1024], 3)?);
            Ok(move || layer_norm(&x, &w, &b))
        }),
        Workload::new("reduce.layer_norm.fwd_bwd", || {
            let (x, w, b) =
                (leaf(&[4096, 1024], 1)?, requiring_grad(positive(&[1024], 2)?)?, leaf(&[1024], 3)?);
            let leaves = vec![x.clone(), w.clone(), b.clone()];
            Ok(backward_of(leaves, 0, move || layer_norm(&x, &w, &b)))
        }),
        Workload::new("reduce.batch_norm.train_fwd", || {
            let (x, w, b) = (fill(&[32, 64, 56, 56], 1)?, positive(&[64], 2)?, fill(&[64], 3)?);
            let (mean, var) = (Tensor::zeros(&[64], ScalarType::F32)?, Tensor::ones(&[64], ScalarType::F32)?);
            Ok(move || {
                ops::batch_norm(&x, Some(&w), Some(&b), Some(&mean), Some(&var), true, 0.1, 1e-5, true)
            })
        }),
    ]
}
