//! The model to beat: which character follows which, counted.

/// The mean negative log likelihood, in nats a character, that counts of pairs in `train` (plus one each) give `held_out`.
pub(crate) fn held_out_loss(train: &[i64], held_out: &[i64], alphabet: usize) -> f64 {
    let mut pairs = vec![1.0f64; alphabet * alphabet];
    train.windows(2).for_each(|w| pairs[w[0] as usize * alphabet + w[1] as usize] += 1.0);
    let totals: Vec<f64> = pairs.chunks(alphabet).map(|row| row.iter().sum()).collect();
    let surprise =
        |w: &[i64]| -(pairs[w[0] as usize * alphabet + w[1] as usize] / totals[w[0] as usize]).ln();
    held_out.windows(2).map(surprise).sum::<f64>() / (held_out.len() - 1) as f64
}
