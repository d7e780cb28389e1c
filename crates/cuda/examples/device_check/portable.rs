//! Elementwise operators with the host's mathematical functions: the same bits as on the host.

use super::rows::{Memory, arguments, bits, in_threads, may_run, other_bits};
use super::{DEVICE, is_all_types};
use flambeau::dispatch::{DispatchKey, OperatorInfo};
use flambeau::{Device, ErrorKind, Result, ScalarType, Tensor};
use flambeau_cuda::testing::TYPES;
use flambeau_cuda::{Math, set_math};
use flambeau_tests::call::{operator, seeded};
use flambeau_tests::op_db;
use flambeau_tests::row::{Arg, Row};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Rows that have other bits in some type, a reason before each group.
const EXCEPTIONS: &str = include_str!("portable_exceptions.txt");

/// The results on the host and on the device.
fn results(op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Result<[Vec<Tensor>; 2]> {
    let call = |device| seeded(op, &arguments(sample, dtype, device, Memory::Dense)?, 1);
    Ok([call(Device::CPU)?, call(DEVICE)?])
}

/// Every elementwise row.
pub(super) fn of_rows() -> Result<usize> {
    set_math(Math::Portable);
    let done = compare_all();
    set_math(Math::Native);
    done
}

fn compare_all() -> Result<usize> {
    let exceptions: BTreeSet<&str> =
        EXCEPTIONS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let types = if is_all_types() { &TYPES } else { &TYPES[..1] };
    let has_kernel = |row: &Row| operator(row.name).is_some_and(|op| op.has_kernel(DispatchKey::Cuda));
    let rows: Vec<Row> =
        op_db::rows().into_iter().filter(|row| row.pointwise && has_kernel(row) && may_run(row)).collect();
    let differing = Mutex::new(BTreeSet::new());
    let digests = Mutex::new(BTreeSet::new());
    let report = in_threads(&rows, 1.0, |row, notes| {
        let Some(op) = operator(row.name) else { return };
        let mut digest = DefaultHasher::new();
        for (dtype, sample) in
            types.iter().flat_map(|dtype| row.samples.iter().map(move |sample| (*dtype, sample)))
        {
            if !row.types.contains(&dtype) || row.unset.is_some() {
                continue;
            }
            let outcome = results(op, sample, dtype);
            notes.with(|report| match &outcome {
                Ok([here, there]) => match here.iter().zip(there).find_map(|(a, b)| other_bits(a, b)) {
                    None => report.alike(row.name),
                    Some(text) if exceptions.contains(row.name) => {
                        report.skipped += 1;
                        differing.lock().unwrap_or_else(PoisonError::into_inner).insert((row.name, text));
                    }
                    Some(text) => report.fault(row.name, dtype, text),
                },
                Err(error) if error.kind() == ErrorKind::NotImplemented => {
                    report.lacks(row.name, error.to_string())
                }
                Err(_) => report.neither += 1,
            });
            if let Ok([_, there]) = &outcome {
                there.iter().for_each(|t| bits(t).hash(&mut digest));
            }
        }
        digests.lock().unwrap_or_else(PoisonError::into_inner).insert((row.name, digest.finish()));
    });
    report.print("elementwise rows with the host's bits");
    let differing = differing.into_inner().unwrap_or_else(PoisonError::into_inner);
    let differs: BTreeSet<&str> = differing.iter().map(|(name, _)| *name).collect();
    println!("{} exceptions have other bits in these types", differs.len());
    let mut unused = 0;
    // Some differ in f64 or in half precision only.
    let is_run = |name: &str| is_all_types() && rows.iter().any(|row| row.name == name);
    for name in exceptions.iter().filter(|name| is_run(name) && !differs.contains(*name)) {
        println!("  FAULT {name} is an exception, but has the host's bits");
        unused += 1;
    }
    let digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut all = DefaultHasher::new();
    digests.hash(&mut all);
    println!("digest of {} elementwise rows: {:016x}", digests.len(), all.finish());
    Ok(report.faults() + report.missing.len() + unused)
}
