//! The rows of the operator table on the device and on the host, and twice on the device.

use super::{DEVICE, is_all_types, is_quick};
use flambeau::dispatch::{DispatchKey, OperatorInfo, Value};
use flambeau::{Complex, Device, ErrorKind, Result, ScalarType, Tensor, TensorOptions};
use flambeau_cuda::testing::TYPES;
use flambeau_tests::call::{array, operator, seeded, values};
use flambeau_tests::op_db;
use flambeau_tests::row::{Arg, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many of the types are compared where not all are.
const QUICK_TYPES: usize = 4;

/// How long the rows may take, in seconds, unless `FLAMBEAU_CHECK_SECONDS` says otherwise. `FLAMBEAU_CHECK_ROWS` has parts of the names of
/// rows, after commas, to which the checks are restricted.
const SECONDS: u64 = 110;

/// When this part of that time is over.
fn deadline(part: f64) -> Instant {
    let seconds = std::env::var("FLAMBEAU_CHECK_SECONDS").ok().and_then(|text| text.parse().ok());
    Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS)).mul_f64(part)
}

/// The operators without a kernel, and rows that need what programs do not have, a reason before each group. The list only shrinks: a row
/// for which another kernel is missing fails, and so does an operator that is in the list and has a kernel.
const EXCEPTIONS: &str = include_str!("exceptions.txt");

/// There may be so many.
const MAX_EXCEPTIONS: usize = 20;

fn exceptions() -> BTreeSet<&'static str> {
    EXCEPTIONS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// How the elements of arguments lie in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Dense,
    /// Every other element, and the last two dimensions exchanged.
    Strided,
}

/// The same values with other strides.
fn strided(t: &Tensor) -> Result<Tensor> {
    let exchanged = |t: &Tensor| if t.dim() < 2 { Ok(t.clone()) } else { t.transpose(-1, -2) };
    let with_gaps = exchanged(t)?.unsqueeze(-1)?;
    let mut sizes = with_gaps.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = 2;
    }
    exchanged(&with_gaps.expand(&sizes)?.contiguous()?.select(-1, 0)?)
}

/// Complex numbers with another angle; real ones as they are.
fn with_imaginary_parts(t: Tensor) -> Tensor {
    let rotated = t.is_complex().then(|| t.mul_scalar(Complex::new(0.8, 0.6)));
    rotated.and_then(Result::ok).unwrap_or(t)
}

pub(super) fn arguments(
    sample: &[Arg],
    dtype: ScalarType,
    device: Device,
    memory: Memory,
) -> Result<Vec<Value>> {
    let to = |t: &Tensor| -> Result<Tensor> {
        let moved = t.to(TensorOptions::from((t.dtype(), device)))?;
        if memory == Memory::Strided { strided(&moved) } else { Ok(moved) }
    };
    let all = values(sample, &mut |array| with_imaginary_parts(flambeau_tests::call::tensor(array, dtype)));
    let each = |value| {
        Ok(match value {
            Value::Tensor(t) => Value::Tensor(to(&t)?),
            Value::Tensors(list) => Value::Tensors(list.iter().map(to).collect::<Result<_>>()?),
            Value::Device(_) => Value::Device(device),
            other => other,
        })
    };
    all.into_iter().map(each).collect()
}

/// What came of a case.
enum Outcome {
    /// The largest difference, as a part of what is allowed.
    Alike(f64),
    /// Neither takes it.
    Neither,
    /// The device has no kernel for it.
    Missing(String),
    Fault(String),
}

/// The unit roundoff of a type, 0 for integers.
fn epsilon(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::F64 | ScalarType::Complex128 => f64::EPSILON,
        ScalarType::F32 | ScalarType::Complex64 => f64::from(f32::EPSILON),
        ScalarType::F16 => 2f64.powi(-10),
        ScalarType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    }
}

/// Times the bound of real numbers by which a part of a complex number may be off, relative to the number's size.
///
/// A part is one term, or the sum of two: `ar br - ai bi` of a product, `e^x cos y` of a function, `(ar br + ai bi) / (br^2 + bi^2)` of a
/// quotient. A term has at most three factors, each of which is a real number within the bound of real ones, so that it is off by three times
/// that. The sizes of the two terms add up to at most that of the number, by the inequality of Cauchy and Schwarz. To that come the roundings
/// of two products and of the sum, together 1.5 units of roundoff, which is less than another bound.
const COMPLEX_FACTOR: f64 = 3.0 + 1.0;

/// Of a sum whose terms cancel, the size of these counts, which is about 1 in the samples of complex numbers.
const COMPLEX_TERMS: f64 = 1.0;

/// The largest difference of two elements, as a part of what is allowed; as text, if it is more than that.
fn difference(row: &Row, here: &Tensor, there: &Tensor) -> Result<f64, String> {
    if (here.sizes(), here.dtype()) != (there.sizes(), there.dtype()) {
        return Err(format!("{} on the host, {} on the device", here.signature(), there.signature()));
    }
    let (a, b) = (array(here), array(there));
    // Twice the bound of the row, and no less than what the functions of CUDA are off by.
    let allowed = (2.0 * row.ulps).max(8.0) * epsilon(here.dtype());
    let (width, factor, terms) = if here.is_complex() {
        (2, COMPLEX_FACTOR, row.terms.max(COMPLEX_TERMS))
    } else {
        (1, 1.0, row.terms)
    };
    let size = |i: usize| a.data[i / width * width..][..width].iter().fold(0.0, |all: f64, x| all.hypot(*x));
    let mut worst = 0.0f64;
    for (i, (&x, &y)) in a.data.iter().zip(&b.data).enumerate() {
        if x == y || (x.is_nan() && y.is_nan()) {
            continue;
        }
        let part = (x - y).abs() / (factor * allowed * size(i).max(terms));
        if part > 1.0 || part.is_nan() {
            return Err(format!("element {i} is {x:e} on the host, {y:e} on the device"));
        }
        worst = worst.max(part);
    }
    Ok(worst)
}

fn compare(row: &Row, op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType, memory: Memory) -> Outcome {
    let call = |device: Device, memory| seeded(op, &arguments(sample, dtype, device, memory)?, 1);
    let here = call(Device::CPU, Memory::Dense);
    if dtype.is_complex() && here.is_err() {
        // No row says whether it takes complex numbers: the host does.
        return Outcome::Neither;
    }
    let there = call(DEVICE, memory);
    match (here, there) {
        (Ok(here), Ok(there)) if row.unset.is_none() => {
            let mut each = here.iter().zip(&there).map(|(a, b)| difference(row, a, b));
            match each.try_fold(0.0, |worst: f64, part| part.map(|part| worst.max(part))) {
                _ if here.len() != there.len() => Outcome::Fault("the number of results differs".to_owned()),
                Err(difference) => Outcome::Fault(difference),
                Ok(worst) => Outcome::Alike(worst),
            }
        }
        (Ok(_), Ok(_)) => Outcome::Alike(0.0),
        (Err(_), Err(_)) => Outcome::Neither,
        (_, Err(error)) if error.kind() == ErrorKind::NotImplemented => Outcome::Missing(error.to_string()),
        (Ok(_), Err(error)) => Outcome::Fault(format!("only the device refuses: {error}")),
        (Err(error), Ok(_)) => Outcome::Fault(format!("only the host refuses: {error}")),
    }
}

/// What came of all cases.
#[derive(Default)]
pub(super) struct Report {
    rows: BTreeSet<&'static str>,
    cases: usize,
    pub(super) neither: usize,
    pub(super) skipped: usize,
    /// What the time did not suffice for.
    not_reached: usize,
    pub(super) missing: BTreeMap<&'static str, String>,
    faulty: BTreeMap<&'static str, (usize, String)>,
    /// The largest difference, as a part of what is allowed.
    worst: f64,
}

impl Report {
    fn note(&mut self, name: &'static str, dtype: ScalarType, outcome: Outcome) {
        self.rows.insert(name);
        match outcome {
            Outcome::Alike(part) => {
                self.alike(name);
                self.worst = self.worst.max(part);
            }
            Outcome::Neither => self.neither += 1,
            Outcome::Missing(message) => self.lacks(name, message),
            Outcome::Fault(message) => self.fault(name, dtype, message),
        }
    }

    pub(super) fn alike(&mut self, name: &'static str) {
        self.rows.insert(name);
        self.cases += 1;
    }

    /// Notes that the device has no kernel.
    pub(super) fn lacks(&mut self, name: &'static str, message: String) {
        self.rows.insert(name);
        self.missing.entry(name).or_insert(message);
    }

    pub(super) fn fault(&mut self, name: &'static str, dtype: ScalarType, message: String) {
        self.rows.insert(name);
        self.faulty.entry(name).or_insert((0, format!("{dtype}: {message}"))).0 += 1;
    }

    /// Rows that were not reached are faults in the quick tier, which has all the time that it needs.
    pub(super) fn faults(&self) -> usize {
        self.faulty.len() + if is_quick() { self.not_reached } else { 0 }
    }

    pub(super) fn print(&self, what: &str) {
        let Report { rows, cases, neither, skipped, not_reached, missing, faulty, worst } = self;
        println!(
            "{what}: {} rows, {cases} cases alike, {neither} that neither takes, {skipped} skipped",
            rows.len()
        );
        if *not_reached > 0 {
            println!("{what}: {not_reached} were not reached in the time that there is");
        }
        if *worst > 0.0 {
            println!("{what}: the largest difference is {worst:.2} of what is allowed");
        }
        // A message begins with the operator that has no kernel.
        let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
        for message in missing.values() {
            *operators.entry(message.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        let operators: Vec<String> =
            operators.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("{what}: {} rows have cases without a kernel: {}", missing.len(), operators.join(", "));
        faulty
            .iter()
            .for_each(|(name, (count, message))| println!("  FAULT {name} ({count}): {message:.300}"));
    }
}

/// A report that several threads write.
pub(super) struct Notes(Mutex<Report>);

impl Notes {
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut Report) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Calls `work` with each item in several threads, since most of the time goes into compiling kernels; those that come after a part of the
/// time is over are counted.
pub(super) fn in_threads<T: Sync>(items: &[T], part: f64, work: impl Fn(&T, &Notes) + Sync) -> Report {
    const THREADS: usize = 8;
    let (deadline, notes, next) = (deadline(part), Notes(Mutex::default()), AtomicUsize::new(0));
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            match Instant::now() > deadline {
                true => notes.with(|report| report.not_reached += 1),
                false => work(item, &notes),
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(run)));
    notes.0.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the environment restricts the checks to other rows.
pub(super) fn may_run(row: &Row) -> bool {
    let named = std::env::var("FLAMBEAU_CHECK_ROWS").unwrap_or_default();
    named.is_empty() || named.split(',').any(|name| row.name.contains(name))
}

/// The bits of all elements, as f64.
pub(super) fn bits(t: &Tensor) -> Vec<u64> {
    array(t).data.iter().map(|x| x.to_bits()).collect()
}

/// Every row, forward, against the host.
pub(super) fn against_the_host() -> Result<usize> {
    compare_all("rows", if is_all_types() { &TYPES } else { &TYPES[..QUICK_TYPES] }, Memory::Dense, 1.0)
}

/// Operators that read memory in its own order, so that other strides give other values, or that refuse some strides; and those of complex
/// numbers that have no copy with other strides on the device.
const BY_MEMORY: [&str; 12] = [
    "as_strided",
    "as_strided_",
    "as_strided_copy",
    "as_strided_scatter",
    "resize_",
    "resize_as_",
    "view",
    "view_as",
    "view_as_complex",
    "view_as_real",
    "imag",
    "istft",
];

/// The same with complex numbers, for which the rows have no reference, and which the host takes or refuses by itself.
pub(super) fn of_complex_numbers() -> Result<usize> {
    let types = [ScalarType::Complex64, ScalarType::Complex128];
    compare_all("complex", if is_all_types() { &types } else { &types[..1] }, Memory::Dense, 0.5)
}

/// The same in one type, with arguments that have other strides on the device.
pub(super) fn layouts() -> Result<usize> {
    compare_all("layouts", &TYPES[..1], Memory::Strided, 0.5)
}

fn compare_all(what: &str, types: &[ScalarType], memory: Memory, part: f64) -> Result<usize> {
    let rows = op_db::rows();
    let cases = types.iter().flat_map(|dtype| rows.iter().map(move |row| (*dtype, row)));
    let is_case = |(dtype, row): &(ScalarType, &Row)| {
        may_run(row)
            && (row.types.contains(dtype) || dtype.is_complex())
            && (memory == Memory::Dense || !BY_MEMORY.contains(&row.name))
    };
    let cases: Vec<(ScalarType, &Row)> = cases.filter(is_case).collect();
    let report = in_threads(&cases, part, |(dtype, row), notes| {
        let Some(op) = operator(row.name) else { return };
        // On a slow device some samples stand for all of the second kind of numbers.
        let samples = if is_quick() && dtype.is_complex() { 3 } else { usize::MAX };
        for sample in row.samples.iter().take(samples) {
            let outcome = compare(row, op, sample, *dtype, memory);
            notes.with(|report| report.note(row.name, *dtype, outcome));
        }
    });
    report.print(what);
    Ok(report.faults() + unlisted(&report.missing, true))
}

/// The first element that has other bits, of tensors of the same sizes, as text. All NaN are alike.
pub(super) fn other_bits(expected: &Tensor, found: &Tensor) -> Option<String> {
    let (a, b) = (array(expected), array(found));
    let is_same = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    let at = a.data.iter().zip(&b.data).position(|pair| !is_same(pair))?;
    Some(format!("element {at} is {:e} instead of {:e}", b.data[at], a.data[at]))
}

/// Prints what is missing and no exception, and of the whole list what is an exception and not missing; returns how many there are.
pub(super) fn unlisted(missing: &BTreeMap<&'static str, String>, is_whole: bool) -> usize {
    let exceptions = exceptions();
    let is_listed = |(name, message): &(&&str, &String)| {
        exceptions.iter().any(|exception| *exception == **name || message.contains(exception))
    };
    if is_whole {
        let names: Vec<&str> = exceptions.iter().copied().collect();
        println!("{} exceptions: {}", names.len(), names.join(", "));
    }
    let mut faults = usize::from(exceptions.len() > MAX_EXCEPTIONS);
    for (name, message) in missing.iter().filter(|row| !is_listed(row)) {
        println!("  FAULT {name} has no kernel, and is no exception: {message:.160}");
        faults += 1;
    }
    for name in exceptions.into_iter().filter(|_| is_whole) {
        if operator(name).is_none_or(|op| op.has_kernel(DispatchKey::Cuda)) {
            println!("  FAULT {name} is an exception, but has a kernel or does not exist");
            faults += 1;
        }
    }
    faults
}

/// The first samples of every row, twice: the same bits. Other runs, on any device, can compare the digest.
pub(super) fn repeated() -> Result<usize> {
    let (deadline, mut cases, mut faults) = (deadline(0.25), 0, 0);
    let mut digest = DefaultHasher::new();
    for row in op_db::rows() {
        let Some(op) = operator(row.name) else { continue };
        if !may_run(&row)
            || !row.types.contains(&ScalarType::F32)
            || row.unset.is_some()
            || Instant::now() > deadline
        {
            continue;
        }
        for sample in row.samples.iter().take(3) {
            let call = || seeded(op, &arguments(sample, ScalarType::F32, DEVICE, Memory::Dense)?, 1);
            let (Ok(first), Ok(second)) = (call(), call()) else { continue };
            cases += 1;
            first.iter().for_each(|t| (row.name, bits(t)).hash(&mut digest));
            if first.iter().zip(&second).any(|(a, b)| bits(a) != bits(b)) {
                faults += 1;
                println!("  FAULT {}: other bits the second time", row.name);
            }
        }
    }
    println!("{cases} calls twice");
    println!("digest of {cases} calls: {:016x}", digest.finish());
    Ok(faults)
}
