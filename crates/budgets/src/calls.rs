//! The calls whose instructions are counted: pure overhead, as in the workloads `dispatch.*`.

use flambeau::core::bail;
use flambeau::nn::optim::{Optimizer, Sgd, SgdOptions};
use flambeau::options::LinearOptions;
use flambeau::{Autograd, Result, ScalarType, Tensor, ops};

pub(crate) type Call = Box<dyn FnMut() -> Result<()>>;

/// Makes a call; its inputs are made here, outside of what is counted.
type Make = fn() -> Result<Call>;

/// Each call by its name, with the function that makes it.
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
        Ok(Box::new(move || x.slice(1, 1, 3).map(drop)))
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
    ("tiny_step", || {
        let shapes = [vec![16i64, 8], vec![16], vec![1, 16], vec![1]];
        let params = shapes.iter().map(|sizes| parameter(sizes)).collect::<Result<Vec<_>>>()?;
        let mut sgd = Sgd::new(params.clone(), SgdOptions { lr: 0.01, ..Default::default() })?;
        let (x, y) = (Tensor::ones(&[4, 8], ScalarType::F32)?, Tensor::ones(&[4, 1], ScalarType::F32)?);
        Ok(Box::new(move || {
            sgd.zero_grad()?;
            let hidden =
                Tensor::linear_with(&x, &params[0], LinearOptions::new().bias(&params[1]))?.tanh()?;
            ops::mse_loss(
                &Tensor::linear_with(&hidden, &params[2], LinearOptions::new().bias(&params[3]))?,
                &y,
                1,
            )?
            .backward()?;
            sgd.step()
        }))
    }),
];

fn parameter(sizes: &[i64]) -> Result<Tensor> {
    let p = Tensor::full(sizes, 0.125, ScalarType::F32)?;
    p.requires_grad_(true)?;
    Ok(p)
}

/// Ten dependent operators.
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
