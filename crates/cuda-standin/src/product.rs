//! Products of matrices as cuBLAS computes them: column-major, with leading dimensions and strides from one of a batch to the next.

use crate::fault::Fault;
use crate::instruction::{FloatType, Rounding};
use crate::memory::{Memory, read_number, write_number};
use crate::rounding::{decode, encode, round};

/// A batch of matrices in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) is_transposed: bool,
    /// Elements from one column in memory to the next.
    pub(crate) leading: u64,
    /// Elements from one of the batch to the next.
    pub(crate) stride: i64,
}

impl Matrix {
    /// The address of an element of the matrix as it is multiplied.
    fn at(&self, batch: u64, row: u64, column: u64, bytes: u64) -> u64 {
        let (row, column) = if self.is_transposed { (column, row) } else { (row, column) };
        let elements = (batch as i64).wrapping_mul(self.stride) as u64;
        let position = elements.wrapping_add(row).wrapping_add(column.wrapping_mul(self.leading));
        self.address.wrapping_add(position.wrapping_mul(bytes))
    }
}

/// `c = alpha * a b + beta * c`, for each of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) element: FloatType,
    /// Rows of the result, its columns, and the terms of each element.
    pub(crate) sizes: [u64; 3],
    pub(crate) batches: u64,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    /// The memory that the library has for itself: address and bytes.
    pub(crate) workspace: Option<(u64, u64)>,
}

/// What the library leaves in its workspace, so that memory which something else uses too shows.
const LEFT_BEHIND: u8 = 0xee;

impl Product {
    fn bytes(&self) -> u64 {
        u64::from(self.element.bits() / 8)
    }

    fn value(&self, memory: &Memory, address: u64) -> Result<f64, Fault> {
        memory.bytes(address, self.bytes()).map(|bytes| decode(self.element, read_number(bytes)))
    }

    /// Computes it. Sums are of f64, and are rounded once.
    pub(crate) fn run(&self, memory: &mut Memory) -> Result<(), Fault> {
        if let Some((address, bytes)) = self.workspace {
            let workspace = memory.bytes_mut(address, bytes)?;
            let end = workspace.len();
            workspace[..end.min(64)].fill(LEFT_BEHIND);
            workspace[end - end.min(64)..].fill(LEFT_BEHIND);
        }
        let [m, n, k] = self.sizes;
        for batch in 0..self.batches {
            for column in 0..n {
                for row in 0..m {
                    self.element_of_result(memory, [batch, row, column], k)?;
                }
            }
        }
        Ok(())
    }

    fn element_of_result(
        &self,
        memory: &mut Memory,
        [batch, row, column]: [u64; 3],
        k: u64,
    ) -> Result<(), Fault> {
        let bytes = self.bytes();
        let mut sum = 0.0;
        for term in 0..k {
            let a = self.value(memory, self.a.at(batch, row, term, bytes))?;
            sum += a * self.value(memory, self.b.at(batch, term, column, bytes))?;
        }
        let address = self.c.at(batch, row, column, bytes);
        // Where the factor is 0, the old value is not read, and may be anything.
        let old = if self.beta == 0.0 { 0.0 } else { self.beta * self.value(memory, address)? };
        let result = round(self.element, self.alpha * sum + old, Rounding::Nearest);
        write_number(memory.bytes_mut(address, bytes)?, encode(self.element, result));
        Ok(())
    }
}
