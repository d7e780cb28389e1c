//! The leaf operators of sparse tensors. Their arguments are strided: pointers, indices and values. The rules of the crate
//! `flambeau-sparse` call them on the parts of sparse tensors.
//!
//! Every kernel checks, under its guards, the indices by which it reads: wrong ones are an error. Each row is computed by one thread in
//! the order of its elements, so that bits depend neither on the number of threads nor on how work is split.

mod arguments;
pub mod compressed;
pub mod coo;
pub mod csr_matmul;
pub mod csr_mm;
pub mod csr_solve;
mod lanes;
pub mod pointers;
mod radix;
pub mod segment_softmax;
mod segments;
pub mod sparse_adam;
mod terms;
