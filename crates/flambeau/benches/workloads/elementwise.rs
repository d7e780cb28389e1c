//! Workloads of elementwise operators, on tensors that fit the caches and larger ones, and of several operators in sequence.

use super::data::{fill, fill_as, indices, mask, positive};
use super::{Call, Workload};
use flambeau::options::MeanOptions;
use flambeau::{Result, Scalar, ScalarType, Tensor, ops};

const SIZES: [(&str, i64); 3] = [("1e3", 1_000), ("1e5", 100_000), ("1e7", LARGE)];
const LARGE: i64 = 10_000_000;
const ONE: Scalar = Scalar::Int(1);

type Make = fn(&[i64], u32) -> Result<Tensor>;
type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

const UNARY: [(&str, Make, Unary); 9] = [
    ("relu", fill, |x| x.relu()),
    ("exp", fill, |x| x.exp()),
    ("tanh", fill, |x| x.tanh()),
    ("sigmoid", fill, |x| x.sigmoid()),
    ("gelu", fill, |x| ops::gelu(x, "none")),
    ("sin", fill, |x| x.sin()),
    ("clamp", fill, |x| x.clamp(Scalar::Float(-0.5), Scalar::Float(0.5))),
    ("log", positive, |x| x.log()),
    ("pow", positive, |x| x.pow(2.5)),
];

const BINARY: [(&str, Binary); 2] = [("add", |a, b| a.add(b)), ("mul", |a, b| a.mul(b))];

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for (size, n) in SIZES {
        for (name, op) in BINARY {
            all.push(binary(&format!("elementwise.{name}.{size}"), ScalarType::F32, n, op));
        }
        for (name, make, op) in UNARY {
            all.push(Workload::of(format!("elementwise.{name}.{size}"), move || make(&[n], 1), op));
        }
        all.push(Workload::new(format!("elementwise.where.{size}"), move || {
            let (a, b, c) = (fill(&[n], 1)?, fill(&[n], 2)?, mask(&[n], 3)?);
            Ok(move || a.where_cond(&c, &b))
        }));
    }
    all.extend(broadcasts());
    all.extend(written());
    all.extend(types());
    all.extend(fused());
    all
}

fn binary(name: &str, dtype: ScalarType, n: i64, op: Binary) -> Workload {
    Workload::new(name, move || {
        let (a, b) = (fill_as(&[n], 1, dtype)?, fill_as(&[n], 2, dtype)?);
        Ok(move || op(&a, &b))
    })
}

fn broadcasts() -> Vec<Workload> {
    let sum = |name: &str, a: [i64; 2], b: &'static [i64], transposed: bool| {
        Workload::new(name, move || {
            let (a, b) = (fill(&a, 1)?, fill(b, 2)?);
            let b = if transposed { b.t()? } else { b };
            Ok(move || a.add(&b))
        })
    };
    vec![
        sum("elementwise.add_row_broadcast", [4096, 1024], &[1024], false),
        sum("elementwise.add_col_broadcast", [4096, 1024], &[4096, 1], false),
        sum("elementwise.add_transposed", [2048, 2048], &[2048, 2048], true),
    ]
}

fn written() -> Vec<Workload> {
    vec![
        Workload::new("elementwise.add_inplace.1e7", || {
            let (a, b) = (fill(&[LARGE], 1)?, fill(&[LARGE], 2)?.mul_scalar(1e-3)?);
            Ok(move || a.add_(&b).cloned())
        }),
        Workload::new("elementwise.add_out.1e7", || {
            let (a, b) = (fill(&[LARGE], 1)?, fill(&[LARGE], 2)?);
            let c = Tensor::empty(&[LARGE], ScalarType::F32)?;
            Ok(move || ops::add_out(&a, &b, ONE, &c).map(|()| c.clone()))
        }),
    ]
}

fn types() -> Vec<Workload> {
    let mut all = vec![];
    for (label, dtype) in [("bf16", ScalarType::BF16), ("f16", ScalarType::F16)] {
        all.push(binary(&format!("elementwise.add_{label}.1e7"), dtype, LARGE, |a, b| a.add(b)));
        let make = move || fill_as(&[LARGE], 1, dtype);
        all.push(Workload::of(format!("elementwise.exp_{label}.1e7"), make, |x| x.exp()));
    }
    all.push(Workload::new("elementwise.add_i64.1e7", || {
        let (a, b) = (indices(&[LARGE], 1000, 1)?, indices(&[LARGE], 1000, 2)?);
        Ok(move || a.add(&b))
    }));
    let make = || fill(&[LARGE], 1);
    all.push(Workload::of("elementwise.cast_f32_bf16.1e7", make, |x| x.to(ScalarType::BF16)));
    all
}

fn fused() -> Vec<Workload> {
    fn rmsnorm(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let mean = (x * x)?.mean_with(MeanOptions::new().dim(&[-1]).keepdim(true))?;
        x * (mean + 1e-5)?.rsqrt() * w
    }
    vec![
        Workload::new("fused.bias_gelu_scale", || {
            let (x, bias) = (fill(&[4096, 4096], 1)?, fill(&[4096], 2)?);
            Ok(move || ops::gelu(&(&x + &bias)?, "none")? * 2.0)
        }),
        Workload::new("fused.rmsnorm", || {
            let (x, w) = (fill(&[4096, 1024], 1)?, positive(&[1024], 2)?);
            Ok(move || rmsnorm(&x, &w))
        }),
        Workload::of("copy.contiguous_transposed", || fill(&[4096, 4096], 1), |x| x.t()?.contiguous()),
        Workload::new("copy.cat16", || {
            let parts = (0..16).map(|seed| fill(&[256, 1024], seed)).collect::<Result<Vec<_>>>()?;
            Ok(Box::new(move || Tensor::cat(&parts, 1)) as Call)
        }),
    ]
}
