//! Every collective against loops in f64: dtypes, sizes, operations, numbers of ranks.

use crate::job::{self, Job, sums};
use crate::values::{compare_moved, compare_reduction, read, tensor};
use flambeau_core::{Result, ScalarType, ensure};
use flambeau_distributed::{ProcessGroup, ReduceOp};
use flambeau_ops::Tensor;

const DTYPES: [ScalarType; 11] = [
    ScalarType::F32,
    ScalarType::F64,
    ScalarType::BF16,
    ScalarType::F16,
    ScalarType::I64,
    ScalarType::I32,
    ScalarType::I16,
    ScalarType::I8,
    ScalarType::U8,
    ScalarType::Bool,
    ScalarType::Complex64,
];

const OPS: [ReduceOp; 9] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Product,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::Band,
    ReduceOp::Bor,
    ReduceOp::Bxor,
    ReduceOp::PremulSum(0.5),
];

/// Empty tensors, odd counts, counts around the limit between one round and two.
const COUNTS: [usize; 9] = [0, 1, 2, 7, 255, 1001, 4097, 16_385, 70_001];
const LARGE: [usize; 2] = [1_000_003, 10_000_000];

const SIZES: &str = "FLAMBEAU_RANKS_SIZES";

pub(crate) fn run(quick: bool) -> Result<String> {
    let ranks: &[usize] = if quick { &[2, 3] } else { &[1, 2, 3, 4] };
    all("collectives", ranks, &COUNTS)
}

pub(crate) fn run_large(quick: bool) -> Result<String> {
    let counts: &[usize] = if quick { &LARGE[..1] } else { &LARGE };
    all("large", &[2], counts)
}

fn all(part: &str, ranks: &[usize], counts: &[usize]) -> Result<String> {
    let (mut calls, mut elements) = (0, 0);
    let sizes: Vec<String> = counts.iter().map(usize::to_string).collect();
    for size in ranks {
        let reports = Job::new(part, *size).set(SIZES, sizes.join(" ")).run()?;
        let counted = sums(&reports);
        ensure!(counted.len() == 2 && counted[0] > 0, Internal, "the ranks have counted nothing");
        (calls, elements) = (calls + counted[0], elements + counted[1]);
    }
    Ok(format!("{calls} results of calls equal loops, {elements} elements, on {ranks:?} ranks"))
}

/// What was compared: results of calls, and their elements.
#[derive(Default)]
struct Counted {
    calls: u64,
    elements: u64,
}

impl Counted {
    fn add(&mut self, count: usize) {
        self.calls += 1;
        self.elements += count as u64;
    }
}

pub(crate) fn rank() -> Result<()> {
    let group = job::group(job::options(120.0))?;
    let mut counted = Counted::default();
    let sizes = job::setting(SIZES)?;
    let counts: Vec<usize> = sizes.split(' ').filter_map(|count| count.parse().ok()).collect();
    let large = job::setting(job::PART)? == "large";
    for count in counts {
        // Large tensors of each width once.
        let dtypes: &[ScalarType] = if large {
            &[ScalarType::F32, ScalarType::BF16, ScalarType::I64, ScalarType::U8]
        } else {
            &DTYPES
        };
        for dtype in dtypes {
            reductions(&group, count, *dtype, if large { &OPS[..1] } else { &OPS }, &mut counted)?;
            movements(&group, count, *dtype, &mut counted)?;
        }
    }
    refused(&group)?;
    job::report(group.rank(), &format!("{} {}", counted.calls, counted.elements))
}

/// Whether a dtype has an operation: only integers and bools have bits, and only fractions an average.
fn has(op: ReduceOp, dtype: ScalarType) -> bool {
    let fractions = dtype.is_floating_point() || dtype.is_complex();
    match op {
        ReduceOp::Avg | ReduceOp::PremulSum(_) => fractions,
        ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor => !fractions,
        ReduceOp::Min | ReduceOp::Max => !dtype.is_complex(),
        // The real part of a product is no product of real parts.
        ReduceOp::Product => !dtype.is_complex(),
        // Two trues are one true, as in PyTorch.
        ReduceOp::Sum => dtype != ScalarType::Bool,
        _ => true,
    }
}

fn reductions(
    group: &ProcessGroup,
    count: usize,
    dtype: ScalarType,
    ops: &[ReduceOp],
    counted: &mut Counted,
) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    let inputs: Vec<Vec<f64>> =
        (0..size).map(|rank| read(&tensor(rank, count, dtype)?)).collect::<Result<_>>()?;
    for op in ops.iter().filter(|op| has(**op, dtype)) {
        let x = tensor(rank, count, dtype)?;
        group.all_reduce(&x, *op)?.wait()?;
        compare_reduction(&x, &inputs, *op)?;
        let x = tensor(rank, count, dtype)?;
        group.reduce(&x, size - 1, *op)?.wait()?;
        match rank == size - 1 {
            true => compare_reduction(&x, &inputs, *op)?,
            false => compare_moved(&x, &inputs[rank], "the input of reduce")?,
        }
        // Rank `i` gives every rank its own tensor.
        let (own, output) = (tensor(rank, count, dtype)?, Tensor::zeros(&[count as i64], dtype)?);
        group.reduce_scatter(&output, &vec![own.clone(); size], *op)?.wait()?;
        compare_reduction(&output, &inputs, *op)?;
        let (whole, output) = (Tensor::cat(&vec![own; size], 0)?, Tensor::zeros(&[count as i64], dtype)?);
        group.reduce_scatter_tensor(&output, &whole, *op)?.wait()?;
        compare_reduction(&output, &inputs, *op)?;
        (0..4).for_each(|_| counted.add(count));
    }
    Ok(())
}

fn movements(group: &ProcessGroup, count: usize, dtype: ScalarType, counted: &mut Counted) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    let x = |rank: usize| tensor(rank, count, dtype);
    let of = |rank: usize| read(&x(rank)?);
    let empty = || Tensor::zeros(&[count as i64], dtype);
    let list = |length: usize| (0..length).map(|_| empty()).collect::<Result<Vec<Tensor>>>();
    for root in 0..size {
        let received = x(rank)?;
        group.broadcast(&received, root)?.wait()?;
        compare_moved(&received, &of(root)?, "broadcast")?;
        let outputs = list(if rank == root { size } else { 0 })?;
        group.gather(&x(rank)?, &outputs, root)?.wait()?;
        for (from, output) in outputs.iter().enumerate() {
            compare_moved(output, &of(from)?, "gather")?;
        }
        let inputs: Vec<Tensor> = match rank == root {
            true => (0..size).map(|to| x(root * 10 + to)).collect::<Result<_>>()?,
            false => vec![],
        };
        let received = empty()?;
        group.scatter(&received, &inputs, root)?.wait()?;
        compare_moved(&received, &of(root * 10 + rank)?, "scatter")?;
        (0..3).for_each(|_| counted.add(count));
    }
    let outputs = list(size)?;
    group.all_gather(&outputs, &x(rank)?)?.wait()?;
    for (from, output) in outputs.iter().enumerate() {
        compare_moved(output, &of(from)?, "all_gather")?;
    }
    let whole = Tensor::zeros(&[size as i64, count as i64], dtype)?;
    group.all_gather_into_tensor(&whole, &x(rank)?)?.wait()?;
    for from in 0..size {
        compare_moved(&whole.select(0, from as i64)?, &of(from)?, "all_gather_into_tensor")?;
    }
    let inputs: Vec<Tensor> = (0..size).map(|to| x(rank * 10 + to)).collect::<Result<_>>()?;
    group.all_to_all(&outputs, &inputs)?.wait()?;
    for (from, output) in outputs.iter().enumerate() {
        compare_moved(output, &of(from * 10 + rank)?, "all_to_all")?;
    }
    ring(group, &x(rank)?, &empty()?)?
        .iter()
        .try_for_each(|found| compare_moved(found, &of((rank + size - 1) % size)?, "send and recv"))?;
    group.barrier()?.wait()?;
    (0..4).for_each(|_| counted.add(count));
    Ok(())
}

/// Sends a tensor to the next rank and receives one from the rank before, if there are others.
fn ring(group: &ProcessGroup, sent: &Tensor, received: &Tensor) -> Result<Option<Tensor>> {
    let (rank, size) = (group.rank(), group.size());
    if size == 1 {
        return Ok(None);
    }
    let sending = group.send(sent, (rank + 1) % size, 7)?;
    group.recv(received, Some((rank + size - 1) % size), 7)?.wait()?;
    sending.wait()?;
    Ok(Some(received.clone()))
}

/// Operations that a dtype has not are errors before anything is sent.
fn refused(group: &ProcessGroup) -> Result<()> {
    for (dtype, op) in [(ScalarType::I64, ReduceOp::Avg), (ScalarType::F32, ReduceOp::Bxor)] {
        let refused = group.all_reduce(&tensor(0, 3, dtype)?, op).map(drop);
        ensure!(refused.is_err(), Internal, "{op:?} of {dtype} was accepted");
    }
    group.barrier()?.wait()
}
