//! Products of rows and a matrix, on slices.
#![expect(unsafe_code, reason = "products take their operands as raw memory")]

use crate::Tensor;
use crate::gemm::{Addend, Gemm, GemmElement, Isa, gemm};
use flambeau_core::{Result, ensure};

/// A matrix by which rows are multiplied.
///
/// - (inside) `elements` has the elements of these sizes and strides, of which no size is 0.
#[derive(Clone, Copy)]
pub(super) struct Factor<'g, T> {
    elements: &'g [T],
    sizes: [usize; 2],
    strides: [usize; 2],
}

/// What is added to a product: elements, and the strides of rows and columns.
pub(super) type Added<'a, T> = (&'a [T], [usize; 2]);

impl<'g, T: GemmElement> Factor<'g, T> {
    /// A matrix whose elements these are, from the first on.
    ///
    /// # Errors
    /// `Internal` if some are not there.
    pub(super) fn new(name: &str, elements: &'g [T], matrix: &Tensor) -> Result<Self> {
        let size = |dim: usize| matrix.sizes().get(dim).map_or(0, |size| *size as usize);
        let stride = |dim: usize| matrix.strides().get(dim).map_or(0, |stride| *stride as usize);
        let (sizes, strides) = ([size(0), size(1)], [stride(0), stride(1)]);
        ensure!(
            reaches(elements.len(), sizes, strides),
            Internal(name),
            "expected the elements of a matrix of sizes {sizes:?}"
        );
        Ok(Factor { elements, sizes, strides })
    }

    /// The transpose.
    pub(super) fn transposed(self) -> Self {
        let ([rows, columns], [row, column]) = (self.sizes, self.strides);
        Factor { sizes: [columns, rows], strides: [column, row], ..self }
    }

    /// Elements of a row that is multiplied, and of its product.
    pub(super) fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    /// Writes the products of all rows, and what is added to them.
    ///
    /// # Errors
    /// `Internal` if there are not as many rows in `to` and in what is added.
    pub(super) fn multiply(&self, rows: &[T], to: &mut [T], added: Option<Added<'_, T>>) -> Result<()> {
        let [k, n] = self.sizes;
        let count = rows.len() / k;
        ensure!(
            rows.len() == count * k
                && to.len() == count * n
                && added.is_none_or(|(of, strides)| count == 0 || reaches(of.len(), [count, n], strides)),
            Internal,
            "expected rows of a product of sizes {:?}",
            self.sizes
        );
        let signed = |[row, column]: [usize; 2]| [row as isize, column as isize];
        let plain = Gemm::contiguous(count, n, k, rows.as_ptr(), self.elements.as_ptr(), to.as_mut_ptr());
        let plain = Gemm { b_strides: signed(self.strides), ..plain };
        let product = match added {
            Some((of, strides)) => {
                let addend = Addend { first: of.as_ptr(), strides: signed(strides) };
                Gemm { beta: plain.alpha, addend: Some(addend), ..plain }
            }
            None => plain,
        };
        // SAFETY: the slices have these rows, and (inside) the matrix; `to` is borrowed exclusively.
        unsafe { gemm(Isa::detected(), &product) };
        Ok(())
    }
}

/// Whether the last element of a matrix that is not empty is one of `len`.
fn reaches(len: usize, sizes: [usize; 2], strides: [usize; 2]) -> bool {
    let [rows, columns] = sizes;
    rows > 0 && columns > 0 && (rows - 1) * strides[0] + (columns - 1) * strides[1] < len
}
