//! Sums and products of half precision, which are accumulated in f32: of the whole tensor, or of the slices that few indices select.

use super::geometry::DimIndex;
use super::scatter::Combine;
use crate::Tensor;
use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::structured::TensorSpec;
use flambeau_core::{DimVec, Result, ScalarType, fallible, shape};

/// Elements of a tensor for each index: if there are more indices, all of the tensor is converted.
const MIN_ELEMENTS: i64 = 64;
/// Slices of a tensor for each index.
const MIN_SLICES: i64 = 4;

/// `tensor` as `dtype`.
fn converted(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    copy::to_copy(tensor, Some(dtype), None, None, None, false, None)
}

/// Calls `f` with `self_`, or, to accumulate half precision in f32, with a copy in f32 that is rounded back into `self_`. The second
/// argument says whether it is the copy.
pub(in crate::native) fn with_upcast(
    self_: &Tensor,
    how: Combine,
    f: impl FnOnce(&Tensor, bool) -> Result<()>,
) -> Result<()> {
    if !how.needs_upcast(self_.dtype()) {
        return f(self_, false);
    }
    let upcast = converted(self_, ScalarType::F32)?;
    f(&upcast, true)?;
    copy::copy_(self_, &upcast, false)
}

/// A copy of `tensor` in f32 if `upcast`.
pub(in crate::native) fn upcast_if(tensor: &Tensor, upcast: bool) -> Result<Tensor> {
    if upcast { converted(tensor, ScalarType::F32) } else { Ok(tensor.clone()) }
}

/// Different indices, and for each index the number of the one that equals it.
struct Distinct {
    indices: Tensor,
    numbers: Tensor,
}

impl Distinct {
    /// In ascending order; `None` if an index is not below `size`.
    fn new(index: &[i64], size: i64) -> Result<Option<Self>> {
        if index.iter().any(|&i| i as u64 >= size as u64) {
            return Ok(None);
        }
        let mut sorted = fallible::to_vec(index)?;
        sorted.sort_unstable();
        sorted.dedup();
        let number = |i: &i64| sorted.partition_point(|other| other < i) as i64;
        let numbers = fallible::collect(index.iter().map(number))?;
        let vector = |values: Vec<i64>| {
            let count = values.len() as i64;
            Tensor::from_vec(values, &[count])
        };
        Ok(Some(Distinct { numbers: vector(numbers)?, indices: vector(sorted)? }))
    }
}

impl DimIndex<'_> {
    /// The dimension of the indices, if they are the same along all others.
    fn dim_of_indices(&self) -> Option<usize> {
        let all = 0..self.sizes.len();
        let mut indexed = all.clone().filter(|&d| self.sizes[d] > 1 && self.strides[d] == 0);
        let dim = indexed.next().or_else(|| all.clone().rfind(|&d| self.strides[d] == 0))?;
        let is_shared = all.clone().all(|d| d == dim || self.sizes[d] == 1 || self.index_strides[d] == 0);
        (indexed.next().is_none() && is_shared).then_some(dim)
    }

    /// The few indices of slices of `to`, as a vector; `None` if they are many, or not the same for all of the slices' elements.
    fn few_indices(&self, to: &Tensor, index: &Tensor) -> Result<Option<(usize, Vec<i64>)>> {
        let Some(dim) = self.dim_of_indices() else { return Ok(None) };
        let count = self.sizes[dim];
        let are_few =
            count.saturating_mul(MIN_SLICES) <= self.size && count.saturating_mul(MIN_ELEMENTS) <= to.numel();
        if !are_few || !to.device().is_cpu() || !index.device().is_cpu() || self.sizes.contains(&0) {
            return Ok(None);
        }
        let stride = self.index_strides[dim];
        with_slices(self.name, &[index], &[], |s| {
            let index = s.read::<i64>(0)?;
            let values = fallible::collect((0..count).map(|j| index[(j * stride) as usize]))?;
            Ok(Some((dim, values)))
        })
    }

    /// Combines half precision in f32, of which only the slices at the indices are converted; false if nothing was done, since
    /// [`with_upcast`] is as fast or since an index is out of range. `from` is in f32.
    pub(in crate::native) fn scatter_few(
        &self,
        to: &Tensor,
        index: &Tensor,
        (from, from_strides): (&Tensor, &[i64]),
        how: Combine,
    ) -> Result<bool> {
        let Some((dim, index)) = self.few_indices(to, index)? else { return Ok(false) };
        let Some(distinct) = Distinct::new(&index, self.size)? else { return Ok(false) };
        let mut sizes = DimVec::from_slice(self.sizes);
        sizes[dim] = distinct.indices.numel();
        let dense = shape::contiguous_strides(&sizes);
        let (mut index_strides, mut strides) = (DimVec::from_elem(0, sizes.len()), dense.clone());
        (index_strides[dim], strides[dim]) = (1, 0);
        let slices = DimIndex { sizes: &sizes, index_strides: &index_strides, ..*self };
        let half = TensorSpec::like(to, &sizes).allocate(self.name)?;
        slices.gather(to, &distinct.indices, &half, true)?;
        let sums = converted(&half, ScalarType::F32)?;
        let numbered = DimIndex {
            strides: &strides,
            index_strides: &index_strides,
            size: sizes[dim],
            stride: dense[dim],
            ..*self
        };
        numbered.scatter(&sums, &distinct.numbers, (from, from_strides), how, true)?;
        let half = converted(&sums, to.dtype())?;
        slices.scatter(to, &distinct.indices, (&half, &dense), Combine::Assign, false)?;
        Ok(true)
    }
}
