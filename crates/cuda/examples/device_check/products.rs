//! Products of matrices of many sizes, types and strides, exactly as on the host: numbers are so small that no sum is rounded. With cuBLAS, and
//! with the kernel that is used without it.

use super::DEVICE;
use flambeau::core::{Generator, Philox};
use flambeau::{Device, Result, Scalar, ScalarType, Tensor, ops};
use flambeau_cuda::Stream;
use flambeau_cuda::testing::products_by_cublas;
use flambeau_tests::call::array;
use std::hash::{DefaultHasher, Hash, Hasher};

const CASES: u64 = 200;
/// Words that a case draws at most.
const WORDS: u64 = 64;

const TYPES: [ScalarType; 4] = [ScalarType::F32, ScalarType::F64, ScalarType::F16, ScalarType::BF16];

/// Draws the parts of a case.
struct Draw<'a> {
    words: &'a Philox,
    next: u64,
}

impl Draw<'_> {
    fn below(&mut self, count: u64) -> u64 {
        self.next += 1;
        (self.words.word64(self.next - 1) >> 16) % count
    }

    /// A batch of matrices of -1, 0 and 1: rows or columns may be adjacent, or neither; with gaps, and not from the storage's first element
    /// on; and one matrix may be used for all.
    fn matrices(&mut self, [batch, rows, columns]: [i64; 3], dtype: ScalarType) -> Result<Tensor> {
        let (gap, start) = (self.below(3) as i64, self.below(3) as i64);
        let (is_transposed, is_first, is_shared) =
            (self.below(2) == 1, self.below(4) == 0, self.below(5) == 0);
        let (outer, inner) = if is_transposed { (columns, rows) } else { (rows, columns) };
        let step = if self.below(6) == 0 { 2 } else { 1 };
        let width = (start + inner * step + gap).max(1);
        let count = if is_shared { 1 } else { batch };
        // Where the batch is the inner dimension in memory, matrices have large leading dimensions.
        let sizes = if is_first { [outer, count, width] } else { [count, outer, width] };
        let seed = self.below(1000);
        let values = (0..sizes.iter().product::<i64>())
            .map(|i: i64| ((i * 7919 + seed as i64) % 31 % 3 - 1) as f64)
            .collect();
        let all = Tensor::from_vec(values, &sizes)?.to(dtype)?;
        let all = if is_first { all.transpose(0, 1)? } else { all };
        let part = ops::slice_tensor(&all, 2, Some(start), Some(start + inner * step), step)?;
        let part = if is_transposed { part.transpose(1, 2)? } else { part };
        part.expand(&[batch, rows, columns])
    }
}

/// A case: its operands on the host, the operator, and the type.
fn case(words: &Philox, number: u64) -> Result<(Vec<Tensor>, u64)> {
    let mut draw = Draw { words, next: number * WORDS };
    let dtype = TYPES[(number % 4) as usize];
    let mut size = |most: u64| 1 + draw.below(most) as i64;
    let [batch, m, n, k] = [size(4), size(40), size(40), size(40)];
    let operands = [[batch, m, k], [batch, k, n], [batch, m, n]];
    let operands = operands.map(|sizes| draw.matrices(sizes, dtype));
    let operator = draw.below(5);
    let all = operands.into_iter().collect::<Result<Vec<_>>>()?;
    // All but two operators take one matrix of a batch.
    let single = |t: &Tensor| if operator < 2 { Ok(t.clone()) } else { t.select(0, 0) };
    Ok((all.iter().map(single).collect::<Result<_>>()?, operator))
}

fn product(operator: u64, operands: &[Tensor]) -> Result<Tensor> {
    let [a, b, c] = operands else { return Tensor::zeros(&[0], ScalarType::F32) };
    let (one, two) = (Scalar::Int(1), Scalar::Int(2));
    match operator {
        0 => a.bmm(b),
        1 => ops::baddbmm(c, a, b, one, two),
        2 => a.mm(b),
        3 => ops::addmm(c, a, b, two, one),
        _ => ops::mv(a, &b.select(1, 0)?),
    }
}

/// The cases, in the default stream and in others.
pub(super) fn exact() -> Result<usize> {
    let words = Generator::new(17).reserve_words((CASES * WORDS * 2) as i64, 1)?;
    let streams = [Stream::default_of(0), Stream::new(0)?, Stream::new(0)?];
    let (mut faults, mut digest, before) = (0, DefaultHasher::new(), products_by_cublas());
    for number in 0..CASES {
        let (operands, operator) = case(&words, number)?;
        let here = array(&product(operator, &operands)?);
        let _guard = streams[(number % 3) as usize].enter()?;
        // The storage goes to the device as it is, with its gaps.
        let moved = |t: &Tensor| -> Result<Tensor> {
            let storage = t.storage().copied_to(DEVICE)?;
            let made = flambeau::core::TensorImpl::new(storage, t.geometry().clone(), t.dtype())?;
            Ok(Tensor::from_impl(made))
        };
        let moved = operands.iter().map(moved).collect::<Result<Vec<_>>>()?;
        let result = product(operator, &moved)?;
        let there = array(&result.to(Device::CPU)?);
        there.data.iter().for_each(|x| x.to_bits().hash(&mut digest));
        if here != there {
            println!("  FAULT case {number}: operator {operator} on {}", operands[0].signature());
            faults += 1;
        }
    }
    let by_cublas = products_by_cublas() - before;
    println!("{CASES} products, {by_cublas} of them by cuBLAS, {faults} differ from the host's");
    println!("digest of {CASES} products: {:016x}", digest.finish());
    // Two of three have operands that it takes.
    let is_expected = std::env::var("FLAMBEAU_CHECK_BLAS").is_ok_and(|value| value == "library");
    Ok(faults + usize::from(is_expected && 2 * by_cublas < CASES))
}
