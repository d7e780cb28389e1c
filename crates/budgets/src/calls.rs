//! The calls whose instructions are counted: pure overhead, as in the workloads `dispatch.*`.

use flambeau::core::bail;
use flambeau::{Autograd, Result, ScalarType, Tensor};

pub(crate) type Call = Box<dyn FnMut() -> Result<()>>;

/// Its inputs are made outside of what is counted.
type Make = fn() -> Result<Call>;

/// Each call by its name, with what makes it.
pub(crate) const CALLS: &[(&str, Make)] = &[
    ("add1_nograd", || {
        let (a, b) = (Tensor::from([0.5f32]), Tensor::from([0.25f32]));
        Ok(Box::new(move || a.add(&b).map(drop)))
    }),
    ("add1_grad", || {
        let (a, b) = (leaf(0.5)?, leaf(0.25)?);
        Ok(Box::new(move || a.add(&b).map(drop)))
    }),
    ("view", || {
        let x = Tensor::zeros(&[2, 3, 4], ScalarType::F32)?;
        Ok(Box::new(move || x.view(&[6, 4]).map(drop)))
    }),
    ("transpose", || {
        let x = Tensor::zeros(&[2, 3, 4], ScalarType::F32)?;
        Ok(Box::new(move || x.transpose(0, 1).map(drop)))
    }),
    ("slice", || {
        let x = Tensor::zeros(&[2, 3, 4], ScalarType::F32)?;
        Ok(Box::new(move || x.slice(1, Some(1), Some(3), 1).map(drop)))
    }),
    ("empty4", || Ok(Box::new(|| Tensor::empty(&[4], ScalarType::F32).map(drop)))),
    ("chain10_fwd", || {
        let x = leaf(0.5)?;
        Ok(Box::new(move || chain(&x).map(drop)))
    }),
    ("chain10_fwd_bwd", || {
        let x = leaf(0.5)?;
        Ok(Box::new(move || {
            chain(&x)?.backward()?;
            if x.grad().is_none() {
                bail!(Internal, "no gradient arrived");
            }
            x.set_grad(None)
        }))
    }),
];

/// Ten operators in a row.
fn chain(x: &Tensor) -> Result<Tensor> {
    let mut y = x.clone();
    for _ in 0..5 {
        y = y.mul(x)?;
        y = y.add(x)?;
    }
    Ok(y)
}

fn leaf(value: f32) -> Result<Tensor> {
    let x = Tensor::from([value]);
    x.requires_grad_(true)?;
    Ok(x)
}
