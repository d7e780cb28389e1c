//! `mm`, `bmm`, `addmm`, `baddbmm`, `mv`, `addmv` and `dot`: each is one matrix product, or one batch of them.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

mod complex_product;

use crate::gemm::{Addend, Gemm, GemmElement, Isa, gemm, gemm_batch};
use crate::native::shape::view;
use crate::structured::{TensorSpec, with_guards};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{Element, Guarded, Result, Scalar, StridedView, ensure, shape};

/// Checks that all operands are on one device.
pub(crate) fn ensure_same_device(name: &str, first: &Tensor, others: &[&Tensor]) -> Result<()> {
    for other in others {
        ensure!(
            other.device() == first.device(),
            Device(name),
            expected = first.device(),
            got = other.device(),
            "expected all tensors to be on the same device, but got at least two devices, {expected} and {got}"
        );
    }
    Ok(())
}

/// Checks that operands have the same device, type and inner size.
fn ensure_multiplies(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure_same_device(name, a, &[b])?;
    ensure!(
        a.dtype() == b.dtype(),
        Dtype(name, "mat2"),
        expected = a.dtype(),
        got = b.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {expected} != {got}"
    );
    let (a, b) = (a.sizes(), b.sizes());
    ensure!(
        a[1] == b[0],
        Shape(name, "mat2"),
        expected = format_args!("{}x{}", a[0], a[1]),
        got = format_args!("{}x{}", b[0], b[1]),
        "mat1 and mat2 shapes cannot be multiplied ({expected} and {got})"
    );
    Ok(())
}

fn ensure_matrix(name: &str, argument: &str, tensor: &Tensor) -> Result<()> {
    ensure!(
        tensor.dim() == 2,
        Shape(name, argument),
        expected = "2-D",
        got = format_args!("{}-D", tensor.dim()),
        "{argument} must be a matrix, got {got} tensor"
    );
    Ok(())
}

/// Checks that `self_` has the type of the product and broadcasts to `sizes`.
fn ensure_addend(name: &str, self_: &Tensor, product_of: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure_same_device(name, self_, &[product_of])?;
    ensure!(
        self_.dtype() == product_of.dtype(),
        Dtype(name, "mat2"),
        expected = self_.dtype(),
        got = product_of.dtype(),
        "self and mat2 must have the same dtype, but got {expected} and {got}"
    );
    shape::expand_strides(self_.sizes(), self_.strides(), sizes).map_err(|e| e.in_operator(name))?;
    Ok(())
}

/// Shape and type of [`mm`].
pub fn mm_meta(self_: &Tensor, mat2: &Tensor) -> Result<TensorSpec> {
    ensure_matrix("mm", "self", self_)?;
    ensure_matrix("mm", "mat2", mat2)?;
    ensure_multiplies("mm", self_, mat2)?;
    Ok(TensorSpec::like(self_, &[self_.sizes()[0], mat2.sizes()[1]]))
}

/// The matrix product of `self_` and `mat2`.
pub fn mm(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<()> {
    product("mm", self_, mat2, out)
}

/// Shape and type of [`bmm`].
pub fn bmm_meta(self_: &Tensor, mat2: &Tensor) -> Result<TensorSpec> {
    batch_meta("bmm", self_, mat2)
}

fn batch_meta(name: &str, batch1: &Tensor, batch2: &Tensor) -> Result<TensorSpec> {
    ensure!(batch1.dim() == 3, Shape(name, "batch1"), "batch1 must be a 3D tensor");
    ensure!(batch2.dim() == 3, Shape(name, "batch2"), "batch2 must be a 3D tensor");
    let (a, b) = (batch1.sizes(), batch2.sizes());
    ensure!(
        a[0] == b[0] && a[2] == b[1],
        Shape(name, "batch2"),
        expected = format_args!("[{}, {}]", a[0], a[2]),
        got = format_args!("[{}, {}]", b[0], b[1]),
        "Expected size for first two dimensions of batch2 tensor to be: {expected} but got: {got}."
    );
    ensure_same_device(name, batch1, &[batch2])?;
    ensure!(
        batch1.dtype() == batch2.dtype(),
        Dtype(name, "batch2"),
        expected = batch1.dtype(),
        got = batch2.dtype(),
        "expected scalar type {expected} but found {got}"
    );
    Ok(TensorSpec::like(batch1, &[a[0], a[1], b[2]]))
}

/// The product of each matrix in `self_` with the matrix at the same index in `mat2`.
pub fn bmm(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<()> {
    product("bmm", self_, mat2, out)
}

/// Shape and type of [`addmm`].
pub fn addmm_meta(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    _beta: Scalar,
    _alpha: Scalar,
) -> Result<TensorSpec> {
    ensure_matrix("addmm", "mat1", mat1)?;
    ensure_matrix("addmm", "mat2", mat2)?;
    ensure_multiplies("addmm", mat1, mat2)?;
    let sizes = [mat1.sizes()[0], mat2.sizes()[1]];
    ensure_addend("addmm", self_, mat2, &sizes)?;
    Ok(TensorSpec::like(mat1, &sizes))
}

/// `beta * self_ + alpha * mat1 mat2`; where `beta` is 0, `self_` is not read.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    add_product("addmm", [self_, mat1, mat2], out, beta, alpha)
}

/// Shape and type of [`baddbmm`].
pub fn baddbmm_meta(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    _beta: Scalar,
    _alpha: Scalar,
) -> Result<TensorSpec> {
    let spec = batch_meta("baddbmm", batch1, batch2)?;
    ensure_addend("baddbmm", self_, batch2, spec.sizes())?;
    Ok(spec)
}

/// `beta * self_ + alpha * batch1 batch2`, matrix by matrix; where `beta` is 0, `self_` is not read.
pub fn baddbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    add_product("baddbmm", [self_, batch1, batch2], out, beta, alpha)
}

/// Shape and type of [`mv`].
pub fn mv_meta(self_: &Tensor, vec: &Tensor) -> Result<TensorSpec> {
    vector_meta("mv", self_, vec)
}

fn vector_meta(name: &str, mat: &Tensor, vec: &Tensor) -> Result<TensorSpec> {
    ensure!(
        mat.dim() == 2 && vec.dim() == 1,
        Shape(name, "vec"),
        "matrix @ vector expected, got {}, {}",
        mat.dim(),
        vec.dim()
    );
    let (rows, columns) = (mat.sizes()[0], mat.sizes()[1]);
    ensure!(
        columns == vec.sizes()[0],
        Shape(name, "vec"),
        "size mismatch, got input ({rows}), mat ({rows}x{columns}), vec ({})",
        vec.sizes()[0]
    );
    ensure_same_device(name, mat, &[vec])?;
    ensure!(
        mat.dtype() == vec.dtype(),
        Dtype(name, "vec"),
        expected = mat.dtype(),
        got = vec.dtype(),
        "input tensors must have the same dtype, but got {expected} and {got}"
    );
    Ok(TensorSpec::like(mat, &[rows]))
}

/// The product of a matrix and a vector.
pub fn mv(self_: &Tensor, vec: &Tensor, out: &Tensor) -> Result<()> {
    product("mv", self_, vec, out)
}

/// Shape and type of [`addmv`].
pub fn addmv_meta(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    _beta: Scalar,
    _alpha: Scalar,
) -> Result<TensorSpec> {
    ensure!(
        self_.dim() <= 1,
        Shape("addmv", "vec"),
        "vector + matrix @ vector expected, got {}, {}, {}",
        self_.dim(),
        mat.dim(),
        vec.dim()
    );
    let spec = vector_meta("addmv", mat, vec)?;
    ensure_addend("addmv", self_, vec, spec.sizes())?;
    Ok(spec)
}

/// `beta * self_ + alpha * mat vec`; where `beta` is 0, `self_` is not read.
pub fn addmv(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    add_product("addmv", [self_, mat, vec], out, beta, alpha)
}

/// Shape and type of [`dot`].
pub fn dot_meta(self_: &Tensor, tensor: &Tensor) -> Result<TensorSpec> {
    let (a, b) = (self_.dim(), tensor.dim());
    ensure!(a == 1 && b == 1, Shape("dot", "tensor"), "1D tensors expected, but got {a}D and {b}D tensors");
    ensure_same_device("dot", self_, &[tensor])?;
    ensure!(
        self_.dtype() == tensor.dtype(),
        Dtype,
        operator = "dot",
        argument = "tensor",
        "dot : expected both vectors to have same dtype, but found {} and {}",
        self_.dtype(),
        tensor.dtype()
    );
    let (a, b) = (self_.numel(), tensor.numel());
    ensure!(
        a == b,
        Shape("dot", "tensor"),
        "inconsistent tensor size, expected tensor [{a}] and src [{b}] to have the same number of elements, \
         but got {a} and {b} elements respectively"
    );
    Ok(TensorSpec::like(self_, &[]))
}

/// The sum of the products of two vectors' elements.
pub fn dot(self_: &Tensor, tensor: &Tensor, out: &Tensor) -> Result<()> {
    product("dot", self_, tensor, out)
}

/// Shape and type of [`vdot`].
pub fn vdot_meta(self_: &Tensor, other: &Tensor) -> Result<TensorSpec> {
    dot_meta(self_, other)
}

/// [`dot`] with the conjugate of `self_`.
pub fn vdot(self_: &Tensor, other: &Tensor, out: &Tensor) -> Result<()> {
    dot(&ops::conj(self_)?, other, out)
}

fn add_product(
    name: &str,
    [self_, a, b]: [&Tensor; 3],
    out: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<()> {
    let addend = if beta.to_bool() { Some(view::expand(self_, out.sizes(), false)?) } else { None };
    scaled_product(name, [a, b, out], addend.as_ref().map(|addend| (addend, beta)), alpha)
}

/// `out = a b`.
fn product(name: &str, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<()> {
    scaled_product(name, [a, b, out], None, Scalar::Int(1))
}

/// `out = alpha * a b`, plus `beta` times an addend of the sizes of `out` if there is one. Three dimensions are a batch of
/// matrices; one dimension is a row for `a` and a column for `b`.
fn scaled_product(
    name: &str,
    operands: [&Tensor; 3],
    addend: Option<(&Tensor, Scalar)>,
    alpha: Scalar,
) -> Result<()> {
    let dtype = operands[2].dtype();
    // A sum of no products is 0, also times infinity.
    let is_empty = operands[0].sizes().last() == Some(&0);
    let alpha = if is_empty { Scalar::Int(1) } else { alpha };
    if dtype.is_complex() {
        return complex_product::scaled_product(name, operands, addend, alpha);
    }
    dispatch_all_types!(numbers, dtype, name, T => product_of::<T>(name, operands, addend, alpha))
}

/// The same for one type.
fn product_of<T>(
    name: &str,
    [a, b, out]: [&Tensor; 3],
    addend: Option<(&Tensor, Scalar)>,
    alpha: Scalar,
) -> Result<()>
where
    T: GemmElement<Scalar: Element> + Element,
{
    let factor = |value: Scalar| -> Result<T::Scalar> {
        let exact = T::SCALAR_TYPE.is_integral(false);
        value.check_range(if exact { T::SCALAR_TYPE } else { <T::Scalar>::SCALAR_TYPE })?;
        Ok(<T::Scalar>::from_scalar(value))
    };
    let (alpha, beta) = (factor(alpha)?, factor(addend.map_or(Scalar::Int(0), |(_, beta)| beta))?);
    let of_out = if a.dim() == 1 || out.dim() != 1 { Batch::<T>::rows } else { Batch::columns };
    let addend = addend.map(|(tensor, _)| tensor);
    with_guards(name, &[a, b, addend.unwrap_or(a)][..2 + usize::from(addend.is_some())], &[out], |guarded| {
        let (x, y) = (Batch::<T>::rows(guarded, a), Batch::<T>::columns(guarded, b));
        let (z, added) = (of_out(guarded, out), addend.map(|addend| of_out(guarded, addend)));
        // SAFETY: the guards are held; `out` has the product's shape, its elements are distinct, and it shares no storage
        // with the operands (`TensorSpec::for_out` ensures both).
        z.packing(&x, || unsafe { z.scale_and_add(&x, &y, added.as_ref(), [alpha, beta]) })
            .map_err(|e| e.in_operator(name))
    })
}

/// Multiply-adds up to which the matrix product does not pack its operands.
const UNPACKED_WORK: usize = 1 << 13;

/// A tensor as a batch of matrices.
pub(crate) struct Batch<T> {
    first: *mut T,
    count: usize,
    step: isize,
    sizes: [usize; 2],
    strides: [isize; 2],
}

// SAFETY: an address only; the products that access it have disjoint results.
unsafe impl<T> Sync for Batch<T> {}

impl<T> Batch<T> {
    /// A vector is one row; a number is one row of one element.
    fn rows(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        let view = tensor.strided_view();
        match (view.sizes(), view.strides()) {
            ([length], [stride]) => Self::new(guarded, view, (1, 0), [1, *length], [0, *stride]),
            ([], _) => Self::new(guarded, view, (1, 0), [1, 1], [0, 0]),
            _ => Self::of_matrices(guarded, view),
        }
    }

    /// A vector is one column.
    fn columns(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        let view = tensor.strided_view();
        match (view.sizes(), view.strides()) {
            ([length], [stride]) => Self::new(guarded, view, (1, 0), [*length, 1], [*stride, 0]),
            _ => Self::of_matrices(guarded, view),
        }
    }

    /// The matrices of the last two dimensions; a dimension before them is the batch.
    pub(crate) fn matrices(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        Self::of_matrices(guarded, tensor.strided_view())
    }

    fn of_matrices(guarded: Guarded<'_>, view: StridedView<'_>) -> Self {
        let (batch, sizes, strides) = match (view.sizes(), view.strides()) {
            ([m, n], [row, column]) => ((1, 0), [*m, *n], [*row, *column]),
            ([count, m, n], [step, row, column]) => ((*count, *step), [*m, *n], [*row, *column]),
            _ => ((0, 0), [0, 0], [0, 0]),
        };
        Self::new(guarded, view, batch, sizes, strides)
    }

    /// A vector as an addend that is repeated for each row of the result.
    pub(crate) fn repeated(guarded: Guarded<'_>, vector: &Tensor) -> Self {
        let view = vector.strided_view();
        let step = view.strides().first().copied().unwrap_or(1);
        Self::new(guarded, view, (1, 0), [1, view.numel()], [0, step])
    }

    /// All rows of a contiguous tensor as one matrix.
    pub(crate) fn dense_rows(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        let view = tensor.strided_view();
        let [columns, rows] = match view.sizes() {
            [rows, columns] => [*columns, *rows],
            [leading @ .., last] => [*last, shape::product(leading)],
            [] => [1, 1],
        };
        Self::new(guarded, view, (1, 0), [rows, columns], [columns, 1])
    }

    /// Transposed.
    pub(crate) fn transposed(self) -> Self {
        let ([m, n], [row, column]) = (self.sizes, self.strides);
        Self { sizes: [n, m], strides: [column, row], ..self }
    }

    fn new(
        guarded: Guarded<'_>,
        view: StridedView<'_>,
        (count, step): (i64, i64),
        sizes: [i64; 2],
        strides: [i64; 2],
    ) -> Self {
        Self {
            first: guarded.ptr(view).cast(),
            count: count as usize,
            step: step as isize,
            sizes: sizes.map(|size| size as usize),
            strides: strides.map(|stride| stride as isize),
        }
    }

    fn at(&self, index: usize) -> *mut T {
        self.first.wrapping_offset(index as isize * self.step)
    }
}

impl<T: GemmElement> Batch<T> {
    /// `self = alpha * a b + beta * addend`, matrix by matrix.
    ///
    /// # Safety
    /// - The guards of all are held; `self` has the products' sizes and distinct elements, and shares none with the others; an
    ///   addend has its sizes; without one `beta` is 0.
    unsafe fn scale_and_add(&self, a: &Self, b: &Self, addend: Option<&Self>, [alpha, beta]: [T::Scalar; 2]) {
        let item = |i| Gemm {
            m: a.sizes[0],
            n: b.sizes[1],
            k: a.sizes[1],
            a: a.at(i),
            a_strides: a.strides,
            b: b.at(i),
            b_strides: b.strides,
            c: self.at(i),
            c_strides: self.strides,
            alpha,
            beta,
            addend: addend.map(|d| Addend { first: d.at(i).cast_const(), strides: d.strides }),
        };
        // SAFETY: the caller's conditions.
        unsafe {
            match self.count {
                1 => gemm(Isa::detected(), &item(0)),
                count => gemm_batch(Isa::detected(), count, item),
            }
        }
    }

    /// Runs `product`, which computes a product of `a` into this batch. Fails if memory for packing cannot be allocated.
    #[inline]
    pub(crate) fn packing(&self, a: &Self, product: impl Fn()) -> Result<()> {
        if self.count == 1 && self.sizes[0] * self.sizes[1] * a.sizes[1] <= UNPACKED_WORK {
            product();
            return Ok(());
        }
        scratch::catch(|| {
            product();
            Ok(())
        })
    }
}

impl<T: GemmElement<Scalar: Element>> Batch<T> {
    /// `self = a b`, and an addend if there is one.
    ///
    /// # Safety
    /// - As [`scale_and_add`](Self::scale_and_add).
    pub(crate) unsafe fn take_product(&self, a: &Self, b: &Self, addend: Option<&Self>) {
        let [zero, one] = [0, 1].map(|value| <T::Scalar>::from_scalar(Scalar::Int(value)));
        // SAFETY: the caller's conditions.
        unsafe { self.scale_and_add(a, b, addend, [one, if addend.is_some() { one } else { zero }]) };
    }
}
