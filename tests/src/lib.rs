//! The library from outside: one row per operator drives every check.
