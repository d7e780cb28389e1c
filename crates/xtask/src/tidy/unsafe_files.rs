//! The files that may hold `unsafe`, each with the reason; a path that ends in `/` stands for the folder.
//!
//! Tests, examples and benchmarks are not listed: what they do to memory reaches no user.

pub(super) const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/autograd/src/node.rs", "nodes are made in the place where they stay"),
    ("crates/autograd/src/node/saved.rs", "saved values are lent without a lock while formulas run"),
    ("crates/autograd/src/spin_lock.rs", "lends what is in its cell to one at a time"),
    ("crates/core/src/autograd_meta.rs", "owns a trait object in a block of the thread's free list"),
    ("crates/core/src/allocator.rs", "hands out raw memory and calls the deleters of foreign memory"),
    ("crates/core/src/allocator/", "free lists are threaded through the free memory itself"),
    ("crates/core/src/intrusive_ptr.rs", "owns memory through a raw pointer and its own reference counts"),
    (
        "crates/core/src/intrusive_ptr/thin.rs",
        "owns memory through a raw pointer and its own reference count",
    ),
    ("crates/core/src/storage.rs", "replaces bytes under the exclusive lock, takes foreign memory over"),
    ("crates/core/src/tensor_impl.rs", "geometries are replaced behind shared references"),
    ("crates/ops/src/dispatch/operator.rs", "kernels of one function type are thin pointers in atomics"),
    ("crates/ops/src/dispatch/registry.rs", "a registration carries a function pointer without its type"),
    ("crates/gemm/src/lib.rs", "operands of a matrix product are raw memory"),
    ("crates/gemm/src/", "operands are raw memory, lanes are vector registers"),
    ("crates/ops/src/loops/", "elements are reached behind the guards that the iterator holds"),
    ("crates/ops/src/native/convolution.rs", "images reach the product as raw memory, under guards"),
    ("crates/ops/src/native/convolution/", "images and columns are raw memory"),
    ("crates/ops/src/native/matmul.rs", "operands reach the product as raw memory, under guards"),
    ("crates/ops/src/native/pooling.rs", "images reach the loops as raw memory, under guards"),
    ("crates/ops/src/native/pooling/planes.rs", "planes are raw memory"),
    ("crates/ops/src/native/slices.rs", "turns guarded bytes into slices, and cuts a slice among threads"),
    ("crates/parallel/src/pool.rs", "a job borrows from the caller's stack until all threads have left it"),
    ("crates/ops/src/tensor/", "elements are reached behind accessors' guards; foreign memory is taken over"),
    ("crates/ops/src/tensor_iterator/walk.rs", "addresses cross to other threads under the caller's guards"),
    ("crates/python/src/call.rs", "the interpreter hands over raw pointers to the arguments"),
    ("crates/python/src/tensor.rs", "a tensor points back at its Python object"),
    ("crates/vectorized/src/", "intrinsics, and loads and stores through raw pointers"),
];
