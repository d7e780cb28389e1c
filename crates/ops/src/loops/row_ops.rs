//! Operators on whole rows: softmax, normalization, scans. A row has the elements of the operator's dimensions,
//! which need not be the last; it is read as dense elements, in memory or through a tile, and its result is a row of the output.

mod channel_norm_backward;
mod channels;
mod columns;
mod map_rows;
mod norm;
mod norm_backward;
mod norm_columns;
mod row;
mod scan;
mod softmax;
mod softmax_columns;

pub(crate) use channel_norm_backward::{ChannelSets, RowSums, channel_norm_backward};
pub(crate) use channels::batch_norm_channels;
pub(crate) use norm::{Affine, layer_norm_rows, rms_norm_rows};
pub(crate) use norm_backward::{
    GradRows, ROWS_PER_PART, is_one_element, layer_norm_backward_rows, sum_parameter_grads,
};
pub(crate) use scan::{Scan, log_cumsum_exp_rows, scan_rows};
pub(crate) use softmax::{ScaledSoftmax, scaled_softmax_rows, softmax_backward_rows, softmax_rows};
