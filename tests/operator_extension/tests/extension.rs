//! The operators of this crate have everything that the library's own have.

use flambeau::opcheck::{Check, opcheck};
use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
use flambeau_autograd::profiler::{Options, Profiler};
use flambeau_autograd::{Autograd, grad, gradcheck, gradgradcheck};
use flambeau_core::{Device, DispatchKey, ErrorKind, Result, Scalar, ScalarType};
use flambeau_operator_extension::ops;
use flambeau_ops::dispatch::{Call, OperatorInfo};
use flambeau_ops::{Tensor, registry};
use flambeau_tests::array::Array;
use flambeau_tests::call::{call, operator, rounded, tensor};
use flambeau_tests::compare::{Bound, difference};
use flambeau_tests::row::{Arg, FLOATS, PAIRS, Row, SHAPES, WIDE_FLOATS, number, row};
use flambeau_vmap::{Randomness, loops, rule, vmap};

/// The rows of this crate's operators, in the form of the library's table.
fn rows() -> Vec<Row> {
    let one = |sizes: &[usize]| Array::fill(sizes, -2.0..2.0, 7);
    let cubes = SHAPES.iter().map(|sizes| vec![Arg::Tensor(one(sizes))]);
    let mut cube = row("mine::cube").types(FLOATS).reference(|a| vec![a[0].array().map(|x| x * x * x)]);
    cube.samples = cubes.collect();
    cube.ulps = 2.0;
    let pairs = PAIRS
        .iter()
        .map(|(a, b)| vec![Arg::Tensor(one(a)), Arg::Tensor(Array::fill(b, 0.5..2.0, 3)), number(1.5)]);
    let mut tanh = row("mine::gated_tanh")
        .types(WIDE_FLOATS)
        .reference(|a| vec![a[0].array().zip(a[1].array(), |x, gate| x.tanh() * gate * 1.5)]);
    tanh.samples = pairs.collect();
    tanh.ulps = 4.0;
    let mut norm = row("mine::row_norm").types(WIDE_FLOATS).reference(|a| {
        vec![a[0].array().reduce(&[1], false, |row| row.iter().map(|x| x * x).sum::<f64>().sqrt())]
    });
    norm.samples = [[3, 4], [1, 17], [5, 1]].iter().map(|sizes| vec![Arg::Tensor(one(sizes))]).collect();
    norm.ulps = 2.0;
    vec![cube, tanh, norm]
}

#[test]
fn every_row_has_the_values_of_its_reference() {
    let mut cases = 0;
    for row in rows() {
        let op = operator(row.name).unwrap();
        for (dtype, sample) in
            row.types.iter().flat_map(|dtype| row.samples.iter().map(move |sample| (*dtype, sample)))
        {
            let expected = (row.reference.as_ref().unwrap())(&rounded(sample, dtype));
            let got = call(op, sample, dtype).unwrap();
            // Intermediate values are rounded to the type too.
            let fault = difference(&got[0], &expected[0], Bound { ulps: row.ulps, terms: 8.0 });
            assert!(fault.is_none(), "{} {dtype}: {fault:?}", row.name);
            cases += 1;
        }
    }
    println!("{cases} cases of {} rows have the values of the reference", rows().len());
    assert!(cases > 80, "{cases}");
}

fn leaf(sizes: &[usize], seed: u64) -> Tensor {
    tensor(&Array::fill(sizes, 0.3..1.7, seed), ScalarType::F64).with_requires_grad(true).unwrap()
}

#[test]
fn derivatives_of_both_orders_are_those_of_differences() -> Result<()> {
    let cube = |x: &[Tensor]| ops::cube(&x[0]).map(|y| vec![y]);
    let tanh = |x: &[Tensor]| ops::gated_tanh(&x[0], &x[1], Scalar::Float(1.5)).map(|y| vec![y]);
    let norm = |x: &[Tensor]| ops::row_norm(&x[0]).map(|y| vec![y]);
    gradcheck(cube, &[leaf(&[2, 3], 1)])?;
    gradgradcheck(cube, &[leaf(&[2, 3], 1)])?;
    gradcheck(tanh, &[leaf(&[2, 3], 1), leaf(&[3], 2)])?;
    gradgradcheck(tanh, &[leaf(&[2, 3], 1), leaf(&[3], 2)])?;
    gradcheck(norm, &[leaf(&[2, 3], 3)])?;
    gradgradcheck(norm, &[leaf(&[2, 3], 3)])
}

#[test]
fn tangents_are_the_products_with_the_jacobian() -> Result<()> {
    let (x, v) = (Tensor::from([[1.0f64, 2.0], [-0.5, 3.0]]), Tensor::from([[0.5f64, 1.0], [2.0, -1.0]]));
    let _level = dual_level()?;
    let dual = make_dual(&x, &v)?;
    let tangent =
        |y: Tensor| unpack_dual(&y)?.1.map(|t| t.to_vec::<f64>()).transpose().map(Option::unwrap_or_default);
    let cubes: Vec<f64> =
        x.to_vec::<f64>()?.iter().zip(v.to_vec::<f64>()?).map(|(x, v)| 3.0 * x * x * v).collect();
    assert_eq!(tangent(ops::cube(&dual)?)?, cubes);
    let slopes = x
        .to_vec::<f64>()?
        .into_iter()
        .zip(v.to_vec::<f64>()?)
        .map(|(x, v)| 2.0 * v * (1.0 - x.tanh() * x.tanh()));
    let got = tangent(ops::gated_tanh(&dual, &Tensor::from(1.0f64), Scalar::Int(2))?)?;
    assert!(got.iter().zip(slopes).all(|(a, b)| (a - b).abs() < 1e-14), "{got:?}");
    let got = tangent(ops::row_norm(&dual)?)?;
    let expected = [2.5 / 5f64.sqrt(), -4.0 / 9.25f64.sqrt()];
    assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14), "{got:?}");
    Ok(())
}

#[test]
fn variants_follow_from_the_entry() -> Result<()> {
    let x = Tensor::from([1.0f32, 2.0]);
    let out = Tensor::empty(&[0], ())?;
    ops::cube_out(&x, &out)?;
    assert_eq!(out.to_vec::<f32>()?, [1.0, 8.0]);
    ops::cube_(&x)?;
    assert_eq!(x.to_vec::<f32>()?, [1.0, 8.0]);
    let shape = ops::row_norm(&Tensor::empty(&[7, 3], Device::META)?)?;
    assert_eq!((shape.sizes(), shape.device()), (&[7i64][..], Device::META));
    let error = ops::row_norm(&Tensor::from([1.0f32])).unwrap_err();
    assert_eq!(
        (error.kind(), error.operator(), error.argument()),
        (ErrorKind::Shape, Some("mine::row_norm"), Some("self"))
    );
    // In place, the values before it are saved.
    let leaf = Tensor::from([3.0f64]).with_requires_grad(true)?;
    let y = leaf.mul(&Tensor::from(1.0f64))?;
    ops::cube_(&y)?;
    y.backward()?;
    assert_eq!(leaf.grad().unwrap().to_vec::<f64>()?, [27.0]);
    Ok(())
}

#[test]
fn the_profiler_and_the_registry_know_them() -> Result<()> {
    let session = Profiler::start(Options::default())?;
    ops::cube(&Tensor::from([1.0f32]))?;
    let profile = session.stop();
    assert!(profile.key_averages(false).iter().any(|average| average.name == "mine::cube"));
    let names: Vec<&str> =
        registry::operators().map(|op| op.name()).filter(|name| name.starts_with("mine::")).collect();
    assert!(
        ["mine::cube", "mine::cube_", "mine::cube.out", "mine::row_norm.out"]
            .iter()
            .all(|name| names.contains(name))
    );
    Ok(())
}

/// An operator without a rule for batches is called for each example, and counted. One with a rule is not.
#[test]
fn batches_are_loops_until_a_rule_is_registered() -> Result<()> {
    let x = Tensor::from([[1.0f64, 2.0], [-0.5, 3.0], [0.25, 4.0]]).with_requires_grad(true)?;
    let each = |f: fn(&Tensor) -> Result<Tensor>| -> Result<Tensor> {
        let batch = |args: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![f(&args[0])?]) };
        Ok(vmap(batch, std::slice::from_ref(&x), &[Some(0)], &[Some(0)], Randomness::Error)?.remove(0))
    };
    let norms: Tensor = each(|x| ops::row_norm(&x.unsqueeze(0)?))?;
    assert_eq!(norms.sizes(), [3, 1]);
    let expected = ops::row_norm(&x)?.to_vec::<f64>()?;
    assert_eq!(norms.to_vec::<f64>()?, expected);
    let [gradient] = &grad(&[norms.sum()?], std::slice::from_ref(&x), &[], None, false, false)?[..] else {
        panic!("expected one gradient")
    };
    let [other] = &grad(&[ops::row_norm(&x)?.sum()?], std::slice::from_ref(&x), &[], None, false, false)?[..]
    else {
        panic!("expected one gradient")
    };
    assert_eq!(gradient.as_ref().unwrap().to_vec::<f64>()?, other.as_ref().unwrap().to_vec::<f64>()?);
    assert!(loops().contains_key("mine::row_norm"), "{:?}", loops());

    let batched = |call: &Call<'_>| {
        rule(call, |batch| {
            let (x, _) = batch.front(batch.tensor(0)?)?;
            batch.wrap_all(batch.call(&[x.into()])?)
        })
    };
    ops::CUBE.register_boxed(DispatchKey::Batched, Box::leak(Box::new(batched)))?;
    assert_eq!(each(ops::cube)?.to_vec::<f64>()?, ops::cube(&x)?.to_vec::<f64>()?);
    assert!(!loops().contains_key("mine::cube"), "{:?}", loops());
    Ok(())
}

#[test]
fn they_pass_opcheck() -> Result<()> {
    let (all, nothing) = (
        [Check::Schema, Check::Meta, Check::Threads, Check::Gradients, Check::Tangents, Check::Batches],
        [Check::Schema, Check::Meta, Check::Threads],
    );
    let (x, out) = (leaf(&[2, 3], 1), Tensor::empty(&[2, 3], ScalarType::F64)?);
    assert_eq!(opcheck(&ops::CUBE, &[(&x).into()])?, all);
    assert_eq!(
        opcheck(&ops::GATED_TANH, &[(&x).into(), leaf(&[3], 2).into(), Scalar::Float(1.5).into()])?,
        all
    );
    assert_eq!(opcheck(&ops::ROW_NORM, &[(&x).into()])?, all);
    let plain = x.detach()?;
    assert_eq!(opcheck(&ops::CUBE_, &[(&plain).into()])?, nothing);
    assert_eq!(opcheck(&ops::CUBE_OUT, &[plain.into(), out.into()])?, nothing);
    println!("5 operators of outside YAML files pass opcheck");
    Ok(())
}

#[test]
fn a_second_operator_of_the_name_is_an_error_that_names_both() {
    let error = registry::define("mine::cube(Tensor self) -> Tensor").err().unwrap();
    let message = error.to_string();
    assert!(message.contains("/operators.rs:") && message.contains("tests/extension.rs:"), "{message}");
}
