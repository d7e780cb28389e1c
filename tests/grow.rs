//! Samples enlarged past the size from which kernels cut their work among threads.

use crate::array::Array;
use crate::row::Arg;
use flambeau_core::Scalar;
use flambeau_ops::dispatch::Value;
use std::collections::HashSet;

/// Elements that are worth several threads to every kernel: four times the grain of the pointwise ones.
pub const LARGE: usize = 1 << 17;
/// Elements of the operands beyond which a way to grow costs more than it shows.
const TOO_LARGE: usize = 1 << 21;
/// Ways that are tried of one sample.
const MOST_WAYS: usize = 150;

/// What of a sample grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    /// A dimension of a tensor: the argument, which of its list, the dimension.
    Dimension(usize, usize, usize),
    /// A number of a list of integers.
    Entry(usize, usize),
    /// An integer, or a scalar.
    Number(usize),
}

/// The places that grow by the same factor.
#[derive(Debug)]
pub struct Way(Vec<Place>);

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
fn dimensions(sample: &[Arg], length: usize, matches: impl Fn(usize, usize) -> bool) -> Vec<Place> {
    let mut places = vec![];
    for (place, arg) in sample.iter().enumerate() {
        for (item, array) in arrays(arg).iter().enumerate() {
            let fits = |d: &usize| array.sizes[*d] == length && matches(*d, array.sizes.len());
            places.extend((0..array.sizes.len()).filter(fits).map(|d| Place::Dimension(place, item, d)));
        }
    }
    places
}

/// Every place of a sample alone: dimensions, then numbers that may be sizes.
fn places(sample: &[Arg]) -> Vec<Place> {
    let (mut places, mut numbers) = (vec![], vec![]);
    for (place, arg) in sample.iter().enumerate() {
        for (item, array) in arrays(arg).iter().enumerate() {
            places.extend((0..array.sizes.len()).map(|d| Place::Dimension(place, item, d)));
        }
        match arg {
            Arg::Value(Value::Ints(list)) => {
                numbers.extend((0..list.len()).map(|at| Place::Entry(place, at)))
            }
            Arg::Value(Value::Int(_) | Value::Scalar(_)) => numbers.push(Place::Number(place)),
            _ => {}
        }
    }
    [places, numbers].concat()
}

/// Ways to enlarge a sample, those first that make the least work: one place alone; a dimension of all tensors that have the same
/// there, counted from the front or the back; wherever it has that length; these with one more place, as a number that stands for a
/// size.
pub fn ways(sample: &[Arg]) -> Vec<Way> {
    let mut shared = vec![];
    for array in sample.iter().flat_map(arrays) {
        let rank = array.sizes.len();
        for (d, length) in array.sizes.iter().enumerate() {
            shared.push(dimensions(sample, *length, |other, _| other == d));
            shared.push(dimensions(sample, *length, |other, of| of - other == rank - d));
            shared.push(dimensions(sample, *length, |_, _| true));
        }
    }
    let places = places(sample);
    let alone: Vec<_> = places.iter().map(|place| vec![*place]).collect();
    let bases: Vec<_> = alone.iter().chain(&shared).cloned().collect();
    let with_another = bases.iter().flat_map(|way| places.iter().map(|place| [way, &[*place][..]].concat()));
    let mut seen = HashSet::new();
    let ordered = bases.iter().cloned().chain(with_another);
    let distinct = ordered.filter(|way| {
        let mut places = way.clone();
        places.sort();
        places.windows(2).all(|pair| pair[0] != pair[1]) && seen.insert(places)
    });
    distinct.take(MOST_WAYS).map(Way).collect()
}

/// The sample with the places of `way` so many times as large; `None` where that is too large.
pub fn enlarged(sample: &[Arg], way: &Way, factor: usize) -> Option<Vec<Arg>> {
    let mut large = sample.to_vec();
    for place in &way.0 {
        match *place {
            Place::Dimension(at, item, d) => {
                let more = arrays(&large[at])[item].data.len().checked_mul(factor)?;
                if elements(&large) + more > TOO_LARGE {
                    return None;
                }
                grow(&mut large[at], item, d, factor);
            }
            Place::Entry(at, entry) => {
                if let Arg::Value(Value::Ints(list)) = &mut large[at] {
                    list[entry] = list[entry].saturating_mul(factor as i64);
                }
            }
            Place::Number(at) => match &mut large[at] {
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

/// The array again and again along a dimension. Where it may vary, each time is a little smaller in another way, so that a result
/// which lands in another's place is seen; the domain of a formula, which mostly reaches towards zero, is not left.
fn repeated(a: &Array, d: usize, factor: usize, varies: bool) -> Array {
    let block: usize = a.sizes[d..].iter().product();
    let mut data = Vec::with_capacity(a.data.len() * factor);
    for row in a.data.chunks(block.max(1)) {
        for turn in 0..factor {
            let golden = (turn as f64 * 0.618_033_988_749_894_9).fract();
            let scale = if varies { 1.0 - golden / 8.0 } else { 1.0 };
            data.extend(row.iter().map(|x| x * scale));
        }
    }
    let mut sizes = a.sizes.clone();
    sizes[d] *= factor;
    Array::new(&sizes, data)
}
