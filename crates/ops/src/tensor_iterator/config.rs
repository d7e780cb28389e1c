//! The rules of type promotion and conversion that a family of operators requires of the iterator.

use flambeau_core::ScalarType;

/// Rules of one call, chosen by its family. PyTorch's `TensorIteratorConfig`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Config {
    /// Inputs of several types are converted to the one they promote to; else they must be equal.
    pub promote_inputs: bool,
    /// Integers are converted to the default floating point type: `exp`, `div`.
    pub promote_integers_to_float: bool,
    /// The type of the result, where it is not the common one: `bool` for comparisons.
    pub output_dtype: Option<ScalarType>,
    /// Inputs are not converted, and the kernel reads their own types: `where`'s condition, `index`.
    pub keep_input_dtypes: bool,
    /// The result may be written into a tensor of any type, even a lower category: `copy_`.
    pub cast_freely: bool,
}

impl Config {
    /// One or more inputs of one type, result of that type.
    pub const SAME: Config = Config {
        promote_inputs: false,
        promote_integers_to_float: false,
        output_dtype: None,
        keep_input_dtypes: false,
        cast_freely: false,
    };
    /// Inputs promote; the result has the common type: `add`.
    pub const PROMOTE: Config = Config { promote_inputs: true, ..Config::SAME };
    /// Inputs promote, integers to floating point: `exp`, `div`, `atan2`.
    pub const PROMOTE_FLOAT: Config = Config { promote_integers_to_float: true, ..Config::PROMOTE };
    /// One input, converted to whatever the output is: `copy_`.
    pub const COPY: Config = Config { cast_freely: true, ..Config::SAME };
    /// Inputs promote; the result is bool: `eq`.
    pub const COMPARE: Config = Config { output_dtype: Some(ScalarType::Bool), ..Config::PROMOTE };
}
