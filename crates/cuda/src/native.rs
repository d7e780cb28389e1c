//! The kernels of operators that are more than a formula, and their registration.

mod attention;
mod convolution;
mod copy;
mod elementwise_loss;
mod embedding;
mod embedding_bag;
mod fft;
mod gather;
mod grid_sample;
mod histogram;
mod integers;
mod loss;
mod margin_loss;
mod normalization;
mod pooling;
mod products;
mod random;
mod reduce;
mod scan;
mod scatter;
mod select;
mod softmax;
mod sort;
mod sparse;
mod special;
mod spread;
mod unique;
mod views;

use crate::print::{element_name, number_name, prelude, type_name};
use flambeau_core::{Device, DimVec, MemoryFormat, Result, ScalarType, bail, error};
use flambeau_ops::ops::options::Reduction;
use flambeau_ops::structured::TensorSpec;
use flambeau_ops::{Tensor, ops};

/// Registers the functional and the `out=` form of a structured operator, given the meta function of this crate's CPU kernels and a kernel
/// that fills an allocated output.
macro_rules! structured {
    ($($operator:ident $out_operator:ident $name:literal $meta:path, $kernel:path:
        ($($arg:ident: $ty:ty),*) reads [$($input:expr),*];)*) => {$(
        const _: () = {
            use ::flambeau_core::{DispatchKeySet, Result};
            use ::flambeau_ops::Tensor;

            #[allow(clippy::too_many_arguments, reason = "the schema's")]
            fn functional(_: DispatchKeySet, $($arg: $ty),*) -> Result<Tensor> {
                let out = $meta($($arg),*)?.allocate($name)?;
                $kernel($($arg,)* &out)?;
                Ok(out)
            }

            #[allow(clippy::too_many_arguments, reason = "the schema's")]
            fn into_out(_: DispatchKeySet, $($arg: $ty,)* out: &Tensor) -> Result<()> {
                let target = $meta($($arg),*)?.for_out($name, out, &[$($input),*])?;
                $kernel($($arg,)* target.tensor())?;
                target.finish(out)
            }

            ::flambeau_ops::register!(::flambeau_ops::ops::$operator, Cuda, functional);
            ::flambeau_ops::register!(::flambeau_ops::ops::$out_operator, Cuda, into_out);
        };
    )*};
}

use structured;

/// What the number of a schema makes of the losses of all elements.
fn reduction_of(name: &str, number: i64) -> Result<Reduction> {
    match Reduction::from_int(number) {
        Some(reduction) => Ok(reduction),
        None => bail!(InvalidArgument(name, "reduction"), "expected 0, 1 or 2 but got {number}"),
    }
}

/// A row-major tensor without values.
fn empty(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<Tensor> {
    TensorSpec::new(sizes, dtype, device).allocate("cuda")
}

/// A tensor of the same sizes, strides and type without values, on which kernels of the host check arguments and find sizes.
fn meta(tensor: &Tensor) -> Result<Tensor> {
    made(tensor, Device::META)
}

/// A tensor without values on a device, with the sizes, strides and type of another.
fn made(like: &Tensor, device: Device) -> Result<Tensor> {
    let spec = TensorSpec::new(like.sizes(), like.dtype(), device);
    spec.with_strides(DimVec::from_slice(like.strides())).allocate("cuda")
}

/// A copy on a device.
fn to_device(tensor: &Tensor, device: Device) -> Result<Tensor> {
    ops::_to_copy(tensor, None, None, Some(device), None, false, None)
}

/// A tensor with row-major elements without gaps: itself, or a copy.
fn dense(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() {
        Ok(tensor.clone())
    } else {
        ops::contiguous(tensor, MemoryFormat::Contiguous)
    }
}

/// The same, of another type.
fn dense_as(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return dense(tensor);
    }
    ops::_to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
}

/// The name of a type in programs whose elements have an order.
///
/// # Errors
/// `NotImplemented` for other types.
fn name_of(operator: &str, dtype: ScalarType) -> Result<&'static str> {
    known(operator, dtype, type_name(dtype))
}

/// The name of a type in programs whose elements may be complex.
///
/// # Errors
/// As [`name_of`].
fn number_name_of(operator: &str, dtype: ScalarType) -> Result<&'static str> {
    known(operator, dtype, number_name(dtype))
}

/// The name of a type in programs that only move elements.
///
/// # Errors
/// As [`name_of`].
fn element_name_of(operator: &str, dtype: ScalarType) -> Result<&'static str> {
    known(operator, dtype, element_name(dtype))
}

fn known(operator: &str, dtype: ScalarType, name: Option<&'static str>) -> Result<&'static str> {
    name.ok_or_else(|| error!(NotImplemented(operator), "there is no kernel for cuda of {dtype}"))
}

/// The type in which elements are computed: f32 for half precision.
fn computing_type(dtype: ScalarType) -> ScalarType {
    if dtype.is_reduced_floating_point() { ScalarType::F32 } else { dtype }
}

/// A program: the prelude, definitions, and its parts.
fn program(definitions: &str, parts: &[&str]) -> String {
    format!("{}\n{definitions}\n{}", prelude(definitions), parts.concat())
}

/// The program of an operator on rows, with the definitions that it needs; and how many threads a row has, and a block has rows.
struct RowProgram {
    key: String,
    definitions: String,
    rows_per_block: i64,
}

/// Rows of up to so many elements are computed by a warp, longer ones by a block.
const WARP_ROWS: i64 = 1024;

impl RowProgram {
    fn new(name: &str, dtype: &str, flags: &[&str], length: i64) -> Self {
        let team = if length <= WARP_ROWS { 32 } else { 256 };
        let flags: String = flags.iter().map(|flag| format!("#define {flag}\n")).collect();
        RowProgram {
            key: format!("{name} {dtype} {team} {flags}"),
            definitions: format!("typedef {dtype} T;\n#define TEAM {team}\n{flags}"),
            rows_per_block: 256 / team,
        }
    }

    fn source(&self, kernel: &str) -> String {
        program(&self.definitions, &[include_str!("kernels/rows.cu"), kernel])
    }

    fn grid(&self, rows: i64) -> crate::launch::Grid {
        let blocks = crate::launch::ceil_div(rows, self.rows_per_block);
        crate::launch::Grid { blocks: [blocks, 1, 1], threads: 256 }
    }
}

/// The programs of a kernel of rows: its name, its source, its types, and the flags of each of its variants.
type Programs<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a [&'a str]]);

/// Every program of this module, by name, in every type that it has.
pub(crate) fn all_programs() -> Vec<(String, String)> {
    let mut all = reduce::programs();
    let floats = ["float", "double", "float16", "bfloat16"];
    let wide = &floats[..2];
    let rows: [Programs<'_>; 4] = [
        (
            "softmax",
            include_str!("kernels/softmax.cu"),
            &floats,
            &[
                &["LOGARITHM true"],
                &["LOGARITHM false"],
                &["LOGARITHM true", "BACKWARD"],
                &["LOGARITHM false", "BACKWARD"],
            ],
        ),
        (
            "layer_norm",
            include_str!("kernels/layer_norm.cu"),
            &floats,
            &[&[], &["BACKWARD"], &["PARAMETERS"]],
        ),
        ("cross_entropy", include_str!("kernels/cross_entropy.cu"), wide, &[&[], &["BACKWARD"]]),
        ("attention", include_str!("kernels/attention.cu"), wide, &[&[]]),
    ];
    for (name, kernel, dtypes, variants) in rows {
        for dtype in dtypes {
            for flags in variants {
                for length in [1, WARP_ROWS + 1] {
                    let program = RowProgram::new(name, dtype, flags, length);
                    all.push((program.key.clone(), program.source(kernel)));
                }
            }
        }
    }
    for dtype in floats {
        all.extend(grid_sample::programs(dtype));
        let bags = program(&format!("typedef {dtype} T;\n"), &[include_str!("kernels/embedding_bag.cu")]);
        all.push((format!("embedding_bag {dtype}"), bags));
    }
    let integers = ["boolean", "uint8", "int8", "int16", "int32", "int64"];
    let parts = [
        ("matmul", include_str!("kernels/matmul.cu"), ""),
        ("embedding", include_str!("kernels/embedding.cu"), ""),
        ("embedding", include_str!("kernels/embedding.cu"), "#define BACKWARD\n"),
    ];
    for dtype in floats.iter().chain(&integers) {
        for (name, kernel, flag) in parts {
            let source = program(&format!("typedef {dtype} T;\n{flag}"), &[kernel]);
            all.push((format!("{name} {dtype} {flag}"), source));
        }
        all.extend(gather::programs(dtype));
        all.extend(convolution::programs(dtype));
        all.extend(pooling::programs(dtype));
        all.extend(sort::programs(dtype));
        all.extend(scan::programs(dtype));
        all.extend(scatter::programs(dtype));
        all.extend(random::programs(dtype));
    }
    all.extend(fft::programs());
    all.extend(sparse::programs());
    all.push(("check_indices".to_owned(), program("", &[include_str!("kernels/check_indices.cu")])));
    all
}
