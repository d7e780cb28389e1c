//! `_tiled_attention` and its derivative, of products and a softmax over the keys that a query may attend to. The matrix of weights is
//! materialized.

use super::products::{Batch, Product};
use super::{RowProgram, dense, empty, name_of};
use crate::launch::{Arguments, guarded};
use flambeau_core::{DispatchKeySet, Result, ensure};
use flambeau_ops::{Tensor, ops, register};

register!(ops::_TILED_ATTENTION, Cuda, tiled_attention);
register!(ops::_TILED_ATTENTION_BACKWARD, Cuda, tiled_attention_backward);

const NAME: &str = "_tiled_attention";
const BACKWARD: &str = "_tiled_attention_backward";

/// The operands as batches of matrices: queries, keys, and the widths of keys and values.
struct Call {
    name: &'static str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Option<Tensor>,
    batch: i64,
    queries: i64,
    keys: i64,
    width: i64,
    value_width: i64,
    is_causal: bool,
    scale: f64,
}

impl Call {
    fn new(
        name: &'static str,
        [query, key, value]: [&Tensor; 3],
        bias: Option<&Tensor>,
        is_causal: bool,
        scale: f64,
    ) -> Result<Self> {
        let (
            [outer @ .., queries, width],
            [key_outer @ .., keys, key_width],
            [value_outer @ .., values, value_width],
        ) = (query.sizes(), key.sizes(), value.sizes())
        else {
            flambeau_core::bail!(
                Shape(name, "query"),
                "expected query, key and value of at least 2 dimensions"
            )
        };
        ensure!(
            outer == key_outer && outer == value_outer && width == key_width && keys == values,
            Shape(name, "query"),
            "expected query, key and value that fit together but got {:?}, {:?} and {:?}",
            query.sizes(),
            key.sizes(),
            value.sizes()
        );
        ensure!(
            query.dtype() == key.dtype() && query.dtype() == value.dtype() && query.is_floating_point(),
            Dtype(name, "query"),
            "expected query, key and value of one floating point type"
        );
        let batch = outer.iter().product();
        let matrices = |t: &Tensor, sizes: [i64; 3]| ops::reshape(t, &sizes);
        Ok(Call {
            name,
            query: matrices(query, [batch, *queries, *width])?,
            key: matrices(key, [batch, *keys, *width])?,
            value: matrices(value, [batch, *keys, *value_width])?,
            bias: bias.map(dense).transpose()?,
            batch,
            queries: *queries,
            keys: *keys,
            width: *width,
            value_width: *value_width,
            is_causal,
            scale,
        })
    }

    fn result(&self, sizes: &[i64]) -> Result<Tensor> {
        empty(sizes, self.query.dtype(), self.query.device())
    }

    /// The matrix of weights. The statistics of each query are written, or read if they are given.
    fn weights(&self, [max_score, inverse_sum]: [&Tensor; 2], are_given: bool) -> Result<Tensor> {
        let weights = self.result(&[self.batch, self.queries, self.keys])?;
        let mut scores = Product::new(self.name, [self.batch, self.queries, self.keys, self.width]);
        scores.alpha = self.scale;
        scores.run(&Batch::of(&self.query), &Batch::of(&self.key).transposed(), &Batch::of(&weights))?;
        let rows = self.batch * self.queries;
        if rows == 0 {
            return Ok(weights);
        }
        let program = RowProgram::new("attention", name_of(self.name, weights.dtype())?, &[], self.keys);
        let mut reads: Vec<&Tensor> = self.bias.iter().collect();
        let mut writes = vec![&weights];
        if are_given { &mut reads } else { &mut writes }.extend([max_score, inverse_sum]);
        guarded(self.name, &reads, &writes, |gpu| {
            let source = || program.source(include_str!("../kernels/attention.cu"));
            let function = gpu.function(&program.key, source)?;
            let arguments = Arguments::new().int(rows).int(self.keys).int(self.queries);
            let arguments =
                arguments.int(i64::from(self.is_causal)).int(i64::from(are_given)).tensor(&weights);
            let arguments = arguments.word(self.bias.as_ref().map_or(0, crate::launch::address));
            gpu.launch(function, program.grid(rows), &arguments.tensor(max_score).tensor(inverse_sum))
        })?;
        Ok(weights)
    }
}

fn tiled_attention(
    _: DispatchKeySet,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let call = Call::new(NAME, [query, key, value], attn_bias, is_causal, scale)?;
    let statistics = &query.sizes()[..query.dim() - 1];
    let (max_score, inverse_sum) = (call.result(statistics)?, call.result(statistics)?);
    let weights = call.weights([&max_score, &inverse_sum], false)?;
    let mut sizes = query.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = call.value_width;
    }
    let out = call.result(&sizes)?;
    let result = ops::view(&out, &[call.batch, call.queries, call.value_width])?;
    Product::new(NAME, [call.batch, call.queries, call.value_width, call.keys]).run(
        &Batch::of(&weights),
        &Batch::of(&call.value),
        &Batch::of(&result),
    )?;
    Ok((out, max_score, inverse_sum))
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn tiled_attention_backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    max_score: &Tensor,
    inverse_sum: &Tensor,
    is_causal: bool,
    scale: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let call = Call::new(BACKWARD, [query, key, value], attn_bias, is_causal, scale)?;
    let Call { batch, queries, keys, width, value_width, .. } = call;
    let grad = ops::reshape(grad_output, &[batch, queries, value_width])?;
    let weights = call.weights([&dense(max_score)?, &dense(inverse_sum)?], true)?;
    let of = |t: &Tensor| Batch::of(t);
    let product = |sizes: [i64; 4], a: Batch, b: Batch, alpha: f64, like: [i64; 3]| -> Result<Tensor> {
        let result = call.result(&like)?;
        let mut product = Product::new(BACKWARD, sizes);
        product.alpha = alpha;
        product.run(&a, &b, &Batch::of(&result))?;
        Ok(result)
    };
    let grad_value = product(
        [batch, keys, value_width, queries],
        of(&weights).transposed(),
        of(&grad),
        1.0,
        [batch, keys, value_width],
    )?;
    let grad_weights = product(
        [batch, queries, keys, value_width],
        of(&grad),
        of(&call.value).transposed(),
        1.0,
        [batch, queries, keys],
    )?;
    let scores = ops::_softmax_backward_data(&grad_weights, &weights, -1, weights.dtype())?;
    let grad_query =
        product([batch, queries, width, keys], of(&scores), of(&call.key), scale, [batch, queries, width])?;
    let grad_key = product(
        [batch, keys, width, queries],
        of(&scores).transposed(),
        of(&call.query),
        scale,
        [batch, keys, width],
    )?;
    let shaped = |t: Tensor, like: &Tensor| ops::view(&t, like.sizes());
    Ok((shaped(grad_query, query)?, shaped(grad_key, key)?, shaped(grad_value, value)?))
}
