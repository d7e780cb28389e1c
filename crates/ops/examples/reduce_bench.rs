//! Measures times of reductions, one per line: `cargo run --release -p flambeau-ops --example reduce_bench`.
#![allow(clippy::unwrap_used, reason = "an example")]

use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};
use std::time::Instant;

fn main() {
    if let Some(threads) = std::env::args().nth(1).and_then(|n| n.parse().ok()) {
        flambeau_ops::parallel::set_num_threads(threads);
    }
    let make = |sizes: &[i64], dtype| ops::full(sizes, 0.5.into(), Some(dtype), None, None, None).unwrap();
    let vector = make(&[10_000_000], ScalarType::F32);
    let matrix = make(&[4096, 4096], ScalarType::F32);
    let half = make(&[10_000_000], ScalarType::BF16);
    let wide = make(&[1024, 50_257], ScalarType::F32);
    let image = make(&[32, 64, 56, 56], ScalarType::F32);
    let w = make(&[4096], ScalarType::F32);
    let rows: &[(&str, &dyn Fn() -> Result<Tensor>)] = &[
        ("sum 1e7", &|| ops::sum(&vector, None)),
        ("sum bf16 1e7", &|| ops::sum(&half, None)),
        ("sum(0) 4096^2", &|| ops::sum_dim_intlist(&matrix, Some(&[0]), false, None)),
        ("sum(1) 4096^2", &|| ops::sum_dim_intlist(&matrix, Some(&[1]), false, None)),
        ("amax(1) 4096^2", &|| ops::amax(&matrix, &[1], false)),
        ("argmax(1) 4096^2", &|| ops::argmax(&matrix, Some(1), false)),
        ("max.dim(0) 4096^2", &|| Ok(ops::max_dim(&matrix, 0, false)?.0)),
        ("var 1e7", &|| ops::var_correction(&vector, None, None, false)),
        ("var(0) 4096^2", &|| ops::var_correction(&matrix, Some(&[0]), None, false)),
        ("norm 1e7", &|| ops::linalg_vector_norm(&vector, 2.into(), None, false, None)),
        ("logsumexp(1) 4096^2", &|| ops::logsumexp(&matrix, &[1], false)),
        ("softmax(1) 4096^2", &|| ops::softmax_int(&matrix, 1, None)),
        ("softmax(0) 4096^2", &|| ops::softmax_int(&matrix, 0, None)),
        ("log_softmax 1024x50257", &|| ops::log_softmax_int(&wide, 1, None)),
        ("softmax(1) image", &|| ops::softmax_int(&image, 1, None)),
        ("layer_norm 4096^2", &|| ops::layer_norm(&matrix, &[4096], Some(&w), Some(&w), 1e-5, true)),
        ("batch_norm image", &|| ops::batch_norm(&image, None, None, None, None, true, 0.1, 1e-5, true)),
        ("group_norm image", &|| ops::group_norm(&image, 8, None, None, 1e-5, true)),
        ("cumsum(1) 4096^2", &|| ops::cumsum(&matrix, 1, None)),
        ("mse_loss 1e7", &|| ops::mse_loss(&vector, &vector, 1)),
        ("sum(-1) 1e6x4", &|| {
            ops::sum_dim_intlist(
                &ops::view(&make(&[4_000_000], ScalarType::F32), &[1_000_000, 4])?,
                Some(&[1]),
                false,
                None,
            )
        }),
        ("sum 16", &|| ops::sum(&ops::view(&make(&[16], ScalarType::F32), &[16])?, None)),
    ];
    for (name, run) in rows {
        let mut best = f64::INFINITY;
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < 0.6 {
            let start = Instant::now();
            std::hint::black_box(run().unwrap());
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{name:24} {:10.1} us", best * 1e6);
    }
}
