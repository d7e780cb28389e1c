//! The sizes and strides of arrays.

/// The sizes of an array, and the distance between neighbours along each dimension in its slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

impl Shape {
    /// An array whose element at an index is in its slice at the sum of index times stride.
    ///
    /// # Panics
    /// Unless there are as many strides as sizes.
    pub fn strided(sizes: &[usize], strides: &[usize]) -> Self {
        assert_eq!(sizes.len(), strides.len(), "sizes and strides");
        Shape { sizes: sizes.to_vec(), strides: strides.to_vec() }
    }

    /// A row-major array.
    pub fn contiguous(sizes: &[usize]) -> Self {
        let mut strides = vec![1; sizes.len()];
        for dim in (1..sizes.len()).rev() {
            strides[dim - 1] = strides[dim] * sizes[dim].max(1);
        }
        Shape { sizes: sizes.to_vec(), strides }
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The distances between neighbours.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The length of the shortest slice that holds it.
    pub fn reach(&self) -> usize {
        match self.elements() {
            0 => 0,
            _ => {
                1 + self
                    .sizes
                    .iter()
                    .zip(&self.strides)
                    .map(|(size, stride)| (size - 1) * stride)
                    .sum::<usize>()
            }
        }
    }

    /// The same with another size of a dimension.
    pub(crate) fn with_size(&self, dim: usize, size: usize) -> Vec<usize> {
        let mut sizes = self.sizes.clone();
        sizes[dim] = size;
        sizes
    }
}
