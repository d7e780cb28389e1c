//! YAML in, Rust text out: operators and derivatives.
