//! In-place operators: what shares the values sees them, and leaves stay leaves that require a gradient.

use crate::matrices::{LAYOUTS, dense, full, holey, in_layout, same};
use flambeau_autograd::{Autograd, backward, no_grad};
use flambeau_core::{ErrorKind, Layout, Result, ScalarType};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse as sparse;

/// A matrix of two elements whose coordinates are not known to be distinct.
fn pair(values: &Tensor) -> Tensor {
    sparse::sparse_coo_tensor(&Tensor::from([[0i64, 1], [1, 0]]), values, Some(&[2, 2]), None).unwrap()
}

/// The same with other coordinates, and as many.
fn other_pair(values: &Tensor) -> Tensor {
    sparse::sparse_coo_tensor(&Tensor::from([[0i64, 1], [0, 1]]), values, Some(&[2, 2]), None).unwrap()
}

type InPlace = fn(&Tensor) -> Result<()>;

/// Operators whose results have the pattern of the tensor, and others.
const OPERATORS: [InPlace; 7] = [
    |x| ops::mul__scalar(x, 2.into()),
    |x| ops::div__scalar(x, 2.into()),
    ops::neg_,
    ops::zero_,
    |x| ops::copy_(x, &ops::detach(&ops::mul_scalar(x, 3.into())?)?, false),
    |x| ops::add__tensor(x, &ops::detach(x)?, 1.into()),
    |x| {
        let pattern = in_layout(&full(x.sizes(), 3), x.layout());
        ops::add__tensor(x, &pattern, 1.into())
    },
];

#[test]
fn leaves_stay_leaves() {
    for layout in LAYOUTS {
        for (number, operator) in OPERATORS.iter().enumerate() {
            let x = in_layout(&holey(&[4, 6], 1), layout).with_requires_grad(true).unwrap();
            let before = dense(&ops::detach(&x).unwrap());
            let error = operator(&x).unwrap_err();
            assert!(
                error.message().contains("leaf Variable that requires grad"),
                "{layout} {number}: {error}"
            );
            assert!(same(&ops::detach(&x).unwrap(), &before), "{layout} {number}");
            let guard = no_grad();
            operator(&x).unwrap();
            drop(guard);
            assert!(x.requires_grad() && x.is_leaf(), "{layout} {number}");
            assert!(!same(&ops::detach(&x).unwrap(), &before), "{layout} {number}");
        }
    }
}

#[test]
fn a_weight_moves_in_every_step() {
    let weight = pair(&Tensor::from([1.0f64, 2.0])).with_requires_grad(true).unwrap();
    for _ in 0..3 {
        let loss = ops::sum(&sparse::to_dense(&weight).unwrap(), None).unwrap();
        loss.backward().unwrap();
        let _guard = no_grad();
        ops::add__tensor(&weight, &weight.grad().unwrap(), (-0.25).into()).unwrap();
        weight.set_grad(None).unwrap();
    }
    let values = ops::detach(&sparse::raw_values(&weight).unwrap()).unwrap();
    assert_eq!(values.to_vec::<f64>().unwrap(), [0.25, 1.25]);
}

#[test]
fn a_gradient_is_scaled_in_place() {
    let weight = pair(&Tensor::from([1.0f64, 2.0])).with_requires_grad(true).unwrap();
    ops::sum(&sparse::to_dense(&weight).unwrap(), None).unwrap().backward().unwrap();
    let found = || sparse::raw_values(&weight.grad().unwrap()).unwrap().to_vec::<f64>().unwrap();
    let _guard = no_grad();
    ops::mul__scalar(&weight.grad().unwrap(), 0.5.into()).unwrap();
    assert_eq!(found(), [0.5, 0.5]);
    ops::neg_(&weight.grad().unwrap()).unwrap();
    assert_eq!(found(), [-0.5, -0.5]);
    ops::zero_(&weight.grad().unwrap()).unwrap();
    assert_eq!(found(), [0.0, 0.0]);
}

#[test]
fn products_in_place_are_differentiable() {
    let x = pair(&Tensor::from([1.0f64, 2.0])).with_requires_grad(true).unwrap();
    let factors = Tensor::from([[3.0f64, 4.0], [5.0, 6.0]]).with_requires_grad(true).unwrap();
    let y = ops::mul_scalar(&x, 2.into()).unwrap();
    ops::mul__tensor(&y, &factors).unwrap();
    ops::sum(&y, None).unwrap().backward().unwrap();
    let grad = sparse::raw_values(&x.grad().unwrap()).unwrap();
    assert_eq!(grad.to_vec::<f64>().unwrap(), [8.0, 10.0]);
    assert_eq!(factors.grad().unwrap().to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0, 0.0]);
}

#[test]
fn gradients_of_another_pattern_are_refused() {
    let x = pair(&Tensor::from([1.0f64, 2.0])).with_requires_grad(true).unwrap();
    let (other, equal) = (other_pair(&Tensor::from([7.0f64, 8.0])), pair(&Tensor::from([7.0f64, 8.0])));
    let error = x.set_grad(Some(&other)).unwrap_err();
    assert!(error.kind() == ErrorKind::Autograd && error.message().contains("indices"), "{error}");
    let y = ops::mul_scalar(&x, 3.into()).unwrap();
    assert!(backward(std::slice::from_ref(&y), &[Some(other)], Some(true), false, None).is_err());
    backward(&[y], &[Some(equal.clone())], None, false, None).unwrap();
    let grad = sparse::raw_values(&x.grad().unwrap()).unwrap();
    assert_eq!(grad.to_vec::<f64>().unwrap(), [21.0, 24.0]);
    x.set_grad(Some(&equal)).unwrap();
}

#[test]
fn results_that_would_be_cut_off_are_refused() {
    let fractions = pair(&Tensor::from([2.7f64, 3.7]));
    let integers = pair(&Tensor::from([2i64, 3]));
    let strided = Tensor::zeros(&[2, 2], ScalarType::I64).unwrap();
    for tensor in [&strided, &integers] {
        for result in [
            ops::add__tensor(tensor, &fractions, 1.into()),
            ops::add__tensor(tensor, &other_pair(&Tensor::from([0.5f64, 0.5])), 1.into()),
        ] {
            let error = result.unwrap_err();
            assert!(error.kind() == ErrorKind::Dtype && error.message().contains("can't be cast"), "{error}");
        }
    }
    assert!(ops::div__scalar(&integers, 2.into()).is_err());
}

#[test]
fn parts_that_are_resized_leave_the_tensor_as_it_is() {
    let matrix = holey(&[4, 6], 2);
    for layout in LAYOUTS {
        let x = in_layout(&matrix, layout);
        let index = match layout {
            Layout::SparseCoo => sparse::raw_indices(&x),
            Layout::SparseCsr | Layout::SparseBsr => sparse::col_indices(&x),
            _ => sparse::row_indices(&x),
        };
        let nnz = sparse::nnz(&x).unwrap();
        ops::resize_(&index.unwrap(), &[1], None).unwrap();
        assert!(sparse::nnz(&x).unwrap() == nnz && same(&x, &matrix), "{layout}");
    }
    // Whoever takes the parts themselves gets errors.
    let x = in_layout(&matrix, Layout::SparseCoo);
    ops::resize_(x.sparse_parts().unwrap().values(), &[1], None).unwrap();
    assert!(sparse::to_dense(&x).is_err() && ops::sin(&x).is_err());
}
