//! One formula on all elements, in cache and out of it.

use super::Workload;
use super::data::fill;
use flambeau_core::Result;
use flambeau_ops::Tensor;

const SIZES: [(&str, i64); 3] = [("1e3", 1_000), ("1e5", 100_000), ("1e7", 10_000_000)];

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn workloads() -> Vec<Workload> {
    let unary: [(&str, Unary); 4] =
        [("relu", |x| x.relu()), ("exp", |x| x.exp()), ("tanh", |x| x.tanh()), ("sigmoid", |x| x.sigmoid())];
    let binary: [(&str, Binary); 2] = [("add", |a, b| a.add(b)), ("mul", |a, b| a.mul(b))];
    let mut all = Vec::new();
    for (size, n) in SIZES {
        for (name, op) in binary {
            all.push(Workload::new(format!("elementwise.{name}.{size}"), move || {
                let (a, b) = (fill(&[n], 1)?, fill(&[n], 2)?);
                Ok(move || op(&a, &b))
            }));
        }
        for (name, op) in unary {
            all.push(Workload::new(format!("elementwise.{name}.{size}"), move || {
                let x = fill(&[n], 1)?;
                Ok(move || op(&x))
            }));
        }
    }
    all
}
