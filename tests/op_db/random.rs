//! Random numbers: their range, mean and spread, and that a seed determines them (the tests call all with one seed).

use crate::array::Array;
use crate::row::{Arg, FLOATS, NUMBERS, Row, ints, none, row};
use flambeau_core::ScalarType::{self, Bool, F32, F64, I64};
use flambeau_core::{ErrorKind, Generator};
use flambeau_ops::dispatch::Value;

/// How many draws tell a mean.
const DRAWS: usize = 4000;

type Told = Result<(), String>;

fn zeros(sizes: &[usize]) -> Array {
    Array::new(sizes, vec![0.0; sizes.iter().product()])
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Told {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// All in a range, its end included: half precision rounds up to it.
fn within(x: &Array, low: f64, high: f64) -> Told {
    let stray = x.data.iter().find(|x| !(low..=high).contains(*x));
    stray.map_or(Ok(()), |x| Err(format!("expected numbers from {low} to {high} but got {x}")))
}

fn integral(x: &Array) -> Told {
    ensure(x.data.iter().all(|x| x.fract() == 0.0), || "expected whole numbers".to_string())
}

/// The mean and the deviation of many draws, within five standard errors. Of the deviation of n draws that is about its
/// share `sqrt((kurtosis - 1) / 4n)`, where 9 is the largest kurtosis here; steps of half precision are added to both.
fn spread(x: &Array, mean: f64, deviation: f64) -> Told {
    let n = x.data.len() as f64;
    if n < 1000.0 {
        return Ok(());
    }
    let found = x.data.iter().sum::<f64>() / n;
    let steps = 2f64.powi(-8) * (mean.abs() + deviation);
    ensure((found - mean).abs() <= 5.0 * deviation / n.sqrt() + steps, || {
        format!("expected a mean of {mean} but got {found}")
    })?;
    let square = x.data.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n;
    ensure((square.sqrt() - deviation).abs() <= 5.0 * deviation * (2.0 / n).sqrt() + steps, || {
        format!("expected a deviation of {deviation} but got {}", square.sqrt())
    })
}

fn uniform(x: &Array, low: f64, high: f64) -> Told {
    within(x, low, high).and_then(|()| spread(x, (low + high) / 2.0, (high - low) / 12f64.sqrt()))
}

/// Whole numbers from `low` to below `high`.
fn whole(x: &Array, low: f64, high: f64) -> Told {
    let deviation = (((high - low).powi(2) - 1.0) / 12.0).sqrt();
    integral(x)
        .and_then(|()| within(x, low, high - 1.0))
        .and_then(|()| spread(x, (low + high - 1.0) / 2.0, deviation))
}

/// Ones of a probability.
fn ones(x: &Array, p: f64) -> Told {
    integral(x).and_then(|()| within(x, 0.0, 1.0)).and_then(|()| spread(x, p, (p * (1.0 - p)).sqrt()))
}

/// Without a reference, tried on many elements and on awkward sizes; `args` come after the tensor.
fn fills(name: &'static str, args: Vec<Arg>, holds: impl Fn(&Array) -> Told + Send + Sync + 'static) -> Row {
    let sizes: [&[usize]; 6] = [&[DRAWS], &[], &[0], &[17], &[2, 3, 4], &[40, 100]];
    let start = row(name).types(FLOATS).property(move |_, results| holds(&results[0]));
    sizes.into_iter().fold(start, |row, sizes| row.sample([vec![zeros(sizes).into()], args.clone()].concat()))
}

fn wrong(args: &[Arg]) -> Vec<Arg> {
    [vec![zeros(&[3]).into()], args.to_vec()].concat()
}

fn in_place() -> Vec<Row> {
    let invalid = ErrorKind::InvalidArgument;
    let integers = |row: Row| row.types(NUMBERS).not_differentiable();
    vec![
        fills("uniform_", vec![(-1.0).into(), 3.0.into(), none()], |x| uniform(x, -1.0, 3.0)).refuses(
            wrong(&[1.0.into(), 0.0.into(), none()]),
            invalid,
            "from=1 > to=0",
        ),
        fills("normal_", vec![2.0.into(), 0.5.into(), none()], |x| spread(x, 2.0, 0.5)).refuses(
            wrong(&[0.0.into(), (-1.0).into(), none()]),
            invalid,
            "std >= 0.0",
        ),
        fills("exponential_", vec![2.0.into(), none()], |x| {
            within(x, 0.0, 30.0).and_then(|()| spread(x, 0.5, 0.5))
        })
        .refuses(wrong(&[0.0.into(), none()]), invalid, "lambda > 0.0"),
        fills("cauchy_", vec![1.0.into(), 2.0.into(), none()], |x| half_inside(x, -1.0, 3.0)).refuses(
            wrong(&[0.0.into(), 0.0.into(), none()]),
            invalid,
            "sigma > 0.0",
        ),
        fills("log_normal_", vec![0.5.into(), 0.25.into(), none()], |x| {
            ensure(x.data.iter().all(|x| *x > 0.0), || "expected numbers above 0".to_string())?;
            spread(&x.map(f64::ln), 0.5, 0.25)
        })
        .refuses(wrong(&[0.0.into(), 0.0.into(), none()]), invalid, "std > 0.0"),
        integers(fills("geometric_", vec![0.25.into(), none()], trials)).refuses(
            wrong(&[1.0.into(), none()]),
            invalid,
            "p to be in (0, 1)",
        ),
        integers(fills("random_", vec![none()], |x| integral(x).and_then(|()| within(x, 0.0, f64::MAX)))),
        integers(fills("random_.to", vec![100i64.into(), none()], |x| whole(x, 0.0, 100.0))).refuses(
            wrong(&[0i64.into(), none()]),
            invalid,
            "from=0 >= to=0",
        ),
        // What the narrowest types hold.
        integers(fills("random_.to", vec![2i64.into(), none()], |x| whole(x, 0.0, 2.0))),
        integers(fills("random_.from", vec![0i64.into(), 2i64.into(), none()], |x| whole(x, 0.0, 2.0))),
        integers(fills("random_.from", vec![20i64.into(), 60i64.into(), none()], |x| whole(x, 20.0, 60.0)))
            .refuses(wrong(&[3i64.into(), 2i64.into(), none()]), invalid, "from=3 >= to=2"),
        fills("bernoulli_.float", vec![0.3.into(), none()], |x| ones(x, 0.3)).refuses(
            wrong(&[1.5.into(), none()]),
            invalid,
            "p=1.5",
        ),
        bernoulli_by_tensor(),
    ]
}

/// Half of the numbers lie between the quartiles.
fn half_inside(x: &Array, low: f64, high: f64) -> Told {
    let n = x.data.len() as f64;
    let inside = x.data.iter().filter(|x| (low..high).contains(*x)).count() as f64 / n;
    let near = n < 1000.0 || (inside - 0.5).abs() <= 2.5 / n.sqrt();
    ensure(near, || format!("expected half from {low} to {high} but got {inside}"))
}

/// Counts of trials of probability 1/4: from 1 on, a quarter of them 1, and a mean of 4.
fn trials(x: &Array) -> Told {
    integral(x)?;
    let n = x.data.len() as f64;
    ensure(x.data.iter().all(|x| *x >= 1.0), || "expected counts of at least 1".to_string())?;
    let first = x.data.iter().filter(|x| **x == 1.0).count() as f64 / n;
    let mean = x.data.iter().sum::<f64>() / n;
    let near =
        n < 1000.0 || ((first - 0.25).abs() <= 2.5 / n.sqrt() && (mean - 4.0).abs() <= 12.0 / n.sqrt());
    ensure(near, || format!("expected a quarter of ones and a mean of 4 but got {first} and {mean}"))
}

/// A probability for each element: the results of impossible and certain ones are known.
fn bernoulli_by_tensor() -> Row {
    let likely = |sizes: &[usize]| Array::fill(sizes, -0.5..1.5, 3).map(|p| p.clamp(0.0, 1.0));
    let sizes: [&[usize]; 4] = [&[DRAWS], &[], &[0], &[3, 7]];
    let start =
        row("bernoulli_.Tensor").types(FLOATS).property(|a, results| certain(a[1].array(), &results[0]));
    sizes
        .into_iter()
        .fold(start, |row, sizes| row.sample(vec![zeros(sizes).into(), Arg::Constant(likely(sizes)), none()]))
        .refuses(
            vec![zeros(&[1]).into(), Array::new(&[1], vec![2.0]).into(), none()],
            ErrorKind::InvalidArgument,
            "p_in <= 1",
        )
}

fn certain(p: &Array, drawn: &Array) -> Told {
    integral(drawn).and_then(|()| within(drawn, 0.0, 1.0))?;
    let wrong = p.data.iter().zip(&drawn.data).find(|(p, x)| (**p == 0.0 || **p == 1.0) && p != x);
    ensure(wrong.is_none(), || format!("expected what is certain but got {wrong:?}"))?;
    let (n, mean) = (p.data.len() as f64, |x: &Array| x.data.iter().sum::<f64>() / x.data.len() as f64);
    let near = n < 1000.0 || (mean(p) - mean(drawn)).abs() <= 2.5 / n.sqrt();
    ensure(near, || format!("expected a mean of {} but got {}", mean(p), mean(drawn)))
}

fn options(dtype: Option<ScalarType>) -> Vec<Arg> {
    vec![dtype.map_or_else(none, |dtype| Arg::from(Value::ScalarType(dtype))), none(), none(), none()]
}

/// Made new: `before, size, generator if it takes one, options`.
fn fresh(
    name: &'static str,
    before: &[Arg],
    seeded: bool,
    gives: fn(ScalarType) -> ScalarType,
    holds: impl Fn(&Array) -> Told + Send + Sync + 'static,
) -> Row {
    let start = row(name).types(&[F32]).gives(gives).not_differentiable();
    let sizes: [&[i64]; 5] = [&[DRAWS as i64], &[], &[0], &[3, 17], &[40, 100]];
    let call = |sizes: &[i64]| {
        let generator = if seeded { vec![Value::Generator(Generator::new(7)).into()] } else { vec![] };
        [before.to_vec(), vec![ints(sizes)], generator, options(None)].concat()
    };
    sizes
        .into_iter()
        .fold(start, |row, sizes| row.sample(call(sizes)))
        .property(move |_, results| holds(&results[0]))
        .refuses(call(&[-1]), ErrorKind::Shape, "expected sizes of at least 0")
}

/// Whole numbers in the sizes of another tensor: `self, bounds, generator if it takes one, options`.
fn alike(name: &'static str, bounds: &[i64], seeded: bool) -> Row {
    let (low, end) = match bounds {
        [low, end] => (*low as f64, *end as f64),
        _ => (0.0, bounds[0] as f64),
    };
    let generator = if seeded { vec![Value::Generator(Generator::new(7)).into()] } else { vec![] };
    let bounds: Vec<Arg> = bounds.iter().map(|b| (*b).into()).collect();
    fills(name, [bounds, generator, options(None), vec![none()]].concat(), move |x| whole(x, low, end))
        .not_differentiable()
}

fn made() -> Vec<Row> {
    let same: fn(ScalarType) -> ScalarType = |t| t;
    let whole_numbers: fn(ScalarType) -> ScalarType = |_| I64;
    let like = |name, holds: fn(&Array) -> Told| {
        fills(name, [options(None), vec![none()]].concat(), holds).not_differentiable()
    };
    let normal = [vec![2.0.into(), 0.5.into(), ints(&[DRAWS as i64]), none()], options(Some(F64))].concat();
    vec![
        fresh("rand", &[], false, same, |x| uniform(x, 0.0, 1.0)),
        fresh("rand.generator", &[], true, same, |x| uniform(x, 0.0, 1.0)),
        fresh("randn", &[], false, same, |x| spread(x, 0.0, 1.0)),
        fresh("randn.generator", &[], true, same, |x| spread(x, 0.0, 1.0)),
        fresh("randint", &[50i64.into()], false, whole_numbers, |x| whole(x, 0.0, 50.0)),
        fresh("randint.generator", &[50i64.into()], true, whole_numbers, |x| whole(x, 0.0, 50.0)),
        fresh("randint.low", &[(-5i64).into(), 50i64.into()], false, whole_numbers, |x| whole(x, -5.0, 50.0)),
        fresh("randint.low_generator", &[(-5i64).into(), 50i64.into()], true, whole_numbers, |x| {
            whole(x, -5.0, 50.0)
        }),
        fresh("normal.float_float", &[2.0.into(), 0.5.into()], true, same, |x| spread(x, 2.0, 0.5)),
        row("normal.float_float")
            .types(&[F32])
            .gives(|_| F64)
            .not_differentiable()
            .sample(normal)
            .property(|_, results| spread(&results[0], 2.0, 0.5)),
        fresh("randint", &[2i64.into()], false, whole_numbers, |x| whole(x, 0.0, 2.0)),
        fresh("randint.generator", &[2i64.into()], true, whole_numbers, |x| whole(x, 0.0, 2.0)),
        fresh("randint.low", &[0i64.into(), 2i64.into()], false, whole_numbers, |x| whole(x, 0.0, 2.0)),
        fresh("randint.low_generator", &[0i64.into(), 2i64.into()], true, whole_numbers, |x| {
            whole(x, 0.0, 2.0)
        }),
        alike("randint_like", &[50], false),
        alike("randint_like", &[2], false),
        alike("randint_like.generator", &[50], true),
        alike("randint_like.generator", &[2], true),
        alike("randint_like.low_dtype", &[-5, 50], false),
        alike("randint_like.low_dtype", &[0, 2], false),
        alike("randint_like.low_generator_dtype", &[-5, 50], true),
        alike("randint_like.low_generator_dtype", &[0, 2], true),
        like("rand_like", |x| uniform(x, 0.0, 1.0)),
        like("randn_like", |x| spread(x, 0.0, 1.0)),
        fills("bernoulli.p", vec![0.3.into(), none()], |x| ones(x, 0.3)).not_differentiable(),
        row("bernoulli")
            .types(FLOATS)
            .sample(vec![Array::fill(&[DRAWS], 0.0..1.0, 2).into(), none()])
            .sample(vec![Array::fill(&[64], 0.0..1.0, 3).map(f64::round).into(), none()])
            .property(|a, results| certain(a[0].array(), &results[0]))
            .refuses(
                vec![Array::new(&[1], vec![-1.0]).into(), none()],
                ErrorKind::InvalidArgument,
                "p_in >= 0",
            ),
    ]
}

fn permutations() -> Vec<Row> {
    let order = |name, generator: &[Arg]| {
        let start = row(name).types(&[F32]).gives(|_| I64).not_differentiable();
        [1000i64, 0, 1, 17]
            .into_iter()
            .fold(start, |row, n| row.sample([vec![n.into()], generator.to_vec(), options(None)].concat()))
            .property(|a, results| {
                let mut sorted = results[0].data.clone();
                sorted.sort_by(f64::total_cmp);
                let all: Vec<f64> = (0..a[0].number() as usize).map(|i| i as f64).collect();
                ensure(sorted == all, || "expected every number once".to_string())
            })
            .refuses(
                [vec![(-1i64).into()], generator.to_vec(), options(None)].concat(),
                ErrorKind::InvalidArgument,
                "negative dimension",
            )
    };
    vec![
        order("randperm", &[]),
        order("randperm.generator", &[Value::Generator(Generator::new(7)).into()]),
        multinomial(),
    ]
}

/// Draws from three probabilities, of which one is zero, once with replacement, once without.
fn multinomial() -> Row {
    let weights = || Arg::Tensor(Array::new(&[2, 3], vec![1.0, 0.0, 3.0, 2.0, 2.0, 0.0]));
    row("multinomial")
        .types(FLOATS)
        .gives(|_| I64)
        .not_differentiable()
        .sample(vec![weights(), (DRAWS as i64).into(), true.into(), none()])
        .sample(vec![weights(), 2i64.into(), false.into(), none()])
        .skip(crate::row::Check::Variants, "the numbers drawn are made on the host, which Meta has not")
        .property(|a, results| {
            let (p, drawn) = (a[0].array(), &results[0]);
            let draws = drawn.sizes[1];
            for (row, draws_of_row) in drawn.data.chunks(draws).enumerate() {
                let share =
                    |k: usize| draws_of_row.iter().filter(|x| **x == k as f64).count() as f64 / draws as f64;
                for k in 0..3 {
                    let expected = p.at(&[row, k]) / 4.0;
                    let expected = if a[2].flag() || expected == 0.0 { expected } else { 0.5 };
                    let allowed = if a[2].flag() {
                        5.0 * (expected * (1.0 - expected) / draws as f64).sqrt()
                    } else {
                        0.0
                    };
                    ensure((share(k) - expected).abs() <= allowed, || {
                        format!("expected a share of {expected} of {k} in row {row} but got {}", share(k))
                    })?;
                }
            }
            Ok(())
        })
        .refuses(
            vec![Array::new(&[2], vec![1.0, 1.0]).into(), 3i64.into(), false.into(), none()],
            ErrorKind::InvalidArgument,
            "without replacement",
        )
}

/// Each element is set to 0 or scaled; of many elements a share of `p` is 0.
fn dropped(x: &Array, made: &Array, p: f64) -> Told {
    let scaled = |x: f64| if p == 1.0 { 0.0 } else { x / (1.0 - p) };
    let near = |x: f64, y: f64| (x - y).abs() <= 2f64.powi(-7) * x.abs();
    let stray = x.data.iter().zip(&made.data).find(|(x, y)| **y != 0.0 && !near(scaled(**x), **y));
    ensure(stray.is_none(), || format!("expected zero or {p} of it dropped but got {stray:?}"))?;
    let n = made.data.len() as f64;
    let gone = made.data.iter().filter(|y| **y == 0.0).count() as f64 / n;
    let near = n < 1000.0 || (gone - p).abs() <= 5.0 * (p * (1.0 - p) / n).sqrt();
    ensure(near, || format!("expected a share of {p} dropped but got {gone}"))
}

fn dropouts() -> Vec<Row> {
    let sizes: [&[usize]; 5] = [&[DRAWS], &[], &[0], &[17], &[3, 4]];
    let calls = |name: &'static str| {
        let start = row(name).types(FLOATS).refuses(
            vec![zeros(&[3]).into(), 1.5.into(), true.into()],
            ErrorKind::InvalidArgument,
            "between 0 and 1",
        );
        let cases =
            sizes.iter().flat_map(|s| [(s, 0.2, true), (s, 0.0, true), (s, 0.7, false), (s, 1.0, true)]);
        cases.fold(start, |row, (sizes, p, train)| {
            row.sample(vec![Array::fill(sizes, 0.5..2.0, 1).into(), p.into(), train.into()])
        })
    };
    let share = |a: &[Arg]| if a[2].flag() { a[1].number() } else { 0.0 };
    let holds = move |a: &[Arg], results: &[Array]| dropped(a[0].array(), &results[0], share(a));
    let mask = Arg::Typed(Array::fill(&[3, 4], 0.0..2.0, 5).map(f64::floor), Bool);
    vec![
        calls("dropout").property(holds),
        calls("dropout_").property(holds),
        calls("native_dropout").property(move |a, results| {
            holds(a, results)?;
            let agrees = results[0]
                .data
                .iter()
                .zip(&results[1].data)
                .all(|(y, m)| share(a) == 1.0 || (*y != 0.0) == (*m != 0.0));
            ensure(agrees, || "expected the mask to tell what is left".to_string())
        }),
        row("native_dropout_backward")
            .types(FLOATS)
            .sample(vec![Array::fill(&[3, 4], -2.0..2.0, 1).into(), mask, 1.25.into()])
            .reference(|a| vec![a[0].array().zip(a[1].array(), |g, m| 1.25 * g * m)]),
    ]
}

/// The infimum of SELU, without its sign.
const NEGATED_INFIMUM: f64 = 1.0507009873554805 * 1.6732632423543772;

/// What becomes of `x` where it stays and where it is dropped, in dropout that keeps mean and variance.
fn of_alpha(x: f64, p: f64) -> [f64; 2] {
    let a = ((1.0 - p) * (1.0 + p * NEGATED_INFIMUM * NEGATED_INFIMUM)).powf(-0.5);
    [a * x + a * p * NEGATED_INFIMUM, a * p * NEGATED_INFIMUM - a * NEGATED_INFIMUM]
}

/// Whether every channel of so many elements is either kept or dropped, a share of `p` of them the latter.
fn dropped_channels(x: &Array, made: &Array, p: f64, channel: usize, alpha: bool) -> Told {
    let becomes = |x: f64| if alpha { of_alpha(x, p) } else { [x / (1.0 - p), 0.0] };
    let near = |x: f64, y: f64| (x - y).abs() <= 2f64.powi(-6) * (1.0 + x.abs());
    let all = |kept_or_dropped: usize, n: usize| {
        let elements = n * channel..(n + 1) * channel;
        elements
            .into_iter()
            .all(|i| near(if p == 1.0 { 0.0 } else { becomes(x.data[i])[kept_or_dropped] }, made.data[i]))
    };
    let count = made.data.len() / channel.max(1);
    let gone = (0..count).filter(|n| !all(0, *n)).count();
    let stray = (0..count).find(|n| !all(0, *n) && !all(1, *n));
    ensure(stray.is_none(), || format!("channel {stray:?} is neither kept nor dropped"))?;
    let (n, share) = (count as f64, gone as f64 / count.max(1) as f64);
    let likely = n < 1000.0 || p == 1.0 || (share - p).abs() <= 5.0 * (p * (1.0 - p) / n).sqrt();
    ensure(likely, || format!("expected a share of {p} dropped but got {share}"))
}

fn dropouts_of_channels() -> Vec<Row> {
    let kinds = [
        ("feature_dropout", true, false),
        ("feature_dropout_", true, false),
        ("alpha_dropout", false, true),
        ("alpha_dropout_", false, true),
        ("feature_alpha_dropout", true, true),
        ("feature_alpha_dropout_", true, true),
    ];
    let sizes: [&[usize]; 4] = [&[2, DRAWS / 2], &[DRAWS / 4, 4, 2], &[0, 2], &[2, 3, 2, 2]];
    let make = |(name, features, alpha): (&'static str, bool, bool)| {
        let cases =
            sizes.iter().flat_map(|s| [(s, 0.2, true), (s, 0.0, true), (s, 0.7, false), (s, 1.0, true)]);
        let filled = cases.fold(row(name).types(FLOATS), |row, (sizes, p, train)| {
            row.sample(vec![Array::fill(sizes, 0.5..2.0, 1).into(), p.into(), train.into()])
        });
        let probable = vec![zeros(&[3, 3]).into(), 1.5.into(), true.into()];
        let held = filled.refuses(probable, ErrorKind::InvalidArgument, "between 0 and 1").property(
            move |a: &[Arg], results: &[Array]| {
                let (x, p) = (a[0].array(), a[1].number());
                if p == 0.0 || !a[2].flag() {
                    return ensure(*x == results[0], || "expected the input".to_string());
                }
                let channel = if features { x.sizes[2..].iter().product() } else { 1 };
                dropped_channels(x, &results[0], p, channel, alpha)
            },
        );
        let flat = vec![zeros(&[3]).into(), 0.5.into(), true.into()];
        if features { held.refuses(flat, ErrorKind::Shape, "at least 2 dimensions") } else { held }
    };
    kinds.into_iter().map(make).collect()
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [in_place(), made(), permutations(), dropouts(), dropouts_of_channels()].into_iter().flatten().collect()
}
