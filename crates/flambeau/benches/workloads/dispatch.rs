//! Workloads of the smallest calls, whose time is overhead only.

use super::Workload;
use super::data::{fill, leaf};
use flambeau::core::bail;
use flambeau::{Autograd, ScalarType, Tensor};

pub(super) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("dispatch.add1_nograd", || {
            let (a, b) = (fill(&[1], 1)?, fill(&[1], 2)?);
            Ok(move || a.add(&b))
        }),
        Workload::new("dispatch.add1_grad", || {
            let (a, b) = (leaf(&[1], 1)?, leaf(&[1], 2)?);
            Ok(move || a.add(&b))
        }),
        Workload::new("dispatch.view", || {
            let x = fill(&[2, 3, 4], 1)?;
            Ok(move || x.view(&[6, 4]))
        }),
        Workload::new("dispatch.transpose", || {
            let x = fill(&[2, 3, 4], 1)?;
            Ok(move || x.transpose(0, 1))
        }),
        Workload::new("dispatch.slice", || {
            let x = fill(&[2, 3, 4], 1)?;
            Ok(move || x.slice(1, 1, 3))
        }),
        Workload::new("dispatch.empty4", || Ok(|| Tensor::empty(&[4], ScalarType::F32))),
        Workload::new("dispatch.chain10_fwd_bwd", || {
            let x = leaf(&[1], 1)?;
            Ok(move || {
                let mut y = x.clone();
                for _ in 0..5 {
                    y = y.mul(&x)?;
                    y = y.add(&x)?;
                }
                y.backward()?;
                let Some(grad) = x.grad() else { bail!(Internal, "no gradient arrived") };
                x.set_grad(None)?;
                Ok(grad)
            })
        }),
    ]
}
