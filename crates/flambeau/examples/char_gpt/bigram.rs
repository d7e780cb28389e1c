//! The baseline: a bigram model, which counts how often each character follows another.

use super::text::Text;

/// The mean negative log likelihood, in nats a character, that counts of pairs in the training text (plus one each) give the
/// held-out text.
pub(crate) fn held_out_loss(text: &Text) -> f64 {
    let letters = text.alphabet.len();
    let index = |pair: &[i64]| pair[0] as usize * letters + pair[1] as usize;
    let mut pairs = vec![1.0f64; letters * letters];
    text.train.windows(2).for_each(|pair| pairs[index(pair)] += 1.0);
    let totals: Vec<f64> = pairs.chunks(letters).map(|row| row.iter().sum()).collect();
    let surprise = |pair: &[i64]| -(pairs[index(pair)] / totals[pair[0] as usize]).ln();
    text.held_out.windows(2).map(surprise).sum::<f64>() / (text.held_out.len() - 1) as f64
}
