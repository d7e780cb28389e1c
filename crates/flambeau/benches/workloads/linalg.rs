//! Workloads of matrix products.

use super::Workload;
use super::data::{fill_as, leaf};
use super::measure::backward_of;
use flambeau::options::LinearOptions;
use flambeau::{ScalarType, Tensor};

pub(super) fn workloads() -> Vec<Workload> {
    let product = |name: String, dtype: ScalarType, a: Vec<i64>, b: Vec<i64>| {
        Workload::new(format!("linalg.{name}"), move || {
            let (a, b) = (fill_as(&a, 1, dtype)?, fill_as(&b, 2, dtype)?);
            Ok(move || a.matmul(&b))
        })
    };
    let square =
        |name: &str, dtype, n: i64| product(format!("matmul_{name}.{n}"), dtype, vec![n, n], vec![n, n]);
    let f32 = ScalarType::F32;
    let mut all: Vec<_> = [64, 128, 256, 512, 1024, 2048].map(|n| square("f32", f32, n)).into();
    all.extend([
        square("f64", ScalarType::F64, 1024),
        square("bf16", ScalarType::BF16, 1024),
        product("bmm".to_owned(), f32, vec![64, 128, 64], vec![64, 64, 128]),
        product("matvec.4096".to_owned(), f32, vec![4096, 4096], vec![4096]),
        product("tall_skinny".to_owned(), f32, vec![8192, 256], vec![256, 16]),
        Workload::new("linalg.linear.fwd_bwd", || {
            let (x, w, b) = (leaf(&[512, 1024], 1)?, leaf(&[1024, 1024], 2)?, leaf(&[1024], 3)?);
            let leaves = vec![x.clone(), w.clone(), b.clone()];
            Ok(backward_of(leaves, 1, move || Tensor::linear_with(&x, &w, LinearOptions::new().bias(&b))))
        }),
    ]);
    all
}
