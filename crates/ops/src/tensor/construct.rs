//! Tensors from Rust values: scalars, nested arrays, slices, iterators.

use super::Tensor;
use flambeau_core::sizes_and_strides::MAX_DIMS;
use flambeau_core::{
    Complex, Element, F8E4M3FN, F8E5M2, F8E8M0FNU, Result, Scalar, ScalarType, TensorOptions, default_dtype,
    ensure, fallible,
};
use std::alloc::{Layout, handle_alloc_error};

mod sealed {
    pub trait Sealed {}
}

/// A number, or arrays of them to any depth: what a tensor can be made of. Sealed.
pub trait TensorData: sealed::Sealed + Copy {
    /// The numbers inside.
    type Element: Element;

    /// How many dimensions.
    const DIMS: usize;

    /// Appends the sizes, outermost first.
    fn sizes(into: &mut Vec<i64>);

    /// Appends the numbers, in logical order.
    fn elements(&self, into: &mut Vec<Self::Element>);

    /// The numbers of all of `list`, in order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn flatten(list: Vec<Self>) -> Result<Vec<Self::Element>> {
        let mut elements = fallible::with_capacity(
            list.len().saturating_mul(size_of::<Self>()) / size_of::<Self::Element>(),
        )?;
        list.iter().for_each(|data| data.elements(&mut elements));
        Ok(elements)
    }
}

macro_rules! numbers {
    ($($rust:ty),*) => {$(
        impl sealed::Sealed for $rust {}
        impl TensorData for $rust {
            type Element = $rust;

            const DIMS: usize = 0;

            fn sizes(_: &mut Vec<i64>) {}

            fn elements(&self, into: &mut Vec<$rust>) {
                into.push(*self);
            }

            fn flatten(list: Vec<$rust>) -> Result<Vec<$rust>> {
                Ok(list)
            }
        }
    )*};
}

numbers!(
    bool,
    u8,
    i8,
    i16,
    i32,
    i64,
    half::f16,
    half::bf16,
    f32,
    f64,
    Complex<f32>,
    Complex<f64>,
    u16,
    u32,
    u64,
    F8E4M3FN,
    F8E5M2,
    F8E8M0FNU,
    Complex<half::f16>
);

impl<D: TensorData, const N: usize> sealed::Sealed for [D; N] {}
impl<D: TensorData, const N: usize> TensorData for [D; N] {
    type Element = D::Element;

    const DIMS: usize = 1 + D::DIMS;

    fn sizes(into: &mut Vec<i64>) {
        // An array of zero-sized arrays may be longer than an i64.
        const { assert!(N <= i64::MAX as usize && Self::DIMS <= MAX_DIMS) };
        into.push(N as i64);
        D::sizes(into);
    }

    fn elements(&self, into: &mut Vec<D::Element>) {
        self.iter().for_each(|inner| inner.elements(into));
    }
}

fn parts<D: TensorData>(data: &D) -> Result<(Vec<D::Element>, Vec<i64>)> {
    let mut elements = fallible::with_capacity(size_of::<D>() / size_of::<D::Element>())?;
    let mut sizes = Vec::with_capacity(D::DIMS);
    data.elements(&mut elements);
    D::sizes(&mut sizes);
    Ok((elements, sizes))
}

/// The values with the type they have in Rust: `f64` for a plain `1.0`, `i32` for a plain `1`. [`Tensor::new`] gives
/// them PyTorch's default types, and [`Tensor::from_array`] is the same with an error where memory runs out: here the process then ends,
/// as it does for `Vec`.
///
/// ```
/// use flambeau_ops::Tensor;
/// let t = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(t.sizes(), &[2, 3]);
/// assert_eq!(Tensor::from(true).dim(), 0);
/// ```
impl<D: TensorData> From<D> for Tensor {
    fn from(data: D) -> Self {
        // Sizes are checked at compile time, so that only memory can be missing.
        Tensor::from_array(data).unwrap_or_else(|_| handle_alloc_error(Layout::new::<D>()))
    }
}

impl Tensor {
    /// The values as `torch.tensor` takes them: what a plain literal would be in Rust, f64 or i32, gets the default floating
    /// point type or i64, and other types stay, unless `options` has another; `()` has none.
    ///
    /// # Errors
    /// `InvalidArgument` where a value does not fit the type, `Device` or `OutOfMemory` where the device cannot hold it.
    ///
    /// ```
    /// use flambeau_core::ScalarType;
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::new([[1.0, 2.0], [3.0, 4.5]], ())?;
    /// assert_eq!(t.to_string(), "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])");
    /// assert_eq!(Tensor::new([1, 2], ())?.dtype(), ScalarType::I64);
    /// assert_eq!(Tensor::new([1, 2], ScalarType::F16)?.dtype(), ScalarType::F16);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn new<D: TensorData>(data: D, options: impl Into<TensorOptions>) -> Result<Tensor> {
        let options = options.into();
        let (elements, sizes) = parts(&data).map_err(|e| e.in_operator("new"))?;
        let dtype = options.dtype.unwrap_or_else(|| of_literals(D::Element::SCALAR_TYPE));
        let host = crate::dispatch_all_types!(stored, dtype, "new", T => {
            let converted: Result<Vec<T>> = fallible::try_collect(elements.iter().map(|x| convert(x.to_scalar())));
            Tensor::from_vec(converted.map_err(|e| e.in_operator("new"))?, &sizes)
        })?;
        move_to(host, options)
    }

    /// The values with the type they have in Rust, as [`From`] makes them.
    ///
    /// # Errors
    /// `OutOfMemory`.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Tensor::from_array([[1u8, 2], [3, 4]])?.sizes(), &[2, 2]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn from_array<D: TensorData>(data: D) -> Result<Tensor> {
        let (elements, sizes) = parts(&data).map_err(|e| e.in_operator("from_array"))?;
        Tensor::from_vec(elements, &sizes)
    }

    /// The values of an iterator as a tensor of one dimension. A function of its own and no `FromIterator`, which could not return an
    /// error.
    ///
    /// # Errors
    /// `OutOfMemory`.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let squares = Tensor::try_from_iter((0..4i64).map(|i| i * i))?;
    /// assert_eq!(squares.to_vec::<i64>()?, [0, 1, 4, 9]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn try_from_iter<T: Element>(values: impl IntoIterator<Item = T>) -> Result<Tensor> {
        let values = fallible::collect(values).map_err(|e| e.in_operator("try_from_iter"))?;
        let sizes = [values.len() as i64];
        Tensor::from_vec(values, &sizes)
    }

    /// A copy of `data` as a tensor of one dimension.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Tensor::from_slice(&[1u8, 2, 3])?.sizes(), &[3]);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn from_slice<T: Element>(data: &[T]) -> Result<Tensor> {
        let copy = fallible::to_vec(data).map_err(|e| e.in_operator("from_slice"))?;
        Tensor::from_vec(copy, &[data.len() as i64])
    }
}

/// Floating point types round and overflow to infinity; integers must hold the value.
pub(super) fn convert<T: Element>(value: Scalar) -> Result<T> {
    if T::SCALAR_TYPE.is_differentiable() && T::SCALAR_TYPE.is_complex() >= value.is_complex() {
        Ok(T::from_scalar(value))
    } else {
        value.to()
    }
}

/// The type of a literal in PyTorch: `f64` and `i32` are taken for literals without a suffix; other types are kept.
fn of_literals(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::F64 => default_dtype(),
        ScalarType::Complex128 => default_dtype().to_complex(),
        ScalarType::I32 => ScalarType::I64,
        other => other,
    }
}

/// Moves a new tensor to the device and layout of `options`.
fn move_to(host: Tensor, options: TensorOptions) -> Result<Tensor> {
    ensure!(
        options.layout.unwrap_or_default() == flambeau_core::Layout::Strided,
        NotImplemented("new", "layout"),
        "expected a strided layout but got {}",
        options.layout.unwrap_or_default()
    );
    ensure!(
        options.pin_memory != Some(true),
        NotImplemented("new", "pin_memory"),
        "pinned memory needs a CUDA device"
    );
    match options.device {
        None => Ok(host),
        Some(device) if device.is_cpu() => Ok(host),
        Some(device) => {
            let moved = Tensor::empty_contiguous(host.sizes(), host.dtype(), device)?;
            if !device.is_meta() {
                crate::ops::copy_(&moved, &host, false)?;
            }
            Ok(moved)
        }
    }
}
