//! A network of two layers learns to tell two spirals apart, in a second or two.

use flambeau::nn::Linear;
use flambeau::nn::functional::{self, Reduction};
use flambeau::nn::optim::{Sgd, SgdOptions};
use flambeau::prelude::*;

/// Points of two spirals, `[2 n, 2]`, and which spiral each is on, `[2 n, 1]`, as -1 and 1.
fn spirals(n: usize) -> Result<(Tensor, Tensor)> {
    let (mut points, mut sides) = (Vec::new(), Vec::new());
    for i in 0..2 * n {
        let side = if i % 2 == 0 { 1.0f32 } else { -1.0 };
        let angle = 0.3 + 3.0 * (i / 2) as f32 / n as f32;
        points.extend([side * angle * angle.cos() / 3.0, side * angle * angle.sin() / 3.0]);
        sides.push(side);
    }
    let rows = 2 * n as i64;
    Ok((Tensor::from_vec(points, &[rows, 2])?, Tensor::from_vec(sides, &[rows, 1])?))
}

#[derive(Module)]
struct Net {
    hidden: Linear,
    out: Linear,
}

impl Forward for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.hidden.forward(x)?.tanh()?)
    }
}

fn main() -> Result<()> {
    flambeau::manual_seed(1);
    let (points, sides) = spirals(200)?;
    println!(
        "two spirals of 200 points, wound into each other; a network with 64 hidden units learns which is which"
    );
    let net = Net { hidden: Linear::new(2, 64)?, out: Linear::new(64, 1)? };
    let options = SgdOptions::default().lr(0.1).momentum(0.9);
    let mut optimizer = Sgd::new(net.parameters(), options)?;
    for step in 0..=1000 {
        let loss = functional::mse_loss(&net.forward(&points)?, &sides, Reduction::Mean)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        if step % 200 == 0 {
            println!("step {step:4}  mean squared error {:.4}", loss.item::<f32>()?);
        }
    }
    let _unrecorded = no_grad();
    let answers: Vec<f32> = net.forward(&points)?.mul(&sides)?.to_vec()?;
    let right = answers.iter().filter(|a| **a > 0.0).count();
    println!("{right} of {} points are told right", answers.len());
    Ok(())
}
