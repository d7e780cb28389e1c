//! Arithmetic on sizes and strides: pure functions.

use crate::{MemoryFormat, Result, bail, ensure};
use smallvec::SmallVec;

/// Sizes, strides or dimensions, inline for common ranks.
pub type DimVec = SmallVec<[i64; 6]>;

/// Sizes that are counted as `usize`, as operators take them.
///
/// # Errors
/// `Overflow` past 2^63.
///
/// ```
/// let rows = vec!["a", "b"];
/// assert_eq!(flambeau_core::shape::sizes([rows.len(), 3])?.as_slice(), &[2, 3]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn sizes(of: impl AsRef<[usize]>) -> Result<DimVec> {
    let signed = |&size: &usize| {
        i64::try_from(size)
            .map_err(|_| crate::error!(Overflow, got = size, "expected a size below 2^63 but got {got}"))
    };
    of.as_ref().iter().map(signed).collect()
}

/// Whether two lists of sizes are equal. They are short: a loop beats the call to `memcmp` that `==` makes.
#[inline(always)]
pub fn same(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

/// The product of `sizes`.
///
/// # Errors
/// `Shape` for a negative size, `Overflow` past 2^63.
#[inline]
pub fn numel(sizes: &[i64]) -> Result<i64> {
    let mut product = 1i64;
    let mut overflow = false;
    let mut negative = false;
    for &size in sizes {
        negative |= size < 0;
        let (p, o) = product.overflowing_mul(size);
        overflow |= o;
        product = p;
    }
    if negative || overflow {
        return explain_numel(sizes);
    }
    Ok(product)
}

/// The same, slowly and exactly: a zero anywhere makes the product zero whatever overflowed before it.
#[cold]
fn explain_numel(sizes: &[i64]) -> Result<i64> {
    ensure!(sizes.iter().all(|s| *s >= 0), Shape, "expected sizes of at least 0 but got {sizes:?}");
    if sizes.contains(&0) {
        return Ok(0);
    }
    bail!(Overflow, "the number of elements of sizes {sizes:?} does not fit in 63 bits")
}

/// The product of some of a tensor's sizes. Of a tensor without elements it may be past 2^63, and then is anything but a panic.
///
/// ```
/// assert_eq!(flambeau_core::shape::product(&[2, 3]), 6);
/// assert_eq!(flambeau_core::shape::product(&[i64::MAX, 4, 0]), 0);
/// ```
#[inline]
pub fn product(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |product: i64, size| product.wrapping_mul(*size))
}

/// Row-major strides. A dimension of size 0 counts as 1, as in PyTorch; a stride past 2^63, which only a tensor without elements
/// can have, saturates.
pub fn contiguous_strides(sizes: &[i64]) -> DimVec {
    let order: SmallVec<[usize; 6]> = (0..sizes.len()).rev().collect();
    strides_in_order(sizes, &order)
}

/// Dense strides for the given order of dimensions, densest first.
fn strides_in_order(sizes: &[i64], order: &[usize]) -> DimVec {
    let mut strides = DimVec::from_elem(0, sizes.len());
    let mut next = 1i64;
    for &d in order {
        strides[d] = next;
        next = next.saturating_mul(sizes[d].max(1));
    }
    strides
}

/// The order of dimensions, densest first, of a channels-last format of that rank.
fn channels_last_order(dim: usize, format: MemoryFormat) -> Option<&'static [usize]> {
    match (format, dim) {
        (MemoryFormat::ChannelsLast, 4) => Some(&[1, 3, 2, 0]),
        (MemoryFormat::ChannelsLast3d, 5) => Some(&[1, 4, 3, 2, 0]),
        _ => None,
    }
}

/// Dense strides of `format` for `sizes`; `Preserve` counts as contiguous here.
///
/// # Errors
/// `Shape` where a channels-last format meets a rank other than 4 (2d) or 5 (3d).
pub fn strides_for(sizes: &[i64], format: MemoryFormat) -> Result<DimVec> {
    match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => Ok(contiguous_strides(sizes)),
        _ => match channels_last_order(sizes.len(), format) {
            Some(order) => Ok(strides_in_order(sizes, order)),
            None => bail!(
                Shape,
                "memory format {format:?} expects {} dimensions but got {}",
                if format == MemoryFormat::ChannelsLast { 4 } else { 5 },
                sizes.len()
            ),
        },
    }
}

/// Whether the elements lie one after another in row-major order. Dimensions of size 1 may have any stride, and a tensor
/// without elements is contiguous.
#[inline]
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1i64;
    let mut dense = true;
    for d in (0..sizes.len().min(strides.len())).rev() {
        if sizes[d] == 0 {
            return true;
        }
        if sizes[d] != 1 {
            dense &= strides[d] == expected;
            expected = expected.saturating_mul(sizes[d]);
        }
    }
    dense
}

/// Whether the elements lie one after another in the order of `format`.
pub fn is_contiguous_as(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    let Some(order) = channels_last_order(sizes.len(), format) else {
        return matches!(format, MemoryFormat::Contiguous | MemoryFormat::Preserve)
            && is_contiguous(sizes, strides);
    };
    if sizes.contains(&0) {
        return true;
    }
    let mut expected = 1i64;
    order.iter().all(|&d| {
        let dense = sizes[d] == 1 || strides[d] == expected;
        expected = expected.saturating_mul(sizes[d]);
        dense
    })
}

/// Whether the strides look channels-last even where size-1 dimensions leave it open: PyTorch's
/// `is_channels_last_strides`, which decides what a convolution's result looks like.
pub fn is_channels_last_strides(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    let Some(order) = channels_last_order(sizes.len(), format) else { return false };
    if strides[1] == 0 {
        return false;
    }
    let mut min_stride = 0i64;
    for &d in order {
        if sizes[d] == 0 || strides[d] < min_stride {
            return false;
        }
        // N111 with equal strides is contiguous first of all.
        if d == 0 && min_stride == strides[1] {
            return false;
        }
        min_stride = strides[d].saturating_mul(if sizes[d] > 1 { sizes[d] } else { 1 });
    }
    true
}

/// Whether the elements fill a block of memory without gap or overlap, in whatever order of dimensions.
pub fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut dims: SmallVec<[usize; 6]> = (0..sizes.len()).filter(|&d| sizes[d] != 1).collect();
    dims.sort_by_key(|&d| strides[d]);
    let mut expected = 1i64;
    dims.iter().all(|&d| {
        let dense = strides[d] == expected;
        expected = expected.saturating_mul(sizes[d]);
        dense
    })
}

/// Whether two indices may have the same element. Strides, sorted, of which each exceeds the extent of the dimensions below it never
/// overlap. Otherwise the answer is `true` if a stride is 0, and else found by visiting every element, unless there are too many.
pub fn has_internal_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return false;
    }
    let mut dims: SmallVec<[(i64, i64); 6]> =
        sizes.iter().zip(strides).filter(|(s, _)| **s > 1).map(|(s, t)| (*t, *s)).collect();
    dims.sort_unstable();
    let mut reach = 0i64;
    for (stride, size) in &dims {
        if *stride <= reach {
            return *stride == 0 || overlaps_by_trial(&dims);
        }
        reach = reach.saturating_add(stride.saturating_mul(size - 1));
    }
    false
}

/// Visits every offset, unless there are more elements than offsets. Interleaved strides are rare; tensors of more than a million elements
/// are assumed to overlap.
fn overlaps_by_trial(dims: &[(i64, i64)]) -> bool {
    let count: i64 = dims.iter().fold(1i64, |n, d| n.saturating_mul(d.1));
    let last =
        dims.iter().fold(0i64, |sum, d| sum.saturating_add(d.0.saturating_abs().saturating_mul(d.1 - 1)));
    if count > 1 << 20 || count - 1 > last {
        return true;
    }
    let mut offsets: Vec<i64> = vec![0];
    for (stride, size) in dims {
        offsets = (0..*size).flat_map(|i| offsets.iter().map(move |o| o + i * stride)).collect();
    }
    offsets.sort_unstable();
    offsets.windows(2).any(|w| w[0] == w[1])
}

/// The distance of the last element from the first, in elements; `None` if there are no elements.
///
/// # Errors
/// `Overflow` past 2^63.
pub fn extent(sizes: &[i64], strides: &[i64]) -> Result<Option<i64>> {
    if sizes.contains(&0) {
        return Ok(None);
    }
    let reach = sizes.iter().zip(strides).try_fold(0i64, |sum, (size, stride)| {
        (size - 1).checked_mul(*stride).and_then(|r| sum.checked_add(r))
    });
    match reach {
        Some(reach) => Ok(Some(reach)),
        None => bail!(Overflow, "sizes {sizes:?} with strides {strides:?} reach past 63 bits"),
    }
}

/// `dim` counted from the front, negative ones from the back. A zero-dimensional tensor takes 0 and -1.
///
/// # Errors
/// `Index` out of range.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let range = (rank as i64).max(1);
    if dim < -range || dim >= range {
        bail!(
            Index,
            argument = "dim",
            expected = format_args!("[{}, {}]", -range, range - 1),
            got = dim,
            "dimension out of range (expected to be in range of {expected}, but got {got})"
        );
    }
    Ok(if dim < 0 { (dim + range) as usize } else { dim as usize })
}

/// The sizes that two shapes broadcast to.
///
/// # Errors
/// `Shape` naming the dimension where they differ and neither is 1.
///
/// ```
/// use flambeau_core::shape::broadcast;
/// assert_eq!(broadcast(&[4, 1], &[3])?.as_slice(), &[4, 3]);
/// assert!(broadcast(&[4], &[3]).is_err());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<DimVec> {
    let rank = a.len().max(b.len());
    let mut sizes = DimVec::from_elem(1, rank);
    for back in 1..=rank {
        let size_a = if back <= a.len() { a[a.len() - back] } else { 1 };
        let size_b = if back <= b.len() { b[b.len() - back] } else { 1 };
        ensure!(
            size_a == size_b || size_a == 1 || size_b == 1,
            Shape,
            expected = format_args!("{a:?}"),
            got = format_args!("{b:?}"),
            "the size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at non-singleton dimension {} \
             (shapes {expected} and {got})",
            rank - back
        );
        sizes[rank - back] = if size_a == 1 { size_b } else { size_a };
    }
    Ok(sizes)
}

/// Strides that make a tensor of `sizes` and `strides` look like one of sizes `target`: 0 for dimensions that repeat elements.
///
/// # Errors
/// `Shape` where `sizes` does not broadcast to `target`.
pub fn expand_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Result<DimVec> {
    let missing = target.len().checked_sub(sizes.len());
    let Some(missing) = missing else {
        bail!(
            Shape,
            got = format_args!("{target:?}"),
            "expected at least {} dimensions to expand {sizes:?} but got {got}",
            sizes.len()
        );
    };
    let mut expanded = DimVec::from_elem(0, target.len());
    for (d, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
        let target_size = target[missing + d];
        ensure!(
            size == target_size || size == 1,
            Shape,
            got = size,
            "expected a size of 1 or {target_size} at dimension {} to expand {sizes:?} to {target:?} but got {got}",
            missing + d
        );
        expanded[missing + d] = if size == target_size { stride } else { 0 };
    }
    Ok(expanded)
}

/// `shape` with its one -1 replaced by what makes `numel` elements.
///
/// # Errors
/// `Shape` for several -1, other negative sizes, or a product other than `numel`.
pub fn infer_size(shape: &[i64], numel: i64) -> Result<DimVec> {
    let mut sizes = DimVec::from_slice(shape);
    let mut unknown = None;
    let mut known = 1i64;
    for (d, &size) in shape.iter().enumerate() {
        match size {
            -1 if unknown.is_some() => bail!(Shape, "only one dimension can be inferred but got {shape:?}"),
            -1 => unknown = Some(d),
            s if s < 0 => bail!(Shape, "invalid shape dimension {s} in {shape:?}"),
            s => match known.checked_mul(s) {
                Some(product) => known = product,
                None if shape.contains(&0) => known = 0,
                None => bail!(Overflow, "the number of elements of {shape:?} does not fit in 63 bits"),
            },
        }
    }
    match unknown {
        Some(d) => {
            ensure!(
                known != 0 || numel != 0,
                Shape,
                "cannot reshape tensor of 0 elements into shape {shape:?} because the unspecified dimension size -1 can \
                 be any value"
            );
            ensure!(
                known != 0 && numel % known == 0,
                Shape,
                "shape {shape:?} is invalid for input of {numel} elements"
            );
            sizes[d] = numel / known;
        }
        None => ensure!(known == numel, Shape, "shape {shape:?} is invalid for input of {numel} elements"),
    }
    Ok(sizes)
}

/// Strides of `new_sizes` for the same memory, or `None` if a copy is needed. Both shapes have the same number of elements. Adjacent old
/// dimensions without gaps between their elements can be merged and split again in any manner.
pub fn view_strides(sizes: &[i64], strides: &[i64], new_sizes: &[i64]) -> Option<DimVec> {
    if sizes.contains(&0) {
        return Some(if sizes == new_sizes {
            DimVec::from_slice(strides)
        } else {
            contiguous_strides(new_sizes)
        });
    }
    let mut new_strides = DimVec::from_elem(1, new_sizes.len());
    let mut view_d = new_sizes.len();
    let mut base = strides.last().copied().unwrap_or(1);
    let mut block = 1i64;
    let mut covered = 1i64;
    for d in (0..sizes.len()).rev() {
        block *= sizes[d];
        let block_ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != block * base);
        if block_ends {
            while view_d > 0 && (covered < block || new_sizes[view_d - 1] == 1) {
                view_d -= 1;
                new_strides[view_d] = covered * base;
                covered *= new_sizes[view_d];
            }
            if covered != block {
                return None;
            }
            if d > 0 {
                (base, block, covered) = (strides[d - 1], 1, 1);
            }
        }
    }
    if sizes.is_empty() { Some(new_strides) } else { (view_d == 0).then_some(new_strides) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_multiplied_with_care() {
        assert_eq!(numel(&[]).unwrap(), 1);
        assert_eq!(numel(&[2, 0, 3]).unwrap(), 0);
        assert_eq!(numel(&[i64::MAX, 2, 0]).unwrap(), 0);
        assert!(numel(&[i64::MAX, 2]).is_err());
        assert!(numel(&[-1]).is_err());
        assert!(numel(&[-1, 0]).is_err());
    }

    #[test]
    fn every_permutation_of_a_dense_block_is_dense() {
        let (sizes, strides) = ([2, 3, 4], [12, 4, 1]);
        assert!(is_contiguous(&sizes, &strides));
        assert!(is_non_overlapping_and_dense(&[4, 2, 3], &[1, 12, 4]));
        assert!(!is_contiguous(&[4, 2, 3], &[1, 12, 4]));
        assert!(is_contiguous(&[1, 3, 1], &[77, 1, 99]));
        assert!(!is_non_overlapping_and_dense(&[2, 3], &[4, 1]));
    }

    #[test]
    fn overlap_is_exact_for_interleaved_strides() {
        assert!(has_internal_overlap(&[3, 2], &[0, 1]));
        assert!(!has_internal_overlap(&[3, 2], &[2, 1]));
        assert!(has_internal_overlap(&[3, 3], &[2, 1]));
        assert!(!has_internal_overlap(&[2, 3], &[3, 2]), "offsets 0 2 4 3 5 7");
        assert!(has_internal_overlap(&[3, 4], &[3, 2]), "offset 6 is reached twice");
    }

    /// The reference: two views agree if element i in row-major order is the same memory in both.
    fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<i64> {
        let mut all = vec![0];
        for (size, stride) in sizes.iter().zip(strides) {
            all = all.iter().flat_map(|o| (0..*size).map(move |i| o + i * stride)).collect();
        }
        all
    }

    #[test]
    fn a_view_reads_the_same_elements_or_needs_a_copy() {
        type Case = (&'static [i64], &'static [i64], &'static [i64], bool);
        let cases: &[Case] = &[
            (&[2, 3, 4], &[12, 4, 1], &[6, 4], true),
            (&[2, 3, 4], &[12, 4, 1], &[4, 3, 2], true),
            (&[3, 2], &[1, 3], &[6], false),
            (&[3, 2], &[1, 3], &[3, 1, 2, 1], true),
            (&[2, 1, 3], &[3, 99, 1], &[6], true),
            (&[4, 3], &[0, 1], &[2, 2, 3], true),
            (&[4, 3], &[0, 1], &[12], false),
            (&[1], &[7], &[], true),
            (&[], &[], &[1, 1], true),
            (&[6, 4], &[8, 2], &[2, 12], true),
        ];
        for (sizes, strides, new_sizes, possible) in cases {
            let view = view_strides(sizes, strides, new_sizes);
            assert_eq!(view.is_some(), *possible, "{sizes:?} {strides:?} as {new_sizes:?}");
            if let Some(view) = view {
                assert_eq!(offsets(sizes, strides), offsets(new_sizes, &view));
            }
        }
    }

    #[test]
    fn channels_last_is_recognised() {
        let sizes = [2, 3, 4, 5];
        let strides = strides_for(&sizes, MemoryFormat::ChannelsLast).unwrap();
        assert_eq!(strides.as_slice(), &[60, 1, 15, 3]);
        assert!(is_contiguous_as(&sizes, &strides, MemoryFormat::ChannelsLast));
        assert!(!is_contiguous_as(&sizes, &strides, MemoryFormat::Contiguous));
        assert!(strides_for(&[2, 3], MemoryFormat::ChannelsLast).is_err());
    }
}
