//! The same bits for any number of threads, of samples as they are and enlarged until several threads work on them.

use flambeau_core::{Result, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::OperatorInfo;
use flambeau_ops::parallel::set_num_threads;
use flambeau_tests::call::{array, call, is_random, operator, seeded, tensor, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::enlarge::{Enlargement, LARGE, elements, enlarged, enlargements, has_no_elements, rank};
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check, Row};
use std::sync::{Mutex, PoisonError};

/// One thread, as many as there are on small machines, and numbers that divide no power of two.
const THREADS: [usize; 4] = [1, 2, 3, 7];
/// Samples of a row that are tried until one can be enlarged.
const TRIED: usize = 6;

/// Steps in which a sample is enlarged, and by how much each at most.
const STEPS: usize = 8;
const MOST: f64 = 8.0;
/// Enlargements that are tried, of those by which the results become larger.
const ATTEMPTS: usize = 5;

/// Rows whose results have elements that are not set where they are larger than an operand was.
const UNSET: &[&str] = &["resize_", "resize_as_"];

/// What could be enlarged of a row.
enum Large {
    /// The results are large: kernels split them among threads.
    Results(Vec<Arg>),
    /// The operands are, the results cannot be: sums over everything.
    Operands(Vec<Arg>),
    /// Why neither.
    Neither(String),
}

/// Held while the number of threads is set, which is global and differs between the tests of this file.
static ALONE: Mutex<()> = Mutex::new(());

fn on(threads: usize, op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Result<Vec<Tensor>> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_num_threads(threads);
    call(op, sample, dtype)
}

fn count(results: &[Tensor]) -> usize {
    results.iter().map(|t| t.numel() as usize).max().unwrap_or(0)
}

/// The sample after repeated application of one enlargement, until its results are large; `None` where they never are. It goes in
/// steps, since the growth by a factor of two does not tell that by a factor of a hundred.
fn enlarged_results(
    (op, dtype): (&dyn OperatorInfo, ScalarType),
    sample: &[Arg],
    enlargement: &Enlargement,
    [once, twice]: [usize; 2],
) -> Option<Vec<Arg>> {
    let power = (twice as f64 / once as f64).log2();
    let (mut factor, mut now) = (2, twice);
    for _ in 0..STEPS {
        let step = (1.02 * LARGE as f64 / now as f64).powf(1.0 / power).ceil();
        factor *= step.clamp(2.0, MOST) as usize;
        let enlarged_results = enlarged(sample, enlargement, factor)?;
        now = count(&on(1, op, &enlarged_results, dtype).ok()?);
        if now > LARGE {
            return Some(enlarged_results);
        }
    }
    None
}

/// The sample so large that its results are worth several threads, or its operands where results do not grow.
fn large(op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Large {
    let once = match on(1, op, sample, dtype) {
        Ok(results) => count(&results),
        Err(error) => return Large::Neither(format!("{error}")),
    };
    let (mut operands, mut reason, mut attempts) = (None, None, 0..ATTEMPTS);
    for enlargement in enlargements(sample) {
        let Some(double) = enlarged(sample, &enlargement, 2) else { continue };
        let twice = match on(1, op, &double, dtype) {
            Ok(results) => count(&results),
            Err(error) => {
                reason.get_or_insert(error.message().to_owned());
                continue;
            }
        };
        // Results that grow less than by the square root, as those of `unique`, would need too large operands.
        if once > 0
            && 2 * twice >= 3 * once
            && attempts.next().is_some()
            && let Some(enlarged_results) = enlarged_results((op, dtype), sample, &enlargement, [once, twice])
        {
            return Large::Results(enlarged_results);
        }
        if operands.is_none() && elements(&double) > elements(sample) {
            let enlarged_results = enlarged(sample, &enlargement, LARGE / elements(sample) + 1);
            operands = enlarged_results.filter(|enlarged_results| on(1, op, enlarged_results, dtype).is_ok());
        }
    }
    let reason = reason.unwrap_or_else(|| "no size of its operands makes anything large".to_owned());
    operands.map_or(Large::Neither(reason), Large::Operands)
}

/// The first of a row's samples that can be enlarged in its results, or else in its operands.
fn largest(row: &Row, op: &dyn OperatorInfo, dtype: ScalarType) -> Large {
    if UNSET.contains(&row.name) {
        return Large::Neither("elements that it adds are not set".to_owned());
    }
    let mut best = Large::Neither("no sample has elements".to_owned());
    // Multiples of no elements are no elements.
    let mut worth: Vec<_> = row.samples.iter().filter(|sample| !has_no_elements(sample)).collect();
    // Samples with the most dimensions first: they have a batch dimension that can be enlarged.
    worth.sort_by_key(|sample| std::cmp::Reverse(rank(sample)));
    for sample in worth.into_iter().take(TRIED) {
        match (large(op, sample, dtype), &best) {
            (found @ Large::Results(_), _) => return found,
            (found, Large::Neither(_)) => best = found,
            _ => {}
        }
    }
    best
}

fn compared(row: &Row, op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Option<String> {
    let one = on(1, op, sample, dtype).ok()?;
    THREADS[1..].iter().find_map(|threads| match on(*threads, op, sample, dtype) {
        Ok(more) => one.iter().zip(&more).find_map(|(a, b)| bit_difference(a, b)),
        Err(error) => Some(format!("{} is refused by {threads} threads: {error}", row.name)),
    })
}

fn type_of(row: &Row) -> ScalarType {
    if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] }
}

fn check_row(row: &Row, report: &mut Report) {
    let Some(op) = operator(row.name) else { return };
    for (number, sample) in row.samples.iter().enumerate() {
        let fault = compared(row, op, sample, type_of(row));
        report.case(|| format!("{} sample {number}", row.name), fault);
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

/// So much address space for one process: an enlarged sample that needs more is `OutOfMemory`, and another enlargement is tried.
const MEMORY: u64 = 4 << 30;

/// Bounds the memory of this process, where the system can.
#[allow(unsafe_code, reason = "sets a limit of the process")]
fn bound_memory() {
    #[cfg(target_os = "linux")]
    // SAFETY: the struct lives as long as the call.
    unsafe {
        let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
        libc::setrlimit(libc::RLIMIT_AS, &limit);
    }
}

#[test]
fn threads_do_not_change_a_bit_of_large_results() {
    bound_memory();
    let mut report = Report::new(Check::Determinism);
    let (mut results, mut operands, mut neither) = (0, vec![], vec![]);
    for row in op_db::rows() {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(&row) {
            continue;
        }
        let dtype = type_of(&row);
        let sample = match largest(&row, op, dtype) {
            Large::Results(sample) => {
                results += 1;
                sample
            }
            Large::Operands(sample) => {
                operands.push(row.name);
                sample
            }
            Large::Neither(reason) => {
                neither.push((row.name, reason));
                continue;
            }
        };
        report.case(|| format!("{} enlarged", row.name), compared(&row, op, &sample, dtype));
    }
    println!(
        "Large: {results} rows by their results, {} by their operands alone, {} not",
        operands.len(),
        neither.len()
    );
    println!("  by operands alone: {}", operands.join(", "));
    neither.iter().for_each(|(name, reason)| println!("  not {name}: {reason}"));
    report.finish();
}
