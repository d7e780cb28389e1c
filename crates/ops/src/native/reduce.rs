//! Operators that combine the elements of dimensions: reductions, scans, softmax, order statistics.

pub mod bincount_histc;
pub mod cumsum_cumprod;
pub mod diff_trapezoid_gradient;
pub mod median_mode_quantile;
pub mod softmax;
pub mod sum_prod_any;
