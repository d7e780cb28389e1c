//! The same bits for one thread and for two.

use flambeau_core::ScalarType;
use flambeau_ops::parallel::set_num_threads;
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, call, is_random, operator, seeded, tensor, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check, Row};

/// Elements that are worth several threads.
const LARGE: usize = 150_000;

/// A sample blown up until it is worth several threads: the first dimension of each tensor grows. Tensors of different
/// shapes stay as they are, since they would broadcast to something enormous.
fn enlarged(sample: &[Arg]) -> Vec<Arg> {
    let mut shapes =
        sample.iter().filter_map(|arg| if let Arg::Tensor(a) = arg { Some(&a.sizes) } else { None });
    let first = shapes.next();
    if shapes.any(|s| Some(s) != first) {
        return sample.to_vec();
    }
    let count = |arg: &Arg| if let Arg::Tensor(a) = arg { a.data.len() } else { 0 };
    let factor = LARGE.div_ceil(sample.iter().map(count).max().unwrap_or(0).max(1));
    let grow = |a: &Array| {
        let mut sizes = a.sizes.clone();
        if let Some(first) = sizes.first_mut() {
            *first *= factor;
        }
        let count = sizes.iter().product();
        Array::new(&sizes, a.data.iter().copied().cycle().take(count).collect())
    };
    let arg = |arg: &Arg| match arg {
        Arg::Tensor(a) if a.sizes.first().is_some_and(|s| *s > 1) => Arg::Tensor(grow(a)),
        other => other.clone(),
    };
    sample.iter().map(arg).collect()
}

/// The samples as they are; of pointwise formulas, for which size alone matters, one of them large.
fn samples(row: &Row) -> Vec<Vec<Arg>> {
    let mut samples = row.samples.clone();
    let worth = |sample: &Vec<Arg>| matches!(&sample.first(), Some(Arg::Tensor(a)) if a.data.len() > 16);
    if row.pointwise
        && let Some(sample) = samples.iter_mut().find(|sample| worth(sample))
    {
        *sample = enlarged(sample);
    }
    samples
}

fn check_row(row: &Row, report: &mut Report) {
    let Some(op) = operator(row.name) else { return };
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    for (number, sample) in samples(row).iter().enumerate() {
        let on = |threads: usize| {
            set_num_threads(threads);
            call(op, sample, dtype)
        };
        if let (Ok(one), Ok(two)) = (on(1), on(2)) {
            let fault = one.iter().zip(&two).find_map(|(a, b)| bit_difference(a, b));
            report.case(|| format!("{} sample {number}", row.name), fault);
        }
    }
}

/// Random operators give other numbers for another seed, where there are enough of them to differ.
#[test]
fn another_seed_gives_other_numbers() {
    let mut operators = 0;
    for row in op_db::rows().iter().filter(|row| row.property.is_some() && !row.samples.is_empty()) {
        let op = operator(row.name).unwrap();
        let draw = |seed: u64| {
            let args = values(&row.samples[0], &mut |a| tensor(a, row.types[row.types.len() - 1]));
            array(&seeded(op, &args, seed).unwrap()[0])
        };
        if is_random(op) && draw(1).data.len() >= 16 {
            operators += 1;
            assert_ne!(draw(1), draw(2), "{}", row.name);
        }
    }
    println!("Seeds: {operators} rows");
    assert!(operators > 0);
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut report = Report::new(Check::Determinism);
    for row in op_db::rows() {
        if report.enter(&row) {
            check_row(&row, &mut report);
        }
    }
    report.finish();
}
