//! Conversions that may fail: `Vec`s of any depth to tensors, and tensors to numbers, `Vec`s and `Vec`s of rows.

use super::Tensor;
use super::construct::TensorData;
use flambeau_core::{Complex, Element, Error, Result, ensure, fallible};

mod sealed {
    pub trait Sealed {}
}

/// What a `Vec` that becomes a tensor has in it: numbers, arrays, or `Vec`s of them to any depth. Sealed.
pub trait NestedData: sealed::Sealed + Sized {
    /// The numbers inside.
    type Element: Element;

    /// Appends the sizes of `first`, outermost first; where there is none, as many zeros.
    #[doc(hidden)]
    fn sizes(first: Option<&Self>, into: &mut Vec<i64>);

    /// The numbers of all of `list`, each of which must have `sizes`.
    #[doc(hidden)]
    fn flatten(list: Vec<Self>, sizes: &[i64]) -> Result<Vec<Self::Element>>;
}

impl<D: TensorData> sealed::Sealed for D {}
impl<D: TensorData> NestedData for D {
    type Element = D::Element;

    fn sizes(_: Option<&Self>, into: &mut Vec<i64>) {
        D::sizes(into);
    }

    fn flatten(list: Vec<Self>, _: &[i64]) -> Result<Vec<D::Element>> {
        D::flatten(list)
    }
}

impl<N: NestedData> sealed::Sealed for Vec<N> {}
impl<N: NestedData> NestedData for Vec<N> {
    type Element = N::Element;

    fn sizes(first: Option<&Self>, into: &mut Vec<i64>) {
        into.push(first.map_or(0, |list| list.len() as i64));
        N::sizes(first.and_then(|list| list.first()), into);
    }

    fn flatten(list: Vec<Self>, sizes: &[i64]) -> Result<Vec<N::Element>> {
        let Some((&len, inner)) = sizes.split_first() else { return Ok(Vec::new()) };
        let mut flat = fallible::with_capacity(list.len().saturating_mul(len as usize))?;
        for row in list {
            ensure!(
                row.len() as i64 == len,
                Shape,
                argument = "data",
                expected = len,
                got = row.len(),
                "expected lists of one length but got one of {expected} elements and one of {got}"
            );
            flat.extend(row);
        }
        N::flatten(flat, inner)
    }
}

/// The values, with the type they have in Rust. Numbers of a flat `Vec` are not copied.
///
/// Fails with `Shape` where lists beside each other have different lengths, and with `OutOfMemory`.
///
/// ```
/// use flambeau_ops::Tensor;
/// let t = Tensor::try_from(vec![vec![1.0f32, 2.0, 3.0], vec![4.0, 5.0, 6.0]])?;
/// assert_eq!(t.sizes(), &[2, 3]);
/// let ragged = Tensor::try_from(vec![vec![1i64, 2], vec![3]]).unwrap_err();
/// assert_eq!(ragged.to_string(), "from_vec: expected lists of one length but got one of 2 elements and one of 1");
/// # Ok::<(), flambeau_ops::Error>(())
/// ```
impl<N: NestedData> TryFrom<Vec<N>> for Tensor {
    type Error = Error;

    fn try_from(data: Vec<N>) -> Result<Tensor> {
        let mut sizes = Vec::new();
        <Vec<N> as NestedData>::sizes(Some(&data), &mut sizes);
        let flat = N::flatten(data, &sizes[1..]).map_err(|e| e.in_operator("from_vec"))?;
        Tensor::from_vec(flat, &sizes)
    }
}

/// A number from a tensor of one element, a `Vec` from one of one dimension, and a `Vec` of rows from a matrix, each of the tensor's own
/// type.
macro_rules! from_tensor {
    ($($rust:ty),*) => {$(
        impl TryFrom<&Tensor> for $rust {
            type Error = Error;

            fn try_from(tensor: &Tensor) -> Result<$rust> {
                tensor.item()
            }
        }

        impl TryFrom<&Tensor> for Vec<$rust> {
            type Error = Error;

            fn try_from(tensor: &Tensor) -> Result<Vec<$rust>> {
                ensure!(
                    tensor.dim() == 1,
                    Shape("to_vec", "self"),
                    expected = "1 dimension",
                    got = format_args!("sizes {:?}", tensor.sizes()),
                    "expected {expected} but got {got}"
                );
                tensor.to_vec()
            }
        }

        impl TryFrom<&Tensor> for Vec<Vec<$rust>> {
            type Error = Error;

            fn try_from(tensor: &Tensor) -> Result<Vec<Vec<$rust>>> {
                tensor.to_vec2()
            }
        }
    )*};
}

from_tensor!(bool, u8, i8, i16, i32, i64, half::f16, half::bf16, f32, f64, Complex<f32>, Complex<f64>);
