//! Matrix products: `mm`, `bmm`, `addmm`, `baddbmm`, `mv`, `dot`, `_linear` and its derivative, all by cuBLAS where it is installed and takes the operands, or else by
//! one tiled kernel.

use super::{empty, number_name_of, program, structured};
use crate::blas::{Gemm, Matrix};
use crate::launch::{Arguments, Grid, ceil_div, gpu_of, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar, shape};
use flambeau_ops::native::linalg::{linear, matmul};
use flambeau_ops::{Tensor, ops, register};

structured! {
    MM MM_OUT "mm" matmul::mm_meta, mm: (self_: &Tensor, mat2: &Tensor) reads [self_, mat2];
    BMM BMM_OUT "bmm" matmul::bmm_meta, bmm: (self_: &Tensor, mat2: &Tensor) reads [self_, mat2];
    MV MV_OUT "mv" matmul::mv_meta, mv: (self_: &Tensor, vec: &Tensor) reads [self_, vec];
    DOT DOT_OUT "dot" matmul::dot_meta, dot: (self_: &Tensor, tensor: &Tensor) reads [self_, tensor];
    VDOT VDOT_OUT "vdot" matmul::vdot_meta, vdot: (self_: &Tensor, other: &Tensor) reads [self_, other];
    ADDMV ADDMV_OUT "addmv" matmul::addmv_meta, addmv:
        (self_: &Tensor, mat: &Tensor, vec: &Tensor, beta: flambeau_core::Scalar, alpha: flambeau_core::Scalar)
        reads [self_, mat, vec];
    ADDMM ADDMM_OUT "addmm" matmul::addmm_meta, addmm:
        (self_: &Tensor, mat1: &Tensor, mat2: &Tensor, beta: flambeau_core::Scalar, alpha: flambeau_core::Scalar)
        reads [self_, mat1, mat2];
    BADDBMM BADDBMM_OUT "baddbmm" matmul::baddbmm_meta, baddbmm:
        (self_: &Tensor, batch1: &Tensor, batch2: &Tensor, beta: flambeau_core::Scalar, alpha: flambeau_core::Scalar)
        reads [self_, batch1, batch2];
}

register!(ops::_LINEAR, Cuda, linear_kernel);
register!(ops::_LINEAR_WEIGHT_BACKWARD, Cuda, linear_weight_backward_kernel);

/// A batch of matrices: the strides of a batch, of rows and of columns, in elements.
#[derive(Clone)]
pub(super) struct Batch {
    tensor: Tensor,
    strides: [i64; 3],
}

impl Batch {
    /// A matrix, or a batch of them.
    pub(super) fn of(tensor: &Tensor) -> Self {
        let strides = match *tensor.strides() {
            [batch, rows, columns] => [batch, rows, columns],
            [rows, columns] => [0, rows, columns],
            [element] => [0, element, 0],
            _ => [0; 3],
        };
        Batch { tensor: tensor.clone(), strides }
    }

    pub(super) fn transposed(mut self) -> Self {
        self.strides.swap(1, 2);
        self
    }

    /// An addend, broadcast to a batch of matrices of these sizes.
    fn broadcast(tensor: &Tensor, sizes: [i64; 3]) -> Result<Self> {
        let strides = shape::expand_strides(tensor.sizes(), tensor.strides(), &sizes)?;
        Ok(Batch { tensor: tensor.clone(), strides: [strides[0], strides[1], strides[2]] })
    }

    fn matrix(&self) -> Matrix {
        let [batch, rows, columns] = self.strides;
        Matrix { address: crate::launch::address(&self.tensor), rows, columns, batch }
    }

    /// The structure of the kernel.
    fn structure(&self) -> [u64; 4] {
        let [batch, rows, columns] = self.strides.map(|stride| stride as u64);
        [crate::launch::address(&self.tensor), rows, columns, batch]
    }
}

/// `alpha * a b + beta * addend`, for `batch` products of `m x k` and `k x n` matrices.
pub(super) struct Product {
    pub(super) name: &'static str,
    pub(super) sizes: [i64; 4],
    pub(super) alpha: f64,
    pub(super) addend: Option<(Batch, f64)>,
}

/// Rows and columns of a tile.
const SIDE: i64 = 64;

impl Product {
    pub(super) fn new(name: &'static str, [batch, m, n, k]: [i64; 4]) -> Self {
        Product { name, sizes: [batch, m, n, k], alpha: 1.0, addend: None }
    }

    pub(super) fn run(&self, a: &Batch, b: &Batch, out: &Batch) -> Result<()> {
        let [batch, m, n, _] = self.sizes;
        if batch == 0 || m == 0 || n == 0 {
            return Ok(());
        }
        if self.run_blas(a, b, out)? { Ok(()) } else { self.run_own(a, b, out) }
    }

    /// By cuBLAS, if that takes it; the addend is copied into the result beforehand.
    fn run_blas(&self, a: &Batch, b: &Batch, out: &Batch) -> Result<bool> {
        let dtype = out.tensor.dtype();
        if !dtype.is_floating_point() || !gpu_of(&out.tensor)?.has_blas() {
            return Ok(false);
        }
        if let Some((addend, _)) = &self.addend {
            ops::copy_(&out.tensor, &addend.tensor, false)?;
        }
        let beta = self.addend.as_ref().map_or(0.0, |(_, beta)| *beta);
        let gemm = Gemm { dtype, sizes: self.sizes, alpha: self.alpha, beta };
        let mut done = false;
        guarded(self.name, &[&a.tensor, &b.tensor], &[&out.tensor], |gpu| {
            done = gpu.gemm(&gemm, a.matrix(), b.matrix(), out.matrix())?;
            Ok(())
        })?;
        Ok(done)
    }

    fn run_own(&self, a: &Batch, b: &Batch, out: &Batch) -> Result<()> {
        let [batch, m, n, k] = self.sizes;
        let dtype = number_name_of(self.name, out.tensor.dtype())?;
        let mut reads = vec![&a.tensor, &b.tensor];
        reads.extend(self.addend.as_ref().map(|(addend, _)| &addend.tensor));
        guarded(self.name, &reads, &[&out.tensor], |gpu| {
            let function = gpu.function(&format!("matmul {dtype}"), || {
                program(&format!("typedef {dtype} T;\n"), &[include_str!("../kernels/matmul.cu")])
            })?;
            let addend = self.addend.as_ref().map_or([0; 4], |(addend, _)| addend.structure());
            let beta = self.addend.as_ref().map_or(0.0, |(_, beta)| *beta);
            let (a, b, out) = (a.structure(), b.structure(), out.structure());
            let arguments = Arguments::new().int(m).int(n).int(k).int(batch).double(self.alpha).double(beta);
            let arguments = arguments.structure(&a).structure(&b).structure(&addend).structure(&out);
            let blocks = [ceil_div(m, SIDE), ceil_div(n, SIDE), batch.min(65535)];
            gpu.launch(function, Grid { blocks, threads: 256 }, &arguments)
        })
    }
}

fn size(tensor: &Tensor, d: usize) -> i64 {
    tensor.sizes().get(d).copied().unwrap_or(1)
}

fn mm(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<()> {
    let sizes = [1, size(self_, 0), size(mat2, 1), size(mat2, 0)];
    Product::new("mm", sizes).run(&Batch::of(self_), &Batch::of(mat2), &Batch::of(out))
}

fn bmm(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<()> {
    let sizes = [size(self_, 0), size(self_, 1), size(mat2, 2), size(mat2, 1)];
    Product::new("bmm", sizes).run(&Batch::of(self_), &Batch::of(mat2), &Batch::of(out))
}

fn mv(self_: &Tensor, vec: &Tensor, out: &Tensor) -> Result<()> {
    let sizes = [1, size(self_, 0), 1, size(vec, 0)];
    Product::new("mv", sizes).run(&Batch::of(self_), &Batch::of(vec), &Batch::of(out))
}

fn dot(self_: &Tensor, tensor: &Tensor, out: &Tensor) -> Result<()> {
    let sizes = [1, 1, 1, size(tensor, 0)];
    Product::new("dot", sizes).run(&Batch::of(self_).transposed(), &Batch::of(tensor), &Batch::of(out))
}

/// The conjugate of the first.
fn vdot(self_: &Tensor, other: &Tensor, out: &Tensor) -> Result<()> {
    if self_.dtype().is_complex() {
        dot(&ops::_conj_physical(self_)?, other, out)
    } else {
        dot(self_, other, out)
    }
}

/// As a product with a matrix of one column.
fn addmv(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    let column = |t: &Tensor| ops::unsqueeze(t, -1);
    let addend = if self_.dim() == 0 { self_.clone() } else { column(self_)? };
    addmm(&addend, mat, &column(vec)?, beta, alpha, &column(out)?)
}

/// `out = alpha * a b + beta * addend`; where `beta` is 0, the addend is not read.
fn product_and_addend(
    mut product: Product,
    [a, b]: [&Tensor; 2],
    addend: &Tensor,
    [beta, alpha]: [Scalar; 2],
    out: &Tensor,
) -> Result<()> {
    let [batch, m, n, _] = product.sizes;
    if alpha.is_complex() || beta.is_complex() {
        // The kernel has real factors.
        let made = empty(out.sizes(), out.dtype(), out.device())?;
        product.run(&Batch::of(a), &Batch::of(b), &Batch::of(&made))?;
        ops::mul__scalar(&made, alpha)?;
        if beta.to_bool() {
            ops::add__tensor(&made, addend, beta)?;
        }
        return ops::copy_(out, &made, false);
    }
    product.alpha = alpha.to_f64();
    if beta.to_f64() != 0.0 {
        product.addend = Some((Batch::broadcast(addend, [batch, m, n])?, beta.to_f64()));
    }
    product.run(&Batch::of(a), &Batch::of(b), &Batch::of(out))
}

fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    let sizes = [1, size(mat1, 0), size(mat2, 1), size(mat2, 0)];
    product_and_addend(Product::new("addmm", sizes), [mat1, mat2], self_, [beta, alpha], out)
}

fn baddbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    let sizes = [size(batch1, 0), size(batch1, 1), size(batch2, 2), size(batch2, 1)];
    product_and_addend(Product::new("baddbmm", sizes), [batch1, batch2], self_, [beta, alpha], out)
}

/// The rows of a tensor as one matrix.
fn rows(tensor: &Tensor) -> Result<Tensor> {
    match tensor.sizes() {
        [_, _] => Ok(tensor.clone()),
        [leading @ .., last] => ops::reshape(tensor, &[shape::numel(leading)?, *last]),
        [] => ops::reshape(tensor, &[1, 1]),
    }
}

fn linear_kernel(
    _: DispatchKeySet,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let out = linear::_linear_meta(input, weight, bias)?.allocate("_linear")?;
    linear_product(input, weight, bias, &out)?;
    Ok(out)
}

fn linear_weight_backward_kernel(_: DispatchKeySet, grad_output: &Tensor, input: &Tensor) -> Result<Tensor> {
    let out =
        linear::_linear_weight_backward_meta(grad_output, input)?.allocate("_linear_weight_backward")?;
    linear_weight_backward(grad_output, input, &out)?;
    Ok(out)
}

fn linear_product(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: &Tensor) -> Result<()> {
    let (input, result) = (rows(input)?, rows(out)?);
    let sizes = [1, size(&input, 0), size(weight, 0), size(weight, 1)];
    let mut product = Product::new("_linear", sizes);
    if let Some(bias) = bias {
        product.addend = Some((Batch::broadcast(bias, [1, sizes[1], sizes[2]])?, 1.0));
    }
    product.run(&Batch::of(&input), &Batch::of(weight).transposed(), &Batch::of(&result))
}

fn linear_weight_backward(grad_output: &Tensor, input: &Tensor, out: &Tensor) -> Result<()> {
    let (grad, input) = (rows(grad_output)?, rows(input)?);
    let sizes = [1, size(&grad, 1), size(&input, 1), size(&grad, 0)];
    Product::new("_linear_weight_backward", sizes).run(
        &Batch::of(&grad).transposed(),
        &Batch::of(&input),
        &Batch::of(out),
    )
}
