//! Elements through guards: accessors, values in and out, foreign memory.
#![expect(unsafe_code, reason = "makes tensors in foreign memory")]

use flambeau_core::{Device, Element, ErrorKind, Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

/// 0, 1, 2, ... in `sizes`.
fn arange(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).collect(), sizes).unwrap()
}

/// What the formula for strided addresses says, without any walk.
fn reference(t: &Tensor, base: &[i64]) -> Vec<i64> {
    (0..t.numel())
        .map(|mut linear| {
            let mut offset = t.storage_offset();
            for d in (0..t.dim()).rev() {
                offset += linear % t.sizes()[d] * t.strides()[d];
                linear /= t.sizes()[d];
            }
            base[offset as usize]
        })
        .collect()
}

#[test]
fn to_vec_follows_any_strides() {
    let base: Vec<i64> = (0..120).collect();
    let t = arange(&[2, 3, 4, 5]);
    let views = [
        t.clone(),
        t.permute(&[3, 1, 0, 2]).unwrap(),
        t.permute(&[0, 2, 1, 3]).unwrap().transpose(0, 3).unwrap(),
        t.view(&[120]).unwrap(),
        arange(&[1]).expand(&[3, 0, 2]).unwrap(),
        arange(&[1, 3, 1]).expand(&[2, 3, 4]).unwrap(),
        arange(&[]),
    ];
    for view in views {
        let expected = reference(&view, &base);
        assert_eq!(view.to_vec::<i64>().unwrap(), expected, "{view:?}");
        if view.dim() == 4 {
            let a = view.accessor::<i64, 4>().unwrap();
            assert_eq!(a.iter().copied().collect::<Vec<_>>(), expected, "{view:?}");
            assert_eq!(a.as_slice().is_some(), view.is_contiguous());
        }
    }
}

#[test]
fn every_index_reaches_its_element_and_no_other_is_reached() {
    let t = arange(&[3, 4]).t().unwrap();
    let a = t.accessor::<i64, 2>().unwrap();
    assert_eq!(a.sizes(), [4, 3]);
    for i in 0..5 {
        for j in 0..4 {
            let expected = (i < 4 && j < 3).then_some((j * 4 + i) as i64);
            assert_eq!(a.get([i, j]).copied(), expected);
        }
    }
    assert!(std::panic::catch_unwind(|| arange(&[2]).accessor::<i64, 1>().unwrap()[[2]]).is_err());
    let rows: Vec<Vec<i64>> = a.rows().map(|row| row.iter().copied().collect()).collect();
    assert_eq!(rows, t.to_vec2::<i64>().unwrap());
    assert!(a.rows().all(|row| row.as_slice().is_none()));
}

#[test]
fn empty_tensors_have_no_elements() {
    for sizes in [[0, 3], [3, 0], [0, 0]] {
        let t = arange(&sizes);
        assert!(t.to_vec::<i64>().unwrap().is_empty());
        assert_eq!(t.to_vec2::<i64>().unwrap().len(), sizes[0] as usize);
        let a = t.accessor::<i64, 2>().unwrap();
        assert_eq!((a.iter().count(), a.rows().count()), (0, sizes[0] as usize));
        assert_eq!(a.as_slice(), Some(&[][..]));
    }
}

#[test]
fn writes_arrive_and_count_once() {
    let t = arange(&[3, 4]);
    let version = t.version();
    {
        let mut a = t.t().unwrap().accessor_mut::<i64, 2>().unwrap();
        a[[3, 0]] = 100;
        a.iter_mut().for_each(|x| *x += 1);
        *a.get_mut([0, 1]).unwrap() = -1;
        assert!(a.get_mut([4, 0]).is_none() && a.as_mut_slice().is_none());
        a.rows_mut().nth(1).unwrap().iter_mut().for_each(|x| *x = 0);
    }
    assert_eq!(t.version(), version + 1);
    assert_eq!(t.to_vec2::<i64>().unwrap(), [[1, 0, 3, 101], [-1, 0, 7, 8], [9, 0, 11, 12]]);
}

#[test]
fn conflicts_on_one_thread_are_errors() {
    let t = arange(&[2, 2]);
    let reader = t.accessor::<i64, 2>().unwrap();
    assert_eq!(kind(t.t().unwrap().accessor_mut::<i64, 2>()), ErrorKind::Busy);
    assert_eq!(kind(t.fill_(1)), ErrorKind::Busy);
    assert!(t.accessor::<i64, 2>().is_ok() && t.add(&t).is_ok());
    drop(reader);
    let writer = t.accessor_mut::<i64, 2>().unwrap();
    assert_eq!(kind(t.accessor::<i64, 2>()), ErrorKind::Busy);
    assert_eq!(kind(t.to_vec::<i64>()), ErrorKind::Busy);
    assert_eq!(kind(t.add(&t)), ErrorKind::Busy);
    drop(writer);
    assert!(t.fill_(1).is_ok());
}

#[test]
fn what_is_not_there_cannot_be_accessed() {
    let t = arange(&[2, 2]);
    assert_eq!(kind(t.accessor::<f32, 2>()), ErrorKind::Dtype);
    assert_eq!(kind(t.accessor::<i64, 1>()), ErrorKind::Shape);
    assert_eq!(kind(t.to_vec::<i32>()), ErrorKind::Dtype);
    assert_eq!(kind(t.item::<i64>()), ErrorKind::Shape);
    assert_eq!(kind(arange(&[4]).to_vec2::<i64>()), ErrorKind::Shape);
    assert_eq!(kind(arange(&[2]).expand(&[2, 2]).unwrap().accessor_mut::<i64, 2>()), ErrorKind::Aliasing);
    let meta = ops::empty_memory_format(&[1], None, None, Some(Device::META), None, None).unwrap();
    assert_eq!(kind(meta.accessor::<f32, 1>()), ErrorKind::Device);
    assert_eq!(kind(meta.to_vec::<f32>()), ErrorKind::Device);
    assert_eq!(kind(meta.item::<f32>()), ErrorKind::Device);
}

#[test]
fn every_type_goes_in_and_comes_out() {
    fn round_trip<T: Element>(values: Vec<T>) {
        let t = Tensor::from_vec(values.clone(), &[values.len() as i64, 1]).unwrap();
        assert_eq!(t.dtype(), T::SCALAR_TYPE);
        assert_eq!(t.to_vec::<T>().unwrap(), values);
        assert_eq!(t.element_size() * values.len(), t.nbytes());
        let one = Tensor::from_slice(&values[..1]).unwrap();
        assert_eq!(one.item::<T>().unwrap(), values[0]);
        assert_eq!(one.item_scalar().unwrap(), values[0].to_scalar());
    }
    round_trip(vec![true, false, true]);
    round_trip(vec![0u8, 255]);
    round_trip(vec![i8::MIN, i8::MAX]);
    round_trip(vec![i16::MIN, i16::MAX]);
    round_trip(vec![i32::MIN, i32::MAX]);
    round_trip(vec![i64::MIN, i64::MAX]);
    round_trip(vec![half::f16::MAX, half::f16::MIN_POSITIVE]);
    round_trip(vec![half::bf16::MAX, half::bf16::MIN_POSITIVE]);
    round_trip(vec![f32::MAX, f32::MIN_POSITIVE]);
    round_trip(vec![f64::MAX, f64::INFINITY]);
}

#[test]
fn literals_become_what_they_are_in_pytorch() {
    let dtype = |t: Result<Tensor>| t.unwrap().dtype();
    assert_eq!(dtype(Tensor::new([1.0, 2.0], ())), ScalarType::F32);
    assert_eq!(dtype(Tensor::new([[1], [2]], ())), ScalarType::I64);
    assert_eq!(dtype(Tensor::new(true, ())), ScalarType::Bool);
    assert_eq!(dtype(Tensor::new([1u8], ())), ScalarType::U8);
    assert_eq!(dtype(Tensor::new([1.5], ScalarType::I32)), ScalarType::I32);
    assert_eq!(Tensor::new(1e300, ()).unwrap().item::<f32>().unwrap(), f32::INFINITY);
    assert_eq!(Tensor::new([-1.5], ScalarType::I32).unwrap().item_scalar().unwrap(), Scalar::Int(-1));
    assert_eq!(kind(Tensor::new([300], ScalarType::U8)), ErrorKind::InvalidArgument);
    let meta = Tensor::new([[1.0, 2.0]], Device::META).unwrap();
    assert_eq!((meta.sizes(), meta.device()), (&[1, 2][..], Device::META));
}

/// A tensor in foreign memory, and a count of the calls of its deleter.
fn foreign(
    bytes: Vec<u8>,
    at: usize,
    sizes: &[i64],
    strides: Option<&[i64]>,
    dtype: ScalarType,
) -> (Result<Tensor>, Arc<AtomicUsize>) {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    let data = words.as_mut_ptr().cast::<u8>();
    // SAFETY: there is room for the bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let deleter = Box::new(move || {
        drop(words);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    // SAFETY: the deleter owns the memory, and nobody else has it; the callers stay inside.
    let t = unsafe { Tensor::from_blob(data.wrapping_add(at), sizes, strides, dtype, Device::CPU, deleter) };
    (t, calls)
}

#[test]
fn foreign_memory_is_shared_and_given_back_once() {
    let values: Vec<u8> = (0..6).flat_map(|i: i32| i.to_ne_bytes()).collect();
    let (t, deleted) = foreign(values.clone(), 0, &[3, 2], Some(&[1, 3]), ScalarType::I32);
    let t = t.unwrap();
    assert_eq!(t.to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
    t.fill_(9).unwrap();
    let view = t.t().unwrap();
    drop(t);
    assert_eq!((view.to_vec::<i32>().unwrap(), deleted.load(Ordering::Relaxed)), (vec![9; 6], 0));
    drop(view);
    assert_eq!(deleted.load(Ordering::Relaxed), 1);

    for (at, sizes, strides) in [(1, [2], None), (0, [-1], None), (0, [2], Some(&[-1i64][..]))] {
        let (t, deleted) = foreign(values.clone(), at, &sizes, strides, ScalarType::I32);
        assert!(t.is_err());
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn bools_that_are_neither_true_nor_false_are_not_trusted() {
    let (t, _) = foreign(vec![0, 1, 2, 255], 0, &[4], None, ScalarType::Bool);
    let t = t.unwrap();
    assert_eq!(t.to_vec::<bool>().unwrap(), [false, true, true, true]);
    assert_eq!(t.to_string(), "tensor([False,  True,  True,  True])");
    assert_eq!(kind(t.accessor::<bool, 1>()), ErrorKind::InvalidArgument);
    drop(t.accessor_mut::<bool, 1>().unwrap());
    assert_eq!(t.accessor::<bool, 1>().unwrap().as_slice().unwrap(), [false, true, true, true]);
}
