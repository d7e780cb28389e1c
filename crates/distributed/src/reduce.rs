//! Reductions over ranks: the operations, and the fixed binary tree in which they are applied.

pub(crate) mod slices;

use flambeau_core::{Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;

/// How a collective combines the tensors of the ranks. PyTorch's `ReduceOp`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The sum divided by the number of ranks.
    Avg,
    /// The product.
    Product,
    /// The minimum; NaN if one is NaN.
    Min,
    /// The maximum; NaN if one is NaN.
    Max,
    /// The bits that all have.
    Band,
    /// The bits that any has.
    Bor,
    /// The bits that an odd number has.
    Bxor,
    /// The sum of the tensors, each multiplied by this factor.
    PremulSum(f64),
}

impl ReduceOp {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "SUM",
            ReduceOp::Avg => "AVG",
            ReduceOp::Product => "PRODUCT",
            ReduceOp::Min => "MIN",
            ReduceOp::Max => "MAX",
            ReduceOp::Band => "BAND",
            ReduceOp::Bor => "BOR",
            ReduceOp::Bxor => "BXOR",
            ReduceOp::PremulSum(_) => "PREMUL_SUM",
        }
    }

    /// The operation of a name; `factor` is that of `PREMUL_SUM`.
    ///
    /// # Errors
    /// `InvalidArgument` for other names.
    pub fn from_name(name: &str, factor: f64) -> Result<ReduceOp> {
        use ReduceOp::*;
        let all = [Sum, Avg, Product, Min, Max, Band, Bor, Bxor, PremulSum(factor)];
        let found = all.into_iter().find(|op| op.name() == name);
        found.map_or_else(|| bail!(InvalidArgument, "ReduceOp: there is no operation {name:?}"), Ok)
    }

    /// Refuses dtypes that the operation does not have.
    ///
    /// # Errors
    /// `Dtype` naming both.
    pub(crate) fn check(self, operation: &str, dtype: ScalarType) -> Result<()> {
        let sample = Tensor::zeros(&[1], dtype)?;
        let scaled = matches!(self, ReduceOp::Avg | ReduceOp::PremulSum(_));
        let fits = !scaled || dtype.is_floating_point() || dtype.is_complex();
        ensure!(
            fits && self.reduce(vec![sample.clone(), sample]).is_ok_and(|result| result.dtype() == dtype),
            Dtype(operation, "op"),
            "expected a dtype that has the operation {} but got {dtype}",
            self.name()
        );
        Ok(())
    }

    fn combine(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_) => a.add(b),
            ReduceOp::Product => a.mul(b),
            ReduceOp::Min => a.minimum(b),
            ReduceOp::Max => a.maximum(b),
            ReduceOp::Band => a.bitwise_and(b),
            ReduceOp::Bor => a.bitwise_or(b),
            ReduceOp::Bxor => a.bitwise_xor(b),
        }
    }

    /// Reduces the tensors of all ranks, which are in the order of ranks. Numbers of 16 bits are added as f32 and rounded once.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn reduce(self, parts: Vec<Tensor>) -> Result<Tensor> {
        let (count, dtype) = (parts.len(), parts.first().map_or(ScalarType::F32, Tensor::dtype));
        let wide = match dtype {
            ScalarType::F16 | ScalarType::BF16 => ScalarType::F32,
            dtype => dtype,
        };
        let prepared = |part: Tensor| {
            let part = part.to_dtype(wide)?;
            match self {
                ReduceOp::PremulSum(factor) => part.mul_scalar(factor),
                _ => Ok(part),
            }
        };
        let mut tree = Tree::default();
        for part in parts {
            tree.push(prepared(part)?, |a, b| self.combine(a, b))?;
        }
        let Some(result) = tree.finish(|a, b| self.combine(a, b))? else {
            bail!(InvalidArgument, "expected the tensor of at least one rank")
        };
        if self == ReduceOp::Avg && count > 1 {
            // The sum of several tensors is a new one.
            result.div_scalar_(count as i64)?;
        }
        result.to_dtype(dtype)
    }
}

/// A fixed binary tree of partial results, for leaves that arrive one after another: of four leaves it computes `(a + b) + (c + d)`.
///
/// It is a binary counter: level `i` has the result of `2^i` leaves, so that `log2` of the number of leaves are kept. The tree over the
/// micro-batches of all ranks has the trees of the ranks as subtrees, where each rank has the same power of two of them.
#[derive(Default)]
pub struct Tree {
    /// The number of leaves of a partial result, and the result; each has fewer leaves than the one before.
    partial: Vec<(usize, Tensor)>,
}

impl Tree {
    /// Adds a leaf.
    ///
    /// # Errors
    /// Those of `combine`.
    pub fn push(&mut self, leaf: Tensor, combine: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<()> {
        let (mut count, mut result) = (1, leaf);
        while let Some((_, before)) = self.partial.pop_if(|(before, _)| *before == count) {
            result = combine(&before, &result)?;
            count *= 2;
        }
        self.partial.push((count, result));
        Ok(())
    }

    /// The result of all leaves, `None` without any. The tree is empty then.
    ///
    /// # Errors
    /// Those of `combine`.
    pub fn finish(&mut self, combine: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Option<Tensor>> {
        let Some((_, mut result)) = self.partial.pop() else { return Ok(None) };
        while let Some((_, before)) = self.partial.pop() {
            result = combine(&before, &result)?;
        }
        Ok(Some(result))
    }

    /// Whether it has no leaves.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 * 1.0e-3 + 1.0e4 * (i % 3) as f32).collect()
    }

    #[test]
    fn subtrees_of_ranks_give_the_bits_of_one_tree() {
        let leaves = values(8);
        let tensor = |value: &f32| Tensor::from([*value]);
        let all = ReduceOp::Sum.reduce(leaves.iter().map(tensor).collect()).unwrap();
        for ranks in [1, 2, 4, 8] {
            let of_rank = |chunk: &[f32]| ReduceOp::Sum.reduce(chunk.iter().map(tensor).collect()).unwrap();
            let parts = leaves.chunks(8 / ranks).map(of_rank).collect();
            let sum = ReduceOp::Sum.reduce(parts).unwrap();
            assert_eq!(sum.to_vec::<f32>().unwrap()[0].to_bits(), all.to_vec::<f32>().unwrap()[0].to_bits());
        }
        let [a, b, c, d] = [leaves[0], leaves[1], leaves[2], leaves[3]];
        let four = ReduceOp::Sum.reduce(leaves[..4].iter().map(tensor).collect()).unwrap();
        assert_eq!(four.to_vec::<f32>().unwrap(), [(a + b) + (c + d)]);
    }

    #[test]
    fn every_operation_has_its_value() {
        let parts = || vec![Tensor::from([6i32]), Tensor::from([3i32]), Tensor::from([5i32])];
        let expected =
            [("SUM", 14), ("PRODUCT", 90), ("MIN", 3), ("MAX", 6), ("BAND", 0), ("BOR", 7), ("BXOR", 0)];
        for (name, expected) in expected {
            let op = ReduceOp::from_name(name, 1.0).unwrap();
            assert_eq!(op.reduce(parts()).unwrap().to_vec::<i32>().unwrap(), [expected], "{name}");
        }
        let parts = || vec![Tensor::from([1.0f64]), Tensor::from([2.0f64])];
        assert_eq!(ReduceOp::Avg.reduce(parts()).unwrap().to_vec::<f64>().unwrap(), [1.5]);
        assert_eq!(ReduceOp::PremulSum(0.5).reduce(parts()).unwrap().to_vec::<f64>().unwrap(), [1.5]);
        assert!(ReduceOp::Avg.check("all_reduce", ScalarType::I64).is_err());
        assert!(ReduceOp::Band.check("all_reduce", ScalarType::F32).is_err());
    }
}
