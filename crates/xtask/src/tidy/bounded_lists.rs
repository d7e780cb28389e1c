//! Lists in kernels and optimisers that are short whatever the data are: files, how many lists there are in each, and why they are
//! short. All others grow with data, and are asked for by `flambeau_core::fallible` or `ops::scratch`, which can fail.

/// Where lists grow with data unless the table says otherwise.
pub(super) const WATCHED: &[&str] = &[
    "crates/gemm/src/",
    "crates/ops/src/native",
    "crates/ops/src/loops",
    "crates/ops/src/tensor_iterator",
    "crates/nn/src/optim",
];

/// What makes a list that cannot fail.
pub(super) const INFALLIBLE: &[&str] =
    &["Vec::with_capacity(", ".collect::<Vec<", ".collect::<Result<Vec<", ".to_vec()"];

pub(super) const BOUNDED: &[(&str, usize, &str)] = &[
    ("crates/nn/src/optim/group.rs", 1, "one for each parameter"),
    ("crates/ops/src/native/nn/convolution/named.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/nn/convolution/shape.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/random/poisson_binomial.rs", 1, "one for each parameter of a distribution"),
    ("crates/ops/src/native/nn/dropout.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/linalg/einsum.rs", 2, "one for each operand"),
    ("crates/ops/src/native/factory/empty_full.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/factory/diag_meshgrid.rs", 1, "one for each argument"),
    ("crates/ops/src/native/nn/grid_sample.rs", 2, "one for each spatial dimension"),
    ("crates/ops/src/native/nn/grid_sample/taps.rs", 1, "some taps for each spatial dimension"),
    ("crates/ops/src/native/reduce/bincount_histc.rs", 1, "the method of a tensor, which can fail"),
    ("crates/ops/src/native/nn/loss/classes.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/nn/loss/cross_entropy.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/nn/normalization/batch.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/pointwise/activation_piecewise.rs", 2, "one for each dimension"),
    ("crates/ops/src/native/nn/pooling/windows.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/linalg/products.rs", 6, "one for each argument"),
    ("crates/ops/src/native/reduce/sum_prod_any/extremes.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/index/isin_index_reduce.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/guarded_slices.rs", 1, "one for each argument"),
    ("crates/ops/src/native/nn/upsample.rs", 2, "one for each dimension"),
];
