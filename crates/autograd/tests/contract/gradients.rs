//! First and second derivatives of every recording kernel against central differences.

use crate::{data, leaf, values};
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_autograd::{Autograd, gradcheck, gradgradcheck};
use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// Numbers away from 0, without a pattern.
pub(crate) fn sample(sizes: &[i64], seed: i64) -> Tensor {
    let numel: i64 = sizes.iter().product();
    let value = |i: i64| ((i * 7 + seed * 13 + 3) % 11) as f64 / 7.0 + 0.3;
    data(&(0..numel).map(value).collect::<Vec<f64>>(), sizes)
}

/// The same values in other memory orders: row-major, column-major, with gaps and an offset.
fn layouts(tensor: &Tensor) -> Vec<Tensor> {
    let (rank, sizes) = (tensor.dim() as i64, tensor.sizes().to_vec());
    let mut made = vec![ops::clone(tensor, None).unwrap()];
    if rank >= 2 {
        let swapped = ops::transpose_int(tensor, 0, rank - 1).unwrap();
        let dense = ops::clone(&swapped, Some(flambeau_core::MemoryFormat::Contiguous)).unwrap();
        made.push(ops::transpose_int(&dense, 0, rank - 1).unwrap());
    }
    let memory = data(&vec![9.0; tensor.numel() as usize * 2 + 3], &[tensor.numel() * 2 + 3]);
    let mut strides = vec![2; sizes.len()];
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1];
    }
    let gappy = ops::as_strided(&memory, &sizes, &strides, Some(3)).unwrap();
    ops::copy_(&gappy, tensor, false).unwrap();
    made.push(gappy);
    made.iter().for_each(|t| assert_eq!(values(t), values(tensor)));
    // Leaves, not views of something else.
    let leaf = |t: &Tensor| t.detach().and_then(|t| t.requires_grad_(true).cloned()).unwrap();
    made.iter().map(leaf).collect()
}

pub(crate) fn check(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) {
    let f = |inputs: &[Tensor]| Ok(vec![f(inputs)?]);
    for inputs in all_layouts(inputs) {
        gradcheck(f, &inputs).unwrap();
        gradgradcheck(f, &inputs).unwrap();
    }
}

/// For operators whose gradient has no derivative yet.
pub(crate) fn check_first(f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) {
    let f = |inputs: &[Tensor]| Ok(vec![f(inputs)?]);
    all_layouts(inputs).iter().for_each(|inputs| gradcheck(f, inputs).unwrap());
}

fn all_layouts(inputs: &[Tensor]) -> Vec<Vec<Tensor>> {
    let all: Vec<Vec<Tensor>> = inputs.iter().map(layouts).collect();
    let most = all.iter().map(Vec::len).max().unwrap();
    let pick = |which: usize| all.iter().map(|layouts| layouts[which % layouts.len()].clone()).collect();
    (0..most).map(pick).collect()
}

#[test]
fn arithmetic_of_equal_and_broadcast_shapes() {
    for (a, b) in [
        (&[2, 3][..], &[2, 3][..]),
        (&[2, 3], &[3]),
        (&[2, 3], &[2, 1]),
        (&[1], &[2, 3]),
        (&[], &[2]),
        (&[2, 1], &[1, 3]),
    ] {
        let inputs = [sample(a, 0), sample(b, 1)];
        check(|x| ops::add_tensor(&x[0], &x[1], Scalar::Float(1.5)), &inputs);
        check(|x| ops::sub_tensor(&x[0], &x[1], Scalar::Int(3)), &inputs);
        check(|x| ops::mul_tensor(&x[0], &x[1]), &inputs);
        check(|x| ops::div_tensor(&x[0], &x[1]), &inputs);
    }
}

#[test]
fn functions_of_one_tensor() {
    let inputs = [sample(&[2, 3], 0)];
    check(|x| ops::exp(&x[0]), &inputs);
    check(|x| ops::tanh(&x[0]), &inputs);
    check(|x| ops::neg(&x[0]), &inputs);
    check(|x| ops::clone(&x[0], None), &inputs);
}

#[test]
fn sums_products_and_views() {
    let x = [sample(&[2, 3], 0)];
    check(|x| ops::sum(&x[0], None), &x);
    for keepdim in [false, true] {
        for dim in [&[0][..], &[1], &[-1, 0], &[]] {
            check(|x| ops::sum_dim_intlist(&x[0], Some(dim), keepdim, None), &x);
        }
    }
    check(|x| ops::exp(&ops::permute(&x[0], &[1, -2])?), &x);
    check(|x| ops::mm(&x[0], &x[1]), &[sample(&[2, 3], 0), sample(&[3, 2], 1)]);
    check(|x| ops::mul_tensor(&ops::t(&x[0])?, &ops::transpose_int(&x[0], 1, 0)?), &x);
    check(|x| ops::exp(&ops::select_int(&x[0], 1, -1)?), &x);
    check(|x| ops::exp(&ops::expand(&x[0], &[4, 2, 3], false)?), &x);
    check(
        |x| {
            ops::exp(&ops::view(&ops::clone(&x[0], Some(flambeau_core::MemoryFormat::Contiguous))?, &[3, 2])?)
        },
        &x,
    );
    check(
        |x| {
            ops::exp(&ops::as_strided(
                &ops::clone(&x[0], Some(flambeau_core::MemoryFormat::Contiguous))?,
                &[2, 2],
                &[3, 2],
                Some(0),
            )?)
        },
        &x,
    );
}

#[test]
fn views_that_overlap_and_products_of_slices() {
    let dense = |x: &Tensor| ops::clone(x, Some(flambeau_core::MemoryFormat::Contiguous));
    for (sizes, strides) in [(&[4, 3][..], &[1, 2][..]), (&[2, 3, 2], &[1, 1, 3]), (&[2, 2], &[0, 1])] {
        check(
            |x| ops::exp(&ops::as_strided(&dense(&x[0])?, sizes, strides, Some(0))?),
            &[sample(&[3, 3], 0)],
        );
    }
    let index = Tensor::from([2i64, 0, 2]);
    for include_self in [true, false] {
        let product = |x: &[Tensor]| ops::index_reduce(&x[0], 1, &index, &x[1], "prod", include_self);
        check(product, &[sample(&[2, 4], 0), sample(&[2, 3], 1)]);
    }
}

#[test]
fn in_place_operators() {
    let inputs = [sample(&[2, 3], 0), sample(&[2, 3], 1)];
    let whole = |x: &[Tensor]| {
        let y = ops::clone(&x[0], None)?;
        ops::mul__tensor(&y, &x[1])?;
        ops::add__tensor(&y, &x[0], Scalar::Int(2))?;
        ops::exp_(&y)?;
        Ok(y)
    };
    check(whole, &inputs);
    // Through a view, whose base and siblings see it.
    let part = |x: &[Tensor]| {
        let y = ops::mul_tensor(&x[0], &x[0])?;
        let (column, row) = (ops::select_int(&y, 1, 1)?, ops::select_int(&y, 0, 0)?);
        ops::mul__tensor(&row, &ops::select_int(&x[1], 0, 1)?)?;
        ops::exp_(&column)?;
        ops::mul_tensor(&y, &ops::expand(&column, &[3, 2], false).and_then(|c| ops::t(&c))?)
    };
    check(part, &inputs);
    let overwritten = |x: &[Tensor]| {
        let y = ops::mul_tensor(&x[0], &x[0])?;
        ops::copy_(&ops::select_int(&y, 0, 1)?, &ops::select_int(&x[1], 0, 0)?, false)?;
        ops::fill__scalar(&ops::select_int(&y, 1, 2)?, Scalar::Int(2))?;
        ops::exp(&y)
    };
    check(overwritten, &inputs);
}

#[test]
fn gradients_come_back_in_the_type_of_the_leaf() {
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2]).unwrap();
    x.requires_grad_(true).unwrap();
    let y = ops::mul_tensor(&x, &data(&[3.0, 4.0], &[2])).unwrap();
    assert_eq!(y.dtype(), flambeau_core::ScalarType::F64);
    crate::sum(&y).backward().unwrap();
    assert_eq!(x.grad().unwrap().dtype(), flambeau_core::ScalarType::F32);
    assert_eq!(values(&x.grad().unwrap()), [3.0, 4.0]);
}

/// A checker that finds nothing would pass everything above.
#[test]
fn gradcheck_finds_wrong_derivatives() {
    use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, apply};
    struct Wrong(f64);
    impl Function for Wrong {
        const NAME: &'static str = "Wrong";
        fn forward(&self, cx: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
            cx.save_for_backward(&[&x[0]]);
            Ok(vec![ops::mul_tensor(&x[0], &x[0])?])
        }
        fn backward(
            &self,
            cx: &BackwardContext<'_>,
            grads: &[Option<Tensor>],
        ) -> Result<Vec<Option<Tensor>>> {
            let x = &cx.saved_tensors()?[0];
            let two = Tensor::wrapped_number(Scalar::Float(self.0))?;
            Ok(vec![Some(ops::mul_tensor(grads[0].as_ref().unwrap(), &ops::mul_tensor(x, &two)?)?)])
        }
    }
    let run = |factor| gradcheck(move |x| apply(Wrong(factor), &[&x[0]]), &[leaf(&[0.5, -0.7])]);
    run(2.0).unwrap();
    assert!(crate::message(run(2.1)).contains("Jacobian mismatch for output 0 with respect to input 0"));

    let plain = data(&[1.0], &[1]);
    assert!(crate::message(gradcheck(|x| Ok(x.to_vec()), &[plain])).contains("at least one input tensor"));
    let overlapping = ops::as_strided(&data(&[1.0], &[1]), &[3], &[0], None).unwrap().detach().unwrap();
    overlapping.requires_grad_(true).unwrap();
    assert!(
        crate::message(gradcheck(|x| Ok(x.to_vec()), &[overlapping])).contains("dimension with stride 0")
    );
    let f32s = Tensor::from_vec(vec![1.0f32], &[1]).unwrap();
    f32s.requires_grad_(true).unwrap();
    assert!(crate::message(gradcheck(|x| Ok(x.to_vec()), &[f32s])).contains("float64"));
    // An output without history must not depend on the input.
    let cut = |x: &[Tensor]| Ok(vec![ops::exp(&x[0].detach()?)?]);
    assert!(crate::message(GradCheck::default().check(cut, &[leaf(&[1.0])])).contains("expected to be zero"));
}
