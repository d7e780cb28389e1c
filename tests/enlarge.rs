//! Samples enlarged beyond the size from which kernels split their work among threads.

use crate::array::Array;
use crate::row::Arg;
use flambeau_core::Scalar;
use flambeau_ops::dispatch::Value;
use std::collections::HashSet;

/// Elements that are worth several threads to every kernel: four times the grain of the pointwise ones.
pub const LARGE: usize = 1 << 17;
/// Operands with more elements would make the tests slow.
const TOO_LARGE: usize = 1 << 21;
/// The most enlargements that are tried of one sample.
const MAX_ENLARGEMENTS: usize = 150;

/// A number in a sample that is multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// A dimension of a tensor: the argument, which of its list, the dimension.
    Dimension(usize, usize, usize),
    /// A number of a list of integers.
    Entry(usize, usize),
    /// An integer, or a scalar.
    Number(usize),
}

/// The numbers that are multiplied by the same factor.
#[derive(Debug)]
pub struct Enlargement(Vec<Extent>);

impl Enlargement {
    /// What is multiplied.
    pub fn extents(&self) -> &[Extent] {
        &self.0
    }
}

fn arrays(arg: &Arg) -> &[Array] {
    match arg {
        Arg::Tensor(a) | Arg::Constant(a) | Arg::Typed(a, _) => std::slice::from_ref(a),
        Arg::Tensors(list) => list,
        _ => &[],
    }
}

/// How many elements the tensors of a sample have.
pub fn elements(sample: &[Arg]) -> usize {
    sample.iter().flat_map(arrays).map(|a| a.data.len()).sum()
}

/// The number of dimensions of the tensor that has most of them.
pub fn rank(sample: &[Arg]) -> usize {
    sample.iter().flat_map(arrays).map(|a| a.sizes.len()).max().unwrap_or(0)
}

/// Whether there are tensors, and none of them has an element.
pub fn has_no_elements(sample: &[Arg]) -> bool {
    elements(sample) == 0 && sample.iter().any(|arg| !arrays(arg).is_empty())
}

/// Dimensions of all tensors that are as long as `length`, and where `matches` says so of the dimension and the rank.
fn dimensions(sample: &[Arg], length: usize, matches: impl Fn(usize, usize) -> bool) -> Vec<Extent> {
    let mut extents = vec![];
    for (argument, arg) in sample.iter().enumerate() {
        for (item, array) in arrays(arg).iter().enumerate() {
            let fits = |d: &usize| array.sizes[*d] == length && matches(*d, array.sizes.len());
            extents.extend((0..array.sizes.len()).filter(fits).map(|d| Extent::Dimension(argument, item, d)));
        }
    }
    extents
}

/// Every number of a sample that can be multiplied: dimensions, then integers that may be sizes.
fn extents(sample: &[Arg]) -> Vec<Extent> {
    let (mut extents, mut numbers) = (vec![], vec![]);
    for (argument, arg) in sample.iter().enumerate() {
        for (item, array) in arrays(arg).iter().enumerate() {
            extents.extend((0..array.sizes.len()).map(|d| Extent::Dimension(argument, item, d)));
        }
        match arg {
            Arg::Value(Value::Ints(list)) => {
                numbers.extend((0..list.len()).map(|at| Extent::Entry(argument, at)))
            }
            Arg::Value(Value::Int(_) | Value::Scalar(_)) => numbers.push(Extent::Number(argument)),
            _ => {}
        }
    }
    [extents, numbers].concat()
}

/// Enlargements of a sample, cheapest first: one extent alone; a dimension of all tensors that have the same length there, counted
/// from the front or the back; all dimensions of that length; these with one more extent, such as an integer that is a size.
pub fn enlargements(sample: &[Arg]) -> Vec<Enlargement> {
    let mut shared = vec![];
    for array in sample.iter().flat_map(arrays) {
        let rank = array.sizes.len();
        for (d, length) in array.sizes.iter().enumerate() {
            shared.push(dimensions(sample, *length, |other, _| other == d));
            shared.push(dimensions(sample, *length, |other, of| of - other == rank - d));
            shared.push(dimensions(sample, *length, |_, _| true));
        }
    }
    let extents = extents(sample);
    let alone: Vec<_> = extents.iter().map(|extent| vec![*extent]).collect();
    let bases: Vec<_> = alone.iter().chain(&shared).cloned().collect();
    let with_another = bases
        .iter()
        .flat_map(|enlargement| extents.iter().map(|extent| [enlargement, &[*extent][..]].concat()));
    let mut seen = HashSet::new();
    let ordered = bases.iter().cloned().chain(with_another);
    let distinct = ordered.filter(|enlargement| {
        let mut extents = enlargement.clone();
        extents.sort();
        extents.windows(2).all(|pair| pair[0] != pair[1]) && seen.insert(extents)
    });
    distinct.take(MAX_ENLARGEMENTS).map(Enlargement).collect()
}

/// The sample with the extents of the enlargement multiplied by `factor`; `None` where that is too large.
pub fn enlarged(sample: &[Arg], enlargement: &Enlargement, factor: usize) -> Option<Vec<Arg>> {
    let mut large = sample.to_vec();
    for extent in &enlargement.0 {
        match *extent {
            Extent::Dimension(at, item, d) => {
                let more = arrays(&large[at])[item].data.len().checked_mul(factor)?;
                if elements(&large) + more > TOO_LARGE {
                    return None;
                }
                grow(&mut large[at], item, d, factor);
            }
            Extent::Entry(at, entry) => {
                if let Arg::Value(Value::Ints(list)) = &mut large[at] {
                    list[entry] = list[entry].saturating_mul(factor as i64);
                }
            }
            Extent::Number(at) => match &mut large[at] {
                Arg::Value(Value::Int(n)) => *n = n.saturating_mul(factor as i64),
                Arg::Value(Value::Scalar(s)) => *s = scaled(*s, factor),
                _ => {}
            },
        }
    }
    Some(large)
}

fn scaled(scalar: Scalar, factor: usize) -> Scalar {
    match scalar {
        Scalar::Int(n) => Scalar::Int(n.saturating_mul(factor as i64)),
        other => Scalar::Float(other.to_f64() * factor as f64),
    }
}

fn grow(arg: &mut Arg, item: usize, d: usize, factor: usize) {
    match arg {
        Arg::Tensor(a) => *a = repeated(a, d, factor, true),
        Arg::Constant(a) | Arg::Typed(a, _) => *a = repeated(a, d, factor, false),
        Arg::Tensors(list) => list[item] = repeated(&list[item], d, factor, true),
        _ => {}
    }
}

/// The array repeated along a dimension. Where it may vary, each copy is scaled by another factor a little below 1, so that a result
/// written at another's offset is detected; the domain of a formula, which mostly reaches towards zero, is not left.
fn repeated(a: &Array, d: usize, factor: usize, varies: bool) -> Array {
    let block: usize = a.sizes[d..].iter().product();
    let mut data = Vec::with_capacity(a.data.len() * factor);
    for row in a.data.chunks(block.max(1)) {
        for copy in 0..factor {
            let golden = (copy as f64 * 0.618_033_988_749_894_9).fract();
            let scale = if varies { 1.0 - golden / 8.0 } else { 1.0 };
            data.extend(row.iter().map(|x| x * scale));
        }
    }
    let mut sizes = a.sizes.clone();
    sizes[d] *= factor;
    Array::new(&sizes, data)
}
