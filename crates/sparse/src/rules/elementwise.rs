//! Sums, differences, products and quotients. A product keeps the pattern of its sparse operand, or what two of them have in common; a
//! quotient that of the dividend. A sum of a sparse and a strided tensor is strided.

use super::copies::{coalesce_, promoted, with_values};
use super::{check_same_sizes, rules, unsupported};
use crate::convert::{as_layout_of, coalesce, coo_of, gathered};
use crate::dense::{ONE, cast, product, reshape, rows, scaled};
use crate::parts::{Coo, is_sparse};
use flambeau_core::{Layout, Result, Scalar, ensure};
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
    let (first, second) = (coo_of(&a)?, coo_of(&b)?);
    ensure!(
        first.sparse_dim() == second.sparse_dim(),
        InvalidArgument(name),
        "expected the same number of sparse dimensions but got {} and {}",
        first.sparse_dim(),
        second.sparse_dim()
    );
    let joined = Coo {
        indices: ops::cat(&[first.indices.clone(), second.indices], 1)?,
        values: ops::cat(&[first.values.clone(), scaled(&second.values, alpha)?], 0)?,
        is_coalesced: false,
        ..first
    };
    as_layout_of(&joined.coalesced()?, &a)
}

/// A strided tensor plus a multiple of a sparse one.
fn add_to_strided(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_same_sizes(name, a, b)?;
    let (a, b) = promoted(a, b)?;
    let coo = coo_of(&b)?;
    let flat = reshape(&a, &crate::dense::joined(&[&[product(coo.sparse_sizes())?], coo.dense_sizes()]))?;
    let sum = ops::index_add(&flat, 0, &coo.keys()?, &coo.values, alpha)?;
    reshape(&sum, &coo.sizes)
}

/// `a += alpha b`.
fn add_(name: &str, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    match (is_sparse(a), is_sparse(b)) {
        (true, true) => {
            let sum = with_values(&add_sparse(name, a, b, alpha)?, |values| cast(values, a.dtype()))?;
            sum.sparse_parts().map_or(Ok(()), |parts| a.replace_sparse_parts(parts))
        }
        (false, true) => {
            check_same_sizes(name, a, b)?;
            let coo = coo_of(b)?;
            crate::parts::check_coordinates("indices", &coo.indices, coo.sparse_sizes())?;
            let values = cast(&scaled(&coo.values, alpha)?, a.dtype())?;
            if coo.sparse_dim() == 1 {
                return ops::index_add_(a, 0, &coo.row(0)?, &values, ONE);
            }
            let indices: Result<Vec<Option<Tensor>>> =
                (0..coo.sparse_dim()).map(|d| coo.row(d).map(Some)).collect();
            ops::index_put_(a, &indices?, &values, true)
        }
        _ => unsupported(name, a, "a strided tensor cannot be added to a sparse one in place"),
    }
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

/// The result of `f` on values and the elements of a strided tensor at their coordinates, which broadcasts.
fn with_strided(
    name: &str,
    sparse: &Tensor,
    strided: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if is_number(strided) {
        let sparse = if sparse.layout() == Layout::SparseCoo { coalesce(sparse)? } else { sparse.clone() };
        return with_values(&sparse, |values| f(values, strided));
    }
    let expanded = ops::expand(strided, sparse.sizes(), false).map_err(|e| e.in_operator(name))?;
    let coo = coo_of(sparse)?.coalesced()?;
    let at = gathered(&expanded, &coo)?;
    as_layout_of(&coo.with_values(f(&coo.values, &at.values)?), sparse)
}

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, true) => mul_sparse(a, b),
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

fn div(a: &Tensor, b: &Tensor, f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match (is_sparse(a), is_sparse(b)) {
        (true, false) => with_strided("div", a, b, f),
        _ => unsupported("div", b, "a quotient by a sparse tensor divides by zeros"),
    }
}

/// Replaces the values of a sparse tensor by those of a result of the same pattern.
fn in_place(tensor: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    coalesce_(tensor)?;
    let result = with_values(&f(tensor)?, |values| cast(values, tensor.dtype()))?;
    ensure!(
        result.layout() == tensor.layout(),
        InvalidArgument,
        "expected a result of layout {} but got {}",
        tensor.layout(),
        result.layout()
    );
    result.sparse_parts().map_or(Ok(()), |parts| tensor.replace_sparse_parts(parts))
}

fn mul_(a: &Tensor, b: &Tensor) -> Result<()> {
    match is_sparse(a) {
        true => in_place(a, |a| mul(a, b)),
        false => ops::mul__tensor(a, &crate::to_dense(b)?),
    }
}

fn div_(a: &Tensor, b: &Tensor) -> Result<()> {
    in_place(a, |a| div(a, b, ops::div_tensor))
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
    DIV_TENSOR => |_, a, b| div(a, b, ops::div_tensor);
    DIV_SCALAR => |_, a, b| div(a, &number(b)?, ops::div_tensor);
    DIV_TENSOR_MODE => |_, a, b, mode| div(a, b, |x, y| ops::div_tensor_mode(x, y, mode));
    FLOOR_DIVIDE => |_, a, b| div(a, b, ops::floor_divide);
    DIV__TENSOR => |_, a, b| div_(a, b);
    DIV__SCALAR => |_, a, b| div_(a, &number(b)?);
    POW_TENSOR_SCALAR => |_, tensor, exponent| pow(tensor, exponent);
}
