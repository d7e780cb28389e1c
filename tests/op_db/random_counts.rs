//! Random counts, against their distributions: the largest difference between the observed and the exact distribution.

use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, none, row};
use flambeau_core::ErrorKind;

/// How many draws tell a distribution.
const DRAWS: usize = 4000;

type Told = Result<(), String>;

/// Kolmogorov's bound that one of a thousand samples passes, of counts, which are nearer still; `ratio(k)` is the probability
/// of `k` by that of `k - 1`.
fn distributed(drawn: &[f64], first: f64, ratio: impl Fn(f64) -> f64) -> Told {
    let mut sorted = drawn.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mut probability, mut sum, mut count) = (first, first, 0.0);
    for k in 0..=sorted.last().map_or(0, |last| *last as usize) {
        count = sorted.partition_point(|x| *x <= k as f64) as f64;
        let apart = (count / drawn.len() as f64 - sum).abs();
        if apart > 1.95 / (drawn.len() as f64).sqrt() {
            return Err(format!("expected {sum} to be at most {k} but {apart} more or fewer are"));
        }
        probability *= ratio(k as f64 + 1.0);
        sum += probability;
    }
    if count == drawn.len() as f64 { Ok(()) } else { Err("expected whole numbers of at least 0".into()) }
}

/// Runs of equal parameters, each of which has a distribution.
fn runs(values: &[f64], each: usize) -> Array {
    let data: Vec<f64> = values.iter().flat_map(|x| vec![*x; each]).collect();
    Array::new(&[data.len()], data)
}

fn whole(x: &Array) -> Told {
    let stray = x.data.iter().find(|x| x.fract() != 0.0 || **x < 0.0);
    stray.map_or(Ok(()), |x| Err(format!("expected whole numbers of at least 0 but got {x}")))
}

fn poisson() -> Row {
    let rates = [0.5, 3.0, 9.5, 10.0, 20.0, 64.0];
    let small = Array::new(&[2, 3], vec![0.0, 1.0, 4.0, 12.0, 0.0, 100.0]);
    row("poisson")
        .types(FLOATS)
        .sample(vec![Array::new(&[2, 3], vec![0.5, 1.0, 4.0, 12.0, 30.0, 100.0]).into(), none()])
        .sample(vec![Arg::Constant(runs(&rates, DRAWS)), none()])
        .sample(vec![Arg::Constant(small), none()])
        .sample(vec![Array::new(&[0], vec![]).into(), none()])
        .property(move |a, results| {
            whole(&results[0])?;
            let certain =
                a[0].array().data.iter().zip(&results[0].data).all(|(rate, x)| *rate != 0.0 || *x == 0.0);
            if results[0].data.len() < rates.len() * DRAWS {
                return if certain { Ok(()) } else { Err("expected 0 at the rate 0".into()) };
            }
            let mut all = results[0].data.chunks(DRAWS).zip(rates);
            all.try_for_each(|(drawn, rate)| distributed(drawn, (-rate).exp(), |k| rate / k))
        })
        .refuses(
            vec![Array::new(&[1], vec![-1.0]).into(), none()],
            ErrorKind::InvalidArgument,
            "non-negative",
        )
}

fn binomial() -> Row {
    let trials = [1.0, 8.0, 30.0, 100.0, 100.0, 200.0];
    let chances = [0.5, 0.25, 0.5, 0.0625, 0.75, 0.875];
    let (counts, probabilities) = (runs(&trials, DRAWS), runs(&chances, DRAWS));
    let certain = [Array::new(&[4, 1], vec![0.0, 5.0, 20.0, 64.0]), Array::new(&[2], vec![0.0, 1.0])];
    row("binomial")
        .types(FLOATS)
        // A count is whole: the next lower number has fewer trials.
        .sample(vec![Arg::Constant(certain[0].clone()), Array::new(&[2], vec![0.25, 0.75]).into(), none()])
        .sample(vec![Arg::Constant(counts), Arg::Constant(probabilities), none()])
        .sample(vec![Arg::Constant(certain[0].clone()), Arg::Constant(certain[1].clone()), none()])
        .property(move |a, results| {
            whole(&results[0])?;
            if results[0].data.len() == 8 {
                let is_sure = a[1].array().data[0] == 0.0;
                let known = results[0].data == [0.0, 0.0, 0.0, 5.0, 0.0, 20.0, 0.0, 64.0];
                return if known || !is_sure {
                    Ok(())
                } else {
                    Err("expected none or all, which are certain".into())
                };
            }
            let mut all = results[0].data.chunks(DRAWS).zip(trials.into_iter().zip(chances));
            all.try_for_each(|(drawn, (n, p))| {
                distributed(drawn, (1.0 - p).powf(n), |k| p / (1.0 - p) * (n - k + 1.0) / k)
            })
        })
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    vec![poisson(), binomial()]
}
