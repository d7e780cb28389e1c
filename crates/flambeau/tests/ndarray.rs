//! Tensors and arrays of the crate `ndarray`: views under a guard, and conversions.

use flambeau::prelude::*;
use ndarray::{Array, ArrayD, array, s};

#[test]
fn a_view_has_the_tensors_elements_and_strides() {
    let t = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    for tensor in [t.clone(), t.t().unwrap(), t.i((.., 1..)).unwrap(), t.i((1, NewAxis, ..)).unwrap()] {
        let accessor = tensor.accessor::<i64, 2>().unwrap();
        let view = accessor.as_array().unwrap();
        assert_eq!(view.shape(), accessor.sizes());
        assert!(view.iter().eq(accessor.iter()));
    }
}

#[test]
fn a_view_that_is_written_writes_the_tensor_and_excludes_others() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let mut accessor = t.accessor_mut::<f32, 2>().unwrap();
    let mut view = accessor.as_array_mut().unwrap();
    view *= 10.0;
    view.column_mut(1).fill(0.0);
    assert_eq!(t.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Busy);
    drop(accessor);
    assert_eq!(t.to_vec::<f32>().unwrap(), [10.0, 0.0, 30.0, 0.0]);
}

#[test]
fn tensors_without_elements_have_views() {
    for sizes in [[0, 3], [3, 0], [0, 0], [1 << 40, 0]] {
        let t = Tensor::zeros(&sizes, ScalarType::F32).unwrap();
        let accessor = t.accessor::<f32, 2>().unwrap();
        assert!(accessor.as_array().unwrap().is_empty());
    }
    let t = Tensor::zeros(&[1 << 40, 1 << 40, 0], ScalarType::F32).unwrap();
    let error = t.accessor::<f32, 3>().unwrap().as_array().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overflow);
}

#[test]
fn repeated_elements_have_a_view() {
    let t = Tensor::from([1i32, 2]).expand(&[3, 2]).unwrap();
    let accessor = t.accessor::<i32, 2>().unwrap();
    assert_eq!(accessor.as_array().unwrap(), array![[1, 2], [1, 2], [1, 2]]);
}

#[test]
fn owned_arrays_become_tensors_without_a_copy() {
    let owned = Array::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f64);
    for array in [owned.clone(), owned.clone().reversed_axes(), owned.clone().slice_move(s![1.., ..;2])] {
        let (address, elements) = (array.as_ptr(), array.iter().copied().collect::<Vec<_>>());
        let sizes: Vec<i64> = array.shape().iter().map(|&size| size as i64).collect();
        let tensor = Tensor::try_from(array).unwrap();
        assert_eq!(tensor.data_ptr().cast_const().cast(), address);
        assert_eq!((tensor.sizes(), tensor.to_vec::<f64>().unwrap()), (&sizes[..], elements));
    }
}

#[test]
fn other_arrays_become_tensors_by_a_copy() {
    let owned = array![[1u8, 2], [3, 4]];
    let reversed = Tensor::try_from(owned.clone().slice_move(s![..;-1, ..])).unwrap();
    assert_eq!(reversed.to_vec::<u8>().unwrap(), [3, 4, 1, 2]);
    let copied = Tensor::try_from(owned.view().reversed_axes()).unwrap();
    assert_eq!((copied.sizes(), copied.to_vec::<u8>().unwrap()), (&[2i64, 2][..], vec![1, 3, 2, 4]));
    let empty = Tensor::try_from(Array::<f32, _>::zeros((0, 3))).unwrap();
    assert_eq!(empty.sizes(), &[0, 3]);
    assert_eq!(Tensor::try_from(ndarray::arr0(7i64)).unwrap().item::<i64>().unwrap(), 7);
}

#[test]
fn tensors_become_arrays() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let array = ArrayD::<f32>::try_from(&t.t().unwrap()).unwrap();
    assert_eq!(array, array![[1.0, 3.0], [2.0, 4.0]].into_dyn());
    assert_eq!(ArrayD::<f64>::try_from(&t).unwrap_err().kind(), ErrorKind::Dtype);
}
