//! Accessors: references to single elements of a tensor of known type and rank, behind a guard.
#![expect(unsafe_code, reason = "makes references to elements from guarded bytes")]

use super::Tensor;
use super::offsets::{Offsets, split_row};
use flambeau_core::{Element, Geometry, ReadGuard, Result, ScalarType, WriteGuard, bail, ensure, shape};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

/// The address and geometry of the elements. The invariant that makes the accessors sound:
///
/// - (inside) While the guard beside it lives, every index below `sizes` reaches, from `first`, an aligned and valid `T` of
///   the guarded bytes; in a writing accessor no two indices reach the same one.
#[derive(Clone, Copy)]
struct Grid<T, const N: usize> {
    first: NonNull<T>,
    sizes: [usize; N],
    strides: [usize; N],
}

impl<T: Element, const N: usize> Grid<T, N> {
    /// Checks all of (inside) but that the values are valid. `data` is the start of the guarded storage that `geometry` lies in.
    fn new(geometry: &Geometry, data: *mut u8) -> Result<Self> {
        ensure!(
            geometry.dim() == N,
            Shape("accessor", "self"),
            "expected a tensor of {N} dimensions but got sizes {:?}",
            geometry.sizes()
        );
        let first = data.cast::<T>().wrapping_add(geometry.storage_offset() as usize);
        let first = if geometry.numel() == 0 { NonNull::dangling().as_ptr() } else { first };
        let Some(first) = NonNull::new(first).filter(|p| p.is_aligned()) else {
            bail!(
                InvalidArgument("accessor"),
                "the memory is not aligned for elements of {}",
                T::SCALAR_TYPE
            );
        };
        let sizes = std::array::from_fn(|d| geometry.sizes()[d] as usize);
        Ok(Grid { first, sizes, strides: std::array::from_fn(|d| geometry.strides()[d] as usize) })
    }

    #[inline]
    fn contains(&self, index: [usize; N]) -> bool {
        index.iter().zip(&self.sizes).all(|(i, size)| i < size)
    }

    #[inline]
    fn at(&self, index: [usize; N]) -> Option<NonNull<T>> {
        self.contains(index).then(|| self.at_or_panic(index))
    }

    #[inline]
    fn at_or_panic(&self, index: [usize; N]) -> NonNull<T> {
        assert!(self.contains(index), "index {index:?} is out of range for sizes {:?}", self.sizes);
        let offset = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
        // SAFETY: (inside).
        unsafe { self.first.add(offset) }
    }

    fn is_contiguous(&self) -> bool {
        shape::is_contiguous(&self.sizes.map(|n| n as i64), &self.strides.map(|n| n as i64))
    }

    fn numel(&self) -> usize {
        self.sizes.iter().fold(1, |n: usize, size| n.wrapping_mul(*size))
    }

    /// The first element, the length and the stride of each row.
    fn rows(&self) -> impl Iterator<Item = (NonNull<T>, usize, usize)> + use<T, N> {
        let (outer, len) = split_row(&self.sizes, 1);
        let (outer_strides, stride) = split_row(&self.strides, 1);
        let first = self.first;
        // SAFETY: (inside); a row without elements is at the first one, which needs no memory.
        let start = move |offset| if len == 0 { first } else { unsafe { first.add(offset) } };
        Offsets::new(outer, outer_strides).map(move |offset| (start(offset), len, stride))
    }

    /// Every element's bytes, for types that not all bytes are valid for.
    fn bytes(&self) -> impl Iterator<Item = NonNull<u8>> + use<T, N> {
        // SAFETY: (inside).
        self.rows().flat_map(|(at, n, stride)| (0..n).map(move |j| unsafe { at.add(j * stride) }.cast()))
    }
}

/// Elements that can be read, by others too, while this lives. PyTorch's `TensorAccessor`.
///
/// `a[[i, j]]` is checked and panics out of range, as a slice does; [`get`](Self::get) returns `None`.
#[must_use = "the elements are guarded only while this lives"]
pub struct TensorAccessor<T, const N: usize> {
    grid: Grid<T, N>,
    _guard: ReadGuard,
}

/// Elements that can be read and written, by nobody else, while this lives.
#[must_use = "the elements are guarded only while this lives"]
pub struct TensorAccessorMut<T, const N: usize> {
    grid: Grid<T, N>,
    _guard: WriteGuard,
}

#[cfg(feature = "ndarray")]
impl<T, const N: usize> TensorAccessor<T, N> {
    /// The first element, sizes and strides; every index below the sizes reaches a valid element as long as this lives.
    pub(super) fn parts(&self) -> (*const T, [usize; N], [usize; N]) {
        (self.grid.first.as_ptr(), self.grid.sizes, self.grid.strides)
    }
}

#[cfg(feature = "ndarray")]
impl<T, const N: usize> TensorAccessorMut<T, N> {
    /// The same, and no two indices reach the same element.
    pub(super) fn parts(&mut self) -> (*mut T, [usize; N], [usize; N]) {
        (self.grid.first.as_ptr(), self.grid.sizes, self.grid.strides)
    }
}

impl<T: Element, const N: usize> TensorAccessor<T, N> {
    /// Sizes, outermost first.
    pub fn sizes(&self) -> [usize; N] {
        self.grid.sizes
    }

    /// The element at `index`, or `None` out of range.
    #[inline]
    pub fn get(&self, index: [usize; N]) -> Option<&T> {
        // SAFETY: (inside), for as long as the guard, and so `self`, lives.
        self.grid.at(index).map(|at| unsafe { at.as_ref() })
    }

    /// All elements in logical order, if they are contiguous in memory.
    pub fn as_slice(&self) -> Option<&[T]> {
        // SAFETY: (inside), and one after another.
        self.grid
            .is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts(self.grid.first.as_ptr(), self.grid.numel()) })
    }

    /// The innermost rows, in logical order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_, T>> {
        self.grid.rows().map(|(first, len, stride)| Row { first, len, stride, elements: PhantomData })
    }

    /// All elements, in logical order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows().flat_map(Row::into_iter)
    }
}

impl<T: Element, const N: usize> Index<[usize; N]> for TensorAccessor<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, index: [usize; N]) -> &T {
        // SAFETY: (inside), for as long as the guard, and so `self`, lives.
        unsafe { self.grid.at_or_panic(index).as_ref() }
    }
}

impl<T: Element, const N: usize> TensorAccessorMut<T, N> {
    /// Sizes, outermost first.
    pub fn sizes(&self) -> [usize; N] {
        self.grid.sizes
    }

    /// The element at `index`, or `None` out of range.
    #[inline]
    pub fn get_mut(&mut self, index: [usize; N]) -> Option<&mut T> {
        // SAFETY: (inside), for as long as the guard, and so `self`, lives; `self` is borrowed meanwhile.
        self.grid.at(index).map(|mut at| unsafe { at.as_mut() })
    }

    /// All elements in logical order, if they are contiguous in memory.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        // SAFETY: (inside), and one after another; `self` is borrowed meanwhile.
        self.grid
            .is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.grid.first.as_ptr(), self.grid.numel()) })
    }

    /// The innermost rows, in logical order.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = RowMut<'_, T>> {
        self.grid.rows().map(|(first, len, stride)| RowMut { first, len, stride, elements: PhantomData })
    }

    /// All elements, in logical order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows_mut().flat_map(RowMut::into_iter)
    }
}

impl<T: Element, const N: usize> Index<[usize; N]> for TensorAccessorMut<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, index: [usize; N]) -> &T {
        // SAFETY: (inside), for as long as the guard, and so `self`, lives.
        unsafe { self.grid.at_or_panic(index).as_ref() }
    }
}

impl<T: Element, const N: usize> IndexMut<[usize; N]> for TensorAccessorMut<T, N> {
    #[inline]
    fn index_mut(&mut self, index: [usize; N]) -> &mut T {
        // SAFETY: (inside), for as long as the guard, and so `self`, lives; `self` is borrowed meanwhile.
        unsafe { self.grid.at_or_panic(index).as_mut() }
    }
}

/// One row of an accessor: elements at a stride, for which (inside) holds.
#[derive(Clone, Copy)]
pub struct Row<'a, T> {
    first: NonNull<T>,
    len: usize,
    stride: usize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Row<'a, T> {
    /// The elements, if they are contiguous in memory.
    pub fn as_slice(self) -> Option<&'a [T]> {
        // SAFETY: (inside), and one after another.
        (self.stride == 1 || self.len < 2)
            .then(|| unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) })
    }

    fn into_iter(self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        // SAFETY: (inside).
        (0..self.len).map(move |j| unsafe { self.first.add(j * self.stride).as_ref() })
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        (*self).into_iter()
    }
}

/// One row of a writing accessor: elements at a stride, for which (inside) holds.
pub struct RowMut<'a, T> {
    first: NonNull<T>,
    len: usize,
    stride: usize,
    elements: PhantomData<&'a mut T>,
}

impl<'a, T: Element> RowMut<'a, T> {
    /// The elements, if they are contiguous in memory.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        // SAFETY: (inside), and one after another; `self` is borrowed meanwhile.
        (self.stride == 1 || self.len < 2)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) })
    }

    fn into_iter(self) -> impl Iterator<Item = &'a mut T> + use<'a, T> {
        // SAFETY: (inside): each is another element, and the row is used up.
        (0..self.len).map(move |j| unsafe { self.first.add(j * self.stride).as_mut() })
    }

    /// The elements in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        RowMut { first: self.first, len: self.len, stride: self.stride, elements: PhantomData }.into_iter()
    }
}

impl Tensor {
    /// Reads elements by their indices: `a[[i, j]]`. The guard is shared: other readers are allowed.
    ///
    /// # Errors
    /// - `Dtype`, `Shape` unless the elements are of type `T` in `N` dimensions; `Device` unless they are on the host.
    /// - `Busy` where an accessor of this thread is writing them.
    /// - `InvalidArgument` where memory is not aligned for `T`, or a bool is neither 0 nor 1.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let a = t.accessor::<f32, 2>()?;
    /// assert_eq!(a[[1, 0]], 3.0);
    /// assert_eq!(a.get([2, 0]), None);
    /// assert_eq!(a.rows().map(|row| row.iter().sum::<f32>()).collect::<Vec<_>>(), [3.0, 7.0]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn accessor<T: Element, const N: usize>(&self) -> Result<TensorAccessor<T, N>> {
        self.expect_dtype(T::SCALAR_TYPE)
            .and_then(|()| self.expect_host())
            .map_err(|e| e.in_operator("accessor"))?;
        let view = self.strided_view();
        let guard = ReadGuard::acquire(view.storage()).map_err(|e| e.in_operator("accessor"))?;
        let grid = Grid::<T, N>::new(view.geometry(), guard.data_ptr().cast_mut())?;
        if T::SCALAR_TYPE == ScalarType::Bool {
            // SAFETY: (inside), read as bytes.
            let valid = grid.bytes().all(|at| unsafe { at.read() } < 2);
            ensure!(valid, InvalidArgument("accessor"), "expected bools of 0 or 1 but got other bytes");
        }
        Ok(TensorAccessor { grid, _guard: guard })
    }

    /// Reads and writes elements by their indices. The guard is exclusive, and counts as one write.
    ///
    /// # Errors
    /// Those of [`accessor`](Self::accessor), and:
    /// - `Busy` where this thread holds any other accessor to them.
    /// - `Aliasing` where two indices reach the same element, or memory is read-only.
    ///
    /// ```
    /// use flambeau_ops::{ErrorKind, Tensor};
    /// let t = Tensor::from([[1i32, 2], [3, 4]]);
    /// let mut a = t.accessor_mut::<i32, 2>()?;
    /// a[[0, 1]] = 20;
    /// a.iter_mut().for_each(|x| *x += 1);
    /// assert_eq!(t.to_vec::<i32>().unwrap_err().kind(), ErrorKind::Busy);
    /// drop(a);
    /// assert_eq!(t.to_vec::<i32>()?, [2, 21, 4, 5]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn accessor_mut<T: Element, const N: usize>(&self) -> Result<TensorAccessorMut<T, N>> {
        let context = |e: flambeau_core::Error| e.in_operator("accessor_mut");
        self.expect_dtype(T::SCALAR_TYPE).and_then(|()| self.expect_host()).map_err(context)?;
        let view = self.strided_view();
        let guard = WriteGuard::acquire(view.storage()).map_err(context)?;
        let grid = Grid::<T, N>::new(view.geometry(), guard.data_ptr()).map_err(context)?;
        ensure!(
            !shape::has_internal_overlap(&grid.sizes.map(|n| n as i64), &grid.strides.map(|n| n as i64)),
            Aliasing("accessor_mut", "self"),
            "expected every element to have memory of its own but got sizes {:?} with strides {:?}",
            grid.sizes,
            grid.strides
        );
        if T::SCALAR_TYPE == ScalarType::Bool {
            // Uninitialized memory may hold bytes other than 0 and 1.
            // SAFETY: (inside), read and written as bytes.
            grid.bytes().for_each(|at| unsafe { at.write(u8::from(at.read() != 0)) });
        }
        Ok(TensorAccessorMut { grid, _guard: guard })
    }
}
