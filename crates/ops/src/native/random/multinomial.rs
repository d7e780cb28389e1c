//! Samples of categories by their probabilities.

use crate::loops::Words64;
use crate::native::random::distributions::generator_or_default;
use crate::{Tensor, ops};
use flambeau_core::{Device, Generator, Result, ScalarType, ensure, fallible, shape};

/// Samples indices from each row of weights, which need not sum to one; without replacement no index is sampled twice.
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_multinomial(self_, num_samples, replacement)?;
    let categories = self_.sizes().last().copied().unwrap_or(0) as usize;
    let rows = if self_.dim() == 2 { self_.sizes()[0] as usize } else { 1 };
    let sizes = if self_.dim() == 2 { vec![rows as i64, num_samples] } else { vec![num_samples] };
    let draws = num_samples as usize;
    let count = shape::numel(&sizes)?;
    let mut chosen: Vec<i64> = Vec::new();
    ensure!(
        chosen.try_reserve_exact(count as usize).is_ok(),
        OutOfMemory("multinomial", "num_samples"),
        "expected memory for {count} samples"
    );
    let per_row = if replacement { draws } else { categories };
    let philox = generator_or_default(generator).reserve_words((rows * per_row) as i64, 2)?;
    let all = weights_in_f64(self_)?;
    // Row after row, and so in the order of the stream.
    let mut words = Words64::new(philox);
    let mut uniform = || (words.next() >> 11) as f64 * 2f64.powi(-53);
    for row in 0..rows {
        let weights = &all[row * categories..(row + 1) * categories];
        check_weights(weights, if replacement { 1 } else { draws })?;
        if replacement {
            sample_with_replacement(weights, draws, &mut uniform, &mut chosen)?;
        } else {
            sample_without_replacement(weights, draws, &mut uniform, &mut chosen)?;
        }
    }
    Tensor::from_vec(chosen, &sizes)
}

/// The weights in f64, in row-major order.
fn weights_in_f64(self_: &Tensor) -> Result<Vec<f64>> {
    let wide = Tensor::empty_contiguous(self_.sizes(), ScalarType::F64, Device::CPU)?;
    ops::copy_(&wide, self_, false)?;
    wide.to_vec::<f64>()
}

fn check_multinomial(self_: &Tensor, num_samples: i64, replacement: bool) -> Result<()> {
    ensure!(matches!(self_.dim(), 1 | 2), Shape("multinomial", "self"), "prob_dist must be 1 or 2 dim");
    ensure!(
        self_.is_floating_point(),
        Dtype,
        operator = "multinomial",
        argument = "self",
        "multinomial only supports floating-point dtypes for input, got: {}",
        self_.dtype()
    );
    ensure!(
        num_samples > 0,
        InvalidArgument("multinomial", "num_samples"),
        "cannot sample n_sample <= 0 samples"
    );
    let categories = self_.sizes().last().copied().unwrap_or(0);
    ensure!(
        replacement || num_samples <= categories,
        InvalidArgument("multinomial", "num_samples"),
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    Ok(())
}

fn check_weights(weights: &[f64], drawn: usize) -> Result<()> {
    ensure!(
        weights.iter().all(|w| *w >= 0.0 && w.is_finite()),
        InvalidArgument("multinomial", "self"),
        "probability tensor contains either `inf`, `nan` or element < 0"
    );
    ensure!(
        weights.iter().sum::<f64>() > 0.0,
        InvalidArgument("multinomial", "self"),
        "invalid multinomial distribution (sum of probabilities <= 0)"
    );
    let possible = weights.iter().filter(|w| **w > 0.0).count();
    ensure!(
        drawn <= possible,
        InvalidArgument("multinomial", "num_samples"),
        "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample: \
         expected at least {drawn} weights above 0 but got {possible})"
    );
    Ok(())
}

/// Each sample is found by binary search among the cumulative sums.
fn sample_with_replacement(
    weights: &[f64],
    draws: usize,
    mut uniform: impl FnMut() -> f64,
    chosen: &mut Vec<i64>,
) -> Result<()> {
    let sums = fallible::collect(weights.iter().scan(0.0, |sum, w| {
        *sum += w;
        Some(*sum)
    }))?;
    let total = sums.last().copied().unwrap_or(0.0);
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    for _ in 0..draws {
        let target = uniform() * total;
        chosen.push(sums.partition_point(|sum| *sum <= target).min(last) as i64);
    }
    Ok(())
}

/// Selects the smallest of exponentially distributed keys with rates `w[k]`: index `k` has the smallest key with probability
/// `w[k] / sum(w)`, and so on among the others. (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.)
fn sample_without_replacement(
    weights: &[f64],
    draws: usize,
    mut uniform: impl FnMut() -> f64,
    chosen: &mut Vec<i64>,
) -> Result<()> {
    let key = |(k, w): (usize, &f64)| {
        let u = uniform();
        (if *w > 0.0 { -(-u).ln_1p() / w } else { f64::INFINITY }, k)
    };
    let mut keys = fallible::collect(weights.iter().enumerate().map(key))?;
    keys.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    chosen.extend(keys.iter().take(draws).map(|(_, k)| *k as i64));
    Ok(())
}
