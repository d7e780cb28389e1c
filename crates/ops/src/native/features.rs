//! Kernels that need a feature of the crate: a build without it has their operators, whose calls are errors that name the feature.

/// The kernel `$body` of the operator `$name`, which calls the crate `flambeau-linalg`.
#[cfg(feature = "linalg")]
macro_rules! with_linalg {
    ($name:literal, $body:expr) => {
        $body
    };
}
#[cfg(not(feature = "linalg"))]
macro_rules! with_linalg {
    ($name:literal, $body:expr) => {
        $crate::native::features::absent($name, "linalg")
    };
}

/// The kernel `$body` of the operator `$name`, which calls the crate `flambeau-fft`.
#[cfg(feature = "fft")]
macro_rules! with_fft {
    ($name:literal, $body:expr) => {
        $body
    };
}
#[cfg(not(feature = "fft"))]
macro_rules! with_fft {
    ($name:literal, $body:expr) => {
        $crate::native::features::absent($name, "fft")
    };
}

pub(crate) use {with_fft, with_linalg};

/// The error of an operator whose feature is off.
#[cfg(not(all(feature = "fft", feature = "linalg")))]
pub(crate) fn absent<T>(name: &str, feature: &str) -> flambeau_core::Result<T> {
    flambeau_core::bail!(
        NotImplemented(name),
        "flambeau was built without the feature `{feature}`, which has this kernel"
    );
}
