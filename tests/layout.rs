//! The same values in other memory layouts.

use flambeau_core::ScalarType;
use flambeau_ops::Tensor;
use flambeau_ops::ops;

/// A memory layout of a tensor, without a change of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Dimensions reversed in memory.
    Transposed,
    /// Every second element of a larger tensor, at an offset.
    Sliced,
    /// Size-1 dimensions with strides that mean nothing.
    OddStrides,
    /// One element repeated, where all elements of a dimension are equal: made so by taking the first.
    Expanded,
    /// N, H, W, C in memory, for four dimensions.
    ChannelsLast,
    /// Given its sizes in place, after other handles may have read the former ones: at an offset, in a storage that is larger than needed.
    Resized,
}

/// All of them.
pub const LAYOUTS: &[Layout] = &[
    Layout::Transposed,
    Layout::Sliced,
    Layout::OddStrides,
    Layout::Expanded,
    Layout::ChannelsLast,
    Layout::Resized,
];

/// `t` laid out anew, or `None` where the layout does not apply. `Expanded` changes values: apply it to both sides of a
/// comparison.
pub fn lay_out(t: &Tensor, layout: Layout) -> Option<Tensor> {
    let rank = t.dim() as i64;
    let copied = |from: &Tensor, to: &Tensor| ops::copy_(to, from, false).unwrap();
    match layout {
        Layout::Transposed if rank >= 2 => {
            let order: Vec<i64> = (0..rank).rev().collect();
            let reversed = ops::permute(t, &order).unwrap();
            let dense = ops::clone(&reversed, Some(flambeau_core::MemoryFormat::Contiguous)).unwrap();
            Some(ops::permute(&dense, &order).unwrap())
        }
        Layout::Sliced if rank >= 1 => {
            let mut sizes = t.sizes().to_vec();
            let last = sizes.len() - 1;
            sizes[last] = sizes[last] * 2 + 3;
            let large = empty(&sizes, t.dtype());
            let part = ops::slice_tensor(&large, -1, Some(3), None, 2).unwrap();
            copied(t, &part);
            Some(part)
        }
        Layout::OddStrides if t.sizes().contains(&1) => {
            let odd = |(size, stride): (&i64, &i64)| if *size == 1 { 77 } else { *stride };
            let strides: Vec<i64> = t.sizes().iter().zip(t.strides()).map(odd).collect();
            Some(ops::as_strided(t, t.sizes(), &strides, None).unwrap())
        }
        Layout::Expanded if rank >= 1 && t.sizes()[0] > 1 => {
            let first = ops::slice_tensor(t, 0, Some(0), Some(1), 1).unwrap();
            Some(ops::expand(&first, t.sizes(), false).unwrap())
        }
        Layout::ChannelsLast if rank == 4 => {
            Some(ops::clone(t, Some(flambeau_core::MemoryFormat::ChannelsLast)).unwrap())
        }
        Layout::Resized => {
            let room = empty(&[t.numel() + 8], t.dtype());
            ops::as_strided_(&room, t.sizes(), &contiguous_strides(t.sizes()), Some(3)).unwrap();
            copied(t, &room);
            Some(room)
        }
        _ => None,
    }
}

fn contiguous_strides(sizes: &[i64]) -> Vec<i64> {
    let after = |d: usize| sizes[d + 1..].iter().map(|size| size.max(&1)).product();
    (0..sizes.len()).map(after).collect()
}

fn empty(sizes: &[i64], dtype: ScalarType) -> Tensor {
    let t = ops::empty_memory_format(sizes, Some(dtype), None, None, None, None).unwrap();
    ops::zero_(&t).unwrap();
    t
}
