//! The operator table, by family. A schema without a row fails `variants::every_operator_has_a_row`.

mod activation;
mod attention;
mod bags;
mod binary;
mod class_loss;
mod conv;
mod copies;
mod counts;
mod differences;
mod elementary;
mod extreme;
mod factory;
mod in_place;
mod index;
mod join;
mod linalg;
mod loss;
mod margin;
mod moment;
mod norm;
mod order;
mod overload;
mod pairwise_distance;
mod piecewise;
mod polynomial;
mod pool;
mod products;
mod random;
mod ranks;
mod reduce;
mod sampled;
mod sets;
mod softmax;
mod spatial;
mod special;
mod special_table;
mod ternary;
mod unary;
mod view;

use crate::row::Row;

/// Every row.
pub fn rows() -> Vec<Row> {
    let families: &[fn() -> Vec<Row>] = &[
        unary::rows,
        binary::rows,
        ternary::rows,
        elementary::rows,
        special_table::rows,
        polynomial::rows,
        activation::rows,
        piecewise::rows,
        reduce::rows,
        extreme::rows,
        moment::rows,
        softmax::rows,
        loss::rows,
        class_loss::rows,
        margin::rows,
        norm::rows,
        attention::rows,
        linalg::rows,
        products::rows,
        differences::rows,
        conv::rows,
        pool::rows,
        random::rows,
        factory::rows,
        in_place::rows,
        view::rows,
        join::rows,
        copies::rows,
        index::rows,
        order::rows,
        overload::rows,
        ranks::rows,
        sets::rows,
        spatial::rows,
        bags::rows,
        sampled::rows,
        pairwise_distance::rows,
        counts::rows,
    ];
    families.iter().flat_map(|family| family()).collect()
}
