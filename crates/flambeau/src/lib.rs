//! A tensor library with automatic differentiation.
