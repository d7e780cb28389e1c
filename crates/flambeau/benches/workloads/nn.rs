//! Workloads of operators of neural networks. Convolutions have no bias.

use super::Workload;
use super::data::{fill, indices, leaf};
use super::measure::backward_of;
use flambeau::options::ScaledDotProductAttentionOptions;
use flambeau::{Result, Tensor, ops};

/// A convolution: its name, the sizes of input and weight, stride, padding, groups.
type Convolution = (&'static str, [i64; 4], [i64; 4], i64, i64, i64);

const CONVOLUTIONS: [Convolution; 6] = [
    ("stem", [8, 3, 224, 224], [64, 3, 7, 7], 2, 3, 1),
    ("64x56", [8, 64, 56, 56], [64, 64, 3, 3], 1, 1, 1),
    ("128x28", [8, 128, 28, 28], [128, 128, 3, 3], 1, 1, 1),
    ("256x14", [8, 256, 14, 14], [256, 256, 3, 3], 1, 1, 1),
    ("512x7", [8, 512, 7, 7], [512, 512, 3, 3], 1, 1, 1),
    ("depthwise", [32, 144, 28, 28], [144, 1, 3, 3], 1, 1, 144),
];

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for (name, x, w, stride, padding, groups) in CONVOLUTIONS {
        let conv = move |x: &Tensor, w: &Tensor| {
            ops::conv2d(x, w, None, &[stride; 2], &[padding; 2], &[1, 1], groups)
        };
        all.push(Workload::new(format!("nn.conv_{name}.fwd"), move || {
            let (x, w) = (fill(&x, 1)?, fill(&w, 2)?);
            Ok(move || conv(&x, &w))
        }));
        all.push(Workload::new(format!("nn.conv_{name}.fwd_bwd"), move || {
            let (x, w) = (leaf(&x, 1)?, leaf(&w, 2)?);
            let leaves = vec![x.clone(), w.clone()];
            Ok(backward_of(leaves, 1, move || conv(&x, &w)))
        }));
    }
    let pool = |x: &Tensor| ops::max_pool2d(x, &[3, 3], &[2, 2], &[1, 1], &[1, 1], false);
    all.push(Workload::of("nn.max_pool2d", || fill(&[8, 64, 112, 112], 1), pool));
    all.extend(attention());
    all.push(Workload::new("nn.cross_entropy.fwd_bwd", || {
        let (logits, ids) = (leaf(&[4096, 50257], 1)?, indices(&[4096], 50257, 2)?);
        let leaves = vec![logits.clone()];
        Ok(backward_of(leaves, 0, move || cross_entropy(&logits, &ids)))
    }));
    all
}

/// The mean over the rows.
pub(super) fn cross_entropy(logits: &Tensor, ids: &Tensor) -> Result<Tensor> {
    ops::cross_entropy_loss(logits, ids, None, 1, -100, 0.0)
}

/// Causal attention.
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    Tensor::scaled_dot_product_attention_with(
        q,
        k,
        v,
        ScaledDotProductAttentionOptions::new().is_causal(true),
    )
}

fn attention() -> [Workload; 2] {
    const SIZES: [i64; 4] = [4, 12, 512, 64];
    [
        Workload::new("nn.sdpa_causal.fwd", || {
            let (q, k, v) = (fill(&SIZES, 1)?, fill(&SIZES, 2)?, fill(&SIZES, 3)?);
            Ok(move || attend(&q, &k, &v))
        }),
        Workload::new("nn.sdpa_causal.fwd_bwd", || {
            let (q, k, v) = (leaf(&SIZES, 1)?, leaf(&SIZES, 2)?, leaf(&SIZES, 3)?);
            let leaves = vec![q.clone(), k.clone(), v.clone()];
            Ok(backward_of(leaves, 0, move || attend(&q, &k, &v)))
        }),
    ]
}
