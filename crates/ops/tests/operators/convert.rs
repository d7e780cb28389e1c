//! Rust's values as tensors, and tensors as Rust's values.

use flambeau_core::{ErrorKind, ScalarType};
use flambeau_ops::{Error, Tensor};

#[test]
fn lists_of_any_depth_become_tensors() {
    let cube = vec![vec![vec![1i64, 2], vec![3, 4]], vec![vec![5, 6], vec![7, 8]]];
    let tensor = Tensor::try_from(cube).unwrap();
    assert_eq!((tensor.sizes(), tensor.to_vec::<i64>().unwrap()), (&[2i64, 2, 2][..], (1..9).collect()));
    let rows = Tensor::try_from(vec![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]).unwrap();
    assert_eq!((rows.sizes(), rows.dtype()), (&[3i64, 2][..], ScalarType::F32));
    let nested = Tensor::try_from(vec![vec![[[1u8], [2]]], vec![[[3], [4]]]]).unwrap();
    assert_eq!((nested.sizes(), nested.to_vec::<u8>().unwrap()), (&[2i64, 1, 2, 1][..], vec![1, 2, 3, 4]));
}

#[test]
fn flat_lists_are_not_copied() {
    let list = vec![1.0f64; 1000];
    let address = list.as_ptr();
    assert_eq!(Tensor::try_from(list).unwrap().data_ptr().cast_const().cast(), address);
}

#[test]
fn empty_lists_have_all_their_dimensions() {
    let sizes = |tensor: Result<Tensor, Error>| tensor.unwrap().sizes().to_vec();
    assert_eq!(sizes(Tensor::try_from(Vec::<f32>::new())), [0]);
    assert_eq!(sizes(Tensor::try_from(Vec::<Vec<f32>>::new())), [0, 0]);
    assert_eq!(sizes(Tensor::try_from(vec![Vec::<[f32; 3]>::new(); 2])), [2, 0, 3]);
    assert_eq!(sizes(Tensor::from_array([[0f32; 0]; 4])), [4, 0]);
}

#[test]
fn ragged_lists_are_errors_at_every_depth() {
    let outer = Tensor::try_from(vec![vec![1, 2], vec![3]]).unwrap_err();
    assert_eq!((outer.kind(), outer.expected(), outer.got()), (ErrorKind::Shape, Some("2"), Some("1")));
    assert_eq!((outer.operator(), outer.argument()), (Some("from_vec"), Some("data")));
    for ragged in [vec![vec![vec![1], vec![2]], vec![vec![3], vec![4, 5]]], vec![vec![vec![1]], vec![]]] {
        assert_eq!(Tensor::try_from(ragged).unwrap_err().kind(), ErrorKind::Shape);
    }
}

#[test]
fn iterators_become_tensors() {
    let tensor = Tensor::try_from_iter([1.5f32, 2.5].into_iter().chain([3.5])).unwrap();
    assert_eq!((tensor.sizes(), tensor.to_vec::<f32>().unwrap()), (&[3i64][..], vec![1.5, 2.5, 3.5]));
    let endless = Tensor::try_from_iter(std::iter::repeat_n(0u8, 1 << 60));
    assert_eq!(endless.map(drop).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn tensors_become_numbers_and_lists() -> Result<(), Error> {
    let matrix = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    assert_eq!(<Vec<Vec<f32>>>::try_from(&matrix)?, [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(<Vec<f32>>::try_from(&matrix.i(1)?)?, [3.0, 4.0]);
    assert_eq!(f32::try_from(&matrix.sum()?)?, 10.0);
    assert!(bool::try_from(&Tensor::from(true))?);

    let kind = |failed: Error| failed.kind();
    assert_eq!(f32::try_from(&matrix).map_err(kind), Err(ErrorKind::Shape));
    assert_eq!(f64::try_from(&matrix.sum()?).map_err(kind), Err(ErrorKind::Dtype));
    assert_eq!(<Vec<f32>>::try_from(&matrix).map_err(kind), Err(ErrorKind::Shape));
    assert_eq!(<Vec<Vec<f32>>>::try_from(&matrix.sum()?).map_err(kind), Err(ErrorKind::Shape));
    Ok(())
}
