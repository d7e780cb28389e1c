//! Operators on whole lines: softmax, normalization, scans. A line is read densely, in place or through a tile, and gives a line.

mod channels;
mod drive;
mod norm;
mod norm_backward;
mod row;
mod scan;
mod softmax;

pub(crate) use channels::batch_norm_channels;
pub(crate) use norm::{Affine, layer_norm_lines, rms_norm_lines};
pub(crate) use norm_backward::{Lines, PART, add_up_parameters, is_one_element, layer_norm_backward_lines};
pub(crate) use scan::{Scan, scan_lines};
pub(crate) use softmax::{ShareOf, share_lines, softmax_backward_lines, softmax_lines};
