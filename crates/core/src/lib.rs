//! What a tensor is, before any operator exists.
