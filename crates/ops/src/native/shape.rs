//! Views and their derivatives; concatenation, splitting, repetition and padding.

pub mod cat_stack;
pub mod complex_views;
pub mod constant_pad;
pub mod flip_roll;
pub mod movedim_flatten;
pub mod repeat;
pub mod split;
pub mod view;
pub mod view_backward;
pub mod view_copies;
pub mod view_in_place;
