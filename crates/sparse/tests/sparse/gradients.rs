//! Derivatives of both orders with respect to values, and sparse gradients of dense tensors.

use crate::matrices::{LAYOUTS, dense, full, holey, in_layout, longs, same};
use flambeau_autograd::{Autograd, backward, grad, gradcheck, gradgradcheck};
use flambeau_core::{Layout, Result};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse::{self as sparse, Reduction};

/// Checks a function of the values of a matrix in each layout, and of a strided matrix.
fn check(name: &str, layouts: &[Layout], f: fn(&Tensor, &Tensor) -> Result<Tensor>) {
    for &layout in layouts {
        let pattern = in_layout(&ops::div_scalar(&holey(&[4, 6], 1), 3.into()).unwrap(), layout);
        let parts = pattern.sparse_parts().unwrap();
        let values = ops::clone(parts.values(), None).unwrap().with_requires_grad(true).unwrap();
        let other = ops::div_scalar(&full(&[6, 3], 2), 5.into()).unwrap().with_requires_grad(true).unwrap();
        let call = |inputs: &[Tensor]| {
            let made =
                Tensor::from_sparse_parts(layout, pattern.sizes(), parts.with_values(inputs[0].clone()))?;
            let result = f(&made, &inputs[1])?;
            Ok(vec![if result.layout().is_sparse() { sparse::to_dense(&result)? } else { result }])
        };
        let inputs = [values, other];
        gradcheck(call, &inputs).unwrap_or_else(|e| panic!("{name} {layout}: {e}"));
        gradgradcheck(call, &inputs).unwrap_or_else(|e| panic!("{name} {layout}, twice: {e}"));
    }
}

#[test]
fn of_products() {
    check("mm", &LAYOUTS, ops::mm);
    let few = [Layout::SparseCoo, Layout::SparseCsr];
    check("dense mm", &few, |x, other| ops::mm(&ops::t(other)?, &ops::t(x)?));
    check("sparse mm", &few, |x, other| {
        ops::mm(&ops::mm(x, &ops::transpose_int(x, 0, 1)?)?, &ops::slice_tensor(other, 0, None, Some(4), 1)?)
    });
    check("mean", &few, |x, other| sparse::mm_reduce(x, other, Reduction::Mean));
    check("sampled", &few, |x, other| {
        sparse::sampled_addmm(
            x,
            &ops::slice_tensor(other, 0, None, Some(4), 1)?,
            &ops::t(other)?,
            2.into(),
            3.into(),
        )
    });
}

#[test]
fn of_maxima() {
    let x = in_layout(&ops::div_scalar(&holey(&[4, 6], 3), 3.into()).unwrap(), Layout::SparseCsr);
    let parts = x.sparse_parts().unwrap();
    let values = ops::rand_like(parts.values(), None, None, None, None, None)
        .unwrap()
        .with_requires_grad(true)
        .unwrap();
    let other =
        Tensor::rand(&[6, 3], flambeau_core::ScalarType::F64).unwrap().with_requires_grad(true).unwrap();
    let call = |inputs: &[Tensor]| {
        let made = Tensor::from_sparse_parts(x.layout(), x.sizes(), parts.with_values(inputs[0].clone()))?;
        Ok(vec![sparse::mm_reduce(&made, &inputs[1], Reduction::Amax)?])
    };
    gradcheck(call, &[values, other]).unwrap();
}

#[test]
fn of_elementwise_operators_and_shapes() {
    let few = [Layout::SparseCoo, Layout::SparseCsr];
    check("add", &few, |x, _| ops::add_tensor(x, &ops::neg(x)?, 3.into()));
    check("mul", &few, |x, _| ops::mul_tensor(x, &ops::sin(x)?));
    check("mul strided", &few, |x, other| {
        ops::mul_tensor(x, &ops::mm(&ops::slice_tensor(other, 0, None, Some(4), 1)?, &ops::t(other)?)?)
    });
    check("sum", &few, |x, _| sparse::sum_dim(x, &[0], false, None));
    check("softmax", &few, |x, _| sparse::softmax(x, 1, None));
    check("log_softmax", &few, |x, _| sparse::log_softmax(x, 0, None));
    check("index_select", &few, |x, _| ops::index_select(x, 0, &longs(&[1, 1, 3])));
    check("cat", &few, |x, _| ops::cat(&[x.clone(), ops::mul_tensor(x, x)?], 0));
    check("blocks", &few, |x, _| sparse::to_sparse(x, Layout::SparseBsr, Some([2, 3]), None));
    check("columns", &few, |x, _| sparse::to_sparse(x, Layout::SparseCsc, None, None));
}

#[test]
fn of_systems() {
    let pattern = in_layout(
        &ops::add_tensor(
            &holey(&[4, 4], 4),
            &Tensor::eye(4, flambeau_core::ScalarType::F64).unwrap(),
            9.into(),
        )
        .unwrap(),
        Layout::SparseCsr,
    );
    let parts = pattern.sparse_parts().unwrap();
    let values = ops::clone(parts.values(), None).unwrap().with_requires_grad(true).unwrap();
    let b = full(&[4, 2], 5).with_requires_grad(true).unwrap();
    for (upper, transpose, unit) in [(true, false, false), (false, true, true)] {
        let call = |inputs: &[Tensor]| {
            let a =
                Tensor::from_sparse_parts(Layout::SparseCsr, &[4, 4], parts.with_values(inputs[0].clone()))?;
            Ok(vec![ops::triangular_solve(&inputs[1], &a, upper, transpose, unit)?.0])
        };
        gradcheck(call, &[values.clone(), b.clone()]).unwrap();
        gradgradcheck(call, &[values.clone(), b.clone()]).unwrap();
    }
}

#[test]
fn a_sparse_leaf_has_a_gradient_of_its_pattern() {
    for layout in LAYOUTS {
        let x = in_layout(&holey(&[4, 6], 6), layout);
        x.requires_grad_(true).unwrap();
        assert!(x.requires_grad() && x.is_leaf() && x.grad().is_none());
        let y = full(&[6, 2], 7);
        ops::sum(&ops::mm(&x, &y).unwrap(), None).unwrap().backward().unwrap();
        let found = x.grad().unwrap();
        assert!(found.layout() == layout && found.sizes() == x.sizes());
        let strided = holey(&[4, 6], 6).with_requires_grad(true).unwrap();
        ops::sum(&ops::mm(&strided, &y).unwrap(), None).unwrap().backward().unwrap();
        let expected = sparse::sparse_mask(&strided.grad().unwrap(), &x).unwrap();
        assert!(same(&found, &expected), "{layout}");
        let z = ops::sum(&ops::mul_tensor(&x, &x).unwrap(), None).unwrap();
        let by_call =
            grad(&[z], std::slice::from_ref(&x), &[], None, false, false).unwrap().remove(0).unwrap();
        assert!(
            by_call.layout() == layout
                && same(&by_call, &ops::mul_scalar(&ops::detach(&x).unwrap(), 2.into()).unwrap())
        );
        x.set_grad(None).unwrap();
        assert!(x.grad().is_none() && !ops::detach(&x).unwrap().requires_grad());
    }
    let x = in_layout(&holey(&[4, 6], 8), Layout::SparseCsr);
    x.requires_grad_(true).unwrap();
    let y = ops::mul_scalar(&x, 3.into()).unwrap();
    assert!(!y.is_leaf() && y.to_string().contains("grad_fn=<MulBackward"), "{y}");
    let ones = sparse::sparse_mask(&full(&[4, 6], 9), &x).unwrap();
    backward(&[y], &[Some(ones.clone())], None, false, None).unwrap();
    assert!(same(&x.grad().unwrap(), &ops::mul_scalar(&ones, 3.into()).unwrap()));
}

#[test]
fn tables_get_sparse_gradients() {
    let index = Tensor::from([[1i64, 4], [1, 7]]);
    let weights = full(&[2, 2, 3], 10);
    let run = |padding: i64, is_sparse: bool| {
        let table = full(&[9, 3], 11).with_requires_grad(true).unwrap();
        for _ in 0..2 {
            let rows = ops::embedding(&table, &index, padding, false, is_sparse).unwrap();
            ops::sum(&ops::mul_tensor(&rows, &weights).unwrap(), None).unwrap().backward().unwrap();
        }
        table.grad().unwrap()
    };
    for padding in [-1, 4] {
        let found = run(padding, true);
        assert!(found.layout() == Layout::SparseCoo && sparse::is_coalesced(&found).unwrap());
        assert_eq!(sparse::nnz(&found).unwrap(), if padding == 4 { 2 } else { 3 });
        assert!(same(&found, &run(padding, false)), "{padding}");
    }
    let bag = |mode: i64, is_sparse: bool| {
        let table = full(&[9, 3], 12).with_requires_grad(true).unwrap();
        let (list, offsets) = (longs(&[1, 4, 1, 7]), longs(&[0, 3]));
        let bags =
            ops::embedding_bag(&table, &list, &offsets, false, mode, is_sparse, None, false).unwrap().0;
        ops::sum(&ops::mul_tensor(&bags, &full(&[2, 3], 13)).unwrap(), None).unwrap().backward().unwrap();
        table.grad().unwrap()
    };
    for mode in [0, 1] {
        let found = bag(mode, true);
        assert!(found.layout() == Layout::SparseCoo && same(&found, &bag(mode, false)));
    }
}

#[test]
fn sparse_and_strided_gradients_add_up() {
    let index = longs(&[1, 1, 0]);
    let run = |order: [bool; 2]| {
        let table = full(&[3, 2], 14).with_requires_grad(true).unwrap();
        for is_sparse in order {
            match is_sparse {
                true => ops::sum(&ops::embedding(&table, &index, -1, false, true).unwrap(), None),
                false => ops::sum(&ops::square(&table).unwrap(), None),
            }
            .unwrap()
            .backward()
            .unwrap();
        }
        // In one pass, by the sum at the node of the leaf.
        let rows = ops::embedding(&table, &index, -1, false, true).unwrap();
        let both =
            ops::add_tensor(&ops::sum(&rows, None).unwrap(), &ops::sum(&table, None).unwrap(), 1.into())
                .unwrap();
        both.backward().unwrap();
        dense(&table.grad().unwrap()).to_vec::<f64>().unwrap()
    };
    assert_eq!(run([true, false]), run([false, true]));
}
