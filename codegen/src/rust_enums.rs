//! The arguments that are numbers or texts in schemas and enums in Rust.

use crate::schema::{Argument, BaseType, Type};

/// An enum that `crates/ops/src/enums.rs` declares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RustEnum {
    pub(crate) name: &'static str,
    argument: &'static str,
    /// The operators that have the argument; all if there are none.
    operators: &'static [&'static str],
    /// The variant that is the default of the schemas.
    pub(crate) default: &'static str,
}

const fn of(
    argument: &'static str,
    operators: &'static [&'static str],
    name: &'static str,
    default: &'static str,
) -> RustEnum {
    RustEnum { name, argument, operators, default }
}

const BAGS: &[&str] = &["embedding_bag"];
const CONVOLUTIONS: &[&str] = &["conv1d", "conv2d", "conv3d"];
const SAMPLERS: &[&str] = &["grid_sampler", "grid_sampler_2d", "grid_sampler_3d"];
const TRANSFORMS: &[&str] = &[
    "fft_fft",
    "fft_ifft",
    "fft_rfft",
    "fft_irfft",
    "fft_hfft",
    "fft_ihfft",
    "fft_fft2",
    "fft_ifft2",
    "fft_rfft2",
    "fft_irfft2",
    "fft_hfft2",
    "fft_ihfft2",
    "fft_fftn",
    "fft_ifftn",
    "fft_rfftn",
    "fft_irfftn",
    "fft_hfftn",
    "fft_ihfftn",
];
const SCATTERS: &[&str] = &["scatter_reduce", "index_reduce"];

const ENUMS: &[RustEnum] = &[
    of("reduction", &[], "Reduction", "Mean"),
    of("rounding_mode", &[], "RoundingMode", ""),
    of("approximate", &[], "Approximate", "None"),
    of("interpolation", &[], "QuantileInterpolation", "Linear"),
    of("interpolation_mode", SAMPLERS, "GridSampleMode", ""),
    of("padding_mode", SAMPLERS, "GridSamplePadding", ""),
    of("padding", CONVOLUTIONS, "ConvPadding", "Valid"),
    of("mode", BAGS, "EmbeddingBagMode", "Sum"),
    of("reduce", SCATTERS, "ScatterReduction", ""),
    of("indexing", &[], "MeshgridIndexing", ""),
    of("side", &[], "SearchSide", ""),
    of("compute_mode", &[], "CdistComputeMode", ""),
    of("norm", TRANSFORMS, "FftNorm", ""),
    of("pad_mode", &["stft"], "SignalPadding", "Reflect"),
    of("ord", &["linalg_matrix_norm", "linalg_norm"], "MatrixNorm", "Frobenius"),
];

/// The enum of an argument of the operators with a base name.
pub(crate) fn find(operator: &str, argument: &Argument) -> Option<&'static RustEnum> {
    let is_word = is_text(&argument.ty) || *argument.ty.without_optional() == Type::Base(BaseType::Int);
    let fits = |found: &&RustEnum| {
        found.argument == argument.name && (found.operators.is_empty() || found.operators.contains(&operator))
    };
    ENUMS.iter().find(fits).filter(|_| is_word)
}

/// Whether the schema has a text, and not a number, for the enum.
pub(crate) fn is_text(ty: &Type) -> bool {
    *ty.without_optional() == Type::Base(BaseType::Str)
}
