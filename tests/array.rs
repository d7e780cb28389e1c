//! Arrays of f64 for references: row-major, and independent of the library's code.

use std::ops::Range;

/// A float64 array in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Outermost first.
    pub sizes: Vec<usize>,
    /// As many as the sizes' product.
    pub data: Vec<f64>,
}

impl Array {
    /// `data` in `sizes`.
    pub fn new(sizes: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(sizes.iter().product::<usize>(), data.len(), "sizes {sizes:?}");
        Array { sizes: sizes.to_vec(), data }
    }

    /// A zero-dimensional one.
    pub fn scalar(value: f64) -> Self {
        Array::new(&[], vec![value])
    }

    /// Pseudo-random numbers over `domain`, determined by `seed`.
    pub fn fill(sizes: &[usize], domain: Range<f64>, seed: u64) -> Self {
        let count = sizes.iter().product::<usize>() as u64;
        let spread = |i: u64| {
            let mut h =
                (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            h = (h ^ (h >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            h ^= h >> 32;
            domain.start + (h >> 11) as f64 / (1u64 << 53) as f64 * (domain.end - domain.start)
        };
        Array::new(sizes, (0..count).map(spread).collect())
    }

    /// `f` of every element.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Array::new(&self.sizes, self.data.iter().map(|x| f(*x)).collect())
    }

    /// `f` of the elements of both, broadcast.
    pub fn zip(&self, other: &Array, f: impl Fn(f64, f64) -> f64) -> Self {
        let sizes = broadcast(&self.sizes, &other.sizes);
        let (a, b) = (self.expand(&sizes), other.expand(&sizes));
        Array::new(&sizes, a.data.iter().zip(&b.data).map(|(x, y)| f(*x, *y)).collect())
    }

    /// Repeated along dimensions of size 1, and new ones in front.
    pub fn expand(&self, sizes: &[usize]) -> Self {
        let missing = sizes.len() - self.sizes.len();
        let at = |index: &[usize]| {
            let mut offset = 0;
            for (d, size) in self.sizes.iter().enumerate() {
                offset = offset * size + if *size == 1 { 0 } else { index[missing + d] };
            }
            self.data[offset]
        };
        Array::new(sizes, indices(sizes).map(|i| at(&i)).collect())
    }

    /// The element at `index`.
    pub fn at(&self, index: &[usize]) -> f64 {
        self.data[self.sizes.iter().zip(index).fold(0, |offset, (size, i)| offset * size + i)]
    }

    /// Folds the dimensions `dims` (all where empty): `f` gets the elements of one result, in row-major order.
    pub fn reduce(&self, dims: &[usize], keepdim: bool, f: impl Fn(&[f64]) -> f64) -> Self {
        let reduced = |d: usize| dims.is_empty() || dims.contains(&d);
        let rank = self.sizes.len();
        let kept: Vec<usize> = (0..rank).map(|d| if reduced(d) { 1 } else { self.sizes[d] }).collect();
        let inner: Vec<usize> = (0..rank).map(|d| if reduced(d) { self.sizes[d] } else { 1 }).collect();
        let value = |base: Vec<usize>| {
            let meet: Vec<f64> = indices(&inner)
                .map(|i| self.at(&base.iter().zip(&i).map(|(a, b)| a + b).collect::<Vec<_>>()))
                .collect();
            f(&meet)
        };
        let data = indices(&kept).map(value).collect();
        let sizes: Vec<usize> = (0..rank).filter(|&d| keepdim || !reduced(d)).map(|d| kept[d]).collect();
        Array::new(&sizes, data)
    }

    /// Dimensions in another order.
    pub fn permute(&self, dims: &[usize]) -> Self {
        let sizes: Vec<usize> = dims.iter().map(|&d| self.sizes[d]).collect();
        let value_at = |i: Vec<usize>| {
            let mut index = vec![0; dims.len()];
            dims.iter().zip(i).for_each(|(&d, x)| index[d] = x);
            self.at(&index)
        };
        Array::new(&sizes, indices(&sizes).map(value_at).collect())
    }

    /// The product of two matrices.
    pub fn matmul(&self, other: &Array) -> Self {
        let (m, k, n) = (self.sizes[0], self.sizes[1], other.sizes[1]);
        let element = |i: usize, j: usize| (0..k).map(|x| self.data[i * k + x] * other.data[x * n + j]).sum();
        Array::new(&[m, n], (0..m * n).map(|at| element(at / n, at % n)).collect())
    }
}

/// Every index of `sizes`, last dimension fastest.
pub fn indices(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let sizes = sizes.to_vec();
    let count = sizes.iter().product();
    (0..count).map(move |mut at: usize| {
        let mut index = vec![0; sizes.len()];
        for d in (0..sizes.len()).rev() {
            index[d] = at % sizes[d];
            at /= sizes[d];
        }
        index
    })
}

/// The sizes both broadcast to.
pub fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let size = |sizes: &[usize], d: usize| (d + sizes.len()).checked_sub(rank).map_or(1, |d| sizes[d]);
    (0..rank).map(|d| if size(a, d) == 1 { size(b, d) } else { size(a, d) }).collect()
}
