//! Sums, differences, products and quotients. A product keeps the pattern of its sparse operand, or what two of them have in common; a
//! quotient that of the dividend. A sum of a sparse and a strided tensor is strided.

use super::copies::{promoted, with_values};
use super::{check_same_sizes, rules, unsupported};
use crate::convert::{as_layout_of, coalesce, coo_of, with_index_type};
use crate::dense::{ONE, cast, joined, product, reshape, rows, scaled};
use crate::parts::{Compressed, Coo, check_coordinates, is_sparse};
use flambeau_core::{DimVec, Layout, Result, Scalar, ScalarType, ensure};
use flambeau_ops::{Tensor, ops};

/// Whether it is a number: given as one, or a strided tensor without dimensions.
fn is_number(tensor: &Tensor) -> bool {
    !is_sparse(tensor) && tensor.dim() == 0
}

/// `a + alpha b`.
fn add(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, true) => add_sparse(name, a, b, alpha),
        (false, true) if is_number(a) => unsupported(name, b, "a sum with a number is not sparse"),
        (true, false) if is_number(b) => unsupported(name, a, "a sum with a number is not sparse"),
        (false, true) => add_to_strided(name, a, b, alpha),
        _ => add_to_strided(name, &scaled(b, alpha)?, a, ONE),
    }
}

/// The joined coordinates, equal ones summed.
fn add_sparse(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_same_sizes(name, a, b)?;
    let (a, b) = promoted(a, b)?;
    if are_plain_matrices(&a, &b) {
        return add_compressed(Compressed::of(&a)?, Compressed::of(&b)?, alpha);
    }
    let (first, second) = (coo_of(&a)?, coo_of(&b)?);
    ensure!(
        first.sparse_dim() == second.sparse_dim(),
        InvalidArgument(name),
        "expected the same number of sparse dimensions but got {} and {}",
        first.sparse_dim(),
        second.sparse_dim()
    );
    let sum = Coo {
        indices: ops::cat(&[first.indices.clone(), second.indices], 1)?,
        values: ops::cat(&[first.values.clone(), scaled(&second.values, alpha)?], 0)?,
        is_coalesced: false,
        ..first
    };
    as_layout_of(&sum.coalesced()?, &a)
}

/// Whether both are matrices with the same dimension compressed, of elements that are numbers.
fn are_plain_matrices(a: &Tensor, b: &Tensor) -> bool {
    let is_plain = matches!(a.layout(), Layout::SparseCsr | Layout::SparseCsc);
    is_plain && a.layout() == b.layout() && a.dim() == 2 && !a.is_complex()
}

/// `a + alpha b` for such matrices, whose rows are merged.
fn add_compressed(a: Compressed, b: Compressed, alpha: Scalar) -> Result<Tensor> {
    let columns = a.sizes[usize::from(a.layout.has_compressed_rows())];
    let (dtype, values) = (a.compressed.dtype(), scaled(&b.values, alpha)?);
    let (compressed, plain, values) =
        ops::_csr_add(&a.compressed, &a.plain, &a.values, &b.compressed, &b.plain, &values, columns)?;
    with_index_type(Compressed { compressed, plain, values, ..a }.into_tensor()?, dtype)
}

/// A strided tensor plus a multiple of a sparse one.
fn add_to_strided(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_same_sizes(name, a, b)?;
    let (a, b) = promoted(a, b)?;
    let coo = coo_of(&b)?;
    let flat = reshape(&a, &joined(&[&[product(coo.sparse_sizes())?], coo.dense_sizes()]))?;
    let sum = ops::index_add(&flat, 0, &coo.keys()?, &coo.values, alpha)?;
    reshape(&sum, &coo.sizes)
}

/// `a += alpha b`.
fn add_(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    match (is_sparse(a), is_sparse(b)) {
        (true, true) => add_sparse_(name, a, b, alpha),
        (false, true) => add_to_strided_(name, a, b, alpha),
        _ => unsupported(name, a, "a strided tensor cannot be added to a sparse one in place"),
    }
}

fn add_sparse_(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    check_same_sizes(name, a, b)?;
    if let (Some(own), Some(other)) = (a.sparse_parts(), b.sparse_parts())
        && own.has_pattern_of(&other)?
    {
        // Values correspond, even those of equal coordinates: their sums are those of the sums.
        return ops::add__tensor(own.values(), other.values(), alpha);
    }
    store(name, a, &add_sparse(name, a, b, alpha)?)
}

fn add_to_strided_(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    check_same_sizes(name, a, b)?;
    let coo = coo_of(b)?;
    check_coordinates("indices", &coo.indices, coo.sparse_sizes())?;
    let values = scaled(&coo.values, alpha)?;
    check_castable(name, values.dtype(), a.dtype())?;
    let values = cast(&values, a.dtype())?;
    if coo.sparse_dim() == 1 {
        return ops::index_add_(a, 0, &coo.row(0)?, &values, ONE);
    }
    let indices: Result<Vec<Option<Tensor>>> = (0..coo.sparse_dim()).map(|d| coo.row(d).map(Some)).collect();
    ops::index_put_(a, &indices?, &values, true)
}

/// Requires a type of a result that an in-place operator may convert to that of its tensor: one of no higher category.
fn check_castable(name: &str, result: ScalarType, out: ScalarType) -> Result<()> {
    ensure!(
        result.can_cast(out),
        Dtype(name),
        "result type {result} can't be cast to the desired output type {out}"
    );
    Ok(())
}

/// Writes the result of an operator into the sparse tensor that it was called on in place.
fn store(name: &str, tensor: &Tensor, result: &Tensor) -> Result<()> {
    check_castable(name, result.dtype(), tensor.dtype())?;
    ensure!(
        result.layout() == tensor.layout(),
        InvalidArgument(name),
        "expected a result of layout {} but got {}",
        tensor.layout(),
        result.layout()
    );
    let result = with_values(result, |values| cast(values, tensor.dtype()))?;
    result.sparse_parts().map_or(Ok(()), |parts| tensor.write_sparse_parts(parts))
}

fn negated(alpha: Scalar) -> Result<Scalar> {
    Tensor::wrapped_number(alpha).and_then(|number| ops::neg(&number)?.item_scalar())
}

fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        // The factor is that of the second operand.
        (true, false) if !is_number(b) => add("sub", a, &ops::neg(b)?, alpha),
        _ => add("sub", a, b, negated(alpha)?),
    }
}

/// The elements of a strided tensor at coordinates, ready to be broadcast with values. It is not expanded: in dimensions of size 1 all
/// coordinates are those of its only element.
fn at_coordinates(strided: &Tensor, coo: &Coo) -> Result<Tensor> {
    check_coordinates("indices", &coo.indices, coo.sparse_sizes())?;
    let ones = DimVec::from_elem(1, coo.sizes.len().saturating_sub(strided.dim()));
    let sizes = joined(&[&ones, strided.sizes()]);
    let (sparse, dense) = sizes.split_at(coo.sparse_dim());
    let kept: Vec<usize> = (0..sparse.len()).filter(|d| sparse[*d] != 1).collect();
    if kept.is_empty() {
        return reshape(strided, &joined(&[&[1], dense]));
    }
    let left: DimVec = kept.iter().map(|d| sparse[*d]).chain(dense.iter().copied()).collect();
    let indices: Vec<Option<Tensor>> = kept.iter().map(|d| coo.row(*d).map(Some)).collect::<Result<_>>()?;
    ops::index_tensor(&reshape(strided, &left)?, &indices)
}

/// The result of `f` on values and the elements of a strided tensor at their coordinates, which broadcasts.
fn with_strided(
    name: &str,
    sparse: &Tensor,
    strided: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    // Only checks that it broadcasts: a view.
    ops::expand(strided, sparse.sizes(), false).map_err(|e| e.in_operator(name))?;
    let coo = coo_of(sparse)?.coalesced()?;
    let at = at_coordinates(strided, &coo)?;
    as_layout_of(&coo.with_values(f(&coo.values, &at)?), sparse)
}

/// What a number multiplies or divides: it may be uncoalesced, since that is linear, but for bools, whose sums are not those of the
/// products.
fn terms(tensor: &Tensor) -> Result<Tensor> {
    let is_bool = tensor.layout() == Layout::SparseCoo && tensor.dtype() == ScalarType::Bool;
    if is_bool { coalesce(tensor) } else { Ok(tensor.clone()) }
}

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, true) => mul_sparse(a, b),
        (true, false) if is_number(b) => with_values(&terms(a)?, |values| ops::mul_tensor(values, b)),
        (false, true) if is_number(a) => with_values(&terms(b)?, |values| ops::mul_tensor(a, values)),
        (true, false) => with_strided("mul", a, b, ops::mul_tensor),
        _ => with_strided("mul", b, a, |values, other| ops::mul_tensor(other, values)),
    }
}

/// The products of elements at coordinates that both have.
fn mul_sparse(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_same_sizes("mul", a, b)?;
    let (first, second) = (coo_of(a)?.coalesced()?, coo_of(b)?.coalesced()?);
    ensure!(
        first.sparse_dim() == second.sparse_dim(),
        InvalidArgument("mul"),
        "expected the same number of sparse dimensions but got {} and {}",
        first.sparse_dim(),
        second.sparse_dim()
    );
    let (here, there) = first.common(&second)?;
    let pattern = first.at(&here)?;
    let values = ops::mul_tensor(&pattern.values, &rows(&second.values, &there)?)?;
    as_layout_of(&pattern.with_values(values), a)
}

fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, false) if is_number(b) => with_values(&terms(a)?, |values| ops::div_tensor(values, b)),
        _ => quotient("div", a, b, ops::div_tensor),
    }
}

/// A quotient that may be rounded, which is not linear.
fn quotient(
    name: &str,
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, false) if is_number(b) => {
            let a = if a.layout() == Layout::SparseCoo { coalesce(a)? } else { a.clone() };
            with_values(&a, |values| f(values, b))
        }
        (true, false) => with_strided(name, a, b, f),
        _ => unsupported(name, b, "a quotient by a sparse tensor divides by zeros"),
    }
}

/// Writes what `f` makes of a sparse tensor into it. `f` gets a copy of the values, since it may save them for gradients.
fn in_place(name: &str, tensor: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    let before = with_values(tensor, |values| ops::clone(values, None))?;
    store(name, tensor, &f(&before)?)
}

fn mul_(a: &Tensor, b: &Tensor) -> Result<()> {
    match a.sparse_parts() {
        Some(parts) if is_number(b) => ops::mul__tensor(parts.values(), b),
        Some(_) => in_place("mul_", a, |a| mul(a, b)),
        None => ops::mul__tensor(a, &crate::to_dense(b)?),
    }
}

fn div_(a: &Tensor, b: &Tensor) -> Result<()> {
    match a.sparse_parts() {
        Some(parts) if is_number(b) => ops::div__tensor(parts.values(), b),
        _ => in_place("div_", a, |a| div(a, b)),
    }
}

/// A number as an operand.
fn number(value: Scalar) -> Result<Tensor> {
    Tensor::wrapped_number(value)
}

/// `self^exponent`, for exponents that leave 0 as it is.
fn pow(tensor: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if exponent.is_complex() || exponent.to_f64().is_nan() || exponent.to_f64() <= 0.0 {
        return unsupported("pow", tensor, "a power that is not positive is not 0 at 0");
    }
    let tensor = if tensor.layout() == Layout::SparseCoo { coalesce(tensor)? } else { tensor.clone() };
    with_values(&tensor, |values| ops::pow_tensor_scalar(values, exponent))
}

rules! {
    ADD_TENSOR => |_, a, b, alpha| add("add", a, b, alpha);
    ADD__TENSOR => |_, a, b, alpha| add_("add_", a, b, alpha);
    SUB_TENSOR => |_, a, b, alpha| sub(a, b, alpha);
    SUB__TENSOR => |_, a, b, alpha| add_("sub_", a, b, negated(alpha)?);
    MUL_TENSOR => |_, a, b| mul(a, b);
    MUL_SCALAR => |_, a, b| mul(a, &number(b)?);
    MUL__TENSOR => |_, a, b| mul_(a, b);
    MUL__SCALAR => |_, a, b| mul_(a, &number(b)?);
    DIV_TENSOR => |_, a, b| div(a, b);
    DIV_SCALAR => |_, a, b| div(a, &number(b)?);
    DIV_TENSOR_MODE => |_, a, b, mode| quotient("div", a, b, |x, y| ops::div_tensor_mode(x, y, mode));
    FLOOR_DIVIDE => |_, a, b| quotient("floor_divide", a, b, ops::floor_divide);
    DIV__TENSOR => |_, a, b| div_(a, b);
    DIV__SCALAR => |_, a, b| div_(a, &number(b)?);
    POW_TENSOR_SCALAR => |_, tensor, exponent| pow(tensor, exponent);
}
