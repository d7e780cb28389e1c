//! Running sums and products along a dimension.

use crate::Tensor;
use crate::loops::lines::{Scan, scan_lines};
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use flambeau_core::{Result, ScalarType, ensure, shape};

fn scan_meta(name: &str, self_: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<TensorSpec> {
    shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context(name))?;
    let own = self_.dtype();
    let dtype = dtype.unwrap_or(if own.is_integral(true) { ScalarType::I64 } else { own });
    ensure!(dtype != ScalarType::Bool, NotImplemented, "\"{name}_out_cpu\" not implemented for 'Bool'");
    Ok(TensorSpec::like(self_, self_.sizes()).with_dtype(dtype))
}

macro_rules! scans {
    ($($name:literal $scan:ident: $kernel:ident $meta:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($kernel), "`].")]
        pub fn $meta(self_: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<TensorSpec> {
            scan_meta($name, self_, dim, dtype)
        }

        /// What has run up to each element of a dimension.
        pub fn $kernel(self_: &Tensor, dim: i64, _dtype: Option<ScalarType>, out: &Tensor) -> Result<()> {
            scan_lines(self_, out, DimMask::new(Some(&[dim]), self_.dim())?, Scan::$scan)
        }
    )*};
}

scans! {
    "cumsum" Sum: cumsum cumsum_meta;
    "cumprod" Product: cumprod cumprod_meta;
}
