//! Parts of tensors: every kind of index, against a definition that walks no strides.

use flambeau_core::{ErrorKind, ScalarType};
use flambeau_ops::tensor::index::{Ellipsis, Indices, NewAxis, Step, TensorIndex, slice};
use flambeau_ops::{Tensor, ops};

/// 0, 1, 2, ... in `sizes`.
fn arange(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).collect(), sizes).unwrap()
}

fn values(t: &Tensor, indices: impl Indices) -> Vec<i64> {
    t.i(indices).unwrap().to_vec().unwrap()
}

/// The indices that Python's `start:end:step` names.
fn named(size: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<i64> {
    let from_front = |i: i64| if i < 0 { i + size } else { i };
    let first = from_front(start.unwrap_or(0)).max(0);
    let past = from_front(end.unwrap_or(size));
    (0..size).filter(|i| *i >= first && *i < past && (i - first) % step == 0).collect()
}

#[test]
fn slices_are_pythons() {
    let bounds: Vec<Option<i64>> = [None].into_iter().chain((-7..8).map(Some)).collect();
    for size in 0..6 {
        let t = arange(&[size]);
        for (&start, &end) in bounds.iter().flat_map(|s| bounds.iter().map(move |e| (s, e))) {
            for step in 1..4 {
                let got = values(&t, TensorIndex::Slice { start, end, step });
                assert_eq!(got, named(size, start, end, step), "{start:?}:{end:?}:{step} of {size}");
            }
        }
    }
}

#[test]
fn every_range_is_its_slice() {
    let t = arange(&[6]);
    let last = -1;
    assert_eq!(values(&t, ..), [0, 1, 2, 3, 4, 5]);
    assert_eq!(values(&t, 1..3), [1, 2]);
    assert_eq!(values(&t, 4..), [4, 5]);
    assert_eq!(values(&t, ..-4), [0, 1]);
    assert_eq!(values(&t, -2..), [4, 5]);
    assert_eq!(values(&t, 1..=3), [1, 2, 3]);
    assert_eq!(values(&t, ..=-2), [0, 1, 2, 3, 4]);
    assert_eq!(values(&t, 3..=last), [3, 4, 5]);
    assert_eq!(values(&t, 0..=i64::MAX), [0, 1, 2, 3, 4, 5]);
    assert_eq!(values(&t, 1usize..3), [1, 2]);
    assert_eq!(values(&t, 2usize..usize::MAX), [2, 3, 4, 5]);
    assert_eq!(values(&t, slice(-5, -2)), [1, 2, 3]);
    assert_eq!(values(&t, (..).step(4)), [0, 4]);
    assert_eq!(values(&t, (1..=5).step(2)), [1, 3, 5]);
    assert_eq!(values(&t, (-3..).step(i64::MAX)), [3]);
}

#[test]
fn positions_select_their_dimensions() {
    let t = arange(&[2, 3, 4]);
    let at = |i: i64, j: i64, k: i64| i * 12 + j * 4 + k;
    assert_eq!(values(&t, (1, 2, 3)), [at(1, 2, 3)]);
    assert_eq!(values(&t, (-1, 0)), (0..4).map(|k| at(1, 0, k)).collect::<Vec<_>>());
    assert_eq!(values(&t, (Ellipsis, 1)), (0..6).map(|row| row * 4 + 1).collect::<Vec<_>>());
    assert_eq!(values(&t, (0, Ellipsis, 1..3)), [1, 2, 5, 6, 9, 10]);
    assert_eq!(values(&t, (1, (..).step(2), 3)), [at(1, 0, 3), at(1, 2, 3)]);
    let sizes = |indices: &[TensorIndex]| t.i(indices).unwrap().sizes().to_vec();
    let all = || TensorIndex::from(..);
    assert_eq!(sizes(&[]), [2, 3, 4]);
    assert_eq!(sizes(&[NewAxis]), [1, 2, 3, 4]);
    assert_eq!(sizes(&[0.into(), NewAxis, Ellipsis, NewAxis]), [1, 3, 4, 1]);
    assert_eq!(sizes(&[all(), NewAxis, (2..9).into(), Ellipsis, 0.into()]), [2, 1, 1]);
    assert_eq!(sizes(&[all(), all(), all(), Ellipsis]), [2, 3, 4]);
    assert_eq!(arange(&[]).i(NewAxis).unwrap().sizes(), &[1]);
}

#[test]
fn parts_are_views_with_handles_of_their_own() {
    let t = arange(&[2, 3]);
    for view in [t.i(..).unwrap(), t.i(Ellipsis).unwrap(), t.i((.., 0..3)).unwrap()] {
        assert!(!view.is_same(&t));
        assert_eq!(view.storage().data_ptr(), t.storage().data_ptr());
    }
    t.i((1, 2)).unwrap().fill_(-1).unwrap();
    assert_eq!(t.to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, -1]);
}

#[test]
fn assignments_broadcast_convert_and_stay_inside() {
    let t = arange(&[3, 3]);
    t.assign((.., 1), 9).unwrap().assign((0, ..2), Tensor::from([7i32, 8])).unwrap();
    t.assign((1.., 2), Tensor::from(2.75f32).view(&[1]).unwrap()).unwrap();
    t.assign(2..2, 100).unwrap();
    assert_eq!(t.to_vec2::<i64>().unwrap(), [[7, 8, 2], [3, 9, 2], [6, 9, 2]]);
    t.assign(.., t.t().unwrap()).unwrap();
    assert_eq!(t.to_vec2::<i64>().unwrap(), [[7, 3, 6], [8, 9, 9], [2, 2, 2]]);
}

#[test]
fn faults_name_position_and_size() {
    let t = arange(&[2, 3]);
    let error = |e: flambeau_core::Result<Tensor>| e.map(drop).unwrap_err();
    let message = |e: flambeau_core::Result<Tensor>| error(e).to_string();
    assert_eq!(message(t.i(2)), "index: position 0: index 2 is out of range for dimension 0 of size 2");
    assert_eq!(
        message(t.i((NewAxis, Ellipsis, -4))),
        "index: position 2: index -4 is out of range for dimension 1 of size 3"
    );
    assert_eq!(
        message(t.i((0, 0, 0))),
        "index: expected at most 2 indices for a tensor of sizes [2, 3] but got 3"
    );
    assert_eq!(
        message(t.i((.., (..).step(0)))),
        "index: position 1: expected a step of at least 1 but got 0"
    );
    assert_eq!(error(t.i(usize::MAX)).kind(), ErrorKind::Index);
    assert_eq!(error(t.i((0, (1..).step(-1)))).kind(), ErrorKind::InvalidArgument);
    assert_eq!(error(t.i((Ellipsis, Ellipsis))).kind(), ErrorKind::InvalidArgument);
    assert_eq!(error(arange(&[]).i(0)).kind(), ErrorKind::Index);
    assert_eq!(error(arange(&[]).i(..)).kind(), ErrorKind::Index);

    let kind = |e: flambeau_core::Result<&Tensor>| e.map(drop).unwrap_err().kind();
    assert_eq!(kind(t.assign(0, arange(&[2]))), ErrorKind::Shape);
    assert_eq!(kind(Tensor::from([1u8]).assign(0, 300)), ErrorKind::InvalidArgument);
    assert_eq!(kind(arange(&[1]).expand(&[3]).unwrap().assign(.., 1)), ErrorKind::Aliasing);
    let reader = t.accessor::<i64, 2>().unwrap();
    assert_eq!(kind(t.assign(0, 1)), ErrorKind::Busy);
    drop(reader);
}

/// Sources that share memory with what is written are copied first, whatever their strides.
#[test]
fn scatter_of_its_own_columns() {
    let x = Tensor::from_vec((0..12i64).collect(), &[3, 4]).unwrap();
    let columns = ops::slice_tensor(&x, 1, Some(1), Some(4), 2).unwrap();
    let index = Tensor::from_vec(vec![0i64, 2, 1, 0, 3, 1], &[3, 2]).unwrap();
    ops::scatter_add_(&x, 1, &index, &columns).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [1, 1, 5, 3, 11, 10, 6, 7, 8, 20, 10, 20]);
}

#[test]
fn views_of_empty_tensors_begin_anywhere() {
    let empty = Tensor::zeros(&[3, 5, i64::MAX - 1, 0], ScalarType::F32).unwrap();
    assert_eq!(ops::select_int(&empty, 1, -1).unwrap().sizes(), [3, i64::MAX - 1, 0]);
    let wide = Tensor::zeros(&[0, 1 << 40, 1 << 40], ScalarType::F32).unwrap();
    assert_eq!(ops::diagonal(&wide, 1 << 39, 1, 2).unwrap().sizes(), [0, 1 << 39]);
}
