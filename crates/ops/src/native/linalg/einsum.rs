//! `einsum`, and `tensordot` and `inner`, which it generalizes.

use crate::ops::options::{DiagonalOptions, SumOptions};
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, bail, ensure, shape};

/// A letter of an equation, or a dimension of its ellipsis, numbered from the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(u8),
}

/// A tensor and the labels of its dimensions, which are distinct.
struct Operand {
    tensor: Tensor,
    labels: Vec<Label>,
}

/// The subscript of one operand: letters before and after an ellipsis, if there is one.
struct Subscript {
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

/// The parts of one side of an equation.
fn parse(side: &str) -> Result<Vec<Subscript>> {
    let mut all = vec![Subscript { before: vec![], after: None }];
    let mut bytes = side.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let number = all.len() - 1;
        let Some(subscript) = all.last_mut() else { break };
        match byte {
            b' ' => {}
            b',' => all.push(Subscript { before: vec![], after: None }),
            b'.' => {
                let dots = [bytes.next(), bytes.next()] == [Some(b'.'); 2];
                ensure!(
                    dots && subscript.after.is_none(),
                    InvalidArgument("einsum", "equation"),
                    "found '.' for operand {number} that is not part of any ellipsis, or is part of a second one"
                );
                subscript.after = Some(vec![]);
            }
            letter if letter.is_ascii_alphabetic() => {
                subscript.after.as_mut().unwrap_or(&mut subscript.before).push(letter);
            }
            other => bail!(
                InvalidArgument("einsum", "equation"),
                "invalid subscript '{}' in the equation, subscripts must be in [a-zA-Z]",
                char::from(other)
            ),
        }
    }
    Ok(all)
}

impl Subscript {
    /// A label for each of `rank` dimensions.
    fn labels(&self, rank: usize, number: usize) -> Result<Vec<Label>> {
        let named = self.before.len() + self.after.as_ref().map_or(0, Vec::len);
        ensure!(
            if self.after.is_some() { named <= rank } else { named == rank },
            Shape("einsum", "equation"),
            "the number of subscripts in the equation ({named}) does not match the number of dimensions ({rank}) for \
             operand {number}{}",
            if self.after.is_some() { "" } else { " and no ellipsis was given" }
        );
        Ok(self.expanded(rank - named))
    }

    /// The labels with `hidden` dimensions for the ellipsis.
    fn expanded(&self, hidden: usize) -> Vec<Label> {
        let ellipsis = (0..hidden).rev().map(|n| Label::Ellipsis(std::cmp::Reverse(n)));
        let after = self.after.iter().flatten();
        let letters = |letter: &u8| Label::Letter(*letter);
        self.before.iter().map(letters).chain(ellipsis).chain(after.map(letters)).collect()
    }
}

/// The operand, with the dimensions of each repeated label replaced by their diagonal.
fn operand(tensor: &Tensor, labels: &[Label], number: usize) -> Result<Operand> {
    let mut result = Operand { tensor: tensor.clone(), labels: vec![] };
    for label in labels {
        let dim = result.labels.len();
        let Some(first) = result.labels.iter().position(|l| l == label) else {
            result.labels.push(*label);
            continue;
        };
        let sizes = result.tensor.sizes();
        ensure!(
            sizes[first] == sizes[dim],
            Shape("einsum", "tensors"),
            "subscript {label:?} is repeated for operand {number} but the sizes don't match, {} != {}",
            sizes[dim],
            sizes[first]
        );
        result.tensor = result
            .tensor
            .diagonal_with(DiagonalOptions::new().dim1(first as i64).dim2(dim as i64))?
            .movedim(&[-1], &[first as i64])?;
    }
    Ok(result)
}

impl Operand {
    fn dim_of(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|l| *l == label)
    }

    fn size(&self, label: Label) -> Option<i64> {
        self.dim_of(label).map(|d| self.tensor.sizes()[d])
    }

    /// The tensor permuted to the order of `labels`, a permutation of its own.
    fn permuted(&self, labels: &[Label]) -> Result<Tensor> {
        let order: DimVec = labels.iter().filter_map(|l| self.dim_of(*l)).map(|d| d as i64).collect();
        self.tensor.permute(&order)
    }

    /// Summed over the dimensions whose labels `keeps` rejects.
    fn summed(&self, keeps: impl Fn(Label) -> bool) -> Result<Operand> {
        let dims: DimVec =
            (0..self.labels.len()).filter(|d| !keeps(self.labels[*d])).map(|d| d as i64).collect();
        if dims.is_empty() {
            return Ok(Operand { tensor: self.tensor.clone(), labels: self.labels.clone() });
        }
        let tensor = self.tensor.sum_dim(&dims)?;
        let labels = self.labels.iter().copied().filter(|l| keeps(*l)).collect();
        Ok(Operand { tensor, labels })
    }

    /// Without the dimensions of size 1 that broadcast against larger ones of `other`.
    fn without_broadcast_dims(&self, other: &Operand) -> Result<Operand> {
        let broadcasts =
            |label: Label| self.size(label) == Some(1) && other.size(label).is_some_and(|s| s != 1);
        let dims: DimVec =
            (0..self.labels.len()).filter(|d| broadcasts(self.labels[*d])).map(|d| d as i64).collect();
        let labels = self.labels.iter().copied().filter(|l| !broadcasts(*l)).collect();
        Ok(Operand { tensor: self.tensor.squeeze_dims(&dims)?, labels })
    }
}

fn product_of(sizes: &[i64]) -> Result<i64> {
    shape::numel(sizes).map_err(|e| e.in_operator("einsum"))
}

/// The product of two operands, summed over the labels that `keeps` rejects, as one batched matrix product.
fn contracted(a: &Operand, b: &Operand, keeps: impl Fn(Label) -> bool) -> Result<Operand> {
    let (a, b) = (a.without_broadcast_dims(b)?, b.without_broadcast_dims(a)?);
    let own = |o: &Operand, other: &Operand| -> Result<Operand> {
        let summed = o.summed(|l| keeps(l) || other.dim_of(l).is_some())?;
        Ok(Operand { tensor: summed.tensor.to(o.tensor.dtype())?, labels: summed.labels })
    };
    let (a, b) = (own(&a, &b)?, own(&b, &a)?);
    let of = |from: &Operand, condition: &dyn Fn(Label) -> bool| -> Vec<Label> {
        from.labels.iter().copied().filter(|l| condition(*l)).collect()
    };
    let batch = of(&a, &|l| keeps(l) && b.dim_of(l).is_some());
    let inner = of(&a, &|l| !keeps(l));
    let left = of(&a, &|l| keeps(l) && b.dim_of(l).is_none());
    let right = of(&b, &|l| keeps(l) && a.dim_of(l).is_none());
    let sizes = |from: &Operand, labels: &[Label]| -> DimVec {
        labels.iter().filter_map(|l| from.size(*l)).collect()
    };
    let (batches, lefts, rights) = (sizes(&a, &batch), sizes(&a, &left), sizes(&b, &right));
    let shared = sizes(&a, &inner);
    let [n, l, r, k] =
        [product_of(&batches)?, product_of(&lefts)?, product_of(&rights)?, product_of(&shared)?];
    let product_sizes: DimVec = batches.iter().chain(&lefts).chain(&rights).copied().collect();
    let (x, y) =
        (a.permuted(&[&*batch, &left, &inner].concat())?, b.permuted(&[&*batch, &inner, &right].concat())?);
    let product = if inner.is_empty() {
        x.reshape(&[n, l, 1])?.mul(&y.reshape(&[n, 1, r])?)?
    } else {
        x.reshape(&[n, l, k])?.bmm(&y.reshape(&[n, k, r])?)?
    };
    Ok(Operand { tensor: product.reshape(&product_sizes)?, labels: [batch, left, right].concat() })
}

/// The labels of the result: those given, or the ellipsis and each letter that occurs once, in alphabetical order.
fn output(right: Option<&str>, inputs: &[Vec<Label>], hidden: usize) -> Result<Vec<Label>> {
    let Some(right) = right else {
        let mut all: Vec<Label> = inputs.concat();
        all.sort_unstable();
        let times = |label: &Label| all.iter().filter(|l| *l == label).count();
        let mut labels: Vec<Label> =
            all.iter().copied().filter(|l| matches!(l, Label::Ellipsis(_)) || times(l) == 1).collect();
        labels.dedup();
        return Ok(labels);
    };
    let [subscript] = &parse(right)?[..] else {
        bail!(InvalidArgument("einsum", "equation"), "invalid subscript ',' in the output of the equation");
    };
    let labels = subscript.expanded(if subscript.after.is_some() { hidden } else { 0 });
    for (at, label) in labels.iter().enumerate() {
        ensure!(
            !labels[..at].contains(label),
            InvalidArgument("einsum", "equation"),
            "output subscript {label:?} appears more than once in the output"
        );
        ensure!(
            inputs.iter().flatten().any(|l| l == label),
            InvalidArgument("einsum", "equation"),
            "output subscript {label:?} does not appear in the equation for any input operand"
        );
    }
    Ok(labels)
}

/// Checks that the sizes of each label are equal, or 1, in all operands.
fn check_sizes(operands: &[Operand]) -> Result<()> {
    for (number, operand) in operands.iter().enumerate() {
        for label in &operand.labels {
            let size = operand.size(*label).unwrap_or(1);
            let other = operands[..number].iter().filter_map(|o| o.size(*label)).find(|s| *s != 1);
            ensure!(
                size == 1 || other.is_none_or(|other| other == size),
                Shape("einsum", "tensors"),
                "subscript {label:?} has size {size} for operand {number} which does not broadcast with previously \
                 seen size {}",
                other.unwrap_or(1)
            );
        }
    }
    Ok(())
}

/// The sum of products that `equation` names, two operands at a time: from left to right, or as `path` lists them, each
/// result after the operands that are left.
pub fn einsum(equation: &str, tensors: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), InvalidArgument("einsum", "tensors"), "must provide at least one operand");
    let (left, right) = equation.split_once("->").map_or((equation, None), |(l, r)| (l, Some(r)));
    let subscripts = parse(left)?;
    let fewer = if subscripts.len() > tensors.len() { "fewer" } else { "more" };
    ensure!(
        subscripts.len() == tensors.len(),
        InvalidArgument("einsum", "equation"),
        "{fewer} operands were provided than specified in the equation"
    );
    let pairs = || tensors.iter().zip(&subscripts).enumerate();
    let inputs = pairs().map(|(n, (t, s))| s.labels(t.dim(), n)).collect::<Result<Vec<_>>>()?;
    let hidden = pairs().map(|(n, (_, s))| inputs[n].len() - s.expanded(0).len()).max().unwrap_or(0);
    let output = output(right, &inputs, hidden)?;
    let operands = pairs().map(|(n, (t, _))| operand(t, &inputs[n], n)).collect::<Result<Vec<_>>>()?;
    check_sizes(&operands)?;
    let last = reduced(operands, &output, path)?;
    let last = last.summed(|l| output.contains(&l))?;
    last.permuted(&output)
}

fn reduced(mut operands: Vec<Operand>, output: &[Label], path: Option<&[i64]>) -> Result<Operand> {
    let steps = operands.len() as i64 - 1;
    ensure!(
        path.is_none_or(|p| p.len() as i64 == 2 * steps),
        InvalidArgument("einsum", "path"),
        "expected contraction path given in path parameter to have {} elements but got {}",
        2 * steps,
        path.map_or(0, <[i64]>::len)
    );
    for step in 0..steps as usize {
        let (i, j) = path.map_or((0, 1), |p| (p[2 * step], p[2 * step + 1]));
        let there = 0..operands.len() as i64;
        ensure!(
            i != j && there.contains(&i) && there.contains(&j),
            InvalidArgument("einsum", "path"),
            "invalid contraction path ({i}, {j}) for {} operands",
            operands.len()
        );
        let (a, b) = take_two(&mut operands, i as usize, j as usize);
        let keeps = |l: Label| output.contains(&l) || operands.iter().any(|o| o.dim_of(l).is_some());
        let product = contracted(&a, &b, keeps)?;
        operands.insert(if path.is_some() { operands.len() } else { 0 }, product);
    }
    match operands.pop() {
        Some(last) => Ok(last),
        None => bail!(Internal("einsum"), "no operand is left"),
    }
}

fn take_two(operands: &mut Vec<Operand>, i: usize, j: usize) -> (Operand, Operand) {
    let a = operands.remove(i);
    let b = operands.remove(if j > i { j - 1 } else { j });
    (a, b)
}

/// The product of two tensors summed over `dims_self` of the one and `dims_other` of the other; size 1 broadcasts.
pub fn tensordot(self_: &Tensor, other: &Tensor, dims_self: &[i64], dims_other: &[i64]) -> Result<Tensor> {
    const NAME: &str = "tensordot";
    ensure!(
        dims_self.len() == dims_other.len(),
        InvalidArgument(NAME, "dims_other"),
        "both dimension lists should have same length"
    );
    let (a_dims, b_dims) = (
        crate::native::shape::view::wrap_dims(NAME, dims_self, self_.dim())?,
        crate::native::shape::view::wrap_dims(NAME, dims_other, other.dim())?,
    );
    let (mut a, mut b) = (self_.clone(), other.clone());
    for (&i, &j) in a_dims.iter().zip(&b_dims) {
        let (x, y) = (self_.size(i as i64)?, other.size(j as i64)?);
        match (x, y) {
            _ if x == y => {}
            (1, _) => b = b.sum_with(SumOptions::new().dim(&[j as i64]).keepdim(true))?.to(other.dtype())?,
            (_, 1) => a = a.sum_with(SumOptions::new().dim(&[i as i64]).keepdim(true))?.to(self_.dtype())?,
            _ => bail!(
                Shape(NAME, "other"),
                "contracted dimensions need to match, but first has size {x} in dim {i} and second has size {y} in dim {j}"
            ),
        }
    }
    let free =
        |t: &Tensor, dims: &[usize]| -> Vec<usize> { (0..t.dim()).filter(|d| !dims.contains(d)).collect() };
    let (a_free, b_free) = (free(&a, &a_dims), free(&b, &b_dims));
    let sizes = |t: &Tensor, dims: &[usize]| -> DimVec { dims.iter().map(|d| t.sizes()[*d]).collect() };
    let (rows, columns, inner) = (sizes(&a, &a_free), sizes(&b, &b_free), sizes(&a, &a_dims));
    let [m, n, k] = [shape::numel(&rows)?, shape::numel(&columns)?, shape::numel(&inner)?];
    let order = |x: &[usize], y: &[usize]| -> DimVec { x.iter().chain(y).map(|d| *d as i64).collect() };
    let left = a.permute(&order(&a_free, &a_dims))?.reshape(&[m, k])?;
    let right = b.permute(&order(&b_dims, &b_free))?.reshape(&[k, n])?;
    let result_sizes: DimVec = rows.iter().chain(&columns).copied().collect();
    ops::mm(&left, &right)?.reshape(&result_sizes)
}

/// The inner products along the last dimensions, for all pairs of indices of the other dimensions.
pub fn inner(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || other.dim() == 0 {
        return self_.mul(other);
    }
    ensure!(
        self_.sizes().last() == other.sizes().last(),
        Shape("inner", "other"),
        "the last dimension must match on both input tensors but got shapes {:?} and {:?}",
        self_.sizes(),
        other.sizes()
    );
    ops::tensordot(self_, other, &[-1], &[-1])
}
