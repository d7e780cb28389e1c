//! What schemas write as a number or a text: an enum for each, which methods, functions and kernels share.

/// Declares an enum whose variants have the numbers that schemas write for them.
macro_rules! number_enum {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $number,)*
        }

        impl $name {
            /// The number that schemas have for it.
            #[inline]
            pub const fn as_int(self) -> i64 {
                self as i64
            }

            /// The variant of a number, if there is one.
            pub fn from_int(number: i64) -> Option<Self> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

/// Declares an enum whose variants have the texts that schemas write for them.
macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The text that schemas have for it.
            #[inline]
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The variant of a text, if there is one.
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

number_enum! {
    /// What is made of the losses of all elements. PyTorch's `Reduction::Reduction`.
    #[derive(Default)]
    Reduction {
        /// Nothing: a loss for each.
        None = 0,
        /// Their mean.
        #[default]
        Mean = 1,
        /// Their sum.
        Sum = 2,
    }
}

number_enum! {
    /// How the rows of a bag are combined.
    #[derive(Default)]
    EmbeddingBagMode {
        /// Their sum.
        #[default]
        Sum = 0,
        /// Their mean.
        Mean = 1,
        /// The largest of each column.
        Max = 2,
    }
}

number_enum! {
    /// How an element between others is found when a grid is sampled.
    #[derive(Default)]
    GridSampleMode {
        /// By straight lines between the neighbours.
        #[default]
        Linear = 0,
        /// It is the nearest.
        Nearest = 1,
        /// By cubic polynomials, in two dimensions.
        Cubic = 2,
    }
}

number_enum! {
    /// What stands outside of an image whose grid is sampled.
    #[derive(Default)]
    GridSamplePadding {
        /// Zeros.
        #[default]
        Zeros = 0,
        /// The elements at the border.
        Border = 1,
        /// The image, mirrored.
        Reflection = 2,
    }
}

number_enum! {
    /// When `cdist` computes distances by a matrix product, which is faster and less exact.
    #[derive(Default)]
    CdistComputeMode {
        /// For more than 25 rows.
        #[default]
        ByProductIfLarge = 0,
        /// Always.
        ByProduct = 1,
        /// Never.
        Direct = 2,
    }
}

text_enum! {
    /// How a quotient is rounded.
    RoundingMode {
        /// Towards 0.
        Trunc = "trunc",
        /// Down.
        Floor = "floor",
    }
}

text_enum! {
    /// How the normal distribution function of `gelu` is computed.
    #[derive(Default)]
    Approximate {
        /// Exactly.
        #[default]
        None = "none",
        /// By the hyperbolic tangent, as in GPT-2.
        Tanh = "tanh",
    }
}

text_enum! {
    /// How a quantile between two elements is found.
    #[derive(Default)]
    QuantileInterpolation {
        /// On the straight line between them.
        #[default]
        Linear = "linear",
        /// It is the smaller one.
        Lower = "lower",
        /// It is the larger one.
        Higher = "higher",
        /// In the middle between them.
        Midpoint = "midpoint",
        /// It is the nearest.
        Nearest = "nearest",
    }
}

text_enum! {
    /// The padding of a convolution by name.
    #[derive(Default)]
    ConvPadding {
        /// None.
        #[default]
        Valid = "valid",
        /// As much as lets the output have the input's size; only with stride 1.
        Same = "same",
    }
}

text_enum! {
    /// How elements that are written to one position are combined.
    ScatterReduction {
        /// Their sum.
        Sum = "sum",
        /// Their product.
        Prod = "prod",
        /// Their mean.
        Mean = "mean",
        /// The largest.
        Amax = "amax",
        /// The smallest.
        Amin = "amin",
    }
}

text_enum! {
    /// Which dimension of a mesh belongs to the first tensor.
    MeshgridIndexing {
        /// The first: the order of matrices.
        Ij = "ij",
        /// The second: the order of coordinates.
        Xy = "xy",
    }
}

text_enum! {
    /// Which of equal elements a search finds.
    SearchSide {
        /// The position of the first.
        Left = "left",
        /// The position after the last.
        Right = "right",
    }
}

text_enum! {
    /// The norms of matrices that have names.
    #[derive(Default)]
    MatrixNorm {
        /// The root of the sum of squares.
        #[default]
        Frobenius = "fro",
        /// The sum of the singular values.
        Nuclear = "nuc",
    }
}

text_enum! {
    /// In which direction a Fourier transform is divided by the number of its elements.
    FftNorm {
        /// Backwards, as if no norm is given.
        Backward = "backward",
        /// In both directions, by the root.
        Ortho = "ortho",
        /// Forwards.
        Forward = "forward",
    }
}

text_enum! {
    /// What a signal is padded with.
    #[derive(Default)]
    SignalPadding {
        /// Its reflection at its ends, which are not repeated.
        #[default]
        Reflect = "reflect",
        /// Zeros.
        Constant = "constant",
        /// Its first and its last element.
        Replicate = "replicate",
        /// The signal itself, as if it were periodic.
        Circular = "circular",
    }
}
