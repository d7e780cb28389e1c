//! Indexing: `t.i((0, 1..3))?` is a view of a part of a tensor, `t.assign((.., 0), 1.0)?` writes one.

use super::Tensor;
use super::arithmetic::Operand;
use crate::ops;
use flambeau_core::{Error, Layout, Result, ensure};
use smallvec::{SmallVec, smallvec};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One position between the brackets of Python's `t[0, 1:3, ..., None]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TensorIndex {
    /// One index of a dimension, which is removed; a negative one counts from the back.
    At(i64),
    /// Every `step`-th index from `start` to before `end`, cut to the dimension as in Python; negative ones count from the
    /// back.
    Slice {
        /// The first index; `None` for the beginning.
        start: Option<i64>,
        /// The index after the last; `None` for the end.
        end: Option<i64>,
        /// From one index to the next, at least 1.
        step: i64,
    },
    /// A dimension of size 1, inserted here. Python's `None`.
    NewAxis,
    /// All dimensions that no other position selects. Python's `...`.
    Ellipsis,
}

pub use TensorIndex::{Ellipsis, NewAxis};

/// Everything between the brackets: one position, a tuple of up to six, or a slice of [`TensorIndex`].
pub trait Indices {
    /// The positions in order.
    fn positions(self) -> SmallVec<[TensorIndex; 6]>;
}

impl<A: Into<TensorIndex>> Indices for A {
    fn positions(self) -> SmallVec<[TensorIndex; 6]> {
        smallvec![self.into()]
    }
}

impl Indices for &[TensorIndex] {
    fn positions(self) -> SmallVec<[TensorIndex; 6]> {
        self.iter().cloned().collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident),+);)*) => {$(
        impl<$($name: Into<TensorIndex>),+> Indices for ($($name,)+) {
            #[expect(non_snake_case, reason = "the names of types serve for values")]
            fn positions(self) -> SmallVec<[TensorIndex; 6]> {
                let ($($name,)+) = self;
                smallvec![$($name.into()),+]
            }
        }
    )*};
}

tuples! {
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
}

/// A range with a step: `(..).step(2)`, `(1..9).step(3)`, Python's `::2` and `1:9:3`.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_ops::tensor::index::Step;
/// let t = Tensor::from([0i32, 1, 2, 3, 4, 5]);
/// assert_eq!(t.i((1..).step(2))?.to_vec::<i32>()?, [1, 3, 5]);
/// # Ok::<(), flambeau_ops::Error>(())
/// ```
pub trait Step: Into<TensorIndex> {
    /// Every `step`-th index of the range; what is no range stays as it is.
    fn step(self, step: i64) -> TensorIndex {
        match self.into() {
            TensorIndex::Slice { start, end, .. } => TensorIndex::Slice { start, end, step },
            other => other,
        }
    }
}

/// The indices from `start` to before `end`, where a range would not read well: clippy takes `1..-1` for a mistake.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_ops::tensor::index::{Step, slice};
/// let t = Tensor::from([0i32, 1, 2, 3, 4, 5]);
/// assert_eq!(t.i(slice(1, -1))?.to_vec::<i32>()?, [1, 2, 3, 4]);
/// assert_eq!(t.i(slice(None, -1).step(2))?.to_vec::<i32>()?, [0, 2, 4]);
/// # Ok::<(), flambeau_ops::Error>(())
/// ```
pub fn slice(start: impl Into<Option<i64>>, end: impl Into<Option<i64>>) -> TensorIndex {
    TensorIndex::Slice { start: start.into(), end: end.into(), step: 1 }
}

impl Step for TensorIndex {}

/// The index after `last`; `None` after -1, the last element, since 0 would be the first.
fn after(last: i64) -> Option<i64> {
    last.checked_add(1).filter(|end| *end != 0)
}

impl Step for RangeFull {}
impl From<RangeFull> for TensorIndex {
    fn from(_: RangeFull) -> Self {
        slice(None, None)
    }
}

macro_rules! integers {
    ($($rust:ty => $index:expr),*) => {$(
        impl From<$rust> for TensorIndex {
            fn from(index: $rust) -> Self {
                TensorIndex::At($index(index))
            }
        }

        integers!(@range $rust, $index, Range<$rust>, r => (Some(r.start), Some(r.end)));
        integers!(@range $rust, $index, RangeFrom<$rust>, r => (Some(r.start), None));
        integers!(@range $rust, $index, RangeTo<$rust>, r => (None, Some(r.end)));
        integers!(@last $rust, $index, RangeInclusive<$rust>, r => (Some(*r.start()), *r.end()));
        integers!(@last $rust, $index, RangeToInclusive<$rust>, r => (None, r.end));
    )*};
    (@range $rust:ty, $index:expr, $range:ty, $r:ident => $bounds:expr) => {
        impl Step for $range {}
        impl From<$range> for TensorIndex {
            fn from($r: $range) -> Self {
                let (start, end): (Option<$rust>, Option<$rust>) = $bounds;
                slice(start.map($index), end.map($index))
            }
        }
    };
    (@last $rust:ty, $index:expr, $range:ty, $r:ident => $bounds:expr) => {
        impl Step for $range {}
        impl From<$range> for TensorIndex {
            fn from($r: $range) -> Self {
                let (start, last): (Option<$rust>, $rust) = $bounds;
                slice(start.map($index), after($index(last)))
            }
        }
    };
}

// No dimension is as long as 2^63, so an index that large is out of range as 2^63 - 1 too.
integers!(i32 => i64::from, i64 => i64::from, usize => |i: usize| i64::try_from(i).unwrap_or(i64::MAX));

impl Tensor {
    /// A view of the part that `indices` name: integers, ranges of all kinds,
    /// [`slice()`], `(..).step(2)`, [`NewAxis`], [`Ellipsis`].
    /// Python's `t[...]`.
    ///
    /// # Errors
    /// `Index` naming position, dimension and size for an integer out of range, or for more positions than dimensions;
    /// `InvalidArgument` for a step below 1 or a second ellipsis.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// use flambeau_ops::tensor::index::{Ellipsis, NewAxis};
    /// let t = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    /// assert_eq!(t.i((1, ..2))?.to_vec::<i64>()?, [4, 5]);
    /// assert_eq!(t.i((.., -1))?.to_vec::<i64>()?, [3, 6]);
    /// assert_eq!(t.i((Ellipsis, NewAxis))?.sizes(), &[2, 3, 1]);
    /// assert_eq!(
    ///     t.i((0, 3)).unwrap_err().to_string(),
    ///     "index: position 1: index 3 is out of range for dimension 1 of size 3"
    /// );
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn i(&self, indices: impl Indices) -> Result<Tensor> {
        let positions = indices.positions();
        check(self, &positions)?;
        let taken = positions.iter().filter(|p| p.takes_dimension()).count();
        let (mut view, mut from, mut to) = (self.clone(), 0, 0);
        for (position, part) in positions.iter().enumerate() {
            let context = |e: Error| e.context(format!("index: position {position}"));
            match *part {
                TensorIndex::At(index) => {
                    check_index(self.sizes()[from], index, from).map_err(context)?;
                    view = ops::select_int(&view, to, index)?;
                    from += 1;
                }
                TensorIndex::Slice { start, end, step } => {
                    ensure_step(step).map_err(context)?;
                    if (start, end, step) != (None, None, 1) {
                        view = ops::slice_tensor(&view, to, start, end, step)?;
                    }
                    (from, to) = (from + 1, to + 1);
                }
                TensorIndex::NewAxis => {
                    view = ops::unsqueeze(&view, to)?;
                    to += 1;
                }
                TensorIndex::Ellipsis => {
                    let skipped = self.dim() - taken;
                    (from, to) = (from + skipped, to + skipped as i64);
                }
            }
        }
        // A view in any case, so that `t.i(..)` has a handle of its own.
        if view.is_same(self) { ops::alias(self) } else { Ok(view) }
    }

    /// Writes `value`, a tensor or a number, broadcast and converted, into the part that `indices` name. Python's
    /// `t[...] = value`.
    ///
    /// # Errors
    /// Those of [`i`](Self::i) and of `copy_`: `Shape` where `value` does not broadcast, `Busy` or `Aliasing` where the
    /// elements may not be written, `InvalidArgument` for a number that the type cannot hold.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    /// t.assign((.., 0), 7)?;
    /// t.assign((0, 1..), &Tensor::from([8i64, 9]))?;
    /// assert_eq!(t.to_vec::<i64>()?, [7, 8, 9, 7, 5, 6]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn assign(&self, indices: impl Indices, value: impl Operand) -> Result<&Tensor> {
        ensure!(
            self.layout() == Layout::Strided,
            NotImplemented("assign"),
            "elements of a tensor of layout {} cannot be assigned, since its slices are copies",
            self.layout()
        );
        value.write_into(&self.i(indices)?).map_err(|e| e.in_operator("assign"))?;
        Ok(self)
    }
}

impl TensorIndex {
    /// Whether a dimension of the tensor is meant.
    fn takes_dimension(&self) -> bool {
        matches!(self, TensorIndex::At(_) | TensorIndex::Slice { .. })
    }
}

fn check(tensor: &Tensor, positions: &[TensorIndex]) -> Result<()> {
    let taken = positions.iter().filter(|p| p.takes_dimension()).count();
    ensure!(
        taken <= tensor.dim(),
        Index("index", "indices"),
        "expected at most {} indices for a tensor of sizes {:?} but got {taken}",
        tensor.dim(),
        tensor.sizes()
    );
    ensure!(
        positions.iter().filter(|p| matches!(p, Ellipsis)).count() < 2,
        InvalidArgument("index", "indices"),
        "expected at most one ellipsis but got {positions:?}"
    );
    Ok(())
}

fn check_index(size: i64, index: i64, dim: usize) -> Result<()> {
    ensure!(
        index >= -size && index < size,
        Index,
        "index {index} is out of range for dimension {dim} of size {size}"
    );
    Ok(())
}

fn ensure_step(step: i64) -> Result<()> {
    ensure!(step > 0, InvalidArgument, "expected a step of at least 1 but got {step}");
    Ok(())
}
