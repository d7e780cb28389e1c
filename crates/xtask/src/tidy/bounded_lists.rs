//! The lists in kernels and optimisers whose length does not grow with the data: the files, the number of such lists in each, and the
//! reason. All other lists are allocated by `flambeau_core::fallible` or `ops::scratch`, which return an error if memory is exhausted.

/// The folders in which lists grow with the data unless they are in the table.
pub(super) const WATCHED: &[&str] = &[
    "crates/gemm/src/",
    "crates/ops/src/native",
    "crates/ops/src/loops",
    "crates/ops/src/tensor_iterator",
    "crates/nn/src/optim",
];

/// Calls that allocate a list and abort if memory is exhausted.
pub(super) const INFALLIBLE: &[&str] =
    &["Vec::with_capacity(", ".collect::<Vec<", ".collect::<Result<Vec<", ".to_vec()"];

pub(super) const BOUNDED: &[(&str, usize, &str)] = &[
    ("crates/nn/src/optim/clip.rs", 1, "one for each parameter"),
    ("crates/nn/src/optim/group.rs", 1, "one for each parameter"),
    ("crates/ops/src/native/nn/convolution/conv_nd.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/nn/convolution/params.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/random/poisson_binomial.rs", 1, "one for each parameter of a distribution"),
    ("crates/ops/src/native/nn/dropout.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/linalg/einsum.rs", 2, "one for each operand"),
    ("crates/ops/src/native/factory/empty_full.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/factory/meshgrid.rs", 1, "one for each argument"),
    ("crates/ops/src/native/nn/grid_sample.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/nn/grid_sample/blocks.rs", 1, "a few weights for each spatial dimension"),
    ("crates/ops/src/native/nn/loss/cross_entropy.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/nn/normalization/batch_norm.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/pointwise/activation_piecewise.rs", 2, "one for each dimension"),
    ("crates/ops/src/native/nn/pooling/windows.rs", 1, "one for each spatial dimension"),
    ("crates/ops/src/native/linalg/combinations.rs", 1, "one for each argument"),
    ("crates/ops/src/native/linalg/multi_dot.rs", 5, "one for each argument"),
    ("crates/ops/src/native/reduce/max_min.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/index/index_reduce.rs", 1, "one for each dimension"),
    ("crates/ops/src/native/guarded_slices.rs", 1, "one for each argument"),
    ("crates/ops/src/native/nn/upsample.rs", 2, "one for each dimension"),
];
