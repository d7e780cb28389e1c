//! Rules of single operators, by name. `native_functions.yaml` marks these operators `batch: special`.

mod convolution;
mod embedding;
mod indexing;
mod losses;
mod nll_loss;
mod normalization;
mod products;
mod search;
mod shapes;

use crate::batch::{Batch, results};
use crate::kinds::{loops, reduction};
use crate::plan::{Kind, Plan};
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::ops;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The rule of one operator.
type Rule = fn(&Batch<'_>) -> Result<Vec<Value>>;

const RULES: &[(&str, Rule)] = &[
    ("median", reduction::median),
    ("nanmedian", reduction::median),
    ("mm", products::mm),
    ("bmm", products::bmm),
    ("mv", products::mv),
    ("dot", products::dot),
    ("vdot", products::dot),
    ("addmm", products::addmm),
    ("addmv", products::addmv),
    ("addr", products::addr),
    ("baddbmm", products::baddbmm),
    ("addbmm", products::addbmm),
    ("_linear", products::linear),
    ("_linear_weight_backward", products::linear_weight_backward),
    ("convolution", convolution::convolution),
    ("convolution_backward", convolution::backward),
    ("expand", shapes::expand),
    ("permute", shapes::permute),
    ("view", shapes::view),
    ("repeat", shapes::repeat),
    ("squeeze", shapes::squeeze),
    ("roll", shapes::roll),
    ("cat", shapes::cat),
    ("constant_pad_nd", shapes::constant_pad_nd),
    ("fill.Tensor", shapes::fill),
    ("masked_fill.Tensor", shapes::masked_fill),
    ("masked_fill_.Tensor", shapes::masked_fill_in_place),
    ("new_empty", shapes::new_tensor),
    ("new_zeros", shapes::new_tensor),
    ("new_ones", shapes::new_tensor),
    ("new_full", shapes::new_tensor),
    ("index.Tensor", indexing::index),
    ("masked_select", indexing::masked_select),
    ("index_put", indexing::index_put),
    ("index_put_", indexing::index_put_in_place),
    ("index_select", search::index_select),
    ("index_add", search::index_add),
    ("index_copy", search::index_copy),
    ("index_fill.int_Scalar", search::index_fill),
    ("index_fill.int_Tensor", search::index_fill_tensor),
    ("take", search::take),
    ("searchsorted.Tensor", search::searchsorted),
    ("bucketize.Tensor", search::bucketize),
    ("embedding", embedding::embedding),
    ("embedding_dense_backward", embedding::dense_backward),
    ("mse_loss", losses::loss),
    ("smooth_l1_loss", losses::loss),
    ("huber_loss", losses::loss),
    ("binary_cross_entropy", losses::loss),
    ("binary_cross_entropy_with_logits", losses::loss),
    ("kl_div", losses::loss),
    ("mse_loss_backward", losses::backward),
    ("smooth_l1_loss_backward", losses::backward),
    ("huber_loss_backward", losses::backward),
    ("binary_cross_entropy_backward", losses::backward),
    ("nll_loss_forward", nll_loss::forward),
    ("nll_loss_backward", nll_loss::backward),
    ("_cross_entropy", nll_loss::cross_entropy),
    ("_cross_entropy_backward", nll_loss::cross_entropy_backward),
    ("native_layer_norm", normalization::layer_norm),
    ("native_layer_norm_backward", normalization::layer_norm_backward),
    ("_fused_rms_norm", normalization::rms_norm),
    ("_fused_rms_norm_backward", normalization::rms_norm_backward),
    ("native_group_norm", normalization::group_norm),
    ("native_batch_norm", normalization::batch_norm),
    ("native_batch_norm_backward", normalization::batch_norm_backward),
];

static BY_NAME: LazyLock<HashMap<&str, Rule>> = LazyLock::new(|| RULES.iter().copied().collect());

/// The rule of the operator of a call. An operator in place has that of the functional one, whose result is copied.
pub(crate) fn find(batch: &Batch<'_>) -> Option<Rule> {
    find_by_name(batch.operator.name(), batch.plan)
}

/// Operators of another kind have none, even where the functional one has a rule: `squeeze_` changes the geometry of its argument.
fn find_by_name(name: &str, plan: &Plan) -> Option<Rule> {
    if plan.kind != Kind::Special {
        return None;
    }
    let own = BY_NAME.get(name).copied();
    if own.is_none() && plan.is_in_place && BY_NAME.contains_key(functional(name).as_str()) {
        return Some(in_place);
    }
    own
}

/// `index_fill.int_Scalar` for `index_fill_.int_Scalar`.
fn functional(name: &str) -> String {
    let (base, overload) =
        name.split_once('.').map_or((name, None), |(base, overload)| (base, Some(overload)));
    let base = base.strip_suffix('_').unwrap_or(base);
    overload.map_or_else(|| base.to_owned(), |overload| format!("{base}.{overload}"))
}

/// What the rule of the functional operator gives is copied, unless the rule has called the operator itself.
fn in_place(batch: &Batch<'_>) -> Result<Vec<Value>> {
    batch.ensure_self_is_batched()?;
    let name = functional(batch.operator.name());
    let Some(rule) = BY_NAME.get(name.as_str()) else { return loops::call(batch) };
    if let Some(result) = results(&rule(batch)?).first() {
        ops::copy_(&batch.full(batch.tensor(0)?)?, &batch.full(result)?, false)?;
    }
    Ok(vec![])
}

#[cfg(test)]
mod tests {
    use super::{RULES, find_by_name};
    use crate::plan::{Kind, kind_of, plan_of};
    use flambeau_ops::ops::OPERATORS;
    use flambeau_ops::registry::find;

    #[test]
    fn every_special_operator_has_a_rule_and_no_other_one() -> flambeau_core::Result<()> {
        for operator in OPERATORS {
            let is_special = kind_of(*operator) == Some(Kind::Special);
            let rule = find_by_name(operator.name(), plan_of(*operator)?);
            assert_eq!(rule.is_some(), is_special, "{}", operator.name());
        }
        for (name, _) in RULES {
            assert_eq!(kind_of(find(name)?), Some(Kind::Special), "{name}");
        }
        Ok(())
    }
}
