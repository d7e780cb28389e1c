//! In-place changes of shape: every handle sees them, elements stay, storages grow.

use flambeau_core::{ErrorKind, MemoryFormat};
use flambeau_ops::{Tensor, ops};

fn counted(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).collect(), sizes).unwrap()
}

#[test]
fn every_handle_sees_the_new_shape() {
    let x = counted(&[1, 2, 3, 1]);
    let other = x.clone();
    ops::squeeze__dim(&x, 0).unwrap();
    assert_eq!(other.sizes(), [2, 3, 1]);
    ops::transpose_(&x, 0, 1).unwrap();
    assert_eq!(other.sizes(), [3, 2, 1]);
    ops::squeeze_(&x).unwrap();
    ops::t_(&x).unwrap();
    ops::unsqueeze_(&x, -1).unwrap();
    assert_eq!((other.sizes(), other.strides()[..2].to_vec()), ([2, 3, 1].as_slice(), vec![3, 1]));
    ops::squeeze__dims(&x, &[2, 0]).unwrap();
    assert_eq!(other.to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
    ops::as_strided_(&x, &[2, 2], &[1, 2], Some(1)).unwrap();
    assert_eq!(other.to_vec::<i64>().unwrap(), [1, 3, 2, 4]);
    assert_eq!(ops::t_(&counted(&[1, 1, 1])).unwrap_err().kind(), ErrorKind::Shape);
}

#[test]
fn resizing_keeps_elements_and_grows_storages() {
    let x = counted(&[2, 3]);
    let base = x.storage().nbytes();
    ops::resize_(&x, &[2, 2], None).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [0, 1, 2, 3]);
    assert_eq!(x.storage().nbytes(), base);
    ops::resize_(&x, &[40], None).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap()[..6], [0, 1, 2, 3, 4, 5]);
    ops::resize_as_(&x, &counted(&[1, 2, 2, 3]), Some(MemoryFormat::ChannelsLast)).unwrap();
    assert_eq!((x.sizes(), x.strides()), ([1, 2, 2, 3].as_slice(), [12, 1, 6, 2].as_slice()));
    assert_eq!(ops::resize_(&x, &[-1], None).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(ops::resize_(&x, &[i64::MAX, 2], None).unwrap_err().kind(), ErrorKind::Overflow);
}

#[test]
fn an_index_that_shares_memory_with_what_it_writes_is_read_first() {
    let x = counted(&[6]);
    let index = ops::slice_tensor(&x, 0, Some(1), Some(4), 1).unwrap();
    ops::scatter__value(&x, 0, &index, 5.into()).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [0, 5, 5, 5, 4, 5]);
    let y = counted(&[4]);
    let (front, back) = (y.narrow(0, 0, 3).unwrap(), y.narrow(0, 1, 3).unwrap());
    ops::index_copy_(&back, 0, &counted(&[3]), &front).unwrap();
    assert_eq!(y.to_vec::<i64>().unwrap(), [0, 0, 1, 2]);
    let repeated = counted(&[1]).expand(&[3]).unwrap();
    let written = ops::index_put_(&repeated, &[Some(counted(&[1]))], &counted(&[1]), false);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Aliasing);
}
