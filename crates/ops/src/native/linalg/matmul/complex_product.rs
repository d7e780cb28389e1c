//! Products of complex matrices, with the sums and factors of `addmm` and its relatives.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use super::Batch;
use crate::gemm::{ComplexGemm, Gemm, GemmElement, Isa, complex_gemm_batch};
use crate::structured::{TensorSpec, with_guards};
use crate::{Tensor, ops, scratch};
use flambeau_core::{Complex, Element, Result, Scalar, ScalarType, bail};

/// `out = alpha * a b`, plus `beta` times an addend if there is one.
pub(super) fn scaled_product(
    name: &str,
    [a, b, out]: [&Tensor; 3],
    addend: Option<(&Tensor, Scalar)>,
    alpha: Scalar,
) -> Result<()> {
    if alpha == Scalar::Int(1) && addend.is_none() {
        return product(name, [a, b, out]);
    }
    let made = TensorSpec::like(out, out.sizes()).allocate(name)?;
    product(name, [a, b, &made])?;
    if alpha != Scalar::Int(1) {
        ops::mul__scalar(&made, alpha)?;
    }
    if let Some((addend, beta)) = addend {
        // As an integer, since `add_` takes a bool for bool tensors only.
        let beta = if let Scalar::Bool(b) = beta { Scalar::Int(b.into()) } else { beta };
        // An infinite addend times a real number stays infinite: `add_` multiplies part by part.
        ops::add__tensor(&made, addend, beta)?;
    }
    ops::copy_(out, &made, false)
}

/// `out = a b`.
fn product(name: &str, operands: [&Tensor; 3]) -> Result<()> {
    match operands[2].dtype() {
        ScalarType::Complex64 => product_of::<f32>(name, operands),
        ScalarType::Complex128 => product_of::<f64>(name, operands),
        other => bail!(NotImplemented(name, "self"), "\"{name}\" not implemented for '{other}'"),
    }
}

/// The same for complex numbers of one type.
fn product_of<T: GemmElement<Scalar: Element>>(name: &str, [a, b, out]: [&Tensor; 3]) -> Result<()> {
    type Complexes<T> = Batch<Complex<T>>;
    let of_out = if a.dim() == 1 || out.dim() != 1 { Complexes::<T>::rows } else { Batch::columns };
    let factor = |value: i64| <T::Scalar>::from_scalar(Scalar::Int(value));
    with_guards(name, &[a, b], &[out], |guarded| {
        let (x, y) = (Complexes::<T>::rows(guarded, a), Complexes::<T>::columns(guarded, b));
        let z = of_out(guarded, out);
        let item = |i| {
            let product = Gemm {
                m: x.sizes[0],
                n: y.sizes[1],
                k: x.sizes[1],
                a: x.at(i).cast::<T>(),
                a_strides: x.strides,
                b: y.at(i).cast::<T>(),
                b_strides: y.strides,
                c: z.at(i).cast::<T>(),
                c_strides: z.strides,
                alpha: factor(1),
                beta: factor(0),
                addend: None,
            };
            ComplexGemm { product, conjugate: [false; 2] }
        };
        scratch::catch(|| {
            // SAFETY: the guards are held; `out` has the product's shape, its elements are distinct, and it shares no storage with the
            // operands (`TensorSpec::for_out` ensures both).
            unsafe { complex_gemm_batch(Isa::detected(), z.count, item) };
            Ok(())
        })
        .map_err(|e| e.in_operator(name))
    })
}
