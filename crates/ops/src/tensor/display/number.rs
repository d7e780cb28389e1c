//! The format of the numbers of one tensor: notation and width, chosen for all that are shown.

use super::options::PrintOptions;
use flambeau_core::{Scalar, ScalarType};

/// The maximum number of digits after the decimal point: no f64 has more that differ from 0, and `format!` takes no width past 2^16.
const MOST_DIGITS: usize = 1074;

/// How a floating point number is written.
#[derive(Clone, Copy, PartialEq)]
enum Notation {
    /// `12.`, where all are whole numbers.
    Whole,
    /// `12.3400`.
    Fixed,
    /// `1.2340e+01`.
    Scientific,
}

/// The format that suits a set of values. The parts of complex numbers have formats of their own.
pub(super) struct Numbers {
    real: Format,
    imaginary: Option<Format>,
}

impl Numbers {
    pub(super) fn new(values: &[Scalar], dtype: ScalarType, options: &PrintOptions) -> Self {
        if !dtype.is_complex() {
            return Numbers {
                real: Format::new(values, dtype.is_floating_point(), options),
                imaginary: None,
            };
        }
        let (real, imaginary): (Vec<_>, Vec<_>) = values
            .iter()
            .map(|value| value.to_complex())
            .map(|(re, im)| (Scalar::Float(re), Scalar::Float(im)))
            .unzip();
        let format = |part: &[Scalar]| Format::new(part, true, options);
        Numbers { real: format(&real), imaginary: Some(format(&imaginary)) }
    }

    /// Characters that a number takes; PyTorch counts one for the sign between the parts, and none for the `j`.
    pub(super) fn width(&self) -> usize {
        self.real.width + self.imaginary.as_ref().map_or(0, |imaginary| imaginary.width + 1)
    }

    /// The number, aligned to the right.
    pub(super) fn aligned(&self, value: Scalar) -> String {
        let Some(imaginary) = &self.imaginary else { return self.real.aligned(value) };
        let (re, im) = value.to_complex();
        let im = imaginary.write(Scalar::Float(im));
        let sign = if im.starts_with('-') { "" } else { "+" };
        format!("{}{sign}{im}j", self.real.aligned(Scalar::Float(re)))
    }
}

/// The format of real numbers. PyTorch's `_Formatter`.
struct Format {
    notation: Notation,
    precision: usize,
    width: usize,
}

impl Format {
    fn new(values: &[Scalar], is_floating_point: bool, options: &PrintOptions) -> Self {
        let precision = options.precision.min(MOST_DIGITS);
        let mut format = Format { notation: Notation::Whole, precision, width: 1 };
        // Zeros, infinities and NaN do not influence notation and width, as in PyTorch: they may be wider.
        let telling = |s: &&Scalar| !is_floating_point || (s.to_f64().is_finite() && s.to_f64() != 0.0);
        if is_floating_point {
            format.notation = notation(values.iter().filter(telling).map(|s| s.to_f64()), options);
        }
        let widths = values.iter().filter(telling).map(|&s| format.write(s).len());
        format.width = widths.max().unwrap_or(1);
        format
    }

    fn aligned(&self, value: Scalar) -> String {
        format!("{:>width$}", self.write(value), width = self.width)
    }

    fn write(&self, value: Scalar) -> String {
        match value {
            Scalar::Bool(true) => "True".to_string(),
            Scalar::Bool(false) => "False".to_string(),
            Scalar::Float(x) => self.write_float(x),
            Scalar::UInt(u) => u.to_string(),
            other => other.to_i64().to_string(),
        }
    }

    fn write_float(&self, x: f64) -> String {
        if x.is_nan() {
            return "nan".to_string();
        }
        if x.is_infinite() {
            return x.to_string();
        }
        match self.notation {
            Notation::Whole => format!("{x:.0}."),
            Notation::Fixed => format!("{x:.*}", self.precision),
            Notation::Scientific => scientific(x, self.precision),
        }
    }
}

/// The notation for values that are finite and not zero.
fn notation(values: impl Iterator<Item = f64>, options: &PrintOptions) -> Notation {
    let (mut min, mut max, mut whole) = (f64::INFINITY, 0.0f64, true);
    for x in values {
        min = min.min(x.abs());
        max = max.max(x.abs());
        whole &= x == x.ceil();
    }
    if max == 0.0 {
        return Notation::Whole;
    }
    let wide = max / min > 1000.0 || max > 1e8 || min < 1e-4;
    match options.sci_mode.unwrap_or(wide) {
        true => Notation::Scientific,
        false if whole => Notation::Whole,
        false => Notation::Fixed,
    }
}

/// As C and Python write it: a sign and at min two digits in the exponent, where Rust writes `1e-5`.
fn scientific(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}
