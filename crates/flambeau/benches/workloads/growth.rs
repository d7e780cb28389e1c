//! Workloads for `cargo xtask growth`: one operator of each family, from 1 to ten million elements.
//!
//! The name of a workload ends in its number of elements. Powers of two, and the sizes beside some of them, so that what happens
//! at the end of a vector, a tile, a cache or a thread's share shows.

use super::data::{fill, indices};
use super::{Call, Workload};
use flambeau::{Result, ScalarType, Tensor, ops};

/// A family: its name, its minimum and maximum size, and what is timed.
type Family = (&'static str, i64, i64, fn(i64) -> Result<Call>);

const MOST: i64 = 10_000_000;

const FAMILIES: &[Family] = &[
    ("add", 1, MOST, |n| {
        let (a, b) = (fill(&[n], 1)?, fill(&[n], 2)?);
        Ok(Box::new(move || a.add(&b)))
    }),
    ("exp", 1, MOST, |n| of(&[n], |x| x.exp())),
    ("cast", 1, MOST, |n| of(&[n], |x| x.to(ScalarType::BF16))),
    ("transpose", 1, MOST, |n| {
        let rows = root(n);
        of(&[rows, n / rows], |x| x.t()?.contiguous())
    }),
    ("sum", 1, MOST, |n| of(&[n], |x| x.sum())),
    ("softmax", 1, MOST, |n| of(&rows(n), |x| x.softmax(1))),
    ("layer_norm", 1, MOST, |n| {
        let sizes = rows(n);
        of(&sizes, |x| Tensor::layer_norm(x, &x.sizes()[1..]))
    }),
    ("sort", 1, MOST, |n| of(&[n], |x| Ok(x.sort()?.0))),
    ("topk", 16, MOST, |n| of(&[n], |x| Ok(x.topk(10)?.0))),
    ("index_select", 64, MOST, |n| {
        let (x, ids) = (fill(&[n / 64, 64], 1)?, indices(&[n / 64], (n / 64) as u32, 2)?);
        Ok(Box::new(move || x.index_select(0, &ids)))
    }),
    ("matmul", 1, 1 << 22, |n| {
        let (a, b) = (fill(&[root(n), root(n)], 1)?, fill(&[root(n), root(n)], 2)?);
        Ok(Box::new(move || a.matmul(&b)))
    }),
    ("conv2d", 16 * 9, MOST, |n| {
        let side = root(n / 16);
        let (x, w) = (fill(&[1, 16, side, side], 1)?, fill(&[16, 16, 3, 3], 2)?);
        Ok(Box::new(move || ops::conv2d(&x, &w, None, &[1, 1], &[1, 1], &[1, 1], 1)))
    }),
    ("attention", 256, 1 << 20, |n| {
        let [q, k, v] = [1, 2, 3].map(|seed| fill(&[1, 4, n / 256, 64], seed));
        let (q, k, v) = (q?, k?, v?);
        Ok(Box::new(move || super::nn::attend(&q, &k, &v)))
    }),
];

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for &(name, min, max, setup) in FAMILIES {
        for n in sizes().into_iter().filter(|n| (min..=max).contains(n)) {
            all.push(Workload::new(format!("growth.{name}.{n}"), move || setup(n)));
        }
    }
    all
}

fn sizes() -> Vec<i64> {
    let powers = (0..24).map(|power| 1 << power);
    let beside = [4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
        .into_iter()
        .flat_map(|power| [(1 << power) - 1, (1 << power) + 1]);
    let mut sizes: Vec<i64> = powers.chain(beside).chain([MOST]).collect();
    sizes.sort_unstable();
    sizes
}

fn of(sizes: &[i64], op: fn(&Tensor) -> Result<Tensor>) -> Result<Call> {
    let x = fill(sizes, 1)?;
    Ok(Box::new(move || op(&x)))
}

/// The side of a square.
fn root(n: i64) -> i64 {
    n.isqrt()
}

/// Rows of at max 1024.
fn rows(n: i64) -> [i64; 2] {
    let length = n.min(1024);
    [n / length, length]
}
