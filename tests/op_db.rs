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

use crate::draw::Draw;
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

/// Every row, or the part that `FLAMBEAU_TABLE_PART` asks for, for runs under tools that are slow: `7/3` is a third, drawn from seed 7.
pub fn part() -> Vec<Row> {
    let asked = std::env::var("FLAMBEAU_TABLE_PART").ok();
    let numbers = asked.as_deref().and_then(|asked| asked.split_once('/'));
    let Some((Ok(seed), Ok(parts))) = numbers.map(|(seed, parts)| (seed.parse(), parts.parse::<usize>()))
    else {
        return rows();
    };
    let mut draw = Draw::new(seed);
    rows().into_iter().filter(|_| draw.within(1..=parts.max(1)) == 1).collect()
}
