//! Elements of tensors as bytes, under guards. Those of tensors on a device are copied to the host, and back.

use flambeau_core::{Device, Layout, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;

/// Refuses tensors whose elements are not in rows, or that have none.
pub(crate) fn check(operation: &str, argument: &str, tensor: &Tensor) -> Result<()> {
    ensure!(
        tensor.layout() == Layout::Strided,
        NotImplemented(operation, argument),
        "expected a strided tensor but got one of layout {}",
        tensor.layout()
    );
    ensure!(
        !tensor.device().is_meta(),
        Device(operation, argument),
        "expected a tensor with elements but got one on {}",
        tensor.device()
    );
    Ok(())
}

/// The elements of a contiguous tensor as a tensor of bytes that shares their memory.
fn as_bytes(tensor: &Tensor) -> Result<Tensor> {
    tensor.detach()?.view(&[tensor.numel()])?.view_dtype(ScalarType::U8)
}

/// Whether [`dense`] is the tensor itself.
fn is_dense(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.is_contiguous()
}

/// The elements on the host in logical order: the tensor itself where they are there, else a copy.
fn dense(tensor: &Tensor) -> Result<Tensor> {
    tensor.detach()?.to(Device::CPU)?.contiguous()
}

/// Calls `read` with the elements in logical order. They are guarded meanwhile.
pub(crate) fn with_bytes<R>(tensor: &Tensor, read: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
    if tensor.numel() == 0 {
        return read(&[]);
    }
    let accessor = as_bytes(&dense(tensor)?)?.accessor::<u8, 1>()?;
    match accessor.as_slice() {
        Some(bytes) => read(bytes),
        None => bail!(Internal, "the elements of a contiguous tensor have gaps"),
    }
}

/// Calls `write` with the elements in logical order, which it may change. The guard is exclusive meanwhile, so other threads that read
/// the tensor wait. A tensor with gaps, or on a device, is copied, and overwritten afterwards.
pub(crate) fn with_bytes_mut<R>(tensor: &Tensor, write: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
    if tensor.numel() == 0 {
        return write(&mut []);
    }
    let dense = dense(tensor)?;
    let mut accessor = as_bytes(&dense)?.accessor_mut::<u8, 1>()?;
    let result = match accessor.as_mut_slice() {
        Some(bytes) => write(bytes)?,
        None => bail!(Internal, "the elements of a contiguous tensor have gaps"),
    };
    drop(accessor);
    if !is_dense(tensor) {
        tensor.detach()?.copy_(&dense)?;
    }
    Ok(result)
}

/// A tensor of bytes with so many elements, whose values are not defined.
pub(crate) fn buffer(count: usize) -> Result<Tensor> {
    Tensor::empty(&[count as i64], ScalarType::U8)
}

/// A copy of bytes as a tensor.
pub(crate) fn copied(bytes: &[u8]) -> Result<Tensor> {
    let copy = buffer(bytes.len())?;
    with_bytes_mut(&copy, |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })?;
    Ok(copy)
}

/// Bytes that were received, as elements of a type in one dimension.
pub(crate) fn elements(bytes: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if bytes.numel() == 0 {
        return Tensor::empty(&[0], dtype);
    }
    bytes.view_dtype(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_with_gaps_are_read_and_written_in_logical_order() {
        let matrix = Tensor::from([[1u8, 2, 3], [4, 5, 6]]);
        let column = matrix.t().unwrap();
        with_bytes(&column, |bytes| {
            assert_eq!(bytes, [1, 4, 2, 5, 3, 6]);
            Ok(())
        })
        .unwrap();
        with_bytes_mut(&column, |bytes| {
            bytes.copy_from_slice(&[10, 40, 20, 50, 30, 60]);
            Ok(())
        })
        .unwrap();
        assert_eq!(matrix.to_vec::<u8>().unwrap(), [10, 20, 30, 40, 50, 60]);
    }

    #[test]
    fn bytes_become_elements_of_any_type() {
        let x = Tensor::from([1.5f64, -2.0]);
        let bytes = with_bytes(&x, copied).unwrap();
        assert_eq!(elements(&bytes, ScalarType::F64).unwrap().to_vec::<f64>().unwrap(), [1.5, -2.0]);
        assert_eq!(elements(&buffer(0).unwrap(), ScalarType::Bool).unwrap().numel(), 0);
    }
}
