//! Collates examples into a batch.

use flambeau_core::{Error, ErrorKind, Result, ensure};
use flambeau_ops::{Tensor, ops};

/// An example that knows how to form batches of its kind.
pub trait Collate: Sized + Send {
    /// A batch.
    type Batch: Send + 'static;

    /// The batch of `items`, of which there is at least one.
    ///
    /// # Errors
    /// `Shape` or `Dtype` for examples that do not fit together.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

/// `n` tensors of the same sizes become one with `n` rows.
impl Collate for Tensor {
    type Batch = Tensor;

    fn collate(items: Vec<Tensor>) -> Result<Tensor> {
        let first = items.first().ok_or_else(empty)?;
        let mut sizes = vec![items.len() as i64];
        sizes.extend_from_slice(first.sizes());
        let batch = Tensor::empty(&sizes, (first.dtype(), first.device()))?;
        for (row, item) in items.iter().enumerate() {
            ensure!(
                item.sizes() == first.sizes(),
                Shape,
                "collate: expected sizes {:?}, those of the first example, but got {:?}",
                first.sizes(),
                item.sizes()
            );
            ensure!(
                item.dtype() == first.dtype(),
                Dtype,
                "collate: expected {}, the type of the first example, but got {}",
                first.dtype(),
                item.dtype()
            );
            ops::copy_(&ops::select_int(&batch, 0, row as i64)?, item, false)?;
        }
        Ok(batch)
    }
}

/// Examples of several parts become a batch of each part.
impl<A: Collate, B: Collate> Collate for (A, B) {
    type Batch = (A::Batch, B::Batch);

    fn collate(items: Vec<(A, B)>) -> Result<Self::Batch> {
        let (a, b) = items.into_iter().unzip();
        Ok((A::collate(a)?, B::collate(b)?))
    }
}

/// Examples of `n` parts become `n` batches.
impl<C: Collate> Collate for Vec<C> {
    type Batch = Vec<C::Batch>;

    fn collate(items: Vec<Vec<C>>) -> Result<Self::Batch> {
        let parts = items.first().ok_or_else(empty)?.len();
        let mut columns: Vec<Vec<C>> = (0..parts).map(|_| Vec::with_capacity(items.len())).collect();
        for item in items {
            ensure!(
                item.len() == parts,
                Shape,
                "collate: expected {parts} parts, as many as the first example has, but got {}",
                item.len()
            );
            columns.iter_mut().zip(item).for_each(|(column, part)| column.push(part));
        }
        columns.into_iter().map(C::collate).collect()
    }
}

fn empty() -> Error {
    Error::new(ErrorKind::InvalidArgument, "collate: expected at least one example")
}
