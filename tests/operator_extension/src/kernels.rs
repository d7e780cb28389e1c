//! The kernels that `native_functions.yaml` names.

pub mod powers;
pub mod row_norm;
