//! A network computes and learns in blocks as it does on strided tensors; what has no rule is an error.

use flambeau::layouts::{register_layout, register_rule};
use flambeau::ops::options::Conv2dOptions;
use flambeau::prelude::*;
use flambeau::{Scalar, ops};
use flambeau_blocked_layout::{blocked16, to_blocked, to_dense};

fn close(a: &Tensor, b: &Tensor) -> bool {
    a.sizes() == b.sizes() && a.allclose(b, 1e-11, 1e-11, false).unwrap()
}

fn images(sizes: &[i64]) -> Result<Tensor> {
    Tensor::randn(sizes, ScalarType::F64)
}

#[test]
fn conversions_keep_every_element_and_the_history() -> Result<()> {
    for channels in [1, 3, 16, 17, 40] {
        let x = images(&[2, channels, 5, 3])?.with_requires_grad(true)?;
        let blocked = to_blocked(&x)?;
        assert_eq!((blocked.sizes(), blocked.layout()), (x.sizes(), blocked16()?));
        let back = to_dense(&blocked)?;
        assert_eq!(back.to_vec::<f64>()?, x.to_vec::<f64>()?);
        let factors = images(x.sizes())?;
        back.mul(&factors)?.sum()?.backward()?;
        assert_eq!(x.grad().unwrap().to_vec::<f64>()?, factors.to_vec::<f64>()?);
    }
    Ok(())
}

#[test]
fn rules_compute_what_strided_kernels_do() -> Result<()> {
    for (channels, filters) in [(3, 5), (16, 16), (20, 33)] {
        let (x, y) = (images(&[2, channels, 9, 8])?, images(&[2, channels, 9, 8])?);
        let (a, b) = (to_blocked(&x)?, to_blocked(&y)?);
        assert!(close(&to_dense(&a.relu()?)?, &x.relu()?));
        assert!(close(&to_dense(&a.add(&b)?)?, &x.add(&y)?));
        assert!(close(&to_dense(&a.max_pool2d(&[2, 2])?)?, &x.max_pool2d(&[2, 2])?));
        let averaged = |t: &Tensor| ops::avg_pool2d(t, &[3, 3], &[2, 2], &[1, 1], false, true, None);
        assert!(close(&to_dense(&averaged(&a)?)?, &averaged(&x)?));
        let (weight, bias) = (images(&[filters, channels, 3, 3])?, images(&[filters])?);
        let convolved = |t: &Tensor| {
            let options = Conv2dOptions::new().bias(&bias).stride(&[2, 1]).padding(&[1, 1]);
            Tensor::conv2d_with(t, &weight, options)
        };
        assert!(close(&to_dense(&convolved(&a)?)?, &convolved(&x)?));
    }
    Ok(())
}

#[test]
fn batch_norm_normalizes_and_updates_alike() -> Result<()> {
    let x = images(&[4, 19, 5, 6])?;
    let (weight, bias) = (images(&[19])?, images(&[19])?);
    for training in [true, false] {
        let run = |x: &Tensor| {
            let (mean, var) = (Tensor::zeros(&[19], ScalarType::F64)?, Tensor::ones(&[19], ScalarType::F64)?);
            let y = ops::batch_norm(
                x,
                Some(&weight),
                Some(&bias),
                Some(&mean),
                Some(&var),
                training,
                0.1,
                1e-5,
                false,
            )?;
            Ok::<_, Error>([y, mean, var])
        };
        let ([y, mean, var], [expected, mean2, var2]) = (run(&to_blocked(&x)?)?, run(&x)?);
        assert!(close(&to_dense(&y)?, &expected) && close(&mean, &mean2) && close(&var, &var2), "{training}");
    }
    Ok(())
}

/// The first parameters of a network of two convolutions.
fn parameters() -> Result<Vec<Tensor>> {
    let of = |sizes: &[i64], scale: f64| images(sizes)?.mul_scalar(scale)?.detach()?.with_requires_grad(true);
    Ok(vec![
        of(&[20, 3, 3, 3], 0.2)?,
        of(&[20], 0.1)?,
        Tensor::ones(&[20], ScalarType::F64)?.with_requires_grad(true)?,
        Tensor::zeros(&[20], ScalarType::F64)?.with_requires_grad(true)?,
        of(&[20, 20, 3, 3], 0.1)?,
        of(&[4, 20 * 4 * 4], 0.1)?,
    ])
}

/// The losses of some steps; the images are in blocks up to the classifier if `blocked`.
fn train(x: &Tensor, first: &[Tensor], blocked: bool) -> Result<Vec<f64>> {
    let labels = Tensor::from([0i64, 1, 2, 3, 0, 1, 2, 3]);
    let copy = |parameter: &Tensor| ops::clone(parameter, None)?.detach()?.with_requires_grad(true);
    let p = first.iter().map(copy).collect::<Result<Vec<_>>>()?;
    let mut losses = vec![];
    for _ in 0..12 {
        let padded = |bias| Conv2dOptions::new().padding(&[1, 1]).bias(bias);
        let input = if blocked { to_blocked(x)? } else { x.clone() };
        let first = Tensor::conv2d_with(&input, &p[0], padded(&p[1]))?;
        let normal = ops::batch_norm(&first, Some(&p[2]), Some(&p[3]), None, None, true, 0.1, 1e-5, false)?;
        let half = normal.relu()?.max_pool2d(&[2, 2])?;
        let second = Tensor::conv2d_with(&half, &p[4], Conv2dOptions::new().padding(&[1, 1]))?;
        let joined = second.add(&half)?.relu()?;
        let pooled = ops::avg_pool2d(&joined, &[2, 2], &[2, 2], &[0, 0], false, true, None)?;
        let features = to_dense(&pooled)?.flatten(1, -1)?;
        let loss = Tensor::linear(&features, &p[5])?.cross_entropy_loss(&labels)?;
        losses.push(loss.item::<f64>()?);
        loss.backward()?;
        let _unrecorded = no_grad();
        for parameter in &p {
            let grad = parameter.grad().expect("every parameter takes part");
            ops::add__tensor(parameter, &grad, Scalar::Float(-0.05))?;
            parameter.set_grad(None)?;
        }
    }
    Ok(losses)
}

#[test]
fn a_network_trains_to_the_strided_loss() -> Result<()> {
    let (x, first) = (images(&[8, 3, 16, 16])?, parameters()?);
    let (strided, blocked) = (train(&x, &first, false)?, train(&x, &first, true)?);
    println!("strided {strided:?}\nblocked {blocked:?}");
    assert!(strided.iter().zip(&blocked).all(|(a, b)| (a - b).abs() < 1e-9 * a.abs()));
    assert!(blocked[11] < blocked[0]);
    Ok(())
}

#[test]
fn an_operator_without_a_rule_is_an_error_that_names_both() -> Result<()> {
    let x = to_blocked(&images(&[1, 3, 2, 2])?)?;
    let error = x.tanh().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    let message = error.to_string();
    assert!(["tanh", "blocked16", "to_dense"].iter().all(|word| message.contains(word)), "{message}");
    let error = x.add(&images(&[1, 3, 2, 2])?).unwrap_err();
    assert!(error.to_string().contains("torch.strided"), "{error}");
    assert!(x.to_vec::<f64>().is_err());
    Ok(())
}

#[test]
fn second_registrations_are_errors_that_name_both() -> Result<()> {
    struct Hooks;
    impl flambeau::layouts::LayoutHooks for Hooks {
        fn to_dense(&self, tensor: &Tensor) -> Result<Tensor> {
            Ok(tensor.clone())
        }
    }
    let layout = blocked16()?;
    let error = register_layout("blocked16", &Hooks).unwrap_err().to_string();
    assert!(error.contains("blocked_layout/src/lib.rs:") && error.contains("tests/blocked.rs:"), "{error}");
    fn nothing(_: &flambeau::dispatch::Call<'_>) -> Result<Vec<flambeau::dispatch::Value>> {
        Ok(vec![])
    }
    let error = register_rule(layout, &ops::RELU, &nothing).unwrap_err().to_string();
    assert!(error.contains("src/rules.rs:") && error.contains("tests/blocked.rs:"), "{error}");
    Ok(())
}
