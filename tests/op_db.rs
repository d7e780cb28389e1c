//! The operator table, by family. A schema without a row fails `variants::every_operator_has_a_row`.

mod activation;
mod attention;
mod binary;
mod cat_pad;
mod complex;
mod composite_overloads;
mod convolution;
mod decompositions;
mod diff_cov;
mod eigen_and_ldl;
mod einsum_kron;
mod elementary;
mod embedding_bag;
mod factorizations;
mod factory;
mod fourier;
mod grid_sample;
mod hash_tensor;
mod histogram_isin;
mod in_place;
mod index;
mod linalg;
mod linalg_samples;
mod loss;
mod margin_loss;
mod min_max;
mod nll_loss;
mod normalization;
mod pairwise_distance;
mod piecewise_activation;
mod plain_linalg;
mod polynomial;
mod pooling;
mod quantile_mode;
mod random;
mod random_counts;
mod recurrent;
mod recurrent_cells;
mod recurrent_layers;
mod reduce;
mod resample_pad;
mod softmax;
mod sort_topk;
mod sparse;
mod special;
mod special_table;
mod ternary;
mod unary;
mod var_norm;
mod view;
mod view_copy;
mod windows;

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
        piecewise_activation::rows,
        recurrent::rows,
        recurrent_cells::rows,
        recurrent_layers::rows,
        reduce::rows,
        hash_tensor::rows,
        min_max::rows,
        var_norm::rows,
        softmax::rows,
        loss::rows,
        nll_loss::rows,
        margin_loss::rows,
        normalization::rows,
        attention::rows,
        linalg::rows,
        factorizations::rows,
        decompositions::rows,
        eigen_and_ldl::rows,
        einsum_kron::rows,
        diff_cov::rows,
        convolution::rows,
        pooling::rows,
        random::rows,
        factory::rows,
        fourier::rows,
        windows::rows,
        in_place::rows,
        view::rows,
        complex::rows,
        cat_pad::rows,
        view_copy::rows,
        index::rows,
        sort_topk::rows,
        composite_overloads::rows,
        quantile_mode::rows,
        histogram_isin::rows,
        resample_pad::rows,
        embedding_bag::rows,
        grid_sample::rows,
        pairwise_distance::rows,
        random_counts::rows,
        sparse::rows,
    ];
    families.iter().flat_map(|family| family()).collect()
}

/// Every row, or the part that `FLAMBEAU_TABLE_PART` selects, for runs under slow tools such as Valgrind: `7/3` is a third, drawn from seed 7.
pub fn part() -> Vec<Row> {
    let part = std::env::var("FLAMBEAU_TABLE_PART").ok();
    let numbers = part.as_deref().and_then(|part| part.split_once('/'));
    let Some((Ok(seed), Ok(parts))) = numbers.map(|(seed, parts)| (seed.parse(), parts.parse::<usize>()))
    else {
        return rows();
    };
    let mut draw = Draw::new(seed);
    rows().into_iter().filter(|_| draw.within(1..=parts.max(1)) == 1).collect()
}
