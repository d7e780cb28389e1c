//! The operator table, by family. A schema without a row fails `variants::every_operator_has_a_row`.

mod binary;
mod index;
mod join;
mod linalg;
mod unary;
mod view;

use crate::row::Row;

/// Every row.
pub fn rows() -> Vec<Row> {
    [unary::rows(), binary::rows(), linalg::rows(), view::rows(), join::rows(), index::rows()]
        .into_iter()
        .flatten()
        .collect()
}
