//! Data sets: collections of examples with indices from 0.

use super::Collate;
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// A collection of examples numbered from 0.
///
/// ```
/// use flambeau_core::Result;
/// use flambeau_nn::data::{DataLoader, Dataset};
/// use flambeau_ops::Tensor;
/// struct Squares;
/// impl Dataset for Squares {
///     type Item = (Tensor, Tensor);
///     fn len(&self) -> usize {
///         10
///     }
///     fn get(&self, index: usize) -> Result<Self::Item> {
///         let x = index as f32;
///         Ok((Tensor::from(x), Tensor::from(x * x)))
///     }
/// }
/// let loader = DataLoader::new(Squares).batch_size(4)?;
/// let (x, y) = loader.iter()?.next().transpose()?.unwrap_or_else(|| unreachable!());
/// assert_eq!(x.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0]);
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 4.0, 9.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub trait Dataset: Send + Sync + 'static {
    /// One example.
    type Item: Collate;

    /// How many there are.
    fn len(&self) -> usize;

    /// Example number `index`.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of tensors: example `i` is row `i` of each, a view. A batch has their rows in tensors of one more dimension.
///
/// ```
/// use flambeau_nn::data::{Dataset, TensorDataset};
/// use flambeau_ops::Tensor;
/// let set = TensorDataset::new(vec![Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([0i64, 1])])?;
/// assert_eq!(set.len(), 2);
/// assert_eq!(set.get(1)?[0].to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorDataset {
    tensors: Vec<Tensor>,
    rows: usize,
}

impl TensorDataset {
    /// The rows of `tensors`.
    ///
    /// # Errors
    /// `Shape` unless all have at least one dimension and as many rows as the first, `InvalidArgument` for none.
    pub fn new(tensors: Vec<Tensor>) -> Result<Self> {
        ensure!(!tensors.is_empty(), InvalidArgument, "TensorDataset: expected at least one tensor");
        let rows = tensors[0].size(0).map_err(|e| e.context("TensorDataset"))?;
        for tensor in &tensors {
            ensure!(
                tensor.sizes().first() == Some(&rows),
                Shape,
                "TensorDataset: expected {rows} rows in every tensor but got sizes {:?}",
                tensor.sizes()
            );
        }
        Ok(TensorDataset { tensors, rows: rows as usize })
    }
}

impl Dataset for TensorDataset {
    type Item = Vec<Tensor>;

    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|tensor| ops::select_int(tensor, 0, index as i64)).collect()
    }
}

/// Some examples of another data set, in an order of their own.
#[derive(Debug, Clone)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The examples of `dataset` with these numbers.
    ///
    /// # Errors
    /// `Index` for a number out of range.
    pub fn new(dataset: D, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        for index in &indices {
            ensure!(*index < len, Index, "Subset: expected indices below {len} but got {index}");
        }
        Ok(Subset { dataset, indices })
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        let within = self.indices.get(index).copied();
        ensure!(within.is_some(), Index, "Subset: expected an index below {} but got {index}", self.len());
        self.dataset.get(within.unwrap_or_default())
    }
}
