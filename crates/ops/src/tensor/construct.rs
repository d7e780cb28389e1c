//! Tensors from Rust values: scalars, nested arrays, slices.

use super::Tensor;
use flambeau_core::{Element, Result, Scalar, ScalarType, TensorOptions, default_dtype, ensure, fallible};

mod sealed {
    pub trait Sealed {}
}

/// A number, or arrays of them to any depth: what a tensor can be made of. Sealed.
pub trait TensorData: sealed::Sealed + Copy {
    /// The numbers inside.
    type Element: Element;

    /// Appends the sizes, outermost first.
    fn sizes(into: &mut Vec<i64>);

    /// Appends the numbers, in logical order.
    fn elements(&self, into: &mut Vec<Self::Element>);
}

macro_rules! numbers {
    ($($rust:ty),*) => {$(
        impl sealed::Sealed for $rust {}
        impl TensorData for $rust {
            type Element = $rust;

            fn sizes(_: &mut Vec<i64>) {}

            fn elements(&self, into: &mut Vec<$rust>) {
                into.push(*self);
            }
        }
    )*};
}

numbers!(bool, u8, i8, i16, i32, i64, half::f16, half::bf16, f32, f64);

impl<D: TensorData, const N: usize> sealed::Sealed for [D; N] {}
impl<D: TensorData, const N: usize> TensorData for [D; N] {
    type Element = D::Element;

    fn sizes(into: &mut Vec<i64>) {
        // An array of zero-sized arrays may be longer than an i64.
        const { assert!(N <= i64::MAX as usize) };
        into.push(N as i64);
        D::sizes(into);
    }

    fn elements(&self, into: &mut Vec<D::Element>) {
        self.iter().for_each(|inner| inner.elements(into));
    }
}

fn parts<D: TensorData>(data: &D) -> (Vec<D::Element>, Vec<i64>) {
    let (mut elements, mut sizes) = (Vec::new(), Vec::new());
    data.elements(&mut elements);
    D::sizes(&mut sizes);
    (elements, sizes)
}

/// The values with the type they have in Rust: `f64` for a plain `1.0`, `i32` for a plain `1`. [`Tensor::new`] gives
/// them PyTorch's default types.
///
/// ```
/// use flambeau_ops::Tensor;
/// let t = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(t.sizes(), &[2, 3]);
/// assert_eq!(Tensor::from(true).dim(), 0);
/// ```
impl<D: TensorData> From<D> for Tensor {
    fn from(data: D) -> Self {
        let (elements, sizes) = parts(&data);
        match Tensor::from_vec(elements, &sizes) {
            Ok(tensor) => tensor,
            Err(e) => unreachable!("an array has as many elements as its sizes say, and they fit: {e}"),
        }
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
        let (elements, sizes) = parts(&data);
        let dtype = options.dtype.unwrap_or_else(|| of_literals(D::Element::SCALAR_TYPE));
        let host = crate::dispatch_all_types!(all, dtype, "new", T => {
            let converted: Result<Vec<T>> = fallible::try_collect(elements.iter().map(|x| convert(x.to_scalar())));
            Tensor::from_vec(converted.map_err(|e| e.context("new"))?, &sizes)
        })?;
        move_to(host, options)
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
        let copy = fallible::to_vec(data).map_err(|e| e.context("from_slice"))?;
        Tensor::from_vec(copy, &[data.len() as i64])
    }
}

/// Floating point types round and overflow to infinity; integers must hold the value.
fn convert<T: Element>(value: Scalar) -> Result<T> {
    if T::SCALAR_TYPE.is_floating_point() { Ok(T::from_scalar(value)) } else { value.to() }
}

/// The type of a literal in PyTorch: `f64` and `i32` are taken for literals without a suffix; other types are kept.
fn of_literals(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::F64 => default_dtype(),
        ScalarType::I32 => ScalarType::I64,
        other => other,
    }
}

/// Moves a new tensor to the device and layout of `options`.
fn move_to(host: Tensor, options: TensorOptions) -> Result<Tensor> {
    ensure!(
        options.layout.unwrap_or_default() == flambeau_core::Layout::Strided,
        NotImplemented,
        "new: expected a strided layout but got {}",
        options.layout.unwrap_or_default()
    );
    ensure!(options.pin_memory != Some(true), NotImplemented, "new: pinned memory needs a CUDA device");
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
