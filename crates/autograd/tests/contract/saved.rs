//! Hooks on the saving of tensors.

use crate::{assert_close, data, grad_of, leaf, message, mul, sum, values};
use flambeau_autograd::{Autograd, grad, saved_tensors_hooks};
use flambeau_core::{Error, ErrorKind};
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keeps the values in a vector, as if on a disk.
fn on_disk(
    packed: Arc<AtomicUsize>,
    unpacked: Arc<AtomicUsize>,
) -> flambeau_autograd::graph::hooks::SavedTensorsHooksGuard {
    saved_tensors_hooks(
        move |tensor| {
            packed.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new((values(tensor), tensor.sizes().to_vec())))
        },
        move |packed| {
            unpacked.fetch_add(1, Ordering::Relaxed);
            let (values, sizes) = packed.downcast_ref::<(Vec<f64>, Vec<i64>)>().unwrap();
            Ok(data(values, sizes))
        },
    )
}

#[test]
fn saved_tensors_pass_through_the_hooks() {
    let (packed, unpacked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let x = leaf(&[1.0, 2.0]);
    let y = {
        let _hooks = on_disk(packed.clone(), unpacked.clone());
        ops::exp(&mul(&x, &x)).unwrap()
    };
    assert_eq!(packed.load(Ordering::Relaxed), 3);
    sum(&y).backward().unwrap();
    assert_eq!(unpacked.load(Ordering::Relaxed), 3);
    assert_close(&grad_of(&x), &[2.0 * 1f64.exp(), 4.0 * 4f64.exp()]);
}

#[test]
fn what_comes_back_has_its_history() {
    let counters = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let x = leaf(&[1.5]);
    let y = {
        let _hooks = on_disk(counters.0, counters.1);
        mul(&ops::exp(&x).unwrap(), &x)
    };
    let first = grad(&[y], &[x.clone()], &[], None, true, false).unwrap().remove(0).unwrap();
    let second = grad(&[first], &[x], &[], None, false, false).unwrap().remove(0).unwrap();
    // (x e^x)'' = (x + 2) e^x
    assert_close(&values(&second), &[3.5 * 1.5f64.exp()]);
}

#[test]
fn hooks_may_fail_but_not_write() {
    let x = leaf(&[1.0]);
    let failing = saved_tensors_hooks(
        |_| Err(Error::new(ErrorKind::Io, "the disk is full")),
        |_| Err(Error::new(ErrorKind::Io, "the disk is gone")),
    );
    assert_eq!(message(ops::exp(&x)), "the disk is full");
    drop(failing);
    let writing = saved_tensors_hooks(
        |tensor: &Tensor| {
            ops::fill__scalar(tensor, 0.into())?;
            Ok(Box::new(()))
        },
        |_| Err(Error::new(ErrorKind::Io, "the disk is gone")),
    );
    assert!(message(ops::exp(&x)).starts_with("A saved tensor pack hook is modifying its input in place."));
    drop(writing);
    let lost =
        saved_tensors_hooks(|_| Ok(Box::new(())), |_| Err(Error::new(ErrorKind::Io, "the disk is gone")));
    let y = ops::exp(&x).unwrap();
    drop(lost);
    assert_eq!(message(y.backward()), "the disk is gone");
}
