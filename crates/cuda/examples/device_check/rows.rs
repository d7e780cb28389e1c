//! The rows of the operator table on the device and on the host, and twice on the device.

use super::{DEVICE, is_quick};
use flambeau::dispatch::{DispatchKey, OperatorInfo, Value};
use flambeau::{Complex, Device, ErrorKind, Result, ScalarType, Tensor, TensorOptions};
use flambeau_tests::call::{array, operator, seeded, values};
use flambeau_tests::op_db;
use flambeau_tests::row::{Arg, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The types that are compared.
const TYPES: [ScalarType; 7] = [
    ScalarType::F32,
    ScalarType::I64,
    ScalarType::Bool,
    ScalarType::F16,
    ScalarType::BF16,
    ScalarType::F64,
    ScalarType::I32,
];

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
enum Memory {
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

fn arguments(sample: &[Arg], dtype: ScalarType, device: Device, memory: Memory) -> Result<Vec<Value>> {
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
    Alike,
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

/// The first element that differs by more than the bound, as text.
fn difference(row: &Row, here: &Tensor, there: &Tensor) -> Option<String> {
    if (here.sizes(), here.dtype()) != (there.sizes(), there.dtype()) {
        return Some(format!("{} on the host, {} on the device", here.signature(), there.signature()));
    }
    let (a, b) = (array(here), array(there));
    // Twice the bound of the row, and no less than what the functions of CUDA are off by.
    let allowed = (2.0 * row.ulps).max(8.0) * epsilon(here.dtype());
    // Of a complex number both parts are off by as much as its size allows, and a product of two is four products, whose sum may be small.
    let (width, factor, smallest) = if here.is_complex() { (2, 4.0, 1.0) } else { (1, 1.0, 0.0) };
    let size = |i: usize| a.data[i / width * width..][..width].iter().fold(0.0, |all: f64, x| all.hypot(*x));
    let differs = |i: &usize| {
        let (a, b) = (a.data[*i], b.data[*i]);
        let close = (a - b).abs() <= factor * allowed * size(*i).max(row.terms).max(smallest);
        !(a == b || close || (a.is_nan() && b.is_nan()))
    };
    let at = (0..a.data.len()).find(differs)?;
    Some(format!("element {at} is {:e} on the host, {:e} on the device", a.data[at], b.data[at]))
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
            let pairs = here.iter().zip(&there);
            match pairs.filter_map(|(a, b)| difference(row, a, b)).next() {
                _ if here.len() != there.len() => Outcome::Fault("the number of results differs".to_owned()),
                Some(difference) => Outcome::Fault(difference),
                None => Outcome::Alike,
            }
        }
        (Ok(_), Ok(_)) => Outcome::Alike,
        (Err(_), Err(_)) => Outcome::Neither,
        (_, Err(error)) if error.kind() == ErrorKind::NotImplemented => Outcome::Missing(error.to_string()),
        (Ok(_), Err(error)) => Outcome::Fault(format!("only the device refuses: {error}")),
        (Err(error), Ok(_)) => Outcome::Fault(format!("only the host refuses: {error}")),
    }
}

/// What came of all cases.
#[derive(Default)]
struct Report {
    rows: BTreeSet<&'static str>,
    cases: usize,
    neither: usize,
    skipped: usize,
    missing: BTreeMap<&'static str, String>,
    faulty: BTreeMap<&'static str, (usize, String)>,
}

impl Report {
    fn note(&mut self, name: &'static str, dtype: ScalarType, outcome: Outcome) {
        match outcome {
            Outcome::Alike => self.cases += 1,
            Outcome::Neither => self.neither += 1,
            Outcome::Missing(message) => _ = self.missing.entry(name).or_insert(message),
            Outcome::Fault(message) => {
                self.faulty.entry(name).or_insert((0, format!("{dtype}: {message}"))).0 += 1;
            }
        }
    }
}

/// Every row, forward, against the host.
pub(super) fn against_the_host() -> Result<usize> {
    compare_all(if is_quick() { &TYPES[..3] } else { &TYPES }, Memory::Dense, 1.0)
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
    compare_all(&[ScalarType::Complex64], Memory::Dense, 0.5)
}

/// The same in one type, with arguments that have other strides on the device.
pub(super) fn layouts() -> Result<usize> {
    compare_all(&TYPES[..1], Memory::Strided, 0.5)
}

/// Compares in several threads, since most of the time goes into compiling kernels.
fn compare_all(types: &[ScalarType], memory: Memory, part: f64) -> Result<usize> {
    const THREADS: usize = 8;
    let (deadline, report) = (deadline(part), Mutex::new(Report::default()));
    let rows = op_db::rows();
    let cases = types.iter().flat_map(|dtype| rows.iter().map(move |row| (*dtype, row)));
    let named = std::env::var("FLAMBEAU_CHECK_ROWS").unwrap_or_default();
    let is_case = |(dtype, row): &(ScalarType, &Row)| {
        (named.is_empty() || named.split(',').any(|name| row.name.contains(name)))
            && (row.types.contains(dtype) || dtype.is_complex())
            && (memory == Memory::Dense || !BY_MEMORY.contains(&row.name))
    };
    let cases: Vec<(ScalarType, &Row)> = cases.filter(is_case).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((dtype, row)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(op) = operator(row.name) else { continue };
            if Instant::now() > deadline {
                report.lock().unwrap_or_else(PoisonError::into_inner).skipped += 1;
                continue;
            }
            // On a slow device some samples stand for all of the second kind of numbers.
            let samples = if is_quick() && dtype.is_complex() { 3 } else { usize::MAX };
            for sample in row.samples.iter().take(samples) {
                let outcome = compare(row, op, sample, *dtype, memory);
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.rows.insert(row.name);
                report.note(row.name, *dtype, outcome);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    let Report { rows, cases, neither, skipped, missing, faulty } =
        report.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} rows, {cases} cases alike, {neither} that neither takes, {skipped} skipped for time",
        rows.len()
    );
    println!("{} rows have cases without a kernel:", missing.len());
    missing.iter().for_each(|(name, message)| println!("  missing {name}: {message:.160}"));
    let exceptional = unlisted(&missing);
    faulty.iter().for_each(|(name, (count, message))| println!("  FAULT {name} ({count}): {message:.300}"));
    Ok(faulty.len() + exceptional)
}

/// Prints what is missing and no exception, and what is an exception and not missing; returns how many there are.
fn unlisted(missing: &BTreeMap<&'static str, String>) -> usize {
    let exceptions = exceptions();
    let is_listed = |(name, message): &(&&str, &String)| {
        exceptions.iter().any(|exception| *exception == **name || message.contains(exception))
    };
    println!(
        "{} exceptions: {}",
        exceptions.len(),
        exceptions.iter().copied().collect::<Vec<_>>().join(", ")
    );
    let mut faults = usize::from(exceptions.len() > MAX_EXCEPTIONS);
    for (name, _) in missing.iter().filter(|row| !is_listed(row)) {
        println!("  FAULT {name} has no kernel, and is no exception");
        faults += 1;
    }
    for name in exceptions {
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
        if !row.types.contains(&ScalarType::F32) || row.unset.is_some() || Instant::now() > deadline {
            continue;
        }
        for sample in row.samples.iter().take(3) {
            let call = || seeded(op, &arguments(sample, ScalarType::F32, DEVICE, Memory::Dense)?, 1);
            let (Ok(first), Ok(second)) = (call(), call()) else { continue };
            let bits = |t: &Tensor| -> Vec<u64> { array(t).data.iter().map(|x| x.to_bits()).collect() };
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
