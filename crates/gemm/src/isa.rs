//! Which instruction set a product is computed with.

use std::sync::OnceLock;

/// An instruction set with kernels of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust, in loops that compilers vectorise for their baseline (SSE2, NEON).
    Scalar,
    /// AVX2 with FMA, 8 floats a register.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL), 16 floats a register.
    Avx512,
    /// AVX-512 with products of bf16 pairs; the same as [`Isa::Avx512`] for other types.
    Avx512Bf16,
    /// AVX-512 with AMX, whose registers are tiles of 16 x 16 sums of bf16 pairs; the same as [`Isa::Avx512`] for other types.
    Amx,
}

impl Isa {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// Whether this CPU has it, and the system lets the process use it.
    #[must_use]
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Scalar => true,
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            Self::Avx512Bf16 => Self::Avx512.is_available() && is_x86_feature_detected!("avx512bf16"),
            Self::Amx => Self::Avx512Bf16.is_available() && super::amx::is_available(),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Scalar
        }
    }

    /// The best this CPU has, found once.
    ///
    /// `FLAMBEAU_CPU_CAPABILITY` (`scalar` or `default`, `avx2`, `avx512`, `avx512_bf16`, `amx`) selects a smaller one;
    /// one that the CPU lacks is never chosen.
    #[must_use]
    pub fn detected() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let limit = std::env::var("FLAMBEAU_CPU_CAPABILITY").ok().and_then(|name| Self::named(&name));
            let limit = limit.unwrap_or(Self::Amx);
            let mut usable = Self::ALL.into_iter().filter(|isa| *isa <= limit && isa.is_available());
            usable.next_back().unwrap_or(Self::Scalar)
        })
    }

    fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "scalar" | "default" => Some(Self::Scalar),
            "avx2" => Some(Self::Avx2),
            "avx512" => Some(Self::Avx512),
            "avx512_bf16" => Some(Self::Avx512Bf16),
            "amx" => Some(Self::Amx),
            _ => None,
        }
    }
}
