//! Operators that combine the elements of dimensions: reductions, scans, softmax, order statistics.

mod bin_counts;
pub mod bincount_histc;
mod complex_parts;
pub mod cummax_cummin;
pub mod cumsum_cumprod;
pub mod diff;
mod equal_bins;
pub mod gradient;
pub mod hash_tensor;
pub mod max_min;
pub mod median_mode;
pub mod quantile;
mod reduced_spec;
pub mod softmax;
pub mod sum_prod_any;
pub mod trapezoid;
pub mod var_mean;
pub mod vector_norm;
